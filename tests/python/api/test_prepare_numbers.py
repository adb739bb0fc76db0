"""Numbers that are held constant become inputs of a recording once they change."""

import numpy as np
import pytest

import cotan as ct

X = np.array([0.3, 1.2, 0.7])
TRANSFORMS = ["value", "gradient", "value_and_gradient"]


def loss(x, k=1.0, shift=0.0):
    return np.sum(np.sin(x) * k + shift)


def expected(transform, f, *args, **kwargs):
    return (
        f(*args, **kwargs) if transform == "value" else getattr(ct, transform)(f, *args, **kwargs)
    )


def leaves(result):
    return [np.asarray(leaf) for leaf in ct.tree_leaves(result)]


def expect_equal(result, wanted):
    assert ct.tree_structure(result) == ct.tree_structure(wanted)
    for a, b in zip(leaves(result), leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-14)
        assert a.dtype == b.dtype


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("make", [float, np.float64, np.float32, np.int64, np.uint8])
def test_numbers_by_keyword_are_recorded_twice(transform, make):
    g = ct.prepare(loss, transform=transform)
    for k in (3, 4, 7, 5, 9):
        result = g(X, k=make(k), shift=0.25)
        expect_equal(result, expected(transform, loss, X, k=make(k), shift=0.25))
    assert g.num_recordings == 2
    assert g.explain().recordings[-1].reason.source == "argument keywords.k"


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("make", [float, np.float64, np.int64, np.int8])
def test_constant_numbers_by_position_are_recorded_twice(transform, make):
    g = ct.prepare(loss, X, ct.const(make(3)), transform=transform)
    for k in (3, 4, 7, 5, 9):
        result = g(X, make(k))
        wanted = X if transform == "value" else ct.const(make(k))
        arguments = (X, make(k)) if transform == "value" else (X, wanted)
        expect_equal(result, expected(transform, loss, *arguments))
    assert g.num_recordings == 2


def test_whole_numbers_of_numpy_by_position_are_inputs_of_the_function_itself():
    g = ct.prepare(loss, transform="value")
    for k in (3, 4, 7, 5):
        assert g(X, np.int64(k)) == pytest.approx(loss(X, np.int64(k)), rel=1e-14)
    assert g.num_recordings == 2


def test_numbers_in_structures():
    def f(x, options):
        return np.sum(x * options["scale"] ** 2) + options["more"][1]

    g = ct.prepare(f)
    for scale in (0.3, 0.4, 0.7):
        options = {"scale": scale, "more": (3.0, scale + 1)}
        expect_equal(g(X, options=options), ct.gradient(f, X, options=options))
    assert g.num_recordings == 2


def test_the_dtype_is_that_of_a_number():
    x = X.astype(np.float32)
    g = ct.prepare(lambda x, k: x * k, transform="value")
    for make, dtype in ((float, np.float32), (np.float64, np.float64), (np.int64, np.float64)):
        for k in (3, 4, 5):
            assert g(x, k=make(k)).dtype == dtype == (x * make(k)).dtype


def test_numbers_that_rules_know_have_recordings_of_their_own():
    def power(x, p):
        return np.sum(x**p)

    g = ct.prepare(power, transform="value")
    for p in (3.5, 2.5, 2.0, 0.5, 1.0, -1.0, 0.0, 1.5):
        assert g(X, p=p) == ct.prepare(power, transform="value")(X, p=p)
    assert g.num_recordings == 7


def test_branches_are_guards():
    def f(x, k):
        return np.sum(x * k) if k > 5.0 else np.sum(x**2 * k)

    g = ct.prepare(f)
    for k in (3.0, 4.0, 6.0, 7.0, 3.5, 8.0):
        expect_equal(g(X, k=k), ct.gradient(f, X, k=k))
    assert g.num_recordings == 3


@pytest.mark.parametrize(
    "f",
    [
        lambda x, k: np.sum(x) * {3.0: 1.5, 4.0: 2.5, 7.0: 3.5}[k],
        lambda x, k: np.sum(x) * len(f"{k:.3f}"),
        lambda x, k: np.sum(np.repeat(x, int(k))),
        lambda x, k: np.sum(x) * (2.0 if type(k) is float else np.nan),
    ],
)
def test_what_looks_at_a_number_gets_it_as_it_is(f):
    g = ct.prepare(f)
    for k in (3.0, 4.0, 7.0, 4.0):
        expect_equal(g(X, k=k), ct.gradient(f, X, k=k))


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
    assert g(X, X)[1] is None and g(X, ct.const(X))[1] is None
    assert g.num_recordings == 1
