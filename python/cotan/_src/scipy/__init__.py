"""Rules for SciPy, one package or module for each of its own."""
