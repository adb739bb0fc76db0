"""Decompositions and systems of equations: values against NumPy, derivatives to second order."""

import os
import subprocess
import sys

import numpy as np
import pytest

import cotan as ct
from cotan import _core

LA = np.linalg
RNG = np.random.default_rng(20)
DTYPES = ["float32", "float64", "complex64", "complex128"]


def random(*shape, dtype="float64", seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.normal(size=shape)
    return x.astype(dtype)


def adjoint(x):
    return np.conj(np.swapaxes(x, -1, -2))


def hermitian(x):
    return (x + adjoint(x)) / 2


def definite(x):
    return x @ adjoint(x) + 2 * np.eye(x.shape[-1])


def close(x, y, dtype="float64", scale=1.0):
    tol = 2e-4 if np.dtype(dtype).itemsize // (1 + (np.dtype(dtype).kind == "c")) == 4 else 1e-10
    np.testing.assert_allclose(x, y, rtol=tol * scale, atol=tol * scale)


def directional(f, x, t, eps):
    """Fourth-order central difference of a real function along t."""
    return (8 * (f(x + eps * t) - f(x - eps * t)) - (f(x + 2 * eps * t) - f(x - 2 * eps * t))) / (
        12 * eps
    )


def check_gradient(f, x, order=2, rtol=1e-7, eps=2e-4):
    """The gradient of a real function of an array, and that of a functional of the gradient."""
    (g,) = ct.gradient(f, x)
    assert g.shape == x.shape and g.dtype == x.dtype
    for seed in (5, 6):
        t = random(*x.shape, dtype=x.dtype, seed=seed)
        expected = directional(f, x, t, eps)
        np.testing.assert_allclose(np.real(np.vdot(g, t)), expected, rtol=rtol, atol=rtol)
    if order == 2:
        w = random(*x.shape, dtype=x.dtype, seed=7)

        def slope(x):
            (g,) = ct.gradient(f, x)
            return np.real(np.sum(np.conj(w) * g))

        check_gradient(slope, x, 1, rtol * 10, eps)


def weigh(x, seed=11):
    """A real functional that sees every element."""
    c = random(*np.shape(x), dtype=np.result_type(x.dtype, np.float32), seed=seed)
    return np.real(np.sum(c * x)) + np.sum(np.abs(x * x)) / 3


# A functional of each decomposition which does not depend on what the decomposition leaves open.
def eigh_invariant(x):
    w, v = LA.eigh(hermitian(x))
    n = w.shape[-1]
    size = np.abs(np.sum(v * random(n, dtype=x.dtype, seed=3)[:, None], -2)) ** 2
    return np.sum(size * np.arange(1.0, n + 1)) + np.sum(np.sin(w))


def svd_invariant(x):
    u, s, vh = LA.svd(x, full_matrices=False)
    core = (u * np.exp(-s)[..., None, :]) @ vh
    left = np.abs(u[..., 0]) ** 2
    right = np.abs(vh[..., -1, :]) ** 2
    return weigh(core) + weigh(left, 2) + weigh(right, 3) + np.sum(s**3) / 5


def qr_invariant(x):
    q, r = LA.qr(x)
    k = r.shape[-2]
    return weigh(np.abs(r) ** 2) + weigh((q * np.arange(1.0, k + 1)) @ adjoint(q))


def eig_invariant(x):
    w, v = LA.eig(x)
    return weigh(np.abs(v)) + weigh(np.exp(w / 2))


CASES = {
    "solve": (lambda x: weigh(LA.solve(x, random(4, 2, dtype=x.dtype, seed=1))), (4, 4)),
    "solve a vector": (lambda x: weigh(LA.solve(x, x[0])), (4, 4)),
    "solve a batch": (lambda x: weigh(LA.solve(x[0], x)), (3, 4, 4)),
    "solve for many": (lambda x: weigh(LA.solve(x, x[0])), (2, 3, 3)),
    "inv": (lambda x: weigh(LA.inv(x)), (3, 3)),
    "inv of a batch": (lambda x: weigh(LA.inv(x)), (2, 3, 3)),
    "det": (lambda x: weigh(LA.det(x)), (4, 4)),
    "det of a batch": (lambda x: weigh(LA.det(x)), (3, 2, 2)),
    "slogdet": (lambda x: weigh(LA.slogdet(x)[1]) + weigh(LA.slogdet(x)[0]), (4, 4)),
    "cholesky": (lambda x: weigh(LA.cholesky(definite(x))), (4, 4)),
    "cholesky upper": (lambda x: weigh(LA.cholesky(definite(x), upper=True)), (3, 3)),
    "cholesky of a batch": (lambda x: weigh(LA.cholesky(definite(x))), (2, 3, 3)),
    "qr": (qr_invariant, (4, 4)),
    "qr tall": (qr_invariant, (5, 3)),
    "qr wide": (qr_invariant, (3, 5)),
    "qr of a batch": (qr_invariant, (2, 4, 3)),
    "q and r": (lambda x: sum(map(weigh, LA.qr(x.real + x.imag))), (4, 3)),
    "r": (lambda x: weigh(abs(LA.qr(x, "r"))), (4, 3)),
    "complete r": (lambda x: weigh(abs(LA.qr(x, "complete")[1])), (4, 3)),
    "eigh": (eigh_invariant, (4, 4)),
    "eigh of a batch": (eigh_invariant, (2, 3, 3)),
    "cholesky of a triangle": (lambda x: weigh(LA.cholesky(x + 9 * np.eye(3))), (3, 3)),
    "cholesky of an upper triangle": (
        lambda x: weigh(LA.cholesky(x + 9 * np.eye(3), upper=True)),
        (3, 3),
    ),
    "eigvalsh of a triangle": (lambda x: weigh(LA.eigvalsh(x)), (3, 3)),
    "eigvalsh of an upper triangle": (lambda x: weigh(LA.eigvalsh(x, UPLO="U")), (3, 3)),
    "eigh of a triangle": (lambda x: weigh(np.abs(LA.eigh(x)[1])), (3, 3)),
    "eigvalsh": (lambda x: weigh(LA.eigvalsh(hermitian(x))), (4, 4)),
    "eigh upper": (lambda x: weigh(LA.eigvalsh(hermitian(x), "U")), (3, 3)),
    "svd": (svd_invariant, (4, 4)),
    "svd tall": (svd_invariant, (5, 3)),
    "svd wide": (svd_invariant, (3, 5)),
    "svd of a batch": (svd_invariant, (2, 3, 3)),
    "singular values": (lambda x: weigh(LA.svd(x, compute_uv=False)), (4, 3)),
    "hermitian svd": (
        lambda x: weigh(LA.svd(hermitian(x), compute_uv=False, hermitian=True)),
        (3, 3),
    ),
    "eigvals": (lambda x: weigh(np.exp(LA.eigvals(x) / 2)), (4, 4)),
    "eig": (eig_invariant, (4, 4)),
    "eig of a batch": (eig_invariant, (2, 3, 3)),
    "pinv tall": (lambda x: weigh(LA.pinv(x)), (4, 3)),
    "pinv wide": (lambda x: weigh(LA.pinv(x)), (3, 4)),
    "lstsq": (lambda x: weigh(LA.lstsq(x, random(5, 2, dtype=x.dtype), rcond=None)[0]), (5, 3)),
    "residuals": (lambda x: weigh(LA.lstsq(x, random(5, 2, dtype=x.dtype), rcond=None)[1]), (5, 3)),
    "lstsq wide": (lambda x: weigh(LA.lstsq(x, x[:, 0], rcond=None)[0]), (3, 5)),
    "matrix_power": (lambda x: weigh(LA.matrix_power(x, 3)), (3, 3)),
    "negative matrix_power": (lambda x: weigh(LA.matrix_power(x, -2)), (3, 3)),
    "nuclear norm": (lambda x: LA.norm(x, "nuc"), (4, 3)),
    "spectral norm": (lambda x: LA.norm(x, 2), (4, 3)),
    "smallest singular value": (lambda x: LA.norm(x, -2), (4, 3)),
    "cond": (lambda x: LA.cond(x), (3, 3)),
    "cond 1": (lambda x: LA.cond(x, 1), (3, 3)),
    "tensorsolve": (lambda x: weigh(LA.tensorsolve(x.reshape(2, 3, 6), x[:2, :3])), (6, 6)),
    "tensorinv": (lambda x: weigh(LA.tensorinv(x.reshape(2, 2, 4))), (4, 4)),
}


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("name", CASES)
def test_derivatives_to_second_order(name, dtype):
    f, shape = CASES[name]
    m, n = shape[-2:]
    x = random(*shape, dtype=dtype, seed=4) + np.eye(m, n) * np.arange(2.5, n + 2.5)
    check_gradient(f, x)
    y, _ = ct.value_and_gradient(f, x)
    np.testing.assert_allclose(y, f(x), rtol=1e-10)


@pytest.mark.parametrize(
    "name", ["solve", "cholesky", "qr", "svd", "eigh", "inv", "slogdet", "eig"]
)
def test_single_precision_is_near_double(name):
    f, shape = CASES[name]
    x = random(*shape, seed=4) + 1.5 * np.eye(*shape[-2:])
    (g,) = ct.gradient(f, x.astype("float32"))
    assert g.dtype == np.float32
    np.testing.assert_allclose(g, ct.gradient(f, x)[0], rtol=5e-3, atol=5e-3)


# --------------------------------------------------------------------------------------------------
# Values


def same(got, expected, dtype):
    assert type(got).__name__ in {type(expected).__name__, "Array"}
    got = got if isinstance(got, tuple) else (got,)
    expected = expected if isinstance(expected, tuple) else (expected,)
    assert len(got) == len(expected)
    for x, y in zip(got, expected, strict=True):
        assert np.shape(x) == np.shape(y) and np.asarray(ct_value(x)).dtype == np.asarray(y).dtype
        close(ct_value(x), y, dtype)


def ct_value(x):
    return _core.value(x) if isinstance(x, _core.Array) else x


SHAPES = [(1, 1), (2, 2), (3, 3), (17, 17), (40, 40), (2, 3, 4, 4), (0, 3, 3), (0, 0), (2, 0, 0)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_values_of_square_matrices(shape, dtype):
    x = random(*shape, dtype=dtype) + 3 * np.eye(shape[-1]).astype(dtype)
    a, b = ct.array(x), random(*shape, dtype=dtype, seed=2)
    same(LA.solve(a, b), LA.solve(x, b), dtype)
    same(LA.solve(a, b[..., :1]), LA.solve(x, b[..., :1]), dtype)
    same(LA.inv(a), LA.inv(x), dtype)
    d = LA.det(x)
    close(ct_value(LA.det(a)) / np.abs(d), d / np.abs(d), dtype, 10)
    same(LA.slogdet(a), LA.slogdet(x), dtype)
    p = definite(x) / 4
    same(LA.cholesky(ct.array(p)), LA.cholesky(p), dtype)
    h = hermitian(x)
    same(LA.eigvalsh(ct.array(h)), LA.eigvalsh(h), dtype)
    same(LA.svd(a, compute_uv=False), LA.svd(x, compute_uv=False), dtype)
    w, v = LA.eigh(ct.array(h))
    close(ct_value(v * _core.asarray(w[..., None, :], v.dtype) @ adjoint(v)), h, dtype, 10)
    w, v = LA.eig(a)
    assert (w.dtype, v.dtype) == tuple(y.dtype for y in LA.eig(x))
    close(ct_value(a @ v), ct_value(v * w[..., None, :]), dtype, 20)
    close(np.linalg.norm(ct_value(v), axis=-2), np.ones(x.shape[:-1]), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 4), (6, 3), (3, 6), (2, 30, 20), (2, 3, 0), (0, 4)])
def test_values_of_rectangular_matrices(shape, dtype):
    x = random(*shape, dtype=dtype, seed=3)
    a = ct.array(x)
    for mode in ("reduced", "complete"):
        q, r = LA.qr(a, mode)
        p, s = LA.qr(x, mode)
        assert q.shape == p.shape and r.shape == s.shape and q.dtype == p.dtype
        k = min(x.shape[-2:])
        # Signs, too, are LAPACK's; for complex matrices those of a row may differ.
        diagonal = np.diagonal(ct_value(r), axis1=-2, axis2=-1)
        assert not np.any(np.imag(diagonal))
        turn = np.ones(diagonal.shape)
        if np.dtype(dtype).kind == "c":
            turn = np.sign(np.real(diagonal)) * np.sign(np.real(np.diagonal(s, axis1=-2, axis2=-1)))
        close(turn[..., None] * ct_value(r)[..., :k, :], s[..., :k, :], dtype, 10)
        close(turn[..., None, :] * ct_value(q)[..., :k], p[..., :k], dtype, 10)
        close(ct_value(q @ r), x, dtype, 10)
    for full in (True, False):
        u, s, vh = LA.svd(a, full_matrices=full)
        expected = LA.svd(x, full_matrices=full)
        assert [y.shape for y in (u, s, vh)] == [y.shape for y in expected]
        assert [y.dtype for y in (u, s, vh)] == [y.dtype for y in expected]
        k = s.shape[-1]
        core = u[..., :k] * _core.asarray(s[..., None, :], u.dtype) @ vh[..., :k, :]
        close(ct_value(core), x, dtype, 10)
        close(
            ct_value(adjoint(u) @ u),
            np.broadcast_to(np.eye(u.shape[-1]), (*shape[:-2], u.shape[-1], u.shape[-1])),
            dtype,
        )
    same(LA.pinv(a), LA.pinv(x), dtype)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_least_squares_values(dtype):
    for shape in ((6, 3), (3, 6), (4, 4)):
        x, b = random(*shape, dtype=dtype), random(shape[0], 2, dtype=dtype, seed=1)
        for rhs in (b, b[:, 0]):
            got, expected = LA.lstsq(ct.array(x), rhs, rcond=None), LA.lstsq(x, rhs, rcond=None)
            assert got[2] == expected[2]
            for i in (0, 1, 3):
                assert got[i].dtype == expected[i].dtype
                close(ct_value(got[i]), expected[i], dtype, 100)
    low = random(5, 2, dtype=dtype) @ random(2, 4, dtype=dtype, seed=9)
    got = LA.lstsq(ct.array(low), random(5, dtype=dtype), rcond=None)
    expected = LA.lstsq(low, random(5, dtype=dtype), rcond=None)
    close(ct_value(got[0]), expected[0], dtype, 100)
    assert got[2] == expected[2] == 2 and got[1].size == 0


@pytest.mark.parametrize("rcond", [0, 1, 2.0, -1, -3.0, 1e-30, 0.5])
def test_least_squares_by_what_is_left_out(rcond):
    x = random(6, 3)
    # A constant of no influence, so that nothing is left to the last digits.
    x[:, 2] = 0.0 if rcond == 0.5 else x[:, 2]
    for a in (x, x + 0j):
        b = random(6, seed=1)
        got, expected = LA.lstsq(ct.array(a), b, rcond), LA.lstsq(a, b, rcond)
        assert got[2] == expected[2]
        assert got[1].shape == expected[1].shape
        close(ct_value(got[0]), expected[0], "float64", 100)
    low = random(6, 2) @ random(2, 3, seed=9)
    if rcond != 1e-30:  # which keeps what is nothing but rounding
        assert LA.lstsq(ct.array(low), b, rcond)[2] == LA.lstsq(low, b, rcond)[2]


def test_norms_and_conditions():
    x = random(2, 4, 3)
    a = ct.array(x)
    for ord in (2, -2, "nuc"):
        for axis in ((-2, -1), (0, 2), (2, 0)):
            for keep in (False, True):
                close(ct_value(LA.norm(a, ord, axis, keep)), LA.norm(x, ord, axis, keep))
        close(ct_value(LA.matrix_norm(a, ord=ord)), LA.matrix_norm(x, ord=ord))
    square = random(2, 3, 3)
    for p in (None, 2, -2, 1, -1, np.inf, -np.inf, "fro"):
        close(ct_value(LA.cond(ct.array(square), p)), LA.cond(square, p))
    assert LA.cond(ct.array(np.zeros((2, 2)))) == np.inf
    assert LA.matrix_rank(a).tolist() == LA.matrix_rank(x).tolist()
    assert LA.matrix_power(ct.array(np.eye(3, dtype=int) * 2), 5).dtype == np.int64
    close(ct_value(LA.svdvals(a)), LA.svdvals(x))


def test_layouts():
    x = random(3, 5, 5, seed=8) + 4 * np.eye(5)
    a = ct.array(x)
    for view in (
        lambda y: y.swapaxes(-1, -2),
        lambda y: y[::-1, ::2, 1::2][:, :2, :2],
        lambda y: np.moveaxis(y, 0, 2)[:3, :3],
    ):
        y, b = view(x), view(a)
        close(ct_value(LA.inv(b)), LA.inv(y), scale=100)
        close(ct_value(LA.svd(b, compute_uv=False)), LA.svd(y, compute_uv=False))
        close(ct_value(LA.eigvalsh(b)), LA.eigvalsh(y))
    # Of a Hermitian matrix only one triangle is read, and only that one gets a gradient.
    low = np.tril(definite(x[0]))
    close(ct_value(LA.cholesky(ct.array(low))), LA.cholesky(low))
    close(ct_value(LA.cholesky(ct.array(low.T), upper=True)), LA.cholesky(low.T, upper=True))
    close(ct_value(LA.eigvalsh(ct.array(low.T), "U")), LA.eigvalsh(low.T, "U"))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(49, 49), (130, 130), (200, 200), (2, 193, 193)])
def test_eigenvectors_of_larger_matrices(shape, dtype):
    x = hermitian(random(*shape, dtype=dtype, seed=3))
    # Values in groups, which has to leave vectors orthogonal.
    x[..., :20, :] = x[..., :, :20] = 0
    x[..., range(20), range(20)] = np.arange(20) // 5
    eps = np.finfo(dtype).eps * 100 * np.abs(LA.eigvalsh(x)).max()
    w, v = map(np.asarray, LA.eigh(ct.array(x)))
    assert v.dtype == x.dtype and w.dtype == x.real.dtype
    np.testing.assert_allclose(w, LA.eigvalsh(x), atol=eps, rtol=0)
    np.testing.assert_allclose(np.asarray(LA.eigvalsh(ct.array(x))), w, atol=eps, rtol=0)
    np.testing.assert_allclose(x @ v, v * w[..., None, :], atol=eps, rtol=0)
    identity = np.broadcast_to(np.eye(shape[-1]), shape)
    np.testing.assert_allclose(adjoint(v) @ v, identity, atol=np.finfo(dtype).eps * 100, rtol=0)


def test_eigenvalues_that_have_no_reciprocal():
    x = np.diag(np.r_[np.ones(24), np.full(25, 1e-310)])
    w, v = map(np.asarray, LA.eigh(ct.array(x)))
    np.testing.assert_allclose(w, np.r_[np.zeros(25), np.ones(24)], atol=1e-300)
    np.testing.assert_allclose(v.T @ v, np.eye(49), atol=1e-14)


def test_threads_do_not_change_eigenvectors():
    code = (
        "import numpy as np, cotan as ct\n"
        "x = np.random.default_rng(0).normal(size=(300, 300))\n"
        "w, v = np.linalg.eigh(ct.array(x + x.T))\n"
        "print(hash(np.asarray(w).tobytes() + np.asarray(v).tobytes()))"
    )
    base = os.environ | {"PYTHONHASHSEED": "0"}
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=base | {"COTAN_NUM_THREADS": str(threads)},
            capture_output=True,
            check=True,
        ).stdout
        for threads in (1, 2, 3)
    }
    assert len(seen) == 1
