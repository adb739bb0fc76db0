"""cotan in company of JAX, which is imported by the first call.

`wrap` makes a function of arrays of JAX out of a function of NumPy, with derivatives by cotan.
`lift` makes a function of ndarrays out of one of JAX, with derivatives by JAX.

>>> import cotan as ct
>>> import jax
>>> import numpy as np
>>> f = ct.jax.wrap(lambda x: np.sum(np.sin(x)))
>>> print(jax.jit(jax.grad(f))(jax.numpy.zeros(2)))
[1. 1.]
"""

from cotan._src.interop.jax_api import lift, wrap

__all__ = ["lift", "wrap"]
