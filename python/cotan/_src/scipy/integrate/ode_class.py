"""Overrides of `scipy.integrate.ode`, the older class, which integrates from one time to the next.

SciPy's compiled solver finds the values. `dopri5` and `dop853` report the steps that they accept,
which are repeated on active values. For the other solvers the derivative is that of an integrator
with the same tolerances, as it is for `odeint`.
"""

from typing import Any, Protocol

import numpy as np

from cotan import _core
from cotan._src.rebind.engine import locate
from cotan._src.rebind.numpy_substitutes import asarray
from cotan._src.runtime.originals import original_of
from cotan._src.runtime.registry import ALWAYS, METHOD, override
from cotan._src.runtime.values import attach_derivative, contains_active, is_array, to_numpy
from cotan._src.scipy.integrate.ode_at_once import integrated_at_once
from cotan._src.scipy.integrate.repeated_steps import (
    Called,
    Logged,
    RepeatedStep,
    Slope,
    Time,
    call_again,
    log_of,
    repeated_steps,
    slope_of,
)
from cotan._src.state.callback_probe import CallbackProbe, to_numpy_items
from cotan._src.state.plain_copy import NotPlainError
from cotan._src.state.snapshot import StateSnapshot
from cotan._src.typing import AnyArray, Args, ArrayLike, Function, NDArray


class _Solver(Protocol):
    """The user's object: an `ode`, or a `complex_ode`."""

    f: Function
    jac: Function | None
    f_params: Args
    jac_params: Args
    t: Time
    _y: AnyArray
    _integrator: Any

    def set_integrator(self, name: str) -> object: ...


_ODE = "scipy.integrate.ode"
_COMPLEX = "scipy.integrate.complex_ode"
# What takes the same steps.
_TELLING = {"dopri5": "RK45", "dop853": "DOP853"}


class _Uncounted(CallbackProbe):
    """A function for compiled solvers of SciPy before 1.16: they count the arguments of its code.

    What has none is called with all that there are.
    """

    def __getattr__(self, name: str) -> Any:
        if name == "__code__":
            raise AttributeError(name)
        return super().__getattr__(name)


class _RightSide(_Uncounted, Called):
    """The right side for such solvers."""


@override(f"{_ODE}.integrate", kind=METHOD, when=ALWAYS)
def integrate(self: _Solver, t: Time, step: bool = False, relax: bool = False) -> AnyArray:
    if not hasattr(self, "_integrator"):
        self.set_integrator("")
    found = None if contains_active(t) or step or relax else _at_once(self, t)
    if found is not None:
        self._y, self.t = found
        return self._y
    given = _Given(self)
    integrator, jac = given.integrator, self.jac
    arguments = getattr(integrator, "call_args", ())
    # Compiled solvers change the array in place, and some give it back.
    memory = np.array(to_numpy(given.y)) if is_array(given.y) else given.y
    try:
        setattr(self, given.name, given.function)
        self.jac = given.probed_slopes(jac, self.jac_params)
        self._y, self.t = memory, to_numpy(given.t)
        self.f_params = to_numpy_items(tuple(given.params))
        if given.method is not None:
            integrator.call_args = [*arguments[:2], given.listener(), 1, *arguments[4:]]
        original_of(locate(_ODE).integrate)(self, to_numpy(t), step, relax)
    finally:
        setattr(self, given.name, given.right_side)
        self.jac, self.f_params = jac, given.params
        if given.method is not None:
            integrator.call_args = arguments
    if given.is_active() or contains_active(t):
        state, end = _traced(self, given, t)
        self.t = end if contains_active(end) else to_numpy(end)
        if self._y is memory and is_array(given.y):
            given.y[...] = state
            state = given.y
        self._y = state
    return self._y


def _at_once(solver: _Solver, t: Time) -> Any:
    """Give the state at a time with its derivatives, and the time; None for another way."""
    integrator, jac, begin = solver._integrator, solver.jac, solver.t
    method = _TELLING.get(type(integrator).__name__)
    # Other solvers go on from where they were, and cannot be run twice.
    if method is None or not hasattr(integrator, "call_args") or jac is not None:
        return None
    if integrator.solout is not None or isinstance(solver, locate(_COMPLEX)):
        return None
    if contains_active(begin):
        return None
    function, params, y = solver.f, solver.f_params, solver._y
    arguments = integrator.call_args
    times: list[float] = []

    def run(plain: Function, values: Args) -> Any:
        try:
            solver.f, solver.f_params = plain, values
            memory = solver._y = np.array(to_numpy(y))
            listener = _listener(integrator, times)
            integrator.call_args = [*arguments[:2], listener, 1, *arguments[4:]]
            original_of(locate(_ODE).integrate)(solver, to_numpy(t))
            if solver._y is memory:
                # The solver writes to the user's array.
                raise NotPlainError
            return np.array(solver._y), to_numpy(solver.t), times
        finally:
            solver.f, solver.f_params, solver._y, solver.t = function, params, y, begin
            integrator.call_args = arguments

    start, first = _core.array(y), float(to_numpy(begin))
    return integrated_at_once(function, tuple(params), method, start, first, run)


def _listener(integrator: Any, times: list[float]) -> Function:
    """Give what the compiled solver tells of its steps, with the arguments that it counts.

    It puts their times into a list.
    """
    if integrator._solout.__code__.co_argcount > len(("self", "t", "y")):

        def on_fortrans_step(
            nr: int, xold: float, x: float, y: NDArray, nd: int, icomp: NDArray, con: NDArray
        ) -> int:
            del nr, xold, y, nd, icomp, con
            times.append(float(x))
            return 0

        return on_fortrans_step

    def on_step(t: float, *_: object) -> int:
        times.append(float(t))
        return 0

    return on_step


class _Given:
    """The state from which a solver goes on, and the callbacks that it calls."""

    def __init__(self, solver: _Solver) -> None:
        self.integrator = solver._integrator
        # The class for complex numbers calls the user's function by one of its own, and keeps
        # real and imaginary parts beside each other.
        self.is_complex = isinstance(solver, locate(_COMPLEX))
        self.name = "cf" if self.is_complex else "f"
        self.right_side = getattr(solver, self.name)
        self.function = _RightSide(self.right_side)
        called = self.right_side, solver.jac, getattr(solver, "cjac", None)
        self.snapshot = StateSnapshot(*called, apart=(solver, self.integrator))
        self.y, self.t, self.params = solver._y, solver.t, solver.f_params
        self.start = _core.array(self.y)
        kind = type(self.integrator).__name__
        self.method = _TELLING.get(kind) if hasattr(self.integrator, "call_args") else None
        self.is_stiff = kind == "lsoda" or getattr(self.integrator, "meth", 1) == 2
        self.told: Any = getattr(self.integrator, "solout", None)
        self.times: list[float] = []
        self.known = 0

    def probed_slopes(self, jac: Function | None, params: Args) -> Function | None:
        """Give a function of derivatives that is watched; it has parameters of its own."""
        if not callable(jac):
            return jac
        if self.is_complex:
            return _Uncounted(jac)
        return _RightSide(lambda t, y, *_: jac(t, y, *params), history=self.function.history)

    def is_active(self) -> bool:
        return self.function.captures_active or contains_active((self.y, self.t, self.params))

    def listener(self) -> Function:
        """Give what the compiled solver tells of its steps, with the arguments that it counts."""
        is_old = self.integrator._solout.__code__.co_argcount > len(("self", "t", "y"))
        return self._on_fortrans_step if is_old else self._on_step

    def _on_step(self, t: float, y: NDArray, *params: object) -> int:
        return self._heard(t, (t, y, *params))

    def _on_fortrans_step(
        self, nr: int, xold: float, x: float, y: NDArray, nd: int, icomp: NDArray, con: NDArray
    ) -> int:
        return self._heard(x, (nr, xold, x, y, nd, icomp, con))

    def _heard(self, t: float, told: Args) -> int:
        """Remember a step; if the state is active, `solout` is called with it later."""
        self.times.append(float(t))
        if self.told is None or self.is_active():
            return 0
        self.known = len(self.times)
        answer: int = self.integrator._solout(*told)
        return answer


def _traced(solver: _Solver, given: _Given, t: Time) -> tuple[AnyArray, AnyArray | float]:
    """Give what a solver has found with its derivatives, and the time at which that is."""
    y0: AnyArray = given.start
    value = np.array(solver._y)
    if given.is_complex:
        y0, value = y0[::2] + 1j * y0[1::2], value[::2] + 1j * value[1::2]
    # A single step ends where the solver likes.
    wanted = asarray(t if to_numpy(solver.t) == to_numpy(t) else solver.t)
    end: AnyArray | float = wanted
    begin = asarray(given.t)
    slope = slope_of(given.right_side, given.params, value.dtype)
    y0 = _core.cast(y0, value.dtype)
    given.function.expect_again("ode.integrate")
    has_changed = given.snapshot.restore()
    if to_numpy(begin) == to_numpy(end):
        y: AnyArray = y0 + slope(begin, y0) * (end - begin)
    else:
        steps = _steps_of(given, slope, (begin, wanted), y0)
        y = steps[-1].y
        if has_changed:
            call_again(given.snapshot, given.function.history, given.params, steps)
        stopped = None if given.told is None else _tell(given, steps, y0)
        if stopped is not None:
            y, end, given.integrator.istate = stopped.y, stopped.t, 2
            value = to_numpy(y)
    y = attach_derivative(value, y)
    return np.stack([y.real, y.imag], axis=1).reshape(-1) if given.is_complex else y, end


def _steps_of(
    given: _Given, slope: Slope, ends: tuple[AnyArray, AnyArray], y0: AnyArray
) -> list[RepeatedStep]:
    if given.method is not None:
        times = zip(given.times, given.times[1:], strict=False)
        log: list[Logged] = [(a, b, 0, ()) for a, b in times]
        return repeated_steps(given.method, slope, log, ends, y0)
    # Radau's method knows real numbers only.
    method = "Radau" if given.is_stiff and y0.dtype.kind == "f" else "DOP853"
    options = {"rtol": float(np.min(given.integrator.rtol)), "atol": given.integrator.atol}
    found = log_of(method, slope, to_numpy_items(ends), to_numpy(y0), (), options)
    return repeated_steps(method, slope, found, ends, y0)


def _tell(given: _Given, steps: list[RepeatedStep], y0: AnyArray) -> RepeatedStep | None:
    """Call `solout` with the steps; gives the one at which it returned -1."""
    if given.known == 0 and given.told(to_numpy(steps[0].t_old), y0) == -1:
        return steps[0]
    for step in steps[max(0, given.known - 1) :]:
        if given.told(to_numpy(step.t), step.y) == -1:
            return step
    return None


@override(f"{_COMPLEX}.set_initial_value", kind=METHOD)
def set_initial_value(self: _Solver, y: ArrayLike, t: Time = 0.0) -> _Solver:
    state = _core.cast(asarray(y).reshape(-1), np.complex128)
    original_of(locate(_COMPLEX).set_initial_value)(self, to_numpy(state), to_numpy(t))
    self._y, self.t = np.stack([state.real, state.imag], axis=1).reshape(-1), t
    return self
