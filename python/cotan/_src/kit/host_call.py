"""Host calls: compiled functions of other libraries, run on values, with a pullback written here.

The result is computed when the function is called. The pullback is written in terms of
differentiable functions, often the function itself, so there are derivatives of any order.
"""

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from cotan import _core
from cotan._core import Array
from cotan._src.runtime.by_example import expect_values
from cotan._src.runtime.values import is_active, to_numpy
from cotan._src.typing import AnyArray, ArrayLike, NDArray, Shape

#: From plain arrays to one.
Plain = Callable[..., ArrayLike]
#: From a cotangent to those of arguments.
Pullback = Callable[..., Sequence[ArrayLike | None]]

#: Whether a function that can be written in primitives is, although compiled code is faster: the
#: pattern of a sparse derivative sees through primitives alone.
writes_primitives: ContextVar[bool] = ContextVar("writes_primitives", default=False)


def host_call(name: str, forward: Plain, pullback: Pullback, *args: ArrayLike) -> Array:
    """Compute `forward(*args)` on plain values, and know its derivative.

    Parameters
    ----------
    forward
        From plain arrays to one array.
    pullback
        From the cotangent, the arguments (`Array`s or plain ones) and a tuple that says which
        of them are wanted to a sequence of cotangents, None for those that are not wanted.
    """
    expect_values(name, args)
    wanted = tuple(map(is_active, args))
    inputs = [a if w else to_numpy(a) for a, w in zip(args, wanted, strict=True)]
    if not any(wanted):
        return _core.asarray(np.asarray(forward(*inputs)))
    active: list[Any] = [a for a, w in zip(args, wanted, strict=True) if w]

    def filled(values: Sequence[Array]) -> list[ArrayLike]:
        rest = iter(values)
        return [next(rest) if w else a for a, w in zip(inputs, wanted, strict=True)]

    def function(*values: Array) -> tuple[NDArray]:
        return (np.asarray(forward(*map(to_numpy, filled(values)))),)

    def back(*values: Array) -> tuple[Array, ...]:
        *values_of_args, ct = values
        cts = pullback(ct, *filled(values_of_args), wanted)
        given = [c for c, w in zip(cts, wanted, strict=True) if w]
        return tuple(map(_in_the_space_of, given, active))

    return _core.call_back(function, back, name, active)


def _in_the_space_of(ct: ArrayLike | None, x: Array) -> Array:
    ct = _core.asarray(ct)
    if ct.dtype.kind == "c" and x.dtype.kind != "c":
        ct = ct.real
    return ct


def linear(name: str, forward: Plain, adjoint: Plain) -> Callable[[ArrayLike], Array]:
    """Make a linear function out of itself and its adjoint (its conjugate transpose)."""

    def apply(x: ArrayLike) -> Array:
        return host_call(name, forward, lambda ct, _x, _wanted: (back(ct),), x)

    def back(ct: ArrayLike) -> Array:
        return host_call(name, adjoint, lambda g, _ct, _wanted: (apply(g),), ct)

    return apply


def unbroadcast(ct: AnyArray, shape: Shape) -> AnyArray:
    """Sum a cotangent over the axes along which its argument was repeated."""
    axes = tuple(i for i, (n, m) in enumerate(zip(ct.shape, shape, strict=True)) if n != m)
    return _core.sum(ct, axes, True) if axes else ct


def conj(x: AnyArray) -> AnyArray:
    """Give the complex conjugate, of a real array the array itself."""
    return x.conj() if x.dtype.kind == "c" else x


def inverse(matrix: AnyArray) -> Array:
    """Invert a matrix."""

    def pullback(ct: Array, a: AnyArray, wanted: tuple[bool, ...]) -> tuple[AnyArray]:
        del wanted
        turned = conj(inverse(a)).T
        return (-(turned @ ct @ turned),)

    return host_call("numpy.linalg.inv", np.linalg.inv, pullback, matrix)
