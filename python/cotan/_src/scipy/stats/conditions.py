"""What the rules of `scipy.stats` know of a condition: values, or a mask where those differ."""

from typing import Any

import numpy as np

from cotan import _core
from cotan._src.runtime.values import is_array, to_numpy
from cotan._src.typing import AnyArray


def is_mapped(x: Any) -> bool:
    """Say whether something differs between the examples of a vmap: nobody looks at its values."""
    return is_array(x) and bool(_core.is_mapped(x))


def may_hold(condition: AnyArray) -> bool:
    """Say whether a condition holds somewhere, as far as is known."""
    return is_mapped(condition) or bool(np.any(condition))


def holds(condition: AnyArray) -> bool:
    """Say whether a condition is known to hold everywhere."""
    return not is_mapped(condition) and bool(np.all(condition))


def known(condition: AnyArray) -> AnyArray:
    """Give the values of a condition; of examples that are mapped itself.

    A prepared function asks again whether it holds everywhere, or nowhere; what else it may be
    takes values out of what is recorded, which is refused.
    """
    if is_mapped(condition):
        return condition
    if is_array(condition) and _core.is_preparing():
        for value, is_so in ((True, np.all(condition)), (False, not np.any(condition))):
            if is_so:
                return np.full(condition.shape, value)[()]
    return to_numpy(condition)


def compared(x: AnyArray) -> AnyArray:
    """Give what conditions are computed of: values, but where a function is prepared."""
    return x if _core.is_preparing() or is_mapped(x) else to_numpy(x)
