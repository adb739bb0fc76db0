"""Pieces of networks: formulas, derivatives, dtypes, extremes, masks, and what is refused."""

import math

import numpy as np
import pytest
import scipy.special
from hypothesis import given, settings
from hypothesis import strategies as st

import cotan as ct
from cotan import nn

RNG = np.random.default_rng(0)
KEY = ct.random.key(1)
X = RNG.standard_normal((3, 4, 6))
W, B = RNG.standard_normal((2, 6))
LABELS = RNG.integers(0, 6, (3, 4))
P = RNG.dirichlet(np.ones(6), (3, 4))
Q, K, V = (RNG.standard_normal(s) for s in ((2, 4, 5), (2, 6, 5), (2, 6, 3)))
MASK = RNG.random((4, 6)) > 0.4


def standardized(x, axes, eps):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def softmax(x, mask=None):
    powers = np.exp(x) if mask is None else np.exp(x) * mask
    total = powers.sum(-1, keepdims=True)
    return powers / np.where(total == 0, 1, total)


def picked(logarithms, labels):
    return np.take_along_axis(logarithms, labels[..., None], -1)[..., 0]


def attended(q, k, v, mask=None, bias=0.0, scale=None):
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    return softmax(q @ k.swapaxes(-1, -2) * scale + bias, mask) @ v


def heads(x, w_q, w_k, w_v, w_o):
    parts = [
        attended(x @ w_q[:, h], x @ w_k[:, h], x @ w_v[:, h])
        for h in (slice(0, 2), slice(2, 4), slice(4, 6))
    ]
    return np.concatenate(parts, -1) @ w_o


def smooth_labels(x, labels, part):
    logarithms = np.log(softmax(x))
    return -((1 - part) * picked(logarithms, labels) + part * logarithms.mean(-1))


def probability_loss(x, p):
    return -(p * np.log(softmax(x))).sum(-1).mean()


IMAGES = RNG.standard_normal((2, 6, 3, 2))
MEAN, VAR = RNG.standard_normal(6), RNG.uniform(0.5, 2.0, 6)
along = lambda v: v[:, None, None]
# The function, a formula that says the same in float64, and arguments.
CASES = {
    "gelu": (nn.gelu, lambda x: x * scipy.special.ndtr(x), X),
    "gelu with tanh": (
        lambda x: nn.gelu(x, approximate=True),
        lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
        X,
    ),
    "silu": (nn.silu, lambda x: x / (1 + np.exp(-x)), X),
    "elu": (lambda x: nn.elu(x, 0.7), lambda x: np.where(x > 0, x, 0.7 * np.expm1(x)), X),
    "selu": (
        nn.selu,
        lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
        X,
    ),
    "leaky_relu": (lambda x: nn.leaky_relu(x, 0.2), lambda x: np.where(x > 0, x, 0.2 * x), X),
    "softmax": (nn.softmax, softmax, X),
    "softmax along an axis": (
        lambda x: nn.softmax(x, 0),
        lambda x: softmax(x.T).T,
        X[0],
    ),
    "softmax with a mask": (lambda x: nn.softmax(x, where=MASK), lambda x: softmax(x, MASK), X),
    "log_softmax": (nn.log_softmax, lambda x: np.log(softmax(x)), X),
    "cross_entropy": (
        lambda x: nn.cross_entropy(x, LABELS),
        lambda x: -picked(np.log(softmax(x)), LABELS).mean(),
        X,
    ),
    "cross_entropy of the second axis": (
        lambda x: nn.cross_entropy(np.moveaxis(x, -1, 1), LABELS, axis=1, reduction="none"),
        lambda x: -picked(np.log(softmax(x)), LABELS),
        X,
    ),
    "cross_entropy with smooth labels": (
        lambda x: nn.cross_entropy(x, LABELS, label_smoothing=0.1, reduction="sum"),
        lambda x: smooth_labels(x, LABELS, 0.1).sum(),
        X,
    ),
    "cross_entropy of probabilities": (nn.cross_entropy, probability_loss, X, P),
    "cross_entropy without some": (
        lambda x: nn.cross_entropy(x, np.where(LABELS == 2, -1, LABELS), ignore_index=-1),
        lambda x: -picked(np.log(softmax(x)), LABELS)[LABELS != 2].mean(),
        X,
    ),
    "binary_cross_entropy": (
        lambda x, t: nn.binary_cross_entropy_with_logits(x, t, pos_weight=3.0, reduction="none"),
        lambda x, t: 3 * t * np.log1p(np.exp(-x)) + (1 - t) * np.log1p(np.exp(x)),
        X,
        P,
    ),
    "mse": (nn.mse, lambda x, t: ((x - t) ** 2).mean(), X, P),
    "huber": (
        lambda x, t: nn.huber(x, t, 0.6, reduction="none"),
        lambda x, t: np.where(abs(x - t) < 0.6, (x - t) ** 2 / 2, 0.6 * (abs(x - t) - 0.3)),
        X,
        P,
    ),
    "layer_norm": (
        nn.layer_norm,
        lambda x, w, b: standardized(x, -1, 1e-5) * w + b,
        X,
        W,
        B,
    ),
    "layer_norm over two axes": (
        lambda x: nn.layer_norm(x, axis=(1, 2), eps=0.1),
        lambda x: standardized(x, (1, 2), 0.1),
        X,
    ),
    "rms_norm": (
        nn.rms_norm,
        lambda x, w: x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * w,
        X,
        W,
    ),
    "group_norm": (
        lambda x, w, b: nn.group_norm(x, 3, w, b),
        lambda x, w, b: (
            standardized(x.reshape(2, 3, -1), -1, 1e-5).reshape(x.shape) * along(w) + along(b)
        ),
        IMAGES,
        W,
        B,
    ),
    "batch_norm in training": (
        lambda x, w, b: nn.batch_norm(x, MEAN, VAR, w, b, training=True)[0],
        lambda x, w, b: standardized(x, (0, 2, 3), 1e-5) * along(w) + along(b),
        IMAGES,
        W,
        B,
    ),
    "batch_norm": (
        lambda x, w, b: nn.batch_norm(x, MEAN, VAR, w, b, training=False)[0],
        lambda x, w, b: (x - along(MEAN)) / np.sqrt(along(VAR) + 1e-5) * along(w) + along(b),
        IMAGES,
        W,
        B,
    ),
    "attention": (nn.dot_product_attention, attended, Q, K, V),
    "attention with a mask": (
        lambda *a: nn.dot_product_attention(*a, mask=MASK),
        lambda *a: attended(*a, MASK),
        Q,
        K,
        V,
    ),
    "causal attention": (
        lambda *a: nn.dot_product_attention(*a, is_causal=True, mask=MASK),
        lambda *a: attended(*a, MASK & np.tri(4, 6, dtype=bool)),
        Q,
        K,
        V,
    ),
    "attention with a bias": (
        lambda q, k, v, b: nn.dot_product_attention(q, k, v, bias=b, scale=0.3),
        lambda q, k, v, b: attended(q, k, v, bias=b, scale=0.3),
        Q,
        K,
        V,
        RNG.standard_normal((4, 6)),
    ),
    "multi_head_attention": (
        lambda x, *w: nn.multi_head_attention(x, x, x, *w, num_heads=3),
        heads,
        X[0],
        *(0.5 * RNG.standard_normal((6, 6)) for _ in range(4)),
    ),
    "embedding": (lambda t: nn.embedding(t, LABELS), lambda t: t[LABELS], RNG.normal(size=(6, 2))),
}
TOLERANCE = {np.float64: 1e-11, np.float32: 2e-5, np.float16: 2e-2}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", CASES)
def test_values(name, dtype):
    function, formula, *args = CASES[name]
    args = [x.astype(dtype) for x in args]
    result = function(*args)
    assert result.dtype == dtype
    wanted = formula(*(x.astype(np.float64) for x in args))
    tolerance = TOLERANCE[dtype]
    np.testing.assert_allclose(np.asarray(result), wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", CASES)
def test_derivatives(name):
    """First derivatives against differences of the formula, second ones against those of first."""
    function, formula, *args = CASES[name]
    weights = RNG.standard_normal(np.shape(formula(*args)))
    loss = lambda *a: np.sum(function(*a) * weights)
    directions = [RNG.standard_normal(x.shape) for x in args]
    moved = lambda t: [x + t * d for x, d in zip(args, directions, strict=True)]
    slope = (
        np.sum(formula(*moved(1e-6)) * weights) - np.sum(formula(*moved(-1e-6)) * weights)
    ) / 2e-6
    gradients = ct.gradient(loss, *args)
    along = lambda g: sum(
        0.0 if x is None else np.sum(x * d) for x, d in zip(g, directions, strict=True)
    )
    np.testing.assert_allclose(along(gradients), slope, rtol=1e-6, atol=1e-7)
    bend = ct.gradient(lambda *a: along(ct.gradient(loss, *a)), *args)
    ahead, behind = (along(ct.gradient(loss, *moved(t))) for t in (1e-6, -1e-6))
    np.testing.assert_allclose(along(bend), (ahead - behind) / 2e-6, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_forward_mode_agrees_with_reverse_mode(name):
    function, _, *args = CASES[name]
    tangents = [RNG.standard_normal(x.shape) for x in args]
    _, moved = ct.jvp(function, tuple(args), tuple(tangents))
    weights = RNG.standard_normal(np.shape(moved))
    gradients = ct.gradient(lambda *a: np.sum(function(*a) * weights), *args)
    wanted = sum(np.sum(g * t) for g, t in zip(gradients, tangents, strict=True) if g is not None)
    np.testing.assert_allclose(np.sum(moved * weights), wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("name", CASES)
def test_gradients_in_narrow_dtypes(name, dtype):
    function, _, *args = CASES[name]
    weights = RNG.standard_normal(np.shape(CASES[name][1](*args)))
    gradients = ct.gradient(
        lambda *a: np.sum(function(*a) * weights.astype(dtype)), *(x.astype(dtype) for x in args)
    )
    wanted = ct.gradient(lambda *a: np.sum(function(*a) * weights), *args)
    for narrow, wide in zip(gradients, wanted, strict=True):
        assert narrow.dtype == dtype
        scale = np.max(np.abs(wide))
        tolerance = 20 * np.finfo(dtype).eps * scale
        np.testing.assert_allclose(narrow.astype(float), wide, rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", ["gelu", "elu", "softmax", "layer_norm", "attention"])
def test_under_vmap_and_prepared(name):
    function, _, *args = CASES[name]
    if name == "layer_norm":
        args = args[:1]
    batched = ct.vmap(function)(*args)
    np.testing.assert_allclose(batched, np.asarray(function(*args)), rtol=1e-12, atol=1e-12)
    prepared = ct.prepare(function, transform="value")
    np.testing.assert_allclose(prepared(*args), np.asarray(function(*args)), rtol=1e-12)


EXTREMES = np.array([-1e30, -1e19, -1e4, -700.0, -40.0, -0.0, 0.0, 40.0, 700.0, 1e4, 1e19, 1e30])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    ("function", "limit", "slopes"),
    [
        (nn.gelu, np.maximum, (0, 0.5, 1)),
        (lambda x: nn.gelu(x, approximate=True), np.maximum, (0, 0.5, 1)),
        (nn.silu, np.maximum, (0, 0.5, 1)),
        (nn.elu, lambda x, z: np.where(x > 0, x, np.expm1(np.minimum(x, 0))), (0, 1, 1)),
        (nn.softplus, lambda x, z: np.logaddexp(x, z), (0, 0.5, 1)),
    ],
)
def test_activations_of_extreme_numbers(function, limit, slopes, dtype):
    x = EXTREMES.astype(dtype)
    np.testing.assert_allclose(np.asarray(function(x)), limit(x, 0), rtol=1e-6, atol=1e-12)
    (gradient,) = ct.gradient(lambda x: np.sum(function(x)), x)
    wanted = np.where(x < 0, slopes[0], np.where(x == 0, slopes[1], slopes[2]))
    np.testing.assert_allclose(gradient, wanted, atol=1e-6)


def test_the_tail_of_gelu_does_not_cancel():
    np.testing.assert_allclose(nn.gelu(-10.0), -10 * scipy.special.ndtr(-10.0), rtol=1e-13)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_losses_of_extreme_logits(dtype):
    logits = np.array([[1e30, -1e30, 0.0], [80.0, 0.0, -80.0]], dtype)
    losses = nn.cross_entropy(logits, np.array([0, 2]), reduction="none")
    np.testing.assert_allclose(np.asarray(losses), [0.0, 160.0])
    (gradient,) = ct.gradient(lambda x: nn.cross_entropy(x, np.array([1, 2])), logits)
    np.testing.assert_allclose(gradient, [[0.5, -0.5, 0], [0.5, 0, -0.5]], atol=1e-12)
    yes = nn.binary_cross_entropy_with_logits(
        np.array([40.0, -1e30, 1e30], dtype), np.ones(3, dtype), reduction="none"
    )
    np.testing.assert_allclose(np.asarray(yes), [np.exp(-40.0), dtype(1e30), 0], rtol=1e-6)


def test_what_has_no_probability_counts_for_nothing():
    logits, p = np.array([[0.0, -np.inf]]), np.array([[1.0, 0.0]])
    assert nn.cross_entropy(logits, p) == 0
    assert nn.cross_entropy(logits, np.array([0])) == 0


def test_a_query_that_sees_nothing_gives_zero():
    mask = MASK.copy()
    mask[1] = False
    function = lambda q: nn.dot_product_attention(q, K, V, mask=mask)
    assert np.all(function(Q)[:, 1] == 0)
    (gradient,) = ct.gradient(lambda q: np.sum(function(q)), Q)
    assert np.all(np.isfinite(gradient)) and np.all(gradient[:, 1] == 0)


def test_running_statistics():
    _, (mean, var) = nn.batch_norm(IMAGES, MEAN, VAR, training=True, momentum=0.3)
    flat = np.moveaxis(IMAGES, 1, 0).reshape(6, -1)
    np.testing.assert_allclose(np.asarray(mean), 0.7 * MEAN + 0.3 * flat.mean(1))
    np.testing.assert_allclose(np.asarray(var), 0.7 * VAR + 0.3 * flat.var(1, ddof=1))
    _, (mean, var) = nn.batch_norm(IMAGES, MEAN, VAR, training=False)
    np.testing.assert_array_equal(np.asarray(mean), MEAN)

    def moved(x):
        return np.sum(nn.batch_norm(x, MEAN, VAR, training=True)[1][0])

    assert ct.gradient(moved, IMAGES) == (None,)


def test_integers_are_floats_here():
    assert nn.softmax(np.array([1, 2])).dtype == np.float64
    assert nn.mse(np.array([1, 2]), np.array([0, 2])) == 0.5
    assert nn.gelu(1).dtype == np.float64


def test_one_hot_and_embedding():
    np.testing.assert_array_equal(nn.one_hot(LABELS, 6), np.eye(6)[LABELS])
    first = nn.one_hot(LABELS, 6, np.float32, axis=0)
    assert first.dtype == np.float32
    np.testing.assert_array_equal(first, np.moveaxis(np.eye(6)[LABELS], -1, 0))
    table = RNG.standard_normal((5, 2))
    (gradient,) = ct.gradient(lambda t: np.sum(nn.embedding(t, [1, 1, 4]) * [1.0, 2.0]), table)
    np.testing.assert_array_equal(gradient[:, 0], [0, 2, 0, 0, 1])
    np.testing.assert_array_equal(gradient[:, 1], [0, 4, 0, 0, 2])


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 100), st.floats(0, 1))
def test_dropout_keeps_or_scales(seed, rate):
    x = np.linspace(1.0, 2.0, 50)
    key = ct.random.key(seed)
    dropped = np.asarray(nn.dropout(key, x, rate))
    kept = dropped != 0
    if rate < 1:
        np.testing.assert_allclose(dropped[kept], x[kept] / (1 - rate))
    assert rate > 0 or np.all(kept)
    assert rate < 1 or not np.any(kept)
    (gradient,) = ct.gradient(lambda x: np.sum(nn.dropout(key, x, rate) * x), x)
    np.testing.assert_allclose(gradient, 2 * dropped)


def test_how_much_is_dropped():
    x = np.ones((200, 200), np.float32)
    dropped = nn.dropout(KEY, x, 0.3)
    assert dropped.dtype == np.float32
    assert np.mean(dropped == 0) == pytest.approx(0.3, abs=0.01)
    assert nn.dropout(KEY, x, 0.3, deterministic=True).min() == 1
    weights = nn.dot_product_attention(
        np.zeros((1000, 2)), np.zeros((9, 2)), np.eye(9), dropout_rate=0.3, dropout_key=KEY
    )
    assert np.mean(weights == 0) == pytest.approx(0.3, abs=0.02)


def test_a_prepared_step_drops_by_the_key_that_it_gets():
    labels = ct.random.randint(KEY, (8,), 0, 3)
    x = ct.random.normal(KEY, (8, 4))

    def loss(params, key):
        hidden = nn.dropout(key, nn.gelu(x @ params["first"]), 0.3)
        return nn.cross_entropy(nn.layer_norm(hidden) @ params["second"], labels)

    keys = ct.random.split(KEY)
    params = {
        "first": nn.he_normal(keys[0], (4, 16)),
        "second": nn.glorot_uniform(keys[1], (16, 3)),
    }
    prepared = ct.prepare(loss)
    gradients = [prepared(params, ct.random.fold_in(KEY, i))[0]["second"] for i in range(3)]
    for i, gradient in enumerate(gradients):
        wanted = ct.gradient(lambda p, i=i: loss(p, ct.random.fold_in(KEY, i)), params)[0]
        np.testing.assert_allclose(gradient, wanted["second"], rtol=1e-12, atol=1e-14)
    assert not np.array_equal(gradients[0], gradients[1])
    assert prepared.num_recordings == 1


INITIALIZERS = {
    "glorot_uniform": (2 / (300 + 200), True),
    "glorot_normal": (2 / (300 + 200), False),
    "he_uniform": (2 / 300, True),
    "he_normal": (2 / 300, False),
    "lecun_uniform": (1 / 300, True),
    "lecun_normal": (1 / 300, False),
}


@pytest.mark.parametrize("name", INITIALIZERS)
def test_variance_of_initializers(name):
    variance, even = INITIALIZERS[name]
    make = getattr(nn, name)
    w = make(KEY, (300, 200), np.float32)
    assert w.dtype == np.float32 and isinstance(w, np.ndarray)
    assert w.var() == pytest.approx(variance, rel=0.02)
    assert w.mean() == pytest.approx(0, abs=4 * math.sqrt(variance / w.size))
    if even:
        assert np.max(np.abs(w)) <= math.sqrt(3 * variance) * (1 + 1e-6)
    # Kernels of convolutions: 12 * 25 numbers come in, 8 * 25 go out.
    kernel = make(KEY, (8, 12, 5, 5), in_axis=1, out_axis=0)
    assert kernel.var() == pytest.approx(variance, rel=0.1)


def test_truncated_weights_have_the_variance_that_was_asked_for():
    w = nn.variance_scaling(KEY, (100, 400), 3.0, "fan_out", "truncated_normal")
    assert w.var() == pytest.approx(3 / 400, rel=0.03)
    assert np.max(np.abs(w)) < 2.3 * math.sqrt(3 / 400)


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 3, 4)])
def test_orthogonal_weights(shape):
    w = nn.orthogonal(KEY, shape, gain=2.0).reshape(-1, shape[-1])
    gram = w.T @ w if w.shape[0] >= w.shape[1] else w @ w.T
    np.testing.assert_allclose(gram, 4 * np.eye(len(gram)), atol=1e-12)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: nn.gelu(1j), TypeError, "gelu: complex"),
        (lambda: nn.softmax(X, 3), ValueError, r"softmax: x of shape \(3, 4, 6\) has no axis 3"),
        (lambda: nn.softmax(X, where=MASK[:, :2]), ValueError, r"where of shape \(4, 2\)"),
        (lambda: nn.cross_entropy(X, LABELS[0]), ValueError, r"labels of shape \(4,\)"),
        (lambda: nn.cross_entropy(X, P[0]), ValueError, r"probabilities of shape \(4, 6\)"),
        (lambda: nn.cross_entropy(X, LABELS + 1), ValueError, "label 6 is out of range for 6"),
        (lambda: nn.cross_entropy(X, LABELS, reduction="max"), ValueError, "'mean', 'sum'"),
        (lambda: nn.cross_entropy(X, LABELS, label_smoothing=2), ValueError, "from 0 to 1"),
        (lambda: nn.cross_entropy(X, P, ignore_index=1), ValueError, "ignore_index"),
        (lambda: nn.one_hot([0.5], 3), TypeError, "one_hot: labels must be integers"),
        (lambda: nn.one_hot([3], 3), ValueError, "label 3 is out of range"),
        (lambda: nn.mse(X, X[0]), ValueError, r"mse: predictions of shape \(3, 4, 6\)"),
        (lambda: nn.huber(X, X, 0.0), ValueError, "delta must be positive"),
        (lambda: nn.layer_norm(X, W[:2]), ValueError, r"layer_norm: weight of shape \(2,\)"),
        (lambda: nn.group_norm(IMAGES, 4), ValueError, "groups=4 does not divide 6"),
        (lambda: nn.group_norm(IMAGES, 2, axis=0), ValueError, "first axis"),
        (lambda: nn.group_norm(IMAGES, 2, W[:2]), ValueError, "one number for each of 6"),
        (
            lambda: nn.batch_norm(np.ones((1, 6)), MEAN, VAR, training=True),
            ValueError,
            "more than one",
        ),
        (lambda: nn.dot_product_attention(Q, V, V), ValueError, r"query \(2, 4, 5\)"),
        (lambda: nn.dot_product_attention(Q, K, V, mask=MASK * 1.0), TypeError, "bias="),
        (lambda: nn.dot_product_attention(Q, K, V, dropout_rate=0.1), ValueError, "dropout_key"),
        (
            lambda: nn.multi_head_attention(*[X] * 3, *[np.eye(6)] * 4, num_heads=4),
            ValueError,
            "num_heads=4 does not divide the 6 columns of w_query",
        ),
        (lambda: nn.embedding(X, [0.5]), TypeError, "indices must be integers"),
        (lambda: nn.embedding(X, [7]), IndexError, "7"),
        (lambda: nn.dropout(KEY, X, 1.5), ValueError, "rate"),
        (lambda: nn.he_normal(KEY, (3,)), ValueError, "two axes"),
        (lambda: nn.variance_scaling(KEY, (3, 3), mode="fan"), ValueError, "mode must be"),
        (lambda: nn.orthogonal(KEY, (3,)), ValueError, "two axes"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        np.asarray(call())


def test_labels_that_are_not_known_yet_give_nan_out_of_range():
    losses = ct.vmap(lambda y: nn.cross_entropy(X[0, 0], y))(np.array([0, 5, 6, -1]))
    assert np.array_equal(np.isnan(losses), [False, False, True, True])
