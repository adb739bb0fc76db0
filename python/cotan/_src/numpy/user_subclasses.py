"""Class twins for the user's subclasses of ndarray, so that a quaternion can hold traced values.

An object of such a class is memory, which cannot be traced. During a recording, what would create
one from an `Array` (`np.ndarray.__new__(cls, shape, dtype, array)`, `array.view(cls)`) creates a
twin that wraps the `Array` and has the user's methods. It passes `isinstance`, keeps its class in
operators, ufuncs and slices, and is an array to NumPy's functions.
"""

import functools
import math
import operator
import sys
from collections.abc import Callable, Iterable, Iterator
from types import CellType, FunctionType
from typing import Any, SupportsIndex, TypeAlias

import numpy as np

from cotan import _core
from cotan._core import Array
from cotan._src.numpy.matrix import Matrix
from cotan._src.runtime.call_site import is_formatting
from cotan._src.runtime.libraries import NATIVE_LIBRARIES
from cotan._src.runtime.values import OverArray, is_array, to_numpy
from cotan._src.typing import Args, DTypeLike, Function, Kwargs, NDArray, Shape

#: What is made of an array: itself, or what holds it.
_Made: TypeAlias = Array | OverArray | Matrix

# Classes of NumPy's, and what makes an instance of their twin: of an `Array`, and of what it was
# made from.
KINDS: dict[type, Callable[[Array, object], _Made]] = {}

# What decides how arrays of a class compute or are made, so that a twin could not replace them.
_DECISIVE = (
    "__array_ufunc__", "__array_function__", "__array_wrap__", "__array_prepare__", "__getattr__",
    "__getattribute__", "__setattr__", "__init__", "__array__", "__reduce__", "__reduce_ex__",
)  # fmt: skip
# What belongs to the class itself.
_OF_THE_CLASS = {
    "__new__",
    "__dict__",
    "__weakref__",
    "__class__",
    "__slots__",
    "__module__",
    "__qualname__",
}


@functools.lru_cache(maxsize=256)
def twin_class_of(cls: type) -> type | None:
    """Give the class twin of a subclass; None where there can be none."""
    if any(getattr(cls, name, None) is not getattr(np.ndarray, name, None) for name in _DECISIVE):
        return None
    owners = cls.__mro__[: cls.__mro__.index(np.ndarray)]
    if any(owner.__module__.partition(".")[0] in NATIVE_LIBRARIES for owner in owners):
        return None
    members: dict[str, object] = {}
    for owner in reversed(owners):
        members |= {name: x for name, x in vars(owner).items() if name not in _OF_THE_CLASS}

    def make(_: object, *args: object, **kwargs: object) -> object:
        return cls(*args, **kwargs)

    # `super()` in its methods goes on to the twin of ndarray.
    cell = CellType()
    members = {name: _with_class(x, cell) for name, x in members.items()}
    members |= {"__new__": make, "_of": cls, "__module__": cls.__module__, "__hash__": None}
    kind = type(cls.__name__, (SubclassTwin,), members)
    cell.cell_contents = kind
    return kind


def _with_class(member: Any, cell: CellType) -> Any:
    """Give a member of a class with another class for `super()` in it."""
    if isinstance(member, property):
        return property(*(_with_class(f, cell) for f in (member.fget, member.fset, member.fdel)))
    if isinstance(member, (staticmethod, classmethod)):
        return type(member)(_with_class(member.__func__, cell))
    if not isinstance(member, FunctionType) or "__class__" not in member.__code__.co_freevars:
        return member
    closure = member.__closure__ or ()
    cells = zip(member.__code__.co_freevars, closure, strict=True)
    copy = FunctionType(
        member.__code__,
        member.__globals__,
        member.__name__,
        member.__defaults__,
        tuple(cell if name == "__class__" else known for name, known in cells),
    )
    copy.__kwdefaults__ = member.__kwdefaults__
    return functools.update_wrapper(copy, member)


def new_twin(kind: type["SubclassTwin"], array: Array, source: object) -> "SubclassTwin":
    """Make an object of such a class, as NumPy makes one from another array, or from none."""
    self = object.__new__(kind)
    object.__setattr__(self, "__held_array__", array)
    finalize = getattr(kind, "__array_finalize__", None)
    if finalize is not None:
        finalize(self, source)
    return self


def each(take: Function, x: object) -> Any:
    """Give what is taken of an argument, in lists and options of each."""
    if isinstance(x, (list, tuple)):
        return type(x)(each(take, item) for item in x) if not hasattr(x, "_fields") else x
    if isinstance(x, dict):
        return {key: each(take, value) for key, value in x.items()}
    return take(x)


def _wrapped_array(x: Any) -> object:
    return x.__held_array__ if issubclass(type(x), SubclassTwin) else x


def array_of(x: object) -> Any:
    """Give the wrapped array, also in lists."""
    return each(_wrapped_array, x)


class SubclassTwin(OverArray):
    """An instance of the twin of a subclass of ndarray: it wraps an `Array`."""

    __array_priority__ = 10.0
    __held_array__: Array
    _of: type

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return self._of

    def _again(self, x: Any) -> Any:
        """Give an array as an object of this class, a scalar as it is."""
        if isinstance(x, tuple):
            return tuple(map(self._again, x))
        return new_twin(type(self), x, self) if is_array(x) and x.ndim else x

    # What NumPy asks

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray:
        return np.asarray(self.__held_array__, dtype)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: object, **options: Any) -> Any:
        result = getattr(ufunc, method)(*map(array_of, inputs), **array_of(options))
        out = options.get("out")
        return out[0] if out is not None and len(out) == 1 else self._again(result)

    def __array_function__(
        self, func: Function, types: Iterable[type], args: Args, kwargs: Kwargs
    ) -> Any:
        return func(*array_of(tuple(args)), **array_of(kwargs))

    def __array_finalize__(self, obj: object) -> None:
        """Take nothing over from another array, for those that ask `super()`."""

    def view(self, dtype: DTypeLike | None = None, type: type | None = None) -> _Made:
        for wanted in (dtype, type):
            if wanted is np.ndarray:
                return self.__held_array__[...]
        made: _Made = self.__held_array__.view(*(x for x in (dtype, type) if x is not None))
        return made

    def __getitem__(self, key: object) -> Any:
        return self._again(self.__held_array__[array_of(key)])

    def __setitem__(self, key: object, value: object) -> None:
        self.__held_array__[array_of(key)] = array_of(value)

    def __len__(self) -> int:
        return len(self.__held_array__)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __contains__(self, item: object) -> bool:
        return item in self.__held_array__

    def __bool__(self) -> bool:
        return bool(self.__held_array__)

    def _as_number(self) -> Array | float:
        """Give the only element, for `float(x)`."""
        return self.__held_array__

    def __float__(self) -> float:
        number = self._as_number()
        return float(
            to_numpy(_core.dropgrad(number)) if is_formatting(sys._getframe(1)) else number
        )

    def __floor__(self) -> int:
        return math.floor(self._as_number())

    def __ceil__(self) -> int:
        return math.ceil(self._as_number())

    def __complex__(self) -> complex:
        return complex(self._as_number())

    def __int__(self) -> int:
        return int(self.__held_array__)

    def __repr__(self) -> str:
        name, text = self._of.__name__, repr(self.__held_array__)
        before, bracket, rest = text.partition("(")
        # Lines that follow begin below the first element.
        indented = rest.replace("\n" + " " * len(before), "\n" + " " * len(name))
        return name + bracket + indented if bracket else text

    def __str__(self) -> str:
        return str(self.__held_array__)

    def __format__(self, spec: str) -> str:
        array = self.__held_array__
        return format(array, spec) if array.ndim == 0 or spec else str(self)

    def __reduce_ex__(self, protocol: SupportsIndex) -> Args:
        return self.__held_array__.__reduce_ex__(protocol)

    def __copy__(self) -> "SubclassTwin":
        return self.__deepcopy__({})

    def __deepcopy__(self, memo: object) -> "SubclassTwin":
        again = new_twin(type(self), self.__held_array__.copy(), self)
        again.__dict__.update({k: v for k, v in self.__dict__.items() if k != "__held_array__"})
        return again


def _attribute(name: str) -> None:
    """Let an attribute or a method be that of the array; `super()` finds it, too."""

    def get(self: SubclassTwin) -> Any:
        return self._again(getattr(self.__held_array__, name))

    def put(self: SubclassTwin, value: object) -> None:
        setattr(self.__held_array__, name, value)

    def call(self: SubclassTwin, *args: object, **kwargs: object) -> Any:
        return self._again(getattr(self.__held_array__, name)(*array_of(args), **array_of(kwargs)))

    setattr(SubclassTwin, name, call if callable(getattr(np.ndarray, name)) else property(get, put))


for _name in dir(np.ndarray):
    if not _name.startswith("__") and _name not in vars(SubclassTwin):
        _attribute(_name)


def _operators(name: str) -> None:
    compute = getattr(operator, name)

    def forward(self: SubclassTwin, other: object) -> Any:
        return self._again(compute(self.__held_array__, array_of(other)))

    def reflected(self: SubclassTwin, other: object) -> Any:
        return self._again(compute(array_of(other), self.__held_array__))

    def in_place(self: SubclassTwin, other: object) -> SubclassTwin:
        self.__held_array__[...] = compute(self.__held_array__, array_of(other))
        return self

    name = name.strip("_")
    setattr(SubclassTwin, f"__{name}__", forward)
    if name not in {"eq", "ne", "lt", "le", "gt", "ge"}:
        setattr(SubclassTwin, f"__r{name}__", reflected)
        setattr(SubclassTwin, f"__i{name}__", in_place)


for _name in (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and_", "or_", "xor",
    "eq", "ne", "lt", "le", "gt", "ge",
):  # fmt: skip
    _operators(_name)


def _unary(name: str) -> None:
    compute = getattr(operator, name)
    setattr(SubclassTwin, f"__{name}__", lambda self: self._again(compute(self.__held_array__)))


for _name in ("neg", "pos", "abs", "invert"):
    _unary(_name)


def _itself(array: Array, _: object) -> Array:
    return array


def _as_matrix(array: Array, _: object) -> Matrix:
    return Matrix(array if array.ndim == 2 else array.reshape(1, -1))


KINDS |= {np.ndarray: _itself, np.matrix: _as_matrix}


def _kind(cls: Any) -> Callable[[Array, object], _Made] | None:
    """Say what makes an object of a class over an array of ours; None where nothing can."""
    if cls in KINDS:
        return KINDS[cls]
    if issubclass(cls, SubclassTwin):
        return functools.partial(new_twin, cls)
    kind = twin_class_of(cls)
    return None if kind is None else functools.partial(new_twin, kind)


def new_object(
    cls: type, shape: Any = None, dtype: DTypeLike = float,
    buffer: Any = None, offset: int = 0, strides: Shape | None = None, order: str | None = None,
) -> Any:  # fmt: skip
    """Make an object of a class over an `Array`, as NumPy makes it over memory."""
    if not is_array(buffer) or offset or strides is not None or np.dtype(dtype) != buffer.dtype:
        return NotImplemented
    kind = _kind(cls)
    shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    # Memory is read in its own order: what has another one has to stay as it is.
    flags = buffer.flags
    by_columns = flags.f_contiguous and shape == buffer.shape
    in_order = by_columns if order == "F" else flags.c_contiguous
    if kind is None or not in_order or np.prod(shape) != buffer.size:
        return NotImplemented
    return kind(buffer.reshape(shape), None)


def view_as(array: Array, cls: type) -> _Made | None:
    """Give an `Array` as an object of a subclass of ndarray; None where that cannot be."""
    kind = _kind(cls) if _core.is_lifting() or issubclass(cls, SubclassTwin) else None
    return None if kind is None else kind(array[...], array)
