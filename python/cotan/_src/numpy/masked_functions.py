"""Functions, operators and methods of `numpy.ma` for masked arrays of traced values."""

import functools
from types import FunctionType
from typing import Any

import numpy as np
import numpy.ma as ma

from cotan._core import NotDifferentiableError
from cotan._src.numpy.masked_array import (
    DTYPES,
    OPERATIONS,
    ORIGINAL,
    Masked,
    Memory,
    as_constant,
    as_operand,
    data_of,
    instance_of,
    is_drawn,
    to_draw,
)
from cotan._src.rebind.engine import (
    SUBSTITUTES,
    contains_unmasked_array,
    locate,
    rebind_function,
    rebound_class,
)
from cotan._src.runtime.originals import original_of
from cotan._src.runtime.plotting_context import is_read_for_display
from cotan._src.runtime.registry import (
    ALWAYS,
    CREATOR,
    INDEXED,
    METHOD,
    override,
    rows_of,
)
from cotan._src.runtime.values import contains_active
from cotan._src.typing import (
    AnyArray,
    Args,
    ArrayLike,
    DTypeLike,
    Function,
    Kwargs,
    NDArray,
    Scalar,
)

_ma: Any = ma.core

# What gives memory to write into.
override(
    *(
        f"numpy.ma.{name}"
        for name in [
            "arange",
            "array",
            "empty",
            "identity",
            "masked_all",
            "masked_all_like",
            "masked_array",
            "ones",
            "zeros",
        ]
    ),
    kind=CREATOR,
)(None)


def _is_fresh(name: str, args: Args, kwargs: Kwargs) -> bool:
    """Say whether a function makes memory of its own, whatever its arguments are."""
    if name not in rows_of("numpy.ma", CREATOR):
        return False
    if name in {"array", "masked_array"}:
        data = args[0] if args else kwargs.get("data")
        return not isinstance(data, np.ndarray) or bool(kwargs.get("copy"))
    return True


def _is_function(value: object) -> bool:
    """Say whether a name is that of a function; some are objects in older versions of NumPy."""
    if isinstance(value, FunctionType) or value is ORIGINAL:
        return True
    kind = type(value)
    # Not what the module has of `numpy`: it may have been imported while names were overridden.
    known = {x for m in (_ma, ma.extras) for x in vars(m).values() if isinstance(x, type)}
    return callable(value) and kind in known and kind.__name__ not in OPERATIONS


def _enter(name: str) -> None:
    original = vars(ma)[name]

    @functools.cache
    def run() -> Any:
        if isinstance(original, type):
            return Masked
        return (
            rebind_function(original)
            if isinstance(original, FunctionType)
            else instance_of(original)
        )

    @override(f"numpy.ma.{name}", when=ALWAYS)
    def masked(*args: Any, **kwargs: object) -> object:
        if contains_unmasked_array(args) or contains_unmasked_array(kwargs.values()):
            if is_drawn((*args, *kwargs.values())):
                return original(*map(to_draw, args), **{k: to_draw(x) for k, x in kwargs.items()})
            return run()(*args, **kwargs)
        made = original(*args, **kwargs)
        floats = isinstance(made, ORIGINAL) and made.dtype.char in "efdFD"
        return as_constant(made) if floats and _is_fresh(name, args, kwargs) else made


# These have rules of their own.
_RULES = {"apply_along_axis"}

for _name in ma.__all__:
    if _name not in _RULES and _is_function(vars(ma)[_name]):
        _enter(_name)


@override("numpy.ma.mr_", kind=INDEXED)
def _joined(original: Any) -> Any:
    """Give the brackets of `np.ma.mr_` for `Array`s."""

    def join(key: Any) -> Any:
        met = contains_unmasked_array(key if isinstance(key, tuple) else (key,))
        return (rebound_class(type(original))() if met else original)[key]

    return join


@override("numpy.ma.apply_along_axis", when=ALWAYS)
def apply_along_axis(
    func1d: Function, axis: int, arr: ArrayLike, *args: object, **kwargs: object
) -> AnyArray:
    """Put results together as they are: NumPy's own code keeps them among objects."""
    if np.ma.asanyarray(arr).dtype.char not in DTYPES:
        found: AnyArray = locate("numpy.ma.apply_along_axis")(func1d, axis, arr, *args, **kwargs)
        return found
    x = np.moveaxis(Masked(arr), axis, -1)
    places = x.shape[:-1]
    results = [func1d(x[i], *args, **kwargs) for i in np.ndindex(places)]
    joined = Masked(results)
    joined = joined.reshape(places + joined.shape[1:])
    new_axes = range(len(places), joined.ndim)
    where = range(x.ndim + axis if axis < 0 else axis, joined.ndim)[: len(new_axes)]
    joined = np.moveaxis(joined, new_axes, where)
    result: AnyArray = joined if isinstance(arr, ORIGINAL) else joined.data
    return result


def _enter_method(owner: type, name: str) -> None:
    @override(f"numpy.ma.core.{owner.__name__}.{name}", kind=METHOD, when=ALWAYS)
    def method(self: "ma.MaskedArray[Any, Any]", *args: object, **kwargs: object) -> object:
        original = original_of(vars(owner)[name])
        if not (contains_unmasked_array(args) or contains_unmasked_array(kwargs.values())):
            return original(self, *args, **kwargs)
        if is_drawn((*args, *kwargs.values())):
            args = tuple(map(to_draw, args))
            return original(self, *args, **{k: to_draw(x) for k, x in kwargs.items()})
        if issubclass(owner, ORIGINAL):
            return getattr(Masked, name)(as_operand(self), *args, **kwargs)
        operation = SUBSTITUTES.get(id(self)) or instance_of(self)
        return getattr(operation, name)(*args, **kwargs)


# Operators of NumPy's masked arrays, and functions such as `np.ma.log`, by what both come to.
for _class in OPERATIONS:
    for _name in ("__call__", "reduce", "outer", "accumulate"):
        if _name in vars(getattr(_ma, _class)):
            _enter_method(getattr(_ma, _class), _name)
for _name in ("_comparison", "__pow__", "__rpow__", "dot"):
    _enter_method(ORIGINAL, _name)


@override("numpy.ma.core.MaskedArray.view", kind=METHOD, when=ALWAYS)
def view(
    self: "ma.MaskedArray[Any, Any]",
    dtype: DTypeLike | type | None = None,
    type: type | None = None,
    fill_value: Scalar | None = None,
) -> Memory | NDArray:
    """Let constants be seen as what NumPy's code takes for the class of another array."""
    if dtype is Masked or type is Masked:
        constant: Any = as_constant(self)
        found: Memory | NDArray = Memory.view(constant, Masked)
        return found
    result: NDArray = original_of(ORIGINAL.view)(self, dtype, type, fill_value)
    return result


def _refuse_method(name: str) -> None:
    @override(f"numpy.ma.core.MaskedArray.{name}", kind=METHOD, when=ALWAYS)
    def method(self: "ma.MaskedArray[Any, Any]", *args: object, **kwargs: object) -> object:
        if not contains_active(list(map(data_of, args))):
            return original_of(vars(ORIGINAL)[name])(self, *args, **kwargs)
        if not is_read_for_display():
            raise NotDifferentiableError(
                f"numpy.ma: {name} would write active values into a constant masked array; create "
                "it in the function, by np.ma.zeros or np.ma.array(list, mask=m), or write m = m * "
                "x instead of m *= x"
            )
        return original_of(vars(ORIGINAL)[name])(self, *map(to_draw, args), **kwargs)


for _name in (
    "__setitem__", "__iadd__", "__isub__", "__imul__", "__itruediv__", "__ifloordiv__", "__ipow__",
    "put",
):  # fmt: skip
    _refuse_method(_name)
