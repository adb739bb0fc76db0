"""The rows in CasADi, as its users write them: functions of one step, mapped or accumulated."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from cotan._src.bench.libraries import Built, NotWrittenError
from rows._row import Row


def rk4(ca: Any, slope: Any, y: Any, p: Any, h: float) -> Any:
    """Give a function of state and parameters, one step of the classical method."""
    k1 = slope(y, p)
    k2 = slope(y + h / 2 * k1, p)
    k3 = slope(y + h / 2 * k2, p)
    k4 = slope(y + h * k3, p)
    return ca.Function("step", [y, p], [y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)])


def accumulate(step: Any, steps: int, state: Any, *others: Any) -> Any:
    """Apply a step again and again, to the same other arguments, and give all states."""
    return step.mapaccum("all", steps)(state, *others)


def scalar_loop(ca: Any, x: Any) -> Any:
    s = ca.SX.sym("x")
    y = s
    for _ in range(250):
        y = ca.sin(y) * s + y / 2
    return [s], y


def lorenz(ca: Any, state: Any, parameters: Any, times: Any) -> Any:
    def slope(y: Any, p: Any) -> Any:
        return ca.vertcat(
            p[0] * (y[1] - y[0]), y[0] * (p[1] - y[2]) - y[1], y[0] * y[1] - p[2] * y[2]
        )

    step = rk4(ca, slope, ca.SX.sym("y", 3), ca.SX.sym("p", 3), 0.01)
    y, p = ca.MX.sym("y", 3), ca.MX.sym("p", 3)
    states = accumulate(step, len(times), y, ca.repmat(p, 1, len(times)))
    return [y, p], ca.sumsqr(states[:, -1])


def ode_calibration(ca: Any, parameters: Any, start: Any, seen: Any) -> Any:
    def slope(y: Any, p: Any) -> Any:
        both = y[0] * y[1]
        return ca.vertcat(p[0] * y[0] - p[1] * both, p[3] * both - p[2] * y[1])

    step = rk4(ca, slope, ca.SX.sym("y", 2), ca.SX.sym("p", 4), 0.1)
    p = ca.MX.sym("p", 4)
    states = accumulate(step, len(seen), ca.DM(start), ca.repmat(p, 1, len(seen)))
    return [p], ca.sumsqr(states - ca.DM(seen.T))


def n_body(ca: Any, state: Any, masses: Any, times: Any) -> Any:
    n = len(masses)

    def slope(y: Any, m: Any) -> Any:
        places = ca.reshape(y[: 3 * n], 3, n)
        between = [
            ca.repmat(places[c, :], n, 1) - ca.repmat(places[c, :].T, 1, n) for c in range(3)
        ]
        weights = ca.repmat(m.T, n, 1) / (sum(d**2 for d in between) + 0.1) ** 1.5
        pull = ca.horzcat(*(ca.sum2(weights * d) for d in between))
        return ca.vertcat(y[3 * n :], ca.vec(pull.T))

    step = rk4(ca, slope, ca.MX.sym("y", 6 * n), ca.MX.sym("m", n), 0.01)
    y, m = ca.MX.sym("y", 6 * n), ca.MX.sym("m", n)
    last = accumulate(step, len(times), y, ca.repmat(m, 1, len(times)))[:, -1]
    speeds = ca.reshape(last[3 * n :], 3, n)
    return [y, m], ca.sumsqr(last[: 3 * n]) + ca.dot(m, ca.sum1(speeds**2).T)


def lstm(ca: Any, main: Any, extra: Any, start: Any, text: Any) -> Any:
    layers, b = main.shape[0], main.shape[3]

    def sigmoid(x: Any) -> Any:
        return 1 / (1 + ca.exp(-x))

    def part(x: Any, k: int) -> Any:
        return x[k * b : (k + 1) * b]

    state, w, e = (ca.SX.sym("s", 2 * layers * b), ca.SX.sym("w", main.size), ca.SX.sym("e", 3 * b))
    now, following = ca.SX.sym("x", b), ca.SX.sym("y", b)
    x, states = now * part(e, 0), []
    for layer in range(layers):
        weights = [part(w, 8 * layer + k) for k in range(8)]
        hidden, memory = part(state, 2 * layer), part(state, 2 * layer + 1)
        forget = sigmoid(x * weights[0] + weights[4])
        gate = sigmoid(hidden * weights[1] + weights[5])
        out = sigmoid(x * weights[2] + weights[6])
        memory = memory * forget + gate * ca.tanh(hidden * weights[3] + weights[7])
        x = out * ca.tanh(memory)
        states += [x, memory]
    y = x * part(e, 1) + part(e, 2)
    fit = ca.dot(following, y - ca.log(ca.sum1(ca.exp(y)) + 2))
    step = ca.Function("step", [state, w, e, now, following], [ca.vertcat(*states), fit])
    w, e, steps = ca.MX.sym("w", main.size), ca.MX.sym("e", extra.size), len(text) - 1
    _, fits = accumulate(
        step,
        steps,
        ca.DM(start.ravel()),
        ca.repmat(w, 1, steps),
        ca.repmat(e, 1, steps),
        ca.DM(text[:-1].T),
        ca.DM(text[1:].T),
    )
    return [w, e], -ca.sum2(fits) / (steps * b)


def ba(ca: Any, cameras: Any, points: Any, camera: Any, point: Any, seen: Any) -> Any:
    c, x, wanted = ca.SX.sym("c", 9), ca.SX.sym("x", 3), ca.SX.sym("s", 2)
    angle = ca.norm_2(c[:3])
    v = c[:3] / angle
    turned = ca.cos(angle) * x + ca.sin(angle) * ca.cross(v, x)
    moved = turned + ca.dot(x, v) * (1 - ca.cos(angle)) * v + c[3:6]
    flat = -moved[:2] / moved[2]
    n = ca.sumsqr(flat)
    error = flat * (1 + c[7] * n + c[8] * n**2) * c[6] - wanted
    one = ca.Function("one", [c, x, wanted], [ca.sumsqr(error)])
    every = one.map(len(seen))
    cs, xs = ca.MX.sym("c", 9, len(cameras)), ca.MX.sym("x", 3, len(points))
    errors = every(cs[:, camera.tolist()], xs[:, point.tolist()], ca.DM(seen.T))
    return [cs, xs], ca.sum2(errors)


def gmm(ca: Any, alphas: Any, means: Any, icf: Any, x: Any) -> Any:
    (n, d), k = x.shape, len(alphas)
    a, m, c = ca.SX.sym("a", k), ca.SX.sym("m", d, k), ca.SX.sym("c", icf.shape[1], k)
    one, inner = ca.SX.sym("x", d), []
    for j in range(k):
        centred, at = one - m[:, j], d
        scaled = ca.exp(c[:d, j]) * centred
        for i in range(d - 1):
            length = d - i - 1
            below = c[at : at + length, j] * centred[i]
            scaled = scaled + ca.vertcat(ca.SX(i + 1, 1), below)
            at += length
        inner.append(a[j] + ca.sum1(c[:d, j]) - 0.5 * ca.sumsqr(scaled))
    point = ca.Function("point", [one, a, m, c], [ca.logsumexp(ca.vertcat(*inner))])
    a, m, c = ca.MX.sym("a", k), ca.MX.sym("m", d, k), ca.MX.sym("c", icf.shape[1], k)
    every = point.map(n)
    fits = every(ca.DM(x.T), *(ca.repmat(p, 1, n) for p in (a, m, c)))
    prior = 0.5 * (ca.sumsqr(ca.exp(c[:d, :])) + ca.sumsqr(c[d:, :])) - ca.sum1(ca.sum2(c[:d, :]))
    value = ca.sum2(fits) - n * ca.logsumexp(a) - prior
    return [a, m, c], value - n * d * 0.5 * math.log(2 * math.pi)


def kalman(ca: Any, dynamics: Any, process: Any, noise: Any, look: Any, seen: Any) -> Any:
    x, p, a = ca.SX.sym("x", 4), ca.SX.sym("p", 4, 4), ca.SX.sym("a", 4, 4)
    q, r, y, h = ca.SX.sym("q", 4), ca.SX.sym("r", 2), ca.SX.sym("y", 2), ca.DM(look)
    ahead, spread = a @ x, a @ p @ a.T + ca.diag(ca.exp(q))
    surprise = y - h @ ahead
    s = h @ spread @ h.T + ca.diag(ca.exp(r))
    inverse = ca.inv(s)
    gain = spread @ h.T @ inverse
    fit = -0.5 * (surprise.T @ inverse @ surprise + ca.log(ca.det(s)))
    after = ca.vertcat(ahead + gain @ surprise, ca.vec(spread - gain @ h @ spread))
    state = ca.SX.sym("state", 20)
    parts = ca.Function("parts", [x, p, a, q, r, y], [after, fit])
    given = parts(state[:4], ca.reshape(state[4:], 4, 4), a, q, r, y)
    step = ca.Function("step", [state, a, q, r, y], list(given))
    turned, q, r = ca.MX.sym("a", 4, 4), ca.MX.sym("q", 4), ca.MX.sym("r", 2)
    start = ca.DM(np.concatenate((np.zeros(4), np.eye(4).ravel())))
    steps = len(seen)
    _, fits = accumulate(
        step, steps, start, *(ca.repmat(t, 1, steps) for t in (turned.T, q, r)), ca.DM(seen.T)
    )
    return [turned, q, r], ca.sum2(fits) - steps * math.log(2 * math.pi)


def satellite(ca: Any, elements: Any, times: Any, seen: Any) -> Any:
    from rows.field.dynamics import place

    class Names:
        """The functions of NumPy that the formulas call."""

        sin, cos, sqrt = staticmethod(ca.sin), staticmethod(ca.cos), staticmethod(ca.sqrt)

    e, time, wanted = ca.SX.sym("e", 7), ca.SX.sym("t"), ca.SX.sym("s", 3)
    found = ca.vertcat(*place(Names, ca.vertsplit(e), time))
    one = ca.Function("one", [e, time, wanted], [ca.sumsqr(found - wanted)])
    p, n = ca.MX.sym("e", 7), len(times)
    errors = one.map(n)(ca.repmat(p, 1, n), ca.DM(times).T, ca.DM(seen.T))
    return [p], ca.sum2(errors)


#: By row: what makes the symbols that are differentiated, and the value.
WRITTEN: dict[str, Callable[..., Any]] = {
    "scalar-loop": scalar_loop,
    "lorenz": lorenz,
    "n-body": n_body,
    "lstm": lstm,
    "ba": ba,
    "gmm": gmm,
    "kalman": kalman,
    "satellite": satellite,
    "ode-calibration": ode_calibration,
}


def build(w: Row, arguments: tuple[Any, ...]) -> Built:
    """Call a function of CasADi for value and gradients.

    Its matrices lie column by column, so each symbol is a transposed argument.
    """
    import casadi as ca

    if w.name not in WRITTEN:
        raise NotWrittenError("not written")
    symbols, value = WRITTEN[w.name](ca, *arguments)
    function = ca.Function("both", symbols, [value, *(ca.gradient(value, s) for s in symbols)])
    given = [
        np.ravel(arguments[k]).reshape(s.shape, order="F")
        for k, s in zip(w.wrt, symbols, strict=True)
    ]
    shapes = [np.shape(arguments[k]) for k in w.wrt]

    def call() -> Any:
        return function(*given)

    def arrays(result: Any) -> Any:
        value, *found = result
        gradients = (g.full().ravel(order="F") for g in found)
        return float(value), tuple(
            g.reshape(shape) for g, shape in zip(gradients, shapes, strict=True)
        )

    return call, arrays
