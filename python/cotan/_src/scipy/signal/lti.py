"""Overrides of the linear systems of `scipy.signal`: state space forms and responses in time."""

# ruff: noqa: N803, N806 - the names are SciPy's

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

from cotan import _core
from cotan._core import NotDifferentiableError
from cotan._src.kit.implicit_diff import solution, without_rule
from cotan._src.rebind.engine import locate, locate_original, refused
from cotan._src.rebind.numpy_substitutes import asarray
from cotan._src.runtime.originals import original_of
from cotan._src.runtime.registry import ALWAYS, METHOD, override
from cotan._src.runtime.values import contains_active, refuse, to_numpy
from cotan._src.scipy.linalg.matrix_functions import expm
from cotan._src.scipy.signal.filter_design import complex_vector, polynomial
from cotan._src.state.callback_probe import to_numpy_items
from cotan._src.typing import AnyArray, ArrayLike, Function, NDArray, Scalar

_HERE = "scipy.signal"


class _LinearSystem(Protocol):
    """An instance of one of SciPy's classes of systems, which hold matrices, fractions or roots."""

    dt: Scalar | None


#: The matrices A, B, C and D of a system with states.
_Matrices: TypeAlias = tuple[AnyArray, AnyArray, AnyArray, AnyArray]
#: A system: an instance, or the parts of one, a step after those of a discrete one.
_System: TypeAlias = Sequence[ArrayLike] | _LinearSystem


class _PlacedPoles(Protocol):
    """What SciPy says of the gain by which a system has wanted poles."""

    gain_matrix: AnyArray
    computed_poles: AnyArray
    X: AnyArray


@override(f"{_HERE}.tf2ss")
def tf2ss(num: ArrayLike, den: ArrayLike) -> _Matrices:
    """Give the controller canonical form."""
    top, bottom = np.atleast_2d(asarray(num)), np.atleast_1d(asarray(den))
    # It says what it does not like.
    locate(f"{_HERE}.tf2ss")(to_numpy(top), to_numpy(bottom))
    bottom = bottom[np.flatnonzero(to_numpy(bottom))[0] :]
    top, bottom = top / bottom[0], bottom / bottom[0]
    order = bottom.shape[0]
    leading = np.flatnonzero(np.any(to_numpy(top) != 0, axis=0))
    top = top[:, min(leading[0], top.shape[1] - 1) if leading.size else top.shape[1] - 1 :]
    missing = np.zeros((top.shape[0], order - top.shape[1]))
    top = np.concatenate([missing, top], axis=1)
    first = top[:, :1]
    if order == 1:
        return np.zeros((1, 1)), np.zeros((1, first.shape[1])), np.zeros((first.shape[0], 1)), first
    a = np.concatenate([-bottom[None, 1:], np.eye(order - 2, order - 1)])
    return a, np.eye(order - 1, 1), top[:, 1:] - first * bottom[1:], first


@override(f"{_HERE}.ss2tf")
def ss2tf(
    A: ArrayLike, B: ArrayLike, C: ArrayLike, D: ArrayLike, input: int = 0
) -> tuple[AnyArray, AnyArray]:
    A, B, C, D = _filled(A, B, C, D)
    B, D = B[:, input : input + 1], D[:, input : input + 1]
    den = _characteristic(A)
    rows = [_characteristic(A - B * c) + (d - 1) * den for c, d in zip(C, D, strict=True)]
    return np.stack(rows), den


def _characteristic(a: AnyArray) -> AnyArray:
    """Give the characteristic polynomial, by the method of Faddeev and LeVerrier."""
    n = a.shape[0]
    c: list[AnyArray] = [asarray(1.0)]
    m: AnyArray = np.zeros((n, n))
    for k in range(1, n + 1):
        m = a @ m + c[-1] * np.eye(n)
        c.append(-np.trace(a @ m) / k)
    return np.stack(c)


def _filled(
    A: ArrayLike | None, B: ArrayLike | None, C: ArrayLike | None, D: ArrayLike | None
) -> list[AnyArray]:
    """Give matrices with two axes, and zeros for those that are not there."""
    parts = [None if m is None else np.atleast_2d(asarray(m)) for m in (A, B, C, D)]
    plain_parts = locate(f"{_HERE}.abcd_normalize")(*map(to_numpy_items, parts))
    return [
        p if p is not None and p.shape == known.shape else np.reshape(p, known.shape)
        if p is not None and p.size == known.size
        else asarray(known)
        for p, known in zip(parts, plain_parts, strict=True)
    ]  # fmt: skip


def _states(system: Any, discrete: bool = False) -> tuple[Any, ...]:
    """Give the four matrices of a system in any form, and its step if it is discrete."""
    kind, other = (f"{_HERE}.dlti", f"{_HERE}.lti")[:: 1 if discrete else -1]
    if isinstance(system, locate(other)):
        raise AttributeError(
            f"a {'discrete' if not discrete else 'continuous'}-time system is not accepted here"
        )
    dt = None
    if isinstance(system, locate(kind)):
        dt = system.dt
        if hasattr(system, "A"):
            system = system.A, system.B, system.C, system.D
        elif hasattr(system, "num"):
            system = system.num, system.den
        else:
            system = system.zeros, system.poles, system.gain
    elif discrete:
        *system, dt = system
    if len(system) == 2:
        return *tf2ss(*system), dt
    if len(system) == 3:
        zeros, poles, gain = system
        return *tf2ss(asarray(gain) * _real_poly(zeros), _real_poly(poles)), dt
    return *_filled(*system), dt


def _real_poly(roots: ArrayLike) -> AnyArray:
    return polynomial(complex_vector(roots)).real


@override(f"{_HERE}.lsim", when=ALWAYS)
def lsim(
    system: _System,
    U: ArrayLike | None,
    T: ArrayLike,
    X0: ArrayLike | None = None,
    interp: bool = True,
) -> tuple[AnyArray, AnyArray, AnyArray]:
    if not _core.contains_array((_parts(system), U, T, X0), {}):
        known: tuple[NDArray, NDArray, NDArray]
        known = locate_original(f"{_HERE}.lsim")(system, U, T, X0, interp)
        return known
    A, B, C, D, _ = _states(system)
    T = np.atleast_1d(asarray(T))
    n, inputs, steps = A.shape[0], B.shape[1], T.shape[0]
    x = asarray(np.zeros(n) if X0 is None else X0).reshape(-1)
    start = float(to_numpy(T)[0])
    if start > 0:
        x = x @ expm(A.T * T[0])
    elif start != 0:
        raise ValueError("Initial time must be nonnegative")
    nothing = U is None or (np.ndim(U) == 0 and not to_numpy(U))
    u = asarray(np.zeros((steps, inputs)) if nothing else U)
    u = u.reshape(-1, 1) if u.ndim == 1 else u
    if u.shape != (steps, inputs):
        raise ValueError("U must have the same number of rows as elements in T.")
    rows: list[AnyArray] = [x]
    if steps > 1:
        dt = T[1] - T[0]
        if not np.allclose(np.diff(to_numpy(T)), to_numpy(dt)):
            raise ValueError("Time steps are not equally spaced.")
        rows += _traced(A, B, dt, u, x, interp)
    x = np.stack(rows)
    return T, np.squeeze(x @ C.T + u @ D.T), np.squeeze(x)


def _traced(
    A: AnyArray, B: AnyArray, dt: Scalar, u: AnyArray, x: AnyArray, interp: bool
) -> list[AnyArray]:
    """Give the states after each step, between which the input is constant or a line."""
    n, inputs = A.shape[0], B.shape[1]
    size = n + (2 if interp else 1) * inputs
    m = np.concatenate([A * dt, B * dt, np.zeros((n, size - n - inputs))], axis=1)
    rest = np.zeros((size - n, size))
    if interp:
        rest[:inputs, n + inputs :] = np.eye(inputs)
    power = expm(np.concatenate([m, rest]).T)
    Ad, Bd0 = power[:n, :n], power[n : n + inputs, :n]
    driven = u[:-1] @ Bd0
    if interp:
        Bd1 = power[n + inputs :, :n]
        driven = driven + (u[1:] - u[:-1]) @ Bd1
    rows = []
    for i in range(u.shape[0] - 1):
        x = x @ Ad + driven[i]
        rows.append(x)
    return rows


def _parts(system: object) -> object:
    return list(vars(system).values()) if hasattr(system, "__dict__") else system


def _times(A: AnyArray, N: int | AnyArray | None) -> AnyArray:
    """Give SciPy's times for a response: seven times the slowest time constant."""
    slowest = np.min(np.abs(np.real(np.linalg.eigvals(A))))
    slowest = slowest if to_numpy(slowest) != 0 else 1.0
    return np.linspace(0.0, 7.0 / slowest, 100 if N is None else N)


@override(f"{_HERE}.step", when=ALWAYS)
def step(
    system: _System, X0: ArrayLike | None = None, T: ArrayLike | None = None, N: int | None = None
) -> tuple[AnyArray, AnyArray]:
    if not _core.contains_array((_parts(system), X0, T), {}):
        known: tuple[NDArray, NDArray] = locate_original(f"{_HERE}.step")(system, X0, T, N)
        return known
    A, B, C, D, _ = _states(system)
    T = _times(A, N) if T is None else np.asarray(T)
    T = T if np.ndim(T) else _times(A, T)
    u = np.ones((np.shape(T)[0], B.shape[1]))
    return lsim((A, B, C, D), u, T, X0, interp=False)[:2]


@override(f"{_HERE}.impulse", when=ALWAYS)
def impulse(
    system: _System, X0: ArrayLike | None = None, T: ArrayLike | None = None, N: int | None = None
) -> tuple[AnyArray, AnyArray]:
    if not _core.contains_array((_parts(system), X0, T), {}):
        known: tuple[NDArray, NDArray] = locate_original(f"{_HERE}.impulse")(system, X0, T, N)
        return known
    A, B, C, D, _ = _states(system)
    x = np.squeeze(B) if X0 is None else np.squeeze(B + np.atleast_2d(asarray(X0)).T)
    T = _times(A, N) if T is None else T
    return lsim((A, B, C, D), 0.0, T, x, interp=False)[:2]


@override(f"{_HERE}.dlsim", when=ALWAYS)
def dlsim(
    system: _System, u: ArrayLike, t: ArrayLike | None = None, x0: ArrayLike | None = None
) -> tuple[AnyArray, ...]:
    if not _core.contains_array((_parts(system), u, t, x0), {}):
        known: tuple[NDArray, ...] = locate_original(f"{_HERE}.dlsim")(system, u, t, x0)
        return known
    if contains_active(t):
        raise refuse("scipy.signal.dlsim with respect to t")
    return _simulated(system, u, t, x0)


def _simulated(
    system: _System, u: ArrayLike, t: ArrayLike | None, x0: ArrayLike | None
) -> tuple[AnyArray, ...]:
    """Run a discrete system; where times are active, what is driven has to move along with them."""
    is_states = hasattr(system, "A") or (isinstance(system, (tuple, list)) and len(system) == 5)
    A, B, C, D, dt = _states(system, discrete=True)
    driving = asarray(u)
    driving = driving.reshape(-1, 1) if driving.ndim == 1 else driving
    x = asarray(0.0 if x0 is None else x0).reshape(-1)
    x = np.broadcast_to(x, A.shape[:1])
    steps = driving.shape[0]
    stop: Any = (steps - 1) * dt if t is None else t[-1]  # type: ignore[index]
    if t is not None:
        steps = int(np.floor(to_numpy(stop) / to_numpy(dt))) + 1
    times = np.linspace(0.0, stop, steps)
    if t is not None:
        driving = _between(np.asarray(to_numpy(t)), driving, to_numpy(times))
    driven, rows = driving @ B.T, [x]
    for i in range(steps - 1):
        rows.append(A @ rows[-1] + driven[i])
    x = np.stack(rows)
    y = x @ C.T + driving @ D.T
    return (times, y, x) if is_states else (times, y)


def _between(t: NDArray, values: AnyArray, times: NDArray) -> AnyArray:
    """Give values at other times, on lines between those of times `t`."""
    # It says what it does not like.
    locate_original("scipy.interpolate.make_interp_spline")(t, np.zeros(values.shape), k=1)
    at = np.clip(np.searchsorted(t, times, "right") - 1, 0, t.size - 2)
    share = ((times - t[at]) / (t[at + 1] - t[at]))[:, None]
    result: AnyArray = values[at] * (1.0 - share) + values[at + 1] * share
    return result


def _responses(name: str, drive: Callable[[int, NDArray], NDArray]) -> None:
    """Enter the responses of a discrete system to what `drive` gives for each input."""

    @override(f"{_HERE}.{name}", when=ALWAYS)
    def respond(
        system: _System,
        x0: ArrayLike | None = None,
        t: ArrayLike | None = None,
        n: int | None = None,
    ) -> tuple[AnyArray, tuple[AnyArray, ...]]:
        if not _core.contains_array((_parts(system), x0, t), {}):
            known: tuple[NDArray, tuple[NDArray, ...]]
            known = locate_original(f"{_HERE}.{name}")(system, x0, t, n)
            return known
        *states, dt = _states(system, discrete=True)
        inputs, n = states[1].shape[1], 100 if n is None else n
        if contains_active(t):
            raise refuse(f"scipy.signal.{name} with respect to t")
        t = np.linspace(0.0, n * dt, n, endpoint=False) if t is None else np.atleast_1d(asarray(t))
        responses = [
            _simulated((*states, dt), drive(t.shape[0], np.eye(inputs)[i]), t, x0)
            for i in range(inputs)
        ]
        return responses[-1][0], tuple(r[1] for r in responses)


_responses("dstep", lambda steps, unit: np.ones((steps, 1)) * unit)
_responses("dimpulse", lambda steps, unit: np.eye(steps, 1) * unit)


@override(f"{_HERE}.cont2discrete", when=ALWAYS)
def cont2discrete(
    system: Any, dt: Scalar, method: str = "zoh", alpha: Scalar | None = None
) -> tuple[AnyArray | Scalar, ...]:
    original = locate_original(f"{_HERE}.cont2discrete")
    is_tuple = isinstance(system, (tuple, list))
    if not is_tuple or len(system) == 4 or not _core.contains_array((system, dt, alpha), {}):
        known: tuple[NDArray | Scalar, ...]
        known = original(system, dt, method=method, alpha=alpha)
        return known
    *states, _ = _states(tuple(system))
    *made, dt = original(tuple(states), dt, method=method, alpha=alpha)
    if len(system) == 2:
        return *ss2tf(*made), dt
    return *locate(f"{_HERE}.tf2zpk")(*ss2tf(*made)), dt


@override(f"{_HERE}.place_poles")
def place_poles(A: ArrayLike, B: ArrayLike, poles: ArrayLike, method: str = "YT",
                rtol: float = 1e-3, maxiter: int = 30) -> _PlacedPoles:  # fmt: skip
    """With one input there is one gain, by which the characteristic polynomial has these roots."""
    report: _PlacedPoles = locate(f"{_HERE}.place_poles")(
        *map(to_numpy_items, (A, B, poles)), method=method, rtol=rtol, maxiter=maxiter
    )
    if not contains_active((A, B, poles)):
        return report
    a, b = asarray(A), asarray(B)
    if b.shape[1] != 1:
        raise NotDifferentiableError(
            f"place_poles: with {b.shape[1]} inputs the gain is not unique, and the search that "
            "SciPy makes has no derivative rule in cotan; use one input (a column of B, or a "
            "combination of its columns), solve_continuous_are or solve_discrete_are, or hold the "
            "arguments constant with ct.dropgrad"
        )
    wanted = np.real(np.poly(asarray(poles)))

    def equation(gain: AnyArray) -> AnyArray:
        return (_characteristic(a - b @ gain.reshape(1, -1)) - wanted)[1:]

    gain = solution(f"{_HERE}.place_poles", equation, report.gain_matrix.reshape(-1))
    report.gain_matrix = gain.reshape(1, -1)
    for part in ("computed_poles", "X"):
        setattr(report, part, without_rule(f"{part} of place_poles", getattr(report, part), gain))
    return report


override(f"{_HERE}.remez")(refused("use firls or firwin2, which are formulas"))
override(f"{_HERE}.residue", f"{_HERE}.residuez")(
    refused("take the poles from np.roots, and the polynomials there")
)


# --------------------------------------------------------------------------------------------------
# Methods of systems, which call these functions in SciPy's own modules


def _method(owner: str, name: str, rule: Function) -> None:
    override(f"{_HERE}._ltisys.{owner}.{name}", kind=METHOD, when=ALWAYS)(rule)


_method("lti", "step", lambda self, X0=None, T=None, N=None: step(self, X0, T, N))
_method("lti", "impulse", lambda self, X0=None, T=None, N=None: impulse(self, X0, T, N))
_method("lti", "output", lambda self, U, T, X0=None: lsim(self, U, T, X0))
_method("dlti", "output", lambda self, u, t, x0=None: dlsim(self, u, t, x0))


@override(f"{_HERE}._ltisys.ZerosPolesGain.__init__", kind=METHOD)
def _from_zeros(self: _LinearSystem, *system: ArrayLike, **options: object) -> None:
    make = original_of(vars(locate(f"{_HERE}.ZerosPolesGain"))["__init__"])
    # What is in lists becomes arrays.
    make(self, *(asarray(x) if isinstance(x, (list, tuple)) else x for x in system), **options)


def _forms(owner: str, name: str, target: str) -> None:
    @override(f"{_HERE}._ltisys.{owner}.{name}", kind=METHOD, when=ALWAYS)
    def changed(self: _LinearSystem) -> _LinearSystem:
        made: _LinearSystem
        if not _core.contains_array((_parts(self),), {}):
            made = original_of(vars(locate(f"{_HERE}._ltisys.{owner}"))[name])(self)
            return made
        *states, _ = _states(self, self.dt is not None)
        parts = states if target == "StateSpace" else ss2tf(*states)
        if target == "ZerosPolesGain":
            parts = locate(f"{_HERE}.tf2zpk")(*parts)
        options = {} if self.dt is None else {"dt": self.dt}
        made = locate(f"{_HERE}.{target}")(*parts, **options)
        return made


_forms("TransferFunction", "to_ss", "StateSpace")
_forms("ZerosPolesGain", "to_ss", "StateSpace")
_forms("StateSpace", "to_tf", "TransferFunction")
_forms("StateSpace", "to_zpk", "ZerosPolesGain")


def _discretized(owner: str, target: str, names: tuple[str, ...]) -> None:
    @override(f"{_HERE}._ltisys.{owner}.to_discrete", kind=METHOD, when=ALWAYS)
    def to_discrete(
        self: _LinearSystem, dt: Scalar, method: str = "zoh", alpha: Scalar | None = None
    ) -> _LinearSystem:
        parts = tuple(getattr(self, n) for n in names)
        parts = cont2discrete(parts, dt, method, alpha)[:-1]
        made: _LinearSystem = locate(f"{_HERE}.{target}")(*parts, dt=dt)
        return made


_discretized("TransferFunctionContinuous", "TransferFunction", ("num", "den"))
_discretized("ZerosPolesGainContinuous", "ZerosPolesGain", ("zeros", "poles", "gain"))
