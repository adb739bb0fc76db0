"""Derivatives of a right side with respect to the state, at many points: `Jacobians`.

Problem: where states are the cells of a mesh, whole matrices, one for each point of a run, take
more memory than all else, and a product for each cell more time. Most of their entries are zero.
Which ones may differ from zero is read off a program of the right side, and a coloring of that
pattern says by how few products all of them are found (`api.sparse_derivatives` does it for users).
"""

import threading
from collections.abc import Callable, Hashable
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from cotan import _core
from cotan._src.kit.host_call import writes_primitives
from cotan._src.kit.known_programs import without_branches
from cotan._src.runtime.interrupts import raise_interrupt
from cotan._src.runtime.loops import ENDLESS, fewest_steps
from cotan._src.state.plain_copy import NotPlainError
from cotan._src.typing import AnyArray, Args, Function, NDArray

_T = TypeVar("_T")

#: Of fewer equations whole matrices are computed.
FEWEST_EQUATIONS = 16
# Numbers in derivatives, or in the products that give them, at all points of a run.
_DERIVATIVES = 4_000_000
# So many patterns are kept.
_MOST = 64


def expect_few(numbers: int) -> None:
    """Raise `NotPlainError` where derivatives are too many numbers."""
    if numbers > _DERIVATIVES:
        raise NotPlainError


class Jacobians(NamedTuple):
    """Derivatives with respect to the state, at points."""

    n: int
    #: Of shape (points, n, n), or (points, entries).
    values: NDArray
    #: Where rows begin, and the columns of all rows, as in a CSR array; None for all entries.
    pattern: tuple[NDArray, NDArray] | None

    def first(self, count: int) -> "Jacobians":
        """Give those of the first points."""
        return self._replace(values=np.ascontiguousarray(self.values[:count]))

    def whole(self) -> NDArray:
        """Give whole matrices."""
        if self.pattern is None:
            return self.values
        count, n = len(self.values), self.n
        expect_few(count * n * n)
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


class Kept(Generic[_T]):
    """What was found for right sides, by all that it depends on."""

    def __init__(self) -> None:
        self._found: dict[Hashable, tuple[_T, object]] = {}
        self._lock = threading.Lock()

    def of(self, name: Hashable, kept: object, find: Callable[[], _T]) -> _T:
        """Give what was found, or find it; `kept` is what the name has by identity."""
        with self._lock:
            if name in self._found:
                # What was asked for last is kept longest.
                found = self._found[name] = self._found.pop(name)
                return found[0]
        made = find()
        with self._lock:
            self._found[name] = made, kept
            while len(self._found) > _MOST:
                del self._found[next(iter(self._found))]
        return made


def products_for(side: Function, at: Args) -> Products | None:
    """Find the products for a function of time, state and more; None where it reads values."""
    n = len(at[1])
    try:
        starts, rows = _core.call_outside(lambda: _transposed_pattern(side, at))
    except Exception as error:  # noqa: BLE001
        raise_interrupt(error)
        # Whatever is wrong with it is said by the other way.
        return None
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


def _transposed_pattern(side: Function, at: Args) -> tuple[NDArray, NDArray]:
    """Give which slopes depend on each state, whatever the values of time, state and leaves are.

    They are mapped along an axis of length one: functions that branch on them are refused, and of
    `cond` both branches count.
    """

    def mapped(*values: AnyArray) -> AnyArray:
        found: AnyArray = without_branches(lambda *v: (side(*v),), *values)[0]
        return found

    written_out = writes_primitives.set(True)
    loops = fewest_steps.set(ENDLESS)
    try:
        program = _core.trace(mapped, *map(np.asarray, at))
    finally:
        fewest_steps.reset(loops)
        writes_primitives.reset(written_out)
    is_state = [i == 1 for i in range(len(at))]
    pull = program._pullback(is_state)
    if not pull.outputs:
        return np.zeros(len(at[1]) + 1, np.int32), np.zeros(0, np.int32)
    return _core.dependence(pull, [False] * len(at) + [True])


def products_of(slope: Function, rows: NDArray, t: Any, y: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Give the slope, and the products of its derivatives with rows, from the left."""
    k, back = _core.pullback(lambda y: slope(t, y), y)
    found: AnyArray | None
    found = _core.call_vmap(lambda u: back(u)[0], (rows,), [True], ["u"])
    return k, np.zeros(rows.shape) if found is None else found
