"""The names of `math`, which know our arrays without lifting.

>>> import cotan as ct
>>> from cotan import math
>>> ct.gradient(lambda x: math.exp(x), 0.0)
(1.0,)
"""

from cotan._src.interpose.install import namespace

namespace(globals(), "math")
