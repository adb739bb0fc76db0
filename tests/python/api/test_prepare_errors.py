"""Prepared functions of programs that catch errors, and that decide by comparing values."""

import math

import numpy as np
import pytest

import cotan as ct

# An expression, a place where it raises an error, and one where it does not.
RAISING = [
    ("math.log(x)", -1.0, 5.0),
    ("math.log(x)", 0.0, 5.0),
    ("math.log(x, 2)", -1.0, 3.0),
    ("math.log1p(x)", -2.0, 3.0),
    ("math.exp(x)", 1000.0, 2.0),
    ("math.sqrt(x)", -1.0, 2.0),
    ("math.acos(x)", 3.0, 0.5),
    ("math.fmod(3.0, x)", 0.0, 2.0),
    ("math.pow(x, 0.5)", -1.0, 2.0),
    ("math.comb(5, int(x))", -1.0, 2.0),
    ("math.factorial(int(x))", -1.0, 3.0),
    ("[1.0, 2.0][int(x)]", 5.0, 1.0),
    ("int(x * 1e400)", 1.0, 0.0),
]


def catching(expression):
    names = {"math": math}
    exec(
        "def f(x):\n"
        "    try:\n"
        f"        y = {expression} + 0.0 * x\n"
        "    except (ArithmeticError, ValueError, LookupError):\n"
        "        y = 3.0 * x\n"
        "    return y * x\n",
        names,
    )
    return names["f"]


@pytest.mark.parametrize(("expression", "bad", "good"), RAISING)
def test_errors_that_are_caught_are_watched(expression, bad, good):
    f = catching(expression)
    for first, then in ((bad, good), (good, bad)):
        g = ct.prepare(f, first, transform="value_and_gradient")
        for x in (first, then, first):
            assert g(x) == ct.value_and_gradient(f, x)
            assert g(x)[0] == pytest.approx(f(x), rel=1e-14)


@pytest.mark.parametrize(
    ("expression", "x"),
    [("math.pow(x, 400.0)", 10.0), ("math.lgamma(x)", -1.0), ("math.log(x / 0.0001)", -math.inf)],
)
def test_errors_that_cannot_be_told_again_are_refused(expression, x):
    """Infinity is the result of two kinds of errors, and of what is infinite without any."""
    if "gamma" in expression:
        pytest.importorskip("scipy")
    with pytest.raises(TypeError, match="was raised and caught"):
        ct.prepare(catching(expression), x, transform="value_and_gradient")(x)


@pytest.mark.parametrize(
    "is_it",
    [
        lambda x: np.all(np.isclose(x, 1.0)),
        lambda x: np.allclose(x, 1.0),
        lambda x: np.allclose(x, np.ones(2), rtol=0.0, atol=1e-3),
        lambda x: np.array_equal(x, np.ones(2)),
        lambda x: np.array_equal(x, np.array([1.0, np.nan]), equal_nan=True),
        lambda x: np.array_equal(x, np.ones(3)),
        lambda x: np.array_equiv(x, 1.0),
        lambda x: math.isclose(x[0], 1.0),
        lambda x: math.isclose(x[0], 1.0, rel_tol=0.0, abs_tol=1e-3),
        lambda x: np.digitize(x[0], [0.0, 2.0]) == 1,
        lambda x: np.searchsorted([0.0, 2.0], x[0]) == 1,
    ],
)
def test_decisions_by_comparing_values_are_watched(is_it):
    def f(x):
        return np.sum(x * 2) if is_it(x) else np.sum(x * 3)

    near, nan = np.array([1.0, 1.0 + 1e-6]), np.array([1.0, np.nan])
    places = [np.ones(2), near, np.array([3.0, 1.0]), nan]
    g = ct.prepare(f, places[0], transform="value_and_gradient")
    for x in (*places, *places[::-1]):
        value, (slope,) = g(x)
        np.testing.assert_array_equal(value, f(x))
        np.testing.assert_array_equal(slope, np.full(2, 2.0 if is_it(x) else 3.0))


def test_masks_of_what_is_close_are_recorded():
    def f(x):
        return np.sum(np.where(np.isclose(x, 1.0, equal_nan=True), x * 2, x * 3))

    g = ct.prepare(f, np.ones(3))
    np.testing.assert_array_equal(g(np.array([1.0, 2.0, np.inf]))[0], [2.0, 3.0, 3.0])
    assert g.num_recordings == 1
