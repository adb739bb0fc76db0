"""Looking into programs and pullbacks: reports, pictures, and the origin of a NaN."""
