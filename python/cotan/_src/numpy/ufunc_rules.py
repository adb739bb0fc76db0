"""Chooses what computes a ufunc: a primitive, a composition of primitives, or SciPy with a rule."""

import functools

import numpy as np

from cotan._src.numpy import ufunc_composites as _overrides  # noqa: F401
from cotan._src.runtime.registry import UFUNCS
from cotan._src.runtime.ufunc_dtypes import name_of_ufunc
from cotan._src.runtime.values import refuse
from cotan._src.special import partials as _table  # noqa: F401
from cotan._src.special import partials_bessel as _families  # noqa: F401
from cotan._src.special import partials_inverse_cdf as _inverses  # noqa: F401
from cotan._src.special import partials_waves as _waves  # noqa: F401
from cotan._src.special.ufuncs import PARTIALS, call
from cotan._src.typing import Function


def rule(ufunc: np.ufunc) -> Function | None:
    """Give what computes a ufunc on arrays, if anything does."""
    name = ufunc.__name__
    found = UFUNCS.get(name)
    return functools.partial(call, name) if found is None and name in PARTIALS else found


def needed(ufunc: np.ufunc) -> Function:
    """Give what computes a ufunc on arrays, or refuse it by name."""
    compute = rule(ufunc)
    if compute is None:
        raise refuse(name_of_ufunc(ufunc))
    return compute
