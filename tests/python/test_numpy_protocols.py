"""NumPy's protocols: every function and ufunc that takes an `Array`, against NumPy itself.

A case is a little program: statements, then an expression, over the variables below. It runs in
NumPy on plain arrays, which gives the values and, by central differences, the derivatives; and under
`value_and_gradient`, where values, dtypes, kinds of results and gradients have to be the same.
"""

import inspect
import re
import warnings

import numpy as np
import pytest
import scipy.special

import cotan as ct
from cotan import _numpy, _numpy_own, _ufunc

X = np.array([0.7, -1.3, 0.4, 2.1, -0.6])
VALUES = {
    "x": X,
    "y": np.array([1.9, 0.8, -2.2, 0.3, 1.1]),
    "p": np.array([0.3, 1.7, 0.9, 2.6, 0.5]),  # positive
    "u": np.array([0.15, 0.8, 0.35, 0.62, 0.41]),  # between 0 and 1
    "m": np.array([[0.5, -1.2, 0.3, 2.0], [1.1, 0.7, -0.4, -1.6], [-2.3, 0.9, 1.4, 0.2]]),
    "w": np.array([[1.3, 0.6], [-0.7, 0.1], [0.4, -1.9], [2.2, 0.8]]),
    "q": np.array([[1.2, -0.3, 0.8], [0.1, 0.9, -1.1], [0.6, 1.5, 0.4]]),
    "c": np.linspace(-1.7, 2.3, 24).reshape(2, 3, 4) ** 2 - 0.9,
    "v": np.array([0.8, -0.5, 1.6]),
    "s": 0.7,
    "z": np.array([0.4 + 0.9j, -1.1 + 0.2j, 0.7 - 1.5j]),
    "zm": np.array([[0.4 + 0.9j, 1.1 - 0.3j], [-0.2 + 0.5j, 0.7 - 1.5j]]),
    "f": np.array([0.75, -1.5, 0.25], np.float32),
}
CONSTANTS = {
    "np": np,
    "special": scipy.special,
    "i": np.array([3, 0, 0, 2]),
    "j": np.array([[1, 4], [2, 0]]),
    "k": np.array([True, False, True, True, False]),
    "km": np.array([[True, False, True, True], [False, True, False, True], [True] * 4]),
    "nan": np.nan,
    "inf": np.inf,
}


def run(program, env):
    """Run the statements, give the value of the expression at the end."""
    *statements, expression = program.split(";")
    env = {**CONSTANTS, **env}
    for statement in statements:
        exec(statement.strip(), env)
    return eval(expression.strip(), env)


def variables(program):
    words = set(re.findall(r"[A-Za-z_]\w*", program))
    return [name for name in VALUES if name in words]


def leaves(result):
    if isinstance(result, (tuple, list)):
        return [leaf for part in result for leaf in leaves(part)]
    return [result]


def weights(shape, seed):
    return np.cos(1.0 + seed + np.arange(np.prod(shape, dtype=int)).reshape(shape))


def loss(result):
    """A number that depends on every element of every result."""
    total = 0.0
    for seed, leaf in enumerate(leaves(result)):
        dtype = np.result_type(leaf)
        if dtype.kind in "fc":
            total = total + np.sum(np.real(leaf) * weights(np.shape(leaf), seed))
        if dtype.kind == "c":
            total = total + np.sum(np.imag(leaf) * weights(np.shape(leaf), seed + 0.5))
    return total


def slopes(f, args, h=1e-6):
    """Central differences of a function of arrays and numbers."""
    gradients = []
    for at, x in enumerate(args):
        x = np.asarray(x)
        g = np.zeros(x.shape, x.dtype if x.dtype.kind == "c" else float)
        for index in np.ndindex(x.shape):
            for step in (h, 1j * h) if x.dtype.kind == "c" else (h,):
                ends = []
                for sign in (1, -1):
                    moved = x.astype(complex if x.dtype.kind == "c" else float)
                    moved[index] += sign * step
                    moved = moved if np.ndim(args[at]) else moved[()]
                    ends.append(f(*args[:at], moved, *args[at + 1 :]))
                g[index] += (step / h) * (ends[0] - ends[1]) / (2 * h)
        gradients.append(g)
    return gradients


def assert_same_values(actual, expected, rtol):
    actual, expected = leaves(actual), leaves(expected)
    assert len(actual) == len(expected)
    for ours, theirs in zip(actual, expected, strict=True):
        if isinstance(ours, ct.Array):
            kind = "array" if isinstance(theirs, np.ndarray) else "scalar"
            assert ours._rank == kind, (ours._rank, type(theirs))
            ours = np.asarray(ct.dropgrad(ours))
        assert np.shape(ours) == np.shape(theirs)
        assert np.result_type(ours) == np.result_type(theirs)
        if isinstance(theirs, str):
            assert ours == theirs
        else:
            np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=rtol)


def check(program, names=None, rtol=1e-6):
    names = variables(program) if names is None else names
    args = [VALUES[name] for name in names]
    single = any(np.result_type(a) == np.float32 for a in args)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        expected = run(program, dict(zip(names, map(np.copy, args), strict=True)))
        if np.ndim(VALUES["s"]) == 0 and "s" in names:
            expected = run(program, dict(zip(names, args, strict=True)))

        def eager(*moved):
            return loss(run(program, dict(zip(names, map(copied, moved), strict=True))))

        numeric = slopes(eager, args)
    seen = []

    def traced(*given):
        result = run(program, dict(zip(names, given, strict=True)))
        seen.append(result)
        return loss(result)

    value, gradients = ct.value_and_gradient(traced, *args)
    assert_same_values(seen[0], expected, 1e-5 if single else 1e-12)
    np.testing.assert_allclose(value, loss(expected), rtol=1e-5 if single else 1e-10, atol=1e-10)
    for name, ours, theirs in zip(names, gradients, numeric, strict=True):
        ours = np.zeros(theirs.shape) if ours is None else ours
        scale = 1 + np.abs(theirs).max(initial=0)
        tolerance = 1e-4 if single else rtol
        np.testing.assert_allclose(
            ours, theirs, rtol=tolerance, atol=tolerance * scale, err_msg=name
        )


def copied(x):
    return np.copy(x) if np.ndim(x) else x


def programs(text):
    lines = [line.strip() for line in text.strip().splitlines()]
    return pytest.mark.parametrize("program", [line for line in lines if line and line[0] != "#"])


# --------------------------------------------------------------------------------------------------
# Functions


@programs("""
np.sum(m)
np.sum(m, axis=0)
np.sum(m, -1, keepdims=True)
np.sum(c, axis=(0, 2))
np.sum(c, axis=())
np.sum(m, initial=2.5)
np.sum(m, initial=s)
np.sum(m, axis=1, where=km)
np.sum(m, dtype=np.float32).astype(float)
np.sum(f, dtype=float)
np.sum(z)
b = np.zeros_like(v); np.sum(m, axis=1, out=b); b
b = np.zeros_like(v); np.sum(m, axis=1, out=b[::-1]); b
np.prod(m, axis=0)
np.prod(q)
np.prod(m, axis=1, where=km, initial=3.0)
np.prod(z)
np.max(m)
np.max(m, axis=1)
np.amax(m, 0, keepdims=True)
np.max(m, axis=1, initial=1.0)
np.max(m, axis=1, initial=-5.0, where=km)
np.min(m, axis=(0, 1))
np.amin(c, axis=1)
np.min(m, axis=0, initial=0.1, where=km)
np.mean(m)
np.mean(m, axis=1)
np.mean(m, axis=1, where=km)
np.mean(f, dtype=np.float64)
np.mean(c, axis=(0, 1), keepdims=True)
b = np.zeros_like(v); np.mean(m, 1, out=b); b
np.var(m)
np.var(m, axis=0, ddof=1)
np.var(m, axis=1, where=km, keepdims=True)
np.var(m, axis=1, correction=1)
np.var(m, axis=1, mean=np.mean(m, axis=1, keepdims=True))
np.var(f)
np.var(z)
np.std(m)
np.std(m, axis=-1, ddof=1)
np.std(m, axis=1, where=km)
b = np.zeros_like(v); np.std(m, 1, out=b); b
np.ptp(m)
np.ptp(m, axis=1, keepdims=True)
np.average(m)
np.average(m, axis=0)
np.average(m, axis=0, weights=np.exp(v))
np.average(m, weights=np.exp(m), returned=True)
np.average(x, weights=p, keepdims=True)
np.median(x)
np.median(m, axis=0)
np.median(m, axis=(0, 1), keepdims=True)
np.quantile(x, 0.3)
np.quantile(m, [0.1, 0.5, 0.9], axis=1)
np.quantile(m, 0.25, axis=0, keepdims=True)
np.quantile(x, 0.4, method="lower")
np.quantile(x, 0.4, method="nearest")
np.quantile(x, 0.4, method="midpoint")
np.quantile(x, 0.4, method="hazen")
np.percentile(m, 40, axis=0)
np.percentile(x, [20, 70])
np.nansum(np.where(k, x, nan))
np.nansum(m, axis=1, keepdims=True)
np.nanprod(np.where(k, x, nan))
np.nanmax(np.where(km, m, nan), axis=1)
np.nanmin(np.where(km, m, nan), axis=0)
np.nanmean(np.where(km, m, nan), axis=1)
np.nanvar(np.where(km, m, nan), axis=1)
np.nanstd(np.where(km, m, nan), axis=1)
np.nanmedian(np.where(km, m, nan), axis=1)
np.nanmedian(np.where(k, x, nan))
np.nanpercentile(np.where(km, m, nan), 30, axis=1)
np.nanquantile(np.where(k, x, nan), [0.2, 0.5])
np.nancumsum(np.where(k, x, nan))
np.nancumprod(np.where(k, x, nan))
np.cumsum(m)
np.cumsum(m, axis=1)
np.cumsum(f, dtype=float)
b = np.zeros_like(m); np.cumsum(m, axis=0, out=b); b
np.cumprod(x)
np.cumprod(m, axis=1)
np.cumprod(x * [1, 0, 1, 0, 1])
np.cumulative_sum(x, include_initial=True)
np.cumulative_prod(m, axis=1)
""")
def test_reductions(program):
    check(program)


@programs("""
np.any(x > 0)
np.all(m > -3, axis=1)
np.any(m > 1, axis=0, where=km, keepdims=True)
np.all(x)
np.count_nonzero(x > 0)
np.count_nonzero(m > 0, axis=1)
np.argmax(m)
np.argmax(m, axis=1)
np.argmin(m, axis=0, keepdims=True)
np.argsort(m)
np.argsort(m, axis=0)
np.argsort(m, axis=None)
np.argsort(x, kind="stable")
np.nonzero(x > 0)
np.flatnonzero(x > 0)
np.argwhere(m > 0)
np.where(x > 0)
np.nanargmax(x)
np.nanargmin(m, axis=1)
np.searchsorted(np.sort(x), y)
np.searchsorted([0.0, 1.0], x, side="right")
np.digitize(x, [-1.0, 0.0, 1.0])
np.bincount(np.argsort(x), minlength=7)
np.isclose(x, y)
np.allclose(x, x + 1e-12)
np.array_equal(x, x)
np.array_equiv(x, y)
np.isin(x, [0.7, 0.4])
np.lexsort((x, y))
np.iscomplex(x), np.isreal(x), np.iscomplexobj(x), np.isrealobj(x)
np.iscomplex(z), np.iscomplexobj(z)
np.isposinf(x), np.isneginf(x)
np.shape(m), np.ndim(m), np.size(m), np.size(m, 1)
np.result_type(f, 1.0), np.result_type(f, x), np.can_cast(f, np.float64), np.common_type(f, x)
np.isscalar(x[0]), np.isscalar(x)
np.array_repr(x), np.array_str(x), np.array2string(x, precision=2)
np.may_share_memory(x, y)
np.linalg.matrix_rank(q)
np.triu_indices_from(q), np.tril_indices_from(q), np.diag_indices_from(q)
np.einsum_path("ij,jk", m, w)[0]
np.histogram_bin_edges(ct_free, 3) if False else 1
""")
def test_results_without_a_derivative(program):
    names = variables(program)
    args = [VALUES[name] for name in names]
    expected = run(program, dict(zip(names, args, strict=True)))
    seen = []

    def traced(*given):
        seen.append(run(program, dict(zip(names, given, strict=True))))
        return 0.0 * given[0].sum() if given else 0.0

    ct.gradient(traced, *args)
    for ours, theirs in zip(leaves(seen[0]), leaves(expected), strict=True):
        ours = np.asarray(ours) if isinstance(ours, ct.Array) else ours
        if isinstance(theirs, (np.dtype, type, str)):
            assert ours == theirs
        else:
            assert np.result_type(ours) == np.result_type(theirs)
            np.testing.assert_array_equal(ours, theirs)


@programs("""
np.reshape(m, (2, 6))
np.reshape(m, -1)
np.reshape(m, (4, 3), order="F")
np.ravel(m)
np.ravel(m.T)
np.ravel(m, order="F")
np.resize(x, (2, 4))
np.resize(m, 7)
np.transpose(m)
np.transpose(c, (2, 0, 1))
np.permute_dims(c, (1, 2, 0))
np.matrix_transpose(c)
np.swapaxes(c, 0, -1)
np.moveaxis(c, 0, -1)
np.moveaxis(c, [0, 1], [-1, -2])
np.rollaxis(c, 2)
np.squeeze(x[None, :, None])
np.squeeze(x[None, :, None], axis=0)
np.expand_dims(x, 0)
np.expand_dims(x, (0, 2))
np.atleast_1d(s)
np.atleast_1d(x, s)
np.atleast_2d(x)
np.atleast_3d(m)
np.broadcast_to(v, (2, 3))
np.broadcast_arrays(v, v[:, None], s)
np.flip(m)
np.flip(m, 0)
np.flip(c, (0, 2))
np.fliplr(m)
np.flipud(m)
np.rot90(m)
np.rot90(m, 2)
np.rot90(c, -1, axes=(1, 2))
np.roll(x, 2)
np.roll(m, 5)
np.roll(m, -1, axis=0)
np.roll(m, (1, 2), axis=(0, 1))
np.concatenate([x, y])
np.concatenate((m, m * 2), axis=1)
np.concatenate([m, w], axis=None)
np.concatenate([f, x])
np.concatenate([f, f], dtype=np.float64)
np.concat([x, [1.0, 2.0]])
np.stack([x, y])
np.stack([x, y, x * y], axis=1)
np.stack([x, y], axis=-1, dtype=np.float64)
np.vstack([v, q])
np.hstack([x, y])
np.hstack([m, m])
np.dstack([m, m * m])
np.column_stack([x, y])
np.column_stack([v, q])
np.block([[q, v[:, None]], [v[None, :], s * np.ones((1, 1))]])
np.block([x, y])
np.append(x, [1.0, 2.0])
np.append(m, m[:1], axis=0)
np.append(x, s)
np.split(x, [1, 3])
np.split(m, 2, axis=1)
np.array_split(x, 3)
np.hsplit(m, 2)
np.vsplit(w, 2)
np.dsplit(c, 2)
np.unstack(m)
np.unstack(m, axis=1)
np.tile(x, 3)
np.tile(v, (2, 2))
np.tile(m, (2, 1, 2))
np.tile(s, 3)
np.repeat(x, 2)
np.repeat(m, [1, 0, 2], axis=0)
np.repeat(s, 4)
np.pad(x, 2)
np.pad(m, ((1, 0), (0, 2)))
np.pad(x, (1, 2), constant_values=(3.0, 4.0))
np.pad(m, {0: (1, 1), -1: 2})
np.pad(x, (1, 2), constant_values=s)
np.pad(x, 2, mode="edge")
np.pad(m, ((1, 1), (2, 3)), mode="reflect")
np.pad(x, 3, mode="symmetric")
np.pad(m, 2, mode="wrap")
np.pad(x, 3, mode="linear_ramp", end_values=(1.0, 2.0))
np.pad(m, 1, mode="mean")
np.pad(m, 1, mode="maximum")
np.pad(x, 2, mode="minimum", stat_length=2)
np.pad(x, 2, mode="median")
np.pad(x, 2, mode="reflect", reflect_type="odd")
np.meshgrid(x, v)
np.meshgrid(x, v, indexing="ij", sparse=True)
np.meshgrid(x, y, v)
np.fft.fftshift(x)
np.fft.ifftshift(m, axes=1)
np.lib.stride_tricks.sliding_window_view(x, 3)
np.lib.stride_tricks.sliding_window_view(m, (2, 2))
np.trim_zeros(x * [0, 1, 1, 1, 0])
""")
def test_shapes(program):
    check(program)


@programs("""
np.where(x > 0, x, y)
np.where(k, x, 0.0)
np.where(k, np.sqrt(np.where(k, np.abs(x), 1.0)), x * x)
np.where(m > 0, m, v[:, None])
np.select([x > 1, x > 0], [x * x, y], default=s)
np.select([x > 1, k], [x, np.sin(y)])
np.choose([0, 1, 2, 1, 0], [x, y, x * y])
np.choose([0, 5, 2], [v, v * v, 1.0], mode="clip")
np.choose([0, 4, -1], [v, v * v, 1.0], mode="wrap")
np.piecewise(x, [x < 0, x >= 0], [lambda t: t * t, np.sin])
np.piecewise(x, [x > 1], [lambda t: t**3, -1.0])
np.clip(x, -1.0, 1.0)
np.clip(x, None, 1.0)
np.clip(x, y, 3.0)
np.clip(x, a_min=-1, a_max=1)
np.clip(x, min=-0.5)
np.clip(f, -1, 1)
np.clip(np.array([1.0, 2.0, 3.0]), v, None)
b = np.zeros_like(x); np.clip(x, 0, 1, out=b); b
np.take(x, i)
np.take(m, [0, 2, 0], axis=1)
np.take(m, 1, axis=0)
np.take(x, j)
np.take(x, [7, -9], mode="wrap")
np.take(x, [7, -9], mode="clip")
b = np.zeros_like(v); np.take(x, [0, 1, 1], out=b); b
np.take_along_axis(m, np.argsort(m, axis=1), axis=1)
np.take_along_axis(x, np.array([1, 1, 0]), axis=None)
np.compress(k, x)
np.compress([True, False, True], m, axis=0)
np.extract(x > 0, x)
np.delete(x, 1)
np.delete(x, [0, -1])
np.delete(m, slice(0, 2), axis=1)
np.delete(m, 1, 0)
np.insert(x, 1, 5.0)
np.insert(x, [0, 3], [s, 2.0])
np.insert(m, 1, v, axis=1)
np.insert(m, [0, 2], s, axis=0)
np.insert(x, slice(1, 3), y[:2])
np.diag(x)
np.diag(x, 1)
np.diag(x, -2)
np.diag(m)
np.diag(m, 1)
np.diagonal(c)
np.diagonal(c, 1, 1, 2)
np.diagonal(m, -1)
np.diagflat(q, 1)
np.trace(q)
np.trace(c, 1, 1, 2)
np.linalg.trace(c)
np.linalg.diagonal(c, offset=1)
np.tril(m)
np.tril(m, -1)
np.triu(c, 1)
np.triu(v)
np.sort(x)
np.sort(m, axis=0)
np.sort(m, axis=None)
np.sort(c, axis=1)
np.partition(x, 2)[2]
np.partition(m, 1, axis=1)[:, 1]
np.sort_complex(z)
np.unique(np.concatenate([x, x]))
np.unique(x, return_index=True, return_inverse=True, return_counts=True)
np.union1d(x, y)
np.intersect1d(x, x[::-1] * 1.0)
np.setdiff1d(x, [0.7])
np.setxor1d(x, y)
np.unique_values(x)
np.bincount([0, 1, 1, 3, 0], weights=x)
np.bincount([0, 1, 1, 3, 0], weights=x, minlength=6)
np.histogram(np.array([0.1, 0.4, 0.6, 0.2, 0.9]), bins=3, range=(0.0, 1.0), weights=p)[0]
np.histogram(np.array([0.1, 0.4, 0.6, 0.2, 0.9]), bins=[0, 0.3, 1], weights=p, density=True)[0]
x[np.ix_([0, 2])], m[np.ix_([0, 2], [1, 3])]
""")
def test_choosing_and_sorting(program):
    check(program)


@programs("""
b = np.zeros_like(x); np.copyto(b, x); b
b = np.ones_like(x); np.copyto(b, y, where=k); b
b = np.zeros_like(m); np.copyto(b, v[:, None]); b
b = x * 1.0; np.put(b, [0, 2], y[:2]); b
b = m * 1.0; np.put(b, [-1, 5, 1], s); b
b = x * 1.0; np.put(b, [0, 1, 2], [s, 2.0]); b
b = x * 1.0; np.put(b, [9, -7], y[:2], mode="wrap"); b
b = x * 1.0; np.place(b, k, y[:2]); b
b = m * 1.0; np.putmask(b, km, m * 2); b
b = x * 1.0; np.putmask(b, k, v); b
b = q * 1.0; np.fill_diagonal(b, v); b
b = q * 1.0; np.fill_diagonal(b, s); b
b = m * 1.0; np.fill_diagonal(b.T, 2.0); b
b = m * 1.0; np.put_along_axis(b, np.array([[0], [2], [1]]), v[:, None], axis=1); b
b = m * 1.0; b.flat[3:7] = x[:4]; b
b = (m * 1.0).T; b.flat[[0, 1]] = v[:2]; b
b = m * 1.0; b.flat = s; b
b = m * 1.0; b.fill(s); b
b = m * 1.0; b.sort(); b
b = m * 1.0; b[:, ::-1].sort(axis=0); b
b = x * 1.0; b.partition(2); b[2]
b = m * 1.0; b.put([0, 1], [s, s * s]); b
b = np.empty_like(x); b[:] = x * 2; b
b = np.full_like(x, s); b[0] = x[1]; b
b = np.full_like(m, v[0]); b
b = np.ones_like(m, shape=(2, 2)); b * s
b = np.zeros(2, like=x); b[0] = s; b
b = np.array([s, 1.0, s * s], like=x); b
b = np.full((2, 3), v, like=x); b
b = np.asarray([x, y], like=x); b
""")
def test_writing_and_making(program):
    check(program)


@programs("""
np.dot(x, y)
np.dot(m, w)
np.dot(m, v @ m)
np.dot(s, x)
np.dot(c, w)
np.dot(m, np.swapaxes(c, 1, 2))
b = np.zeros((3, 2), like=m); np.dot(m, w, out=b); b
np.vdot(x, y)
np.vdot(z, z * 1j)
np.vdot(m, m)
np.inner(x, y)
np.inner(m, m)
np.inner(c, m)
np.inner(x, s)
np.outer(x, v)
np.outer(m, v)
np.linalg.outer(x, v)
np.matmul(m, w)
np.matmul(c, w)
np.matmul(x, y)
np.matmul(v, m)
np.matmul(m, w[:, 0])
np.matmul(zm, zm)
np.matmul(np.moveaxis(m, 0, 1), w, axes=[(1, 0), (0, 1), (0, 1)])
b = np.zeros((3, 2), like=m); np.matmul(m, w, out=b); b
np.linalg.matmul(m, w)
np.vecdot(m, m * m)
np.vecdot(m, v[:, None], axis=0)
np.vecdot(z, z * 2j)
np.linalg.vecdot(m, m, axis=0)
np.matvec(c, m[0])
np.vecmat(v, c)
np.vecmat(z[:2], zm)
np.tensordot(m, w, 1)
np.tensordot(c, m, axes=([1, 2], [0, 1]))
np.tensordot(c, c, axes=3)
np.tensordot(x, v, 0)
np.linalg.tensordot(m, m, axes=((0, 1), (0, 1)))
np.kron(v, x)
np.kron(m, w)
np.kron(v, q)
np.cross(v, q[0])
np.cross(q, v)
np.cross(q, q[::-1], axis=0)
np.cross(v, [1.0, 2.0])
np.linalg.cross(q, v)
np.linalg.multi_dot([v, m, w])
np.linalg.multi_dot([q, m, w])
np.linalg.multi_dot([q, q, m, w])
np.linalg.matrix_power(q, 3)
np.linalg.matrix_power(q, 0)
np.linalg.norm(x)
np.linalg.norm(m)
np.linalg.norm(m, axis=1)
np.linalg.norm(m, "fro")
np.linalg.norm(m, 1)
np.linalg.norm(m, np.inf)
np.linalg.norm(m, -1)
np.linalg.norm(m, -np.inf, keepdims=True)
np.linalg.norm(x, 1)
np.linalg.norm(x, 3)
np.linalg.norm(x, 0.5)
np.linalg.norm(x, np.inf)
np.linalg.norm(x, -np.inf)
np.linalg.norm(x, 0)
np.linalg.norm(c, axis=(0, 2))
np.linalg.norm(c, ord=1, axis=(1, 2), keepdims=True)
np.linalg.norm(z)
np.linalg.norm(z, 1)
np.linalg.vector_norm(m)
np.linalg.vector_norm(m, axis=0, ord=1)
np.linalg.vector_norm(c, axis=(0, 1), keepdims=True)
np.linalg.matrix_norm(c)
np.linalg.matrix_norm(c, ord=1)
np.linalg.matrix_transpose(c)
np.einsum("i,i", x, y)
np.einsum("i,i->i", x, y)
np.einsum("i,j->ij", x, v)
np.einsum("i,j->ji", x, v)
np.einsum("ij,jk", m, w)
np.einsum("ij,jk->ki", m, w)
np.einsum("ij->ji", m)
np.einsum("ji", m)
np.einsum("ij->", m)
np.einsum("ij->j", m)
np.einsum("ii", q)
np.einsum("ii->i", q)
np.einsum("ii,i->i", q, v)
np.einsum("iij->j", np.stack([q, q, q]))
np.einsum("...j,jk", c, w)
np.einsum("...j,j...->...", m, m.T)
np.einsum("i...->...", c)
np.einsum("...ij->...ji", c)
np.einsum("bij,jk->bik", c, w)
np.einsum("ij,jk,kl->il", q, m, w)
np.einsum("ij,jk,kl->il", q, m, w, optimize=True)
np.einsum("ij,jk,kl,l->i", q, m, w, w[0], optimize="optimal")
np.einsum("ij,ij,ij->", m, m, m)
np.einsum("i,->i", x, s)
np.einsum("ij,kj->", m, q @ m)
np.einsum(m, [0, 1], w, [1, 2], [0, 2])
np.einsum(m, [0, 1])
np.einsum(c, [Ellipsis, 1], [Ellipsis])
np.einsum("ij,ij->ij", m, m[:1])
np.einsum(" ij , jk -> ik ", m, w)
np.einsum("ij,j", zm, z[:2])
np.einsum("i,i", f, f, dtype=np.float64)
b = np.zeros((3, 2), like=m); np.einsum("ij,jk", m, w, out=b); b
""")
def test_products(program):
    check(program)


@programs("""
np.diff(x)
np.diff(x, 2)
np.diff(m, axis=0)
np.diff(x, prepend=s)
np.diff(m, axis=1, append=m[:, :1])
np.ediff1d(m)
np.ediff1d(x, to_end=[1.0], to_begin=s)
np.gradient(x)
np.gradient(x, 0.5)
np.gradient(x, p.cumsum())
np.gradient(x, edge_order=2)
np.gradient(m)
np.gradient(m, axis=1)
np.gradient(m, 2.0, 0.5)
np.trapezoid(x)
np.trapezoid(x, dx=0.5)
np.trapezoid(x, y)
np.trapezoid(m, axis=0)
np.trapezoid(m, p[:4].cumsum(), axis=1)
np.interp(u, [0.0, 0.3, 1.0], v)
np.interp(x, np.cumsum(p), y)
np.interp(x, [0.0, 1.0], [s, 2.0], left=-1.0, right=s)
np.interp(x, [0.0, 1.0, 2.0], v, period=2.5)
np.interp(s, [0.0, 1.0], v[:2])
np.interp([0.0, 1.0, 2.0], [0.0, 1.0, 2.0], v)
np.interp(u, [0.0, 0.3, 1.0], z)
np.convolve(x, v)
np.convolve(v, x)
np.convolve(x, v, "same")
np.convolve(x, v, "valid")
np.convolve(x, v[:2], "same")
np.convolve(v[:2], x, "same")
np.convolve(z, z)
np.correlate(x, v)
np.correlate(v, x)
np.correlate(x, v, "full")
np.correlate(v, x, "full")
np.correlate(x, v, "same")
np.correlate(v[:2], x, "same")
np.correlate(z, z[:2], "full")
np.cov(m)
np.cov(x, y)
np.cov(m, rowvar=False)
np.cov(m, bias=True)
np.cov(m, ddof=0, fweights=[1, 2, 1, 3])
np.cov(m, aweights=[0.5, 1.0, 0.25, 2.0])
np.cov(x)
np.cov(zm)
np.corrcoef(m)
np.corrcoef(x, y)
np.polyval(v, x)
np.polyval([1.0, 2.0, 3.0], x)
np.polyval(v, s)
np.polyval(v, m)
np.polyadd(v, x)
np.polysub(x, v)
np.polymul(v, x)
np.polyder(x)
np.polyder(x, 2)
np.polyint(x)
np.polyint(v, 2, k=[1.0, s])
np.polydiv(x, v)
np.poly(v)
np.vander(v)
np.vander(v, 4, increasing=True)
np.unwrap(5 * x)
np.unwrap(5 * m, axis=0, period=4.0)
np.angle(z)
np.angle(z, deg=True)
np.angle(x) * s
np.sinc(x)
np.i0(x)
np.nan_to_num(np.where(k, x, nan), nan=2.0)
np.nan_to_num(np.where(k, x, inf), posinf=3.0)
np.real(z), np.imag(z), np.real(x), np.imag(x)
np.real_if_close(z)
np.conj(z), np.conjugate(x)
np.round(x, 1)
np.around(x)
np.round(100 * x, -1)
np.fix(x)
np.linspace(s, 3.0, 5)
np.linspace(s, 3.0, 5, endpoint=False)
np.linspace(v, v * v, 4)
np.linspace(v, 2.0, 3, axis=1)
np.linspace(0.0, s, 3, retstep=True)
np.logspace(s, 2.0, 4)
np.logspace(0.0, v, 3, base=2.0)
np.geomspace(s, 3.0, 4)
np.apply_along_axis(lambda r: np.sum(r * r), 0, m)
np.apply_along_axis(lambda r: r[:2] * r[1:3], 1, m)
np.apply_along_axis(lambda r: np.outer(r, r), 0, m)
np.apply_over_axes(np.sum, c, [0, 2])
np.emath.sqrt(p), np.emath.log(p), np.emath.power(p, 2), np.emath.logn(2, p)
np.emath.sqrt(x)
np.copy(x) * 2, np.astype(x, np.float32).astype(float)
""")
def test_analysis(program):
    check(program)


# --------------------------------------------------------------------------------------------------
# Ufuncs

UNARY = {
    "x": """sin cos tan sinh cosh tanh arctan arcsinh exp exp2 expm1 absolute fabs negative positive
        square reciprocal cbrt sign floor ceil rint trunc conjugate deg2rad rad2deg degrees radians
        modf frexp signbit isnan isinf isfinite logical_not""",
    "p": "log log2 log10 log1p sqrt",
    "u": "arcsin arccos arctanh",
    "1 + p": "arccosh",
    "z": "sin cos exp log sqrt square reciprocal absolute negative conjugate tanh",
    "f": "sin sqrt exp fabs modf deg2rad",
    "x[0]": "sin modf frexp fabs",
    "m.T": "sin exp",
}
BINARY = {
    "x, y": """add subtract multiply divide maximum minimum fmax fmin arctan2 hypot logaddexp
        logaddexp2 floor_divide remainder fmod copysign heaviside greater less equal not_equal
        logical_and logical_or logical_xor divmod""",
    "p, y": "power float_power",
    "v, q": "add subtract multiply divide maximum power",
    "q, v[:, None]": "add multiply divide hypot",
    "x, 2": "add multiply power divide ldexp",
    "2.0, p": "subtract power divide arctan2",
    "f, 2.0": "add divide power maximum",
    "f, x[:3]": "add multiply divide",
    "z, z[::-1]": "add subtract multiply divide power",
    "z, v": "add multiply divide",
    "s, x": "add multiply maximum",
    "x[0], 1": "add divide",
}


@pytest.mark.parametrize(
    "program",
    [
        f"np.{name}({operands})"
        for group in (UNARY, BINARY)
        for operands, names in group.items()
        for name in names.split()
        if not (name == "power" and operands == "v, q") and not (name == "sqrt" and operands == "f")
    ],
)
def test_calls(program):
    check(program)


@programs("""
np.add.reduce(m)
np.add.reduce(m, axis=None)
np.add.reduce(c, axis=(0, 2), keepdims=True)
np.add.reduce(m, axis=1, initial=s, where=km)
np.add.reduce(f, dtype=np.float64)
np.add.reduce(s)
np.multiply.reduce(m, axis=1)
np.maximum.reduce(m)
np.maximum.reduce(m, axis=None, initial=0.5)
np.minimum.reduce(m, axis=1, initial=9.0, where=km)
np.logaddexp.reduce(m, axis=1)
np.logaddexp.reduce(m, axis=None)
np.logaddexp2.reduce(m, axis=1)
np.hypot.reduce(x)
np.hypot.reduce(m, axis=1)
np.fmax.reduce(m, axis=0)
np.subtract.reduce(m, axis=1)
np.divide.reduce(m)
np.power.reduce(u)
np.logical_and.reduce(m > -2, axis=1), np.logical_or.reduce(x > 3), np.logical_xor.reduce(x > 0)
np.logical_and.reduce(x), np.bitwise_or.reduce(i), np.bitwise_and.reduce(x > 0)
b = np.zeros_like(v); np.add.reduce(m, axis=1, out=b); b
np.add.accumulate(m)
np.add.accumulate(m, axis=1)
np.multiply.accumulate(m, axis=1)
np.maximum.accumulate(x)
np.minimum.accumulate(m, axis=1)
np.logaddexp.accumulate(x)
np.subtract.accumulate(x)
np.divide.accumulate(m, axis=1)
b = np.zeros_like(m); np.add.accumulate(m, axis=1, out=b); b
np.add.outer(x, v)
np.multiply.outer(m, v)
np.subtract.outer(s, v)
np.maximum.outer(x, v)
np.power.outer(p, v)
np.add.reduceat(x, [0, 2, 3])
np.add.reduceat(x, [3, 0, 1])
np.add.reduceat(m, [0, 2], axis=1)
np.multiply.reduceat(x, [0, 2, 4])
np.maximum.reduceat(m, [0, 1, 3], axis=1)
b = x * 1.0; np.add.at(b, i, 1.0); b
b = x * 1.0; np.add.at(b, i, y[:4]); b
b = x * 1.0; np.subtract.at(b, [0, 0, 1], v); b
b = x * 1.0; np.multiply.at(b, [0, 0, 1], v); b
b = m * 1.0; np.maximum.at(b, ([0, 1, 1], [2, 2, 2]), v); b
b = m * 1.0; np.add.at(b, (slice(None), [1, 1]), v[:, None]); b
b = x * 1.0; np.negative.at(b, [0, 1, 1]); b
b = x * 1.0; np.divide.at(b, k, 2.0); b
""")
def test_methods_of_ufuncs(program):
    check(program)


@programs("""
b = np.zeros_like(x); np.sin(x, out=b); b
b = np.zeros_like(x); np.sin(x, b); b
b = np.zeros_like(x); np.multiply(x, y, out=(b,)); b
b = np.zeros_like(m); np.add(m, 1.0, out=b[:, ::-1]); b
b = np.zeros_like(m); np.multiply(v[:, None], 2.0, out=b); b
b = x * 1.0; np.add(b, b[::-1], out=b); b
b = np.zeros_like(x); np.modf(x, out=(b, None))[1] + b
b = np.zeros_like(x); d = np.zeros_like(x); np.divmod(x, y, out=(b, d)); b + d
np.log(p, where=p > 1, out=np.zeros_like(p))
np.log(x, where=x > 0, out=x * 2.0)
np.sqrt(x, where=x > 0, out=np.ones_like(x)) * y
np.add(x, y, where=k, out=y * 3.0)
np.add(v, 1.0, where=[[True, False, True], [False, True, True]], out=np.zeros_like(q[:2]))
np.add(f, f, dtype=np.float64)
np.multiply(f, 2.0, dtype=float)
np.sqrt([1, 4, 9], dtype=np.float64) * s
np.add(x, y, dtype=np.complex128)
np.add(x, y, casting="safe")
np.add(x, y, order="C", subok=False)
np.add(f, f, signature="dd->d")
np.subtract(x, y, dtype=np.dtypes.Float64DType)
np.greater(x, y, dtype=bool)
np.multiply(x, 2.0, where=True)
b = x * 1.0; b += y; b *= 2; b
b = m * 1.0; b[0] += m[1]; b[:, 1] **= 2; b
""")
def test_keywords_of_ufuncs(program):
    check(program)


SPECIAL = {
    "x": """expit log_expit erf erfc ndtr log_ndtr exp10 exp2 expm1 cbrt cosm1 exprel round sindg
        cosdg tandg cotdg""",
    "p": "log1p entr",
    "u": "logit entr",
    "x, p": "xlogy xlog1py",
    "p, u": "rel_entr kl_div boxcox boxcox1p inv_boxcox inv_boxcox1p powm1",
    "p, 0.0": "boxcox boxcox1p",
    "1.2, x": "huber pseudo_huber",
    "p, x": "huber pseudo_huber",
    "f": "expit erf ndtr log_expit",
    "10 * x": "log_ndtr expit log_expit",
    "0.0, p": "xlogy xlog1py",
}


@pytest.mark.parametrize(
    "program",
    [f"special.{name}({args})" for args, names in SPECIAL.items() for name in names.split()],
)
def test_ufuncs_of_scipy(program):
    check(program)
