"""Functions of NumPy in programs of PyTorch and JAX, and theirs in recordings of cotan."""
