"""Jacobians and second derivatives that are asked for again and again are replayed, too."""

from pathlib import Path

import numpy as np
import pytest
from automatic_replays import OFTEN, replays

import cotan as ct
from cotan import _core
from cotan._src.state.own_functions import SUBMODULES

POINT = np.linspace(0.5, 1.5, 4)
POINTS = np.sin(np.arange(12.0)).reshape(3, 4) + 1.5
TIMES = np.linspace(0.0, 1.0, 5)
scale = 2.0
held = np.ones(4)


def cost(x):
    return np.sum(scale * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def cubic(x):
    return x**3 * np.sin(x) + x * x * np.cos(x)


def residuals(p):
    return p[0] * np.exp(-p[1] * TIMES) + p[2] - TIMES


def of_two(x, y):
    return np.sum(x**3) * y + np.sum(x) * y**2


def of_held(x):
    return np.sum(held * x**3)


ASKED = [
    lambda: ct.jacobian(residuals, np.array([1.0, 2.0, 0.5])),
    lambda: ct.jacobian(cost, POINT),
    lambda: ct.jacobian(of_two, POINT, 2.0),
    lambda: ct.jacobian(of_two, POINT, 2.0, wrt="y"),
    lambda: ct.jacobian(of_two, POINT, 2.0, argnums=(1, 0)),
    lambda: ct.jacobian(lambda x: {"a": x**2, "b": [np.sum(x), 3.0]}, POINT),
    lambda: ct.jacobian(lambda p: p["x"] * p["y"], {"x": POINT, "y": 2.0}),
    lambda: ct.jacfwd(residuals)(np.array([1.0, 2.0, 0.5])),
    lambda: ct.jacrev(residuals)(np.array([1.0, 2.0, 0.5])),
    lambda: ct.jacfwd(of_two, argnums=1)(POINT, 2.0),
    lambda: ct.hessian(cost, POINT),
    lambda: ct.hessian(of_two, POINT, 2.0),
    lambda: ct.hessian(of_two, POINT, 2.0, wrt=0),
    lambda: ct.hessian(lambda x, y: x**2 * y, 1.0, 3.0),
    lambda: ct.hessian(lambda x: np.sum(x), POINT),
    lambda: ct.hvp(cost, POINT, POINT[::-1]),
    lambda: ct.hvp(of_two, (POINT, 2.0), (np.ones(4), 1.0)),
    lambda: ct.vhp(cost, POINT, np.ones(4)),
    lambda: ct.hvp(cubic, np.array(1.5), np.array(1.0)),
    lambda: ct.hvp(of_two, (POINT, np.array(2.0)), (np.ones(4), np.array(1.0))),
    lambda: ct.hessian(cubic, np.array(1.5)),
    lambda: ct.jacobian(cubic, np.float64(1.5)),
    lambda: ct.jacobian(cost, POINT.astype(np.float32)),
    lambda: ct.hessian(cost, POINT.astype(np.float32)),
    lambda: ct.jacobian(cubic, np.array([1.0 + 2.0j, 0.5]), holomorphic=True),
    lambda: ct.jacobian(of_two, POINT, 2, allow_int=True),
    lambda: ct.hessian(lambda p: np.sum(p[0] ** 2 * p[1]), [POINT, 2.0]),
    lambda: ct.vmap(cubic)(POINT),
    lambda: ct.vmap(of_two, in_axes=(1, 0))(POINTS, POINT),
    lambda: ct.vmap(of_two, in_axes=(None, 0))(POINT, POINT),
    lambda: ct.vmap(ct.grad(of_two), in_axes=(None, 0))(POINT, POINT),
    lambda: ct.vmap(of_two)(POINTS.T, POINT),
    lambda: ct.vmap(ct.value_and_grad(of_two, argnums=(0, 1)))(POINTS.T, POINT),
    lambda: ct.vmap(lambda x: {"a": x**2, "b": [np.sum(np.sin(x)), 3.0], "c": "text"})(POINTS),
    lambda: ct.vmap(ct.grad(cost))(POINTS),
    lambda: ct.vmap(ct.vmap(cubic))(POINTS),
    lambda: ct.vmap(ct.jacrev(residuals))(POINTS),
    lambda: ct.vmap(ct.nograd(cubic))(POINTS),
    lambda: ct.vmap(cost)(POINTS.astype(np.float32)),
]


@pytest.mark.parametrize("run", ASKED)
def test_replays_give_what_runs_give(run):
    results, count = replays(run)
    assert count > 0
    for result in results:
        np.testing.assert_equal(result, results[0])
        assert repr(result) == repr(results[0])
        assert _kinds(result) == _kinds(results[0])


def is_run(run):
    return replays(run)[1] == 0


def _kinds(result):
    if isinstance(result, dict):
        return {k: _kinds(v) for k, v in result.items()}
    if isinstance(result, (list, tuple)):
        return type(result), [_kinds(v) for v in result]
    flags = getattr(result, "flags", None)
    is_writeable = flags is not None and flags.writeable
    return type(result), getattr(result, "dtype", None), np.shape(result), is_writeable


def test_results_belong_to_the_caller():
    def f(x):
        return np.concatenate([x, [1.0]])

    for _ in range(OFTEN):
        found = ct.jacobian(f, POINT)
        np.testing.assert_array_equal(found, np.eye(5, 4))
        found[:] = 7.0


def test_other_values_and_shapes():
    replays(lambda: ct.hessian(cost, POINT))
    for x in (POINT + 1.0, np.ones(6), np.linspace(0.0, 1.0, 3)):
        found = ct.hessian(cost, x)
        exact = lambda x=x: [ct.hvp(lambda x: cost(x), x, e) for e in np.eye(len(x))]
        np.testing.assert_allclose(found, exact(), rtol=1e-12)


def test_what_functions_capture_may_change(monkeypatch):
    of_scale = lambda: ct.hessian(cost, POINT)
    of_array = lambda: ct.hvp(of_held, POINT, np.ones(4))
    (first, *_), _ = replays(of_scale)
    (second, *_), _ = replays(of_array)
    monkeypatch.setitem(globals(), "scale", 4.0)
    # The part that does not scale has the Hessian 2.
    rest = np.diag([2.0, 2.0, 2.0, 0.0])
    for changed in replays(of_scale)[0]:
        np.testing.assert_allclose(changed - rest, 2.0 * (first - rest), rtol=1e-12)
    held[:] = 3.0
    try:
        for changed in replays(of_array)[0]:
            np.testing.assert_allclose(changed, 3.0 * second)
    finally:
        held[:] = 1.0


def test_truth_values_are_no_positions():
    replays(lambda: ct.jacobian(of_two, POINT, 2.0, argnums=1))
    for _ in range(OFTEN):
        with pytest.raises((TypeError, ValueError)):
            ct.jacobian(of_two, POINT, 2.0, argnums=True)


def test_what_does_more_than_compute_is_run():
    seen = []

    def f(x):
        seen.append(x.shape)
        return np.sum(x**3)

    for run in (
        lambda: ct.hessian(f, POINT),
        lambda: ct.jacobian(f, POINT),
        lambda: ct.hvp(f, POINT, POINT),
    ):
        seen.clear()
        assert is_run(run)
        assert len(seen) >= OFTEN


def test_one_that_cannot_be_replayed_leaves_others_alone():
    class Opaque:
        pass

    def f(x, y):
        return np.sum(np.sin(x) ** 2) * 2.0 + (0.0 if isinstance(y, Opaque) else np.sum(y))

    assert is_run(lambda: ct.jacobian(f, POINT, ct.const(Opaque())))
    _, count = replays(lambda: ct.hessian(f, POINT, 1.0))
    assert count > 0


def test_what_is_asked_for_by_functions_and_keywords_is_run():
    scaled = lambda x, by=1.0: np.sum(by * x**3)
    assert is_run(lambda: ct.hessian(scaled, POINT, by=2.0))
    assert is_run(lambda: ct.jacobian(scaled, POINT, wrt=lambda path, leaf: True))
    assert is_run(lambda: ct.jacobian(lambda x: (x**2, "aux"), POINT, has_aux=True))
    np.testing.assert_allclose(ct.hessian(scaled, POINT, by=2.0), 12.0 * np.diag(POINT))


def test_errors_are_those_of_runs():
    def f(x):
        return np.sum(x**2) if x.shape[0] > 2 else x

    replays(lambda: ct.hessian(f, POINT))
    for _ in range(2):
        with pytest.raises(ValueError, match="hessian: the function must return a real scalar"):
            ct.hessian(f, POINT[:2])
        with pytest.raises(ValueError, match="its tangent must have it too"):
            ct.hvp(f, POINT, POINT[:2])


def test_inside_of_other_transforms_they_run():
    inner = lambda x: np.sum(ct.hessian(cost, x) ** 2)
    replays(lambda: ct.hessian(cost, POINT))
    before = _core.num_automatic_replays()
    found = ct.pullback(inner, POINT)[1](1.0)[0]
    assert _core.num_automatic_replays() == before
    step = 1e-5 * np.eye(4)
    expected = [(inner(POINT + e) - inner(POINT - e)) / 2e-5 for e in step]
    np.testing.assert_allclose(found, expected, rtol=1e-7)


def test_jacobians_of_numbers_inside_prepared_functions():
    jacobian = lambda x, y: ct.jacobian(lambda x, y: x * y, x, y)
    f = ct.prepare(jacobian, transform="value")
    for y in (2.0, 3.0, 4.0):
        of_x, of_y = f(POINT, y)
        np.testing.assert_array_equal(of_x, y * np.eye(4))
        np.testing.assert_array_equal(of_y, POINT)


def test_what_is_held_constant_shows():
    for run in (
        lambda: ct.jacobian(of_two, POINT, ct.const(2.0)),
        lambda: ct.jacobian(lambda p: p["x"] * p["y"], {"x": POINT, "y": ct.const(2.0)}),
        lambda: ct.hessian(of_two, ct.const(POINT), 2.0),
    ):
        results, count = replays(run)
        assert count == 0
        for result in results:
            np.testing.assert_equal(result, results[0])
        assert "None" in repr(results[0])


# --------------------------------------------------------------------------------------------------
# Functions that call transforms and loops themselves


def by_gradient(x):
    return np.sum(ct.grad(cost)(x) * np.arange(4.0)) + ct.hvp(cost, x, np.ones(4))[0]


def by_example(x):
    return np.sum(ct.vmap(ct.grad(cubic))(x * POINT) ** 2) + np.sum(ct.jacobian(residuals, x))


def by_loop(x):
    return ct.fori_loop(0, 5, lambda i, y: ct.cond(i > 2, ct.sin, lambda z: z * x[0], y), x[1])


def by_scan(x):
    last, ys = ct.scan(lambda c, r: (c * r + ct.tanh(c), c), x[0], POINT)
    return last + np.sum(ys) + ct.while_loop(lambda y: y < 9.0, lambda y: y * 1.5, x[1] * 2.0)


def by_constants(x):
    g, _ = ct.gradient(of_two, x, ct.const(2.0))
    return np.sum(g * ct.dropgrad(x)) + ct.checkpoint(cost)(x) + ct.logsumexp(x)


made = ct.grad(cost)


def by_captured(x):
    return np.sum(made(x) ** 2)


@pytest.mark.parametrize(
    "f", [by_gradient, by_example, by_loop, by_scan, by_constants, by_captured]
)
def test_functions_that_call_transforms(f):
    results, count = replays(lambda: ct.gradient(f, POINT))
    assert count > 0
    for result in results:
        np.testing.assert_equal(result, results[0])
    for i, e in enumerate(np.eye(4)):
        difference = (f(POINT + 1e-6 * e) - f(POINT - 1e-6 * e)) / 2e-6
        # Nothing goes through `dropgrad`.
        exact = ct.gradient(lambda h: f(POINT + h * e), 0.0)[0]
        if f is not by_constants:
            np.testing.assert_allclose(results[0][0][i], difference, rtol=1e-6)
        np.testing.assert_allclose(results[0][0][i], exact, rtol=1e-12)


def test_what_a_transform_is_given_may_change(monkeypatch):
    of_captured = lambda: ct.gradient(by_captured, POINT)[0]
    mapped = ct.vmap(made)
    of_map = lambda: mapped(POINTS)
    (first, *_), count = replays(of_captured)
    (second, *_), of_mapped = replays(of_map)
    assert count > 0
    assert of_mapped > 0
    monkeypatch.setitem(globals(), "scale", 4.0)
    expected = ct.gradient(lambda x: by_captured(x), POINT)[0]
    assert not np.allclose(first, expected)
    for found in replays(of_captured)[0]:
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    rows = [ct.gradient(lambda x: cost(x), x)[0] for x in POINTS]
    assert not np.allclose(second, rows)
    for found in replays(of_map)[0]:
        np.testing.assert_allclose(found, rows, rtol=1e-12)


def test_maps_with_other_options_are_told_apart():
    maps = [
        lambda: ct.vmap(ct.grad(of_two), (0, None))(POINTS, 2.0),
        lambda: ct.vmap(ct.grad(of_two, argnums=1), (0, None))(POINTS, 2.0),
        lambda: ct.vmap(ct.value_and_grad(of_two), (0, None))(POINTS, 2.0),
        lambda: ct.vmap(ct.vmap(of_two, (0, None)), (0, None))(POINTS, 2.0),
        lambda: ct.vmap(cubic)(POINTS),
    ]
    first = [run() for run in maps]
    for _ in range(OFTEN):
        for run, expected in zip(maps, first, strict=True):
            np.testing.assert_equal(run(), expected)


def test_maps_that_are_run():
    assert is_run(lambda: ct.vmap(cubic, chunk_size=2)(POINTS))
    # Its results lie in memory as they are moved.
    moved = [ct.vmap(lambda x: cubic(x), out_axes=1)(POINTS) for _ in range(OFTEN)]
    assert {x.strides for x in moved} == {(8, 32)}
    lazy = ct.vmap(cubic)
    for _ in range(OFTEN):
        assert not lazy(ct.array(POINTS)).is_forced


def test_what_examples_share_stays_what_it_is():
    def f(x, y):
        return np.sin(x) * y * y + (1.0 if isinstance(y, int) else 2.0), type(y).__name__

    mapped = ct.vmap(f, (0, None))
    for y in (2.0, 2, np.float32(2.0)) * OFTEN:
        value, kind = mapped(POINTS, y)
        assert kind == type(y).__name__
        np.testing.assert_allclose(value, np.sin(POINTS) * y * y + (1.0 if type(y) is int else 2.0))


seen = []


def with_a_hook(x):
    return cost(ct.hook(lambda cotangent: seen.append(1), x))


def that_shows(x):
    return cost(ct.showgrad(x))


def by_layers(x):
    return cost(x) + np.sum(ct.nn.softmax(x))


@pytest.mark.parametrize("f", [with_a_hook, that_shows, by_layers])
def test_what_may_be_seen_is_run(f):
    assert is_run(lambda: ct.gradient(f, POINT))
    assert is_run(lambda: ct.vmap(ct.grad(f))(POINTS))


def test_submodules_are_listed():
    parts = [p for p in Path(ct.__file__).parent.iterdir() if p.stem[0] != "_"]
    assert {p.stem for p in parts if p.is_dir() or p.suffix == ".py"} == SUBMODULES
