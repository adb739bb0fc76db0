"""The derivative of a stiff run: the linearised equation along it, by collocation on its steps.

`Radau` is collocation itself: its stages are the nodes, and the derivative is that of the numbers
which it gives, with the steps held constant. `BDF` and `LSODA` vary their order, and their
interpolants lie within the tolerance around the solution. Along these interpolants the linearised
equation is solved by Radau's methods with three or five stages, which are of order 5 and 9 and damp
what is stiff (Hairer, Wanner, Solving Ordinary Differential Equations II, IV.5). A step on which
collocation would move the interpolant itself by more than the tolerances allow is halved.
"""

import functools
from typing import Any

import numpy as np

from cotan import _core
from cotan._src.scipy.integrate.plain_run import NORDSIECK, Nordsieck, Outputs, Step
from cotan._src.scipy.integrate.state_jacobians import Jacobians
from cotan._src.scipy.integrate.state_products import StateProducts
from cotan._src.state.plain_copy import NotPlainError
from cotan._src.typing import Function, NDArray

# Up to so many times as many steps as the solver has taken.
_MOST = 8
# Matrices of more rows are large.
_SMALL = 24
# So many steps are one where matrices are larger: halved twice, they are those of the solver.
_TOGETHER = 4
_STRICT = 2
# States of LSODA that are evaluated at once: each with a copy of the memory of its step.
_PART = 64
# Stages of the collocation along runs of many small steps.
_STAGES = 5
# So many tolerances collocation may move a state.
_LEEWAY = 30.0
# Steps of fewer units in the last place of their times are not halved.
_LEAST = 256
_ROOT = 6**0.5
#: The method with three stages as SciPy has it.
_THREE = ((4 - _ROOT) / 10, (4 + _ROOT) / 10, 1.0)


@functools.cache
def nodes_of(stages: int) -> tuple[NDArray, NDArray]:
    """Give places of nodes in a step, and how much slopes there count for states there."""
    if stages == 3:
        c = np.array(_THREE)
    else:
        # Zeros of the difference of two polynomials of Legendre.
        both = np.zeros(stages + 1)
        both[stages - 1 :] = -1.0, 1.0
        c = (np.sort(np.polynomial.legendre.legroots(both).real) + 1) / 2
        c[-1] = 1.0
    powers = np.arange(stages)
    a = (c[:, None] ** (powers + 1) / (powers + 1)) @ np.linalg.inv(c[:, None] ** powers)
    return c, a


def _inside(c: NDArray, x: NDArray) -> NDArray:
    """Give how much changes at nodes count for states within steps, at parts `x` of them."""
    ends = np.concatenate([[0.0], c])
    factors = np.ones((len(x), len(c)))
    for j in range(len(c)):
        for i, other in enumerate(ends):
            if i != j + 1:
                factors[:, j] *= (x - other) / (ends[j + 1] - other)
    return factors


class LongStepsError(Exception):
    """Steps are too long for systems that products solve."""


def are_large(n: int) -> bool:
    """Say whether the matrices of steps along runs of many small steps are large."""
    return _STAGES * n > _SMALL


class CollocationSteps:
    """States at `Outputs` of a run, as they change with slopes at nodes and the initial state.

    After `__init__`, slopes and derivatives of the right side are to be computed at `times` and
    `states`, and `begin` called with them. If that is False, `times` and `states` are those of the
    steps that it has halved, and the same is to be done for them; then they are those of all steps.
    """

    #: Products are quicker than the derivatives, where these take so many.
    fewest_products = 40

    def __init__(
        self,
        steps: list[Step] | NDArray,
        stages: int,
        tolerances: Any = (0.0, 0.0),
        states_at: Function | None = None,
        strict: int = 0,
        together: int = 1,
    ) -> None:
        """Take the steps of a run; or where they begin and end, and what gives states at times.

        `together` steps of the solver are one. For the first `strict` times that steps are halved,
        collocation may move a state by so many tolerances only. That is no goal for the solver's
        own steps, since its states jump by more where steps meet.
        """
        self._tolerances, self._states_at = tolerances, states_at
        #: At so many points products are asked for at once.
        self.at_once = stages
        self._strict, self._together = strict, together
        self._c, self._a = nodes_of(stages)
        if isinstance(steps, np.ndarray):
            self._of: list[Step] = []
            self._low, self._high = steps[:-1], steps[1:]
        else:
            self._of = steps
            self._low = np.array([step.begin for step in steps])
            self._high = np.array([step.end for step in steps])
        count = len(self._low)
        self._most = _MOST * together * count
        # Of which step of the solver each is a part.
        self._numbers = np.arange(count)
        # Steps whose derivatives are to come, and the numbers that others have in `_linear`.
        self._waiting, self._before = np.arange(count), np.arange(count)
        self._linear: _core.Collocation | None = None
        self.is_exact = bool(self._of) and isinstance(self._of[0].inside, np.ndarray)
        self._place()

    @classmethod
    def along(
        cls, mesh: NDArray, n: int, tolerances: Any, states_at: Function
    ) -> "CollocationSteps":
        """Give steps along a run of many small steps of high order, of `n` equations.

        Where their matrices are large, some steps at once are one, and halved where that is too
        much.
        """
        is_large = are_large(n) and len(mesh) > _TOGETHER
        if is_large:
            mesh = np.concatenate([mesh[:-1:_TOGETHER], mesh[-1:]])
        strict, together = (_STRICT, _TOGETHER) if is_large else (0, 1)
        return cls(mesh, _STAGES, tolerances, states_at, strict, together)

    @classmethod
    def along_lsoda(cls, steps: list[Step], n: int, tolerances: Any) -> "CollocationSteps":
        """Give the same for steps of LSODA."""
        if not are_large(n):
            return cls(steps, _STAGES, tolerances)
        mesh = np.array([steps[0].begin, *(step.end for step in steps)])
        sign = np.sign(mesh[-1] - mesh[0])

        def states_at(times: NDArray) -> NDArray:
            after = np.searchsorted(sign * mesh[1:], sign * times)
            numbers = np.minimum(after, len(steps) - 1)
            parts = np.split(np.arange(len(times)), range(_PART, len(times), _PART))
            found = [
                _evaluated([steps[i].inside for i in numbers[at]], times[at, None]) for at in parts
            ]
            return np.concatenate(found)[:, 0]

        return cls.along(mesh, n, tolerances, states_at)

    def _place(self) -> None:
        """Find the states at the nodes of steps that wait for their derivatives."""
        self._h = self._high - self._low
        at = self._nodes(self._waiting)
        if self._states_at is not None:
            # The first time is that of the initial state.
            times = at.reshape(-1) if self._waiting[0] == 0 else np.append(self._low[0], at)
            known = self._states_at(times)[-at.size :].reshape(*at.shape, -1)
        else:
            inside = [self._of[i].inside for i in self._numbers[self._waiting]]
            known = np.array(inside) if self.is_exact else _evaluated(inside, at)
        n = known.shape[-1]
        if self._linear is None:
            self._known, self._n = known, n
        else:
            self._known = self._known[self._before]
            self._known[self._waiting] = known
        self.times, self.states = at[:, 1:].reshape(-1), known[:, 1:].reshape(-1, n)

    def _nodes(self, steps: NDArray) -> NDArray:
        """Give the times of the nodes of steps, the first ones where they begin."""
        at: NDArray = self._low[steps, None] + self._h[steps, None] * np.append(0.0, self._c)
        at[:, -1] = self._high[steps]
        return at

    def outputs(self, times: NDArray, is_end: NDArray | bool = False) -> Outputs:
        """Give what is known of states at times."""
        del is_end  # which the last node is
        sign = np.sign(self._h[0])
        found = np.searchsorted(sign * self._high, sign * times)
        steps = np.minimum(found, len(self._high) - 1)
        x = (times - self._low[steps]) / self._h[steps]
        return Outputs(steps, _inside(self._c, x))

    def limits(self) -> tuple[NDArray, NDArray]:
        """Give where steps begin and end."""
        return self._low, self._high

    def points(self) -> Outputs:
        """Give the same for the nodes."""
        count, s = len(self._h), len(self._c)
        return Outputs(np.repeat(np.arange(count), s), np.tile(np.eye(s), (count, 1)))

    def nodes(self) -> tuple[NDArray, Outputs]:
        """Give parts of a step whose states determine the interpolant, and what to know of them."""
        parts = np.concatenate([[0.0], self._c])
        count = len(self._h)
        weights = np.tile(_inside(self._c, parts), (count, 1))
        return parts, Outputs(np.repeat(np.arange(count), len(parts)), weights)

    def values(self, outputs: Outputs) -> NDArray:
        """Give the states themselves."""
        known = self._known[outputs.steps]
        change = np.einsum("js,jsa->ja", outputs.weights, known[:, 1:] - known[:, :1])
        found: NDArray = known[:, 0] + change
        return found

    def begin(self, derivatives: Jacobians | StateProducts, slopes: NDArray) -> bool:
        """Take derivatives and slopes at the nodes; False where steps have been halved.

        Raises `LongStepsError` where many products would be needed for the system of a step.
        """
        waiting = self._waiting
        near = None if self.is_exact else (self._known[waiting].reshape(-1), slopes.reshape(-1))
        found = _core.Collocation.of(self._h[waiting], self._a, derivatives, near)
        if found is None:
            raise NotPlainError if isinstance(derivatives, Jacobians) else LongStepsError
        linear, off = found
        if self._linear is None:
            self._linear = linear
        else:
            numbers = self._before
            numbers[waiting] = self._linear.num_steps + np.arange(len(waiting))
            self._linear = self._linear.joined(linear, numbers)
        if self.is_exact:
            return True
        off = np.abs(off)
        if not np.isfinite(off).all() and _are_finite(derivatives):
            # A matrix was singular.
            raise NotPlainError
        if self._halved(off.reshape(len(waiting), -1, self._n)):
            self._place()
            return False
        self.times = self._nodes(np.arange(len(self._h)))[:, 1:].reshape(-1)
        self.states = self._known[:, 1:].reshape(-1, self._n)
        return True

    def _halved(self, off: NDArray) -> bool:
        """Halve steps on which collocation would move a state by so much; say if there are any.

        `off` is by how much, for the steps that have waited for their derivatives.
        """
        count, waiting = len(self._h), self._waiting
        rtol, atol = self._tolerances
        known, h, low, high = (x[waiting] for x in (self._known, self._h, self._low, self._high))
        allowed = atol + rtol * functools.reduce(np.maximum, np.abs(known).swapaxes(0, 1))
        allowed = (self._together if self._strict else _LEEWAY) * allowed
        self._strict = max(self._strict - 1, 0)
        is_long = np.abs(h) > _LEAST * np.spacing(np.maximum(abs(low), abs(high)))
        is_off = np.zeros(count, bool)
        is_off[waiting] = is_long & ~np.all(off <= allowed[:, None], (1, 2))
        if not is_off.any() or count >= self._most:
            return False
        parts = np.where(is_off, 2, 1)
        middle = (self._low + self._high) / 2
        first = np.cumsum(parts) - parts
        low, high = np.repeat(self._low, parts), np.repeat(self._high, parts)
        high[first[is_off]] = low[first[is_off] + 1] = middle[is_off]
        self._low, self._high = low, high
        self._numbers = np.repeat(self._numbers, parts)
        self._before = np.repeat(np.arange(count), parts)
        self._waiting = np.flatnonzero(np.repeat(is_off, parts))
        return True

    def adjoint(self, outputs: Outputs, cts: NDArray) -> NDArray:
        """Give cotangents of slopes and initial state, for rows of cotangents of states."""
        return self._of_all.adjoint(*map(np.ascontiguousarray, (*outputs, cts)))

    def columns(self, outputs: Outputs, slopes: NDArray, start: NDArray) -> NDArray:
        """Give changes of states, for columns of changes of slopes and of the initial state.

        These are of shapes (points, n, columns) and (n, columns).
        """
        return self._of_all.columns(*map(np.ascontiguousarray, (*outputs, slopes, start)))

    @property
    def _of_all(self) -> _core.Collocation:
        if self._linear is None:
            raise RuntimeError("call `begin` first")
        return self._linear


def _are_finite(derivatives: Jacobians | StateProducts) -> bool:
    if isinstance(derivatives, Jacobians):
        return bool(np.isfinite(derivatives.values).all())
    # Systems with products that are not finite are not solved by them.
    return True


def _evaluated(inside: list[Any], at: NDArray) -> NDArray:
    """Give the states at times of each step: of shape (steps, times, n)."""
    if not isinstance(inside[0], Nordsieck):
        return np.array([f(t).T for f, t in zip(inside, at, strict=True)])
    # LSODA's are polynomials with the derivatives at the end of the step; of lower orders than the
    # highest one the rest are zero.
    ends = np.array([f.t for f in inside])
    memory = np.array([f.memory for f in inside])
    before, h = memory[:, :2].T
    orders, after = np.array([f.orders for f in inside]).T
    terms = memory[:, 10:].reshape(len(inside), NORDSIECK, -1)[:, : orders.max() + 1]
    terms[np.arange(terms.shape[1]) > orders[:, None]] = 0.0
    is_scaled = after < orders
    terms[is_scaled, orders[is_scaled]] *= ((h / before) ** orders)[is_scaled, None]
    x = ((at - ends[:, None]) / h[:, None])[:, :, None]
    found = np.zeros((*at.shape, terms.shape[2]))
    for i in range(terms.shape[1] - 1, -1, -1):
        found *= x
        found += terms[:, i, None]
    return found
