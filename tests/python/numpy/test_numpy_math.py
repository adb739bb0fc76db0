"""NumPy's elementwise functions, linear algebra and writers on `Array`s; see `numpy_cases`."""

import numpy as np
import pytest
from numpy_cases import check, flattened, wrote

import cotan as ct
from cotan._src.runtime.values import in_numpy

ELEMENTWISE = {
    "round": [
        lambda v: np.round(v),
        lambda m: np.round(m, 1),
        lambda m: np.round(m * 100, -1),
        lambda k: np.round(k),
        lambda i: np.round(i * 17, -1),
        lambda z: np.round(z, 1),
        lambda b: np.round(b),
        lambda f: np.round(f, 2),
    ],
    "around": [lambda m: np.around(m, 1)],
    "fix": [lambda v: np.fix(v), lambda f: np.fix(f)],
    "sinc": [
        lambda v: np.sinc(v),
        lambda x: np.sinc(x),
        lambda f: np.sinc(f),
        lambda i: np.sinc(i),
    ],
    "i0": [lambda v: np.i0(v), lambda v: np.i0(v * 20)],
    "angle": [lambda z: np.angle(z), lambda z: np.angle(z, deg=True), lambda v: np.angle(v)],
    "real": [lambda z: np.real(z), lambda v: np.real(v)],
    "imag": [lambda z: np.imag(z), lambda v: np.imag(v)],
    "real_if_close": [
        lambda v: np.real_if_close(v + 0j),
        lambda z: np.real_if_close(z),
        lambda v: np.real_if_close(v),
    ],
    "nan_to_num": [
        lambda d: np.nan_to_num(d),
        lambda d: np.nan_to_num(d, nan=2.5),
        lambda v: np.nan_to_num(np.concatenate([v, [np.inf, -np.inf]]), posinf=1, neginf=-2),
        lambda i: np.nan_to_num(i),
        lambda f: np.nan_to_num(f * np.float32(np.inf)),
        lambda z: np.nan_to_num(z),
    ],
    "unwrap": [
        lambda v: np.unwrap(v * 4),
        lambda m: np.unwrap(m * 3, axis=0),
        lambda i: np.unwrap(i, period=4),
    ],
    "interp": [
        lambda v, s, w: np.interp(v, s, w),
        lambda v, s, w: np.interp(v, s, w, left=-1.0, right=5.5),
        lambda v, s, w: np.interp(v, s, w, period=4.5),
        lambda x, s, w: np.interp(x, s, w),
        lambda v, s, z: np.interp(v, s, z),
        lambda m, s, w: np.interp(m, s, w),
    ],
    "clip": [
        lambda v: np.clip(v, -0.5, 0.5),
        lambda m: np.clip(m, None, 0.3),
        lambda m, n: np.clip(m, n, n + 0.4),
        lambda m: np.clip(m, min=0.1),
        lambda k: np.clip(k, 0, 3),
        lambda k: np.clip(k, 0.5, 3),
        lambda d: np.clip(d, 0, 1),
        lambda f: np.clip(f, 0, 1),
        lambda m: np.clip(m, 0, 1, out=np.zeros_like(m)),
        lambda v: np.clip(v, 1.0, -1.0),
    ],
    "where": [
        lambda m: np.where(np.array([0, 1, 2, 0], np.int8), m, 0.0),
        lambda m, n, b: np.where(b, m, n),
        lambda m: np.where(m > 0, m, 0),
        lambda k: np.where(k),
        lambda k, m: np.where(k, m, -1),
        lambda f, b: np.where(b, f, 1.5),
        lambda a, m: np.where(m > 0, a[:, None], m),
        lambda z, v, c: np.where(c, z, v),
    ],
    "choose": [
        lambda m, n: np.choose([[0, 1, 1, 0]], [m, n]),
        lambda i, v, w: np.choose(i, [v, w, 1.0], mode="clip"),
        lambda i, v, w: np.choose(i, [v, w], mode="wrap"),
        lambda c, f: np.choose(c[:4].astype(int), [f[0], 1.0]),
    ],
    "select": [
        lambda v, w: np.select([v > 0.3, v > -0.3], [w, v * w], 7.0),
        lambda v: np.select([v > 0], [v]),
        lambda k: np.select([k > 2, k > 1], [k, 2 * k], -1),
    ],
    "piecewise": [
        lambda v: np.piecewise(v, [v < 0, v >= 0], [lambda t: t**2, lambda t: 3 * t]),
        lambda v: np.piecewise(v, [v < 0], [-1.5, lambda t: np.exp(t)]),
    ],
    "diff": [
        lambda v: np.diff(v),
        lambda m: np.diff(m, 2, axis=1),
        lambda m: np.diff(m, axis=0, prepend=0.5),
        lambda v, w: np.diff(v, append=w[:2]),
        lambda b: np.diff(b),
        lambda k: np.diff(k, axis=-1),
        lambda v: np.diff(v, 0),
    ],
    "ediff1d": [lambda v: np.ediff1d(v), lambda m: np.ediff1d(m, to_begin=1.0, to_end=[2.0, 3.0])],
    "gradient": [
        lambda v: np.gradient(v),
        lambda m: np.gradient(m),
        lambda m: np.gradient(m, 0.5, axis=1),
        lambda v, s: np.gradient(v, s),
        lambda v: np.gradient(v, edge_order=2),
        lambda v, s: np.gradient(v, s, edge_order=2),
        lambda i: np.gradient(i),
    ],
    "trapz": [lambda v: np.trapz(v)],  # noqa: NPY201 - while there are versions that have it
    "trapezoid": [
        lambda v: np.trapezoid(v),
        lambda m: np.trapezoid(m, dx=0.5, axis=0),
        lambda v, s: np.trapezoid(v, s),
        lambda m, a: np.trapezoid(m, a, axis=0),
    ],
    "bincount": [
        lambda i: np.bincount(i),
        lambda i, v: np.bincount(i, v),
        lambda i, v: np.bincount(i, weights=v, minlength=9),
        lambda i, j: np.bincount(i, j),
    ],
    "histogram": [
        lambda k: np.histogram(k, 3)[0],
        lambda i: np.histogram(i, 3)[1],
        lambda v: np.histogram(v)[0],
        lambda v, s: np.histogram(v, bins=[-1, 0, 1], weights=s),
        lambda v: np.histogram(v, 3, (-1.0, 1.0)),
        lambda v: np.histogram(v, 3, range=(-2, 2))[0],
    ],
    "histogram_bin_edges": [
        lambda v: np.histogram_bin_edges(v, 4, (-1, 1)),
        lambda v: np.histogram_bin_edges(v, 4),
    ],
    "histogram2d": [lambda v, w: np.histogram2d(v, w, 3, [[-2, 2], [-2, 2]])[0]],
    "histogramdd": [lambda r: np.histogramdd(r, 3, [(-2, 2), (-2, 2)])[0]],
    "iscomplex": [lambda z: np.iscomplex(z), lambda v: np.iscomplex(v)],
    "isreal": [lambda z: np.isreal(z.real), lambda v: np.isreal(v)],
    "iscomplexobj": [lambda z: np.iscomplexobj(z), lambda v: np.iscomplexobj(v)],
    "isrealobj": [lambda z: np.isrealobj(z), lambda v: np.isrealobj(v)],
    "isneginf": [lambda v: np.isneginf(np.log(np.maximum(v, 0) * 0))],
    "isposinf": [lambda v: np.isposinf(-np.log(np.maximum(v, 0) * 0))],
    "isclose": [lambda v: np.isclose(v, v + 1e-12), lambda d: np.isclose(d, d, equal_nan=True)],
    "allclose": [lambda v, w: np.allclose(v, w), lambda v: np.allclose(v, v)],
    "array_equal": [
        lambda v: np.array_equal(v, v),
        lambda v, w: np.array_equal(v, w),
        lambda d: np.array_equal(d, d, equal_nan=True),
    ],
    "array_equiv": [lambda v: np.array_equiv(v, v[None])],
    "lib.scimath.sqrt": [lambda s: np.lib.scimath.sqrt(s), lambda v: np.lib.scimath.sqrt(v)],
    "lib.scimath.log": [lambda v: np.lib.scimath.log(v)],
    "lib.scimath.log2": [lambda v: np.lib.scimath.log2(v)],
    "lib.scimath.log10": [lambda v: np.lib.scimath.log10(v)],
    "lib.scimath.logn": [lambda s: np.lib.scimath.logn(3, s)],
    "lib.scimath.power": [
        lambda s: np.lib.scimath.power(s, 1.5),
        lambda v: np.lib.scimath.power(v, 2),
    ],
    "lib.scimath.arccos": [lambda u: np.lib.scimath.arccos(u)],
    "lib.scimath.arcsin": [lambda u: np.lib.scimath.arcsin(u)],
    "lib.scimath.arctanh": [lambda u: np.lib.scimath.arctanh(u)],
}

LINEAR = {
    "dot": [
        lambda v, w: np.dot(v, w),
        lambda m, r: np.dot(m, r),
        lambda t, r: np.dot(t, r),
        lambda t: np.dot(t, t.swapaxes(1, 2)),
        lambda x, v: np.dot(x, v),
        lambda a, m: np.dot(a, m),
        lambda i, j: np.dot(i, j),
        lambda q, y: np.dot(q, y),
        lambda m, r: np.dot(m, r, out=np.zeros_like(m[:, :2])),
    ],
    "vdot": [lambda v, w: np.vdot(v, w), lambda z, v: np.vdot(z, v), lambda m, n: np.vdot(m, n)],
    "inner": [
        lambda v, w: np.inner(v, w),
        lambda m, n: np.inner(m, n),
        lambda t, m: np.inner(t, m),
        lambda x, m: np.inner(x, m),
    ],
    "outer": [
        lambda v, a: np.outer(v, a),
        lambda m, a: np.outer(m, a),
        lambda i, j: np.outer(i, j),
    ],
    "linalg.outer": [lambda v, a: np.linalg.outer(v, a)],
    "linalg.matmul": [lambda m, r: np.linalg.matmul(m, r)],
    "linalg.vecdot": [
        lambda m, n: np.linalg.vecdot(m, n),
        lambda m, n: np.linalg.vecdot(m, n, axis=0),
        lambda y: np.linalg.vecdot(y, y * 1j),
    ],
    "tensordot": [
        lambda t, m: np.tensordot(t, m),
        lambda t, r: np.tensordot(t, r, 1),
        lambda t, m: np.tensordot(t, m, axes=([1, 2], [0, 1])),
        lambda t: np.tensordot(t, t, ([0, 2], [0, -1])),
        lambda v, a: np.tensordot(v, a, 0),
    ],
    "linalg.tensordot": [lambda t, m: np.linalg.tensordot(t, m, axes=2)],
    "kron": [
        lambda a, v: np.kron(a, v),
        lambda m, q: np.kron(m, q),
        lambda q, a: np.kron(q, a),
        lambda t, a: np.kron(t, a),
    ],
    "cross": [
        lambda q: np.cross(q, q[::-1]),
        lambda a, q: np.cross(a, q, axis=0) if False else np.cross(a, q),
        lambda q, m: np.cross(q, m[:, :3].T, axisb=0, axisc=0),
    ],
    "linalg.cross": [
        lambda q: np.linalg.cross(q, q[::-1]),
        lambda q: np.linalg.cross(q, q[:, ::-1], axis=0),
    ],
    "einsum": [
        lambda m, r: np.einsum("ij,jk->ik", m, r),
        lambda m, r: np.einsum("ij,jk", m, r),
        lambda q: np.einsum("ii", q),
        lambda q: np.einsum("ii->i", q),
        lambda m: np.einsum("ij->ji", m),
        lambda m: np.einsum("ji", m),
        lambda t: np.einsum("ijk->k", t),
        lambda t: np.einsum("...k->k...", t),
        lambda t, r: np.einsum("...ij,jk->...ik", t, r),
        lambda m, r, a: np.einsum("ij,jk,i->k", m, r, a),
        lambda m, r, a: np.einsum("ij,jk,i->k", m, r, a, optimize=True),
        lambda m, r, a: np.einsum("ij,jk,i->k", m, r, a, optimize="greedy"),
        lambda v, w: np.einsum("i,j->ij", v, w),
        lambda v, w: np.einsum("i,i", v, w),
        lambda m, r: np.einsum(m, [0, 1], r, [1, 2]),
        lambda m, r: np.einsum(m, [0, 1], r, [1, 2], [2, 0]),
        lambda i, j: np.einsum("i,i->i", i, j),
        lambda m, a: np.einsum("ij,i->ij", m, a[:1]),
        lambda q, y: np.einsum("ij,ji", q, y),
        lambda m, n, b: np.einsum("ij,ij,ij->j", m, n, b),
    ],
    "einsum_path": [
        lambda m, r, a: np.einsum_path("ij,jk,i->k", m, r, a, optimize="greedy")[0],
        lambda m, r: np.einsum_path(m, [0, 1], r, [1, 2])[0],
    ],
    "linalg.norm": [
        lambda v: np.linalg.norm(v),
        lambda m: np.linalg.norm(m),
        lambda t: np.linalg.norm(t),
        lambda m: np.linalg.norm(m, axis=1, keepdims=True),
        lambda m: np.linalg.norm(m, "fro"),
        lambda m: np.linalg.norm(m, 1),
        lambda m: np.linalg.norm(m, -1),
        lambda m: np.linalg.norm(m, np.inf),
        lambda m: np.linalg.norm(m, -np.inf, keepdims=True),
        lambda v: np.linalg.norm(v, 3),
        lambda v: np.linalg.norm(v, 1),
        lambda v: np.linalg.norm(v, np.inf),
        lambda v: np.linalg.norm(v, -np.inf),
        lambda v: np.linalg.norm(v, 0),
        lambda v: np.linalg.norm(v, 0.5),
        lambda t: np.linalg.norm(t, axis=(0, 2)),
        lambda t: np.linalg.norm(t, 1, axis=(2, 0)),
        lambda z: np.linalg.norm(z),
        lambda y: np.linalg.norm(y, 1, axis=0),
        lambda i: np.linalg.norm(i),
        lambda f: np.linalg.norm(f, axis=0),
    ],
    "linalg.matrix_norm": [
        lambda t: np.linalg.matrix_norm(t),
        lambda t: np.linalg.matrix_norm(t, ord=1, keepdims=True),
    ],
    "linalg.vector_norm": [
        lambda t: np.linalg.vector_norm(t),
        lambda t: np.linalg.vector_norm(t, axis=(0, 1), ord=3),
        lambda t: np.linalg.vector_norm(t, keepdims=True),
        lambda m: np.linalg.vector_norm(m, axis=0, ord=None),
        lambda m: np.linalg.vector_norm(m, axis=0, ord=np.inf),
    ],
    "linalg.matrix_power": [
        lambda q: np.linalg.matrix_power(q, 0),
        lambda q: np.linalg.matrix_power(q, 1),
        lambda q: np.linalg.matrix_power(q, 5),
        lambda y: np.linalg.matrix_power(y, 3),
    ],
    "linalg.solve": [lambda q, a: np.linalg.solve(q, a)],
    "linalg.inv": [lambda q: np.linalg.inv(q)],
    "linalg.det": [lambda q: np.linalg.det(q)],
    "linalg.slogdet": [lambda q: np.linalg.slogdet(q)[1]],
    "linalg.cholesky": [lambda q: np.linalg.cholesky(q @ q.T + np.eye(3))],
    "linalg.qr": [lambda q: np.linalg.qr(q)[1]],
    "linalg.svd": [lambda m: np.linalg.svd(m, compute_uv=False)],
    "linalg.svdvals": [lambda m: np.linalg.svdvals(m)],
    "linalg.eigh": [lambda q: np.linalg.eigh(q)[0], lambda q: np.abs(np.linalg.eigh(q)[1])],
    "linalg.eigvalsh": [lambda q: np.linalg.eigvalsh(q)],
    "linalg.eig": [lambda q: np.linalg.eig(q @ q.T)[0]],
    "linalg.eigvals": [lambda q: np.linalg.eigvals(q @ q.T)],
    "linalg.lstsq": [lambda r, x: np.linalg.lstsq(r, r[:, 0] ** 2 * x)[0]],
    "linalg.pinv": [lambda r: np.linalg.pinv(r)],
    "linalg.cond": [lambda q: np.linalg.cond(q)],
    "linalg.tensorsolve": [lambda q, a: np.linalg.tensorsolve(q, a)],
    "linalg.tensorinv": [lambda q: np.linalg.tensorinv(q, ind=1)],
    "linalg.multi_dot": [
        lambda m, r: np.linalg.multi_dot([m, r]),
        lambda q, m, r: np.linalg.multi_dot([q, m, r]),
        lambda a, q, m, r: np.linalg.multi_dot([a, q, m, r]),
    ],
    "linalg.matrix_rank": [lambda q: np.linalg.matrix_rank(q)],
    "cov": [
        lambda m: np.cov(m),
        lambda v, w: np.cov(v, w),
        lambda m: np.cov(m, rowvar=False, bias=True),
        lambda m: np.cov(m, ddof=0),
        lambda v: np.cov(v),
        lambda m: np.cov(m, fweights=[1, 2, 1, 3]),
        lambda m, n: np.cov(m, aweights=np.abs(n[0])),
        lambda y: np.cov(y),
    ],
    "corrcoef": [
        lambda m: np.corrcoef(m),
        lambda v, w: np.corrcoef(v, w),
        lambda v: np.corrcoef(v),
    ],
    "convolve": [
        lambda v, a: np.convolve(v, a),
        lambda v, a: np.convolve(v, a, "same"),
        lambda a, v: np.convolve(a, v, "same"),
        lambda v: np.convolve(v, v[:4], "same"),
        lambda v, a: np.convolve(v, a, mode="valid"),
        lambda i, j: np.convolve(i, j),
    ],
    "correlate": [
        lambda v, a: np.correlate(v, a),
        lambda v, a: np.correlate(v, a, "full"),
        lambda a, v: np.correlate(a, v, "same"),
        lambda v: np.correlate(v, v[:4], "same"),
        lambda v: np.correlate(v[:4], v, "same"),
        lambda z, v: np.correlate(z, v, "full"),
        lambda v, z: np.correlate(v, z, "full"),
    ],
    "poly": [lambda a: np.poly(a)],
    "polyval": [lambda a, v: np.polyval(a, v), lambda a, x: np.polyval(a, x)],
    "polyadd": [lambda a, v: np.polyadd(a, v)],
    "polysub": [lambda a, v: np.polysub(a, v)],
    "polymul": [lambda a, v: np.polymul(a, v)],
    "polydiv": [lambda v, a: np.polydiv(v, a)],
    "polyder": [lambda v: np.polyder(v), lambda v: np.polyder(v, 2)],
    "polynomial.polynomial.polyvalnd": [
        lambda v, w, m: np.polynomial.polynomial.polyvalnd((v, w), m),
        lambda q, m: np.polynomial.polynomial.polyvalnd(q.T, m),
    ],
    "polynomial.polynomial.polyval2d": [
        lambda v, w, m: np.polynomial.polynomial.polyval2d(v, w, m),
    ],
    "polynomial.polynomial.polygrid2d": [
        lambda v, a, m: np.polynomial.polynomial.polygrid2d(v, a, m),
    ],
    "polyfit": [
        lambda v, w: np.polyfit(v, w, 2),
        lambda v, w, s: np.polyfit(v, w, 1, w=s),
        lambda v, m: np.polyfit(v[:3], m, 1),
        lambda v, w: np.polyfit(v, w, 1, full=True)[0],
        lambda v, w: np.polyfit(v, w, 1, cov=True),
        lambda f: np.polyfit(f[0], f[1], 1),
    ],
    "roots": [lambda a: np.roots(a), lambda v: np.roots(v)],
    "polyint": [lambda v: np.polyint(v), lambda v: np.polyint(v, 2, k=[1.0, 2.0])],
}

WRITING = {
    "copyto": [
        lambda m, n: wrote(m, lambda x: np.copyto(x, n)),
        lambda m, n, b: wrote(m, lambda x: np.copyto(x, n, where=b)),
        lambda m: wrote(m, lambda x: np.copyto(x, 2)),
        lambda k: wrote(k, lambda x: np.copyto(x, 2.9, casting="unsafe")),
        lambda m, a: wrote(m, lambda x: np.copyto(x.T, a)),
    ],
    "put": [
        lambda v: wrote(v, lambda x: np.put(x, [0, 2], [1.5, -1])),
        lambda m, v: wrote(m, lambda x: np.put(x, [0, 5, -1], v)),
        lambda m, v: wrote(m, lambda x: np.put(x, [[0, 15], [7, 30]], v[:2], mode="wrap")),
        lambda m: wrote(m, lambda x: np.put(x, [40, -50], 3.0, mode="clip")),
        lambda k: wrote(k, lambda x: np.put(x, [1], [9])),
    ],
    "place": [
        lambda m, a: wrote(m, lambda x: np.place(x, x > 0, a)),
        lambda m, b: wrote(m, lambda x: np.place(x, b, [1, 2])),
    ],
    "putmask": [
        lambda m, n: wrote(m, lambda x: np.putmask(x, x > 0, n)),
        lambda m, a: wrote(m, lambda x: np.putmask(x, x > 0, a)),
    ],
    "put_along_axis": [
        lambda m, a: wrote(
            m, lambda x: np.put_along_axis(x, np.array([[0], [3], [1]]), a[:, None], 1)
        ),
        lambda m: wrote(m, lambda x: np.put_along_axis(x, np.array([[0, 2, 1, 1]]), 9.0, axis=0)),
    ],
    "fill_diagonal": [
        lambda q: wrote(q, lambda x: np.fill_diagonal(x, 2.5)),
        lambda m, a: wrote(m, lambda x: np.fill_diagonal(x, a)),
        lambda r, a: wrote(r, lambda x: np.fill_diagonal(x, a[:2], wrap=True)),
    ],
}

CASES = {**ELEMENTWISE, **LINEAR, **WRITING}


@pytest.mark.parametrize(
    "case", flattened({n: c for n, c in CASES.items() if in_numpy(n) is not None})
)
def test_function(case):
    check(case)


def test_i0_bends_at_0():
    for x in (0.0, 0.004, -0.004):
        assert abs(ct.grad(np.i0)(x) - x / 2) < 1e-8
        assert abs(ct.grad(ct.grad(lambda x: np.i0(x)))(x) - 0.5) < 1e-5
    assert ct.pullback(lambda x: np.i0(x), np.ones(2, np.float32))[0].dtype == np.float32


PARTS = [0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan]
SPECIAL = np.array([complex(a, b) for a in PARTS for b in PARTS])


@pytest.mark.filterwarnings("ignore:invalid value", "ignore:divide by zero")
@pytest.mark.parametrize(
    "name",
    ["less", "less_equal", "greater", "greater_equal", "maximum", "minimum", "fmax", "fmin"],
)
def test_complex_numbers_are_ordered_as_in_numpy(name):
    function = getattr(np, name)
    x, y = np.broadcast_arrays(SPECIAL[:, None], SPECIAL)
    found, wanted = function(ct.array(x), ct.array(y)), function(x, y)
    for part in (np.real, np.imag):
        np.testing.assert_array_equal(part(np.asarray(found)), part(wanted))


@pytest.mark.filterwarnings("ignore:invalid value", "ignore:divide by zero", "ignore:overflow")
@pytest.mark.parametrize(
    ("f", "where"),
    [
        (np.sign, slice(None)),
        (np.exp2, ~((SPECIAL.real == -np.inf) & np.isinf(SPECIAL.imag))),
        (lambda z: z / np.zeros(1, complex), slice(None)),
        (lambda z: z / -np.zeros(1, complex), slice(None)),
    ],
)
def test_special_complex_numbers_as_in_numpy(f, where):
    z = SPECIAL[where]
    found, wanted = np.asarray(f(ct.array(z))), f(z)
    for part in (np.real, np.imag):
        np.testing.assert_allclose(part(found), part(wanted), 1e-14)
        known = ~np.isnan(part(wanted))
        signs = np.signbit(part(found)), np.signbit(part(wanted))
        np.testing.assert_array_equal(signs[0][known], signs[1][known])


def test_powers_of_two_of_complex_numbers_have_derivatives():
    (g,) = ct.gradient(lambda z: np.abs(np.exp2(z)) ** 2, 0.3 + 0.4j)
    np.testing.assert_allclose(g, 2 * np.log(2) * 2.0**0.6, 1e-14)


@pytest.mark.filterwarnings("ignore:invalid value", "ignore:overflow", "ignore:divide by zero")
@pytest.mark.parametrize("decimals", [300, 308, 309, 1000, -300, -309])
def test_rounding_to_more_decimals_than_there_are(decimals):
    for x in (np.array([1.25, np.inf, 1e300, -5e-324]), np.array([1.25, -2.5], np.float32)):
        np.testing.assert_allclose(np.round(ct.array(x), decimals), np.round(x, decimals), 1e-15)


def test_the_sign_of_complex_numbers_has_a_derivative():
    z, w = np.array([2.0 + 1.7j, -4.6 - 0.8j]), np.array([0.3 - 0.2j, 0.1 + 0.7j])

    def f(z):
        return np.sum(np.real(np.sign(z) * w))

    (g,) = ct.gradient(f, z)
    step = 1e-6
    for part, turn in ((np.real, 1), (np.imag, 1j)):
        moves = step * turn * np.eye(2)
        slopes = [(f(z + e) - f(z - e)) / (2 * step) for e in moves]
        np.testing.assert_allclose(part(g), slopes, 1e-7)
    np.testing.assert_array_equal(ct.gradient(f, np.zeros(2, complex))[0], 0)
    y, _ = ct.pullback(np.sign, SPECIAL)
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(y, np.sign(SPECIAL), 1e-15)
    first = ct.gradient(lambda z: ct.sign(z).real, 3.0 + 4.0j)[0]
    np.testing.assert_allclose(first, 16 / 125 - 12j / 125)


def test_interp_between_points_that_do_not_increase():
    points, heights = np.array([0.0, 3.0, 1.0, 4.0, 2.0, 5.0, 2.5, 6.0]), np.arange(8.0) ** 2
    places = np.linspace(0.1, 5.9, 40)[::-1]
    f = lambda h: np.sum(np.interp(places, points, h))
    with pytest.raises(ValueError, match="xp must be increasing.*argsort"):
        ct.gradient(f, heights)
    order = np.argsort(points)
    f = lambda h: np.sum(np.interp(places, points[order], h[order]))
    assert ct.value_and_gradient(f, heights)[0] == pytest.approx(f(heights))
    # What NumPy gives beyond the first and the last point, and in short tables, has a rule.
    for points in ([3.0, 2.0, 1.0], [1.0, 3.0, 2.0]):
        f = lambda h, points=points: np.sum(np.interp([0.5, 3.5], points, h))
        y, (g,) = ct.value_and_gradient(f, heights[:3])
        assert y == f(heights[:3])
        np.testing.assert_array_equal(g, [(f(h)) for h in np.eye(3)])


def test_interp_between_infinite_heights():
    # NumPy's own tests of what is next to a point that is not finite.
    inf, nan = np.inf, np.nan
    places = np.array([1.0, 2.0, 2.5, 3.0, 4.0])
    points = np.arange(1.0, 5.0)
    for fp in ([1, 2, inf, 4], [1, 2, -inf, 4], [1, 2, nan, 4], [1, inf, inf, 4]):
        heights = np.array(fp, float)
        expected = np.interp(places, points, heights)
        y, _ = ct.pullback(lambda x, h: np.interp(x, points, h), places, heights)
        np.testing.assert_array_equal(y, expected)
    for xp, fp in (
        ([-inf, inf], [10.0, 10.0]), ([-inf, 1.0], [3.0, 3.0]), ([0.0, inf], [2.0, 5.0]),
        ([-inf, inf], [1.0, 2.0]), ([0.0, 1.0], [-inf, inf]), ([0.0, 1.0], [inf + 1j, 1 + 2j]),
    ):  # fmt: skip
        y, _ = ct.pullback(lambda x, xp=xp, fp=fp: np.interp(x, xp, fp), 0.5)
        np.testing.assert_array_equal(y, np.interp(0.5, xp, fp))
