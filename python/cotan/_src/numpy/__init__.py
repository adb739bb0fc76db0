"""Rules for NumPy: its two protocols, and the functions and classes that these do not reach."""
