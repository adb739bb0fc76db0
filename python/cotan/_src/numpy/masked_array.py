"""A class twin for `np.ma.MaskedArray`, so that masked arrays can hold traced values.

A masked array is an array and a mask. The mask has no derivative, so it stays an ndarray of
booleans, constant in a run; the data are an `Array`. Masks by conditions, domains, hard masks and
fill values are NumPy's Python code, rebound.
"""

import functools
import inspect
import warnings
from collections.abc import Callable, Iterable, Sequence
from types import FunctionType
from typing import Any, SupportsIndex, TypeGuard

import numpy as np
import numpy.ma as ma

from cotan import _core
from cotan._core import Array
from cotan._src.numpy.matrix import is_operator
from cotan._src.numpy.user_subclasses import KINDS, SubclassTwin, array_of, each, new_twin
from cotan._src.rebind.engine import (
    SUBSTITUTES,
    Namespace,
    class_twin,
    contains_unmasked_array,
    rebind_function,
    rebound_class,
    substitute_for,
)
from cotan._src.rebind.numpy_substitutes import array, asanyarray, asarray
from cotan._src.runtime.ndarray_subclasses import TWINS
from cotan._src.runtime.plotting_context import is_read_for_display
from cotan._src.runtime.registry import LOCAL_SUBSTITUTE, REBOUND_CLASS, override
from cotan._src.runtime.values import contains_active, is_array, to_numpy
from cotan._src.typing import (
    AnyArray,
    Args,
    ArrayLike,
    Dtype,
    DTypeLike,
    Function,
    Kwargs,
    NDArray,
    Scalar,
    Shape,
)

ORIGINAL: Any = ma.MaskedArray
_ma: Any = ma.core


def _unmasked(x: Any) -> object:
    if isinstance(type(x), _Kind):
        return x.__held_array__
    return x.data if isinstance(x, ORIGINAL) else x


def data_of(x: object) -> Any:
    """Give what a masked array of either kind has beneath its mask, also in lists."""
    return each(_unmasked, x)


def _mask_of(x: object) -> object:
    """Give the mask of an array, in lists for lists of them."""
    return list(map(_mask_of, x)) if isinstance(x, (list, tuple)) else _ma.getmaskarray(x)


def _is_masked(items: Iterable[object], but: object) -> bool:
    """Say whether a masked array is among arguments, another one than `but`."""
    return any(
        _is_masked(x, but) if isinstance(x, (list, tuple)) else isinstance(x, ORIGINAL)
        for x in items
        if x is not but
    )


def as_constant(x: object) -> object:
    """Give the twin of a masked array of NumPy's, and anything else as it is."""
    if x is ma.masked or not isinstance(x, ORIGINAL) or isinstance(type(x), _Kind):
        return x
    _expect_no_other(type(x))
    return Memory.view(x, Masked)


def _expect_no_other(cls: type) -> None:
    """Refuse the user's subclasses, whose methods would not be called."""
    if (
        issubclass(cls, ORIGINAL)
        and not isinstance(cls, _Kind)
        and cls.__module__.partition(".")[0] != "numpy"
    ):
        raise TypeError(
            f"numpy.ma: {cls.__qualname__}, a subclass of MaskedArray, cannot hold traced values; "
            "use np.ma.MaskedArray itself, and functions instead of methods"
        )


def as_operand(x: Any) -> Any:
    """Give `np.ma.masked`, too, as a twin: it masks what it is computed with."""
    return Memory.view(x.view(ORIGINAL), Masked) if x is ma.masked else as_constant(x)


def is_drawn(args: Iterable[object]) -> bool:
    """Say whether arguments are read to be drawn, or for numbers of which none is active."""
    try:
        return is_read_for_display()
    except TypeError:
        if contains_active(list(map(data_of, args))):
            raise
        return True


def to_draw(x: Any) -> object:
    """Give what is drawn of an argument: values, masked ones as NumPy's."""
    if isinstance(type(x), _Kind):
        values = to_numpy(_core.dropgrad(x.__held_array__))
        return ORIGINAL(values, x.mask, fill_value=x._fill_value, hard_mask=x._hardmask)
    return to_numpy(_core.dropgrad(x)) if is_array(x) else x


# --------------------------------------------------------------------------------------------------
# The class


class _Kind(type):
    """The class of what NumPy's code takes for its own class, which has the originals besides."""

    _original: type

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls._original)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return type.__subclasscheck__(cls, subclass) or issubclass(subclass, cls._original)


class Memory(SubclassTwin, metaclass=_Kind):
    """The substitute for `ndarray` in that code: `ndarray.view(x, cls)`, `super().mean()`."""

    _original = np.ndarray

    def view(self, dtype: DTypeLike | None = None, type: type | None = None) -> Any:
        wanted = [x for x in (dtype, type) if x is not None]
        classes = [x for x in wanted if _is_class(x)]
        is_masked = isinstance(self, ORIGINAL)
        mask = _ma.getmask(self)
        cls = classes[-1] if classes else Masked if is_masked else Memory
        _expect_no_other(cls)
        array = array_of(self)
        if not is_array(array):
            array = _core.array(np.asarray(data_of(array)))
        shape = array.shape
        if len(wanted) > len(classes):
            array = array.view(wanted[0])
        if not issubclass(cls, (Masked, ORIGINAL)):
            return array.view(*(() if cls in {Memory, _core.Array} else (cls,)))
        if mask is not ma.nomask and array.shape != shape:
            raise ValueError(
                f"view: a mask of shape {shape} does not fit the view as {array.dtype}, of shape "
                f"{array.shape}; view x.data, and mask the result with np.ma.array"
            )
        return new_twin(Masked, array, self) if array._rank == "array" else array


def _is_class(x: object) -> TypeGuard[type]:
    """Say whether something is a class of arrays, not a dtype."""
    return isinstance(x, type) and issubclass(x, (np.ndarray, SubclassTwin, _core.Array))


def _by_array(name: str) -> None:
    def method(self: Memory, *args: object, **kwargs: object) -> Any:
        result = getattr(array_of(self), name)(*data_of(args), **data_of(kwargs))
        return self._again(result) if isinstance(type(self), _Kind) else result

    setattr(Memory, name, method)


for _name in ("argpartition", "mean", "partition", "ravel", "sort", "trace", "var"):
    _by_array(_name)


# What NumPy's class has for memory alone, and `float`, whose result may be traced.
_LEFT_OUT = {"__module__", "__reduce__", "__getstate__", "__setstate__", "__float__"}
_NumPys: Any = class_twin(ORIGINAL, "MaskedArray", (Memory,), _LEFT_OUT)


class Masked(_NumPys):  # type: ignore[misc]
    """A masked array: what is not NumPy's own code.

    That is where the array and its mask are, and what may be a mask or an index.
    """

    _original = ORIGINAL
    _of = ORIGINAL
    __held_array__: Array
    _fill_value: NDArray | None

    def __new__(
        cls,
        data: ArrayLike | None = None,
        mask: ArrayLike = ma.nomask,
        *args: object,
        **kwargs: object,
    ) -> Any:
        """Make one as NumPy does, also of lists with masked elements and rows."""
        if isinstance(data, (list, tuple)) and mask is ma.nomask:
            masks = np.array(_mask_of(data))
            data, mask = data_of(data), masks if masks.any() else mask
        return super().__new__(cls, data, mask, *args, **kwargs)

    def _again(self, x: Any) -> Any:
        """Give an array that was made of this one as one of this class, with a mask of its own."""
        if isinstance(x, tuple):
            return tuple(map(self._again, x))
        if not is_array(x) or x._rank != "array":
            return x
        made: Any = new_twin(type(self), x, self)
        made._mask = made._mask.copy()
        return made

    @property
    def _mask(self) -> Any:
        return self.__dict__.get("_mask", ma.nomask)

    @_mask.setter
    def _mask(self, mask: object) -> None:
        self.__dict__["_mask"] = to_numpy(data_of(mask))

    @property
    def recordmask(self) -> NDArray:
        mask: NDArray = self._mask.view()
        return mask

    @property
    def data(self) -> Array:
        return self.__held_array__

    _data = data

    @property
    def _baseclass(self) -> type:
        return np.ndarray

    @_baseclass.setter
    def _baseclass(self, cls: type) -> None:
        """Keep nothing: an `Array` is the twin of no subclass."""

    @property
    def dtype(self) -> Dtype:
        return self.__held_array__.dtype

    @property
    def shape(self) -> Shape:
        return self.__held_array__.shape

    @shape.setter
    def shape(self, shape: int | Sequence[int]) -> None:
        self.__held_array__.shape = shape
        if self._mask is not ma.nomask:
            self._mask.shape = shape

    def clip(self, *limits: object, **options: object) -> "Masked":
        clipped = self._again(self.data.clip(*data_of(limits), **data_of(options)))
        made: Masked = clipped.shrink_mask()
        return made

    def sort(self, *args: object, **options: object) -> None:
        if self._mask is not ma.nomask:  # what is masked has no influence, however it came about
            self.data[self._mask] = _core.dropgrad(self.data)[self._mask]
        super().sort(*args, **options)

    def __array_finalize__(self, obj: object) -> None:
        """Take over what another array says of itself; its mask, too, as this is a view of it."""
        self._update_from(obj)
        mask = getattr(obj, "_mask", ma.nomask)
        fits = mask is not ma.nomask and mask.size == self.size
        self._mask = mask.reshape(self.shape).view() if fits else ma.nomask
        if self._fill_value is not None:
            self._fill_value = _ma._check_fill_value(self._fill_value, self.dtype)

    def __setmask__(self, mask: ArrayLike, copy: bool = False) -> None:
        super().__setmask__(to_numpy(mask), copy)

    def __getitem__(self, key: object) -> Any:
        return super().__getitem__(to_numpy(data_of(key)))

    def __setitem__(self, key: object, value: ArrayLike) -> None:
        is_masked = isinstance(key, ORIGINAL) and not isinstance(value, ORIGINAL)
        index = to_numpy(data_of(key))
        if is_masked and self._mask is not ma.nomask and not self._hardmask:
            self.data[index] = value  # which leaves the mask as it is
        else:
            super().__setitem__(index, value)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """Compute with what is beneath the masks, and let the first of those wrap it."""
        out = options.get("out") or ()
        reflected = _REFLECTED.get(ufunc)
        if method == "outer":
            a, b = (x if isinstance(x, ORIGINAL) else asarray(x) for x in inputs)
            return ufunc(a.reshape(a.shape + (1,) * b.ndim), b, **options)
        if reflected and method == "__call__" and not options and is_operator():
            return getattr(inputs[1], reflected)(inputs[0])  # as a subclass of ndarray is asked
        result = getattr(ufunc, method)(*data_of(inputs), **data_of(options))
        if method == "at":
            return None
        called = method == "__call__"
        results = result if isinstance(result, tuple) else (result,)
        targets = [*out, *[None] * (len(results) - len(out))]
        given = map(as_operand, (*out, *inputs))
        first = next(x for x in given if isinstance(type(x), _Kind))
        wrapped = []
        for i, (x, target) in enumerate(zip(results, targets, strict=True)):
            context = (ufunc, (*inputs, *out), i) if called else None
            if target is not None:
                is_ours = isinstance(type(target), _Kind)
                wrapped.append(target.__array_wrap__(target, context) if is_ours else target)
            else:
                wrapped.append(first.__array_wrap__(asarray(x), context))
        return tuple(wrapped) if isinstance(result, tuple) else wrapped[0]

    def __array_function__(
        self, func: Function, types: Iterable[type], args: Args, kwargs: Kwargs
    ) -> Any:
        """Run NumPy's own code where that keeps masks; else see the data, as it does."""
        code = inspect.unwrap(func)
        given = kwargs
        if isinstance(code, FunctionType):
            given = inspect.signature(code).bind(*args, **kwargs).arguments
        out = given.get("out")
        if isinstance(type(out), _Kind) and not _is_masked((*args, *kwargs.values()), out):
            func(*data_of(args), **data_of(kwargs))
            return out
        if _keeps_masks(func, code, given):
            return rebind_function(code)(*args, **kwargs)
        made = func(*data_of(tuple(args)), **data_of(kwargs))
        name = func.__name__
        if name == "empty_like" or (name == "broadcast_to" and given.get("subok")):
            return self._again(made)
        return Memory.view(made, Masked) if name in _OF_THE_CLASS else made

    def tolist(self, fill_value: Scalar | None = None) -> object:
        if fill_value is not None:
            return self.filled(fill_value).tolist()
        return _listed(self.data, self.mask)

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | Args:
        """Pickle a constant as one of NumPy's."""
        self.data.__reduce_ex__(protocol)  # which refuses active values
        return to_draw(self).__reduce_ex__(protocol)

    def _as_number(self) -> Array | float:
        if self.size == 1 and self.mask.any():
            warnings.warn("Warning: converting a masked element to nan.", stacklevel=3)
            return np.nan
        number: Array = super()._as_number()
        return number

    def __repr__(self) -> str:
        return repr(to_draw(self))

    def __str__(self) -> str:
        return str(to_draw(self))


# Python code of NumPy's that makes ndarrays of its arguments and hands them to compiled code.
_OF_DATA = {
    "broadcast_arrays", "broadcast_to", "convolve", "correlate", "count_nonzero", "digitize",
    "einsum", "histogram", "interp", "isin", "pad", "place",
}  # fmt: skip
# What is compiled and gives masked arrays, with nothing masked.
_OF_THE_CLASS = {"concatenate", "dot", "inner"}


def _keeps_masks(function: Function, code: object, given: Kwargs) -> bool:
    """Say whether NumPy's own code of a function can be run with what is masked."""
    if function.__module__ != "numpy" or not isinstance(code, FunctionType):
        return False
    if code.__module__ == "numpy._core.fromnumeric":
        return isinstance(given.get("a"), ORIGINAL)  # whose method it calls
    return function.__name__ not in _OF_DATA


def _listed(x: Array, mask: NDArray) -> object:
    """Give lists of elements, None for those that are masked."""
    if x.ndim == 0:
        return None if mask else x[()]
    return [_listed(*pair) for pair in zip(x, np.broadcast_to(mask, x.shape), strict=True)]


# What NumPy's class answers itself, as the right operand, too.
_REFLECTED = {
    getattr(np, name): f"__{operator}__"
    for name, operator in {
        "add": "radd", "subtract": "rsub", "multiply": "rmul", "divide": "rtruediv",
        "floor_divide": "rfloordiv", "power": "rpow", "equal": "eq", "not_equal": "ne",
        "less": "gt", "less_equal": "ge", "greater": "lt", "greater_equal": "le",
    }.items()
}  # fmt: skip
# What it inherits from ndarray: ufuncs, that is.
_UFUNCS = {
    "neg": "negative", "pos": "positive", "abs": "absolute", "invert": "invert",
    "mod": "remainder", "matmul": "matmul", "and": "bitwise_and", "or": "bitwise_or",
    "xor": "bitwise_xor", "lshift": "left_shift", "rshift": "right_shift", "divmod": "divmod",
}  # fmt: skip


def _operator(name: str, ufunc: np.ufunc) -> None:
    setattr(Masked, f"__{name}__", lambda *operands: ufunc(*operands))  # noqa: PLW0108 - a method
    if ufunc.nin == 2:
        setattr(Masked, f"__r{name}__", lambda self, other: ufunc(other, self))
        setattr(Masked, f"__i{name}__", lambda self, other: ufunc(self, other, out=self))


for _name, _ufunc in _UFUNCS.items():
    _operator(_name, getattr(np, _ufunc))


KINDS |= {ORIGINAL: functools.partial(new_twin, Masked), Memory: KINDS[np.ndarray]}
TWINS[ORIGINAL] = as_operand


# --------------------------------------------------------------------------------------------------
# Substitutes for NumPy's names in that code


def instance_of(value: object) -> object:
    """Give an object of NumPy's, such as `np.ma.log`, with our names in its methods."""
    copy: object = object.__new__(rebound_class(type(value)))
    for name, x in vars(value).items():
        if name == "domain" and x is not None:
            vars(copy)[name] = instance_of(x)
        else:
            is_function = callable(x) and not isinstance(x, np.ufunc)
            vars(copy)[name] = substitute_for(x) if is_function else x
    return copy


OPERATIONS = {
    "_MaskedUnaryOperation",
    "_MaskedBinaryOperation",
    "_DomainedBinaryOperation",
    "_extrema_operation",
}
_DOMAINS = _ma.ufunc_domain


# What an `Array` can have, except for booleans: masks are shared as NumPy's code shares them.
DTYPES = "bBhHiIlLqQefdFD"


def _converts(convert: Callable[..., AnyArray]) -> Callable[..., AnyArray]:
    """Let a conversion give `Array`s, which `a.view(MaskedArray)` makes masked."""

    @functools.wraps(convert)
    def converted(*args: object, **kwargs: object) -> AnyArray:
        x = convert(*args, **kwargs)
        return _core.array(x) if type(x) is np.ndarray and x.dtype.char in DTYPES else x

    return converted


def _get_masked_subclass(*arrays: object) -> type:
    """Give the class of what is made of arrays: NumPy's own, of masks alone and to be drawn."""
    if not contains_unmasked_array(arrays) or is_drawn(arrays):
        numpys: type = ORIGINAL
        return numpys
    for x in arrays:
        _expect_no_other(type(x))
    return Masked


class _Numpy(Namespace):
    """NumPy, as that code sees it."""

    array = staticmethod(_converts(array))
    asanyarray = staticmethod(_converts(asanyarray))


_NUMPY = _Numpy(np)

SUBSTITUTES |= {
    id(ORIGINAL): Masked,
    **{id(x): instance_of(x) for x in vars(_ma).values() if type(x).__name__ in OPERATIONS},
}
for _module in ("numpy.ma.core", "numpy.ma.extras"):
    override(f"{_module}.ndarray", kind=LOCAL_SUBSTITUTE)(Memory)
    override(f"{_module}.get_masked_subclass", kind=LOCAL_SUBSTITUTE)(_get_masked_subclass)
    override(f"{_module}.np", kind=LOCAL_SUBSTITUTE)(_NUMPY)
override("numpy.ma.core.narray", "numpy.ma.extras.nxarray", kind=LOCAL_SUBSTITUTE)(_NUMPY.array)
override("numpy.ma.core.ufunc_domain", kind=LOCAL_SUBSTITUTE)(
    {f: d if d is None else instance_of(d) for f, d in _DOMAINS.items()}
)
override("numpy.ma.core.MaskedIterator", kind=REBOUND_CLASS)(None)
