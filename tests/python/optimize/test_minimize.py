"""`optimize.minimize`: every method over structures, against SciPy's own search for a vector."""

import pickle
import warnings
from dataclasses import dataclass

import numpy as np
import pytest
import scipy.optimize

import cotan as ct
from cotan.optimize import Progress, minimize


@dataclass
class Model:
    w: np.ndarray
    b: float
    n: int = 3
    name: str = "model"


X0 = Model(np.array([0.3, -0.5]), 5.0)
METHODS = [
    *(None, "BFGS", "CG", "L-BFGS-B", "TNC", "SLSQP", "Newton-CG", "trust-ncg", "trust-krylov"),
    *("trust-constr", "dogleg", "trust-exact", "nelder-mead", "powell", "cobyla", "cobyqa"),
]


def convex(p, t=1.0):
    return np.sum((p.w - 1.0) ** 4) + (p.b - t) ** 2 * (1 + np.sum(p.w**2)) + np.sum(p.w**2)


def as_vector(f):
    return lambda v, *args: f(Model(v[:2], v[2]), *args)


@pytest.fixture(scope="module")
def minimum():
    found = scipy.optimize.minimize(
        as_vector(convex), [0.3, -0.5, 5.0], args=(2.0,), method="nelder-mead", tol=1e-10,
        options={"maxiter": 2000},
    )  # fmt: skip
    return found.x


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_every_method(method, minimum):
    found = minimize(convex, X0, args=(2.0,), method=method)
    assert found.success
    assert type(found.x) is Model and (found.x.n, found.x.name) == (3, "model")
    assert type(found.x.b) is float
    np.testing.assert_allclose([*found.x.w, found.x.b], minimum, atol=2e-3)
    assert found.fun == pytest.approx(convex(found.x, 2.0))
    gradient = found.get("grad", found.get("jac"))
    if gradient is not None:
        (expected,) = ct.gradient(lambda p: convex(p, 2.0), found.x)
        assert type(gradient) is ct.Tangent and gradient.n is None
        # These report the gradient of the step before.
        atol = 5e-3 if method in {"SLSQP", "Newton-CG"} else 1e-12
        np.testing.assert_allclose(gradient.w, expected.w, atol=atol)
        assert gradient.b == pytest.approx(expected.b, abs=atol)
    assert pickle.loads(pickle.dumps(found.x)) is not found.x


@pytest.mark.parametrize("method", ["Newton-CG", "trust-exact", "trust-constr"])
def test_second_derivatives_are_exact(method):
    # A method that has the Hessian of a quadratic function is there in a few steps.
    found = minimize(
        lambda p: np.sum(np.arange(1.0, 4.0) * (p["a"] - 2) ** 2) + p["b"] ** 2,
        {"a": np.zeros(3), "b": 7.0}, method=method,
    )  # fmt: skip
    assert found.nit <= 8
    np.testing.assert_allclose(found.x["a"], 2.0, atol=1e-6)


def test_leaves_keep_their_dtypes():
    x0 = {"a": np.zeros(2, np.float32), "b": np.float16(1.0), "c": ct.array([1.0]), "d": 0.5}
    found = minimize(
        lambda p: np.sum((p["a"] - 1) ** 2) + p["b"] ** 2 + np.sum(p["c"] ** 2) + p["d"] ** 2, x0
    )
    assert found.x["a"].dtype == np.float32
    assert type(found.x["b"]) is np.float16
    assert isinstance(found.x["c"], ct.Array)
    assert type(found.x["d"]) is float
    np.testing.assert_allclose(found.x["a"], 1.0, atol=1e-3)


def test_constant_parts_stay():
    x0 = [{"w": ct.const(np.array([2.0])), "b": 1.0}]
    found = minimize(lambda p: (p[0]["b"] - p[0]["w"][0]) ** 2, x0)
    assert found.x[0]["b"] == pytest.approx(2.0, abs=1e-6)
    assert found.x[0]["w"].value[0] == 2.0
    assert found.jac[0]["w"] is None


def test_integers_as_starting_points():
    for x0 in (3, np.array([3, 4]), [3, 4.0], np.int64(3)):
        found = minimize(lambda x: np.sum((np.array(x) - 0.5) ** 2), x0)
        np.testing.assert_allclose(found.x, 0.5, atol=1e-6)


def test_complex_unknowns():
    found = minimize(lambda z: abs(z["z"] ** 2 - (1 + 1j)) ** 2, {"z": 1.0 + 0j}, tol=1e-10)
    assert found.x["z"] ** 2 == pytest.approx(1 + 1j)
    with pytest.raises(ValueError, match="complex unknowns have no order"):
        minimize(lambda z: abs(z) ** 2, 1j, bounds=(0, 1))


# --------------------------------------------------------------------------------------------------
# Bounds and constraints


@pytest.mark.parametrize(
    "bounds",
    [
        {"w": (0.0, 0.5), "b": (None, -1.0)},
        {"w": ([0.0, -np.inf], np.array([0.5, 0.5])), "b": (-np.inf, -1.0)},
        {"w": scipy.optimize.Bounds(0.0, 0.5), "b": (-5.0, -1.0)},
        scipy.optimize.Bounds([0.0, 0.0, -np.inf], [0.5, 0.5, -1.0]),
    ],
    ids=["pairs", "arrays", "objects", "SciPy"],
)
@pytest.mark.parametrize("method", [None, "trust-constr", "nelder-mead"], ids=str)
def test_bounds(bounds, method):
    found = minimize(
        lambda p: np.sum((p["w"] - 1) ** 2) + (p["b"] + 0.5) ** 2,
        {"w": np.full(2, 0.2), "b": -2.0}, bounds=bounds, method=method, tol=1e-8,
    )  # fmt: skip
    np.testing.assert_allclose(found.x["w"], 0.5, atol=1e-3)
    assert found.x["b"] == pytest.approx(-1.0, abs=1e-3)


def test_pairs_for_the_elements_of_a_vector():
    found = minimize(
        lambda x: np.sum((x - 1) ** 2), np.zeros(3), bounds=[(0, 0.5), None, (2, None)]
    )
    np.testing.assert_allclose(found.x, [0.5, 1.0, 2.0], atol=1e-6)


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({"w": (0, np.ones(3))}, r"x0\.w has shape \(2,\)"),
        ({"v": (0, 1)}, "x0 has no 'v'; it has: w, b"),
        ({"w": 3.0}, r"bounds of x0\.w must be a pair \(low, high\) or None, not 3\.0"),
        (scipy.optimize.Bounds(np.zeros(2), np.ones(2)), "has 3 numbers"),
    ],
    ids=str,
)
def test_bounds_that_do_not_fit(bounds, message):
    with pytest.raises(ValueError, match=message):
        minimize(lambda p: p["b"], {"w": np.zeros(2), "b": 1.0}, bounds=bounds)


def limits(p):
    return {"s": p.b - p.w[0], "q": p.w[0] * p.w[1]}


@pytest.mark.parametrize("method", ["SLSQP", "trust-constr", "cobyla", "cobyqa"])
def test_constraints(method):
    constraint = scipy.optimize.NonlinearConstraint(
        limits, {"s": 0.5, "q": -1.0}, {"s": 0.5, "q": 0.1}
    )
    with warnings.catch_warnings():
        # It advises against one object with equations and inequalities.
        warnings.simplefilter("ignore", scipy.optimize.OptimizeWarning)
        found = minimize(convex, X0, method=method, constraints=constraint)
    expected = scipy.optimize.minimize(
        as_vector(convex), [0.3, -0.5, 5.0], method="SLSQP", tol=1e-12, constraints=[
            {"type": "eq", "fun": lambda v: v[2] - v[0] - 0.5},
            {"type": "ineq", "fun": lambda v: 0.1 - v[0] * v[1]},
            {"type": "ineq", "fun": lambda v: v[0] * v[1] + 1.0},
        ],
    )  # fmt: skip
    np.testing.assert_allclose([*found.x.w, found.x.b], expected.x, atol=5e-3)


def test_dictionaries_and_matrices_as_constraints():
    equal = {"type": "eq", "fun": lambda p, k: p.b - k * p.w[1], "args": (3.0,)}
    found = minimize(convex, X0, constraints=equal)
    assert found.x.b == pytest.approx(3 * found.x.w[1])
    same = scipy.optimize.LinearConstraint([[0.0, -3.0, 1.0]], 0.0, 0.0)
    again = minimize(convex, X0, constraints=[same])
    np.testing.assert_allclose(again.x.w, found.x.w, atol=1e-4)


def test_constraints_that_are_none():
    with pytest.raises(TypeError, match="must be a LinearConstraint"):
        minimize(convex, X0, constraints=[3.0])
    with pytest.raises(ValueError, match="leave out jac"):
        minimize(convex, X0, constraints={"type": "eq", "fun": limits, "jac": limits})


# --------------------------------------------------------------------------------------------------
# Preparing, and what the user's functions see


def test_the_objective_is_recorded_once():
    calls = []

    class Counted:
        def __call__(self, p):
            return convex(p)

    def f(p):
        calls.append(0)
        return convex(p)

    found = minimize(Counted(), X0, explain=True)
    assert found.explanation == f"prepared: {found.nfev} calls, of which 1 were recorded"
    plain = minimize(f, X0, explain=True)
    assert plain.explanation.startswith("not prepared: prepare: the function changes closure")
    # The call that was recorded in vain was taken back.
    assert len(calls) == plain.nfev == found.nfev
    np.testing.assert_array_equal(plain.x.w, found.x.w)
    assert "explanation" not in minimize(convex, X0)


def test_branches_are_taken_as_they_are():
    def f(x):
        return (x - 1) ** 2 if x > 0 else 1 - 2 * x + x**3 * 0

    found = minimize(f, -5.0, explain=True)
    assert found.x == pytest.approx(1.0, abs=1e-6)


def test_a_function_that_takes_another_way_each_time_is_not_prepared_on():
    def f(p):
        valley = 100 * (p[1] - p[0] ** 2) ** 2 + (p[0] - 1) ** 2
        return valley + 0.0 * int(p[0] * 1e9)

    found = minimize(f, [-1.0, 0.5], explain=True)
    assert found.x == pytest.approx([1.0, 1.0], abs=1e-3)
    assert found.explanation.startswith("no longer prepared: ")


def test_what_changes_outside_is_seen():
    data = {"t": np.array([1.0])}

    def method(fun, x0, args, jac, hessp, **options):
        found = []
        # SciPy remembers the value at the last place, so each is another.
        for t, x in ((1.0, np.array([2.0])), (3.0, np.array([1.0])), (3.0, np.array([2.0]))):
            data["t"] = np.array([t])
            found.append((fun(x), jac(x)[0], hessp(x, np.ones(1))[0]))
        return scipy.optimize.OptimizeResult(x=x0, found=found)

    result = minimize(
        lambda p: np.sum(p["x"] ** 3 * data["t"]), {"x": 2.0}, method=method, explain=True
    )
    assert result.found == [(8.0, 12.0, 12.0), (3.0, 9.0, 18.0), (24.0, 36.0, 36.0)]
    assert result.explanation.startswith("prepared: 3 calls")


@pytest.mark.parametrize("method", [m for m in METHODS if m != "dogleg"], ids=str)
def test_callbacks_get_structures(method):
    seen, told = [], []
    minimize(
        convex, X0, method=method, callback=seen.append,
        progress=told.append, options={"maxiter": 3} if method not in {"TNC", "cobyla"} else None,
    )  # fmt: skip
    assert seen and all(type(x) is Model for x in seen)
    assert len(told) == len(seen)
    assert [p.iteration for p in told] == list(range(1, len(told) + 1))
    for p, x in zip(told, seen, strict=True):
        assert p.value is None or p.value == pytest.approx(convex(x))


def test_reports_and_the_end_of_a_search():
    def stop(intermediate_result):
        assert type(intermediate_result.x) is Model
        assert intermediate_result.fun == pytest.approx(convex(intermediate_result.x))
        raise StopIteration

    found = minimize(convex, X0, callback=stop)
    assert not found.success and found.nit == 1


def test_progress_is_printed(capsys):
    minimize(convex, X0, progress=True)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("iteration 1: value ") and "largest slope" in lines[0]
    assert str(Progress(2, None, None)) == "iteration 2"


# --------------------------------------------------------------------------------------------------
# Inside a recording


@pytest.mark.parametrize("method", [None, "trust-constr", "Newton-CG"], ids=str)
@pytest.mark.parametrize("passed", [True, False], ids=["args", "captured"])
def test_derivatives_of_the_minimum(method, passed):
    def outer(t):
        if passed:
            found = minimize(convex, X0, args=(t,), method=method, tol=1e-10)
        else:
            found = minimize(lambda p: convex(p, t), X0, method=method, tol=1e-10)
        return np.sum(found.x.w) * found.x.b + found.fun

    (slope,) = ct.gradient(outer, 2.0)
    assert slope == pytest.approx((outer(2 + 1e-4) - outer(2 - 1e-4)) / 2e-4, rel=1e-3)


def test_derivatives_under_bounds():
    def outer(t):
        found = minimize(
            lambda p: np.sum((p["a"] - t) ** 2) + (p["b"] - p["a"][0]) ** 2,
            {"a": np.zeros(2), "b": 0.1}, bounds={"a": (None, np.array([0.5, 9.0]))}, tol=1e-10,
        )  # fmt: skip
        return np.sum(found.x["a"]) + found.x["b"]

    assert ct.gradient(outer, 2.0)[0] == pytest.approx(1.0, abs=1e-6)


# --------------------------------------------------------------------------------------------------
# Errors


@pytest.mark.parametrize("x0", ["a", None, {"n": True}, np.array([True])], ids=repr)
def test_nothing_to_vary(x0):
    with pytest.raises(TypeError, match="optimize.minimize: x0 has no float or complex"):
        minimize(lambda x: 1.0, x0)


def test_errors_of_the_objective_arrive():
    with pytest.raises(ValueError, match=r"must return a number, not an array of shape \(2,\)"):
        minimize(lambda x: x, np.ones(2))
    with pytest.raises(TypeError, match="unsupported operand") as caught:
        minimize(lambda x: x - 1, [1.0, 2.0])
    assert caught.value.__context__ is None
    with pytest.raises(ZeroDivisionError):
        minimize(lambda x: x / (1 // 0), 1.0)


def test_flat_functions_end_at_once():
    assert minimize(lambda x: 3.0, {"a": 1.0}).x == {"a": 1.0}


def test_integers_count_as_for_gradients():
    @dataclass
    class Point:
        a: float
        b: object
        n: int

    def f(p):
        return (p.a - 3) ** 2 + (p.b - 5) ** 2 + p.n

    found = ct.optimize.minimize(f, Point(1, 2.0, 7)).x
    assert (round(found.a, 6), round(found.b, 6), found.n) == (3.0, 5.0, 7)
    assert ct.optimize.minimize(lambda d: (d["n"] - 3) ** 2, {"n": 1}).x == {
        "n": pytest.approx(3.0)
    }
