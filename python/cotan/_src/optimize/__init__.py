"""Minima, roots and fits over structures, with exact derivatives: SciPy's solvers for any model."""
