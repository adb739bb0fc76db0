"""cotan in programs of PyTorch.

`wrap` makes a function of tensors out of a function of NumPy.
"""

from cotan._src.interop.torch_api import wrap

__all__ = ["wrap"]
