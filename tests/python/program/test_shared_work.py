"""Every lazy value is computed at most once, and so is what several of them share."""

import gc
import itertools

import numpy as np
import pytest

import cotan as ct

LAYERS = 12


def network(layers):
    h = np.linspace(-1.0, 1.0, 12).reshape(3, 4)
    for w in layers:
        h = np.tanh(h @ w)
    return np.sum(h)


def weights(rng, count=LAYERS):
    return [rng.normal(size=(4, 4)) / 2 for _ in range(count)]


def products(read):
    with ct.profile() as work:
        read()
    return work.equations.get("matmul", 0)


@pytest.fixture
def rng():
    return np.random.default_rng(3)


def test_cotangents_read_one_by_one_cost_what_they_cost_together(rng):
    layers = weights(rng)
    expected = ct.gradient(network, layers)[0]
    _, back = ct.pullback(network, layers)
    together = products(lambda: ct.force(back(1.0)))
    orders = [range(LAYERS), range(LAYERS)[::-1], rng.permutation(LAYERS)]
    for order in orders:
        found = back(1.0)[0]
        assert products(lambda f=found, o=order: [np.asarray(f[i]) for i in o]) == together
        for g, e in zip(found, expected, strict=True):
            np.testing.assert_allclose(np.asarray(g), e, rtol=1e-12)
    # In pieces.
    found = back(1.0)[0]
    pieces = [found[4:7], found[:2], found[2:4], found[7:]]
    assert sum(products(lambda p=p: ct.force(p)) for p in pieces) == together


def test_results_do_not_depend_on_the_order(rng):
    def f(x, y, z):
        u = np.sin(x) @ y
        return np.sum(np.exp(-u) * z), np.sum(u * u)

    args = rng.normal(size=(3, 3)), rng.normal(size=(3, 3)), rng.normal(size=(3, 3))
    _, back = ct.pullback(f, *args)
    expected = [np.asarray(g) for g in ct.force(back((1.0, 0.5)))]
    for order in itertools.permutations(range(3)):
        found = back((1.0, 0.5))
        for i in order:
            np.testing.assert_array_equal(np.asarray(found[i]), expected[i])
        dropped = list(back((1.0, 0.5)))
        np.testing.assert_array_equal(np.asarray(dropped[order[0]]), expected[order[0]])
        dropped[order[1]] = None
        np.testing.assert_array_equal(np.asarray(dropped[order[2]]), expected[order[2]])


def test_cotangents_of_a_gradient_inside_another(rng):
    layers = weights(rng, 3)

    def norms(layers):
        _, back = ct.pullback(network, layers)
        gradients = back(1.0)[0]
        # Reading a value on the way changes nothing.
        if float(ct.dropgrad(gradients[0][0, 0])) > 1e9:
            return 0.0
        return sum(np.sum(g * g) for g in gradients)

    (found,) = ct.gradient(norms, layers)
    h = 1e-6
    step = rng.normal(size=(4, 4))
    ends = [norms([layers[0] + s * step, *layers[1:]]) for s in (h, -h)]
    slope = float(np.asarray(ends[0]) - np.asarray(ends[1])) / (2 * h)
    np.testing.assert_allclose(np.sum(found[0] * step), slope, rtol=1e-6)


def test_memory_goes_with_the_cotangents(rng):
    n = 400
    layers = [rng.normal(size=(n, n)) / n for _ in range(6)]

    def f(layers):
        h = np.ones((n, n))
        for w in layers:
            h = np.tanh(h @ w)
        return np.sum(h)

    _, back = ct.pullback(f, layers)
    cotangents = list(back(1.0)[0])
    first = np.asarray(cotangents[0])
    for i, g in enumerate(cotangents):
        np.testing.assert_allclose(np.asarray(g).shape, (n, n))
        cotangents[i] = None
    del g
    gc.collect()
    assert first.shape == (n, n)


def test_residuals_wait_for_the_cotangents_that_need_them(rng):
    x, c = rng.normal(size=50_000), rng.normal(size=50_000)

    def f(x, c):
        return np.sum(np.sin(x) * np.cos(c))

    def work_of(run):
        with ct.profile() as work:
            run()
        return {name: work.equations.get(name, 0) for name in ("sin", "cos")}

    made = []
    assert work_of(lambda: made.append(ct.pullback(f, x, c)[1])) == {"sin": 1, "cos": 1}
    (back,) = made
    assert work_of(lambda: back(1.0)[0].force()) == {"sin": 0, "cos": 1}
    assert work_of(lambda: back(1.0)[1].force()) == {"sin": 1, "cos": 0}
    # Once for all applications.
    assert work_of(lambda: ct.force(back(2.0))) == {"sin": 0, "cos": 0}
    assert back.nbytes <= 4 * x.nbytes
    # What waits does not notice what becomes of the arguments.
    _, other = ct.pullback(f, x, c)
    expected = -np.sin(x) * np.sin(c)
    c[:] = 0.0
    x[:] = 0.0
    np.testing.assert_allclose(np.asarray(other(1.0)[1]), expected, rtol=1e-12)


def test_residuals_that_wait_are_saved(rng, tmp_path):
    x, c = rng.normal(size=9), rng.normal(size=9)
    _, back = ct.pullback(lambda x, c: np.sum(np.sin(x) * np.cos(c)), x, c)
    back.save(tmp_path / "pullback")
    loaded = ct.load(tmp_path / "pullback")
    for found, expected in zip(loaded(1.0), back(1.0), strict=True):
        np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))


def test_force():
    tree = {"a": ct.array([1.0, 2.0]) * 3, "b": [ct.array([4.0]) + 1, 5.0, None, "name"]}
    assert ct.force(tree) is tree
    assert tree["a"].is_forced
    assert tree["b"][0].is_forced
    assert ct.force(3.0) == 3.0
    prepared = ct.prepare(lambda x: np.sum(ct.force(x * x)), np.ones(3))
    np.testing.assert_array_equal(prepared(np.ones(3))[0], [2.0, 2.0, 2.0])
