"""States of a run as they move with what the right side captures and the initial state.

With the steps held constant, states are linear in changes of slopes and of the initial state:
`explicit_steps` and `collocation_steps` have this linear map. The slopes are recorded once, for all
points of the run (`right_side`); for a derivative of higher order once per order, as in Newton's
method.
"""

import functools
from collections.abc import Callable

import numpy as np

from cotan import _core
from cotan._src.kit.host_call import linear
from cotan._src.rebind.numpy_substitutes import asarray
from cotan._src.runtime.values import attach_derivative, contains_active, is_active, to_numpy
from cotan._src.scipy.integrate.collocation_steps import CollocationSteps, LongStepsError
from cotan._src.scipy.integrate.explicit_steps import ExplicitSteps
from cotan._src.scipy.integrate.interpolant import Interpolant
from cotan._src.scipy.integrate.plain_run import Outputs, PlainRun, is_near, points_of
from cotan._src.scipy.integrate.right_side import Derivatives, ProductsAt, RightSide
from cotan._src.scipy.integrate.state_jacobians import Jacobians, Products, expect_few
from cotan._src.state.plain_copy import NotPlainError
from cotan._src.typing import AnyArray, ArrayLike, Function, NDArray

# Up to so many numbers the linear map is formed as a matrix.
_MATRIX = 4_000
# Of so many leaves and states together directions are carried along the steps.
_COLUMNS = 8
# At so many calls of the solver the recorded right side has to give the same.
_COMPARED = 16

#: The states of a run as a linear function of changes.
Steps = ExplicitSteps | CollocationSteps


class MovedStates:
    """The states of a run of a solver, with their derivatives.

    Raises `NotPlainError` where the recorded right side gives something else than it gave to the
    solver.
    """

    #: Derivatives of the right side at the points of the steps, for those of higher order.
    _jacobians: Jacobians

    def __init__(
        self, name: str, side: RightSide, run: PlainRun, steps: Steps, y0: ArrayLike
    ) -> None:
        self._name, self.steps = name, steps
        self._n = steps.states.shape[1]
        compared = points_of(run, _COMPARED)
        start = _core.cast(asarray(y0), np.float64).reshape(-1)
        #: Changes of slopes and initial state with the numbers in `_change`, if these are few.
        self._columns: tuple[NDArray, NDArray] | None = None
        known = self._begin(side, compared)
        m = len(steps.times)
        times, states = _joined(steps, compared)
        k: AnyArray = side.slopes(times, states) if known is None else known.slopes
        if not is_near(to_numpy(k[m:]), compared[2], 1e-9, 1e-300):
            raise NotPlainError
        if known is not None and known.of_leaves is not None:
            self._take_columns(known, known.of_leaves[:m], start)
            return
        if known is not None and known.recorded is not None:
            k = known.recorded
        self.is_active = contains_active((k, start))
        if not self.is_active:
            return
        self._change = _core.concatenate([_core.reshape(k[:m], (-1,)), start])
        for _ in range(_core.nestlevel() - 1):
            moved = attach_derivative(steps.states, self.at(steps.points()))
            k = side.slopes(steps.times, moved)
            own = _core.matmul(self._jacobians.whole(), (moved - steps.states)[..., None])
            rest = _core.reshape(k - own[..., 0], (-1,))
            self._change = _core.concatenate([rest, start])

    def _begin(self, side: RightSide, compared: tuple[NDArray, ...]) -> Derivatives | None:
        """Give the steps their derivatives, or products with them; return all that are known."""
        steps, source = self.steps, _Source(side)
        while True:
            m = len(steps.times)
            times, states = _joined(steps, compared)
            if source.begin(steps, times, states):
                break
        if m < len(steps.times):
            # That was for steps that had been halved.
            m = len(steps.times)
            times, states = _joined(steps, compared)
            if source.known is not None:
                source.known = side.known(times, states)
            if source.known is None and _core.nestlevel() > 1:
                source.derivatives(times, states)
        if source.jacobians is not None:
            self._jacobians = source.jacobians.first(m)
        return source.known

    def _take_columns(self, known: Derivatives, of_leaves: NDArray, start: AnyArray) -> None:
        """Let states move with leaves and the initial state."""
        n, m, is_moved = self._n, len(self.steps.times), is_active(start)
        self.is_active = bool(known.leaves) or is_moved
        if not self.is_active:
            return
        leaves = [_core.reshape(leaf, (-1,)) for leaf in known.leaves]
        extra = n if is_moved else 0
        count = of_leaves.shape[2]
        if count + extra > _COLUMNS:
            # Cotangents go back along the steps in less time than so many directions forth.
            slopes: AnyArray = np.zeros(m * n)
            if leaves:
                slopes = _core.matmul(of_leaves.reshape(m * n, count), _core.concatenate(leaves))
            self._change = _core.concatenate([slopes, start])
            return
        # All directions at once.
        self._change = _core.concatenate([*leaves, *([start] if is_moved else ())])
        of_start = np.eye(n, count + extra, count)
        if extra:
            of_leaves = np.concatenate([of_leaves, np.zeros((m, n, extra))], 2)
        self._columns = of_leaves, of_start

    def at(self, outputs: Outputs) -> AnyArray:
        """Give states, of shape (count, n), that move as the solution does."""
        steps, change, count = self.steps, self._change, len(outputs.steps)
        size, n = count * self._n, self._n
        moved: AnyArray
        if self._columns is not None:
            columns = steps.columns(outputs, *self._columns).reshape(size, -1)
            moved = _core.matmul(columns, change)
        elif steps.times.size * n * size <= _MATRIX:
            moved = _core.matmul(steps.adjoint(outputs, np.eye(size)), change)
        else:
            moved = linear(
                self._name, _unless_zero(lambda v: self._forward(outputs, v), size),
                _unless_zero(lambda ct: steps.adjoint(outputs, ct[None, :])[0], change.shape[0]),
            )(change - _core.dropgrad(change))  # fmt: skip
        return _core.reshape(moved, (count, n))

    def _forward(self, outputs: Outputs, changes: NDArray) -> NDArray:
        """Give changes of states, for those of slopes and of the initial state."""
        n = self._n
        columns = changes[:, None]
        slopes = columns[:-n].reshape(-1, n, 1)
        return self.steps.columns(outputs, slopes, columns[-n:]).reshape(-1)

    @functools.cached_property
    def interpolant(self) -> Interpolant:
        """The solution within steps."""
        parts, outputs = self.steps.nodes()
        nodes: AnyArray = self.steps.values(outputs)
        if self.is_active:
            nodes = attach_derivative(nodes, self.at(outputs))
        begins, ends = self.steps.limits()
        return Interpolant(begins, ends, parts, _core.reshape(nodes, (-1, len(parts), self._n)))


class _Source:
    """Where steps have the derivatives of the right side from."""

    def __init__(self, side: RightSide) -> None:
        self._side = side
        #: All derivatives, where they are known.
        self.known: Derivatives | None = None
        #: Those with respect to the state, where they were computed.
        self.jacobians: Jacobians | None = None
        self._products: Products | None = None
        # Derivatives of higher order need the derivatives themselves.
        self._takes_products = _core.nestlevel() == 1
        self._programs: ProductsAt | None = None

    def begin(self, steps: Steps, times: NDArray, states: NDArray) -> bool:
        """Give steps what they need, at their points, the first ones; False to be called again."""
        side, m = self._side, len(steps.times)
        self.known = side.known(times, states)
        if self.known is not None:
            slopes, self.jacobians = self.known.slopes, self.known.of_states
            return steps.begin(self.jacobians.first(m), slopes[:m])
        programs = self._programs_at(steps, times, states)
        if programs is None:
            slopes, jacobians = self.derivatives(times, states)
            return steps.begin(jacobians.first(m), slopes[:m])
        slopes = side.plain_slopes(times, states)
        try:
            return steps.begin(programs.points(times[:m], states[:m]), slopes[:m])
        except LongStepsError:
            self._takes_products = False
            return False

    def derivatives(self, times: NDArray, states: NDArray) -> tuple[NDArray, Jacobians]:
        """Give slopes and derivatives: at all points at once, so that ways are looked for once."""
        products = self._products_at(times, states)
        expect_few(len(times) * products.rows.size)
        slopes, self.jacobians = self._side.derivatives(times, states, products)
        return slopes, self.jacobians

    def _products_at(self, times: NDArray, states: NDArray) -> Products:
        if self._products is None:
            self._products = self._side.products(times, states)
        return self._products

    def _programs_at(self, steps: Steps, times: NDArray, states: NDArray) -> ProductsAt | None:
        """Give what computes products, where these are quicker than the derivatives."""
        if self._takes_products and self._programs is None:
            count = len(self._products_at(times, states).rows)
            if count >= steps.fewest_products:
                at = times[0], states[0]
                self._programs = self._side.product_programs(steps.at_once, *at)
            self._takes_products = self._programs is not None
        return self._programs if self._takes_products else None


def _joined(steps: Steps, compared: tuple[NDArray, ...]) -> tuple[NDArray, NDArray]:
    """Give times and states of the points of steps, and behind them those that are compared."""
    return np.concatenate([steps.times, compared[0]]), np.concatenate([steps.states, compared[1]])


def _unless_zero(function: Callable[[NDArray], NDArray], size: int) -> Function:
    """Give a linear function of vectors that is not called for zeros: transposing it asks there."""

    def call(vector: AnyArray) -> NDArray:
        values = to_numpy(vector)
        return function(values) if values.any() else np.zeros(size)

    return call
