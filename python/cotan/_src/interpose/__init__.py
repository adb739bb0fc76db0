"""Overriding functions that NumPy does not dispatch while something is recorded."""
