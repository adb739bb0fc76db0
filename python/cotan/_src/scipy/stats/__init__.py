"""Rules for `scipy.stats`: distributions, sample statistics, kernel densities."""
