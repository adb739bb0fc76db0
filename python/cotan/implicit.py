"""Implicit differentiation: derivatives of what a solver of yours finds, by the equation it solves.

>>> import cotan as ct
>>> import numpy as np
>>> @ct.implicit.root(lambda x, a: x * x - a)
... def root_of(x, a):
...     while abs(x * x - a) > 1e-12:
...         x = (x + a / x) / 2
...     return x
>>> ct.grad(lambda a: root_of(1.0, a))(4.0)
0.25
"""

from cotan._src.api.implicit import fixed_point, linear_solve, minimiser, root

__all__ = ["fixed_point", "linear_solve", "minimiser", "root"]
