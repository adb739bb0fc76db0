"""Overrides of the functions of `scipy.linalg` that build structured matrices: `toeplitz`, ..."""

import functools
import importlib
from typing import Any

import numpy as np

from cotan import _core
from cotan._core import Array
from cotan._src.kit import decompositions as dec
from cotan._src.rebind.engine import locate
from cotan._src.rebind.numpy_substitutes import asarray as host_asarray
from cotan._src.runtime.registry import override
from cotan._src.runtime.values import contains_active, refuse, to_numpy
from cotan._src.typing import AnyArray, ArrayLike, NDArray


def _vector(x: ArrayLike) -> Array:
    x = host_asarray(x)
    return _core.reshape(_core.asarray(x), -1)


def _row(x: ArrayLike) -> Array:
    """Give a vector, or a batch of them; older versions took that for one vector."""
    x = _core.asarray(np.atleast_1d(host_asarray(x)))
    return x if x.ndim == 1 or _batches() else _core.reshape(x, -1)


@functools.cache
def _batches() -> bool:
    version = importlib.import_module("scipy").__version__
    return tuple(map(int, version.split(".")[:2])) >= (1, 17)


def _joined(c: AnyArray, r: AnyArray) -> Array:
    """Give vectors, one after the other, but for the first element of the second."""
    batch = np.broadcast_shapes(c.shape[:-1], r.shape[:-1])
    dtype = np.result_type(c.dtype, r.dtype)
    parts = [np.broadcast_to(x, batch + x.shape[-1:]) for x in (c, r[..., 1:])]
    return _core.concatenate([_core.asarray(x, dtype) for x in parts], -1)


@override("scipy.linalg.toeplitz")
def toeplitz(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    c = _row(c)
    r = (c.conj() if c.dtype.kind == "c" else c) if r is None else _row(r)
    m, n = c.shape[-1], r.shape[-1]
    values = _joined(_core.flip(c, -1), r)
    return values[..., (m - 1) - np.arange(m)[:, None] + np.arange(n)]


@override("scipy.linalg.hankel")
def hankel(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    c = _vector(c)
    r = np.zeros(c.shape, c.dtype) if r is None else _vector(r)
    values = _joined(c, r)
    return values[np.arange(c.shape[0])[:, None] + np.arange(r.shape[0])]


@override("scipy.linalg.circulant")
def circulant(c: ArrayLike) -> Array:
    c = np.atleast_1d(host_asarray(c))
    n = c.shape[-1]
    return _core.asarray(c)[..., (np.arange(n)[:, None] - np.arange(n)) % n]


@override("scipy.linalg.block_diag")
def block_diag(*arrs: ArrayLike) -> Array:
    items: tuple[ArrayLike, ...] = arrs or ([],)
    blocks: list[AnyArray] = [np.atleast_2d(host_asarray(a)) for a in items]
    batch = np.broadcast_shapes(*(b.shape[:-2] for b in blocks))
    dtype = np.result_type(*(b.dtype for b in blocks))
    width, start, rows = sum(b.shape[-1] for b in blocks), 0, []
    for block in blocks:
        m, n = block.shape[-2:]
        before, after = (np.zeros((*batch, m, k), dtype) for k in (start, width - start - n))
        own = _core.asarray(np.broadcast_to(block, (*batch, m, n)), dtype)
        rows.append(_core.concatenate([before, own, after], -1))
        start += n
    return _core.concatenate(rows, -2)


def _of_values(name: str) -> None:
    """Let a function run on values; a derivative does not exist."""

    @override(f"scipy.linalg.{name}")
    def basis(*args: Any, **kwargs: Any) -> Any:
        if contains_active(args) or contains_active(kwargs):
            raise refuse(f"scipy.linalg.{name}, whose result is determined only up to a rotation,")
        own = {key: to_numpy(value) for key, value in kwargs.items()}
        return locate(f"scipy.linalg.{name}")(*map(to_numpy, args), **own)


_of_values("orth")
_of_values("null_space")


def _asks(name: str) -> None:
    """Let a function that says what form a matrix has look at the values."""

    @override(f"scipy.linalg.{name}")
    def form(a: ArrayLike, *args: Any, **kwargs: Any) -> Any:
        value = np.asarray(to_numpy(dec.constant(host_asarray(a))))
        return locate(f"scipy.linalg.{name}")(value, *args, **kwargs)


_asks("bandwidth")
_asks("issymmetric")
_asks("ishermitian")


@override("scipy.linalg.matrix_balance")
def matrix_balance(
    A: ArrayLike, permute: bool = True, scale: bool = True, separate: bool = False,  # noqa: N803
    overwrite_a: bool = False,
) -> tuple[AnyArray, NDArray | tuple[NDArray, NDArray]]:  # fmt: skip
    """Scale and permute by what SciPy says, which is constant where it does not jump."""
    del overwrite_a
    a = host_asarray(A)
    original = locate("scipy.linalg.matrix_balance")
    _, transform = original(to_numpy(a), permute, scale, False)
    _, (scaling, order) = original(to_numpy(a), permute, scale, True)
    # Powers of 2, so that this is exact, in the precision of the matrix.
    factors = scaling.astype(np.finfo(a.dtype).dtype) if a.dtype.kind in "fc" else scaling
    balanced = a[np.ix_(order, order)] / factors[:, None] * factors
    return balanced, ((scaling, order) if separate else transform)
