"""Writes programs as C functions."""
