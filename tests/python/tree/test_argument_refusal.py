"""An argument that is asked for and can have no gradient is refused; None never says that."""

from collections import deque
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import cotan as ct


def square(x):
    return np.sum(x * x)


@dataclass
class Model:
    w: np.ndarray
    data: object = None


INTEGRAL = hnp.integer_dtypes() | hnp.unsigned_integer_dtypes() | hnp.boolean_dtypes()
TRANSFORMS = {
    "gradient": lambda f, *args, **kw: ct.gradient(f, *args, **kw),
    "value_and_gradient": lambda f, *args, **kw: ct.value_and_gradient(f, *args, **kw)[1],
    "pullback": lambda f, *args, **kw: ct.pullback(f, *args, **kw)[1](1.0),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@given(x=hnp.arrays(INTEGRAL, hnp.array_shapes(max_dims=2, max_side=3)))
def test_arrays_of_integers_are_refused(transform, x):
    call = TRANSFORMS[transform]
    with pytest.raises(ct.NotDifferentiableError, match=f"{transform}: labels is an array of") as e:
        call(lambda w, labels: w * len(labels), 2.0, x)
    assert str(x.dtype) in str(e.value) and "allow_int=True" in str(e.value)
    assert call(lambda w, labels: w * len(labels), 2.0, x, allow_int=True)[1] is None
    assert call(lambda w, labels: w * len(labels), 2.0, ct.const(x))[1] is None
    assert call(lambda w, labels: w * len(labels), 2.0, x, wrt=0)[1] is None
    with pytest.raises(ct.NotDifferentiableError, match="labels"):
        call(lambda w, labels: w * len(labels), 2.0, x, wrt=(0, 1))
    with pytest.raises(ct.NotDifferentiableError, match="labels"):
        call(lambda w, labels: w * len(labels), 2.0, x, wrt="labels")


@given(st.sampled_from([np.int64(3), np.uint8(2), np.bool_(True), True]))
def test_scalars_of_integers_are_refused(x):
    with pytest.raises(ct.NotDifferentiableError, match=r"pass float\(x\)"):
        ct.gradient(lambda x: x * 2.0, x)
    assert ct.gradient(lambda x: x * 2.0, x, allow_int=True) == (None,)


def test_the_remedies_work():
    x = np.array([1, 2])
    with pytest.raises(ct.NotDifferentiableError, match=r"x\.astype\(float\)"):
        ct.gradient(square, x)
    assert ct.gradient(square, x.astype(float))[0].tolist() == [2.0, 4.0]
    with pytest.raises(ct.NotDifferentiableError, match=r"x\.astype\(float\)"):
        ct.gradient(square, ct.array([1, 2]))
    w = ct.array([1, 2])
    with pytest.raises(ct.NotDifferentiableError, match=r"wrt\[0\]"):
        ct.gradient(lambda: square(w), wrt=[w])


@pytest.mark.parametrize("other", ["relu", len, object(), type, range(3), ["a"], {"f": len}])
def test_what_holds_no_numbers_is_refused(other):
    with pytest.raises(ct.NotDifferentiableError, match=r"ct\.const\(o\)"):
        ct.gradient(lambda x, o: x * 2, 1.0, other)
    with pytest.raises(ct.NotDifferentiableError):
        ct.gradient(lambda x, o: x * 2, 1.0, other, allow_int=True)
    assert ct.gradient(lambda x, o: x * 2, 1.0, ct.const(other)) == (2.0, None)
    assert ct.gradient(lambda x, o: x * 2, 1.0, other, wrt=0) == (2.0, None)
    assert ct.grad(lambda x, o: x * 2)(1.0, other) == 2.0


@pytest.mark.parametrize("empty", [None, (), [], {}, ([], None)])
def test_nothing_is_lost_where_there_is_nothing(empty):
    assert ct.gradient(lambda x, o: x * 2, 1.0, empty) == (2.0, None)


def test_a_dictionary_with_strings_is_a_configuration():
    config = {"power": 2, "name": "square", "betas": [0.5, 1]}
    (g, dx) = ct.gradient(lambda c, x: x ** c["power"] * c["betas"][1], config, 3.0)
    assert g == {"power": None, "name": None, "betas": [None, 9.0]}
    assert dx == 6.0
    (g, _) = ct.gradient(lambda c, x: x ** c["power"], {"power": 2, "name": "square"}, 3.0)
    assert g is None
    # In other dictionaries the only numbers are parameters.
    assert ct.gradient(lambda c: c["a"] * c["b"], {"a": 2, "b": 3}) == ({"a": 3.0, "b": 2.0},)


def test_containers_that_are_not_taken_apart_are_refused():
    class History(deque):
        pass

    with pytest.raises(ct.NotDifferentiableError, match=r"list\(x\)"):
        ct.gradient(lambda x: x[0] * x[1], History([1.0, 2.0]))
    with pytest.raises(ct.NotDifferentiableError, match=r"list\(x\)"):
        ct.gradient(lambda x: sum(x), {1.0, 2.0})


def test_a_part_without_derivative_is_none_beside_others():
    (g,) = ct.gradient(
        lambda m: np.sum(m["w"][m["at"]]), {"w": np.ones(3), "at": np.array([0, 2]), "name": "a"}
    )
    assert g["at"] is None and g["name"] is None
    assert g["w"].tolist() == [1.0, 0.0, 1.0]


def test_what_is_declared_or_masked_is_meant():
    class Frozen:
        __trainable__ = ()

        def __init__(self):
            self.w, self.n = 2.0, 3

    assert ct.gradient(lambda x, m: x * m.w, 1.0, Frozen()) == (2.0, None)
    x = np.array([1, 2])
    assert ct.gradient(lambda w, x: w * np.sum(x), 1.0, x, wrt=lambda path, leaf: True)[0] == 3.0
    assert ct.gradient(lambda w, x: w, 1.0, x, wrt=()) == (None, None)


def test_prepared_functions_refuse_alike():
    with pytest.raises(ct.NotDifferentiableError, match="prepare: n is an array of dtype int64"):
        ct.prepare(lambda x, n: x * np.sum(n), 1.0, np.array([1, 2]))
    prepared = ct.prepare(lambda x, n: x * np.sum(n), 1.0, ct.const(np.array([1, 2])))
    assert prepared(2.0, ct.const(np.array([1, 2])))[0] == 3.0
    value = ct.prepare(lambda n, name: np.sum(n), transform="value")
    assert value(np.array([1, 2]), "a") == 3


def test_pandas_is_refused_by_name():
    pd = pytest.importorskip("pandas")
    series = pd.Series([1.0, 2.0])
    with pytest.raises(ct.NotDifferentiableError, match=r"a pandas.Series .* s\.to_numpy\(\)"):
        ct.gradient(lambda s: np.sum(s**2), series)
    assert ct.gradient(lambda s: np.sum(s**2), series.to_numpy())[0].tolist() == [2.0, 4.0]
    frame = pd.DataFrame({"a": [1.0], "b": [2]})
    with pytest.raises(ct.NotDifferentiableError, match=r"DataFrame .* table\.to_numpy\(\)"):
        ct.gradient(lambda w, table: w * table["a"].sum(), 2.0, frame)
    assert ct.gradient(lambda w, table: w * table["a"].sum(), 2.0, ct.const(frame)) == (1.0, None)
    with pytest.raises(ct.NotDifferentiableError, match=r"m\.data is a pandas.DataFrame"):
        ct.gradient(lambda m: np.sum(m.w), Model(np.ones(2), frame))
    (g,) = ct.gradient(lambda m: np.sum(m.w), Model(np.ones(2), frame), wrt="m.w")
    assert g.data is None
    # A table without floats loses nothing.
    names = pd.Series(["a", "b"])
    (g,) = ct.gradient(lambda m: np.sum(m.w), Model(np.ones(2), pd.Index([1, 2])))
    assert g.data is None
    with pytest.raises(ct.NotDifferentiableError):
        ct.gradient(lambda x, names: x, 1.0, names)


def test_what_pandas_keeps_beside_its_values_is_no_parameter():
    pd = pytest.importorskip("pandas")
    s = pd.Series([1.0, 2.0], index=list("ab"))
    # The text of an index has a NaN for missing strings once it was used.
    assert ct.prepare(lambda w, s: np.sum((w * s).to_numpy()), wrt=0)(3.0, s)[0] == 3.0
    assert repr(s) and s["a"] == 1.0
    with pytest.raises(ct.NotDifferentiableError, match=r"s\.to_numpy\(\)"):
        ct.gradient(lambda s: np.sum(s.to_numpy()), s)
    with pytest.raises(ct.NotDifferentiableError, match=r"s\.to_numpy\(\)"):
        ct.prepare(lambda s: np.sum(s.to_numpy()), transform="gradient")(s)
    with pytest.raises(ct.NotDifferentiableError, match=r"s\.to_numpy\(\)"):
        ct.parallel.gradient(lambda s, x: np.sum(s.to_numpy() * x), s, [np.ones(2)])
    with pytest.raises(TypeError, match="x0 has no float"):
        ct.optimize.minimize(lambda s: np.sum(s.to_numpy() ** 2), s)


def test_results_of_pandas_do_not_lose_a_gradient():
    pd = pytest.importorskip("pandas")
    s = pd.Series([1.0, 2.0], index=list("ab"))
    w = np.array([3.0, 4.0])
    for f in (
        lambda w: w * s,
        lambda w: {"a": [s * w], "b": w},
        lambda w: s.to_frame("c").assign(d=w),
        lambda w: pd.Series(w, index=s.index),
    ):
        for call in (ct.pullback, lambda f, w: ct.jvp(f, (w,), (w,)), ct.jacobian):
            with pytest.raises(ct.NotDifferentiableError, match=r"return its to_numpy\(\)"):
                call(f, w)
    with pytest.raises(ct.NotDifferentiableError, match=r"return its to_numpy\(\)"):
        ct.prepare(lambda w: w * s, transform="value")(w)
    # What does not depend on arguments stays what it is.
    (value, same), (slope,) = ct.value_and_gradient(lambda w: (w @ w, s * 2), w, has_aux=True)
    assert value == 25.0 and same["b"] == 4.0 and slope.tolist() == [6.0, 8.0]
    value, back = ct.pullback(lambda w: (w * s).to_numpy(), w)
    (slope,) = back(np.ones(2))
    assert pd.Series(value, s.index)["b"] == 8.0
    assert pd.Series(slope, s.index).to_dict() == {"a": 1.0, "b": 2.0}


class OnDevice:
    """An array in the memory of a GPU, as CuPy and Numba have them."""

    shape, dtype = (3,), np.dtype(float)

    @property
    def __cuda_array_interface__(self):
        return {"shape": (3,), "typestr": "<f8", "data": (1, False), "version": 3}

    def __array__(self, *_, **__):
        raise TypeError("no implicit conversion")


class OfNumba(OnDevice):
    def copy_to_host(self):
        return np.ones(3)


def test_arrays_on_devices_are_refused_with_what_copies_them():
    square = lambda x: np.sum(x * x)
    for transform in (ct.gradient, ct.value_and_gradient, ct.pullback):
        with pytest.raises(ct.NotDifferentiableError, match=r"pass cupy\.asnumpy\(x\) for"):
            transform(square, OnDevice())
    with pytest.raises(ct.NotDifferentiableError, match=r"pass x\.copy_to_host\(\) for"):
        ct.gradient(square, OfNumba())
    with pytest.raises(ct.NotDifferentiableError, match=r"cupy\.asnumpy\(p\.w\)"):
        ct.gradient(lambda p: np.sum(p["w"]), {"w": OnDevice()})


def test_arrays_of_cupy_meet_traced_values():
    class OfCuPy(OnDevice):
        ndim = 1

        def __array__(self, *_, **__):
            # What CuPy says.
            raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    OfCuPy.__module__ = "cupy"
    x, d = np.ones(3), OfCuPy()
    for f in (lambda x: np.dot(x, d), lambda x: np.sum(np.where(x > 0, d, x))):
        with pytest.raises(TypeError, match=r"hand over cupy\.asnumpy\(x\)"):
            ct.gradient(f, x)
    with pytest.raises(TypeError, match=r"not mapped; pass cupy\.asnumpy\(d\), or share it"):
        ct.vmap(lambda d: 2 * d)(d)
    assert ct.gradient(lambda x, d: np.sum(x), x, ct.const(d))[1] is None


def test_xarray_is_taken_apart():
    xr = pytest.importorskip("xarray")
    x = xr.DataArray(np.array([1.0, 2.0]), dims="t")
    (g,) = ct.gradient(lambda x: (x**2).sum().item(), x)
    assert g["_variable"]["_data"].tolist() == [2.0, 4.0]


class Tensor:
    """An array of another library, as far as its protocols say."""

    __slots__ = ("_handle",)

    def __init__(self, values):
        self._handle = memoryview(np.asarray(values))

    @property
    def dtype(self):
        return np.dtype(self._handle.format)

    def __array__(self, dtype=None, copy=None):
        return np.array(self._handle, dtype)


def test_arrays_of_other_libraries_are_refused():
    tensor = Tensor([1.0, 2.0])
    with pytest.raises(ct.NotDifferentiableError, match=r"np\.asarray\(t\)"):
        ct.gradient(lambda t: np.sum(np.sin(t)), tensor)
    with pytest.raises(ct.NotDifferentiableError, match=r"p\[1\] is a"):
        ct.gradient(lambda p: p[0] * np.sum(p[1]), [2.0, tensor])
    assert ct.gradient(lambda p: p[0], [2.0, Tensor([1, 2])]) == ([1.0, None],)
    np.testing.assert_allclose(
        ct.gradient(lambda t: np.sum(np.sin(t)), np.asarray(tensor))[0], np.cos([1.0, 2.0])
    )


@pytest.mark.parametrize(
    "part",
    [
        np.array([1.0, 2.0], dtype=np.longdouble),
        np.longdouble(1.0),
        np.array([1.0, None], dtype=object),
        np.array([(1.0, 2)], dtype=[("x", float), ("n", int)]),
    ],
)
def test_dtypes_without_derivatives_are_refused_inside_structures(part):
    if np.asarray(part).dtype == np.float64:
        pytest.skip("longdouble is float64 here")
    with pytest.raises(ct.NotDifferentiableError, match=r"d\.other"):
        ct.gradient(lambda d: d["w"] * 2, {"w": 1.0, "other": part})


@pytest.mark.parametrize("part", [np.array(["a"]), np.array(["2026-01-01"], "M8[D]")])
def test_texts_and_dates_are_data(part):
    assert ct.gradient(lambda d: d["w"] * 2, {"w": 1.0, "other": part})[0]["w"] == 2.0


@pytest.mark.parametrize(
    ("argument", "written"),
    [
        ("1.5", r"pass float\(p\)"),
        (["1.5", "2"], r"pass \[float\(s\) for s in p\]"),
        (range(3), r"pass np\.array\(p, float\)"),
        ((x for x in (1.0, 2.0)), r"pass list\(p\)"),
        ({"a": 1.0}.values(), r"pass list\(p\)"),
        ("abc", "nothing in it can have a derivative"),
        (["1.5", "abc"], "nothing in it can have a derivative"),
    ],
    ids=["text", "texts", "range", "generator", "values", "words", "a word among texts"],
)
def test_what_is_to_be_written_for_texts_and_iterables(argument, written):
    with pytest.raises(ct.NotDifferentiableError, match=written):
        ct.gradient(lambda p: p, argument)
