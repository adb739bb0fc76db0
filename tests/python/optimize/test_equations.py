"""`optimize.least_squares`, `curve_fit` and `root` over structures, with exact Jacobians."""

from dataclasses import dataclass

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize

import cotan as ct
from cotan.optimize import curve_fit, least_squares, minimize, root

T = np.linspace(0.0, 2.0, 30)
NOISE = 0.05 * np.sin(37 * T)


@dataclass
class Decay:
    a: float
    rate: np.ndarray
    unit: str = "s"

    def at(self, t):
        return self.a * np.exp(-self.rate[0] * t) + self.rate[1]


Y = Decay(3.0, np.array([2.0, 1.0])).at(T) + NOISE


def residuals(p, y=Y):
    return p.at(T) - y


START = Decay(1.0, np.array([1.0, 0.0]))


@pytest.fixture(scope="module")
def reference():
    return scipy.optimize.least_squares(
        lambda v: v[0] * np.exp(-v[1] * T) + v[2] - Y, np.array([1.0, 1.0, 0.0]), jac="3-point"
    )


@pytest.mark.parametrize("method", ["trf", "dogbox", "lm"])
def test_a_fit(method, reference):
    found = least_squares(residuals, START, method=method, explain=True)
    assert found.success and type(found.x) is Decay and found.x.unit == "s"
    np.testing.assert_allclose([found.x.a, *found.x.rate], reference.x, rtol=1e-5)
    np.testing.assert_allclose(found.jac, reference.jac, atol=1e-5)
    np.testing.assert_allclose(found.fun, residuals(found.x), atol=1e-12)
    assert type(found.grad) is ct.Tangent and found.grad.unit is None
    assert found.explanation.endswith("of which 1 were recorded")


def test_arguments():
    found = least_squares(lambda p, y, shift=0.0: p.at(T) - y - shift, START, (Y,))
    moved = least_squares(lambda p, y, shift=0.0: p.at(T) - y - shift, START, Y, {"shift": 1.0})
    assert moved.x.rate[1] == pytest.approx(found.x.rate[1] + 1.0)


def test_residuals_of_any_structure():
    found = least_squares(
        lambda p: {"a": (p["x"] - 1.0) * np.ones((2, 2)), "b": [p["y"] - 2.0, 3]},
        {"x": 0.0, "y": np.zeros(3)},
    )
    assert found.x["x"] == pytest.approx(1.0)
    np.testing.assert_allclose(found.x["y"], 2.0)
    assert found.fun["a"].shape == (2, 2) and found.fun["b"][0].shape == (3,)
    assert found.jac.shape == (4 + 3 + 1, 4)


@pytest.mark.parametrize(
    "bounds",
    [
        ({"a": 0, "rate": None}, {"a": 2.5, "rate": np.array([5.0, 0.5])}),
        scipy.optimize.Bounds([0.0, -9.0, -9.0], [2.5, 5.0, 0.5]),
    ],
    ids=["structures", "SciPy"],
)
def test_bounds(bounds):
    found = least_squares(residuals, START, bounds=bounds)
    expected = scipy.optimize.least_squares(
        lambda v: v[0] * np.exp(-v[1] * T) + v[2] - Y, np.array([1.0, 1.0, 0.0]),
        bounds=([0, -np.inf, -np.inf], [2.5, 5.0, 0.5]),
    )  # fmt: skip
    np.testing.assert_allclose([found.x.a, *found.x.rate], expected.x, rtol=1e-4)


def test_options_of_scipy():
    seen = []
    found = least_squares(
        residuals, START, loss="huber", f_scale=0.1, x_scale={"a": 2.0, "rate": 1.0},
        callback=seen.append, bounds=(-10, 10.0),
    )  # fmt: skip
    assert found.success and type(seen[0]) is Decay
    assert least_squares(residuals, START, x_scale="jac").success


def test_many_residuals_of_few_unknowns_and_the_other_way_round():
    t = np.linspace(0, 1, 2000)
    found = least_squares(lambda p: p["a"] * t + p["b"] - 3 * t, {"a": 0.0, "b": 1.0})
    assert found.x["a"] == pytest.approx(3.0) and found.jac.shape == (2000, 2)
    wide = least_squares(lambda p: [np.sum(p) - 4.0], np.zeros(300))
    np.testing.assert_allclose(wide.x, 4.0 / 300)


def test_complex_residuals():
    found = least_squares(lambda z: z**2 - (1 + 1j), 1.0 + 0j)
    assert found.x**2 == pytest.approx(1 + 1j)
    assert isinstance(found.fun, complex)


def decay_by_steps(p):
    solution = scipy.integrate.solve_ivp(
        lambda t, y, p: -p["rate"] * y, (0.0, 2.0), np.array([p["a"]]), t_eval=T, args=(p,),
        rtol=1e-8, atol=1e-10,
    )  # fmt: skip
    return solution.y[0]


def test_functions_that_call_a_solver_are_not_prepared():
    y = 3.0 * np.exp(-2.0 * T)
    start = {"a": 1.0, "rate": 1.0}
    found = least_squares(lambda p: decay_by_steps(p) - y, start, explain=True)
    assert found.explanation.startswith("not prepared: prepare: solve_ivp reads values, so each")
    np.testing.assert_allclose(list(found.x.values()), [3.0, 2.0], rtol=1e-6)
    least = minimize(lambda p: np.sum((decay_by_steps(p) - y) ** 2), start, explain=True)
    assert least.explanation == found.explanation
    # Elsewhere a solver is called again by replays, as before.
    loss = ct.prepare(lambda p: np.sum(decay_by_steps(p)), start)
    assert loss.num_recordings == 1


def test_derivatives_of_a_fit():
    def outer(s):
        found = least_squares(lambda p: residuals(p, Y * s), START, xtol=1e-14, ftol=1e-14)
        return found.x.rate[0] * found.x.a

    slope = (outer(1 + 1e-4) - outer(1 - 1e-4)) / 2e-4
    assert ct.gradient(outer, 1.0)[0] == pytest.approx(slope, rel=1e-4)


# --------------------------------------------------------------------------------------------------
# Roots


def crossing(p, radius=2.0):
    return {"circle": p["x"] ** 2 + p["y"] ** 2 - radius, "line": p["x"] - 2 * p["y"]}


@pytest.mark.parametrize("method", ["hybr", "lm", "broyden1", "krylov", "df-sane"])
def test_roots(method):
    found = root(crossing, {"x": 1.0, "y": 0.5}, method=method, explain=True)
    assert found.success
    assert found.x["y"] == pytest.approx(np.sqrt(2 / 5), abs=1e-4)
    assert found.fun.keys() == {"circle", "line"}
    wants = method in {"hybr", "lm"}
    assert found.explanation.startswith("prepared" if wants else "no Jacobians were computed")


def test_roots_call_back_with_structures():
    seen = []
    root(crossing, {"x": 1.0, "y": 0.5}, method="krylov", callback=lambda x, f: seen.append((x, f)))
    assert seen[0][0].keys() == {"x", "y"} and seen[0][1].keys() == {"circle", "line"}


def test_complex_roots():
    assert root(lambda z: z**2 + 1, 0.3 + 0.5j).x == pytest.approx(1j)


def test_derivatives_of_a_root():
    slope = ct.gradient(lambda r: root(crossing, {"x": 1.0, "y": 0.5}, (r,)).x["y"], 2.0)[0]
    assert slope == pytest.approx(0.5 / np.sqrt(2.0 * 5), rel=1e-6)


def test_as_many_equations_as_unknowns():
    with pytest.raises(ValueError, match="x0 has 2 numbers and the function returned 1"):
        root(lambda x: x[0], np.ones(2))


# --------------------------------------------------------------------------------------------------
# Fits of curves


def test_parameters_of_any_structure():
    popt, pcov = curve_fit(lambda t, p: p.at(t), T, Y, START)
    expected, covariance = scipy.optimize.curve_fit(
        lambda t, a, k, c: a * np.exp(-k * t) + c, T, Y, [1.0, 1.0, 0.0]
    )
    assert type(popt) is Decay
    np.testing.assert_allclose([popt.a, *popt.rate], expected, rtol=1e-5)
    np.testing.assert_allclose(pcov, covariance, rtol=1e-3)


@pytest.mark.parametrize("p0", [None, [1, 1], (1.0, 1.0), np.ones(2)], ids=repr)
def test_parameters_one_by_one(p0):
    popt, pcov = curve_fit(lambda t, a, k: a * np.exp(-k * t), T, 2 * np.exp(-T), p0)
    np.testing.assert_allclose(popt, [2.0, 1.0])
    assert type(popt) is type(np.ones(2) if p0 is None else p0)
    assert pcov.shape == (2, 2)


def test_several_curves_and_weights():
    def model(x, p):
        return {"line": p["a"] * x["t"], "rows": np.outer(x["t"], p["b"])}

    x = {"t": T}
    y = model(x, {"a": 2.0, "b": np.array([1.0, 3.0])})
    y["line"] = y["line"] + NOISE
    start = {"a": 1.0, "b": np.ones(2)}
    sigma = {"line": np.full(30, 0.1), "rows": np.ones((30, 2))}
    popt, pcov = curve_fit(model, x, y, start, sigma, absolute_sigma=True)
    np.testing.assert_allclose(popt["b"], [1.0, 3.0])
    assert pcov[0, 0] == pytest.approx(0.1**2 / np.sum(T**2))
    errors = ct.ravel(popt)[1](np.sqrt(np.diag(pcov)))
    assert errors["a"] == pytest.approx(0.1 / np.sqrt(np.sum(T**2)))


def test_bounds_and_reports_of_a_curve():
    found = curve_fit(
        lambda t, p: p["a"] * np.exp(-p["k"] * t), T, 2 * np.exp(-T), {"a": 1.0, "k": 0.5},
        bounds=({"a": 0.0, "k": None}, {"a": 1.5, "k": 9.0}), full_output=True,
    )  # fmt: skip
    assert found[0]["a"] == pytest.approx(1.5)
    assert found[2]["nfev"] > 0 and len(found) == 5


def test_derivatives_of_a_curve():
    def outer(s):
        popt, _ = curve_fit(lambda t, p: p.at(t), T, Y * s, START, ftol=1e-14, xtol=1e-14)
        return popt.rate[0] * popt.a

    slope = (outer(1 + 1e-4) - outer(1 - 1e-4)) / 2e-4
    assert ct.gradient(outer, 1.0)[0] == pytest.approx(slope, rel=1e-4)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: least_squares(residuals, START, jac="2-point"), TypeError, "leave out jac"),
        (lambda: least_squares(lambda x: "a", 1.0), ValueError, "returned no numbers, but str"),
        (lambda: least_squares(residuals, START, bounds=3), ValueError, r"\(lower, upper\)"),
        (lambda: curve_fit(lambda t, *p: t, T, Y), ValueError, "give p0"),
        (
            lambda: least_squares(residuals, START, x_scale={"a": np.ones(2)}), ValueError,
            r"x0\.a has shape \(\), so a number",
        ),
    ],
)  # fmt: skip
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()
