"""Reductions whose results are read again in the same pass, and products of repeated operands."""

import itertools

import numpy as np
import pytest

import cotan as ct


def softmax(x, w):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return np.sum(e / np.sum(e, axis=-1, keepdims=True) * w)


def normalised(x, gamma, beta, w):
    centred = x - np.mean(x, axis=-1, keepdims=True)
    variance = np.mean(centred**2, axis=-1, keepdims=True)
    return np.sum((centred / np.sqrt(variance + 1e-5) * gamma + beta) * w)


def softmax_by_hand(x, w):
    x, w = x.astype(np.longdouble), w.astype(np.longdouble)
    p = np.exp(x - x.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    return np.sum(p * w), p * w - p * (p * w).sum(-1, keepdims=True)


def normalised_by_hand(x, gamma, beta, w):
    x, gamma, beta, w = (a.astype(np.longdouble) for a in (x, gamma, beta, w))
    y = x - x.mean(-1, keepdims=True)
    scale = 1 / np.sqrt(np.mean(y * y, axis=-1, keepdims=True) + np.longdouble(1e-5))
    y *= scale
    dy = w * gamma
    dx = dy - dy.mean(-1, keepdims=True) - y * (dy * y).mean(-1, keepdims=True)
    lead = tuple(range(x.ndim - 1))
    return np.sum((y * gamma + beta) * w), (dx * scale, (y * w).sum(lead), w.sum(lead))


SHAPES = [
    (1, 7),
    (2, 2),
    (3, 1),
    (5, 33),
    (128, 10),
    (64, 64),
    (7, 1000),
    (2, 3, 17),
    (300, 5000),
    (2, 40000),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_softmax(shape, dtype):
    rng = np.random.default_rng(1)
    x, w = (rng.normal(size=shape).astype(dtype) for _ in range(2))
    value, dx = ct.value_and_gradient(softmax, x, ct.const(w))
    want, dwant = softmax_by_hand(x, w)
    eps = np.finfo(dtype).eps
    assert abs(value - want) <= 64 * eps * np.abs(softmax_by_hand(x, np.abs(w))[0])
    np.testing.assert_allclose(dx[0] if isinstance(dx, tuple) else dx, dwant, rtol=0, atol=64 * eps)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [s for s in SHAPES if s[-1] > 2], ids=str)
def test_normalised(shape, dtype):
    rng = np.random.default_rng(2)
    x, w = (rng.normal(size=shape).astype(dtype) for _ in range(2))
    gamma, beta = (rng.normal(size=shape[-1]).astype(dtype) for _ in range(2))
    value, (dx, dgamma, dbeta, _) = ct.value_and_gradient(normalised, x, gamma, beta, ct.const(w))
    want, dwant = normalised_by_hand(x, gamma, beta, w)
    eps, rows = np.finfo(dtype).eps, np.prod(shape[:-1])
    assert abs(value - want) <= 8 * eps * np.sum(np.abs(w)) * 8
    np.testing.assert_allclose(dx, dwant[0], rtol=0, atol=256 * eps * np.abs(dwant[0]).max())
    np.testing.assert_allclose(dgamma, dwant[1], rtol=0, atol=16 * eps * rows**0.5 * 8)
    np.testing.assert_allclose(dbeta, dwant[2], rtol=0, atol=16 * eps * rows**0.5 * 8)


def test_square_matrices_keep_rows_and_columns_apart():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(48, 48))
    # A sum without keepdims broadcasts along the other axis.
    (dx,) = ct.gradient(lambda x: np.sum(np.sin(x) / (2 + np.sum(x * x, axis=1))), x)
    r = 2 + np.sum(x * x, axis=1)
    want = np.cos(x) / r - 2 * x * (np.sum(np.sin(x), axis=0) / r**2)[:, None]
    np.testing.assert_allclose(dx, want, rtol=1e-12, atol=1e-13)
    (dx,) = ct.gradient(lambda x: np.sum(np.sin(x) / (2 + np.sum(x * x, axis=1, keepdims=True))), x)
    r = r[:, None]
    want = np.cos(x) / r - 2 * x * np.sum(np.sin(x), axis=1, keepdims=True) / r**2
    np.testing.assert_allclose(dx, want, rtol=1e-12, atol=1e-13)


def test_row_values_are_results_too():
    rng = np.random.default_rng(4)
    x = rng.normal(size=(200, 300))

    def f(x):
        m = x.max(1, keepdims=True)
        total = np.exp(x - m).sum(1, keepdims=True)
        lse = m + np.log(total)
        return lse, x - lse, (x - lse).sum(0)

    lse, logp, columns = (
        np.asarray(a.force() if hasattr(a, "force") else a) for a in ct.pullback(f, x)[0]
    )
    want = np.log(np.sum(np.exp(x), axis=1, keepdims=True))
    np.testing.assert_allclose(lse, want, rtol=1e-13)
    np.testing.assert_allclose(logp, x - want, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(columns, (x - want).sum(0), rtol=1e-12)


@pytest.mark.parametrize("shape", [(500, 700), (4096, 64), (3, 9000)], ids=str)
def test_any_number_of_threads_gives_the_same_bits(shape):
    rng = np.random.default_rng(5)
    x, w = (rng.normal(size=shape).astype(np.float32) for _ in range(2))
    gamma, beta = (rng.normal(size=shape[-1]).astype(np.float32) for _ in range(2))
    before = ct.num_threads()
    results = []
    try:
        for threads in (1, 2, 3):
            ct.set_num_threads(threads)
            value, grads = ct.value_and_gradient(normalised, x, gamma, beta, ct.const(w))
            results.append([np.asarray(value).tobytes()] + [g.tobytes() for g in grads[:3]])
    finally:
        ct.set_num_threads(before)
    assert results[0] == results[1] == results[2]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "shapes",
    [((3, 5), (5, 4)), ((130, 257), (257, 65)), ((2, 6, 5), (5, 7)), ((2, 6, 5), (2, 5, 7))],
    ids=str,
)
def test_sum_of_a_product(shapes, dtype):
    rng = np.random.default_rng(6)
    a, b = (rng.normal(size=s).astype(dtype) for s in shapes)
    da, db = ct.gradient(lambda a, b: np.sum(a @ b) * 0.3, a, b)
    ones = np.ones(
        (a[..., :1] * np.ones(b.shape[-1])).shape if a.ndim > 2 else (a.shape[0], b.shape[1])
    )
    a, b = a.astype(float), b.astype(float)
    want_a = 0.3 * ones @ np.swapaxes(b, -1, -2)
    want_b = 0.3 * np.swapaxes(a, -1, -2) @ ones
    if want_b.ndim > b.ndim:
        want_b = want_b.sum(0)
    tolerance = 64 * np.finfo(dtype).eps * max(shapes[0])
    np.testing.assert_allclose(da, want_a, rtol=0, atol=tolerance)
    np.testing.assert_allclose(db, want_b, rtol=0, atol=tolerance)


def test_repeated_operands():
    rng = np.random.default_rng(7)
    a, column, row = rng.normal(size=(6, 5)), rng.normal(size=(5, 1)), rng.normal(size=5)
    for wide in (np.broadcast_to(column, (5, 4)), np.broadcast_to(row[:4], (5, 4))):
        (got,) = ct.gradient(lambda a, w=wide: np.sum((a @ w) ** 2), a)
        np.testing.assert_allclose(got, 2 * (a @ wide) @ wide.T, rtol=1e-12)
    # What is not finite is multiplied as it stands.
    big = np.array([[1e308, 1e308, -1e308]])
    half = np.broadcast_to(np.array(0.5), (3, 2))
    (got,) = ct.gradient(
        lambda c: np.sum(np.matmul(ct.dropgrad(c * 0 + big), half) * c[:, :2]), np.ones((1, 3))
    )
    np.testing.assert_allclose(got[0, :2], (big @ half)[0])


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_repeated_factors_that_are_not_finite(bad):
    a = np.array([[1.0, 2.0], [3.0, -5.0], [-7.0, 1.0]])
    y = np.asarray(ct.pullback(lambda v: np.broadcast_to(v, (3,)) @ a, np.array([bad]))[0])
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(y, np.full(3, bad) @ a)
    b = np.array([[1.0, -3.0], [2.0, 1.0]])
    (g,) = ct.gradient(lambda a: bad * np.sum(a @ b), np.ones((2, 2)))
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(g, np.full((2, 2), bad) @ b.T)


@pytest.mark.parametrize("shape", [(2, 1, 3), (1, 2, 3), (2, 3, 1), (2, 1, 1, 3), (1, 2, 70)])
def test_axes_of_length_one_give_other_axes_the_same_rows(shape):
    """Rows are the same whether an axis of length one is among them, and are in one pass."""
    rng = np.random.default_rng(8)
    x = rng.normal(size=shape)
    every = range(len(shape))
    axes = [a for n in every for a in itertools.combinations(every, n + 1)]

    def f(x, these, others):
        scaled = (x - np.mean(x, axis=these, keepdims=True)) * x
        return scaled, np.sum(scaled, axis=others), np.max(scaled, axis=others)

    for these, others in itertools.product(axes, axes):
        program = ct.trace(lambda x, a=these, b=others: f(x, a, b), x)
        for got, want in zip(program(x), f(x, these, others), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


def test_the_spread_of_rows_that_are_cut_off():
    x = np.array([[[0.064, -0.827, -0.173]], [[1.335, -0.039, -0.113]]])

    def f(low, x):
        return np.sum(np.std(np.clip(x, low, None), axis=(1, 2)) * [1.0, 10.0])

    value, (slope, dx) = ct.value_and_gradient(f, 0.355, x)
    assert value == pytest.approx(f(0.355, x))
    assert slope == pytest.approx(-10 * np.sqrt(2) / 3)
    np.testing.assert_allclose(dx, [[[0, 0, 0]], [[10 * np.sqrt(2) / 3, 0, 0]]])
