"""Derivatives of a right side with respect to the state, at many points: `Jacobians`.

Problem: where states are the cells of a mesh, whole matrices, one for each point of a run, take
more memory than all else, and a product for each cell more time. Most of their entries are zero.
Which ones may differ from zero is read off a program of the right side, and a coloring of that
pattern says by how few products all of them are found (`api.sparse_derivatives` does it for users).
"""

import threading
from typing import Any, NamedTuple

import numpy as np

from cotan import _core
from cotan._src.kit.host_call import writes_primitives
from cotan._src.runtime.interrupts import raise_interrupt
from cotan._src.runtime.loops import ENDLESS, fewest_steps
from cotan._src.state.plain_copy import NotPlainError
from cotan._src.typing import AnyArray, Function, NDArray

# Of fewer equations whole matrices are computed.
_LEAST = 16
# Of fewer entries in whole matrices these are found for derivatives of higher order.
_WHOLE = 4_000_000
# So many patterns are kept.
_MOST = 64


class Jacobians(NamedTuple):
    """Derivatives with respect to the state, at points."""

    n: int
    #: Of shape (points, n, n), or (points, entries).
    values: NDArray
    #: Where rows begin, and the columns of all rows, as in a CSR array; None for all entries.
    pattern: tuple[NDArray, NDArray] | None

    def first(self, count: int) -> "Jacobians":
        """Give those of the first points."""
        return self._replace(values=self.values[:count])

    def whole(self) -> NDArray:
        """Give whole matrices."""
        if self.pattern is None:
            return self.values
        count, n = len(self.values), self.n
        if count * n * n > _WHOLE:
            raise NotPlainError
        indptr, indices = self.pattern
        found = np.zeros((count, n, n))
        found[:, np.repeat(np.arange(n), np.diff(indptr)), indices] = self.values
        return found


class Products(NamedTuple):
    """Products from the left that give all entries."""

    #: What is multiplied, row by row.
    rows: NDArray
    #: Where each entry of a pattern is among the products.
    places: NDArray | None
    pattern: tuple[NDArray, NDArray] | None

    def entries(self, products: NDArray) -> Jacobians:
        """Give the derivatives, from products of shape (points, rows, n)."""
        count, _, n = products.shape
        if self.places is None:
            return Jacobians(n, products, None)
        return Jacobians(n, products.reshape(count, -1)[:, self.places], self.pattern)


def whole_rows(n: int) -> Products:
    """Give the products that are the rows themselves."""
    return Products(np.eye(n), None, None)


class KnownPatterns:
    """What was found for right sides, by their keys."""

    def __init__(self) -> None:
        self._found: dict[bytes, tuple[Products, list[object]]] = {}
        self._lock = threading.Lock()

    def products(
        self, key: _core.FunctionKey | None, slope: Function, t: float, y: NDArray
    ) -> Products:
        """Give the products for a right side, a function of time and state."""
        if len(y) < _LEAST:
            return whole_rows(len(y))
        name = None if key is None else key.key + len(y).to_bytes(8)
        with self._lock:
            if name in self._found:
                return self._found[name][0]
        found = _products(slope, t, y)
        if key is not None and name is not None:
            with self._lock:
                self._found[name] = found, key.kept
                while len(self._found) > _MOST:
                    del self._found[next(iter(self._found))]
        return found


def _products(slope: Function, t: float, y: NDArray) -> Products:
    n = len(y)
    try:
        starts, rows = _core.call_outside(lambda: _transposed_pattern(slope, t, y))
    except Exception as error:  # noqa: BLE001
        raise_interrupt(error)
        # Whatever is wrong with it is said by the other way.
        return whole_rows(n)
    colors = _core.color_columns(n, starts, rows).astype(np.int64)
    count = colors.max(initial=-1) + 1
    if not 0 < 2 * count < n:
        return whole_rows(n)
    columns = np.repeat(np.arange(n), np.diff(starts))
    order = np.lexsort((columns, rows))
    rows, columns = rows[order], columns[order]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))])
    pattern = indptr.astype(np.int32), columns.astype(np.int32)
    multiplied = (colors == np.arange(count)[:, None]).astype(np.float64)
    return Products(multiplied, colors[rows] * n + columns, pattern)


def _transposed_pattern(slope: Function, t: float, y: NDArray) -> tuple[NDArray, NDArray]:
    """Give which slopes depend on each state.

    The time is an input, so that what it selects is not held for constant.
    """
    written_out = writes_primitives.set(True)
    loops = fewest_steps.set(ENDLESS)
    try:
        program = _core.trace(slope, np.asarray(t), y)
    finally:
        fewest_steps.reset(loops)
        writes_primitives.reset(written_out)
    pull = program._pullback([False, True])
    if not pull.outputs:
        return np.zeros(len(y) + 1, np.int32), np.zeros(0, np.int32)
    return _core.dependence(pull, [False, False, True])


def products_of(slope: Function, rows: NDArray, t: Any, y: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Give the slope, and the products of its derivatives with rows, from the left."""
    k, back = _core.pullback(lambda y: slope(t, y), y)
    found: AnyArray | None
    found = _core.call_vmap(lambda u: back(u)[0], (rows,), [True], ["u"])
    return k, np.zeros(rows.shape) if found is None else found
