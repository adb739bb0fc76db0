"""`numpy` with functions that accept `Array`s even where lifting is off.

>>> import cotan as ct
>>> import cotan.numpy as np
>>> def f(x):
...     out = np.zeros(2)
...     out[1] = x
...     return np.sum(np.array([out[1], x]))
>>> ct.gradient(f, 1.0)
(2.0,)
"""

from cotan._src.interpose.install import namespace

namespace(globals(), "numpy")
