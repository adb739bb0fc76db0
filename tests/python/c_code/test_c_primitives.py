"""Every primitive that has a form in C: written, compiled without warnings, run."""

import numpy as np
import pytest
from c_checks import RTOL, applied, check, check_all, needs_compiler
from table_cases import TABLE, arguments, cases

import cotan as ct
from cotan._src.c_code import scalars
from cotan._src.c_code.arrays import ARRAYS
from cotan._src.c_code.views import LAYOUTS

pytestmark = needs_compiler

NAN, INF = np.nan, np.inf


def has_form(entry):
    if entry["class"] == "elementwise":
        return entry["types"] in {"integer", "integer number"} or scalars.expression(
            entry, "float64", ["x"] * 3
        )
    return entry["name"] in {*ARRAYS, *LAYOUTS, "cast", "literal"}


def test_every_elementwise_primitive_has_a_form():
    assert [n for n, e in TABLE.items() if e["class"] == "elementwise" and not has_form(e)] == []


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_every_primitive_with_a_form(tmp_path, dtype):
    calls = []
    for name, number in (case.values for case in cases(has_form)):
        args, params = arguments(name, number, dtype)
        calls.append(((name, number), applied(name, params), args))
    check_all(tmp_path, calls, rtol=RTOL[dtype], atol=RTOL[dtype] / 10)


SPECIAL = np.array(
    [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -1.5, 1.0, -1.0, 3.0, -7.0, 1e-9, 30.0, -30.0, INF, -INF, NAN]
)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_special_values(tmp_path, dtype):
    x = SPECIAL.astype(dtype)
    calls = []
    for name, entry in TABLE.items():
        if entry["class"] != "elementwise" or entry["types"] in {"integer", "integer number"}:
            continue
        if name == "where":
            args = [x > 0, x, x[::-1].copy()]
        elif len(entry["args"]) == 1:
            args = [x]
        else:
            args = [np.repeat(x, len(x)), np.tile(x, len(x))]
        calls.append((name, applied(name, {}), args))
    check_all(tmp_path, calls, rtol=RTOL[dtype], atol=1e-15)


OF_INTEGERS = [
    n
    for n, e in TABLE.items()
    if e["class"] == "elementwise"
    and n != "pow"
    and e["types"]
    in {"any", "real", "logical", "number", "real number", "integer", "integer number"}
]


@pytest.mark.parametrize("dtype", ["bool", "int32", "int64"])
def test_integers_and_bools(tmp_path, dtype):
    low, high = (0, 2) if dtype == "bool" else (-9, 10)
    rng = np.random.default_rng(0)
    calls = []
    for name in OF_INTEGERS:
        entry = TABLE[name]
        if dtype == "bool" and "number" in entry["types"]:
            continue
        args = [rng.integers(low, high, 200).astype(dtype) for _ in entry["args"]]
        if dtype != "bool":
            args[0][:3] = np.iinfo(dtype).min, np.iinfo(dtype).max, 0
            args[-1][0] = -1
        if name == "where":
            args[0] = args[0] > 0
        calls.append((name, applied(name, {}), args))
    check_all(tmp_path, calls)


def test_casts(tmp_path):
    dtypes = ["float64", "float32", "int64", "int32", "bool"]
    calls = [
        ((source, target), lambda x, target=target: x.astype(target), [x.astype(source)])
        for source in dtypes
        for target in dtypes
        for x in [np.array([0, 1, 2, 100, 0.6, 7.5])]
    ]
    check_all(tmp_path, calls)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_reductions_of_special_values(tmp_path, dtype):
    x = np.array(
        [[NAN, 1, 2], [1, NAN, INF], [1, 2, NAN], [INF, INF, 1], [-INF, -INF, -INF]], dtype
    )
    calls = []
    for name in ["sum", "prod", "max", "min", "mean", "logsumexp"]:
        for axes in [(0,), (1,), (0, 1), ()]:
            f = applied(name, {"axes": axes})
            calls += [((name, axes), f, [x]), ((name, axes), lambda x, f=f: f(x * 2), [x])]
    check_all(tmp_path, calls, rtol=RTOL[dtype])


def test_reductions_of_nothing(tmp_path):
    x = np.zeros((0, 3))
    calls = []
    for name in ["sum", "prod", "mean"]:
        for axes in [(0,), (1,), (0, 1)]:
            f = applied(name, {"axes": axes})
            calls += [((name, axes), f, [x]), ((name, axes), lambda x, f=f: f(x + 1), [x])]
    check_all(tmp_path, calls)


@pytest.mark.parametrize("dtype", ["int64", "int32", "bool"])
def test_reductions_of_integers(tmp_path, dtype):
    x = np.array([[3, 0, 2], [-1, 5, 4]]).astype(dtype)
    check(tmp_path, lambda x: [np.sum(x), np.max(x, 0), np.min(x, 1), np.argmax(x, 1)], x)
    check(tmp_path, lambda x: [np.any(x, 0), np.all(x, 1)], x)


def test_first_of_equal_and_nan(tmp_path):
    x = np.array([[1.0, 3.0, 3.0], [NAN, 5.0, NAN], [-INF, INF, NAN]])
    check(tmp_path, lambda x: [np.argmax(x, 1), np.argmin(x, 1), np.argmax(x, 0)], x)
    check(tmp_path, lambda x: [np.maximum.accumulate(x, 1), np.minimum.accumulate(x, 0)], x)


@pytest.mark.parametrize("side", ["left", "right"])
def test_searching(tmp_path, side):
    def f(row, x):
        return np.searchsorted(row, x, side)

    row, x = np.array([-1.0, 0, 0, 2, 2, 5]), np.array([[-3.0, 0, 1], [2, 5, 9]])
    check(tmp_path, f, row, x)
    check(tmp_path, f, row.astype(int), x.astype(int))
    check(tmp_path, f, np.array([-INF, 0, INF, NAN, NAN]), np.array([NAN, INF, 1.0]))


def test_sorting(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 30, (3, 200)).astype(float)
    x[1, ::7] = NAN
    check(
        tmp_path,
        lambda x: [np.argsort(x, 1, kind="stable"), np.argsort(x, 0, kind="stable"), np.sort(x)],
        x,
    )
    check(tmp_path, lambda x: np.argsort(x, kind="stable"), rng.integers(-9, 9, 50))
    for n in (0, 1, 2):
        check(tmp_path, lambda x: np.argsort(x, kind="stable"), np.arange(float(n)))


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
