"""An override of `scipy.interpolate.RBFInterpolator`, differentiable in all its array arguments.

SciPy makes the interpolator on values, checks the arguments and chooses the polynomials. The
coefficients are computed here, from a system of equations over the same kernels.
"""

# ruff: noqa: N802 - the name is SciPy's

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from cotan import _core
from cotan._core import NotDifferentiableError
from cotan._src.rebind.engine import REBOUND_METHOD, locate, rebinds_instances
from cotan._src.rebind.numpy_substitutes import asarray, gathered
from cotan._src.runtime.originals import original_of
from cotan._src.runtime.registry import ALWAYS, METHOD, override
from cotan._src.runtime.values import contains_active, is_array
from cotan._src.typing import AnyArray, ArrayLike, NDArray, T

_NAME = "scipy.interpolate.RBFInterpolator"


class _Interpolator(Protocol):
    """What SciPy makes."""

    kernel: str
    epsilon: float
    powers: NDArray
    neighbors: int | None
    y: NDArray
    d_dtype: type
    d_shape: tuple[int, ...]
    _shift: NDArray
    _scale: NDArray
    _coeffs: NDArray
    # Active places, scale and coefficients.
    _traced: tuple[AnyArray, AnyArray | float, AnyArray]

    def __call__(self, x: ArrayLike) -> AnyArray: ...


# The older class is Python code.
rebinds_instances("scipy.interpolate.Rbf")
override("scipy.interpolate.Rbf.__call__", kind=METHOD)(REBOUND_METHOD)

# Kernels as functions of the square of the distance; where it is 0, those that have no derivatives
# there have this value.
_KERNELS: dict[str, tuple[Callable[[AnyArray], AnyArray], float | None]] = {
    "linear": (lambda q: -np.sqrt(q), 0.0),
    "thin_plate_spline": (lambda q: 0.5 * q * np.log(q), 0.0),
    "cubic": (lambda q: q * np.sqrt(q), 0.0),
    "quintic": (lambda q: -q * q * np.sqrt(q), 0.0),
    "multiquadric": (lambda q: -np.sqrt(q + 1), None),
    "inverse_multiquadric": (lambda q: 1 / np.sqrt(q + 1), None),
    "inverse_quadratic": (lambda q: 1 / (q + 1), None),
    "gaussian": (lambda q: np.exp(-q), None),
}


def _basis(self: _Interpolator, x: AnyArray, y: AnyArray, epsilon: AnyArray | float) -> AnyArray:
    """Give the kernels at some points, beside the polynomials there."""
    squares = np.sum(np.square((x[:, None, :] - y[None, :, :]) * epsilon), axis=-1)
    kernel, at_zero = _KERNELS[self.kernel]
    if at_zero is None:
        values = kernel(squares)
    else:
        there = squares > 0
        values = np.where(there, kernel(np.where(there, squares, 1.0)), at_zero)
    # Where the polynomials are centred makes no difference to what is spanned.
    scaled = (x - self._shift) / self._scale
    powers = [np.prod(scaled**power, axis=1) for power in np.asarray(self.powers)]
    return np.concatenate([values, *(column[:, None] for column in powers)], axis=1)


def _peeked(x: T) -> T | NDArray:
    return _core.peek(x) if is_array(x) else x


@override(_NAME)
def RBFInterpolator(
    y: ArrayLike, d: ArrayLike, neighbors: int | None = None, smoothing: ArrayLike = 0.0,
    kernel: str = "thin_plate_spline", epsilon: AnyArray | float | None = None,
    degree: int | None = None,
) -> _Interpolator:  # fmt: skip
    y, d, smoothing = gathered(y), gathered(d), gathered(smoothing)
    # SciPy checks the arguments. Of what it computes, only the place and the scale of polynomials
    # are used with active arguments, and these have no influence on the result.
    made: _Interpolator = locate(_NAME)(
        _peeked(y), _peeked(d), neighbors, _peeked(smoothing), kernel, _peeked(epsilon), degree
    )
    if not contains_active((y, d, smoothing, epsilon)):
        return made
    if neighbors is not None:
        raise NotDifferentiableError(
            "RBFInterpolator: neighbors= has no derivative rule in cotan; leave it out"
        )
    places = asarray(y)
    values = asarray(d)
    places = places.astype(np.float64)
    values = values.astype(made.d_dtype).reshape(values.shape[0], -1)
    epsilon = made.epsilon if epsilon is None else epsilon
    n, more = places.shape[0], made.powers.shape[0]
    basis = _basis(made, places, places, epsilon)
    upper = basis + np.eye(n, n + more) * np.broadcast_to(smoothing, (n,))[:, None]
    lower = np.concatenate([basis[:, n:].T, np.zeros((more, more))], axis=1)
    right = np.concatenate([values, np.zeros((more, values.shape[1]))])
    made._traced = places, epsilon, np.linalg.solve(np.concatenate([upper, lower]), right)
    return made


@override(f"{_NAME}.__getstate__", kind=METHOD, when=ALWAYS)
def state(self: _Interpolator) -> tuple[Any, ...]:
    # Copies depend on the same leaves.
    return *original_of(locate(_NAME).__getstate__)(self), getattr(self, "_traced", None)


@override(f"{_NAME}.__setstate__", kind=METHOD, when=ALWAYS)
def restore(self: _Interpolator, state: tuple[Any, ...]) -> None:
    original_of(locate(_NAME).__setstate__)(self, state[:2])
    if len(state) > 2 and state[2] is not None:
        self._traced = state[2]


@override(f"{_NAME}.__call__", kind=METHOD, when=ALWAYS)
def call(self: _Interpolator, x: ArrayLike) -> AnyArray:
    out: AnyArray
    x = gathered(x)
    active = getattr(self, "_traced", None)
    if active is None and not is_array(x):
        out = original_of(locate(_NAME).__call__)(self, x)
        return out
    if self.neighbors is not None:
        raise NotDifferentiableError(
            "RBFInterpolator: neighbors= has no derivative rule in cotan; leave it out"
        )
    points = asarray(x).astype(np.float64)
    if points.ndim != 2 or points.shape[1] != self.y.shape[1]:
        raise ValueError(
            f"RBFInterpolator: points must have shape (n, {self.y.shape[1]}), not {points.shape}"
        )
    y, epsilon, coefficients = active or (self.y, self.epsilon, self._coeffs)
    out = _basis(self, points, y, epsilon) @ _core.asarray(coefficients)
    if out.dtype != self.d_dtype:
        # SciPy keeps real and imaginary parts beside each other.
        out = out[:, 0::2] + 1j * out[:, 1::2]
    return out.reshape(points.shape[0], *self.d_shape)
