"""Every primitive that has an ONNX form: exported, checked by onnx, run by onnxruntime."""

import numpy as np
import pytest
from onnx_checks import RTOL, applied, check, onnx, run, session
from table_cases import TABLE, arguments, cases

import cotan as ct
from cotan import _core
from cotan._src.onnx import recipes
from cotan._src.onnx.equations import BOOLS, MOVES, PREDICATES
from cotan._src.onnx.graph import OPSET

NAN, INF = np.nan, np.inf

# Valid ONNX that onnxruntime cannot run.
NO_KERNEL = {("det", "float64"): "onnxruntime has no float64 kernel"}

# --------------------------------------------------------------------------------------------------
# The primitive table


def has_form(entry):
    return entry["onnx"] is not None


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("name", "number"), cases(has_form))
def test_every_primitive_with_a_form(tmp_path, name, number, dtype):
    if (name, dtype) in NO_KERNEL:
        pytest.skip(NO_KERNEL[name, dtype])
    args, params = arguments(name, number, dtype)
    check(tmp_path, applied(name, params), *args, rtol=RTOL[dtype], atol=RTOL[dtype] / 10)


SPECIAL = np.array(
    [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -1.5, 1.0, -1.0, 3.0, -7.0, 1e-9, 30.0, -30.0, INF, -INF, NAN]
)
# Where the runtime's own function is not exact to the last bits, or not at all far out.
LOOSE = {
    ("tanh", "float32"): (1e-5, 1e-7),
    ("erf", "float32"): (1e-5, 1e-7),
}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    "name", [n for n, e in TABLE.items() if e["class"] == "elementwise" and has_form(e)]
)
def test_special_values(tmp_path, name, dtype):
    """Zeros of both signs, ties, infinities and NaN: what cotan itself gives."""
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
    rtol, atol = LOOSE.get((name, dtype), (RTOL[dtype], 0.0))
    check(tmp_path, applied(name, {}), *args, rtol=rtol, atol=atol)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "int64"])
@pytest.mark.parametrize(
    "name",
    [
        n
        for n, e in TABLE.items()
        if e["class"] == "elementwise"
        and has_form(e)
        and e["types"]
        in {"any", "real", "logical", "number", "real number", "integer", "integer number"}
    ],
)
def test_integers_and_bools(tmp_path, name, dtype):
    entry = TABLE[name]
    kinds = {"number": "biu", "real number": "iu", "integer number": "iu"}
    if np.dtype(dtype).kind not in kinds.get(entry["types"], "biu").replace(
        "b", "" if entry["types"] == "number" else "b"
    ):
        pytest.skip("it takes no bools")
    if name == "pow":
        pytest.skip("tested below: the exponent has to be known")
    low, high = (0, 2) if dtype == "bool" else (0, 256) if dtype == "uint8" else (-9, 10)
    rng = np.random.default_rng(0)
    args = [rng.integers(low, high, 200).astype(dtype) for _ in entry["args"]]
    if dtype in {"int32", "int64"}:
        args[0][:3] = np.iinfo(dtype).min, np.iinfo(dtype).max, 0
        args[-1][0] = -1
    if name == "where":
        args[0] = args[0] > 0
    check(tmp_path, applied(name, {}), *args)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
def test_powers_of_integers_wrap_around(tmp_path, dtype):
    x = np.array([0, 1, 2, 3, 7, 100], dtype)
    check(tmp_path, lambda x: x**13, x)
    with pytest.raises(ValueError, match="pow.*astype"):
        ct.to_onnx(lambda x, y: x**y, x, x, path=tmp_path / "f.onnx")


REDUCTIONS = ["sum", "prod", "max", "min", "mean", "logsumexp"]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_of_special_values(tmp_path, name, dtype):
    x = np.array(
        [[NAN, 1, 2], [1, NAN, INF], [1, 2, NAN], [INF, INF, 1], [-INF, -INF, -INF]], dtype
    )
    for axes in [(0,), (1,), (0, 1), ()]:
        check(tmp_path, applied(name, {"axes": axes}), x, rtol=RTOL[dtype])


@pytest.mark.parametrize("name", ["sum", "prod", "mean"])
def test_reductions_of_nothing(tmp_path, name):
    x = np.zeros((0, 3))
    for axes in [(0,), (1,), (0, 1)]:
        check(tmp_path, applied(name, {"axes": axes}), x)


@pytest.mark.parametrize("name", ["any", "all"])
def test_reductions_of_bools(tmp_path, name):
    for x in [np.array([[True, False], [True, True]]), np.zeros((0, 2), bool)]:
        check(tmp_path, lambda x: getattr(np, name)(x, axis=0), x)


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int32", "uint8"])
def test_orders(tmp_path, dtype):
    x = np.array([[3, 1, 3, 1, 2, 2], [5, 5, 0, 0, 1, 1]]).astype(dtype)
    parts = [x]
    if np.dtype(dtype).kind == "f":
        parts.append(np.array([[1, INF, NAN, -INF, NAN, INF], [NAN, 0, -0.0, 0, 1, 1]], dtype))
    for x in parts:
        for axis in (0, 1):
            for name in ("argmax", "argmin", "argsort"):
                check(tmp_path, applied(name, {"axis": axis}), x)
    check(tmp_path, lambda x: np.sort(x, axis=1), parts[-1])


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int32"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_searches(tmp_path, side, dtype):
    row, x = np.array([-1, 0, 0, 2, 2, 5], dtype), np.array([[-3, 0, 1], [2, 5, 9]], dtype)
    parts = [(row, x), (row[:0], x), (row, x[:0])]
    if np.dtype(dtype).kind == "f":
        parts.append((np.array([-INF, 0, INF, NAN, NAN], dtype), np.array([NAN, INF, 1.0], dtype)))
    for row, x in parts:
        check(tmp_path, lambda row, x: np.searchsorted(row, x, side), row, x)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_storage_dtypes(tmp_path, dtype):
    """Rounded after each operation; what comes out is made float32, which says all of it."""
    kind = pytest.importorskip("ml_dtypes").bfloat16 if dtype == "bfloat16" else np.float16

    def f(x):
        x = x.astype(kind)
        parts = [np.exp(x) * x, x.T @ x, np.maximum(x, 0.5), x[1:, ::-2], np.sum(x, axis=0)]
        return (*(p.astype(np.float32) for p in parts), x[1] > 0)

    check(tmp_path, f, np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4), rtol=1e-2)
    ct.to_onnx(np.sin, np.ones(3, kind), path=tmp_path / "f.onnx")
    (x,) = session(tmp_path / "f.onnx").get_inputs()
    assert x.type == f"tensor({dtype})"


@pytest.mark.parametrize("dtype", ["float64", "int64", "bool", "uint8", "float16"])
def test_indexing(tmp_path, dtype):
    x = (np.arange(24).reshape(4, 6) % 5).astype(dtype)
    y = (np.arange(6) % 2).astype(dtype)

    def f(x, y, i):
        z = x.copy()
        z[1:3, ::2] = y[:3]
        w = x.copy()
        w[::-2] = y
        u = x.copy()
        u[i] = y
        return x[i], x[i, i], x[-1, ::-1], x[3:0:-2, 1], z, w, u

    check(tmp_path, f, x, y, np.array([3, 0, 3, -2]), rtol=0)


def test_the_last_of_several_writes_counts_and_all_sums_do(tmp_path):
    index = np.random.default_rng(0).integers(0, 3, 100_000)
    y = np.arange(100_000.0)

    def f(x, i, y):
        return _core.scatter(x, i, y), _core.scatter_add(x, i, y)

    check(tmp_path, f, np.zeros(3), index, y)


def test_indices_out_of_range_are_errors(tmp_path):
    path = tmp_path / "f.onnx"
    ct.to_onnx(lambda x, i: _core.gather(x, i), np.arange(4.0), np.array([0, 1]), path=path)
    assert run(path, np.arange(4.0), np.array([3, 0]))[0].tolist() == [3, 0]
    for bad in (-1, 4):
        with pytest.raises(Exception, match="index|indices"):
            run(path, np.arange(4.0), np.array([0, bad]))


def test_what_would_be_ignored_is_refused(tmp_path):
    path = tmp_path / "f.onnx"
    x = np.arange(6.0)
    with pytest.raises(ValueError, match=r"indexing with a mask.*np\.where"):
        ct.to_onnx(lambda x: x[x > 2], x, path=path)
    with pytest.raises(ValueError, match="ignore the input i .*was read"):
        ct.to_onnx(lambda x, i: x[i], x, np.array(2), path=path)
    with pytest.raises(ValueError, match="ignore the input i .*no result depends on it"):
        ct.to_onnx(lambda x, i: x * 2, x, np.array([0, 1]), path=path)
    assert len(ct.trace(lambda x: x[x > 2], x)) > 0


def test_determinants(tmp_path):
    x = np.random.default_rng(0).random((2, 3, 3), dtype=np.float32)
    check(tmp_path, np.linalg.det, x, rtol=1e-5)


def test_empty_arrays_and_scalars(tmp_path):
    check(tmp_path, lambda x: (np.exp(x) @ x.T, x.reshape(3, 0), x[:, ::-1] + 1), np.zeros((0, 3)))
    check(tmp_path, lambda x: (np.sin(x), x * 2, np.stack([x, x])), np.array(0.5))


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int32", "bool"])
def test_nothing_of_something(tmp_path, dtype):
    """An axis of length 1 becomes one of length 0."""
    x = np.ones((2, 3), dtype)
    check(tmp_path, lambda x: (np.repeat(x, 0, axis=1), np.tile(x, 0)), x)
    check(tmp_path, lambda x: np.stack([np.broadcast_to(x[:, :1], (2, 0))] * 2), x)


def test_rows_of_nothing_are_added(tmp_path):
    index = np.array([1, 0, 1])
    check(tmp_path, lambda x: ct.grad(lambda x: np.sum(x[index] ** 2))(x), np.zeros((3, 0)))


def test_every_recipe_exists_and_is_used():
    named = {e["onnx_recipe"] for e in TABLE.values()} - {None}
    assert named == set(recipes.RECIPES)
    operators = {e["onnx_operator"] for e in TABLE.values()} - {None}
    assert set(recipes.OPERATORS) <= operators
    assert set(recipes.DOUBLE) <= operators
    assert set(TABLE) >= MOVES | PREDICATES | BOOLS


def test_operators_exist_since_the_version_that_the_table_says():
    for entry in TABLE.values():
        if entry["onnx_operator"] is not None:
            schema = onnx.defs.get_schema(entry["onnx_operator"], entry["onnx_since"])
            assert schema.since_version == entry["onnx_since"] <= OPSET, entry["name"]


def test_entries_without_a_form_are_refused_with_their_reason(tmp_path):
    path = tmp_path / "f.onnx"
    with pytest.raises(
        ValueError, match=r"cholesky\(float64\[3,3\]\).*decompositions.*as an argument"
    ):
        ct.to_onnx(np.linalg.cholesky, np.eye(3), path=path)
    with pytest.raises(ValueError, match="ONNX has no complex numbers.*real"):
        ct.to_onnx(lambda x: np.abs(x * 1j), np.ones(3), path=path)
    with pytest.raises(ValueError, match=r"real\(complex128\[3\]\)"):
        ct.to_onnx(lambda z: z.real, np.ones(3, complex), path=path)
    assert not path.exists()


def test_hooks_are_refused_by_name(tmp_path):
    def my_hook(g):
        return g

    _, back = ct.pullback(lambda x: ct.hook(my_hook, x) * 2, 3.0)
    with pytest.raises(ValueError, match="to_onnx: my_hook.*calls code of this process"):
        back.to_onnx(tmp_path / "f.onnx")


@pytest.mark.parametrize("dtype", ["int8", "int16", "uint16", "uint32", "uint64"])
def test_other_integers_are_moved_and_cast(tmp_path, dtype):
    x, a = np.linspace(0.0, 1.0, 4), np.array([1, 100, 3, 4], dtype)
    for f in (lambda x, a: x * a[::-1], lambda x, a: x * np.sum(a), lambda x, a: x + a.mean()):
        check(tmp_path, f, x, a)
    with pytest.raises(ValueError, match=f"{dtype} has no arithmetic in ONNX; cast it to int32"):
        ct.to_onnx(lambda x, a: x * (a + a), x, a, path=tmp_path / "model.onnx")


def test_positions_that_the_smallest_size_has_one_of(tmp_path, rng):
    """An axis of one element has no step, and says nothing about those of other sizes."""

    def f(x):
        k = (len(x) - 1) // 4
        return x[np.arange(k) * 3], x[np.arange(k)[:, None] * 2 + np.arange(3)]

    path = tmp_path / "f.onnx"
    ct.to_onnx(f, rng.normal(size=20), path=path, dynamic={"x": {0: "n"}})
    run = session(path)
    for n in (7, 20, 21, 41):
        x = rng.normal(size=n)
        for got, expected in zip(run.run(None, {"x": x}), f(x), strict=True):
            np.testing.assert_array_equal(got, expected)


def test_integers_and_bools_among_results_are_constants(tmp_path):
    """One that is the size of an open axis follows it."""

    def f(x):
        return {"y": np.sum(x), "n": 3, "found": True, "rest": None, "size": x.shape[0]}

    path = tmp_path / "f.onnx"
    ct.to_onnx(f, np.ones(8), path=path, dynamic={"x": {0: "n"}})
    run = session(path)
    assert [o.name for o in run.get_outputs()] == ["y.y", "y.n", "y.found", "y.size"]
    assert run.run(None, {"x": np.ones(11)}) == [11.0, 3, True, 11]
