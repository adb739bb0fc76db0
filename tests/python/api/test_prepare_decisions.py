"""Prepared functions that take many decisions: which one came out otherwise is found."""

import numpy as np
import pytest

import cotan as ct


def walk(x):
    """As many decisions as elements, in one loop, and one about all of them."""
    total = 0.0
    for i in range(len(x)):
        total = total + (x[i] ** 2 if x[i] > 0 else -3 * x[i])
    if total > 1e6:
        total = total / 2
    return total


def rounded(x):
    """Decisions that are integers and floats, and one that is an array."""
    steps = int(x[0])
    nearest = [int(v) for v in x[1:8]]
    for _ in range(steps):
        x = x * 1.5
    order = np.argsort(x)
    return np.sum(x[order] * np.arange(len(x))) + sum(nearest) * x[1]


@pytest.mark.parametrize("count", [1, 3, 4, 5, 64, 1023, 1024, 1025, 2050])
def test_each_decision_counts(count):
    rng = np.random.default_rng(count)
    x = rng.uniform(0.1, 1.0, count)
    g = ct.prepare(walk, x, transform="value_and_gradient")
    for place in {0, count // 2, count - 1}:
        other = x.copy()
        other[place] = -0.5
        for argument in (x, other, x * 2):
            value, (slope,) = g(argument)
            wanted, (wanted_slope,) = ct.value_and_gradient(walk, argument)
            np.testing.assert_allclose(value, wanted, rtol=1e-13)
            np.testing.assert_allclose(slope, wanted_slope, rtol=1e-13)
    assert g.num_recordings == 1 + len({0, count // 2, count - 1})


def test_the_reason_is_the_decision_that_changed():
    x = np.linspace(0.5, 1.0, 200)
    g = ct.prepare(walk, x)
    g(x)
    x[137] = -1.0
    g(x)
    reason = g.explain().recordings[-1].reason
    assert reason.source.startswith("decision at ")
    assert (reason.old, reason.new) == ("True", "False")
    g(x * 1e5)
    reason = g.explain().recordings[-1].reason
    assert (reason.old, reason.new) == ("False", "True")
    assert len([s for s in g.explain().specializations[0].guards if "decision" in s.source]) >= 1


def test_decisions_of_other_kinds():
    x = np.array([2.0, 0.3, 1.7, 5.1, -2.2, 3.3, 4.9, 0.0, 8.5])
    g = ct.prepare(rounded, x)
    for argument in (x, x + 0.01, x + 1.0, x[::-1] + 2.5, x + 0.01, -x + 9.0):
        np.testing.assert_allclose(g(argument)[0], ct.gradient(rounded, argument)[0], rtol=1e-13)
    assert g.num_recordings >= 3


def test_a_nan_decides_as_it_did():
    def f(x):
        total = 0.0
        for i in range(6):
            total = total + (x[i] if x[i] == x[i] else 1.0)
        return total

    x = np.arange(6.0)
    g = ct.prepare(f, x)
    y = x.copy()
    y[3] = np.nan
    for argument in (x, y, x, y):
        np.testing.assert_array_equal(g(argument)[0], ct.gradient(f, argument)[0])
    assert g.num_recordings == 2


def test_a_loop_of_numbers_beside_a_sum_over_many_is_compiled():
    # With kernels alone each call takes as long as the first ones.
    def f(x, y):
        total = x
        for _ in range(60):
            total = np.sin(total) * 1.1 + x if total > -5 else total
        return total * np.sum(np.tanh(y) ** 2)

    y = np.linspace(-1.0, 1.0, 300)
    g = ct.prepare(f, 0.3, y, transform="value_and_gradient")
    first = g(0.3, y)
    for _ in range(400):
        last = g(0.3, y)
    np.testing.assert_array_equal(last[0], first[0])
    for a, b in zip(last[1], first[1], strict=True):
        np.testing.assert_array_equal(a, b)
    wanted = ct.value_and_gradient(f, 0.3, y)
    np.testing.assert_allclose(last[1][1], wanted[1][1], rtol=1e-12)


def test_the_reason_is_the_first_decision_of_several():
    def f(x):
        total = 0.0
        for i in range(5):
            total = total + (x[i] if x[i] > 0 else 2 * x[i])
        return total * len(np.nonzero(x > 0)[0])

    g = ct.prepare(f, np.ones(5))
    x = np.ones(5)
    x[2] = -1.0
    g(x)
    reason = g.explain().recordings[-1].reason
    assert (reason.old, reason.new) == ("True", "False")
