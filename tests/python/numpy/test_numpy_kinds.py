"""Which kind of object functions of NumPy give, and constants that their code writes to."""

import contextlib

import numpy as np
import pytest

import cotan as ct


@pytest.mark.filterwarnings("ignore:Arrays of 2-dimensional vectors")
def test_results_that_are_arrays_without_axes():
    v = np.array([1.0, 2.0])
    programs = {
        "i0": lambda x: np.i0(x[0]),
        "reshape": lambda x: np.reshape(float(x[0]), ()),
        "transpose": lambda x: np.transpose(float(x[0])),
        "squeeze": lambda x: np.squeeze(float(x[0])),
        "moveaxis": lambda x: np.moveaxis(float(x[0]), [], []),
    }
    with contextlib.suppress(ValueError):  # NumPy 2.5 has none of two components
        np.cross(v, v)
        programs["cross"] = lambda x: np.cross(x, np.array([0.0, 1.0]))
    for name, program in programs.items():

        def f(x, program=program):
            c = program(x)
            np.add(c, 1.0, out=c)
            return c * x[1]

        value, back = ct.pullback(f, v)
        assert value == f(v), name
        step = np.array([1e-6, 0.0])
        difference = (f(v + step) - f(v - step)) / 2e-6
        np.testing.assert_allclose(float(back(1.0)[0][0]), difference, 1e-5, err_msg=name)


def test_constants_that_numpy_writes_to():
    c = np.array([0.3, 1.2, 0.7, 2.1])
    for f in (
        lambda v: np.polydiv(c, v)[0],
        lambda v: np.polydiv(c, v)[1],
        lambda v: np.polydiv([1, 2, 3], v)[0],
        lambda v: np.ediff1d(c, to_begin=v),
        lambda v: np.ediff1d(c, to_end=v, to_begin=v[0]),
    ):
        v = np.array([0.5, 1.5])
        found = ct.gradient(lambda v, f=f: np.sum(f(v) ** 2), v)[0]
        steps = 1e-6 * np.eye(2)
        wanted = [(np.sum(f(v + s) ** 2) - np.sum(f(v - s) ** 2)) / 2e-6 for s in steps]
        np.testing.assert_allclose(found, wanted, 1e-5, 1e-6)


def test_a_flat_write_into_a_plain_array_says_what_to_write():
    table = np.array([1.0, 2.0])

    def f(x, make):
        y = make(table * 2)
        y.flat[0] = x
        return np.sum(y * y)

    with pytest.raises(ValueError, match=r"single item of array; .*np\.copy\(c\)"):
        ct.gradient(lambda x: f(x, lambda y: y), 2.0)
    assert ct.gradient(lambda x: f(x, np.copy), 2.0) == (4.0,)


def test_columns_of_pandas_beside_active_arrays():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"x": [0.1, 0.7, 0.4], "k": list("aba")})
    x0 = np.array([1.3, 0.4, 2.2])
    for f in (
        lambda x: np.where(table.k == "a", x, 2 * x),
        lambda x: np.where(x > 1, x, table.x),
        lambda x: np.concatenate([table.x, x, x]),
    ):
        found = ct.gradient(lambda x, f=f: np.sum(f(x) ** 2), x0)[0]
        steps = 1e-6 * np.eye(3)
        wanted = [(np.sum(f(x0 + s) ** 2) - np.sum(f(x0 - s) ** 2)) / 2e-6 for s in steps]
        np.testing.assert_allclose(found, wanted, 1e-5, 1e-6)
