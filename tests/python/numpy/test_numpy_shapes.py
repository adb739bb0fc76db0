"""NumPy's functions for shapes and new arrays on `Array`s; see `numpy_cases`."""

import io

import numpy as np
import pytest
from numpy_cases import check, flattened

import cotan as ct
from cotan._src.runtime.values import in_numpy


def pads_by_axis():
    """Say whether this NumPy knows widths by axis."""
    try:
        np.pad(np.zeros(2), {0: 1})
    except TypeError:
        return False
    return True


SHAPE = {
    "shape": [lambda t: np.shape(t)],
    "ndim": [lambda t: np.ndim(t)],
    "size": [lambda t: np.size(t), lambda t: np.size(t, 1)],
    "reshape": [
        lambda t: np.reshape(t, (6, 4)),
        lambda t: np.reshape(t, -1),
        lambda t: np.reshape(t, (4, -1), order="F"),
        lambda m: np.reshape(m, (2, 6), copy=True),
    ],
    "ravel": [lambda m: np.ravel(m), lambda m: np.ravel(m, "F"), lambda m: np.ravel(m, "K")],
    "resize": [
        lambda v: np.resize(v, (4, 4)),
        lambda m: np.resize(m, 5),
        lambda e: np.resize(e, 2),
    ],
    "transpose": [lambda t: np.transpose(t), lambda t: np.transpose(t, (1, -1, 0))],
    "permute_dims": [lambda t: np.permute_dims(t, (2, 0, 1))],
    "matrix_transpose": [lambda t: np.matrix_transpose(t)],
    "linalg.matrix_transpose": [lambda t: np.linalg.matrix_transpose(t)],
    "swapaxes": [lambda t: np.swapaxes(t, 0, -1)],
    "moveaxis": [lambda t: np.moveaxis(t, 0, -1), lambda t: np.moveaxis(t, (0, 1), (-1, 0))],
    "rollaxis": [lambda t: np.rollaxis(t, 2), lambda t: np.rollaxis(t, 0, 2)],
    "squeeze": [lambda m: np.squeeze(m[None, :, :1]), lambda m: np.squeeze(m[None], 0)],
    "expand_dims": [lambda m: np.expand_dims(m, 1), lambda m: np.expand_dims(m, (0, -1))],
    "broadcast_to": [lambda a: np.broadcast_to(a, (2, 3)), lambda x: np.broadcast_to(x, (2,))],
    "broadcast_arrays": [
        lambda m, a: np.broadcast_arrays(m, a[:, None]),
        lambda v, x: np.broadcast_arrays(v, x),
    ],
    "atleast_1d": [lambda x: np.atleast_1d(x), lambda x, m: np.atleast_1d(x, m)],
    "atleast_2d": [lambda x: np.atleast_2d(x), lambda v: np.atleast_2d(v)],
    "atleast_3d": [lambda m: np.atleast_3d(m), lambda v, x: np.atleast_3d(v, x)],
    "flip": [lambda m: np.flip(m), lambda t: np.flip(t, (0, -1)), lambda t: np.flip(t, 1)],
    "fliplr": [lambda m: np.fliplr(m)],
    "flipud": [lambda m: np.flipud(m)],
    "rot90": [lambda m: np.rot90(m), lambda t: np.rot90(t, 3, (1, 2)), lambda m: np.rot90(m, 2)],
    "roll": [
        lambda v: np.roll(v, 2),
        lambda m: np.roll(m, -1, 0),
        lambda t: np.roll(t, (1, -2), (0, 2)),
        lambda m: np.roll(m, 5),
        lambda e: np.roll(e, 1, 0),
    ],
    "concatenate": [
        lambda m, n: np.concatenate([m, n]),
        lambda m, n: np.concatenate((m, n), axis=-1),
        lambda m, v: np.concatenate([m, v], axis=None),
        lambda m, k: np.concatenate([m, k], 1),
        lambda m, f: np.concatenate([m, f], dtype=np.float32),
        lambda i, o: np.concatenate([i, o]),
        lambda m, n: np.concatenate([m, n], out=np.zeros_like(np.tile(m, (2, 1)))),
    ],
    "concat": [lambda m, n: np.concat([m, n], axis=1)],
    "stack": [
        lambda m, n: np.stack([m, n]),
        lambda m, n: np.stack([m, n], -1),
        lambda m, k: np.stack((m, k), axis=1),
        lambda v, x: np.stack([x, v[0]]),
    ],
    "vstack": [lambda v, w: np.vstack([v, w]), lambda m, n: np.vstack((m, n))],
    "hstack": [lambda v, w: np.hstack([v, w]), lambda m, n: np.hstack((m, n))],
    "dstack": [lambda v, w: np.dstack([v, w]), lambda m, n: np.dstack((m, n))],
    "column_stack": [lambda v, w: np.column_stack([v, w])],
    "unstack": [lambda t: np.unstack(t, axis=1)],
    "block": [
        lambda m, n: np.block([[m, n], [n, m]]),
        lambda v, x: np.block([v, x]),
        lambda m: np.block(m),
    ],
    "append": [
        lambda v, w: np.append(v, w),
        lambda m, n: np.append(m, n, 0),
        lambda m, v: np.append(m, v),
    ],
    "tile": [lambda v: np.tile(v, 2), lambda m: np.tile(m, (2, 1, 3)), lambda t: np.tile(t, (2,))],
    "repeat": [
        lambda v: np.repeat(v, 2),
        lambda v: np.repeat(v, 2.7),
        lambda v: np.repeat(v, [np.float64(2.0)]),
        lambda m: np.repeat(m, [1, 0, 2], axis=0),
        lambda m: np.repeat(m, 3),
        lambda v, i: np.repeat(v, i),
    ],
    "split": [lambda v: np.split(v, 3), lambda m: np.split(m, [1, 3], axis=1)],
    "array_split": [lambda v: np.array_split(v, 4), lambda m: np.array_split(m, 2, 1)],
    "hsplit": [lambda m: np.hsplit(m, 2), lambda v: np.hsplit(v, 3)],
    "vsplit": [lambda m: np.vsplit(m, 3)],
    "dsplit": [lambda t: np.dsplit(t, 2)],
    "delete": [
        lambda v: np.delete(v, 1),
        lambda m: np.delete(m, [0, 2], axis=1),
        lambda m: np.delete(m, slice(1, None), 0),
        lambda v, c: np.delete(v, c),
        lambda m: np.delete(m, -1),
    ],
    "insert": [
        lambda v: np.insert(v, 1, 9.0),
        lambda v, a: np.insert(v, [1, 3, 3], a),
        lambda m, a: np.insert(m, 1, a, axis=1),
        lambda m, v: np.insert(m, [0, 2], v[:4], axis=0),
        lambda v, x: np.insert(v, slice(0, 3), x),
        lambda m: np.insert(m, -1, 0.5),
    ],
    "trim_zeros": [lambda v: np.trim_zeros(np.concatenate([v[:2] * 0, v, v[:1] * 0]))],
    "take": [
        lambda v: np.take(v, [0, 3, 3]),
        lambda m: np.take(m, [[0, 1], [2, 0]], axis=1),
        lambda m: np.take(m, 5),
        lambda m: np.take(m, [-1, 9], mode="wrap"),
        lambda m: np.take(m, [-1, 9], axis=0, mode="clip"),
        lambda v, i: np.take(v, i),
        lambda m: np.take(m, 1, axis=0),
        lambda x: np.take(x, 0),
    ],
    "take_along_axis": [
        lambda m: np.take_along_axis(m, np.argsort(m, 1), 1),
        lambda m: np.take_along_axis(m, np.array([[0], [3], [1]]), axis=1),
        lambda m: np.take_along_axis(m, np.array([5, 1]), axis=None),
    ],
    "compress": [lambda v, c: np.compress(c, v), lambda m: np.compress([True, False, True], m, 1)],
    "extract": [lambda m, b: np.extract(b, m), lambda v: np.extract(v > 0, v)],
    "diagonal": [
        lambda m: np.diagonal(m),
        lambda t: np.diagonal(t, 1, 0, 2),
        lambda m: np.diagonal(m, -1),
    ],
    "linalg.diagonal": [
        lambda t: np.linalg.diagonal(t),
        lambda t: np.linalg.diagonal(t, offset=-1),
    ],
    "trace": [
        lambda m: np.trace(m),
        lambda t: np.trace(t, -1, 1, 2),
        lambda k: np.trace(k),
        lambda o: np.trace(o.reshape(2, 3), dtype=int),
    ],
    "linalg.trace": [lambda t: np.linalg.trace(t), lambda t: np.linalg.trace(t, offset=1)],
    "diag": [
        lambda v: np.diag(v),
        lambda m: np.diag(m, 1),
        lambda a: np.diag(a, -2),
        lambda i: np.diag(i),
    ],
    "diagflat": [lambda m: np.diagflat(m, 1), lambda a: np.diagflat(a)],
    "tril": [
        lambda m: np.tril(m),
        lambda t: np.tril(t, 1),
        lambda k: np.tril(k, -1),
        lambda a: np.tril(a),
    ],
    "triu": [
        lambda m: np.triu(m),
        lambda t: np.triu(t, -1),
        lambda b: np.triu(b),
        lambda a: np.triu(a),
    ],
    "meshgrid": [
        lambda v, a: np.meshgrid(v, a),
        lambda v, a: np.meshgrid(v, a, indexing="ij", sparse=True),
        lambda a, v, x: np.meshgrid(a, v, x),
    ],
    "ix_": [lambda i: np.ix_(i, i[:2]), lambda c: np.ix_(c)],
    "diag_indices_from": [lambda q: np.diag_indices_from(q)],
    "tril_indices_from": [lambda m: np.tril_indices_from(m, 1)],
    "triu_indices_from": [lambda m: np.triu_indices_from(m, -1)],
    "lib.stride_tricks.sliding_window_view": [
        lambda v: np.lib.stride_tricks.sliding_window_view(v, 3),
        lambda m: np.lib.stride_tricks.sliding_window_view(m, (2, 2)),
        lambda m: np.lib.stride_tricks.sliding_window_view(m, 2, axis=1),
    ],
    "pad": [
        lambda v: np.pad(v, 2),
        lambda m: np.pad(m, ((1, 0), (2, 3))),
        lambda m: np.pad(m, (1, 2), constant_values=3.5),
        lambda m: np.pad(m, 1, constant_values=((1, 2), (3, 4))),
        lambda v, x: np.pad(v, 1, constant_values=x),
        lambda m: np.pad(m, 1, "edge"),
        lambda v: np.pad(v, (3, 8), "reflect"),
        lambda m: np.pad(m, 2, "symmetric"),
        lambda m: np.pad(m, 2, "wrap"),
        lambda v: np.pad(v, 2, "reflect", reflect_type="odd"),
        lambda v: np.pad(v, 2, "symmetric", reflect_type="odd"),
        lambda v: np.pad(v, (2, 3), "linear_ramp", end_values=1.5),
        lambda v: np.pad(v, 2, "maximum"),
        lambda m: np.pad(m, 1, "minimum", stat_length=2),
        lambda m: np.pad(m, 1, "mean"),
        lambda v: np.pad(v, 1, "median"),
        *([lambda m: np.pad(m, {1: (1, 2)})] if pads_by_axis() else []),
        lambda k: np.pad(k, 1, constant_values=7),
    ],
    "fft.fftshift": [lambda v: np.fft.fftshift(v), lambda m: np.fft.fftshift(m, 0)],
    "fft.ifftshift": [lambda v: np.fft.ifftshift(v), lambda m: np.fft.ifftshift(m, axes=(1,))],
    "apply_along_axis": [
        lambda m: np.apply_along_axis(lambda r: r[0] * r, 1, m),
        lambda m: np.apply_along_axis(np.sum, 0, m),
        lambda m: np.apply_along_axis(lambda r: np.outer(r, r), 1, m),
    ],
    "apply_over_axes": [lambda t: np.apply_over_axes(np.sum, t, [0, 2])],
    "ravel_multi_index": [lambda k: np.ravel_multi_index((abs(k), abs(k)), (9, 9))],
    "unravel_index": [lambda i: np.unravel_index(i, (3, 2))],
    "packbits": [lambda c: np.packbits(c)],
    "unpackbits": [lambda o: np.unpackbits(o)],
}

MAKING = {
    "zeros_like": [
        lambda m: np.zeros_like(m),
        lambda m: np.zeros_like(m, int, shape=(2,)),
        lambda z: np.zeros_like(z),
    ],
    "ones_like": [lambda m: np.ones_like(m), lambda k: np.ones_like(k), lambda x: np.ones_like(x)],
    "empty_like": [lambda m: np.empty_like(m).shape],
    "full_like": [
        lambda m: np.full_like(m, 2),
        lambda k: np.full_like(k, 2.7),
        lambda v, x: np.full_like(v, x),
        lambda m: np.full_like(m, 1, dtype=bool, shape=3),
    ],
    "zeros": [lambda v: np.zeros(3, like=v)],
    "ones": [lambda v: np.ones((2, 3), np.float32, like=v)],
    "empty": [lambda v: np.empty((2, 3), like=v).shape],
    "full": [
        lambda v: np.full((2,), 3.5, like=v),
        lambda v: np.full((2,), v[0], like=v),
        lambda v: np.full(2, 1, np.float32, like=v),
    ],
    "eye": [lambda v: np.eye(3, 4, 1, like=v)],
    "identity": [lambda v: np.identity(3, like=v)],
    "arange": [lambda v: np.arange(1, 5, 2, like=v)],
    "tri": [lambda v: np.tri(3, 4, 1, like=v)],
    "fromfunction": [lambda v: np.fromfunction(lambda i, j: i + j, (2, 3), like=v)],
    "fromiter": [lambda v: np.fromiter([1.0, 2.0], float, like=v)],
    "fromstring": [lambda v: np.fromstring("1 2 3", sep=" ", like=v)],
    "frombuffer": [lambda v: np.frombuffer(b"\0" * 16, like=v)],
    "loadtxt": [lambda v: np.loadtxt(io.StringIO("1 2\n3 4"), like=v)],
    "genfromtxt": [lambda v: np.genfromtxt(io.StringIO("1 2\n3 4"), like=v)],
    "array": [
        lambda v: np.array([1, 2], like=v),
        lambda v: np.array([v[0], v[1]], like=v),
        lambda m: np.array(m, ndmin=3, like=m),
    ],
    "asarray": [lambda v: np.asarray(v, like=v), lambda v: np.asarray([v[1], 2.0], like=v)],
    "asanyarray": [lambda v: np.asanyarray(v, like=v)],
    "ascontiguousarray": [lambda m: np.ascontiguousarray(m.T, like=m)],
    "asfortranarray": [lambda m: np.asfortranarray(m, like=m)],
    "require": [lambda m: np.require(m, np.float32, like=m)],
    "copy": [lambda m: np.copy(m), lambda m: np.copy(m.T, order="C")],
    "astype": [lambda m: np.astype(m, np.float32), lambda k: np.astype(k, float, copy=False)],
    "linspace": [
        lambda x: np.linspace(x, 3.0, 5),
        lambda a: np.linspace(0, a, 4, endpoint=False, axis=-1),
        lambda x: np.linspace(x, 2 * x, 3, retstep=True),
        lambda x: np.linspace(x, 3, 1),
        lambda a: np.linspace(a, 2.0, 3, dtype=np.float32),
    ],
    "logspace": [lambda x: np.logspace(x, 2.0, 4), lambda a: np.logspace(a, 1, 3, base=2.0)],
    "geomspace": [
        lambda x: np.geomspace(x, 8.0, 4),
        lambda s: np.geomspace(s, 4.0, 3),
        lambda z, s: np.geomspace(z, s, 3),
    ],
    "vander": [lambda v: np.vander(v, 3), lambda v: np.vander(v, increasing=True)],
    "common_type": [lambda f, k: np.common_type(f, k)],
    "result_type": [
        lambda f, k: np.result_type(f, k),
        lambda f: np.result_type(f, 1.0),
        lambda h, o: np.result_type(h, o),
    ],
    "can_cast": [lambda f: np.can_cast(f.dtype, float), lambda k: np.can_cast(k, np.int8)],
    "min_scalar_type": [lambda i: np.min_scalar_type(i)],
    "shares_memory": [
        lambda v: np.shares_memory(v, v[1:]),
        lambda v: np.shares_memory(v, v.copy()),
    ],
    "may_share_memory": [
        lambda v: np.may_share_memory(v, v[1:]),
        lambda v, w: np.may_share_memory(v, w),
    ],
    "array_repr": [lambda v: np.array_repr(v), lambda m: np.array_repr(m, precision=2)],
    "array_str": [lambda m: np.array_str(m)],
    "array2string": [lambda m: np.array2string(m, separator=", ")],
}


CASES = {**SHAPE, **MAKING}


@pytest.mark.parametrize(
    "case", flattened({n: c for n, c in CASES.items() if in_numpy(n) is not None})
)
def test_function(case):
    check(case)


def test_sparse_meshgrid_of_views_is_what_numpy_gives():
    kinds = []

    def f(x):
        options = {}, {"copy": False}, {"copy": False, "sparse": True}
        kinds.append([type(np.meshgrid(x, x, **o)) for o in options])
        return np.sum(x)

    ct.gradient(f, np.ones(2))
    f(np.ones(2))
    assert kinds[0] == kinds[1]
    assert kinds[0][:2] == [tuple, tuple]


def test_texts_are_broadcast_beside_arrays():
    def f(x):
        y, names = np.broadcast_arrays(x, np.array([["a"], ["b"]]))
        assert names.shape == y.shape and names[1, 0] == "b"
        return np.sum(y)

    np.testing.assert_array_equal(ct.gradient(f, np.ones(3)), [2 * np.ones(3)])


@pytest.mark.parametrize("casting", ["no", "equiv", "safe", "same_kind", "unsafe"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "complex128"])
def test_joined_arrays_are_cast_as_is_asked_for(dtype, casting):
    x, y = np.array([1.1, 2.2]), np.array([3.3, 4.4])
    for join, shape in ((np.concatenate, 4), (np.stack, (2, 2))):
        for given in ({"dtype": dtype}, {"out": dtype}):

            def joined(x, y, join=join, given=given, shape=shape):
                made = {k: np.empty(shape, v) if k == "out" else v for k, v in given.items()}
                return join((x, y), casting=casting, **made)

            if np.can_cast(x, dtype, casting):
                found = joined(ct.array(x), ct.array(y))
                assert found.dtype == dtype
                np.testing.assert_array_equal(found, joined(x, y))
            else:
                with pytest.raises(TypeError):
                    joined(ct.array(x), ct.array(y))
    out = np.zeros((), dtype)
    if np.can_cast(x, dtype, casting):
        assert np.einsum("i->", ct.array(x), out=out, casting=casting) is out
    else:
        with pytest.raises(TypeError, match="einsum: cannot cast"):
            np.einsum("i->", ct.array(x), out=out, casting=casting)


def test_orders_in_small_letters():
    x = np.arange(6.0).reshape(2, 3)
    for order in ("c", "f"):
        np.testing.assert_array_equal(ct.array(x).flatten(order), x.flatten(order))
        np.testing.assert_array_equal(np.ravel(ct.array(x), order), np.ravel(x, order))
        np.testing.assert_array_equal(
            np.reshape(ct.array(x), (3, 2), order), np.reshape(x, (3, 2), order)
        )


@pytest.mark.parametrize("args", [(2.0, 3.0), (np.ones(2), np.arange(2.0)), (np.float64(2.0), 3.0)])
def test_what_need_not_be_broadcast_is_written_into(args):
    def f(a, b):
        x, y = np.broadcast_arrays(a, b)
        y[...] = x * 3
        return np.sum(y * a) + np.sum(b)

    value, slopes = ct.value_and_gradient(f, *args)
    copies = [np.copy(a) if isinstance(a, np.ndarray) else a for a in args]
    np.testing.assert_allclose(value, f(*copies))
    shared = isinstance(args[1], np.ndarray)  # y is b itself
    np.testing.assert_allclose(slopes[0], 6 * args[0] + (3 if shared else 0))
    assert slopes[1] is None if shared else slopes[1] == 1
