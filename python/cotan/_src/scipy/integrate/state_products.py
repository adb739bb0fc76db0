"""Products of the derivatives of a right side with vectors, without the derivatives themselves.

Problem: a right side in which everything depends on everything, as of bodies that attract each
other, has whole matrices of derivatives: of sixty equations a product for each costs sixty times
what one product does. The discrete adjoint of an explicit method needs one product for each
stage, one after the other (Hairer, Norsett, Wanner, Solving Ordinary Differential Equations I,
II.6), and the system of a short step of collocation a dozen (Saad, Schultz, GMRES, 1986). A program
of such a product is made once for a run, or for all runs of a formula, and replayed.
"""

from typing import Any, NamedTuple

import numpy as np

from cotan import _core
from cotan._src.kit.known_programs import replayed, without_branches
from cotan._src.runtime.interrupts import raise_interrupt
from cotan._src.typing import AnyArray, Args, Function, NDArray


class StateProducts(NamedTuple):
    """Products at the points of a run, as the compiled part asks for them.

    The functions take the number of the first point, and vectors of shape (points, n) for it and
    those behind it.
    """

    n: int
    points: int
    forth: Function
    back: Function


class ProductPrograms:
    """Programs of the products at so many points at once."""

    def __init__(self, back: _core.Program) -> None:
        """Take a program of times, states, rows and leaves; products with rows are linear."""
        count = len(back.inputs)
        forth = back._pullback([i == 2 for i in range(count)]).optimize()
        self._back, self._forth = replayed(back), replayed(forth)

    def at(self, times: NDArray, states: NDArray, leaves: Args) -> StateProducts:
        """Give the products at points."""
        zeros = np.zeros(states.shape)

        def forth(first: int, columns: NDArray) -> NDArray:
            used = slice(first, first + len(columns))
            given = times[used], states[used], zeros[used], *leaves
            found: NDArray = self._forth(*given, columns)
            return found

        def back(first: int, rows: NDArray) -> NDArray:
            used = slice(first, first + len(rows))
            found: NDArray = self._back(times[used], states[used], rows, *leaves)
            return found

        return StateProducts(states.shape[1], len(times), forth, back)


def product_programs(side: Function, points: int, at: Args) -> ProductPrograms | None:
    """Make the programs for a function of time, state and leaves; None where it reads values.

    `at` are a time, a state and the leaves; so many `points` are asked for at once.
    """
    time, state, *leaves = at
    times, states = np.full(points, time), np.tile(state, (points, 1))
    try:
        return _core.call_outside(lambda: _made(side, times, states, leaves))
    except Exception as error:  # noqa: BLE001
        raise_interrupt(error)
        # Whatever is wrong with it is said by the other way.
        return None


def _made(side: Function, times: NDArray, states: NDArray, leaves: list[Any]) -> ProductPrograms:
    def back(times: AnyArray, states: AnyArray, rows: AnyArray, *leaves: AnyArray) -> AnyArray:
        def at_point(t: Any, y: AnyArray, row: AnyArray, *values: AnyArray) -> AnyArray:
            ct = _core.pullback(lambda y: side(t, y, *values), y)[1](row)[0]
            return np.zeros(row.shape) if ct is None else ct

        def at_all(*values: AnyArray) -> tuple[AnyArray, ...]:
            of_point = lambda t, y, row: at_point(t, y, row, *values)  # noqa: E731
            given, names = (times, states, rows), ["t", "y", "row"]
            return (_core.call_vmap(of_point, given, [True] * 3, names),)

        found: AnyArray = without_branches(at_all, *leaves)[0]
        return _core.broadcast_to(found, rows.shape)

    # That all points have the same zeros is not for a program to know.
    rows = np.ones(states.shape)
    return ProductPrograms(_core.trace(back, times, states, rows, *leaves).optimize())
