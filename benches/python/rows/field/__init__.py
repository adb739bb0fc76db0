"""Workloads from the field, written as users of NumPy write them; none is tuned for a library."""

from rows.field import dynamics, learning, sequences, statistics, vision

ROWS = [*statistics.ROWS, *vision.ROWS, *dynamics.ROWS, *sequences.ROWS, *learning.ROWS]
