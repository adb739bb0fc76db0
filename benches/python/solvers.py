"""What a gradient through a solver of SciPy costs, beside the plain run of the same code.

python benches/python/solvers.py [--only TEXT] [--rounds N] [--cpu] [--markdown FILE]

A row is a small problem as one meets them: the plain run, outside of any recording; the same run
while a pullback is recorded (the value under a gradient); value and gradient. The calls of a row
take turns, and each figure is a median with its quartiles. The second table is a calibration: five
parameters of the Lotka-Volterra equations, fitted by SciPy with its differences, by cotan, and by
SciPy with the Jacobian of cotan, with two of the methods of `solve_ivp`.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy import integrate, interpolate, optimize

import cotan as ct
from _harness import Timing, machine, table, time_together, write_section

Clock = Callable[[], float]

TIMES = np.linspace(0.0, 15.0, 31)
RATES = {"birth": 1.0, "hunt": 0.3, "feed": 0.15, "death": 0.5, "lynxes": 4.0}


def simulated(p, method="RK45", rtol=1e-6):
    def slope(t, state):
        hares, lynxes = state
        more_hares = p["birth"] * hares - p["hunt"] * hares * lynxes
        more_lynxes = p["feed"] * hares * lynxes - p["death"] * lynxes
        return np.array([more_hares, more_lynxes])

    begin = np.array([10.0, p["lynxes"]])
    solution = integrate.solve_ivp(
        slope, (0.0, 15.0), begin, t_eval=TIMES, rtol=rtol, method=method
    )
    return solution.y


def of_method(method):
    return lambda p: np.sum(simulated(p, method) ** 2)


def switched(p):
    """Solve an equation whose right side branches on the time."""

    def slope(t, state):
        hares, lynxes = state
        hunt = p["hunt"] if t < 5.0 else 0.5 * p["hunt"]
        return np.array(
            [
                p["birth"] * hares - hunt * hares * lynxes,
                p["feed"] * hares * lynxes - p["death"] * lynxes,
            ]
        )

    begin = np.array([10.0, p["lynxes"]])
    return np.sum(integrate.solve_ivp(slope, (0.0, 15.0), begin, rtol=1e-6).y[:, -1])


def chain(p):
    """Solve a diffusion in twenty cells, as one array."""

    def slope(t, u):
        left, right = np.concatenate([u[:1], u[:-1]]), np.concatenate([u[1:], u[-1:]])
        return p["rate"] * (left - 2.0 * u + right) - p["decay"] * u**2

    solution = integrate.solve_ivp(slope, (0.0, 2.0), p["start"], rtol=1e-6)
    return np.sum(solution.y[:, -1] ** 2)


def mesh(p, method):
    """Solve a diffusion in a hundred cells, which is stiff."""

    def slope(t, u):
        left, right = np.concatenate([u[:1], u[:-1]]), np.concatenate([u[1:], u[-1:]])
        return 25.0 * p["rate"] * (left - 2.0 * u + right) - p["decay"] * u**2

    if method == "odeint":
        y = integrate.odeint(slope, p["start"], np.linspace(0.0, 2.0, 11), tfirst=True)[-1]
    else:
        y = integrate.solve_ivp(slope, (0.0, 2.0), p["start"], method, rtol=1e-6).y[:, -1]
    return np.sum(y**2)


def end_of(slope, start, span, method):
    """Give the state at the end of a span."""
    if method == "odeint":
        return integrate.odeint(slope, start, [0.0, span], tfirst=True)[-1]
    return integrate.solve_ivp(slope, (0.0, span), start, method, rtol=1e-6).y[:, -1]


def bodies(p, method):
    """Let ten bodies attract each other."""
    count = len(p["mass"])

    def slope(t, s):
        place, speed = s.reshape(2, count, 3)
        apart = place[None] - place[:, None]
        cubed = (np.sum(apart**2, axis=-1) + 0.1) ** 1.5
        pull = np.sum(p["mass"][None, :, None] * apart / cubed[..., None], axis=1)
        return np.concatenate([speed.ravel(), pull.ravel()])

    return np.sum(end_of(slope, p["start"], 3.0, method) ** 2)


def oscillators(p, method):
    """Let fifty oscillators pull each other's phase."""
    own = np.linspace(-1.0, 1.0, 50)

    def slope(t, phase):
        pull = np.sin(phase[None] - phase[:, None])
        return p["spread"] * own + p["pull"] / 50 * pull.sum(axis=1)

    return np.sum(np.cos(end_of(slope, 6.0 * own**3, 5.0, method)))


def species(p, method):
    """Let two species react and spread in twelve by twelve cells (Gray and Scott)."""

    def spread(x):
        near = np.roll(x, 1, 0) + np.roll(x, -1, 0) + np.roll(x, 1, 1) + np.roll(x, -1, 1)
        return near - 4.0 * x

    def slope(t, s):
        u, v = s.reshape(2, 12, 12)
        made = u * v * v
        of_u = 0.16 * spread(u) - made + p["feed"] * (1.0 - u)
        of_v = 0.08 * spread(v) + made - (p["feed"] + p["kill"]) * v
        return np.concatenate([of_u.ravel(), of_v.ravel()])

    start = np.zeros((2, 12, 12))
    start[0], start[:, 4:8, 4:8] = 1.0, [[[0.5]], [[0.25]]]
    return np.sum(end_of(slope, start.ravel(), 50.0, method) ** 2)


def network(p, method):
    """Solve for a right side that is a network of fifty neurons."""

    def slope(t, y):
        return p["outer"] @ np.tanh(p["inner"] @ y + p["bias"])

    return np.sum(end_of(slope, np.array([1.0, 0.5]), 5.0, method) ** 2)


def bounces(p):
    """Drop a ball, which bounces three times: each run begins where the last one ended."""

    def touches(t, y):
        return y[0]

    touches.terminal, touches.direction = True, -1.0
    t, y = 0.0, [p["height"], 0.0]
    for _ in range(3):
        solution = integrate.solve_ivp(
            lambda t, y: [y[1], -9.81 - p["drag"] * y[1]], (t, t + 10.0), y, events=touches
        )
        t, y = solution.t[-1], [1e-9, -p["rest"] * solution.y[1, -1]]
    return t


def robertson(p, method):
    def slope(t, y):
        a, b, c = y
        fast, slow = p["k3"] * b * c, p["k1"] * a
        cubed = p["k2"] * b * b
        return np.array([fast - slow, slow - fast - cubed, cubed])

    solution = integrate.solve_ivp(slope, (0.0, 100.0), [1.0, 0.0, 0.0], method=method, rtol=1e-5)
    return solution.y[0, -1]


def pendulum(p):
    def slope(y, t, damping, pull):
        return [y[1], -damping * y[1] - pull * np.sin(y[0])]

    return np.sum(
        integrate.odeint(slope, [2.0, 0.0], np.linspace(0, 10, 51), args=(p["d"], p["c"])) ** 2
    )


def driven(p):
    """Solve for a forcing that is read from a table."""
    forcing = interpolate.interp1d(np.linspace(0.0, 10.0, 41), p["forcing"], kind="linear")

    def slope(y, t):
        return [y[1], -p["c"] * y[0] + forcing(t)]

    return np.sum(integrate.odeint(slope, [1.0, 0.0], np.linspace(0, 9, 31)) ** 2)


def cells(p):
    def slope(u, t):
        left, right = np.concatenate([u[:1], u[:-1]]), np.concatenate([u[1:], u[-1:]])
        return p["rate"] * (left - 2.0 * u + right) - p["decay"] * u**2

    return np.sum(integrate.odeint(slope, p["start"], np.linspace(0.0, 2.0, 11))[-1] ** 2)


def cells_by_class(p):
    def slope(t, u):
        left, right = np.concatenate([u[:1], u[:-1]]), np.concatenate([u[1:], u[-1:]])
        return p["rate"] * (left - 2.0 * u + right) - p["decay"] * u**2

    solver = integrate.ode(slope).set_integrator("dopri5", rtol=1e-6)
    return np.sum(solver.set_initial_value(p["start"], 0.0).integrate(2.0) ** 2)


def boundary(p):
    def slope(x, y):
        return np.vstack((y[1], -p * np.exp(y[0])))

    def ends(left, right):
        return np.array([left[0], right[0]])

    x = np.linspace(0, 1, 5)
    return integrate.solve_bvp(slope, ends, x, np.zeros((2, x.size))).y[0, 2]


def by_class(p):
    solver = integrate.ode(lambda t, y: [y[1], -p["c"] * y[0] - p["d"] * y[1]])
    solver.set_integrator("dopri5", rtol=1e-6).set_initial_value([1.0, 0.0], 0.0)
    return np.sum(solver.integrate(10.0) ** 2)


X = np.linspace(0.0, 4.0, 50)
Y = 2.5 * np.exp(-1.3 * X) + 0.5 + 0.05 * np.sin(40 * X)


def fitted(y):
    best, _ = optimize.curve_fit(lambda x, a, b, c: a * np.exp(-b * x) + c, X, y, [2.0, 1.0, 0.0])
    return np.sum(best)


def least(y):
    def residuals(v):
        return v[0] * np.exp(-v[1] * X) + v[2] - y

    return np.sum(optimize.least_squares(residuals, [2.0, 1.0, 0.0]).x)


def system(p):
    def equations(v):
        return [v[0] * np.cos(v[1]) - p[0], v[0] * v[1] - v[1] - p[1]]

    return np.sum(optimize.fsolve(equations, [1.0, 1.0]))


def rooted(p):
    def equations(v):
        return [v[0] * np.cos(v[1]) - p[0], v[0] * v[1] - v[1] - p[1]]

    return np.sum(optimize.root(equations, [1.0, 1.0]).x)


def valley(p, method):
    def height(v):
        return np.sum(100.0 * (v[1:] - v[:-1] ** 2) ** 2 + (p - v[:-1]) ** 2) + np.sum(v**4)

    return np.sum(optimize.minimize(height, np.zeros(4), method=method).x)


FREQUENCIES = np.linspace(0.1, 3.0, 1_000)
MANY_X = np.linspace(0.0, 4.0, 1_000)
MANY_Y = 2.5 * np.exp(-1.3 * MANY_X) + 0.5 + 0.05 * np.sin(40 * MANY_X)


def many_terms(x, p):
    return np.mean(np.exp(-p * FREQUENCIES) * np.sin(FREQUENCIES * x)) - 0.1


def many_equations(p, n=20):
    def equations(v):
        left, right = np.concatenate([[1.0], v[:-1]]), np.concatenate([v[1:], [0.0]])
        return (3.0 - p[0] * v) * v - left - p[1] * right + 1.0

    return np.sum(optimize.fsolve(equations, -np.ones(n)))


def many_fitted(y):
    def model(x, a, b, c):
        return a * np.exp(-b * x) + c

    return np.sum(optimize.curve_fit(model, MANY_X, y, [2.0, 1.0, 0.0])[0])


def many_least(y):
    def residuals(v):
        return v[0] * np.exp(-v[1] * MANY_X) + v[2] - y

    return np.sum(optimize.least_squares(residuals, [2.0, 1.0, 0.0]).x)


def confined(p, method):
    """Minimise in a ball, on a line."""
    ball = optimize.NonlinearConstraint(lambda x: p * np.sum(x**2), -np.inf, 1.0)
    line = {"type": "eq", "fun": lambda x: x[0] - 0.3 * x[1] - 0.2 * p}

    def height(x):
        return (x[0] - 2.0) ** 2 + (x[1] - 1.5) ** 4 + x[0] * x[1]

    start = np.array([0.5, 0.5])
    return np.sum(optimize.minimize(height, start, method=method, constraints=[ball, line]).x)


PARTS = {"d": 0.25, "c": 5.0}
ROBERTSON = {"k1": 0.04, "k2": 3e7, "k3": 1e4}
CHAIN = {"rate": 5.0, "decay": 0.1, "start": np.sin(np.linspace(0, 3, 20)) + 1.0}
MESH = CHAIN | {"start": np.sin(np.linspace(0, 3, 100)) + 1.0}

RANDOM = np.random.default_rng(0)
BODIES = {"mass": RANDOM.uniform(0.5, 1.5, 10), "start": RANDOM.normal(size=60)}
OSCILLATORS = {"spread": 1.0, "pull": 1.5}
SPECIES = {"feed": 0.035, "kill": 0.065}
NETWORK = {
    "inner": 0.5 * RANDOM.normal(size=(50, 2)),
    "bias": np.zeros(50),
    "outer": 0.3 * RANDOM.normal(size=(2, 50)),
}

CASES: list[tuple[str, Callable, object]] = [
    *(
        (f"`solve_ivp` {m}, Lotka-Volterra", of_method(m), RATES)
        for m in ("RK45", "RK23", "DOP853", "LSODA", "BDF", "Radau")
    ),
    ("`solve_ivp` RK45, a branch on the time", switched, RATES),
    ("`solve_ivp` RK45, twenty cells", chain, CHAIN),
    *(
        (f"`solve_ivp` {m}, Robertson", lambda p, m=m: robertson(p, m), ROBERTSON)
        for m in ("LSODA", "BDF", "Radau")
    ),
    *(
        (f"`solve_ivp` {m}, a hundred cells", lambda p, m=m: mesh(p, m), MESH)
        for m in ("RK45", "LSODA", "BDF", "Radau")
    ),
    ("`odeint`, a hundred cells", lambda p: mesh(p, "odeint"), MESH),
    *(
        (f"`solve_ivp` {m}, ten bodies", lambda p, m=m: bodies(p, m), BODIES)
        for m in ("RK45", "DOP853", "LSODA")
    ),
    *(
        (f"`solve_ivp` {m}, fifty oscillators", lambda p, m=m: oscillators(p, m), OSCILLATORS)
        for m in ("RK45", "LSODA", "BDF")
    ),
    ("`odeint`, fifty oscillators", lambda p: oscillators(p, "odeint"), OSCILLATORS),
    *(
        (f"`solve_ivp` {m}, two species, 12 × 12 cells", lambda p, m=m: species(p, m), SPECIES)
        for m in ("RK45", "LSODA", "BDF")
    ),
    *(
        (f"`solve_ivp` {m}, a network", lambda p, m=m: network(p, m), NETWORK)
        for m in ("RK45", "LSODA")
    ),
    ("`odeint`, a network", lambda p: network(p, "odeint"), NETWORK),
    ("`solve_ivp` RK45, three bounces", bounces, {"height": 2.0, "drag": 0.1, "rest": 0.8}),
    ("`odeint`, a pendulum", pendulum, PARTS),
    ("`odeint` with `interp1d`", driven, {"c": 4.0, "forcing": np.sin(np.arange(41.0))}),
    ("`odeint`, twenty cells", cells, CHAIN),
    ("`ode`, dopri5", by_class, PARTS),
    ("`ode`, dopri5, twenty cells", cells_by_class, CHAIN),
    ("`solve_bvp`", boundary, 1.0),
    ("`quad`", lambda p: integrate.quad(lambda x: np.exp(-p * x) * np.sin(x), 0.0, 3.0)[0], 0.7),
    (
        "`quad`, a sum of 1,000 terms",
        lambda p: integrate.quad(lambda x: many_terms(x, p), 0.0, 3.0)[0],
        0.7,
    ),
    ("`brentq`", lambda p: optimize.brentq(lambda x: x * np.exp(x) - p, 0.0, 3.0), 2.0),
    (
        "`brentq`, a sum of 1,000 terms",
        lambda p: optimize.brentq(lambda x: many_terms(x, p), 0.0, 1.0),
        0.7,
    ),
    ("`newton`", lambda p: optimize.newton(lambda x: x * np.exp(x) - p, 1.0), 2.0),
    ("`fsolve`", system, np.array([0.7, 0.4])),
    ("`fsolve`, twenty equations", many_equations, np.array([2.0, 1.5])),
    ("`fsolve`, fifty equations", lambda p: many_equations(p, 50), np.array([2.0, 1.5])),
    ("`root`", rooted, np.array([0.7, 0.4])),
    ("`minimize` BFGS", lambda p: valley(p, "BFGS"), 0.7),
    ("`minimize` Nelder-Mead", lambda p: valley(p, "Nelder-Mead"), 0.7),
    ("`minimize` SLSQP, two constraints", lambda p: confined(p, "SLSQP"), 1.2),
    ("`minimize` trust-constr, two constraints", lambda p: confined(p, "trust-constr"), 1.2),
    ("`least_squares`", least, Y),
    ("`least_squares`, 1,000 points", many_least, MANY_Y),
    ("`curve_fit`", fitted, Y),
    ("`curve_fit`, 1,000 points", many_fitted, MANY_Y),
]


def row(name: str, f: Callable, at: object, rounds: int, clock: Clock) -> tuple[str, ...]:
    calls: dict[str, Callable[[], object]] = {
        "plain": lambda: f(at),
        "value": lambda: ct.pullback(f, at),
        "gradient": lambda: ct.value_and_gradient(f, at),
    }
    try:
        calls["gradient"]()
    except ct.NotDifferentiableError:
        plain = time_together({"plain": calls["plain"]}, rounds, clock=clock)["plain"]
        return (name, str(plain), "refused", "refused", "")
    times = time_together(calls, rounds, clock=clock)
    plain = times["plain"]
    ratio = times["gradient"].median / plain.median
    return (name, str(plain), str(times["value"]), str(times["gradient"]), f"{ratio:.1f}")


def calibration(rounds: int, clock: Clock, method: str) -> list[tuple[str, ...]]:
    truth = {"birth": 1.1, "hunt": 0.4, "feed": 0.1, "death": 0.4, "lynxes": 5.0}
    data = simulated(truth) + 0.1 * np.random.default_rng(0).standard_normal((2, 31))
    numbers, unravel = ct.ravel(RATES)

    def residuals(p):
        return (simulated(p, method) - data) / 0.1

    def flat(v):
        return np.ravel(residuals(unravel(v)))

    def by_scipy(**options):
        return optimize.least_squares(flat, numbers, bounds=(0.0, 20.0), **options)

    calls: dict[str, Callable[[], object]] = {
        "SciPy, `2-point` differences": by_scipy,
        "SciPy, `3-point` differences": lambda: by_scipy(jac="3-point"),
        "SciPy, `jac=ct.jacfwd(residuals)`": lambda: by_scipy(jac=ct.jacfwd(flat)),
        "`ct.optimize.least_squares`": lambda: ct.optimize.least_squares(
            residuals, RATES, bounds=(0.0, 20.0)
        ),
    }
    evaluations = {name: call().nfev for name, call in calls.items()}
    times: dict[str, Timing] = time_together(calls, rounds, clock=clock)
    base = times["SciPy, `2-point` differences"].median
    return [
        (method, name, str(t), str(evaluations[name]), f"{base / t.median:.2f}")
        for name, t in times.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="rows whose name has this text in it")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables there too")
    parser.add_argument("--cpu", action="store_true", help="time of the processor, of all threads")
    options = parser.parse_args()
    clock = time.process_time if options.cpu else time.perf_counter
    rows = []
    for name, f, at in CASES:
        if options.only in name:
            rows.append(row(name, f, at, options.rounds, clock))
            print(*rows[-1], sep=" | ", flush=True)
    head = ("problem", "plain", "value under a gradient", "value and gradient", "ratio")
    text = f"`benches/python/solvers.py`. {machine()}.\n\n{table(head, rows)}"
    if options.only in "calibration":
        head = ("method", "calibration of five parameters", "time", "evaluations", "times as fast")
        found = []
        for method in ("RK45", "LSODA"):
            found += calibration(options.rounds, clock, method)
        text += f"\n\n{table(head, found)}"
    print(f"\n{text}")
    if options.markdown:
        write_section(options.markdown, "solvers", f"### Solvers of SciPy\n\n{text}")


if __name__ == "__main__":
    main()
