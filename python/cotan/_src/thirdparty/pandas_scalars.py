"""Operators of pandas with a traced scalar of NumPy's, which pandas makes a number of Python's.

Problem: `p[0] * series` is an operation with a NumPy scalar, of which pandas takes the `float()`.
"""

from typing import Any

from cotan._src.rebind.engine import locate
from cotan._src.runtime.originals import original_of
from cotan._src.runtime.registry import override
from cotan._src.runtime.values import is_array

_NAME = "pandas.core.ops.array_ops.maybe_prepare_scalar_for_op"


@override(_NAME)
def maybe_prepare_scalar_for_op(obj: Any, shape: tuple[int, ...]) -> Any:
    """Give a traced number for a traced scalar, and leave the rest to pandas."""
    if is_array(obj):
        return obj.item() if obj._rank == "scalar" else obj
    return original_of(locate(_NAME))(obj, shape)
