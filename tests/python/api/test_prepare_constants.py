"""Constant arguments of prepared functions: a call says which, and numbers stay Python's own."""

import numpy as np
import pytest

import cotan as ct

X = np.array([0.3, 1.2, 0.7])
DEFAULT = 7.0


def expect_equal(result, wanted):
    assert ct.tree_structure(result) == ct.tree_structure(wanted)
    for a, b in zip(ct.tree_leaves(result), ct.tree_leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-14)


def test_a_call_says_what_is_constant():
    def f(x, c):
        return np.sum(x * c)

    g = ct.prepare(f)
    c = np.array([1.0, 2.0, 3.0])
    for _ in range(2):
        expect_equal(g(X, ct.const(c)), (c, None))
        expect_equal(g(X, c), (c, X))
        expect_equal(g(X, ct.const(2.5)), (np.full(3, 2.5), None))
        expect_equal(g(X, 2.5), (np.full(3, 2.5), np.sum(X)))
    assert g.num_recordings == 4


def test_an_example_that_is_constant_stays_so():
    g = ct.prepare(lambda x, c: np.sum(x * c), X, ct.const(X))
    assert g(X, X)[1] is None
    assert g(X, ct.const(X))[1] is None
    assert g.num_recordings == 1


def test_why_a_call_with_a_constant_recorded_anew():
    g = ct.prepare(lambda x, c: np.sum(x * c))
    g(X, ct.const(X))
    g(X, X)
    reason = g.explain().recordings[-1].reason
    assert reason.source == "argument c"
    assert "constant" in str(reason)


@pytest.mark.parametrize(
    "f",
    [
        lambda x, k: np.sum(x) * (2.0 if type(k) is float and k > 5 else 1.0),
        lambda x, k: np.sum(x) * {float: 2.0, int: 3.0}.get(type(k), 1.0),
        lambda x, k: np.sum(x) * (2.0 if k is DEFAULT else 1.0),
        lambda x, k: np.sum(x) * abs((k - 4) ** 0.5),
        lambda x, k: np.sum(x) * len(f"{k:.3f}"),
        lambda x, k: np.sum(np.repeat(x, int(k))),
        lambda x, k: np.sum(x * k) if k > 5.0 else np.sum(x**2 * k),
        lambda x, k: np.sum(x ** (2 * k) + x ** (k - 1)),
    ],
)
@pytest.mark.parametrize("transform", ["value", "gradient", "value_and_gradient"])
def test_constant_numbers_are_pythons_own(f, transform):
    prepared = ct.prepare(f, transform=transform)
    plain = f if transform == "value" else lambda *a, **k: getattr(ct, transform)(f, *a, **k)
    for k in (3.0, 4.0, DEFAULT, 5.5, 4.0, 0.25, 1.0, 2.0):
        expect_equal(prepared(X, k=k), plain(X, k=k))


def test_errors_of_constant_numbers_are_pythons_own():
    g = ct.prepare(lambda x, k: np.sum(x) * (7.0 / (k - 3)))
    assert [g(X, k=k)[0][0] for k in (5.0, 4.0)] == [3.5, 7.0]
    with pytest.raises(ZeroDivisionError):
        g(X, k=3.0)


def test_what_is_constant_for_every_value_has_no_gradient():
    f, x = (lambda x: np.sum(np.spacing(x))), np.array([1.0, 4.0])
    assert ct.prepare(f, x)(x) == ct.gradient(f, x) == (None,)
    g = ct.prepare(lambda x: np.sum(np.spacing(x) * x), x)
    for values in (x, 8 * x):
        assert np.array_equal(g(values)[0], np.spacing(values))
    assert g.num_recordings == 1
