"""Rules for libraries other than NumPy and SciPy."""
