"""Gradients beyond one process: batches over executors, and ranks of MPI."""
