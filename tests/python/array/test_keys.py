"""Scalars as keys of dictionaries and in sets: by value without a derivative, refused with one."""

import functools
from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cotan as ct

PIECEWISE = {
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "rint": np.rint,
    "round": lambda v: np.round(v, 1),
    "sign": np.sign,
    "floor_divide": lambda v: v // 10,
    "scaled": lambda v: 2.0 * np.floor(v) + 1.0,
    "dropgrad": ct.dropgrad,
    "int": int,
    "compared": lambda v: v > 3,
}
VALUES = st.lists(st.floats(-50, 50), min_size=1, max_size=8)


def grouped(x, key):
    """Sum over groups of the square of their sum."""
    groups = {}
    for v in x:
        groups.setdefault(key(v), []).append(v)
    return sum(sum(group) ** 2 for group in groups.values()), len(groups)


@pytest.mark.parametrize("name", PIECEWISE)
@given(values=VALUES)
def test_groups_are_those_of_plain_code(name, values):
    x, key = np.array(values), PIECEWISE[name]
    plain, count = grouped(x, key)
    counts = []

    def f(x):
        total, n = grouped(x, key)
        counts.append(n)
        return total

    value, (g,) = ct.value_and_gradient(f, x)
    assert counts == [count]
    np.testing.assert_allclose(value, plain)
    keys = [key(v) for v in x]
    want = [2 * sum(v for v, k in zip(x, keys, strict=True) if k == own) for own in keys]
    np.testing.assert_allclose(g, want, rtol=1e-9, atol=1e-9)


@given(values=VALUES)
def test_counters_sets_and_tuples(values):
    x = np.array(values)

    def f(x):
        counter = Counter(np.floor(x / 10))
        signs = {np.sign(v) for v in x}
        pairs = {(np.floor(v), np.sign(v)) for v in x}
        table = defaultdict(float)
        for v in x:
            table[np.floor(v)] += v
        numbers = [sorted(counter.values()), len(signs), len(pairs), len(table)]
        seen.append(numbers)
        return np.sum(x * x)

    seen = []
    f(x)
    ct.gradient(f, x)
    assert seen[0] == seen[1]


def test_keys_equal_the_numbers_that_they_are():
    def f(x):
        table = {1.0: 10.0, (1.0, 2): 20.0, 7: 30.0}
        key = np.floor(x[0])
        assert key in {1, 5} and hash(key) == hash(1.0) == hash(1)
        return (table[key] + table[(key, 2)] + table[np.rint(x[1])]) * x[0]

    x = np.array([1.5, 7.1])
    assert f(x) == 90.0
    assert ct.gradient(f, x)[0].tolist() == [60.0, 0.0]
    assert ct.gradient(lambda x: {2.0: 3.0}[np.floor(x)] * x, 2.5) == (3.0,)


@pytest.mark.parametrize(
    "use",
    [
        lambda v: {v: 1},
        lambda v: {v},
        lambda v: {}.get(v),
        lambda v: Counter([v]),
        lambda v: {(v, 1): 2},
        hash,
        functools.lru_cache(lambda v: v),
        lambda v: {v - np.floor(v): 1},
        lambda v: {np.floor(v) * v: 1},
        lambda v: {np.copysign(v, 1.0): 1},
        lambda v: {np.maximum(v, 0.0): 1},
    ],
)
@pytest.mark.parametrize("x", [2.5, np.array([2.5, 3.5])])
def test_a_key_that_carries_a_derivative_is_refused(use, x):
    def f(x):
        v = x[0] if isinstance(x, np.ndarray) else x
        use(v)
        return v * 1.0

    with pytest.raises(ct.NotDifferentiableError, match=r"hash\(x\).*np\.floor"):
        ct.gradient(f, x)
    # The remedies work.
    f(ct.dropgrad(x))
    ct.gradient(lambda x: f(ct.dropgrad(x)) + np.sum(x), x)


def test_constants_are_keys():
    def f(x, c):
        return {2.5: 3.0}[c[0]] * x

    assert ct.gradient(f, 1.0, ct.const(np.array([2.5])))[0] == 3.0
    assert {ct.array([1.5])[0]: 2}[1.5] == 2


def test_a_cache_of_piecewise_constant_keys():
    calls = []

    @functools.lru_cache
    def table(k):
        calls.append(k)
        return k * 2

    for x in (1.2, 1.7, 1.9):
        assert ct.gradient(lambda x: table(np.floor(x)) * x, x) == (2.0,)
    assert len(calls) == 1


def test_arrays_are_keys_by_identity():
    w = ct.array([1.0, 2.0])
    assert ct.gradient(lambda: np.sum(w * w), wrt=[w])[w].tolist() == [2.0, 4.0]


def test_an_inner_gradient_lets_no_outer_derivative_pass():
    def f(x):
        return ct.gradient(lambda y: {x: 1.0}[x] * y, 2.0)[0] * x

    with pytest.raises(ct.NotDifferentiableError, match="hash"):
        ct.gradient(f, 3.0)

    def g(x):
        return ct.gradient(lambda y: {3.0: 5.0}[np.floor(x)] * y, 2.0)[0] * x

    assert ct.gradient(g, 3.5) == (5.0,)


@pytest.mark.parametrize("transform", ["gradient", "value"])
def test_a_key_is_a_guard_of_prepared_functions(transform):
    def f(x):
        return {1.0: 10.0, 2.0: 20.0, 3.0: 30.0}[np.floor(x)] * x

    def want(x):
        return f(x) if transform == "value" else (10.0 * np.floor(x),)

    prepared = ct.prepare(f, 1.5, transform=transform)
    for x in (1.5, 1.7, 2.5, 3.25, 1.1, 2.9):
        assert prepared(x) == want(x)
    assert prepared.num_recordings == 3
