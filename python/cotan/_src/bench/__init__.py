"""Comparing cotan with other libraries on this machine: workloads, workers, timing, bars."""
