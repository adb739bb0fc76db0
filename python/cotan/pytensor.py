"""NumPy functions with cotan's derivatives as operations of PyTensor, for models of PyMC."""

from cotan._src.pytensor.wrap import wrap

__all__ = ["wrap"]
