"""Linear systems of `scipy.signal`: their states, and their responses in time."""

# ruff: noqa: N803, N806 - the names are SciPy's

from typing import Any

import numpy as np

from cotan import _core
from cotan._core import NotDifferentiableError
from cotan._src.kit.implicit_diff import solution, without_rule
from cotan._src.rebind.engine import locate, refused
from cotan._src.rebind.numpy_substitutes import asarray
from cotan._src.runtime.method_patching import original_of
from cotan._src.runtime.registry import ALWAYS, METHOD, override
from cotan._src.runtime.values import contains_active, refuse, to_numpy
from cotan._src.scipy.linalg.matrix_functions import expm
from cotan._src.scipy.signal.filter_design import complex_vector, polynomial
from cotan._src.state.callback_probe import to_numpy_items

_HERE = "scipy.signal"


@override(f"{_HERE}.tf2ss")
def tf2ss(num: Any, den: Any) -> Any:
    """Give the controller canonical form."""
    num, den = np.atleast_2d(asarray(num)), np.atleast_1d(asarray(den))
    # It says what it does not like.
    locate(f"{_HERE}.tf2ss")(to_numpy(num), to_numpy(den))
    den = den[np.flatnonzero(to_numpy(den))[0] :]
    num, den = num / den[0], den / den[0]
    order = den.shape[0]
    leading = np.flatnonzero(np.any(to_numpy(num) != 0, axis=0))
    num = num[:, min(leading[0], num.shape[1] - 1) if leading.size else num.shape[1] - 1 :]
    missing = np.zeros((num.shape[0], order - num.shape[1]))
    num = np.concatenate([missing, num], axis=1)
    first = num[:, :1]
    if order == 1:
        return np.zeros((1, 1)), np.zeros((1, first.shape[1])), np.zeros((first.shape[0], 1)), first
    a = np.concatenate([-den[None, 1:], np.eye(order - 2, order - 1)])
    return a, np.eye(order - 1, 1), num[:, 1:] - first * den[1:], first


@override(f"{_HERE}.ss2tf")
def ss2tf(A: Any, B: Any, C: Any, D: Any, input: int = 0) -> Any:
    A, B, C, D = _filled(A, B, C, D)
    B, D = B[:, input : input + 1], D[:, input : input + 1]
    den = _characteristic(A)
    rows = [_characteristic(A - B * c) + (d - 1) * den for c, d in zip(C, D, strict=True)]
    return np.stack(rows), den


def _characteristic(a: Any) -> Any:
    """Give the characteristic polynomial, by the method of Faddeev and LeVerrier."""
    n = a.shape[0]
    m, c = np.zeros((n, n)), [asarray(1.0)]
    for k in range(1, n + 1):
        m = a @ m + c[-1] * np.eye(n)
        c.append(-np.trace(a @ m) / k)
    return np.stack(c)


def _filled(A: Any, B: Any, C: Any, D: Any) -> Any:
    """Give matrices with two axes, and zeros for those that are not there."""
    parts = [None if m is None else np.atleast_2d(asarray(m)) for m in (A, B, C, D)]
    plain_parts = locate(f"{_HERE}.abcd_normalize")(*map(to_numpy_items, parts))
    return [
        p if p is not None and p.shape == known.shape else np.reshape(p, known.shape)
        if p is not None and p.size == known.size
        else asarray(known)
        for p, known in zip(parts, plain_parts, strict=True)
    ]  # fmt: skip


def _states(system: Any, discrete: bool = False) -> Any:
    """Give the four matrices of a system in any form, and its step if it is discrete."""
    kind, other = (f"{_HERE}.dlti", f"{_HERE}.lti")[:: 1 if discrete else -1]
    if isinstance(system, locate(other)):
        raise AttributeError(
            f"a {'discrete' if not discrete else 'continuous'}-time system is of no use here"
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


def _real_poly(roots: Any) -> Any:
    return polynomial(complex_vector(roots)).real


@override(f"{_HERE}.lsim", when=ALWAYS)
def lsim(system: Any, U: Any, T: Any, X0: Any = None, interp: bool = True) -> Any:
    if not _core.contains_array((_parts(system), U, T, X0), {}):
        return locate(f"{_HERE}.lsim")(system, U, T, X0, interp)
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
    rows = [x]
    if steps > 1:
        dt = T[1] - T[0]
        if not np.allclose(np.diff(to_numpy(T)), to_numpy(dt)):
            raise ValueError("Time steps are not equally spaced.")
        rows += _traced(A, B, dt, u, x, interp)
    x = np.stack(rows)
    return T, np.squeeze(x @ C.T + u @ D.T), np.squeeze(x)


def _traced(A: Any, B: Any, dt: Any, u: Any, x: Any, interp: bool) -> list[Any]:
    """Give the states after each step, between which the input is constant or a line."""
    n, inputs = A.shape[0], B.shape[1]
    size = n + (2 if interp else 1) * inputs
    m = np.concatenate([A * dt, B * dt, np.zeros((n, size - n - inputs))], axis=1)
    rest = np.zeros((size - n, size))
    if interp:
        rest[:inputs, n + inputs :] = np.eye(inputs)
    m = expm(np.concatenate([m, rest]).T)
    Ad, Bd0 = m[:n, :n], m[n : n + inputs, :n]
    driven = u[:-1] @ Bd0
    if interp:
        Bd1 = m[n + inputs :, :n]
        driven = driven + (u[1:] - u[:-1]) @ Bd1
    rows = []
    for i in range(u.shape[0] - 1):
        x = x @ Ad + driven[i]
        rows.append(x)
    return rows


def _parts(system: Any) -> Any:
    return list(vars(system).values()) if hasattr(system, "__dict__") else system


def _times(A: Any, N: Any) -> Any:
    """Give SciPy's times for a response: seven times the slowest time constant."""
    slowest = np.min(np.abs(np.real(np.linalg.eigvals(A))))
    slowest = slowest if to_numpy(slowest) != 0 else 1.0
    return np.linspace(0.0, 7.0 / slowest, 100 if N is None else N)


@override(f"{_HERE}.step", when=ALWAYS)
def step(system: Any, X0: Any = None, T: Any = None, N: Any = None) -> Any:
    if not _core.contains_array((_parts(system), X0, T), {}):
        return locate(f"{_HERE}.step")(system, X0, T, N)
    A, B, C, D, _ = _states(system)
    T = _times(A, N) if T is None else np.asarray(T)
    T = T if np.ndim(T) else _times(A, T)
    u = np.ones((np.shape(T)[0], B.shape[1]))
    return lsim((A, B, C, D), u, T, X0, interp=False)[:2]


@override(f"{_HERE}.impulse", when=ALWAYS)
def impulse(system: Any, X0: Any = None, T: Any = None, N: Any = None) -> Any:
    if not _core.contains_array((_parts(system), X0, T), {}):
        return locate(f"{_HERE}.impulse")(system, X0, T, N)
    A, B, C, D, _ = _states(system)
    x = np.squeeze(B) if X0 is None else np.squeeze(B + np.atleast_2d(asarray(X0)).T)
    T = _times(A, N) if T is None else T
    return lsim((A, B, C, D), 0.0, T, x, interp=False)[:2]


@override(f"{_HERE}.dlsim", when=ALWAYS)
def dlsim(system: Any, u: Any, t: Any = None, x0: Any = None) -> Any:
    if not _core.contains_array((_parts(system), u, t, x0), {}):
        return locate(f"{_HERE}.dlsim")(system, u, t, x0)
    if t is not None:
        raise refuse("scipy.signal.dlsim with t=")
    is_states = hasattr(system, "A") or (isinstance(system, (tuple, list)) and len(system) == 5)
    A, B, C, D, dt = _states(system, discrete=True)
    u = asarray(u)
    u = u.reshape(-1, 1) if u.ndim == 1 else u
    x = asarray(0.0 if x0 is None else x0).reshape(-1)
    x = np.broadcast_to(x, A.shape[:1])
    driven, rows = u @ B.T, [x]
    for i in range(u.shape[0] - 1):
        rows.append(A @ rows[-1] + driven[i])
    x = np.stack(rows)
    times = np.linspace(0.0, (u.shape[0] - 1) * dt, u.shape[0])
    y = x @ C.T + u @ D.T
    return (times, y, x) if is_states else (times, y)


def _responses(name: str, drive: Any) -> None:
    """Enter the responses of a discrete system to what `drive` gives for each input."""

    @override(f"{_HERE}.{name}", when=ALWAYS)
    def respond(system: Any, x0: Any = None, t: Any = None, n: Any = None) -> Any:
        if not _core.contains_array((_parts(system), x0, t), {}):
            return locate(f"{_HERE}.{name}")(system, x0, t, n)
        if t is not None:
            raise refuse(f"scipy.signal.{name} with t=")
        *states, dt = _states(system, discrete=True)
        inputs, steps = states[1].shape[1], 100 if n is None else n
        responses = [
            dlsim((*states, dt), drive(steps, np.eye(inputs)[i]), None, x0) for i in range(inputs)
        ]
        return responses[-1][0], tuple(r[1] for r in responses)


_responses("dstep", lambda steps, unit: np.ones((steps, 1)) * unit)
_responses("dimpulse", lambda steps, unit: np.eye(steps, 1) * unit)


@override(f"{_HERE}.cont2discrete", when=ALWAYS)
def cont2discrete(system: Any, dt: Any, method: str = "zoh", alpha: Any = None) -> Any:
    original = locate(f"{_HERE}.cont2discrete")
    is_tuple = isinstance(system, (tuple, list))
    if not is_tuple or len(system) == 4 or not _core.contains_array((system, dt, alpha), {}):
        return original(system, dt, method=method, alpha=alpha)
    *states, _ = _states(tuple(system))
    *made, dt = original(tuple(states), dt, method=method, alpha=alpha)
    if len(system) == 2:
        return *ss2tf(*made), dt
    return *locate(f"{_HERE}.tf2zpk")(*ss2tf(*made)), dt


@override(f"{_HERE}.place_poles")
def place_poles(A: Any, B: Any, poles: Any, method: str = "YT", rtol: float = 1e-3,
                maxiter: int = 30) -> Any:  # fmt: skip
    """With one input there is one gain, by which the characteristic polynomial has these roots."""
    report = locate(f"{_HERE}.place_poles")(
        *map(to_numpy_items, (A, B, poles)), method=method, rtol=rtol, maxiter=maxiter
    )
    if not contains_active((A, B, poles)):
        return report
    a, b = asarray(A), asarray(B)
    if b.shape[1] != 1:
        raise NotDifferentiableError(
            f"place_poles: with {b.shape[1]} inputs there are many gains, and that which SciPy "
            "searches for has no derivative rule in cotan; take one input (a column of B, or a "
            "combination of its columns), solve_continuous_are or solve_discrete_are, or hold the "
            "arguments constant with ct.dropgrad"
        )
    wanted = np.real(np.poly(asarray(poles)))

    def equation(gain: Any) -> Any:
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


def _method(owner: str, name: str, rule: Any) -> None:
    override(f"{_HERE}._ltisys.{owner}.{name}", kind=METHOD, when=ALWAYS)(rule)


_method("lti", "step", lambda self, X0=None, T=None, N=None: step(self, X0, T, N))
_method("lti", "impulse", lambda self, X0=None, T=None, N=None: impulse(self, X0, T, N))
_method("lti", "output", lambda self, U, T, X0=None: lsim(self, U, T, X0))
_method("dlti", "output", lambda self, u, t, x0=None: dlsim(self, u, t, x0))


@override(f"{_HERE}._ltisys.ZerosPolesGain.__init__", kind=METHOD)
def _from_zeros(self: Any, *system: Any, **options: Any) -> None:
    make = original_of(vars(locate(f"{_HERE}.ZerosPolesGain"))["__init__"])
    # What is in lists becomes arrays.
    make(self, *(asarray(x) if isinstance(x, (list, tuple)) else x for x in system), **options)


def _forms(owner: str, name: str, target: str) -> None:
    @override(f"{_HERE}._ltisys.{owner}.{name}", kind=METHOD, when=ALWAYS)
    def changed(self: Any) -> Any:
        if not _core.contains_array((_parts(self),), {}):
            return original_of(vars(locate(f"{_HERE}._ltisys.{owner}"))[name])(self)
        *states, _ = _states(self, self.dt is not None)
        parts = states if target == "StateSpace" else ss2tf(*states)
        if target == "ZerosPolesGain":
            parts = locate(f"{_HERE}.tf2zpk")(*parts)
        options = {} if self.dt is None else {"dt": self.dt}
        return locate(f"{_HERE}.{target}")(*parts, **options)


_forms("TransferFunction", "to_ss", "StateSpace")
_forms("ZerosPolesGain", "to_ss", "StateSpace")
_forms("StateSpace", "to_tf", "TransferFunction")
_forms("StateSpace", "to_zpk", "ZerosPolesGain")


def _discretized(owner: str, target: str, names: tuple[str, ...]) -> None:
    @override(f"{_HERE}._ltisys.{owner}.to_discrete", kind=METHOD, when=ALWAYS)
    def to_discrete(self: Any, dt: Any, method: str = "zoh", alpha: Any = None) -> Any:
        parts = tuple(getattr(self, n) for n in names)
        made = cont2discrete(parts, dt, method, alpha)
        return locate(f"{_HERE}.{target}")(*made[:-1], dt=dt)


_discretized("TransferFunctionContinuous", "TransferFunction", ("num", "den"))
_discretized("ZerosPolesGainContinuous", "ZerosPolesGain", ("zeros", "poles", "gain"))
