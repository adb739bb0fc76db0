"""Derivatives of the functions of `scipy.special`."""
