"""Keywords of `prepare`, and arguments by keyword of what it makes: as `gradient` takes them."""

import pickle

import numpy as np
import pytest

import cotan as ct

X = np.array([1.0, 2.0, 3.0])


def weighted(x, w=1.0, *, power=2, mode="sum"):
    y = w * x**power
    return np.sum(y) if mode == "sum" else np.mean(y)


CALLS = [
    ((X,), {}),
    ((X,), {"w": 2.0}),
    ((X,), {"w": np.array([1.0, 0.0, 2.0])}),
    ((X,), {"power": 3, "mode": "mean"}),
    ((X, 4.0), {"power": 3}),
    ((), {"x": X, "w": 2.0}),
]


@pytest.mark.parametrize(("args", "kwargs"), CALLS[:-1])
@pytest.mark.parametrize("transform", ["gradient", "value_and_gradient"])
def test_results_are_those_of_the_direct_form(transform, args, kwargs):
    prepared = ct.prepare(weighted, transform=transform)
    expected = getattr(ct, transform)(weighted, *args, **kwargs)
    for _ in range(3):
        result = prepared(*args, **kwargs)
        assert ct.tree_structure(result) == ct.tree_structure(expected)
        for leaf, right in zip(ct.tree_leaves(result), ct.tree_leaves(expected), strict=True):
            assert np.allclose(leaf, right)
    assert prepared.num_recordings == 1


@pytest.mark.parametrize(("args", "kwargs"), CALLS)
def test_values(args, kwargs):
    prepared = ct.prepare(weighted, transform="value")
    for _ in range(3):
        assert prepared(*args, **kwargs) == pytest.approx(weighted(*args, **kwargs))
    assert prepared.num_recordings == 1


def test_calls_of_both_kinds_keep_apart():
    prepared = ct.prepare(weighted)
    w = np.array([1.0, 0.0, 2.0])
    for _ in range(2):
        assert np.allclose(prepared(X, w=w)[0], 2 * w * X)
        by_position = prepared(X, w)
        assert np.allclose(by_position[0], 2 * w * X)
        assert np.allclose(by_position[1], X**2)
        assert np.allclose(prepared(X)[0], 2 * X)
        assert np.allclose(prepared(X, w=2 * w)[0], 4 * w * X)
    assert prepared.num_recordings == 3
    # A dictionary by position is none of keywords.
    with pytest.raises(TypeError):
        prepared(X, {"w": w}, "x")


def test_what_is_given_by_keyword_is_read_at_each_call():
    prepared = ct.prepare(weighted)
    w = np.ones(3)
    for factor in (1.0, 2.0, 5.0):
        w[:] = factor
        assert np.allclose(prepared(X, w=w)[0], 2 * factor * X)
    assert prepared.num_recordings == 1
    assert np.allclose(prepared(X, w=np.float32(2))[0], 4 * X)
    assert np.allclose(prepared(X, w=3)[0], 6 * X)


def test_structures_by_keyword():
    def f(x, options):
        return np.sum(x * options["scale"]) if options["on"] else np.sum(x)

    prepared = ct.prepare(f)
    for scale, on in ((X, True), (2 * X, True), (X, False)):
        expected = ct.gradient(f, X, options={"scale": scale, "on": on})
        assert np.allclose(prepared(X, options={"scale": scale, "on": on})[0], expected[0])
    assert prepared.num_recordings == 2


def test_the_report_says_what_was_given_by_keyword():
    prepared = ct.prepare(weighted)
    prepared(X, w=1.0)
    prepared(X, w=2.0)
    report = prepared.explain()
    assert report.num_recordings == 2
    assert "keywords" in str(report.recordings[1].reason)
    prepared.clear()
    assert prepared.num_recordings == 0


def test_buffers_for_results():
    buffer = np.zeros(3)
    prepared = ct.prepare(weighted)
    (dx,) = prepared(X, w=2.0, out=(buffer,))
    assert dx is buffer
    assert np.allclose(buffer, 4 * X)


def test_inside_another_gradient():
    prepared = ct.prepare(weighted, transform="value")
    assert np.allclose(ct.gradient(lambda x: prepared(x, w=2.0), X)[0], 4 * X)
    dw = ct.gradient(lambda w: prepared(X, w=w), np.ones(3))[0]
    assert np.allclose(dw, X**2)


def test_non_finite_values_are_found():
    prepared = ct.prepare(lambda x, shift=0.0: np.sum(np.log(x + shift)))
    with ct.detect(), pytest.raises(FloatingPointError):
        prepared(np.array([1.0, 2.0]), shift=-1.0)


def test_a_pullback_takes_arguments_by_position():
    prepared = ct.prepare(weighted, transform="pullback")
    with pytest.raises(TypeError, match=r"prepare: .* by keyword; pass them by position"):
        prepared(X, w=2.0)


@pytest.mark.parametrize("wrong", [{"z": 1.0}, {"x": X}])
def test_what_the_function_does_not_take(wrong):
    with pytest.raises(TypeError, match=next(iter(wrong))):
        ct.prepare(weighted)(X, **wrong)


def test_argnums_and_allow_int():
    f = lambda x, i, w: np.sum(w * x[i])
    i, w = np.array([0, 2]), np.ones(2)
    for keywords in ({"argnums": 0}, {"argnums": (0, 2)}, {"allow_int": True}, {"wrt": (0, 2)}):
        prepared, expected = ct.prepare(f, **keywords), ct.gradient(f, X, i, w, **keywords)
        for _ in range(2):
            result = prepared(X, i, w)
            assert [g is None for g in result] == [g is None for g in expected]
            for dx, right in zip(result, expected, strict=True):
                assert dx is None or np.allclose(dx, right)
        assert prepared.num_recordings == 1
    with pytest.raises(TypeError, match="give wrt or argnums, not both"):
        ct.prepare(f, wrt=0, argnums=0)
    with pytest.raises(ct.NotDifferentiableError, match="allow_int=True"):
        ct.prepare(f)(X, i, w)
    with pytest.raises(TypeError, match="cannot be combined with transform='hvp'"):
        ct.prepare(f, transform="hvp", allow_int=True)


def test_what_is_pickled_keeps_its_keywords():
    prepared = pickle.loads(pickle.dumps(ct.prepare(weighted, argnums=0, allow_int=True)))
    assert np.allclose(prepared(X, w=2.0)[0], 4 * X)
    assert prepared(X, 2)[1] is None


@pytest.mark.parametrize("transform", ["gradient", "value_and_gradient"])
def test_what_is_asked_for_beside_arguments_by_keyword(transform):
    f, direct = lambda x, y: np.sum(x * y), getattr(ct, transform)
    for keywords in ({"argnums": 1}, {"wrt": "y"}, {"argnums": (0, 1)}):
        with pytest.raises(ValueError, match="there is no argument|matches nothing"):
            direct(f, X, y=X, **keywords)
        with pytest.raises(ValueError, match="there is no argument|matches nothing"):
            ct.prepare(f, transform=transform, **keywords)(X, y=X)
    for keywords in ({"argnums": -1}, {"wrt": "x"}, {"argnums": 0}):
        prepared = ct.prepare(f, transform=transform, **keywords)
        for factor in (1.0, 2.0):
            result, expected = prepared(X, y=factor * X), direct(f, X, y=factor * X, **keywords)
            for leaf, right in zip(ct.tree_leaves(result), ct.tree_leaves(expected), strict=True):
                assert np.allclose(leaf, right)
