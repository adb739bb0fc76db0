"""Optimisers against the formulas of their papers, over structures, and as prepared steps."""

import pickle
from dataclasses import dataclass

import numpy as np
import pytest

import cotan as ct
from cotan import optim

A = np.array([[1.0, 2.0], [-0.5, 1.0], [0.3, -1.0]])
START = np.array([1.5, -2.0])


def loss(w, i):
    return np.sum(np.sin(A @ w) ** 2) + 0.1 * (1 + i % 3) * np.sum(w**2)


def slope(w, i):
    z = A @ w
    return A.T @ (2 * np.sin(z) * np.cos(z)) + 0.2 * (1 + i % 3) * w


def run(opt, steps=40):
    w, state, places = START, opt.init(START), []
    for i in range(steps):
        grads = ct.gradient(loss, w, ct.const(i))
        w, state = opt.step(grads, state, w)
        places.append(w)
    return np.array(places)


# --------------------------------------------------------------------------------------------------
# The papers


def sgd(rate, momentum=0.0, nesterov=False, decay=0.0):
    """Sutskever and others 2013, with the sign of the velocity turned round."""
    w, t = START, 0.0
    for i in range(40):
        g = slope(w, i) + decay * w
        t = g + momentum * t
        w = w - (rate(i) if callable(rate) else rate) * (g + momentum * t if nesterov else t)
        yield w


def adam(rate=0.05, b1=0.9, b2=0.999, eps=1e-8, decay=0.0):
    """Kingma and Ba 2015, algorithm 1; with `decay` Loshchilov and Hutter 2019, algorithm 2."""
    w, m, v = START, 0.0, 0.0
    for i in range(40):
        g = slope(w, i)
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g**2
        mean, square = m / (1 - b1 ** (i + 1)), v / (1 - b2 ** (i + 1))
        w = w - rate * (mean / (np.sqrt(square) + eps) + decay * w)
        yield w


def nadam(rate=0.05, b1=0.9, b2=0.999, eps=1e-8):
    """Dozat 2016, with a constant momentum."""
    w, m, v = START, 0.0, 0.0
    for i in range(40):
        g = slope(w, i)
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g**2
        mean = b1 * m / (1 - b1 ** (i + 2)) + (1 - b1) * g / (1 - b1 ** (i + 1))
        w = w - rate * mean / (np.sqrt(v / (1 - b2 ** (i + 1))) + eps)
        yield w


def rmsprop(rate=0.05, decay=0.9, eps=1e-8, centered=False, momentum=0.0):
    """Tieleman and Hinton 2012; with `centered` Graves 2013."""
    w, n, m, t = START, 0.0, 0.0, 0.0
    for i in range(40):
        g = slope(w, i)
        n = decay * n + (1 - decay) * g**2
        m = decay * m + (1 - decay) * g
        t = momentum * t + g / (np.sqrt(n - m**2 if centered else n) + eps)
        w = w - rate * t
        yield w


def adagrad(rate=0.05, eps=1e-10):
    """Duchi, Hazan and Singer 2011."""
    w, n = START, 0.0
    for i in range(40):
        g = slope(w, i)
        n = n + g**2
        w = w - rate * g / (np.sqrt(n) + eps)
        yield w


PAPERS = {
    "sgd": (optim.sgd(0.05), sgd(0.05)),
    "momentum": (optim.sgd(0.05, 0.9), sgd(0.05, 0.9)),
    "nesterov": (optim.sgd(0.05, 0.9, True), sgd(0.05, 0.9, True)),
    "sgd with decay": (optim.sgd(0.05, 0.9, weight_decay=0.1), sgd(0.05, 0.9, decay=0.1)),
    "schedule": (optim.sgd(lambda i: 0.1 / (1 + i)), sgd(lambda i: 0.1 / (1 + i))),
    "adam": (optim.adam(0.05), adam()),
    "adam with other constants": (optim.adam(0.05, 0.5, 0.8, 1e-3), adam(0.05, 0.5, 0.8, 1e-3)),
    "nadam": (optim.adam(0.05, nesterov=True), nadam()),
    "adamw": (optim.adamw(0.05, weight_decay=0.1), adam(decay=0.1)),
    "rmsprop": (optim.rmsprop(0.05), rmsprop()),
    "centered rmsprop": (
        optim.rmsprop(0.05, centered=True, momentum=0.5), rmsprop(centered=True, momentum=0.5),
    ),
    "adagrad": (optim.adagrad(0.05), adagrad()),
}  # fmt: skip


@pytest.mark.parametrize("name", PAPERS)
def test_papers(name):
    opt, expected = PAPERS[name]
    np.testing.assert_allclose(run(opt), list(expected), rtol=1e-12)


# --------------------------------------------------------------------------------------------------
# Structures


@dataclass
class Layer:
    w: np.ndarray
    b: float
    name: str = "layer"


@dataclass
class Model:
    layers: list
    scale: object
    steps: int = 3


def model():
    return Model(
        [Layer(np.ones((2, 2), np.float32), 0.5), Layer(np.full(2, 2.0), -0.5)], ct.array([1.0])
    )


def output(m):
    return np.sum(m.layers[0].w) ** 2 + m.layers[0].b * m.layers[1].b + np.sum(
        m.layers[1].w ** 2 * m.scale
    )  # fmt: skip


EVERY = {
    "sgd": optim.sgd(0.1),
    "momentum": optim.sgd(0.1, 0.9),
    "adam": optim.adam(0.1),
    "adamw": optim.adamw(0.1, mask=lambda path, leaf: path.endswith("w")),
    "rmsprop": optim.rmsprop(optim.linear_schedule(0.1, 0.01, 10), centered=True),
    "adagrad": optim.adagrad(0.1),
    "clipped": optim.chain(
        optim.clip_by_global_norm(1.0),
        optim.clip(0.5),
        optim.adam(optim.warmup_cosine_decay_schedule(0.01, 0.1, 3, 10)),
    ),
}


@pytest.mark.parametrize("name", EVERY)
def test_parameters_keep_their_classes_and_dtypes(name):
    opt, m = EVERY[name], model()
    state = opt.init(m)
    for _ in range(3):
        m, state = opt.step(ct.gradient(output, m), state, m)
        state = pickle.loads(pickle.dumps(state))
    assert type(m) is Model and type(m.layers[1]) is Layer
    assert (m.steps, m.layers[0].name) == (3, "layer")
    assert m.layers[0].w.dtype == np.float32 and type(m.layers[0].b) is float
    assert isinstance(m.scale, ct.Array)
    assert output(m) < output(model())


@pytest.mark.parametrize("name", EVERY)
def test_updates_have_the_structure_of_the_gradient(name):
    opt, m = EVERY[name], model()
    (g,) = ct.gradient(output, m)
    updates, _ = opt.update(g, opt.init(m), m)
    assert type(updates) is ct.Tangent and updates.steps is None
    new = optim.apply_updates(m, updates)
    stepped, _ = opt.step(g, opt.init(m), m)
    np.testing.assert_array_equal(new.layers[0].w, stepped.layers[0].w)
    assert m.layers[0].w[0, 0] == 1.0


@pytest.mark.parametrize("name", EVERY)
def test_what_has_no_gradient_is_left_alone(name):
    opt, m = EVERY[name], model()
    state = opt.init(m)
    m, state = opt.step(ct.gradient(output, m), state, m)
    (g,) = ct.gradient(output, m, wrt="m.layers[0]")
    new, after = opt.step(g, state, m)
    assert new.layers[1].w is m.layers[1].w and new.scale is m.scale
    assert np.any(new.layers[0].w != m.layers[0].w)
    for old, now in zip(ct.tree_leaves(state), ct.tree_leaves(after), strict=True):
        assert old.shape == now.shape
    nothing, same = opt.step((None,), after, new)
    assert nothing.layers[0].w is new.layers[0].w
    assert len(ct.tree_leaves(same)) == len(ct.tree_leaves(after))


def test_states_hold_what_is_trained():
    class Declared:
        __trainable__ = ("w",)

        def __init__(self):
            self.w, self.rate = np.ones(2), 0.5

    state = optim.scale_by_adam().init([Declared(), ct.const(1.0), 3])
    assert state.mu.keys() == {"[0].w"} and float(state.count) == 0
    assert state.mu["[0].w"].shape == (2,)


def test_parameters_that_are_no_structure():
    for params, gradient in ((2.0, 1.0), (np.float32(2.0), np.float32(1.0)), ((1.0, 2.0),) * 2):
        opt = optim.adam(0.5)
        new, _ = opt.step(gradient, opt.init(params), params)
        assert type(new) is type(params)


def test_half_precision_stays():
    opt = optim.chain(optim.clip_by_global_norm(1.0), optim.adamw(lambda i: 0.1 / (i + 1)))
    params = {"a": np.ones(3, np.float16)}
    grads = {"a": np.full(3, 300.0, np.float16)}
    state = opt.init(params)
    updates, state = opt.update(grads, state, params)
    assert updates["a"].dtype == np.float16 and np.all(np.isfinite(updates["a"]))
    assert state[1][0].nu["a"].dtype == np.float32


@pytest.mark.parametrize("opt", [optim.adam(0.05), optim.rmsprop(0.05), optim.sgd(0.05, 0.9)])
def test_complex_parameters(opt):
    z = 1 + 1j
    state = opt.init(z)
    for _ in range(300):
        z, state = opt.step(ct.gradient(lambda z: abs(z - 2j) ** 2, z), state, z)
    assert abs(z - 2j) < 0.1
    second = getattr(state[0], "nu", {"": np.zeros(())})[""]
    assert second.dtype.kind == "f"


# --------------------------------------------------------------------------------------------------
# Prepared and recorded


@pytest.mark.parametrize("name", EVERY)
def test_a_whole_step_is_prepared(name):
    opt = EVERY[name]
    params = {"w": np.ones((3, 2), np.float32), "bias": 0.5, "frozen": np.ones(2)}
    x = np.arange(6.0, dtype=np.float32).reshape(2, 3) / 6

    def step(params, state, x):
        def loss(p):
            return np.mean((np.tanh(x @ p["w"]) + p["bias"] - 1) ** 2)

        return opt.step(ct.gradient(loss, params, wrt=["p.w", "p.bias"]), state, params)

    prepared = ct.prepare(step, transform="value")
    plain, replayed = (params, opt.init(params)), (params, opt.init(params))
    for _ in range(8):
        plain, replayed = step(*plain, x), prepared(*replayed, x)
    for a, b in zip(ct.tree_leaves(plain), ct.tree_leaves(replayed), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-7)
    # Numbers become NumPy's after the first call; then nothing changes any more.
    assert prepared.num_recordings <= 2


def test_a_step_can_be_differentiated():
    def after(rate):
        opt = optim.adam(lambda i: rate)
        w, state = START, opt.init(START)
        for i in range(3):
            w, state = opt.step(ct.gradient(loss, w, ct.const(i)), state, w)
        return loss(w, 0)

    (g,) = ct.gradient(after, 0.1)
    assert g == pytest.approx((after(0.1 + 1e-5) - after(0.1 - 1e-5)) / 2e-5, rel=1e-6)


# --------------------------------------------------------------------------------------------------
# Clipping, decay, chains


def test_clipping_by_norm():
    rule = optim.clip_by_global_norm(2.0)
    small, large = {"a": 0.6, "b": np.array([0.8])}, {"a": 30.0, "b": np.array([40.0])}
    params = {"a": 0.0, "b": np.zeros(1)}
    same, _ = rule.update(small, rule.init(params), params)
    assert float(same["a"]) == 0.6
    clipped, _ = rule.update(large, rule.init(params), params)
    assert float(optim.global_norm(clipped)) == pytest.approx(2.0)
    zero, _ = rule.update({"a": 0.0, "b": np.zeros(1)}, (), params)
    assert float(zero["a"]) == 0.0
    assert float(optim.global_norm({"z": 3 + 4j, "n": 7})) == 5.0


def test_clipping_by_value():
    rule = optim.clip(1.0)
    found, _ = rule.update({"a": -3.0, "z": 0.5 + 2j}, (), {"a": 0.0, "z": 0j})
    assert (float(found["a"]), complex(found["z"])) == (-1.0, 0.5 + 1j)


@pytest.mark.parametrize("mask", ["w", ["w"], {"w": True}, lambda path, leaf: leaf.ndim == 1])
def test_masks_of_decay(mask):
    opt = optim.adamw(0.1, weight_decay=0.5, mask=mask)
    params = {"w": np.ones(2), "b": 1.0}
    new, _ = opt.step({"w": np.zeros(2), "b": 0.0}, opt.init(params), params)
    assert new["w"].tolist() == [0.95, 0.95] and new["b"] == 1.0


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: optim.chain(optim.sgd(0.1), 3), TypeError, "takes optimisers.*not int"),
        (lambda: optim.sgd(0.1, nesterov=True), ValueError, "needs a momentum"),
        (lambda: optim.clip_by_global_norm(0.0), ValueError, "must be positive, not 0.0"),
        (
            lambda: optim.adam(0.1).step({"b": 1.0}, optim.adam(0.1).init({"a": 1.0}), {"b": 1.0}),
            ValueError, "adam: there is no state for b; init was called with a",
        ),
        (
            lambda: optim.sgd(0.1).step({"w": np.ones(3)}, (), {"w": np.ones(2)}),
            ValueError, r"params\.w has shape \(2,\), its gradient \(3,\)",
        ),
        (
            lambda: optim.sgd(0.1).step({"v": 1.0}, (), {"w": 1.0}),
            ValueError, "update: params has no 'v'; it has: w",
        ),
        (
            lambda: optim.adamw(0.1, mask="v").step(1.0, optim.adamw(0.1).init(1.0), 1.0),
            ValueError, "mask 'v' matches no array or float",
        ),
    ],
)  # fmt: skip
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


# --------------------------------------------------------------------------------------------------
# Schedules


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (optim.constant_schedule(0.1), lambda i: 0.1),
        (optim.linear_schedule(1.0, 0.2, 4, 2), lambda i: 1 - 0.8 * min(max(i - 2, 0) / 4, 1)),
        (
            optim.cosine_decay_schedule(2.0, 5, 0.1, 2.0),
            lambda i: 2 * (0.9 * (0.5 * (1 + np.cos(np.pi * min(i / 5, 1)))) ** 2 + 0.1),
        ),
        (optim.exponential_decay(1.0, 3, 0.5), lambda i: 0.5 ** (i / 3)),
        (optim.exponential_decay(1.0, 3, 0.5, 1, True), lambda i: 0.5 ** (max(i - 1, 0) // 3)),
        (optim.exponential_decay(1.0, 3, 0.5, end_value=0.3), lambda i: max(0.5 ** (i / 3), 0.3)),
        (optim.exponential_decay(1.0, 3, 2.0, end_value=3.0), lambda i: min(2 ** (i / 3), 3.0)),
        (
            optim.piecewise_constant_schedule(1.0, {3: 0.5, 6: 0.1}),
            lambda i: 1.0 * (0.5 if i >= 3 else 1) * (0.1 if i >= 6 else 1),
        ),
        (
            optim.warmup_cosine_decay_schedule(0.1, 1.0, 4, 8, 0.2),
            lambda i: 0.1 + 0.9 * i / 4 if i < 4 else
            0.2 + 0.8 * 0.5 * (1 + np.cos(np.pi * min((i - 4) / 4, 1))),
        ),
        (
            optim.join_schedules([lambda i: i, lambda i: 10 * i, lambda i: -i], [3, 5]),
            lambda i: i if i < 3 else 10 * (i - 3) if i < 5 else -(i - 5),
        ),
    ],
)  # fmt: skip
def test_schedules(schedule, expected):
    counts = np.arange(12)
    wanted = [expected(i) for i in counts]
    np.testing.assert_allclose([schedule(i) for i in range(12)], wanted, atol=1e-12)
    np.testing.assert_allclose(schedule(counts) * np.ones(12), wanted, atol=1e-12)
    prepared = ct.prepare(lambda i: schedule(i) * 1.0, transform="value")
    np.testing.assert_allclose([prepared(float(i)) for i in range(12)], wanted, atol=1e-12)
    assert prepared.num_recordings == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: optim.linear_schedule(1.0, 0.0, 0), "transition_steps must be positive"),
        (lambda: optim.warmup_cosine_decay_schedule(0.0, 1.0, 9, 8), "after_the_warmup must be"),
        (lambda: optim.join_schedules([abs], [1]), "1 schedules have 0 boundaries"),
    ],
)
def test_schedules_that_are_wrong(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# --------------------------------------------------------------------------------------------------
# Optimisers of optax


def test_optimisers_of_optax():
    optax = pytest.importorskip("optax")
    opt, m = optim.from_optax(optax.adam(0.05)), model()
    own = optim.adam(0.05)
    other, state, own_state = m, opt.init(m), own.init(m)
    for _ in range(5):
        m, state = opt.step(ct.gradient(output, m), state, m)
        other, own_state = own.step(ct.gradient(output, other), own_state, other)
    np.testing.assert_allclose(m.layers[0].w, other.layers[0].w, rtol=1e-5)
    assert type(m.layers[0].w) is np.ndarray and type(m.layers[0].b) is float
    (g,) = ct.gradient(output, m, wrt="m.layers[0]")
    new, state = opt.step(g, state, m)
    assert new.layers[1].w is m.layers[1].w

    params = {"w": np.ones(2)}
    updates, _ = optax.sgd(0.5).update({"w": np.ones(2)}, optax.sgd(0.5).init(params), params)
    new = optim.apply_updates(params, updates)
    assert type(new["w"]) is np.ndarray and new["w"].tolist() == [0.5, 0.5]
    with pytest.raises(TypeError, match=r"pass np\.asarray"):
        ct.gradient(lambda p: np.sum(p["w"]), optax.apply_updates(params, updates))
    with pytest.raises(TypeError):
        optax.apply_updates(m, opt.update(ct.gradient(output, m)[0], opt.init(m), m)[0])


class Momentum:
    """What an optimiser of optax looks like."""

    def init(self, params):
        return {k: np.zeros_like(p) for k, p in params.items()}

    def update(self, updates, state, params=None):
        state = {k: 0.5 * state[k] + g for k, g in updates.items()}
        return {k: -0.1 * t for k, t in state.items()}, state


def test_an_optimiser_of_the_same_form():
    opt, own = optim.from_optax(Momentum()), optim.sgd(0.1, 0.5)
    np.testing.assert_allclose(run(opt), run(own))
    with pytest.raises(TypeError, match="with init and update; not int"):
        optim.from_optax(3)
    with pytest.raises(TypeError, match="cannot be recorded"):
        ct.prepare(lambda p, s: opt.step({"w": p["w"]}, s, p), transform="value")(
            {"w": np.ones(2)}, opt.init({"w": np.ones(2)})
        )
    with pytest.raises(ValueError, match="init was called with, which were w; they are v"):
        opt.step({"v": 1.0}, opt.init({"w": 1.0}), {"v": 1.0})


@pytest.mark.parametrize("wrong", ["0.1", None, [0.1]], ids=repr)
def test_rates_and_limits_are_numbers(wrong):
    with pytest.raises(TypeError, match="the learning rate must be a number, or a function of"):
        optim.adam(wrong)
    with pytest.raises(TypeError, match="scale: the factor must be a number, not"):
        optim.scale(wrong)
    for clip in (optim.clip, optim.clip_by_global_norm):
        with pytest.raises(TypeError, match=f"{clip.__name__}: the limit must be a number, not"):
            clip(wrong)
