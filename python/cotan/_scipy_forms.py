"""Matrices of a given form, as `scipy.linalg` has them."""

from typing import Any

import numpy as np

from cotan import _core
from cotan._lifted import lifts
from cotan._numpy_core import any_active, plain, refuse
from cotan._numpy_own import asarray as host_asarray
from cotan._scipy_linalg import scipy_linalg


def _vector(x: Any) -> Any:
    x = host_asarray(x)
    return _core.reshape(_core.asarray(x), -1)


def _both(c: Any, r: Any) -> tuple[Any, Any]:
    x, y = _vector(c), _vector(r)
    dtype = np.result_type(x.dtype, y.dtype)
    return _core.asarray(x, dtype), _core.asarray(y, dtype)


@lifts("scipy.linalg.toeplitz")
def toeplitz(c: Any, r: Any = None) -> Any:
    c = _vector(c)
    first = (c.conj() if c.dtype.kind == "c" else c) if r is None else r
    c, r = _both(c, first)
    values = _core.concatenate([_core.flip(c), r[1:]])
    m, n = c.shape[0], r.shape[0]
    return values[(m - 1) - np.arange(m)[:, None] + np.arange(n)]


@lifts("scipy.linalg.hankel")
def hankel(c: Any, r: Any = None) -> Any:
    c = _vector(c)
    c, r = _both(c, np.zeros(c.shape, c.dtype) if r is None else r)
    values = _core.concatenate([c, r[1:]])
    return values[np.arange(c.shape[0])[:, None] + np.arange(r.shape[0])]


@lifts("scipy.linalg.circulant")
def circulant(c: Any) -> Any:
    c = host_asarray(c)
    n = c.shape[-1]
    return _core.asarray(c)[..., (np.arange(n)[:, None] - np.arange(n)) % n]


@lifts("scipy.linalg.block_diag")
def block_diag(*arrs: Any) -> Any:
    blocks = [np.atleast_2d(host_asarray(a)) for a in (arrs or ([],))]
    if any(b.ndim > 2 for b in blocks):
        raise refuse("scipy.linalg.block_diag of batches")
    dtype = np.result_type(*(b.dtype for b in blocks))
    width, start, rows = sum(b.shape[1] for b in blocks), 0, []
    for block in blocks:
        m, n = block.shape
        before, after = np.zeros((m, start), dtype), np.zeros((m, width - start - n), dtype)
        rows.append(_core.concatenate([before, _core.asarray(block, dtype), after], 1))
        start += n
    return _core.concatenate(rows, 0)


def _of_values(name: str) -> None:
    """Let a function run on values; a derivative does not exist."""

    @lifts(f"scipy.linalg.{name}")
    def basis(*args: Any, **kwargs: Any) -> Any:
        if any_active(args):
            raise refuse(f"scipy.linalg.{name}, any rotation of whose result is one as well,")
        scipy = scipy_linalg()

        return getattr(scipy, name)(*map(plain, args), **kwargs)


_of_values("orth")
_of_values("null_space")
