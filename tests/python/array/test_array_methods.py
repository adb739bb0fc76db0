"""The methods and attributes of `Array`, against those of ndarray."""

import copy

import numpy as np
import pytest
from numpy_cases import arguments, assert_same_error, check, flattened, raised, wrote

import cotan as ct
from cotan._src.array import methods


def walked(flat, count):
    """Give an iterator after some steps."""
    for _ in range(count):
        next(flat)
    return flat


METHOD_CASES = {
    "all": [lambda b: b.all(), lambda m: m.all(axis=0), lambda b: b.all(1, keepdims=True)],
    "any": [lambda b: b.any(), lambda k: k.any(axis=1), lambda b, m: b.any(where=m > 0)],
    "argmax": [lambda m: m.argmax(), lambda m: m.argmax(0), lambda m: m.argmax(1, keepdims=True)],
    "argmin": [lambda m: m.argmin(), lambda m: m.argmin(axis=-1)],
    "argpartition": [lambda v: v[v.argpartition(2)[2]]],
    "argsort": [lambda m: m.argsort(), lambda m: m.argsort(0), lambda m: m.argsort(axis=None)],
    "astype": [
        lambda k: k.astype(float),
        lambda m: m.astype(int),
        lambda m: m.astype(complex),
        lambda m: m.astype("f8", copy=False),
        lambda f: f.astype(np.float64, casting="safe"),
    ],
    "choose": [lambda c, v, w: c.astype(int).choose([v, w])],
    "clip": [
        lambda m: m.clip(-0.5, 0.5),
        lambda m: m.clip(max=0.3),
        lambda m, n: m.clip(n),
        lambda m: m.clip(0, 1, out=np.zeros_like(m)),
    ],
    "compress": [lambda m: m.compress([True, False, True], axis=0), lambda v, c: v.compress(c)],
    "conj": [lambda z: z.conj(), lambda v: v.conj()],
    "conjugate": [lambda z: z.conjugate()],
    "copy": [lambda m: m.copy(), lambda m: m.T.copy(order="F")],
    "cumprod": [lambda m: m.cumprod(), lambda m: m.cumprod(axis=0), lambda k: k.cumprod(1)],
    "cumsum": [
        lambda m: m.cumsum(),
        lambda m: m.cumsum(0),
        lambda k: k.cumsum(-1, dtype=float),
        lambda m: m.cumsum(1, out=np.zeros_like(m)),
    ],
    "diagonal": [lambda m: m.diagonal(), lambda t: t.diagonal(1, 0, 2)],
    "dot": [lambda m, r: m.dot(r), lambda v, w: v.dot(w), lambda v: v.dot(2.0)],
    "fill": [lambda m, x: wrote(m, lambda y: y.fill(x))],
    "flat": [
        lambda m: m.flat[5],
        lambda m: m.flat[2:7:2],
        lambda m: m.T.flat[[0, -1]],
        lambda m, x: wrote(m, lambda y: y.flat.__setitem__(slice(1, 4), x)),
        lambda m, v: wrote(m, lambda y: y.T.flat.__setitem__([1, 2, 3], v[:3])),
        lambda m: np.stack(list(m.flat)),
        lambda m: np.sum(np.sin(m.T.flat) * m.flat),
        lambda m: np.concatenate([m.T.flat, m.flat]),
        lambda m: sum(a * b for a, b in zip(m.flat, m.T.flat, strict=True)),
        lambda m: m.flat > 0.3,
        lambda m: np.asarray(m.T.flat) * np.array(m.flat, dtype=float),
        lambda m: next(walked(m.T.flat, 2)),
        lambda m: sum(m[0, 0] * a for a in np.arange(3.0).flat),
        lambda m: m[0] * np.take(np.arange(3.0), 1),
        lambda m: np.cumulative_sum(m[0, 0], axis=0),
        lambda m: np.clip(m[0, 0], 0.0, 1.0, out=np.zeros(3)),
        lambda m: walked(m.T.flat, 5).coords,
        lambda m: wrote(m[:0], lambda y: y.flat.__setitem__([0, -1], [])),
    ],
    "flatten": [lambda m: m.flatten(), lambda m: m.flatten("F"), lambda m: m.T.flatten()],
    "imag": [lambda z: z.imag, lambda v: v.imag],
    "item": [
        lambda k: k.item(5),
        lambda k: k.item(1, 2),
        lambda k: k.item((1, 2)),
        lambda i: i[2].item(),
    ],
    "max": [
        lambda m: m.max(),
        lambda m: m.max(0),
        lambda t: t.max((0, 2), keepdims=True),
        lambda m, b: m.max(1, where=b, initial=-9),
        lambda m: m.max(1, out=np.zeros_like(m[:, 0])),
    ],
    "mean": [
        lambda m: m.mean(),
        lambda k: k.mean(1),
        lambda m: m.mean(0, keepdims=True),
        lambda m, b: m.mean(1, where=b),
        lambda m: m.mean(1, out=np.zeros_like(m[:, 0])),
        lambda f: f.mean(dtype=float),
    ],
    "min": [
        lambda m: m.min(),
        lambda m: m.min(axis=1, keepdims=True),
        lambda m: m.min(0, initial=0.1),
    ],
    "nonzero": [lambda k: k.nonzero(), lambda c: c.nonzero()],
    "partition": [lambda v: wrote(v, lambda y: y.partition(2))[2]],
    "prod": [
        lambda m: m.prod(),
        lambda k: k.prod(0),
        lambda m, b: m.prod(1, where=b, initial=2.0),
        lambda m: m.prod(1, out=np.zeros_like(m[:, 0])),
    ],
    "ptp": [],
    "put": [
        lambda m: wrote(m, lambda y: y.put([0, 5], 2.5)),
        lambda m, v: wrote(m, lambda y: y.T.put([1, -1], v)),
    ],
    "ravel": [lambda m: m.ravel(), lambda m: m.ravel("F"), lambda m: m.ravel(order="A")],
    "real": [lambda z: z.real, lambda v: v.real],
    "repeat": [lambda m: m.repeat(2), lambda m: m.repeat([1, 0, 2], axis=0)],
    "reshape": [
        lambda m: m.reshape(2, 6),
        lambda m: m.reshape((-1, 2)),
        lambda m: m.reshape([3, 2, 2], order="F"),
        lambda m: m.T.reshape(-1),
        lambda v: v.reshape(1, -1, copy=True),
        lambda x: np.reshape(x, (1, 1)),
    ],
    "round": [lambda m: m.round(), lambda m: m.round(1), lambda k: k.round(-1)],
    "searchsorted": [lambda s, v: s.searchsorted(v), lambda s, w: s.searchsorted(w, "right")],
    "sort": [
        lambda m: wrote(m, lambda y: y.sort()),
        lambda m: wrote(m, lambda y: y.sort(axis=0)),
        lambda m: wrote(m, lambda y: y[1].sort()),
    ],
    "squeeze": [
        lambda m: m[None, :, :1].squeeze(),
        lambda m: m[None].squeeze(0),
        lambda v: v[:1].squeeze(),
    ],
    "std": [lambda m: m.std(), lambda m: m.std(0, ddof=1), lambda m: m.std(1, keepdims=True)],
    "sum": [
        lambda m: m.sum(),
        lambda m: m.sum(0),
        lambda k: k.sum(axis=1, dtype=float),
        lambda t: t.sum((0, -1), keepdims=True),
        lambda m, b: m.sum(1, where=b),
        lambda m: m.sum(initial=2.0),
        lambda m: m.sum(1, out=np.zeros_like(m[:, 0])),
    ],
    "swapaxes": [lambda t: t.swapaxes(0, 2), lambda t: t.swapaxes(-1, 1)],
    "T": [lambda t: t.T],
    "mT": [lambda t: t.mT],
    "take": [
        lambda m: m.take([0, 5]),
        lambda m: m.take([[1, 0]], axis=1),
        lambda v: v.take(9, mode="wrap"),
    ],
    "to_device": [lambda m: m.to_device("cpu")],
    "tolist": [lambda k: k.tolist(), lambda b: b.tolist()],
    "trace": [lambda m: m.trace(), lambda t: t.trace(1, 0, 2)],
    "transpose": [
        lambda t: t.transpose(),
        lambda t: t.transpose(1, 2, 0),
        lambda t: t.transpose((1, 0, 2)),
        lambda t: t.transpose(None),
        lambda t: t.transpose(-1, 0, 1),
    ],
    "view": [
        lambda m: m.view(),
        lambda m: m.view(np.ndarray),
        lambda m: m.view(m.dtype),
        lambda k: k.view(k.dtype, np.ndarray),
        lambda m: m.view(type=np.ndarray),
        lambda m, x: wrote(m, lambda y: y.view().fill(x)),
    ],
    "var": [lambda m: m.var(), lambda m: m.var(0, ddof=1), lambda k: k.var(1, keepdims=True)],
    "__contains__": [lambda k: 7 in k, lambda k: 8 in k],
    "__iter__": [
        lambda m: list(m),
        lambda v: list(v),
        lambda v: sum(v),
        lambda m: [r * 2 for r in m],
    ],
    "__len__": [lambda m: len(m)],
    "__round__": [lambda x: round(x * 3)],
    "__divmod__": [lambda v, s: divmod(v, s), lambda v: divmod(2.0, v)],
    "__copy__": [lambda m: wrote(m, lambda y: copy.copy(y).fill(1))],
    "__deepcopy__": [lambda m: wrote(m, lambda y: copy.deepcopy(y).fill(1))],
}
# In ndarray, too, but not about numbers; tested elsewhere, or refused.
OTHER_ATTRIBUTES = {
    *methods._REFUSED,
    *("base", "ctypes", "data", "device", "dtype", "flags", "itemsize", "nbytes", "ndim"),
    *("shape", "size", "strides", "itemset", "newbyteorder", "ptp", "resize", "setflags"),
    *("byteswap", "dump", "dumps", "tobytes", "tofile", "tostring"),
}


@pytest.mark.parametrize("case", flattened(METHOD_CASES))
def test_method(case):
    check(case)


def test_every_method_has_a_case():
    public = {name for name in dir(np.ndarray) if not name.startswith("_")}
    assert not public - set(METHOD_CASES) - OTHER_ATTRIBUTES


METHOD_ERRORS = [
    lambda m: m.sum(axis=2),
    lambda m: m.sum(axis=(0, 0)),
    lambda m: m.sum(axis=0.5),
    lambda m: m.max(axis=-3),
    lambda m: m.mean(axis=2),
    lambda m: m.prod(axis="a"),
    lambda m: m.argmax(2),
    lambda m: m.cumsum(2),
    lambda m: m.std(2),
    lambda m: m.sort(2),
    lambda m: m.argsort(2),
    lambda m: m.reshape(5, 3),
    lambda m: m.reshape(-1, -1),
    lambda m: m.reshape(-1, 5),
    lambda m: m.reshape(1.5, 8),
    lambda m: m.reshape(3, 4, order="Z"),
    lambda m: m.transpose(0),
    lambda m: m.transpose(0, 0),
    lambda m: m.transpose(0, 2),
    lambda m: m.swapaxes(0, 2),
    lambda m: m.squeeze(0),
    lambda m: m.squeeze(2),
    lambda m: m.astype("nonsense"),
    lambda m: m.astype(int, casting="safe"),
    lambda m: m.dot(m),
    lambda m: m.repeat([1, 2]),
    lambda m: m.repeat(2, axis=2),
    lambda m: m.take([12]),
    lambda m: m.take([0], axis=2),
    lambda m: m.diagonal(0, 0, 0),
    lambda m: m.diagonal(0, 0, 2),
    lambda v: v.diagonal(),
    lambda v: v.trace(),
    lambda v: v.mT,
    lambda m: m.partition(4),
    lambda m: m.flat[12],
    lambda m: m.item(),
    lambda k: k.item(12),
    lambda x: len(np.reshape(x, ())),
    lambda x: iter(np.reshape(x, ())),
    lambda m: bool(m),
    lambda m: int(m),
    lambda m: float(m),
    lambda k: k.__index__(),
    lambda m: m.put([12], 1.0),
    lambda e: e.max(),
    lambda e: e.argmin(),
    lambda m: m.sum(0, out=np.zeros_like(m)),
    lambda m: m.choose([1, 2]),
    lambda m: m.compress([True] * 13),
    lambda m: m @ m,
    lambda m: m @ 2.0,
    lambda m, q: m + q,
    lambda m: m & m,
    lambda m: m << 1,
    lambda m: ~m,
    lambda b: -b,
    lambda b: b - b,
    lambda z: z // z,
    lambda z: z % z,
    lambda m: m + "a",
    lambda m: m + object(),
]


@pytest.mark.parametrize("case", METHOD_ERRORS, ids=[str(i) for i in range(len(METHOD_ERRORS))])
def test_errors_are_numpys(case):
    assert_same_error(raised(case, *arguments(case, ct.array)), raised(case, *arguments(case)))


# --------------------------------------------------------------------------------------------------
# Attributes that can be set


def set_shape(x, shape):
    x.shape = shape


def set_part(x, name, value):
    setattr(x, name, value)


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (1.5, TypeError, r"^add: .*int64.*float64.*write x = x \+ y"),
        (np.ones((2, 3), int), ValueError, r"^add: .*\(3,\).*\(2, 3\).*write x = x \+ y"),
    ],
)
def test_errors_of_operators_in_place_say_what_to_write(value, error, message):
    x = ct.array([1, 2, 3])
    with pytest.raises(error, match=message):
        x += value


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.matrix,), r"view: .*numpy\.matrix.*@"),
        ((None, np.ma.MaskedArray), r"view: .*MaskedArray.*np\.where"),
    ],
)
def test_views_as_something_else_are_refused(arguments, message):
    with pytest.raises(TypeError, match=message):
        ct.array(np.ones(3)).view(*arguments)


def test_flags_compare_and_have_short_names():
    plain = np.ones((2, 3))
    x = ct.array(plain)
    assert x.flags == plain.flags and plain.flags == x.flags and x.flags == x.copy().flags
    assert x.flags != x.T.flags and x.flags != 3
    for name in ("C", "F", "W", "A", "O", "X", "B", "CA", "FA"):
        assert x.flags[name] == plain.flags[name]
    for wanted in (["C"], ["F"], ["W", "O"], "A", None):
        y, _ = ct.pullback(lambda x, w=wanted: np.require(x.T, float, w), plain)
        np.testing.assert_array_equal(y, np.require(plain.T, float, wanted))


def test_complex_numbers_are_seen_as_their_parts():
    x = np.array([[1.0, -2.0, 0.5, 3.0], [0.1, 0.7, -1.5, 2.0]])
    w = np.cos(np.arange(8.0)).reshape(2, 4)
    for dtype in (np.float64, np.float32):
        one, of = x.astype(dtype), np.result_type(dtype, np.complex64)
        y, back = ct.pullback(lambda x: (x * x).view(of), one)
        np.testing.assert_array_equal(y, (one * one).view(of))
        assert y.dtype == of
        ct_of = w.astype(dtype).view(of)
        np.testing.assert_allclose(back(ct_of)[0], 2 * one * w.astype(dtype), 1e-6)
        z, back = ct.pullback(lambda z: (z * 2).view(dtype), one.view(of))
        np.testing.assert_array_equal(z, 2 * one)
        np.testing.assert_allclose(back(w.astype(dtype))[0], 2 * ct_of, 1e-6)

    def f(x):
        with pytest.raises(ValueError, match="read-only"):
            x.view(complex)[0, 0] = 1.0  # which would not reach x
        return np.sum(x)

    ct.gradient(f, x)
    for wrong, message in (
        (lambda x: x.T.view(complex), "last axis must be contiguous"),
        (lambda x: x[:, :3].copy().view(complex), "must be a divisor"),
        (lambda x: np.asarray(x[0, 0]).view(complex), "0d array"),
    ):
        with pytest.raises(ValueError, match=message):
            wrong(x)
        with pytest.raises(ValueError, match=message):
            ct.gradient(lambda x, wrong=wrong: np.sum(np.abs(wrong(x))), x)


SETTERS = [
    lambda m: wrote(m, lambda y: set_shape(y, (2, 6))),
    lambda m: wrote(m, lambda y: set_shape(y, -1)),
    lambda m: wrote(m, lambda y: set_shape(y, (4, -1))),
    lambda m: wrote(m, lambda y: set_shape(y[1:], (8,))),
    lambda z, v: wrote(z, lambda y: set_part(y, "real", v)),
    lambda z, x: wrote(z, lambda y: set_part(y, "imag", x)),
    lambda y, v: wrote(y, lambda c: set_part(c[1], "imag", v[:3])),
    lambda m, x: wrote(m, lambda y: set_part(y, "real", x)),
    lambda m, x: wrote(m, lambda y: set_part(y, "flat", x)),
    lambda m, a: wrote(m, lambda y: y.T.__setitem__(..., a)),
    lambda m, x: wrote(m, lambda y: y.flat.__setitem__(..., x)),
]


@pytest.mark.parametrize("case", SETTERS)
def test_setters(case):
    check(case)


def views_of_an_array_that_changes_its_shape(m, x):
    y = m.copy()
    row, column, turned = y[1], y[:, 2], y.T
    y.shape = (2, 6)
    half = y[1]
    part = y[:, ::3]
    y.shape = -1
    y[0] = x
    turned[3] = 2 * x
    half *= 3.0
    row[0] = x * x
    column += y[0]
    part[...] -= x
    turned.shape = (4, 3, 1)
    turned[2, 2] = 7.0
    y.shape = (3, 2, 2)
    return y, row, column, turned, half, part


def test_views_stay_what_they_are_when_the_shape_changes():
    check(views_of_an_array_that_changes_its_shape)


def views_of_a_view_that_changes_its_shape(z, x):
    y = z.copy()
    middle = y[1:5]
    middle.shape = (2, 2)
    imag, real = middle.imag, middle.T.real
    first = middle[0]
    middle.shape = 4
    imag.shape = (2, 1, 2)
    imag[0] = x
    real[1] += 2.0
    first *= 1j
    y[2] = x
    return y, middle, imag, real, first


def test_views_of_views_stay_what_they_are_when_the_shape_changes():
    check(views_of_a_view_that_changes_its_shape)


VIEWS = [
    lambda x: x[:, ::2],
    lambda x: x[::-1],
    lambda x: x[:, 1:3],
    lambda x: x.T,
    lambda x: x.T[1:3],
    lambda x: x[:, None, :, None],
    lambda x: x[1],
    lambda x: x[:, 2],
    lambda x: x.reshape(2, 3, 4).transpose(1, 0, 2),
    lambda x: x.reshape(2, 3, 4)[:, ::2, ::3],
    lambda x: x.reshape(2, 3, 4).swapaxes(1, 2)[..., ::-2],
    lambda x: x[::2, ::2][1:],
    lambda x: x[:0],
    lambda x: x[2:3, 1:2],
]


@pytest.mark.parametrize("dtype", [float, complex])
@pytest.mark.parametrize("view", VIEWS)
def test_a_reshape_is_a_view_where_it_is_one_in_numpy(view, dtype):
    plain = np.arange(24.0).reshape(4, 6).astype(dtype)
    parts = [view] if dtype is float else [view, lambda x: view(x).imag, lambda x: view(x.real)]
    for part in parts:
        expected = part(plain)
        n = expected.size
        shapes = [(-1,), (n, 1), (1, n), expected.shape[::-1], (*expected.shape, 1)]
        shapes += [(2, n // 2), (n // 2, 2)] if n % 2 == 0 else []
        for shape in shapes:
            if n == 0 and -1 in shape:
                continue
            ours, theirs = ct.array(plain), plain.copy()
            ours_reshaped = part(ours).reshape(shape)
            theirs_reshaped = part(theirs).reshape(shape)
            ours_reshaped[...] = 7
            theirs_reshaped[...] = 7
            np.testing.assert_array_equal(np.asarray(ours), theirs)
            np.testing.assert_array_equal(np.asarray(ours_reshaped), theirs_reshaped)
            a, b = part(ct.array(plain)), part(plain.copy())
            try:
                b.shape = shape
            except AttributeError:
                with pytest.raises(AttributeError, match=r"shape: .*reshape"):
                    a.shape = shape
            else:
                a.shape = shape
                assert a.shape == b.shape
        for flag in ("c_contiguous", "f_contiguous", "fnc", "forc", "owndata"):
            ours = getattr(part(ct.array(plain)).flags, flag)
            assert ours == getattr(part(plain.copy()).flags, flag), flag
        strides = [s for s, k in zip(expected.strides, expected.shape, strict=True) if k > 1]
        found = part(ct.array(plain)).strides
        if n:
            assert [s for s, k in zip(found, expected.shape, strict=True) if k > 1] == strides


SETTER_ERRORS = [
    lambda m: set_shape(m, (5, 2)),
    lambda m: set_shape(m, (-1, -1)),
    lambda m: set_shape(m, (-1, 5)),
    lambda m: set_shape(m, "a"),
    lambda m: set_shape(m.T, (12,)),
    lambda m: set_shape(m[:, :3], (9,)),
    lambda x: set_shape(x, (1,)),
    lambda m: set_part(m, "imag", 1.0),
    lambda z: set_part(z, "real", np.ones(5)),
    lambda x: set_part(x, "real", 1.0),
    lambda m: set_part(m, "T", 1.0),
    lambda m: set_part(m, "size", 1),
    lambda m: set_part(m, "base", None),
    lambda m: m.itemset(0, 1.0),
    lambda m: m.newbyteorder(),
]


@pytest.mark.parametrize("case", SETTER_ERRORS)
def test_errors_of_setters_are_numpys(case):
    assert_same_error(raised(case, *arguments(case, ct.array)), raised(case, *arguments(case)))


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [("dtype", np.int64, "astype"), ("strides", (8, 32), "reshape"), ("data", b"", "x\\[")],
)
def test_attributes_of_memory_cannot_be_set(name, value, remedy):
    x = ct.array(np.ones((3, 4)))
    with pytest.raises(AttributeError, match=f"{name}: .*{remedy}"):
        setattr(x, name, value)


def test_a_shape_that_is_set_while_recording():
    def f(x):
        y = x * 1.0
        y.shape = (2, 3)
        x.shape = (3, 2)
        return np.sum(y @ x)

    (gradient,) = ct.gradient(f, np.arange(6.0))
    assert gradient.shape == (6,)
    expected = np.array([np.eye(6)[i].reshape(2, 3) for i in range(6)])
    a, b = np.arange(6.0).reshape(2, 3), np.arange(6.0).reshape(3, 2)
    by_hand = [(e @ b).sum() + (a @ e.reshape(3, 2)).sum() for e in expected]
    np.testing.assert_allclose(gradient, by_hand)
