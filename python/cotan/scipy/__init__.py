"""SciPy's modules with functions that accept `Array`s even where lifting is off.

>>> import cotan as ct
>>> import numpy as np
>>> from cotan.scipy import linalg
>>> with ct.lifting(False):
...     ct.gradient(lambda b: np.sum(linalg.solve(2 * np.eye(2), b)), np.ones(2))
(array([0.5, 0.5]),)
"""

from cotan._src.interpose.install import namespace

namespace(globals(), "scipy")
