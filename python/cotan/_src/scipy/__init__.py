"""Rules for SciPy, in one package or module for each of SciPy's."""
