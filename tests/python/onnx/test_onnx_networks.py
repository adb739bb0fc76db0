"""Networks exported with their gradients: pooling, and the functions of `cotan.nn`."""

import numpy as np
import pytest
from onnx_checks import RTOL, applied, check, run, same
from table_cases import TABLE, arguments, cases

import cotan as ct
from cotan import nn
from cotan._src.onnx.windows import TAPWISE

RNG = np.random.default_rng(0)


def check_gradient(tmp_path, f, *args, others=(), dynamic=None):
    """Export a function with its gradient, and run it on these and on other arguments."""
    path = tmp_path / "f.onnx"
    ct.to_onnx(f, *args, path=path, gradient=True, dynamic=dynamic)
    for given in (args, *others):
        value, gradients = ct.value_and_gradient(f, *given)
        wanted = [value, *(g for g in gradients if g is not None)]
        for mine, theirs in zip(run(path, *given), wanted, strict=True):
            rtol = 20 * RTOL[str(mine.dtype)]
            same(mine, theirs, rtol, rtol)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("name", "number"), cases(lambda entry: entry["name"] in TAPWISE))
def test_primitives_that_are_written_tap_by_tap(tmp_path, name, number, dtype):
    args, params = arguments(name, number, dtype)
    check(tmp_path, applied(name, params), *args, rtol=RTOL[dtype], atol=RTOL[dtype] / 10)
    assert TABLE[name]["onnx_operator"] is None


POOLS = [
    {"size": 2},
    {"size": 3, "strides": 2, "padding": 1},
    {"size": (2, 3), "strides": (1, 2), "padding": (1, 1), "dilation": (2, 1)},
    # Elements between the windows, and behind the last one.
    {"size": 2, "strides": 5},
]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("windows", POOLS)
def test_the_gradient_of_max_pool(tmp_path, windows, dtype):
    """Integers have ties; what is around the array is less than minus infinity in it."""
    images = RNG.integers(0, 3, (2, 3, 7, 8)).astype(dtype)
    weights = RNG.standard_normal(ct.max_pool(images, **windows).shape).astype(dtype)
    low, gaps = images.copy(), images.copy()
    low[0, 0, :4, :4] = -np.inf
    gaps[1, 2, 2:4, 2:4] = np.nan

    def gradient(x):
        return ct.gradient(lambda x: np.sum(ct.max_pool(x, **windows) * weights), x)[0]

    path = tmp_path / "f.onnx"
    ct.to_onnx(gradient, images, path=path)
    for x in (images, RNG.standard_normal(images.shape).astype(dtype), low, gaps):
        (mine,) = run(path, x)
        same(mine, gradient(x), RTOL[images.dtype.name], 1e-6 if dtype == np.float32 else 1e-14)


def test_pooling_along_other_numbers_of_axes(tmp_path):
    square = lambda **options: lambda x: np.sum(ct.max_pool(x, **options) ** 2)
    check_gradient(tmp_path, square(size=3, strides=2), RNG.standard_normal((2, 1, 9)))
    check_gradient(tmp_path, square(size=2, strides=1), RNG.standard_normal((2, 1, 3, 4, 3)))


def test_the_second_derivative_of_max_pool(tmp_path):
    def slope(x):
        return np.sum(ct.gradient(lambda x: np.sum(ct.max_pool(x, 2) ** 3), x)[0] ** 2)

    check_gradient(tmp_path, slope, RNG.standard_normal((1, 1, 4, 4)))


def test_pooling_of_open_sizes(tmp_path):
    f = lambda x: np.sum(ct.max_pool(x, 3, strides=1, padding=1) ** 2)
    x, other = RNG.standard_normal((2, 1, 4, 6)), RNG.standard_normal((5, 1, 4, 9))
    check_gradient(tmp_path, f, x, others=[(other,)], dynamic={"x": {0: "n", 3: "width"}})


def test_a_network_of_convolutions_with_its_gradient(tmp_path):
    labels = np.array([0, 2])

    def loss(x, kernel, dense):
        hidden = ct.max_pool(nn.relu(ct.conv(x, kernel, padding=1)), 2)
        return nn.cross_entropy(hidden.reshape(len(x), -1) @ dense, labels)

    args = [RNG.standard_normal(s) for s in ((2, 1, 6, 6), (3, 1, 3, 3), (27, 3))]
    check_gradient(tmp_path, loss, *args)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_network_with_its_gradient(tmp_path, dtype):
    labels = np.array([0, 2, 1, 1])

    def loss(x, w1, b1, scale, w2):
        hidden = nn.layer_norm(nn.gelu(x @ w1 + b1), scale)
        hidden = nn.gelu(hidden, approximate=True) + nn.silu(hidden)
        return nn.cross_entropy(hidden @ w2, labels, label_smoothing=0.1)

    shapes = ((4, 6), (6, 8), (8,), (8,), (8, 3))
    check_gradient(tmp_path, loss, *(RNG.standard_normal(s).astype(dtype) for s in shapes))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_attention_with_its_gradient(tmp_path, dtype):
    def loss(x, w1, w2):
        query = x @ w1
        mixed = nn.dot_product_attention(query, query, x, is_causal=True)
        mixed = nn.multi_head_attention(mixed, mixed, mixed, w2, w2, w2, w2, num_heads=2)
        return nn.mse(nn.rms_norm(mixed), x)

    shapes = ((2, 5, 6), (6, 6), (6, 6))
    args = (RNG.standard_normal(s).astype(dtype) for s in shapes)
    check_gradient(tmp_path, loss, *args)


ZEROS, ONES = np.zeros(6), np.ones(6)


@pytest.mark.parametrize(
    "f",
    [
        nn.softmax,
        lambda x: nn.softmax(x, where=np.tri(4, 6, dtype=bool)),
        lambda x: nn.log_softmax(x, 0),
        nn.elu,
        nn.selu,
        nn.leaky_relu,
        lambda x: nn.binary_cross_entropy_with_logits(x, np.full((4, 6), 0.3)),
        lambda x: nn.huber(x, np.ones((4, 6))),
        lambda x: nn.group_norm(x.reshape(2, 4, 3), 2),
        lambda x: nn.batch_norm(x, ZEROS, ONES, training=True)[0],
        lambda x: nn.batch_norm(x, ZEROS, ONES, training=False)[0],
        lambda x: nn.embedding(x, [0, 1, 1]),
        lambda x: nn.dropout(ct.random.key(0), x),
    ],
)
def test_functions_with_their_gradients(tmp_path, f):
    weighted = lambda x: np.sum(np.sin(f(x)) * np.arange(f(x).size).reshape(f(x).shape))
    check_gradient(tmp_path, weighted, RNG.standard_normal((4, 6)))


@pytest.mark.parametrize(
    "f",
    [lambda x: nn.softmax(nn.layer_norm(x)), lambda x: nn.dot_product_attention(x, x, x)],
)
def test_open_sizes(tmp_path, f):
    x, other = RNG.standard_normal((4, 6)), RNG.standard_normal((7, 6))
    first = lambda x: np.sum(f(x)[..., 0])
    check_gradient(tmp_path, first, x, others=[(other,)], dynamic={"x": {0: "n"}})


def test_labels_may_be_an_input(tmp_path):
    path = tmp_path / "f.onnx"
    ct.to_onnx(nn.cross_entropy, np.ones((2, 3)), np.array([0, 1]), path=path)
    logits = RNG.standard_normal((2, 3))
    for labels in ([2, 0], [1, 1]):
        (loss,) = run(path, logits, np.array(labels))
        assert loss == pytest.approx(float(nn.cross_entropy(logits, np.array(labels))))


def test_a_key_cannot_be_an_input(tmp_path):
    draw = lambda key: ct.random.normal(key, 3)
    with pytest.raises(ValueError, match="uint64 has no arithmetic in ONNX"):
        ct.to_onnx(draw, ct.random.key(0), path=tmp_path / "f.onnx")
