"""Mutable state that a function reaches: snapshots for solvers, guards for prepared functions."""
