"""The ndarray methods that are NumPy functions by another name."""

from collections.abc import Callable
from typing import Any

import numpy as np

from cotan import _core

# Methods whose NumPy function takes the array first and then the same arguments.
_FUNCTIONS = (
    "all", "any", "argsort", "clip", "compress", "cumprod", "diagonal", "nonzero", "ptp", "put",
    "repeat", "round", "searchsorted", "std", "take", "trace", "var",
)  # fmt: skip

_REFUSED = {
    "resize": "an Array does not change its shape; use np.resize or np.concatenate",
    "setflags": "an Array has no memory of its own to protect",
    "tofile": "convert it first: np.asarray(x).tofile(...)",
    "tobytes": "convert it first: np.asarray(x).tobytes()",
    "dump": "convert it first: np.asarray(x).dump(...)",
    "byteswap": "an Array is always in the byte order of the machine",
    "view": "an Array has no memory to see as another dtype; use astype",
}


def _delegate(name: str) -> Callable[..., Any]:
    function = getattr(np, name)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return function(self, *args, **kwargs)

    method.__name__ = name
    method.__doc__ = f"Do what `numpy.{name}` does, with this array first."
    return method


def _refuse(name: str, instead: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"{name}: {instead}")

    method.__name__ = name
    method.__doc__ = f"Refuse: {instead}."
    return method


def sort(self: Any, axis: int = -1, kind: Any = None, order: Any = None) -> None:
    """Sort in place along an axis."""
    self._assign(np.sort(self, axis=axis, kind=kind, order=order))


def fill(self: Any, value: Any) -> None:
    """Write one value everywhere."""
    self[...] = value


def attach(cls: Any) -> None:
    """Give the class its methods."""
    for name in _FUNCTIONS:
        setattr(cls, name, _delegate(name))
    for name, instead in _REFUSED.items():
        setattr(cls, name, _refuse(name, instead))
    cls.sort = sort
    cls.fill = fill
    cls.flat = property(lambda self: _core.reshape(self, -1), doc="All elements along one axis.")
    cls.mT = property(lambda self: self.swapaxes(-1, -2), doc="The last two axes exchanged.")
    cls.device = property(lambda _: "cpu", doc="Where the values are.")
    cls.strides = property(
        _strides,
        doc="Bytes between neighbours along each axis, as of a row-major array.",
    )


def _strides(x: Any) -> tuple[int, ...]:
    steps = [x.itemsize]
    for n in reversed(x.shape[1:]):
        steps.append(steps[-1] * n)
    return tuple(reversed(steps[: x.ndim]))
