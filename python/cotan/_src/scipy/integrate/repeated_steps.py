"""Repeats the steps that a solver of ordinary differential equations took, on active values.

Problem: SciPy's solver finds the steps on values. Repeated with what is differentiated, their
lengths held constant, they give the derivative of the numbers which the solver returns.
"""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

from cotan import _core
from cotan._core import Array
from cotan._src.kit.implicit_diff import jacobian, solution, stacked
from cotan._src.rebind.engine import locate, locate_original
from cotan._src.rebind.numpy_substitutes import asarray
from cotan._src.runtime.interrupts import raise_interrupt
from cotan._src.runtime.values import attach_derivative, to_numpy
from cotan._src.state.callback_probe import CallbackProbe, to_numpy_items
from cotan._src.state.snapshot import StateSnapshot
from cotan._src.typing import AnyArray, Args, ArrayLike, Dtype, Function, Kwargs, NDArray

#: A time: of the solver's, or an active one.
Time: TypeAlias = AnyArray | float
#: A right side or an event, of a time and a state.
Slope: TypeAlias = Callable[[Time, AnyArray], AnyArray]
#: The solution within a step: of how far along the step one is, and of the state before it.
_Terms: TypeAlias = Callable[[Time, AnyArray], AnyArray]
#: What is told how many steps were accepted, and of the states in the last of them.
Notice: TypeAlias = Callable[[int, Callable[[Time], AnyArray]], None]
#: A step that a solver took: begin, end, stages, and the ends of those it tried before.
Logged: TypeAlias = tuple[float, float, NDArray | int, Sequence[float]]


class _Method(Protocol):
    """The numbers of a Runge-Kutta method; those of order 8 have more of them."""

    n_stages: int
    A: NDArray
    B: NDArray
    C: NDArray
    P: NDArray
    A_EXTRA: NDArray
    C_EXTRA: NDArray
    D: NDArray


_KEEPS = (
    "the right-hand side returns different values when it is called again, because of state that "
    "it keeps between calls (a mode, a control signal) or of random numbers. RK45 and RK23 of "
    "solve_ivp replay changes of variables, attributes, lists and arrays, and so does DOP853 "
    "without t_eval, events and dense_output: use these, and no state outside the process, or "
    "solve up to each change"
)


class Log(list[Logged]):
    """The steps that a solver took."""

    def __init__(self, calls: list[tuple[float, NDArray]]) -> None:
        self.calls = calls
        self.guess: float | None = None
        # The state at the end.
        self.end: Any = None


class History(list[tuple["Called", float, NDArray, int]]):
    """What a solver has called, when, with which state, and after how many `steps`."""

    def __init__(self) -> None:
        self.steps: Sequence[Logged] = ()


class Called(CallbackProbe):
    """A right side that remembers when it was called, and with which state."""

    def __init__(self, function: Function, state_at: int = 1,
                 history: History | None = None) -> None:  # fmt: skip
        super().__init__(function)
        self.calls: list[tuple[float, NDArray]] = []
        # What was called, with others that may keep something: events, derivatives.
        self.history = History() if history is None else history
        self._is_first = history is None
        self._state_at = state_at
        self._gave: list[NDArray] = []
        self._more: Args = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls.append((args[1 - self._state_at], np.array(args[self._state_at])))
        self.history.append((self, *self.calls[-1], len(self.history.steps)))
        y = super().__call__(*args, **kwargs)
        if self._is_first:
            self._gave.append(np.array(y))
        self._more = args[2:]
        return y

    def again(self, t: Time, y: AnyArray, more: Args) -> object:
        """Call the user's function."""
        first = (y, t) if self._state_at == 0 else (t, y)
        return self._function(*first, *more)

    def expect_again(self, name: str) -> None:
        """Refuse a right side that gives something else now than it gave."""
        step = max(1, len(self._gave) // 16)
        for (t, y), gave in zip(self.calls[::step], self._gave[::step], strict=True):
            try:
                again = to_numpy_items(self.again(t, y.copy(), self._more))
            except Exception as error:  # a buffer that is full, for one
                raise_interrupt(error)
                raise TypeError(f"{name}: {_KEEPS}") from error
            if not np.allclose(again, gave, 1e-9, 0, equal_nan=True):
                raise TypeError(f"{name}: {_KEEPS}")


@functools.cache
def logging_of(cls: type) -> type:
    """Give a solver that remembers its steps."""

    class Logging(cls):  # type: ignore[misc]
        def __init__(self, *args: object, log: Log, **kwargs: object) -> None:
            super().__init__(*args, **kwargs)
            self.log = log
            # Where the function was called a second time, to find the length of the first step.
            log.guess = log.calls[1][0] if len(log.calls) > 1 else None

        def step(self) -> str | None:
            begun = len(self.log.calls)
            message: str | None = super().step()
            if self.status != "failed":
                n = getattr(self, "n_stages", 0)
                tried = [t for t, _ in self.log.calls[begun:][n - 1 :: n]] if n else []
                z = np.copy(getattr(self, "Z", 0))
                self.log.end = np.copy(self.y)
                self.log.append((self.t_old, self.t, z, tried[:-1]))
            return message

    Logging.__name__ = cls.__name__
    return Logging


# --------------------------------------------------------------------------------------------------
# Steps


class RepeatedStep:
    """A step that was taken: where it ends, and the solution in between."""

    def __init__(self, t_old: Time, t: Time, y_old: AnyArray, y: AnyArray, terms: _Terms) -> None:
        self.t_old, self.t, self.y_old, self.y, self._terms = t_old, t, y_old, y, terms
        # What SciPy's own interpolants know of themselves.
        self.t_min, self.t_max = (
            min(to_numpy(t_old), to_numpy(t)),
            max(to_numpy(t_old), to_numpy(t)),
        )

    def __call__(self, t: Time) -> AnyArray:
        at = asarray(t)
        x = (at - self.t_old) / (self.t - self.t_old)
        if at.ndim == 0:
            return self._terms(x, self.y_old)
        columns = self._terms(x[None, :], self.y_old[:, None])
        return np.broadcast_to(columns, (self.y_old.shape[0], at.shape[0]))


def _combined(k: Sequence[AnyArray], weights: Iterable[float]) -> AnyArray | float:
    terms = [float(w) * v for w, v in zip(weights, k, strict=False) if w != 0]
    total: AnyArray | float = terms[0] if terms else 0.0
    for term in terms[1:]:
        total = total + term
    return total


def _explicit(
    cls: _Method, fun: Slope, t_old: Time, t: Time, y: AnyArray, f: AnyArray
) -> tuple[RepeatedStep, AnyArray]:
    """Take a step of a Runge-Kutta method; gives the derivative at its end, too."""
    h = t - t_old
    k = [f]
    for a, c in zip(cls.A[1 : cls.n_stages], cls.C[1 : cls.n_stages], strict=True):
        k.append(fun(t_old + c * h, y + _combined(k, a) * h))
    y_new = y + _combined(k, cls.B) * h
    f_new = fun(t, y_new)
    k.append(f_new)
    if hasattr(cls, "A_EXTRA"):
        terms = _eighth_order(cls, fun, t_old, h, y, y_new, k)
    else:
        terms = _polynomial(cls, k, h)
    return RepeatedStep(t_old, t, y, y_new, terms), f_new


def _polynomial(cls: _Method, k: list[AnyArray], h: Time) -> _Terms:
    @functools.cache
    def coefficients() -> list[AnyArray | float]:
        return [h * _combined(k, column) for column in cls.P.T]

    def terms(x: Time, y_old: AnyArray) -> AnyArray:
        total: AnyArray | float = 0.0
        for q in reversed(coefficients()):
            total = (total + _beside(q, y_old)) * x
        return y_old + total

    return terms


def _beside(q: AnyArray | float, y: AnyArray) -> Array:
    return _core.reshape(_core.asarray(q), y.shape)


def _eighth_order(cls: _Method, fun: Slope, t_old: Time, h: Time, y: AnyArray, y_new: AnyArray,
                  k: list[AnyArray]) -> _Terms:  # fmt: skip
    @functools.cache
    def coefficients() -> list[AnyArray | float]:
        more = list(k)
        for a, c in zip(cls.A_EXTRA, cls.C_EXTRA, strict=True):
            more.append(fun(t_old + c * h, y + _combined(more, a) * h))
        change = y_new - y
        first = [change, h * k[0] - change, 2 * change - h * (k[-1] + k[0])]
        return first + [h * _combined(more, d) for d in cls.D]

    def terms(x: Time, y_old: AnyArray) -> AnyArray:
        total: AnyArray | float = 0.0
        for i, f in enumerate(reversed(coefficients())):
            total = (total + _beside(f, y_old)) * (x if i % 2 == 0 else 1 - x)
        return y_old + total

    return terms


_ROOT = 6**0.5
# The implicit Runge-Kutta method of Radau with three stages, of order 5.
_RADAU_C = ((4 - _ROOT) / 10, (4 + _ROOT) / 10, 1.0)
_RADAU_A = (
    ((88 - 7 * _ROOT) / 360, (296 - 169 * _ROOT) / 1800, (-2 + 3 * _ROOT) / 225),
    ((296 + 169 * _ROOT) / 1800, (88 + 7 * _ROOT) / 360, (-2 - 3 * _ROOT) / 225),
    ((16 - _ROOT) / 36, (16 + _ROOT) / 36, 1 / 9),
)


def _implicit(fun: Slope, t_old: Time, t: Time, y: AnyArray, stages: NDArray | int) -> RepeatedStep:
    """Take a step of Radau's method, whose stages solve an equation."""
    n, h = y.shape[0], t - t_old

    def equation(z: AnyArray) -> Array:
        z = _core.reshape(z, (3, n))
        f = [fun(t_old + c * h, y + z[i]) for i, c in enumerate(_RADAU_C)]
        rows = [z[i] - h * _combined(f, row) for i, row in enumerate(_RADAU_A)]
        return _core.concatenate(rows)

    length, start, z = to_numpy(h), to_numpy(t_old), to_numpy(stages)
    values = to_numpy(y)
    slopes = [
        jacobian(functools.partial(fun, start + c * length), values + z[i])
        for i, c in enumerate(_RADAU_C)
    ]
    matrix = np.eye(3 * n, dtype=np.result_type(*slopes, values))
    for i in range(3):
        for j in range(3):
            block = matrix[i * n : (i + 1) * n, j * n : (j + 1) * n]
            block -= length * _RADAU_A[i][j] * slopes[j]
    z_new = _core.reshape(
        solution("solve_ivp", equation, z.reshape(-1), matrix, check=False), (3, n)
    )

    def terms(x: Time, y_old: AnyArray) -> AnyArray:
        # The polynomial through the stages, which is 0 at the beginning.
        total: AnyArray | float = 0.0
        for i, c in enumerate(_RADAU_C):
            others = [d for j, d in enumerate(_RADAU_C) if j != i]
            weight = x / c
            for d in others:
                weight = weight * (x - d) / (c - d)
            total = total + weight * _beside(z_new[i], y_old)
        return y_old + total

    return RepeatedStep(t_old, t, y, y + z_new[2], terms)


def repeated_steps(method: str, fun: Slope, log: Any, ends: tuple[Time, Time], y0: AnyArray,
           called: Notice | None = None) -> list[RepeatedStep]:  # fmt: skip
    """Take steps once more, with what is differentiated; `ends` are the first and last time.

    With `called` the right side is called as often as the solver did, for what it keeps; `called`
    itself is with how many steps were accepted, and the last of them.
    """
    t_first, t_last = ends
    y = y0
    steps: list[RepeatedStep] = []
    f = None
    cls = None if method == "Radau" else locate(f"scipy.integrate.{method}")
    for i, (t_old, t_new, stages, tried) in enumerate(log):
        a = t_first if i == 0 else t_old
        b = t_last if i == len(log) - 1 and to_numpy(t_last) == t_new else t_new
        if cls is None:
            step = _implicit(fun, a, b, y, stages)
        else:
            if f is None:
                f = fun(a, y)
                if called is not None:
                    if log.guess is not None:
                        fun(log.guess, y + (log.guess - a) * f)

                    def state(_: Time, y: AnyArray = y) -> AnyArray:
                        return y

                    called(0, state)
            for end in tried if called is not None else ():
                _explicit(cls, fun, a, end, y, f)
            step, f = _explicit(cls, fun, a, b, y, f)
        steps.append(step)
        y = step.y
        if called is not None:
            called(i + 1, step)
    return steps


def call_again(
    snapshot: StateSnapshot, history: History, more: Args, steps: list[RepeatedStep]
) -> None:
    """Call functions as a solver did, but with active states, for their side effects."""
    # Some interpolants call the right side for what they need, once.
    states = [within(steps, t)(t) for _, t, _, _ in history]
    snapshot.restore()
    for (which, t, y, _), state in zip(history, states, strict=True):
        columns = np.broadcast_to(state[:, None], y.shape) if y.ndim == 2 else state
        which.again(t, attach_derivative(y, columns), more)


def plain_args(args: Iterable[object] | None) -> Args | None:
    """Give the values of what the solver hands on to the right side."""
    plain: Args | None = None if args is None else to_numpy_items(tuple(args))
    return plain


def slope_of(fun: Function, args: Iterable[object] | None, dtype: Dtype) -> Slope:
    """Give the right side as a function of time and state alone, whose results are vectors."""
    more = () if args is None else tuple(args)

    def slope(t: Time, y: AnyArray) -> AnyArray:
        k = _core.cast(stacked(fun(t, y, *more)).reshape(-1), dtype)
        # SciPy's steps take a number for all states.
        return k if k.shape == y.shape else np.broadcast_to(k, y.shape)

    return slope


def log_of(
    method: str, function: Function, t_span: Sequence[Time], y0: ArrayLike,
    args: Iterable[object] | None, options: Kwargs,
) -> Log:  # fmt: skip
    """Let another method find steps of the same tolerances."""
    called = Called(function)
    log = Log(called.calls)
    chosen = {k: options[k] for k in ("rtol", "atol", "max_step", "first_step") if k in options}
    if "rtol" in chosen:
        chosen["rtol"] = float(
            np.min(to_numpy(chosen["rtol"]))
        )  # the other method takes one number
    cls = logging_of(locate(f"scipy.integrate.{method}"))
    locate_original("scipy.integrate.solve_ivp")(
        called, to_numpy_items(t_span), to_numpy_items(y0), cls, args=plain_args(args), log=log,
        **chosen,
    )  # fmt: skip
    return log


def places_of(steps: list[RepeatedStep], times: NDArray | float) -> NDArray:
    """Give the numbers of the steps that times lie in: of two that meet there the earlier one."""
    ends = np.array([to_numpy(step.t) for step in steps])
    sign = 1 if to_numpy(steps[0].t_old) <= ends[-1] else -1
    return np.minimum(np.searchsorted(sign * ends, sign * times), len(steps) - 1)


def within(steps: list[RepeatedStep], t: float) -> RepeatedStep:
    """Give the step that a time lies in."""
    return steps[int(places_of(steps, t))]


def states_at(steps: list[RepeatedStep], times: AnyArray) -> Array:
    """Give the states at times as columns, those within a step together."""
    places = places_of(steps, to_numpy(times))
    ends = [*(np.flatnonzero(np.diff(places)) + 1), len(places)]
    begins = [0, *ends[:-1]]
    parts = [steps[places[i]](times[i:j]) for i, j in zip(begins, ends, strict=True) if i < j]
    return _core.concatenate(parts, 1)
