"""Convolutions and pooling: against loops, SciPy and PyTorch; derivatives; what is refused."""

import itertools

import numpy as np
import pytest
import scipy.signal
from hypothesis import given, settings
from hypothesis import strategies as st

import cotan as ct


def draw(shape, seed=0, dtype="float64"):
    rng = np.random.default_rng([seed, *shape])
    x = rng.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.normal(size=shape)
    return x.astype(dtype)


def plain(x):
    return np.asarray(ct.dropgrad(x))


def loops(x, w, strides, pads, dilation, groups):
    """The definition, one element of the result after the other."""
    kernel = w.shape[2:]
    axes = range(len(kernel))
    padded = np.pad(x, [(0, 0), (0, 0), *pads])
    places = [
        (padded.shape[2 + a] - (kernel[a] - 1) * dilation[a] - 1) // strides[a] + 1 for a in axes
    ]
    out = np.zeros((len(x), len(w), *places), np.result_type(x, w))
    own = w.shape[1]
    for n, o in itertools.product(range(len(x)), range(len(w))):
        first = o // (len(w) // groups) * own
        for place in np.ndindex(*places):
            window = tuple(
                slice(
                    place[a] * strides[a],
                    place[a] * strides[a] + (kernel[a] - 1) * dilation[a] + 1,
                    dilation[a],
                )
                for a in axes
            )
            out[(n, o, *place)] = np.sum(padded[(n, slice(first, first + own), *window)] * w[o])
    return out


def close(actual, expected, rtol=1e-12):
    actual = plain(actual)
    assert actual.shape == expected.shape
    assert actual.dtype == expected.dtype
    scale = float(np.max(np.abs(expected), initial=1e-300))
    np.testing.assert_allclose(actual / scale, expected / scale, rtol=0, atol=rtol)


@st.composite
def convolutions(draw_from):
    axes = draw_from(st.integers(1, 3))
    groups = draw_from(st.integers(1, 3))
    own, results = draw_from(st.integers(1, 3)), draw_from(st.integers(1, 2))
    small = st.integers(1, 3)
    lists = [draw_from(st.lists(small, min_size=axes, max_size=axes)) for _ in range(3)]
    kernel, strides, dilation = lists
    pad = st.tuples(st.integers(0, 4), st.integers(0, 4))
    pads = draw_from(st.lists(pad, min_size=axes, max_size=axes))
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    lengths = [
        max(draw_from(st.integers(1, 6)), span - sum(p))
        for span, p in zip(spans, pads, strict=True)
    ]
    x = (draw_from(st.integers(1, 3)), groups * own, *lengths)
    w = (groups * results, own, *kernel)
    return x, w, {"strides": strides, "padding": pads, "dilation": dilation, "groups": groups}


@given(convolutions())
@settings(deadline=None, max_examples=60)
def test_any_convolution_is_its_definition(case):
    x, w, how = case
    x, w = draw(x), draw(w, 1)
    expected = loops(x, w, how["strides"], how["padding"], how["dilation"], how["groups"])
    close(ct.conv(x, w, **how), expected)


@given(convolutions())
@settings(deadline=None, max_examples=60)
def test_derivatives_of_any_convolution(case):
    x, w, how = case
    x, w = draw(x), draw(w, 1)
    y, back = ct.pullback(lambda x, w: ct.conv(x, w, **how), x, w)
    dy = draw(plain(y).shape, 2)
    dx, dw = (plain(g) for g in back(dy))
    # It is linear in both: <dy, conv(t, w)> = <dx, t>, exactly up to rounding.
    for tangent, found, moved in (
        (draw(x.shape, 3), dx, lambda t: ct.conv(t, w, **how)),
        (draw(w.shape, 4), dw, lambda t: ct.conv(x, t, **how)),
    ):
        ahead, behind = np.vdot(dy, plain(moved(tangent))), np.vdot(found, tangent)
        size = np.linalg.norm(dy) * np.linalg.norm(plain(moved(tangent))) + 1e-300
        assert abs(ahead - behind) <= 1e-12 * size
    transposed = {k: v for k, v in how.items() if k != "output_padding"}
    spans = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], how["dilation"], strict=True)]
    left = [
        (n + sum(p) - span) % s
        for n, p, span, s in zip(x.shape[2:], how["padding"], spans, how["strides"], strict=True)
    ]
    close(ct.conv_transpose(dy, w, **transposed, output_padding=left), dx)


@pytest.mark.parametrize("dtype", ["float32", "complex64", "complex128"])
def test_dtypes(dtype):
    x, w = draw((2, 4, 7, 6), 0, dtype), draw((6, 2, 3, 2), 1, dtype)
    pads = ((1, 0), (2, 1))
    wide = np.result_type(dtype, np.float64)
    expected = loops(x.astype(wide), w.astype(wide), (2, 1), pads, (1, 2), 2)
    found = plain(ct.conv(x, w, strides=(2, 1), padding=pads, dilation=(1, 2), groups=2))
    assert found.dtype == dtype
    np.testing.assert_allclose(
        found, expected, rtol=0, atol=1e-5 if dtype != "complex128" else 1e-12
    )


def test_gradients_of_complex_convolutions_apply_the_adjoint():
    x, w = draw((1, 2, 5), 0, "complex128"), draw((3, 2, 2), 1, "complex128")
    y, back = ct.pullback(lambda x, w: ct.conv(x, w, strides=2), x, w)
    dy = draw(plain(y).shape, 2, "complex128")
    dx, dw = (plain(g) for g in back(dy))
    tx, tw = draw(x.shape, 3, "complex128"), draw(w.shape, 4, "complex128")
    np.testing.assert_allclose(np.vdot(dy, plain(ct.conv(tx, w, strides=2))), np.vdot(dx, tx))
    np.testing.assert_allclose(np.vdot(dy, plain(ct.conv(x, tw, strides=2))), np.vdot(dw, tw))


def test_other_dtypes_are_promoted():
    x, w = np.arange(12).reshape(1, 2, 6), np.ones((1, 2, 3), np.int32)
    found = ct.conv(x, w)
    assert found.dtype == np.float64
    close(found, loops(x, w, [1], [(0, 0)], [1], 1).astype(float))
    half = ct.conv(x.astype("float16"), w.astype("float16"))
    assert half.dtype == np.float16
    np.testing.assert_array_equal(plain(half), plain(found).astype("float16"))
    assert ct.conv(x.astype("float32"), w.astype("float64")).dtype == np.float64


def test_it_is_the_correlation_of_scipy():
    x, w = draw((9, 8)), draw((3, 4), 1)
    for mode, padding in (("valid", "valid"), ("full", (2, 3))):
        expected = scipy.signal.correlate2d(x, w, mode)
        close(ct.conv(x[None, None], w[None, None], padding=padding)[0, 0], expected)


@pytest.mark.parametrize("length", [7, 8])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("kernel", [1, 2, 3, 4])
def test_same_padding_keeps_the_length(length, stride, kernel):
    x, w = draw((1, 1, length)), draw((1, 1, kernel), 1)
    found = plain(ct.conv(x, w, padding="same", strides=stride))
    assert found.shape[2] == -(-length // stride)
    total = max((found.shape[2] - 1) * stride + kernel - length, 0)
    pads = [(total // 2, total - total // 2)]
    close(found, loops(x, w, [stride], pads, [1], 1))


# Sizes at which every way through the kernel is taken: tiles over several images, over a part of
# one, sums in several parts, one tap, few taps and many.
LARGE = [
    ((3, 5, 40, 41), (8, 5, 3, 3), {"padding": 1}),
    ((40, 16, 5, 5), (24, 16, 3, 3), {"padding": 1}),
    ((2, 40, 12, 12), (30, 40, 1, 1), {}),
    ((2, 6, 30, 31), (4, 3, 5, 4), {"strides": 2, "padding": (2, 1), "groups": 2}),
    ((2, 3, 300), (4, 3, 200), {"padding": 7, "dilation": 1}),
    ((2, 2, 12, 13, 11), (3, 2, 3, 3, 2), {"padding": 1, "dilation": (1, 2, 1)}),
]


@pytest.mark.parametrize("case", range(len(LARGE)))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_large(case, dtype):
    shape, kernel, how = LARGE[case]
    x, w = draw(shape, 0, dtype), draw(kernel, 1, dtype)
    axes = len(shape) - 2

    def each(value):
        return list(value) if isinstance(value, tuple) else [value] * axes

    strides, dilation = each(how.get("strides", 1)), each(how.get("dilation", 1))
    pads = [(p, p) for p in each(how.get("padding", 0))]
    padded = np.pad(x.astype(float), [(0, 0), (0, 0), *pads])
    spans = [(k - 1) * d + 1 for k, d in zip(kernel[2:], dilation, strict=True)]
    windows = np.lib.stride_tricks.sliding_window_view(padded, spans, tuple(range(2, 2 + axes)))
    steps = tuple(slice(None, None, s) for s in strides)
    taps = tuple(slice(None, None, d) for d in dilation)
    windows = windows[(slice(None), slice(None), *steps, *taps)]
    groups = how.get("groups", 1)
    n, _, *rest = windows.shape
    windows = windows.reshape(n, groups, -1, *rest)
    cut = w.astype(float).reshape(groups, kernel[0] // groups, *kernel[1:])
    inside, places = "hij"[:axes], "pqr"[:axes]
    expected = np.einsum(
        f"ngc{places}{inside},goc{inside}->ngo{places}", windows, cut, optimize=True
    )
    expected = expected.reshape(n, kernel[0], *expected.shape[3:])
    tolerance = 2e-6 if dtype == "float32" else 1e-13
    y, back = ct.pullback(lambda x, w: ct.conv(x, w, **how), x, w)
    close(y, expected.astype(dtype), tolerance)
    dy = draw(expected.shape, 2, dtype)
    dx, dw = back(dy)
    product = np.einsum(
        f"ngc{places}{inside},ngo{places}->goc{inside}",
        windows,
        dy.astype(float).reshape(n, groups, -1, *expected.shape[2:]),
        optimize=True,
    )
    close(dw, product.reshape(kernel).astype(dtype), tolerance)
    # Back to the images: the same products, each put back to where its factor came from.
    tangent = draw(shape, 3)
    ahead = np.vdot(dy.astype(float), plain(ct.conv(tangent, w.astype(float), **how)))
    size = np.linalg.norm(dy) * np.linalg.norm(expected)
    assert abs(ahead - np.vdot(plain(dx).astype(float), tangent)) <= 10 * tolerance * size


def test_the_number_of_threads_changes_no_bit():
    x, w = draw((8, 16, 20, 20), 0, "float32"), draw((32, 16, 3, 3), 1, "float32")

    def all_three():
        y, back = ct.pullback(lambda x, w: ct.conv(x, w, padding=1), x, w)
        return [plain(a) for a in (y, *back(np.ones_like(plain(y))))]

    threads = ct.num_threads()
    found = []
    try:
        for n in (1, 2, 3):
            ct.set_num_threads(n)
            found.append(all_three())
    finally:
        ct.set_num_threads(threads)
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("x", "w", "shape"),
    [
        ((0, 2, 5), (3, 2, 2), (0, 3, 4)),
        ((2, 0, 5), (3, 0, 2), (2, 3, 4)),
        ((2, 2, 5), (0, 2, 2), (2, 0, 4)),
    ],
)
def test_nothing_to_convolve(x, w, shape):
    x, w = np.ones(x), np.ones(w)
    value, (dx, dw) = ct.value_and_gradient(lambda x, w: np.sum(ct.conv(x, w) ** 2), x, w)
    assert value == 0
    assert ct.conv(x, w).shape == shape
    np.testing.assert_array_equal(dx, np.zeros_like(x))
    np.testing.assert_array_equal(dw, np.zeros_like(w))


def test_layouts_other_than_row_major_are_taken_as_they_are():
    x, w = draw((2, 6, 7, 3)), draw((3, 3, 3, 4), 1)
    moved = x.transpose(0, 3, 2, 1)[:, :, ::-1]
    turned = w.transpose(3, 0, 2, 1)[..., ::-1]
    expected = loops(moved, turned, (1, 1), ((0, 0), (0, 0)), (1, 1), 1)
    close(ct.conv(moved, turned), expected)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ct.conv(np.ones((2, 3)), np.ones((2, 3))), r"3 to 5 axes.*\(2, 3\)"),
        (lambda: ct.conv(np.ones((1, 2, 3)), np.ones((1, 2, 3, 3))), "same number of axes"),
        (
            lambda: ct.conv(np.ones((1, 2, 5)), np.ones((1, 3, 3))),
            r"\(1, 3, 3\) are for 3 channels",
        ),
        (lambda: ct.conv(np.ones((1, 2, 5)), np.ones((3, 2, 3)), groups=2), "groups=2"),
        (lambda: ct.conv(np.ones((1, 2, 2)), np.ones((1, 2, 3))), "does not fit"),
        (lambda: ct.conv(np.ones((1, 2, 5)), np.ones((1, 2, 3)), strides=0), "strides=0"),
        (lambda: ct.conv(np.ones((1, 2, 5)), np.ones((1, 2, 3)), padding="full"), '"same"'),
        (
            lambda: ct.conv(np.ones((1, 2, 5)), np.ones((1, 2, 3)), padding=(1, 2)),
            "2 entries for 1",
        ),
        (lambda: ct.max_pool(np.ones((1, 2, 3)), 4), "does not fit"),
        (lambda: ct.max_pool(np.ones((1, 2, 3)), 2, padding=3), "contain padding only"),
        (lambda: ct.conv_transpose(np.ones((1, 2, 3)), np.ones((3, 2, 2))), "are for 3 channels"),
        (
            lambda: ct.conv_transpose(np.ones((1, 2, 3)), np.ones((2, 2, 2)), output_padding=1),
            "less than the stride",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_shapes(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def pooled(x, size, strides, pads, dilation, how, fill):
    axes = len(size)
    padded = np.pad(x, [(0, 0), (0, 0), *pads], constant_values=fill)
    spans = [(k - 1) * d + 1 for k, d in zip(size, dilation, strict=True)]
    windows = np.lib.stride_tricks.sliding_window_view(padded, spans, tuple(range(2, 2 + axes)))
    steps = tuple(slice(None, None, s) for s in strides)
    taps = tuple(slice(None, None, d) for d in dilation)
    windows = windows[(slice(None), slice(None), *steps, *taps)]
    return how(windows, axis=tuple(range(-axes, 0)))


POOLS = [
    ((2, 3, 8), {"size": 2}),
    ((2, 3, 9, 8), {"size": (3, 2), "strides": (2, 1), "padding": (1, 1)}),
    ((1, 2, 5, 6, 7), {"size": 2, "strides": 2, "padding": ((0, 1), (1, 0), (1, 1))}),
    ((2, 2, 40, 33), {"size": 3, "strides": 2, "padding": 1}),
    # the last axis in pairs: apart, with a rest, overlapping along another axis, with gaps
    ((2, 3, 12, 36), {"size": 2}),
    ((2, 2, 7, 37), {"size": 2}),
    ((1, 2, 9, 40), {"size": (3, 2), "strides": (2, 2)}),
    ((1, 2, 7, 5, 20), {"size": (2, 1, 2), "strides": (3, 1, 2)}),
]


def pool_arguments(shape, how):
    axes = len(shape) - 2

    def each(value):
        return list(value) if isinstance(value, tuple) else [value] * axes

    size = each(how["size"])
    strides = each(how.get("strides", tuple(size)))
    pads = [p if isinstance(p, tuple) else (p, p) for p in each(how.get("padding", 0))]
    return size, strides, pads


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", range(len(POOLS)))
def test_pooling(case, dtype):
    shape, how = POOLS[case]
    x = draw(shape, 0, dtype)
    size, strides, pads = pool_arguments(shape, how)
    ones = [1] * len(size)
    close(ct.max_pool(x, **how), pooled(x, size, strides, pads, ones, np.max, -np.inf))
    mean = pooled(x.astype(float), size, strides, pads, ones, np.mean, 0).astype(dtype)
    close(ct.avg_pool(x, **how), mean, 1e-6)
    of_own = pooled(x.astype(float), size, strides, pads, ones, np.nanmean, np.nan).astype(dtype)
    close(ct.avg_pool(x, **how, count_include_pad=False), of_own, 1e-6)


@pytest.mark.parametrize("case", range(len(POOLS)))
def test_derivatives_of_pooling(case):
    shape, how = POOLS[case]
    x, t = draw(shape), draw(shape, 5)
    for pool in (ct.max_pool, ct.avg_pool):
        y, back = ct.pullback(lambda x, pool=pool: pool(x, **how), x)
        dy = draw(plain(y).shape, 6)
        step = 1e-6
        ahead = np.vdot(dy, plain(pool(x + step * t, **how)) - plain(pool(x - step * t, **how)))
        np.testing.assert_allclose(np.vdot(plain(back(dy)[0]), t), ahead / (2 * step), rtol=1e-6)
        hessian = ct.gradient(
            lambda x, pool=pool: np.sum(
                ct.gradient(lambda x: np.sum(pool(x, **how) ** 3), x)[0] * t
            ),
            x,
        )[0]
        ends = [
            ct.gradient(lambda x, pool=pool: np.sum(pool(x, **how) ** 3), x + sign * step * t)[0]
            for sign in (1, -1)
        ]
        np.testing.assert_allclose(hessian, (ends[0] - ends[1]) / (2 * step), rtol=1e-5, atol=1e-7)


def test_equal_elements_and_nan():
    x = np.array([[[2.0, 2.0, 1.0, np.nan, 5.0, np.nan]]])
    np.testing.assert_array_equal(plain(ct.max_pool(x, 3)), [[[2.0, np.nan]]])
    g = ct.gradient(lambda x: np.sum(ct.max_pool(x, 3)), x)[0]
    np.testing.assert_array_equal(g, [[[1.0, 0, 0, 1.0, 0, 0]]])
    low = np.full((1, 1, 4), -np.inf)
    g = ct.gradient(lambda x: np.sum(ct.max_pool(x, 2)), low)[0]
    np.testing.assert_array_equal(g, [[[1.0, 0, 1.0, 0]]])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("width", [2, 15, 16, 18, 50])
def test_the_first_of_equal_elements(dtype, width):
    x = np.random.default_rng(width).choice([0.0, 1.0, np.nan, -np.inf], (2, 3, 6, width))
    x = x.astype(dtype)
    dy = draw((2, 3, 3, width // 2), 1, dtype)
    windows = np.lib.stride_tricks.sliding_window_view(x, (2, 2), (2, 3))[:, :, ::2, ::2]
    taps = windows.reshape(*dy.shape, 4)
    # NaN is the greatest, and the first of several counts
    which = np.argmax(np.where(np.isnan(taps), np.inf, taps), axis=-1)
    want = np.zeros_like(x)
    for tap in range(4):
        rows, columns = want[:, :, tap // 2 :: 2], tap % 2
        rows[..., columns : width // 2 * 2 : 2] = np.where(which == tap, dy, 0)
    y, back = ct.pullback(lambda x: ct.max_pool(x, 2), x)
    np.testing.assert_array_equal(plain(y), np.max(taps, axis=-1))
    np.testing.assert_array_equal(plain(back(dy)[0]), want)


def test_a_network_next_to_pytorch():
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional
    x, labels = draw((4, 3, 12, 12), 0, "float32"), np.array([1, 0, 2, 2])
    weights = [
        draw(s, i, "float32") / 4 for i, s in enumerate([(8, 3, 3, 3), (6, 8, 3, 3), (54, 3)])
    ]

    def ours(k1, k2, w):
        h = ct.max_pool(np.maximum(ct.conv(x, k1, padding=1), 0), 2)
        h = ct.avg_pool(np.maximum(ct.conv(h, k2, padding=1), 0), 2)
        z = h.reshape(4, -1) @ w
        return -np.mean(
            (z - np.log(np.sum(np.exp(z), axis=1, keepdims=True)))[np.arange(4), labels]
        )

    value, gradients = ct.value_and_gradient(ours, *weights)
    k1, k2, w = (torch.from_numpy(a).requires_grad_() for a in weights)
    h = functional.max_pool2d(torch.relu(functional.conv2d(torch.from_numpy(x), k1, padding=1)), 2)
    h = functional.avg_pool2d(torch.relu(functional.conv2d(h, k2, padding=1)), 2)
    loss = functional.cross_entropy(h.flatten(1) @ w, torch.from_numpy(labels))
    np.testing.assert_allclose(value, loss.item(), rtol=1e-5)
    for found, expected in zip(gradients, torch.autograd.grad(loss, (k1, k2, w)), strict=True):
        np.testing.assert_allclose(found, expected.numpy(), rtol=1e-4, atol=1e-6)
