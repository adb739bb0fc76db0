"""What compiled code writes into an array that was made in the function."""

import numpy as np
import pytest
import scipy.linalg as sla
from scipy.linalg import blas, get_blas_funcs, lapack
from scipy.linalg.blas import dscal

import cotan as ct

C = np.arange(1.0, 5.0)
TABLE = np.outer(C, C) + 4 * np.eye(4)
X = np.array([0.3, 0.5, 0.7, 1.1])


def same_as_plain(f):
    y, g = ct.value_and_grad(lambda x: np.sum(f(x)))(X)
    np.testing.assert_allclose(y, np.sum(f(X)), 1e-13)
    step = 1e-6
    slopes = [
        (np.sum(f(X + step * e)) - np.sum(f(X - step * e))) / (2 * step) for e in np.eye(len(X))
    ]
    np.testing.assert_allclose(g, slopes, 1e-6, 1e-7)


def axpy(x):
    made = np.zeros(4)
    assert blas.daxpy(C, made, a=2.0) is made
    return made * x


def scal_by_name(x):
    made = np.ones(4)
    dscal(3.0, made)
    return made * x


def swap(x):
    a, b = np.ones(4), np.zeros(4)
    blas.dswap(a, b)
    return a + b * x


def swap_of_views(x):
    made = np.arange(8.0)
    blas.dswap(made[:4], made[4:])
    return made[:4] * x


def by_kind(x):
    made = np.zeros(4)
    axpy, nrm2 = get_blas_funcs(("axpy", "nrm2"), (made,))
    assert axpy.typecode == "d"
    axpy(C, made)
    return made * x * nrm2(made)


def gemm(x):
    made = np.zeros((4, 4), order="F")
    blas.dgemm(1.0, TABLE, TABLE, c=made, overwrite_c=1)
    return made @ x


def gemm_of_another_order(x):
    made = np.zeros((4, 4))
    found = blas.dgemm(1.0, TABLE, TABLE, c=made, overwrite_c=1)
    return made @ x + found @ x


def ger(x):
    made = np.ones((4, 4), order="F")
    blas.dger(1.0, C, C, a=made, overwrite_a=1)
    return made @ x


def gesv(x):
    a, b = np.asfortranarray(TABLE.copy()), np.ones((4, 1))
    lapack.dgesv(a, b, overwrite_a=1, overwrite_b=1)
    return b[:, 0] * x + a @ x


def potrf(x):
    made = np.asfortranarray(np.eye(4) * 3)
    (factor,) = sla.get_lapack_funcs(("potrf",), (made,))
    factor(made, overwrite_a=1)
    return made @ x


@pytest.mark.parametrize(
    "f",
    [
        *(axpy, scal_by_name, swap, swap_of_views, by_kind, gemm, gemm_of_another_order, ger),
        *(gesv, potrf),
    ],
)
def test_blas_and_lapack(f):
    same_as_plain(f)


def test_blas_of_traced_values_names_a_remedy():
    with pytest.raises(TypeError, match="ddot has no derivative rule.*np.dot"):
        ct.gradient(lambda x: blas.ddot(x, x), X)
    with pytest.raises(TypeError, match="dpotrf has no derivative rule.*scipy.linalg"):
        ct.gradient(lambda x: np.sum(lapack.dpotrf(x[0] * TABLE)[0]), X)
    made = ct.gradient(lambda x: x * blas.dnrm2(ct.dropgrad(x)), X[0])
    np.testing.assert_allclose(made, X[0])


def test_arrays_say_the_order_that_was_asked_for():
    def f(x):
        made = np.zeros((2, 3), order="F")
        assert made.flags.f_contiguous
        assert made.strides == (8, 16)
        made[0, 1] = 5.0
        made[1] = x
        return np.sum(made * np.arange(6.0).reshape(2, 3)) * made[0, 1]

    assert ct.gradient(f, 2.0) == (60.0,)


METHODS = {
    "cumsum": (lambda out: C.cumsum(out=out), 4),
    "cumprod": (lambda out: C.cumprod(None, None, out), 4),
    "take": (lambda out: C.take([0, 1, 2, 0], out=out), 4),
    "round": (lambda out: (C / 3).round(1, out), 4),
    "choose": (lambda out: np.array([0, 1, 0, 1]).choose([C, 2 * C], out=out), 4),
    "compress": (lambda out: C.compress([True, False, True, True], out=out), 3),
    "sum": (lambda out: C.sum(out=out), ()),
    "mean": (lambda out: TABLE.mean(0, out=out), 4),
    "trace": (lambda out: TABLE.trace(out=out), ()),
    "clip": (lambda out: C.clip(2, 3, out=out), 4),
    "dot": (lambda out: TABLE.dot(C, out=out), 4),
}


@pytest.mark.parametrize("name", METHODS)
def test_methods_of_plain_arrays_with_a_buffer(name):
    method, shape = METHODS[name]

    def f(x):
        made = np.zeros(shape)
        assert method(made) is made
        return made * (x[:3] if shape == 3 else x)

    same_as_plain(f)


def test_methods_of_plain_arrays_with_traced_arguments():
    same_as_plain(lambda x: C.searchsorted(x * 3) + x)
    same_as_plain(lambda x: np.array([1, 0, 1, 0]).choose([x, 2 * x[::-1]]))


def written(x):
    made = np.zeros((2, 2))
    with np.nditer(made, op_flags=["readwrite"]) as places:
        for i, place in enumerate(places):
            place[...] = i + x[i]
    return made.ravel() * x


def read(x):
    total = 0.0
    for a, b in np.nditer([x, C]):
        total = total + a * b * b
    return total


def by_index(x):
    made = np.zeros((2, 2), order="F")
    places = np.nditer([made, x.reshape(2, 2)], ["multi_index"], [["writeonly"], ["readonly"]])
    while not places.finished:
        i, j = places.multi_index
        places[0] = (i + 2 * j) * places[1]
        places.iternext()
    return made.ravel()


def allocated(x):
    places = np.nditer([x[:, None], C[:2], None], ["c_index"])
    for a, b, out in places:
        out[...] = a * b + places.index
    return places.operands[2].sum(1) * x


def turned(x):
    values = [v * (k + 1) for k, v in enumerate(np.nditer(np.outer(x, C[:2]).T))]
    return np.array(values).reshape(4, 2).sum(1)


@pytest.mark.parametrize("f", [written, read, by_index, allocated, turned])
def test_iterators_over_elements(f):
    same_as_plain(f)


@pytest.mark.parametrize("order", "KACF")
@pytest.mark.parametrize("active", [True, False])
@pytest.mark.parametrize(
    "view",
    [
        lambda y: y.T,
        lambda y: y[::-1],
        lambda y: y[:, ::-2],
        lambda y: y.T[::-1],
        lambda y: y.T[1:],
        lambda y: y[0][::-1],
        lambda y: y.reshape(2, 2, 3).transpose(1, 0, 2),
        lambda y: np.broadcast_to(y.T[0], (2, 3)),
        lambda y: np.lib.stride_tricks.sliding_window_view(y[0], 2),
    ],
)
def test_iterators_go_by_the_order_in_memory(view, active, order):
    def f(x):
        y = np.zeros((3, 4))
        y[...] = np.outer(C[:3], x) if active else np.arange(12.0).reshape(3, 4)
        values = [v * (k + 1) for k, v in enumerate(np.nditer(view(y), order=order))]
        pairs = np.nditer([view(y), view(y)[..., :1]], ["multi_index"], order=order)
        at = [place * sum((3 * i * i for i in pairs.multi_index), 1) for place, _ in pairs]
        return np.sum(x) * np.array([*values, *at])

    same_as_plain(f)


def test_iterators_write_in_the_order_in_memory():
    def f(x):
        y = np.zeros((2, 4))
        y[...] = x
        for k, place in enumerate(np.nditer(y.T[::-1], op_flags=["readwrite"])):
            place[...] = k * place
        return y.ravel()

    same_as_plain(f)


def test_iterators_refuse_what_numpy_does():
    def f(x):
        with pytest.raises(RuntimeError, match="not writeable"):
            np.nditer(x)[0] = 1.0
        with pytest.raises(ValueError, match="multi_index"):
            np.nditer(x).multi_index  # noqa: B018
        with pytest.raises(ValueError, match="zero-sized"):
            np.nditer(x[:0])
        with pytest.raises(ValueError, match="to write to has shape"):
            np.nditer([x, np.ones((2, 4))], op_flags=[["readwrite"], ["readonly"]])
        with pytest.raises(TypeError, match="op_dtypes="):
            np.nditer(x, op_dtypes=["float32"])
        return np.sum(x)

    ct.gradient(f, X)
