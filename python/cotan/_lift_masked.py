"""Masked arrays: those that hide nothing are arrays in operators with ours; others cannot be made.

What is masked has no place in an array of ours.
"""

import operator
from typing import Any

import numpy as np

from cotan._drawn import is_drawing
from cotan._led import unlifted
from cotan._lifted import lifts, lifts_method
from cotan._numpy_core import any_active, plain
from cotan._subclass import is_unmasked

_OWNER = "numpy.ma.MaskedArray"


def _enter(name: str, reflected: bool) -> None:
    compute = getattr(operator, name)
    method = f"__{'r' if reflected else ''}{name}__"

    @lifts_method(_OWNER, method)
    def operate(self: Any, other: Any) -> Any:
        if not any_active(other) or not is_unmasked(self):
            return unlifted(vars(np.ma.MaskedArray)[method])(self, other)
        values = np.asarray(self)
        return compute(other, values) if reflected else compute(values, other)


for _name in ("add", "sub", "mul", "truediv", "floordiv", "pow"):
    _enter(_name, False)
    _enter(_name, True)


def _unmasked(name: str) -> None:
    @lifts(f"numpy.ma.{name}")
    def masked(*args: Any, **kwargs: Any) -> Any:
        if (any_active(args) or any_active(kwargs)) and not is_drawing():
            raise TypeError(
                f"numpy.ma.{name}: a masked array cannot be differentiated; keep the mask beside "
                "the array: np.where(mask, 0, x), x[~mask], or np.sum(x, where=~mask)"
            )
        return getattr(np.ma, name)(*map(plain, args), **{k: plain(v) for k, v in kwargs.items()})


for _name in [
    "array",
    "asarray",
    "asanyarray",
    "fix_invalid",
    "masked_array",
    "MaskedArray",
    "masked_equal",
    "masked_greater",
    "masked_greater_equal",
    "masked_inside",
    "masked_invalid",
    "masked_less",
    "masked_less_equal",
    "masked_not_equal",
    "masked_object",
    "masked_outside",
    "masked_values",
    "masked_where",
]:
    _unmasked(_name)
