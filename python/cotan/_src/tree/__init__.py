"""Structures of arrays: how classes are flattened, tangents, and the selection of leaves."""
