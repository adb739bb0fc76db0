"""The namespace that an `Array` offers to code written for the Python array API standard, 2024.12.

`x.__array_namespace__()` returns it. Its functions are NumPy's, which follow the standard, with two
differences: they always return `Array`s, so that traced values can be written into their results;
and the few functions that NumPy spells differently have the names and signatures of the standard.
Names beyond the standard are NumPy's, as in NumPy's own namespace: libraries that were written for
that one (xarray) ask for `xp.einsum` or `xp.gradient`.

>>> import cotan as ct
>>> x = ct.array([3.0, 1.0, 2.0])
>>> xp = x.__array_namespace__()
>>> y = xp.zeros(2)
>>> y[0] = xp.sum(x)
>>> y
Array([6., 0.])
>>> xp.sort(x, descending=True)
Array([3., 2., 1.])
"""

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from cotan import _core
from cotan._core import Array, Device
from cotan._src.rebind import numpy_substitutes as _substitutes
from cotan._src.runtime.values import in_numpy, is_array
from cotan._src.typing import AnyArray, ArrayLike, Dtype, DTypeLike, Function, Scalar, Shape

# Without types: NumPy's stubs do not know `Array`.
_numpy: Any = np

__array_api_version__ = "2024.12"
VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")

_DTYPES = {
    "bool": ("bool",),
    "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
    "real floating": ("float32", "float64"),
    "complex floating": ("complex64", "complex128"),
}
_KINDS = {
    **{kind: (kind,) for kind in _DTYPES},
    "integral": ("signed integer", "unsigned integer"),
    "numeric": ("signed integer", "unsigned integer", "real floating", "complex floating"),
}

_CONSTANTS = "e inf nan newaxis pi"
_CREATION = "arange empty empty_like eye from_dlpack linspace ones ones_like zeros zeros_like"
_ELEMENTWISE = """
    abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_invert bitwise_left_shift
    bitwise_or bitwise_right_shift bitwise_xor ceil conj copysign cos cosh divide equal exp expm1
    floor floor_divide greater greater_equal hypot imag isfinite isinf isnan less less_equal
    log log10 log1p log2 logaddexp logical_and logical_not logical_or logical_xor maximum minimum
    multiply negative nextafter not_equal positive pow real reciprocal remainder round sign signbit
    sin sinh sqrt square subtract tan tanh trunc
"""
_REST = """
    all any argmax argmin broadcast_to can_cast concat count_nonzero cumulative_prod
    cumulative_sum diff expand_dims flip isdtype matmul matrix_transpose max mean min moveaxis
    nonzero permute_dims prod repeat reshape result_type roll searchsorted squeeze stack std sum
    take take_along_axis tensordot tile tril triu unique_all unique_counts unique_inverse
    unique_values unstack var vecdot where
"""
_LINALG = """
    cholesky cross det diagonal eigh eigvalsh inv matmul matrix_norm matrix_power matrix_rank
    matrix_transpose outer pinv qr slogdet solve svd svdvals tensordot trace vecdot vector_norm
"""
_FFT = """
    fft fftn fftshift hfft ifft ifftn ifftshift ihfft irfft irfftn rfft rfftn
"""


def _as_arrays(result: Any) -> Any:
    """Give results as `Array`s, even where they are constant."""
    # Older versions count in Python numbers.
    known = isinstance(result, (np.ndarray, np.generic)) or type(result) is int
    if known and not is_array(result):
        return _core.array(np.asarray(result))
    if isinstance(result, tuple):
        items = map(_as_arrays, result)
        return type(result)(*items) if hasattr(result, "_fields") else tuple(items)
    return list(map(_as_arrays, result)) if isinstance(result, list) else result


def _giving_arrays(function: Function) -> Function:
    @functools.wraps(function)
    def call(*args: object, **kwargs: object) -> object:
        return _as_arrays(function(*args, **kwargs))

    return call


def _placed(array: Any, device: str | Device | None) -> Any:
    """Give an array on a device, if one is named: itself where it lies or will lie there."""
    if device is None:
        return array
    place = _core.device(device)
    return array if array.device == place else array.to_device(place)


def _creating(function: Function) -> Function:
    @functools.wraps(function)
    def create(*args: object, device: str | Device | None = None, **kwargs: object) -> object:
        return _placed(_as_arrays(function(*args, **kwargs)), device)

    return create


def asarray(
    obj: ArrayLike,
    /,
    *,
    dtype: DTypeLike | None = None,
    device: str | Device | None = None,
    copy: bool | None = None,
) -> Array:
    """Give an array, of numbers, of sequences of them, or of what `__dlpack__` gives."""
    if copy is False:
        if not isinstance(obj, Array):
            raise ValueError(
                "asarray: only an Array can be converted without a copy; leave out copy=False"
            )
        if dtype is not None and np.dtype(dtype) != obj.dtype:
            raise ValueError(
                f"asarray: a cast from {obj.dtype} to {np.dtype(dtype)} needs a copy; leave out "
                "copy=False"
            )
    array = _core.asarray(_substitutes.array(obj, dtype, copy=copy or None))
    result: Array = _placed(array, device)
    return result


def full(
    shape: int | Shape,
    fill_value: Scalar,
    *,
    dtype: DTypeLike | None = None,
    device: str | Device | None = None,
) -> Array:
    """Give an array with one value everywhere."""
    result: Array = _placed(_as_arrays(_substitutes.full(shape, fill_value, dtype)), device)
    return result


def full_like(
    x: AnyArray,
    /,
    fill_value: Scalar,
    *,
    dtype: DTypeLike | None = None,
    device: str | Device | None = None,
) -> Array:
    """Give an array of the shape and dtype of another one with one value everywhere."""
    result: Array = _placed(_as_arrays(np.full_like(x, fill_value, dtype)), device)
    return result


def astype(
    x: AnyArray, dtype: DTypeLike, /, *, copy: bool = True, device: str | Device | None = None
) -> AnyArray:
    """Give the same numbers in another dtype."""
    result: AnyArray = _placed(x.astype(dtype, copy=copy), device)
    return result


class FloatInfo(NamedTuple):
    """What a floating-point dtype can hold, in Python numbers."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: Dtype


def finfo(type: AnyArray | DTypeLike, /) -> FloatInfo:
    """Say what a floating-point dtype can hold."""
    found = np.finfo(type.dtype if isinstance(type, Array) else type)
    return FloatInfo(
        bits=found.bits,
        eps=float(found.eps),
        max=float(found.max),
        min=float(found.min),
        smallest_normal=float(found.smallest_normal),
        dtype=found.dtype,
    )


def iinfo(type: AnyArray | DTypeLike, /) -> "np.iinfo[Any]":
    """Say what an integer dtype can hold."""
    return np.iinfo(type.dtype if isinstance(type, Array) else type)


def broadcast_arrays(*arrays: AnyArray) -> list[Array]:
    """Give arrays in the shape that all of them broadcast to."""
    return list(map(_as_arrays, _numpy.broadcast_arrays(*arrays)))


def meshgrid(*arrays: AnyArray, indexing: str = "xy") -> list[Array]:
    """Give the coordinates of all points of a grid."""
    return list(map(_as_arrays, _numpy.meshgrid(*arrays, indexing=indexing)))


def clip(
    x: AnyArray, /, min: AnyArray | float | None = None, max: AnyArray | float | None = None
) -> Array:
    """Give an array with what lies outside of two bounds replaced by them."""
    result: Array = _as_arrays(_numpy.clip(x, min, max))
    return result


def argsort(
    x: AnyArray, /, *, axis: int = -1, descending: bool = False, stable: bool = True
) -> Array:
    """Give the positions that sort an array; of equal elements the first comes first."""
    if not descending:
        found: Array = _as_arrays(np.argsort(x, axis=axis, stable=stable))
        return found
    # Backwards, so that what is equal keeps its order when all is turned round.
    positions = np.argsort(np.flip(x, axis), axis=axis, stable=stable)
    result: Array = _as_arrays(np.flip(np.shape(x)[axis] - 1 - positions, axis))
    return result


def sort(x: AnyArray, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """Give an array sorted along an axis."""
    ascending = np.sort(x, axis=axis, stable=stable)
    result: Array = _as_arrays(np.flip(ascending, axis).copy() if descending else ascending)
    return result


def _frequencies(name: str) -> Function:
    function = in_numpy(f"fft.{name}")

    def frequencies(
        n: int,
        /,
        *,
        d: float = 1.0,
        dtype: DTypeLike | None = None,
        device: str | Device | None = None,
    ) -> Array:
        if dtype is not None and np.dtype(dtype).kind != "f":
            raise TypeError(
                f"{name}: frequencies must be of a real floating dtype, not {np.dtype(dtype)}"
            )
        result: Array = _placed(_core.array(function(n, d), dtype), device)
        return result

    frequencies.__name__ = frequencies.__qualname__ = name
    frequencies.__doc__ = f"Give the frequencies of numpy.fft.{name}."
    return frequencies


class Info:
    """What the standard lets one ask about a namespace."""

    def capabilities(self) -> dict[str, bool | int]:
        """Say what is there that the standard leaves open."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Device:
        """Give the device of new arrays."""
        return _core.device(_core.used_device() or "cpu")

    def devices(self) -> list[Device]:
        """Give all devices."""
        return _core.devices()

    def default_dtypes(self, *, device: str | Device | None = None) -> dict[str, Dtype]:
        """Give the dtypes of new arrays."""
        _core.device(device or "cpu")
        return {
            "real floating": np.dtype(np.float64),
            "complex floating": np.dtype(np.complex128),
            "integral": np.dtype(np.int64),
            "indexing": np.dtype(np.int64),
        }

    def dtypes(
        self, *, device: str | Device | None = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, Dtype]:
        """Give the dtypes of arrays on a device, of one kind or of several."""
        known = _core.device(device or "cpu").dtypes
        wanted = tuple(_DTYPES) if kind is None else kind if isinstance(kind, tuple) else (kind,)
        for one in wanted:
            if one not in _KINDS:
                raise ValueError(f"dtypes: kind must be one of {', '.join(_KINDS)}, not {one!r}")
        found = {k for one in wanted for k in _KINDS[one]}
        names = [name for k in _DTYPES if k in found for name in _DTYPES[k]]
        return {name: np.dtype(name) for name in names if np.dtype(name) in known}


def __array_namespace_info__() -> Info:  # noqa: N807 - the standard's name
    """Say what this namespace has."""
    return Info()


def _fill(
    target: dict[str, Any],
    prefix: str,
    names: str,
    wrap: Callable[[Function], Function] = _giving_arrays,
) -> list[str]:
    """Enter NumPy's functions; those that this version lacks are left out."""
    there = [name for name in names.split() if in_numpy(prefix + name) is not None]
    target.update({name: wrap(in_numpy(prefix + name)) for name in there})
    return there


def _extension(name: str, names: str) -> ModuleType:
    module = ModuleType(f"{__name__}.{name}", f"The extension {name} of the standard.")
    setattr(module, "__all__", _fill(vars(module), f"{name}.", names))  # noqa: B010
    return module


_there = _fill(globals(), "", _ELEMENTWISE + _REST)
_there += _fill(globals(), "", _CREATION, _creating)
_constants = {name: getattr(np, name) for name in _CONSTANTS.split()}
_dtypes = {name: in_numpy(name) or np.bool_ for names in _DTYPES.values() for name in names}
globals().update(_constants | _dtypes)
linalg = _extension("linalg", _LINALG)
fft = _extension("fft", _FFT)
for _name in ("fftfreq", "rfftfreq"):
    setattr(fft, _name, _frequencies(_name))
    fft.__all__.append(_name)


def namespace(self: Array, *, api_version: str | None = None) -> Any:
    """Give the namespace of the array API standard whose functions take an Array and give one.

    Raises `ValueError` for a version of the standard that is not there.

    >>> import cotan as ct
    >>> ct.array([1.0]).__array_namespace__(api_version="2024.12").__array_api_version__
    '2024.12'
    """
    del self
    if api_version is not None and api_version not in VERSIONS:
        raise ValueError(
            f"__array_namespace__: the versions of the standard here are {', '.join(VERSIONS)}, "
            f"not {api_version!r}"
        )
    return sys.modules[__name__]


def __getattr__(name: str) -> Any:
    # Not for NumPy's submodules: their functions would give arrays of NumPy's.
    found = None if name.startswith("_") else in_numpy(name)
    if found is None or isinstance(found, ModuleType):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if not callable(found) or isinstance(found, type):
        return found
    globals()[name] = function = _giving_arrays(found)
    return function


__all__ = [  # noqa: PLE0604 - the names of three tables
    "argsort", "asarray", "astype", "broadcast_arrays", "clip", "fft", "finfo", "full", "full_like",
    "iinfo", "linalg", "meshgrid", "sort",
    *_there, *_constants, *_dtypes,
]  # fmt: skip
