"""`math` with functions that accept `Array`s even where lifting is off.

>>> import cotan as ct
>>> from cotan import math
>>> ct.gradient(lambda x: math.exp(x), 0.0)
(1.0,)
"""

from cotan._src.interpose.install import namespace

namespace(globals(), "math")
