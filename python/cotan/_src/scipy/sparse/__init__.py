"""Rules for `scipy.sparse`: products, solves, spectra, and matrices with traced entries."""
