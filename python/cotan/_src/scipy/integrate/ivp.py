"""Overrides of SciPy's solvers of ordinary differential equations.

SciPy's solver finds the steps, on values. The accepted steps are repeated on active values, with
their lengths held constant: the derivative is that of the numbers which the solver returns. For
solvers that are compiled, or that vary their order, the value is SciPy's, and the derivative that
of an integrator with the same tolerances.
"""

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

from cotan import _core
from cotan._core import Array, NotDifferentiableError
from cotan._src.kit.implicit_diff import jacobian, solution, stacked
from cotan._src.rebind.engine import locate, locate_original
from cotan._src.rebind.numpy_substitutes import asarray
from cotan._src.runtime.registry import ALWAYS, Way, override
from cotan._src.runtime.values import attach_derivative, contains_active, is_array, to_numpy
from cotan._src.scipy.integrate.step_adjoint import COLLOCATED, EXPLICIT, solve_at_once
from cotan._src.state.callback_probe import CallbackProbe, any_captures_active, to_numpy_items
from cotan._src.state.snapshot import StateSnapshot
from cotan._src.typing import (
    AnyArray,
    Args,
    ArrayLike,
    Dtype,
    Function,
    Kwargs,
    NDArray,
)

#: A time: of the solver's, or an active one.
Time: TypeAlias = AnyArray | float
#: A right side or an event, of a time and a state.
Slope: TypeAlias = Callable[[Time, AnyArray], AnyArray]
#: The solution within a step: of how far along the step one is, and of the state before it.
_Terms: TypeAlias = Callable[[Time, AnyArray], AnyArray]
#: What is told how many steps were accepted, and of the states in the last of them.
_Notice: TypeAlias = Callable[[int, Callable[[Time], AnyArray]], None]
#: A step that a solver took: begin, end, stages, and the ends of those it tried before.
Logged: TypeAlias = tuple[float, float, NDArray | int, Sequence[float]]


class _Solution(Protocol):
    """What `solve_ivp` gives."""

    t: AnyArray
    y: AnyArray
    sol: Function | None
    # None without events.
    t_events: list[AnyArray]
    y_events: list[AnyArray]
    status: int


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


_STIFF = ("Radau", "BDF", "LSODA")
_KEEPS = (
    "the right-hand side returns different values when it is called again, because of state that "
    "it keeps between calls (a mode, a control signal) or of random numbers. RK45 and RK23 of "
    "solve_ivp replay changes of variables, attributes, lists and arrays, and so does DOP853 "
    "without t_eval, events and dense_output: use these, and no state outside the process, or "
    "solve up to each change"
)


class _Log(list[Logged]):
    """The steps that a solver took."""

    def __init__(self, calls: list[tuple[float, NDArray]]) -> None:
        self.calls = calls
        self.guess: float | None = None
        # The state at the end.
        self.end: Any = None


class _History(list[tuple["Called", float, NDArray, int]]):
    """What a solver has called, when, with which state, and after how many `steps`."""

    def __init__(self) -> None:
        self.steps: Sequence[Logged] = ()


class Called(CallbackProbe):
    """A right side that remembers when it was called, and with which state."""

    def __init__(self, function: Function, state_at: int = 1,
                 history: _History | None = None) -> None:  # fmt: skip
        super().__init__(function)
        self.calls: list[tuple[float, NDArray]] = []
        # What was called, with others that may keep something: events, derivatives.
        self.history = _History() if history is None else history
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
                raise TypeError(f"{name}: {_KEEPS}") from error
            if not np.allclose(again, gave, 1e-9, 0, equal_nan=True):
                raise TypeError(f"{name}: {_KEEPS}")


@functools.cache
def _logging(cls: type) -> type:
    """Give a solver that remembers its steps."""

    class Logging(cls):  # type: ignore[misc]
        def __init__(self, *args: object, log: _Log, **kwargs: object) -> None:
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


class _Step:
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
) -> tuple[_Step, AnyArray]:
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
    return _Step(t_old, t, y, y_new, terms), f_new


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


def _implicit(fun: Slope, t_old: Time, t: Time, y: AnyArray, stages: NDArray | int) -> _Step:
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

    return _Step(t_old, t, y, y + z_new[2], terms)


def _steps(method: str, fun: Slope, log: Any, ends: tuple[Time, Time], y0: AnyArray,
           called: _Notice | None = None) -> list[_Step]:  # fmt: skip
    """Take steps once more, with what is differentiated; `ends` are the first and last time.

    With `called` the right side is called as often as the solver did, for what it keeps; `called`
    itself is with how many steps were accepted, and the last of them.
    """
    t_first, t_last = ends
    y = y0
    steps: list[_Step] = []
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


def call_again(snapshot: StateSnapshot, history: _History, more: Args, steps: list[_Step]) -> None:
    """Call functions as a solver did, but with active states, for their side effects."""
    # Some interpolants call the right side for what they need, once.
    states = [_within(steps, t)(t) for _, t, _, _ in history]
    snapshot.restore()
    for (which, t, y, _), state in zip(history, states, strict=True):
        columns = np.broadcast_to(state[:, None], y.shape) if y.ndim == 2 else state
        which.again(t, attach_derivative(y, columns), more)


# --------------------------------------------------------------------------------------------------
# solve_ivp


@override("scipy.integrate.solve_ivp", when=ALWAYS)
def solve_ivp(fun: Function, t_span: Sequence[Time], y0: ArrayLike, method: str | type = "RK45",
              t_eval: ArrayLike | None = None, dense_output: bool = False,
              events: Function | Sequence[Function] | None = None, vectorized: bool = False,
              args: Iterable[object] | None = None, **options: Any) -> _Solution:  # fmt: skip
    solve = locate_original("scipy.integrate.solve_ivp")
    args = None if args is None else _as_tuple(args)
    can_be_at_once = method in EXPLICIT or method in COLLOCATED
    if can_be_at_once and events is None and not dense_output and not vectorized:
        found: _Solution | None
        found = solve_at_once(fun, t_span, y0, str(method), t_eval, args, options)
        if found is not None:
            return found
    function = Called(fun)
    some = [events] if callable(events) else events
    snapshot = StateSnapshot(fun, args, some, options)
    history = function.history
    watching = None if some is None else [Called(e, history=history) for e in some]
    options = {
        k: Called(v, history=history) if callable(v) else to_numpy_items(v)
        for k, v in options.items()
    }
    kind = method if isinstance(method, str) else getattr(method, "__name__", None)
    known = isinstance(method, str) and method in (*EXPLICIT, "Radau")
    log = history.steps = _Log(function.calls)
    solver = _logging(locate(f"scipy.integrate.{method}")) if known else method
    result: _Solution = solve(
        function, to_numpy_items(t_span), to_numpy_items(y0), solver, to_numpy_items(t_eval),
        dense_output,
        watching, vectorized, _plain_args(args), **({"log": log} if known else {}), **options,
    )  # fmt: skip
    given = (t_span, y0, t_eval, args)
    if not any_captures_active(function, *(watching or ())) and not contains_active(given):
        return result
    if kind not in (*EXPLICIT, *_STIFF):
        raise NotDifferentiableError(
            f"solve_ivp: the method {kind} has no derivative rule in cotan; use one of "
            f"{', '.join((*EXPLICIT, *_STIFF))}"
        )
    # The interpolant of order 8 calls the right side, too.
    asks_more = dense_output or t_eval is not None or events is not None
    is_same = kind in EXPLICIT and not (kind == "DOP853" and asks_more)
    if not (is_same and snapshot.has_changed()):
        function.expect_again("solve_ivp")
    has_changed = snapshot.restore()
    if vectorized:
        scalar = fun

        def fun(t: Time, y: AnyArray, *more: object) -> AnyArray:
            return stacked(scalar(t, y[:, None], *more))[:, 0]

    slope = _slope(fun, args, result.y.dtype)
    if not known:
        if events is not None:
            raise NotDifferentiableError(
                f"solve_ivp: events of the method {kind} have no derivative rule in "
                f"cotan; use one of {', '.join(EXPLICIT)} or Radau"
            )
        log = _log_of("Radau", fun, t_span, y0, args, options)
        kind = "Radau"
    start = _core.cast(asarray(y0), result.y.dtype)
    events_of = None if some is None else [_event(e, args) for e in some]
    more = () if args is None else tuple(args)
    ends = t_span[0], t_span[1]
    notice = _noticing(function, more) if has_changed and is_same else None
    steps = _steps(str(kind), slope, log, ends, start, notice)
    if has_changed and not is_same:
        call_again(snapshot, history, more, steps)
    end = snapshot.state()
    if has_changed and is_same:
        _expect_end(function, log, steps)
    filled = _filled(result, steps, t_span, t_eval, start, events_of, exact=known)
    snapshot.restore_to(end)
    return filled


def _noticing(function: Called, more: Args) -> _Notice:
    """Give what calls events as a solver did after each step."""
    calls = defaultdict(list)
    for which, t, _, accepted in function.history:
        if which is not function:
            calls[accepted].append((which, t))

    def notice(count: int, state: Callable[[Time], AnyArray]) -> None:
        for which, t in calls[count]:
            which.again(t, state(t), more)

    return notice


def _expect_end(function: Called, log: _Log, steps: list[_Step]) -> None:
    """Look if steps lead where they led; if not, it is chaos, or something else is kept."""
    if steps and not np.allclose(to_numpy(steps[-1].y), log.end, 1e-6, 1e-9):
        function.expect_again("solve_ivp")


def _as_tuple(args: Any) -> Any:
    """Give an iterable as a tuple, since it is read twice; SciPy complains about the rest."""
    return tuple(args) if isinstance(args, Iterable) else args


def _plain_args(args: Iterable[object] | None) -> Args | None:
    plain: Args | None = None if args is None else to_numpy_items(tuple(args))
    return plain


def _slope(fun: Function, args: Iterable[object] | None, dtype: Dtype) -> Slope:
    more = () if args is None else tuple(args)
    return lambda t, y: _core.cast(stacked(fun(t, y, *more)).reshape(-1), dtype)


def _event(event: Function, args: Iterable[object] | None) -> Slope:
    more = () if args is None else tuple(args)
    return lambda t, y: asarray(event(t, y, *more)).reshape(())


def _log_of(
    method: str, function: Function, t_span: Sequence[Time], y0: ArrayLike,
    args: Iterable[object] | None, options: Kwargs,
) -> _Log:  # fmt: skip
    """Let another method find steps of the same tolerances."""
    called = Called(function)
    log = _Log(called.calls)
    chosen = {k: options[k] for k in ("rtol", "atol", "max_step", "first_step") if k in options}
    if "rtol" in chosen:
        chosen["rtol"] = float(
            np.min(to_numpy(chosen["rtol"]))
        )  # the other method takes one number
    cls = _logging(locate(f"scipy.integrate.{method}"))
    locate_original("scipy.integrate.solve_ivp")(
        called, to_numpy_items(t_span), to_numpy_items(y0), cls, args=_plain_args(args), log=log,
        **chosen,
    )  # fmt: skip
    return log


def _places(steps: list[_Step], times: NDArray | float) -> NDArray:
    """Give the numbers of the steps that times lie in: of two that meet there the earlier one."""
    ends = np.array([to_numpy(step.t) for step in steps])
    sign = 1 if to_numpy(steps[0].t_old) <= ends[-1] else -1
    return np.minimum(np.searchsorted(sign * ends, sign * times), len(steps) - 1)


def _within(steps: list[_Step], t: float) -> _Step:
    return steps[int(_places(steps, t))]


def _states(steps: list[_Step], times: AnyArray) -> Array:
    """Give the states at times as columns, those within a step together."""
    places = _places(steps, to_numpy(times))
    ends = [*(np.flatnonzero(np.diff(places)) + 1), len(places)]
    begins = [0, *ends[:-1]]
    parts = [steps[places[i]](times[i:j]) for i, j in zip(begins, ends, strict=True) if i < j]
    return _core.concatenate(parts, 1)


def _filled(result: _Solution, steps: list[_Step], t_span: Sequence[Time],
            t_eval: ArrayLike | None, y0: AnyArray, events: list[Slope] | None,
            exact: bool) -> _Solution:  # fmt: skip
    """Put what is differentiated into a result of SciPy's."""
    if not steps:
        result.y = np.stack([y0] * result.t.shape[0], axis=1)
        return result
    end, state = steps[-1].t, steps[-1].y
    if events is not None:
        result.t_events, result.y_events = _times_of_events(result, steps, events)
        if result.status == 1:
            # The end is where the last event is.
            pairs = zip(result.t_events, result.y_events, strict=True)
            all_of = [(t, y) for ts, ys in pairs for t, y in zip(ts, ys, strict=True)]
            sign = 1 if to_numpy(steps[0].t) >= to_numpy(steps[0].t_old) else -1
            end, state = max(all_of, key=lambda pair: sign * float(to_numpy(pair[0])))
    if t_eval is None and exact:
        ends = [t_span[0], *(s.t for s in steps[:-1]), end]
        result.t = _core.array(ends) if contains_active(ends) else result.t
        y: AnyArray | None = np.stack([y0, *(s.y for s in steps[:-1]), state], axis=1)
    else:
        times = asarray(result.t if t_eval is None else t_eval)[: result.t.shape[0]]
        y = _states(steps, times) if len(times) else None
        result.t = times if is_array(times) else result.t
    if y is not None:
        result.y = y if exact else attach_derivative(result.y, y)
    if result.sol is not None:
        inner = [to_numpy(s.t) for s in steps[:-1]]
        ts = [to_numpy(t_span[0]), *inner, to_numpy(end)]
        result.sol = locate("scipy.integrate.OdeSolution")(ts, steps)
    return result


def _sign(event: Slope, step: _Step, t: AnyArray) -> AnyArray:
    return event(t[0], step(t[0])).reshape(1)


def _times_of_events(
    result: _Solution, steps: list[_Step], events: list[Slope]
) -> tuple[list[AnyArray], list[AnyArray]]:
    """Give when events happen as a function of everything, and the states at these times."""
    all_times: list[AnyArray] = []
    all_states: list[AnyArray] = []
    for event, found_times in zip(events, result.t_events, strict=True):
        times, states = [], []
        for t in found_times:
            step = _within(steps, t)
            at = solution(
                "solve_ivp, the time of an event",
                functools.partial(_sign, event, step),
                np.array([t]),
            )[0]
            times.append(at)
            states.append(step(at))
        all_times.append(np.stack(times) if times else np.array([]))
        all_states.append(np.stack(states) if states else np.array([]))
    return all_times, all_states


# --------------------------------------------------------------------------------------------------
# odeint


@override("scipy.integrate.odeint", when=ALWAYS)
def odeint(func: Function, y0: ArrayLike, t: ArrayLike, args: object = (),
           Dfun: Function | None = None, col_deriv: int = 0,  # noqa: N803
           full_output: int = 0, ml: int | None = None, mu: int | None = None,
           rtol: ArrayLike | None = None, atol: ArrayLike | None = None,
           tcrit: ArrayLike | None = None, h0: float = 0.0,
           hmax: float = 0.0, hmin: float = 0.0, ixpr: int = 0, mxstep: int = 0,
           mxhnil: int = 0, mxordn: int = 12, mxords: int = 5, printmessg: int = 0,
           tfirst: bool = False) -> AnyArray | tuple[AnyArray, dict[str, object]]:  # fmt: skip
    function = Called(func, state_at=int(tfirst))
    snapshot = StateSnapshot(func, args, Dfun)
    more = args if isinstance(args, tuple) else (args,)
    slopes = Called(Dfun, int(tfirst), function.history) if callable(Dfun) else Dfun
    y, info = locate_original("scipy.integrate.odeint")(
        function, to_numpy_items(y0), to_numpy_items(t), to_numpy_items(more), slopes,
        col_deriv, 1, ml, mu, to_numpy(rtol), to_numpy(atol), tcrit, h0, hmax, hmin, ixpr, mxstep,
        mxhnil,
        mxordn, mxords, printmessg, tfirst,
    )  # fmt: skip
    if function.captures_active or contains_active((y0, t, more)):

        def ordered(t: Time, y: AnyArray, *more: object) -> object:
            return func(t, y, *more) if tfirst else func(y, t, *more)

        # What is stiff was integrated by formulas for that, and so it is here.
        stiff = np.any(np.asarray(info["mused"]) == 2)
        method = "Radau" if stiff else "DOP853"
        usual = 1.49012e-8
        options = {
            "rtol": usual if rtol is None else float(np.min(to_numpy(rtol))),
            "atol": usual if atol is None else to_numpy(atol),
        }
        times = asarray(t)
        start = _core.asarray(np.atleast_1d(asarray(y0)), np.float64)
        slope = _slope(ordered, more, np.dtype(np.float64))
        span = (times[0], times[-1])
        function.expect_again("odeint")
        has_changed = snapshot.restore()
        if to_numpy(times[0]) == to_numpy(times[-1]):  # no time passes
            rows: AnyArray = np.stack(
                [start + slope(times[0], start) * (at - times[0]) for at in times]
            )
        else:
            log = _log_of(method, ordered, span, to_numpy(start), more, options)
            if has_changed:
                snapshot.restore()
            steps = _steps(method, slope, log, span, start)
            rows = _core.concatenate([start[None, :], _states(steps, times[1:]).T])
            if has_changed:
                call_again(snapshot, function.history, more, steps)
        y = attach_derivative(y, rows)
    return (y, info) if full_output else y


@override("scipy.integrate.solve_bvp", when=ALWAYS, way=Way.REFUSED)
def solve_bvp(
    fun: Function, bc: Function, x: ArrayLike, y: ArrayLike, p: ArrayLike | None = None,
    *rest: object, **options: object,
) -> object:  # fmt: skip
    """Solve a boundary value problem on values; where it is active, refuse and say what to do."""
    function, ends = CallbackProbe(fun), CallbackProbe(bc)
    result: object = locate_original("scipy.integrate.solve_bvp")(
        function, ends, *map(to_numpy_items, (x, y, p, *rest)), **options
    )
    if any_captures_active(function, ends) or contains_active((x, rest)):
        raise NotDifferentiableError(
            "solve_bvp has no derivative rule in cotan; use shooting: find the initial values with "
            "scipy.optimize.root, so that solve_ivp meets the boundary conditions, or hold its "
            "inputs constant with ct.dropgrad"
        )
    return result
