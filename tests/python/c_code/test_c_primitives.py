"""Every primitive that has a form in C: written, compiled without warnings, run."""

import numpy as np
import pytest
from c_checks import RTOL, check, needs_compiler
from table_cases import TABLE, arguments, cases

import cotan as ct
from cotan import _core
from cotan._src.c_code import scalars
from cotan._src.c_code.arrays import ARRAYS
from cotan._src.c_code.views import LAYOUTS

pytestmark = needs_compiler

NAN, INF = np.nan, np.inf


def applied(name, params):
    """A function that is one primitive."""

    def f(*args):
        return _core.apply(name, *args, **params)

    return f


def has_form(entry):
    if entry["class"] == "elementwise":
        return entry["types"] in {"integer", "integer number"} or scalars.expression(
            entry, "float64", ["x"] * 3
        )
    return entry["name"] in {*ARRAYS, *LAYOUTS, "cast", "literal"}


def test_every_elementwise_primitive_has_a_form():
    assert [n for n, e in TABLE.items() if e["class"] == "elementwise" and not has_form(e)] == []


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("name", "number"), cases(has_form))
def test_every_primitive_with_a_form(tmp_path, name, number, dtype):
    args, params = arguments(name, number, dtype)
    rtol = RTOL[dtype]
    check(tmp_path, applied(name, params), *args, rtol=rtol, atol=rtol / 10)


SPECIAL = np.array(
    [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -1.5, 1.0, -1.0, 3.0, -7.0, 1e-9, 30.0, -30.0, INF, -INF, NAN]
)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", [n for n, e in TABLE.items() if e["class"] == "elementwise"])
def test_special_values(tmp_path, name, dtype):
    entry = TABLE[name]
    if entry["types"] in {"integer", "integer number"}:
        pytest.skip("it takes no floats")
    x = SPECIAL.astype(dtype)
    count = len(entry["args"])
    if name == "where":
        args = [x > 0, x, x[::-1].copy()]
    elif count == 1:
        args = [x]
    else:
        args = [np.repeat(x, len(x)), np.tile(x, len(x))]
    check(tmp_path, applied(name, {}), *args, rtol=RTOL[dtype], atol=1e-15)


OF_INTEGERS = [
    n
    for n, e in TABLE.items()
    if e["class"] == "elementwise"
    and n != "pow"
    and e["types"]
    in {"any", "real", "logical", "number", "real number", "integer", "integer number"}
]


@pytest.mark.parametrize("dtype", ["bool", "int32", "int64"])
@pytest.mark.parametrize("name", OF_INTEGERS)
def test_integers_and_bools(tmp_path, name, dtype):
    entry = TABLE[name]
    if dtype == "bool" and "number" in entry["types"]:
        pytest.skip("it takes no bools")
    low, high = (0, 2) if dtype == "bool" else (-9, 10)
    rng = np.random.default_rng(0)
    args = [rng.integers(low, high, 200).astype(dtype) for _ in entry["args"]]
    if dtype != "bool":
        args[0][:3] = np.iinfo(dtype).min, np.iinfo(dtype).max, 0
        args[-1][0] = -1
    if name == "where":
        args[0] = args[0] > 0
    check(tmp_path, applied(name, {}), *args)


@pytest.mark.parametrize("source", ["float64", "float32", "int64", "int32", "bool"])
@pytest.mark.parametrize("target", ["float64", "float32", "int64", "int32", "bool"])
def test_casts(tmp_path, source, target):
    x = np.array([0, 1, 2, 100, 0.6, 7.5]).astype(source)
    check(tmp_path, lambda x: x.astype(target), x)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "mean", "logsumexp"])
def test_reductions_of_special_values(tmp_path, name, dtype):
    x = np.array(
        [[NAN, 1, 2], [1, NAN, INF], [1, 2, NAN], [INF, INF, 1], [-INF, -INF, -INF]], dtype
    )
    for axes in [(0,), (1,), (0, 1), ()]:
        check(tmp_path, applied(name, {"axes": axes}), x, rtol=RTOL[dtype])
        check(tmp_path, lambda x, axes=axes: _core.apply(name, x * 2.0, axes=axes), x, rtol=1e-5)


@pytest.mark.parametrize("name", ["sum", "prod", "mean"])
def test_reductions_of_nothing(tmp_path, name):
    for axes in [(0,), (1,), (0, 1)]:
        check(tmp_path, applied(name, {"axes": axes}), np.zeros((0, 3)))
        check(
            tmp_path, lambda x, axes=axes: _core.apply(name, x + 1.0, axes=axes), np.zeros((0, 3))
        )


@pytest.mark.parametrize("dtype", ["int64", "int32", "bool"])
def test_reductions_of_integers(tmp_path, dtype):
    x = np.array([[3, 0, 2], [-1, 5, 4]]).astype(dtype)
    check(tmp_path, lambda x: [np.sum(x), np.max(x, 0), np.min(x, 1), np.argmax(x, 1)], x)
    check(tmp_path, lambda x: [np.any(x, 0), np.all(x, 1)], x)


def test_first_of_equal_and_nan(tmp_path):
    x = np.array([[1.0, 3.0, 3.0], [NAN, 5.0, NAN], [-INF, INF, NAN]])
    check(tmp_path, lambda x: [np.argmax(x, 1), np.argmin(x, 1), np.argmax(x, 0)], x)
    check(tmp_path, lambda x: [np.maximum.accumulate(x, 1), np.minimum.accumulate(x, 0)], x)


@pytest.mark.parametrize("name", ["cholesky", "svd_values", "fft"])
def test_what_has_no_form_is_refused_by_name_and_line(tmp_path, name):
    calls = {
        "cholesky": lambda x: np.linalg.cholesky(x @ x.T + np.eye(3)),
        "svd_values": lambda x: np.linalg.svd(x, compute_uv=False),
        "fft": lambda x: np.real(np.fft.fft(x.astype(complex))),
    }
    with pytest.raises(ValueError, match=r"to_c: \w+\(.*\[3,3\]\) -> .*test_c_primitives.py:\d+: "):
        ct.to_c(calls[name], np.eye(3), path=tmp_path / "f.c")
    assert not (tmp_path / "f.c").exists()


@pytest.mark.parametrize(
    ("dtype", "message"),
    [
        ("complex128", "real and imaginary parts"),
        ("float16", "cast it to float64"),
        ("uint8", "cast it to float64"),
    ],
)
def test_dtypes_without_a_type(tmp_path, dtype, message):
    with pytest.raises(ValueError, match=f"to_c: x is of dtype {dtype}.*{message}"):
        ct.to_c(lambda x: x + x, np.ones(3, dtype), path=tmp_path / "f.c")
