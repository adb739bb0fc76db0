"""cotan in programs of JAX.

`wrap` makes a function of arrays of JAX out of a function of NumPy.
"""

from cotan._src.interop.jax_api import wrap

__all__ = ["wrap"]
