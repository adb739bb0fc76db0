"""NumPy's functions, ufuncs, methods and indexing on `Array`s, each against NumPy on ndarrays.

A case is a function of inputs that its parameters name (see `INPUTS`). It is run on ndarrays, on
`Array`s, on one `Array` among ndarrays, and under `value_and_gradient`, where central differences
say what the gradient is.
"""

import inspect
import io
import warnings

import numpy as np
import pytest

import cotan as ct
from cotan import _core
from cotan._numpy import FUNCTIONS
from cotan._numpy_core import in_numpy, name_of


def _inputs():
    rng = np.random.default_rng(7)

    def distinct(*shape):
        # No two elements are closer than what central differences step, and none is near a kink.
        size = int(np.prod(shape))
        values = (rng.permutation(size) - size // 2 + rng.uniform(0.2, 0.8, size)) * 0.37
        return values.reshape(shape)

    v, w, m, n, t = distinct(6), distinct(6), distinct(3, 4), distinct(3, 4), distinct(2, 3, 4)
    d, g = v.copy(), m.copy()
    d[[1, 4]] = np.nan
    g[0, 1] = g[2, 2] = np.nan
    return {
        "v": v,
        "w": w,
        "m": m,
        "n": n,
        "t": t,
        "q": distinct(3, 3),
        "r": distinct(4, 2),
        "s": np.array([0.3, 0.9, 1.4, 2.2, 3.1, 3.7]),  # positive and sorted
        "u": np.array([0.42, -0.33, 0.71, -0.58, 0.15, -0.86]),  # inside of (-1, 1)
        "a": distinct(3),
        "x": np.float64(0.7),
        "e": np.zeros((0, 3)),
        "d": d,  # with NaN
        "g": g,  # with NaN
        "i": np.array([3, 0, 5, 1, 4, 1]),
        "j": np.array([2, -1, 4, 3, 1, 7]),
        "k": np.array([[3, 1, 2, 7], [0, 4, 2, -5], [1, 1, 6, 2]], np.int32),
        "o": np.array([1, 3, 2, 5, 4, 2], np.uint8),
        "b": np.array([[1, 0, 1, 1], [0, 0, 1, 0], [1, 1, 0, 1]], bool),
        "c": np.array([1, 0, 0, 1, 1, 0], bool),
        "f": n.astype(np.float32),
        "h": np.array([0.5, -1.25, 2.0, 3.5, -0.75, 1.0], np.float16),
        "z": v + 1j * w,
        "y": distinct(3, 3) + 1j * distinct(3, 3),
    }


INPUTS = _inputs()


def parameters(function):
    return [
        name for name, p in inspect.signature(function).parameters.items() if p.default is p.empty
    ]


def arguments(function, copy=np.copy):
    return [
        copy(INPUTS[name]) if np.ndim(INPUTS[name]) else INPUTS[name]
        for name in parameters(function)
    ]


def quiet(function, *args):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return function(*args)


def values(tree):
    """Give the value of what a case gives, without what makes it one of ours."""
    if isinstance(tree, (ct.Array, _core.Array)):
        return _core.value(tree)
    if isinstance(tree, (list, tuple)):
        return [values(item) for item in tree]
    return tree


def leaves(tree):
    if isinstance(tree, (list, tuple)):
        for item in tree:
            yield from leaves(item)
    else:
        yield tree


TOLERANCE = {"float16": 2e-3, "float32": 2e-5, "complex64": 2e-5}


def assert_same(got, expected, ranks=True):
    if isinstance(expected, (list, tuple)):
        assert isinstance(got, type(expected) if type(expected) in {list, tuple} else tuple)
        assert len(got) == len(expected)
        for g, x in zip(got, expected, strict=True):
            assert_same(g, x, ranks)
        return
    if not isinstance(expected, (np.ndarray, np.generic, int, float, complex)):
        assert type(got) is type(expected)
        assert got == expected
        return
    if isinstance(got, _core.Array):
        assert got.dtype == np.asarray(expected).dtype
        if ranks:
            assert (got._rank == "array") == isinstance(expected, np.ndarray), got._rank
    else:
        assert np.asarray(got).dtype == np.asarray(expected).dtype
    value, expected = np.asarray(values(got)), np.asarray(expected)
    assert value.shape == expected.shape
    tolerance = TOLERANCE.get(expected.dtype.name, 1e-11)
    np.testing.assert_allclose(value, expected, rtol=tolerance, atol=tolerance)


def weights_of(outputs):
    rng = np.random.default_rng(3)
    found = []
    for x in leaves(outputs):
        kind = np.asarray(x).dtype.kind if not isinstance(x, _core.Array) else x.dtype.kind
        shape = np.shape(x)
        # Central differences say nothing of what is rounded to single precision.
        exact = kind in "fc" and np.result_type(x).itemsize >= (16 if kind == "c" else 8)
        w = rng.uniform(0.5, 1.5, shape) if exact else None
        complex_weights = kind == "c" and w is not None
        found.append(w + 1j * rng.uniform(0.5, 1.5, shape) if complex_weights else w)
    return found


def weighted(outputs, weights):
    """Give a real number made of everything that has a derivative."""
    total = 0.0
    for x, w in zip(leaves(outputs), weights, strict=True):
        if w is not None:
            product = x * w
            product = product.real if np.iscomplexobj(w) else product
            total = total + np.nansum(product)
    return total


STEP = 1e-6


def differences(function, inputs, at, weights):
    """Give the gradient with respect to one input, by central differences."""
    x = inputs[at]
    gradient = np.zeros(np.shape(x), np.result_type(x))
    for index in np.ndindex(np.shape(x)):
        for step in (STEP, 1j * STEP) if np.iscomplexobj(x) else (STEP,):
            ends = []
            for sign in (1, -1):
                moved = np.array(x)
                moved[index] += sign * step
                moved = moved if np.ndim(x) else moved[()]
                varied = [np.copy(o) if np.ndim(o) else o for o in inputs]
                varied[at] = moved
                ends.append(weighted(quiet(function, *varied), weights))
            slope = (ends[0] - ends[1]) / (2 * STEP)
            gradient[index] += slope * (step / STEP)
    return gradient


def check_value(function, ranks=True):
    expected = quiet(function, *arguments(function))
    assert_same(quiet(function, *arguments(function, ct.array)), expected, ranks)
    names = parameters(function)
    if len(names) > 1:
        for one in names:
            mixed = [
                ct.array(INPUTS[name]) if name == one else np.copy(INPUTS[name]) for name in names
            ]
            assert_same(quiet(function, *mixed), expected, ranks)


def followed(inputs):
    return [np.result_type(x) in {np.dtype("f8"), np.dtype("c16")} for x in inputs]


def check_gradient(function):
    inputs = arguments(function)
    weights = weights_of(quiet(function, *inputs))
    wrt = followed(inputs)
    if not any(wrt) or all(w is None for w in weights):
        return
    given = [x if there else ct.const(x) for x, there in zip(inputs, wrt, strict=True)]
    _, gradients = quiet(
        lambda: ct.value_and_gradient(lambda *xs: weighted(function(*xs), weights), *given)
    )
    for at, (x, there) in enumerate(zip(inputs, wrt, strict=True)):
        if not there:
            continue
        expected = differences(function, inputs, at, weights)
        got = np.zeros(np.shape(x)) if gradients[at] is None else values(gradients[at])
        known = np.isfinite(x)
        np.testing.assert_allclose(
            np.asarray(got)[known],
            expected[known],
            rtol=2e-6,
            atol=2e-7 * max(1, np.abs(expected[known]).max(initial=0)),
        )


class Refused:
    """A case whose derivative is refused."""

    def __init__(self, function):
        self.function = function


class Loose:
    """A case in which NumPy and cotan differ in whether a single number is an array."""

    def __init__(self, function):
        self.function = function


def check(case):
    if isinstance(case, Refused):
        function = case.function
        check_value(function)
        inputs = arguments(function)
        given = [x if f else ct.const(x) for x, f in zip(inputs, followed(inputs), strict=True)]
        with pytest.raises(TypeError, match=r"cotan|gradient"):
            ct.value_and_gradient(
                lambda *xs: weighted(function(*xs), weights_of(function(*inputs))), *given
            )
        return
    if isinstance(case, Loose):
        check_value(case.function, ranks=False)
        check_gradient(case.function)
        return
    check_value(case)
    check_gradient(case)


def wrote(x, write):
    """Give a copy of an array after something was written into it."""
    y = x.copy()
    write(y)
    return y


def label(name, number):
    return f"{name}-{number}"


def flattened(table):
    return [
        pytest.param(case, id=label(name, number))
        for name, cases in table.items()
        for number, case in enumerate(cases)
    ]


# --------------------------------------------------------------------------------------------------
# Functions

REDUCTION = {
    "sum": [
        lambda v: np.sum(v),
        lambda m: np.sum(m, 0),
        lambda t: np.sum(t, (0, -1), keepdims=True),
        lambda m: np.sum(m, axis=()),
        lambda m: np.sum(m, initial=2.5),
        lambda m, b: np.sum(m, axis=1, where=b),
        lambda m, b: np.sum(m, where=b, initial=3),
        lambda m: np.sum(m, dtype=np.float32),
        lambda k: np.sum(k, 0),
        lambda k: np.sum(k, 0, dtype=np.float64),
        lambda b: np.sum(b, 1),
        lambda o: np.sum(o, dtype=int),
        lambda f: np.sum(f, 1),
        lambda e: np.sum(e, 0),
        lambda z: np.sum(z),
        lambda x: np.sum(x),
        lambda m: np.sum(m, 0, out=np.zeros_like(m[0])),
    ],
    "prod": [
        lambda v: np.prod(v),
        lambda m: np.prod(m, 1),
        lambda m, b: np.prod(m, 0, where=b),
        lambda m: np.prod(m, initial=0.5),
        lambda t: np.prod(t, (0, 1), keepdims=True),
        lambda k: np.prod(k, 0),
        lambda z: np.prod(z),
        lambda e: np.prod(e, 0),
    ],
    "max": [
        lambda v: np.max(v),
        lambda m: np.max(m, 0),
        lambda t: np.max(t, (0, 2), keepdims=True),
        lambda m, b: np.max(m, 1, where=b, initial=-100),
        lambda m: np.max(m, initial=1000.0),
        lambda k: np.max(k, 1),
        lambda b: np.max(b, 1),
        lambda e: np.max(e, 1),
        lambda e: np.max(e, 0, initial=0),
        lambda d: np.max(d),
        lambda z: np.max(z),
        lambda m: np.max(m, 0, out=np.zeros_like(m[0])),
    ],
    "min": [
        lambda v: np.min(v),
        lambda m: np.min(m, 1),
        lambda m, b: np.min(m, 1, where=b, initial=100),
        lambda o: np.min(o),
        lambda y: np.min(y, 0),
    ],
    "amax": [lambda m: np.amax(m, 0)],
    "amin": [lambda m: np.amin(m, 0)],
    "mean": [
        lambda v: np.mean(v),
        lambda m: np.mean(m, 0),
        lambda t: np.mean(t, (0, 2), keepdims=True),
        lambda m, b: np.mean(m, 1, where=b),
        lambda k: np.mean(k),
        lambda b: np.mean(b, 0),
        lambda f: np.mean(f, 0),
        lambda h: np.mean(h),
        lambda z: np.mean(z),
        lambda m: np.mean(m, dtype=np.float32),
        lambda m: np.mean(m, 0, out=np.zeros_like(m[0])),
    ],
    "var": [
        lambda v: np.var(v),
        lambda m: np.var(m, 0, ddof=1),
        lambda m: np.var(m, 1, correction=1, keepdims=True),
        lambda m, b: np.var(m, 1, where=b),
        lambda k: np.var(k),
        lambda f: np.var(f, 0),
        lambda z: np.var(z),
        lambda m: np.var(m, 0, mean=np.mean(m, 0, keepdims=True)),
    ],
    "std": [
        lambda v: np.std(v),
        lambda m: np.std(m, 0, ddof=1),
        lambda m, b: np.std(m, 1, where=b, keepdims=True),
        lambda k: np.std(k, 0),
        lambda f: np.std(f),
        lambda z: np.std(z),
    ],
    "ptp": [lambda v: np.ptp(v), lambda m: np.ptp(m, 0, keepdims=True), lambda k: np.ptp(k, 1)],
    "average": [
        lambda v: np.average(v),
        lambda m: np.average(m, 0),
        lambda v, s: np.average(v, weights=s),
        lambda m, a: np.average(m, 0, weights=a),
        lambda v, s: np.average(v, weights=s, returned=True),
        lambda m: np.average(m, 1, returned=True, keepdims=True),
        lambda i: np.average(i),
    ],
    "median": [
        lambda v: np.median(v),
        lambda m: np.median(m, 0),
        lambda m: np.median(m, 1, keepdims=True),
        lambda t: np.median(t, (0, 2)),
        lambda i: np.median(i),
        lambda d: np.median(d),
    ],
    "quantile": [
        lambda v: np.quantile(v, 0.3),
        lambda m: np.quantile(m, [0.1, 0.77], axis=1),
        lambda v: np.quantile(v, 0.3, method="nearest"),
        lambda m: np.quantile(m, 0.4, axis=0, keepdims=True, method="hazen"),
        lambda v, s: np.quantile(v, 0.3, weights=s, method="inverted_cdf"),
    ],
    "percentile": [lambda v: np.percentile(v, 30), lambda m: np.percentile(m, [10, 60], 0)],
    "all": [
        lambda b: np.all(b),
        lambda b: np.all(b, 0),
        lambda m: np.all(m, 1, keepdims=True),
        lambda i, c: np.all(i, where=c),
        lambda e: np.all(e, 0),
    ],
    "any": [lambda b: np.any(b), lambda k: np.any(k, 1), lambda z: np.any(z), lambda e: np.any(e)],
    "count_nonzero": [
        lambda b: np.count_nonzero(b),
        lambda k: np.count_nonzero(k, axis=0),
        lambda m: np.count_nonzero(m > 0, axis=1, keepdims=True),
    ],
    "argmax": [
        lambda v: np.argmax(v),
        lambda m: np.argmax(m, 0),
        lambda m: np.argmax(m, 1, keepdims=True),
        lambda d: np.argmax(d),
        lambda b: np.argmax(b, 1),
    ],
    "argmin": [lambda v: np.argmin(v), lambda m: np.argmin(m, axis=-1), lambda k: np.argmin(k)],
    "nansum": [lambda d: np.nansum(d), lambda g: np.nansum(g, 0), lambda i: np.nansum(i)],
    "nanprod": [lambda d: np.nanprod(d), lambda g: np.nanprod(g, 1, keepdims=True)],
    "nanmax": [lambda d: np.nanmax(d), lambda g: np.nanmax(g, 0)],
    "nanmin": [lambda d: np.nanmin(d), lambda g: np.nanmin(g, 1)],
    "nanmean": [lambda d: np.nanmean(d), lambda g: np.nanmean(g, 0), lambda v: np.nanmean(v)],
    "nanvar": [lambda d: np.nanvar(d), lambda g: np.nanvar(g, 1, ddof=1)],
    "nanstd": [lambda d: np.nanstd(d), lambda g: np.nanstd(g, 0, keepdims=True)],
    "nanmedian": [lambda d: np.nanmedian(d), lambda g: np.nanmedian(g, 0)],
    "nanquantile": [lambda d: np.nanquantile(d, 0.3), lambda g: np.nanquantile(g, [0.2, 0.6], 1)],
    "nanpercentile": [lambda d: np.nanpercentile(d, 30), lambda g: np.nanpercentile(g, 40, 0)],
    "nanargmax": [lambda d: np.nanargmax(d), lambda g: np.nanargmax(g, 0)],
    "nanargmin": [lambda d: np.nanargmin(d), lambda g: np.nanargmin(g, 1)],
    "nancumsum": [lambda d: np.nancumsum(d), lambda g: np.nancumsum(g, 1)],
    "nancumprod": [lambda d: np.nancumprod(d), lambda g: np.nancumprod(g, 0)],
    "cumsum": [
        lambda v: np.cumsum(v),
        lambda m: np.cumsum(m),
        lambda m: np.cumsum(m, 0),
        lambda k: np.cumsum(k, 1),
        lambda b: np.cumsum(b),
        lambda o: np.cumsum(o, dtype=int),
        lambda f: np.cumsum(f, -1),
        lambda m: np.cumsum(m, dtype=np.float32),
        lambda z: np.cumsum(z),
    ],
    "cumprod": [
        lambda v: np.cumprod(v),
        lambda m: np.cumprod(m, 1),
        lambda k: np.cumprod(k, 0),
        lambda z: np.cumprod(z),
        lambda m: np.cumprod(m),
    ],
    "cumulative_sum": [
        lambda v: np.cumulative_sum(v),
        lambda m: np.cumulative_sum(m, axis=0, include_initial=True),
        lambda k: np.cumulative_sum(k, axis=1),
    ],
    "cumulative_prod": [
        lambda v: np.cumulative_prod(v, include_initial=True),
        lambda m: np.cumulative_prod(m, axis=1),
    ],
}

SORTING = {
    "sort": [
        lambda v: np.sort(v),
        lambda m: np.sort(m, 0),
        lambda m: np.sort(m, None),
        lambda t: np.sort(t, 1, kind="stable"),
        lambda k: np.sort(k),
        lambda d: np.sort(d),
        lambda b: np.sort(b),
        lambda z: np.sort(z),
        lambda e: np.sort(e, 0),
    ],
    "argsort": [
        lambda v: np.argsort(v),
        lambda m: np.argsort(m, 0),
        lambda m: np.argsort(m, axis=None),
        lambda k: np.argsort(k, kind="stable"),
        lambda d: np.argsort(d, stable=True),
    ],
    "partition": [
        lambda v: np.sort(np.partition(v, 2)[:3]),
        lambda m: np.partition(m, 1, axis=0)[1],
        lambda m: np.partition(m, (2, 4), axis=None)[[2, 4]],
    ],
    "argpartition": [
        lambda v: v[np.argpartition(v, 2)[2]],
        lambda m: np.argpartition(m, 1, 1)[:, 1],
    ],
    "sort_complex": [lambda z: np.sort_complex(z), lambda v: np.sort_complex(v)],
    "searchsorted": [
        lambda s, v: np.searchsorted(s, v),
        lambda s, w: np.searchsorted(s, w, side="right"),
        lambda v, w: np.searchsorted(v, w, sorter=np.argsort(v)),
    ],
    "digitize": [lambda v, s: np.digitize(v, s), lambda v, s: np.digitize(v, s, right=True)],
    "lexsort": [lambda i, j: np.lexsort((i, j))],
    "nonzero": [lambda k: np.nonzero(k), lambda m: np.nonzero(m > 0), lambda c: np.nonzero(c)],
    "argwhere": [lambda k: np.argwhere(k), lambda m: np.argwhere(m > 0)],
    "flatnonzero": [lambda k: np.flatnonzero(k)],
    "unique": [
        lambda v: np.unique(v),
        lambda i: np.unique(i),
        lambda k: np.unique(k, return_index=True, return_inverse=True, return_counts=True),
        lambda m: np.unique(m, axis=0),
        lambda k: np.unique(k, axis=1, return_counts=True),
        lambda d: np.unique(d),
    ],
    "unique_all": [lambda v: np.unique_all(v), lambda i: np.unique_all(i)],
    "unique_counts": [lambda i: np.unique_counts(i)],
    "unique_inverse": [lambda i: np.unique_inverse(i)],
    "unique_values": [
        lambda i: np.sort(np.unique_values(i)),
        lambda v: np.sort(np.unique_values(v)),
    ],
    "union1d": [lambda v, w: np.union1d(v, w), lambda i, j: np.union1d(i, j)],
    "intersect1d": [
        lambda i, j: np.intersect1d(i, j),
        lambda v: np.intersect1d(v, v[:3]),
        lambda i, j: np.intersect1d(i, j, return_indices=True),
    ],
    "setdiff1d": [lambda i, j: np.setdiff1d(i, j), lambda v: np.setdiff1d(v, v[:2])],
    "setxor1d": [lambda i, j: np.setxor1d(i, j), lambda v: np.setxor1d(v, v[:2])],
    "isin": [lambda i, j: np.isin(i, j), lambda k: np.isin(k, [1, 2], invert=True)],
    "in1d": [lambda i, j: np.in1d(i, j)],  # noqa: NPY201 - while there are versions that have it
}

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
        lambda m: np.pad(m, {1: (1, 2)}),
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
    "geomspace": [lambda x: np.geomspace(x, 8.0, 4), lambda s: np.geomspace(s, 4.0, 3)],
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
        lambda v: np.histogram(v)[0],
        lambda v, s: np.histogram(v, bins=[-1, 0, 1], weights=s),
        lambda v: np.histogram(v, 3, (-1.0, 1.0)),
    ],
    "histogram_bin_edges": [lambda v: np.histogram_bin_edges(v, 4, (-1, 1))],
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
        lambda q: np.cross(q[:, :2], q[::-1]),
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
    "einsum_path": [lambda m, r, a: np.einsum_path("ij,jk,i->k", m, r, a, optimize="greedy")[0]],
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
        lambda m: np.linalg.vector_norm(m, axis=0, ord=np.inf),
    ],
    "linalg.matrix_power": [
        lambda q: np.linalg.matrix_power(q, 0),
        lambda q: np.linalg.matrix_power(q, 1),
        lambda q: np.linalg.matrix_power(q, 5),
        lambda y: np.linalg.matrix_power(y, 3),
    ],
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

CASES = {**REDUCTION, **SORTING, **SHAPE, **MAKING, **ELEMENTWISE, **LINEAR, **WRITING}


@pytest.mark.parametrize(
    "case", flattened({n: c for n, c in CASES.items() if in_numpy(n) is not None})
)
def test_function(case):
    check(case)


def test_every_function_has_a_case():
    tested = {id(in_numpy(name)) for name in CASES}
    missing = sorted({name_of(f) for f in FUNCTIONS if id(f) not in tested})
    assert not missing
