"""Programs as ONNX files: checked by onnx, run by onnxruntime, for every primitive with a form."""

import importlib.util
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from test_table import TABLE, arguments, cases

import cotan as ct
from cotan import _core

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")

from cotan import _onnx_recipes, _onnx_sizes  # noqa: E402
from cotan._onnx_graph import BOOLS, MOVES, OPSET, PREDICATES  # noqa: E402

TOP = Path(__file__).parents[2]
NAN, INF = np.nan, np.inf

# Valid ONNX that onnxruntime cannot run.
NO_KERNEL = {("det", "float64"): "onnxruntime has no float64 kernel"}


def session(path):
    onnx.checker.check_model(str(path), full_check=True)
    options = ort.SessionOptions()
    options.log_severity_level = 3
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def run(path, *args):
    s = session(path)
    names = [i.name for i in s.get_inputs()]
    assert len(names) == len(args)
    return s.run(None, {n: np.asarray(a) for n, a in zip(names, args, strict=True)})


def same(got, wanted, rtol, atol=0.0):
    wanted = np.asarray(wanted)
    got = np.asarray(got)
    assert got.shape == wanted.shape
    assert got.dtype == wanted.dtype
    if wanted.dtype.kind == "f":
        np.testing.assert_allclose(
            got.astype(float), wanted.astype(float), rtol=rtol, atol=atol, equal_nan=True
        )
    else:
        np.testing.assert_array_equal(got, wanted)


def applied(name, params):
    """A function that is one primitive."""

    def f(*args):
        return _core.apply(name, *args, **params)

    return f


RTOL = {"float64": 4e-14, "float32": 5e-6, "float16": 4e-3}


def check(tmp_path, f, *args, rtol=4e-14, atol=0.0, **options):
    """Export, run and compare with the function itself."""
    path = tmp_path / "f.onnx"
    ct.to_onnx(f, *args, path=path, **options)
    wanted = f(*(ct.asarray(a) for a in args))
    wanted = wanted if isinstance(wanted, (tuple, list)) else [wanted]
    got = run(path, *args)
    for mine, theirs in zip(got, wanted, strict=True):
        same(mine, np.asarray(_core.value(theirs)), rtol, atol)


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
    if entry["types"] in {"integer", "whole number"}:
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
        in {"any", "real", "logical", "number", "real number", "integer", "whole number"}
    ],
)
def test_integers_and_bools(tmp_path, name, dtype):
    entry = TABLE[name]
    kinds = {"number": "biu", "real number": "iu", "whole number": "iu"}
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
    with pytest.raises(ValueError, match=r"mask as an index.*np\.where"):
        ct.to_onnx(lambda x: x[x > 2], x, path=path)
    with pytest.raises(ValueError, match="the value of i .*was read"):
        ct.to_onnx(lambda x, i: x[i], x, np.array(2), path=path)
    assert len(ct.trace(lambda x: x[x > 2], x)) > 0


def test_determinants(tmp_path):
    x = np.random.default_rng(0).random((2, 3, 3), dtype=np.float32)
    check(tmp_path, np.linalg.det, x, rtol=1e-5)


def test_empty_arrays_and_scalars(tmp_path):
    check(tmp_path, lambda x: (np.exp(x) @ x.T, x.reshape(3, 0), x[:, ::-1] + 1), np.zeros((0, 3)))
    check(tmp_path, lambda x: (np.sin(x), x * 2, np.stack([x, x])), np.array(0.5))


def test_every_recipe_exists_and_is_used():
    named = {e["onnx_recipe"] for e in TABLE.values()} - {None}
    assert named == set(_onnx_recipes.RECIPES)
    operators = {e["onnx_operator"] for e in TABLE.values()} - {None}
    assert set(_onnx_recipes.OPERATORS) <= operators
    assert set(_onnx_recipes.DOUBLE) <= operators
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
    with pytest.raises(ValueError, match="host.*my_hook"):
        back.to_onnx(tmp_path / "f.onnx")


# --------------------------------------------------------------------------------------------------
# Pullbacks and programs


def test_a_pullback_round_trip(tmp_path):
    rng = np.random.default_rng(0)
    w1, w2 = rng.random((5, 4), dtype=np.float32), rng.random((2, 5), dtype=np.float32)
    x = rng.random((4, 3), dtype=np.float32)

    def net(w1, w2, x):
        return np.sum(np.tanh(w2 @ np.maximum(w1 @ x, 0)) ** 2)

    _, back = ct.pullback(net, w1, w2, ct.const(x))
    path = tmp_path / "back.onnx"
    back.to_onnx(path)
    s = session(path)
    assert [i.name for i in s.get_inputs()] == ["dy"]
    assert [o.name for o in s.get_outputs()] == ["dw1", "dw2"]
    got = s.run(None, {"dy": np.asarray(1.0, np.float32)})
    for mine, theirs in zip(back(np.float32(1.0)), got, strict=False):
        np.testing.assert_allclose(theirs, np.asarray(mine), rtol=1e-5, atol=1e-6)
    back.wrt(1).to_onnx(path)
    assert [o.name for o in session(path).get_outputs()] == ["dw2"]


def test_names_of_structures_and_of_what_is_kept(tmp_path):
    path = tmp_path / "f.onnx"
    net = {"w": np.ones(3), "b": [np.ones(3)]}
    _, back = ct.pullback(
        lambda net, x: {"loss": np.exp(net["w"]) * x + net["b"][0], "n": x * x}, net, np.ones(3)
    )
    back.to_onnx(path)
    s = session(path)
    assert [i.name for i in s.get_inputs()] == ["dy.loss", "dy.n"]
    assert [o.name for o in s.get_outputs()] == ["dnet.w", "dnet.b[0]", "dx"]
    assert "x" in {i.name for i in onnx.load(path).graph.initializer}


def test_a_program_round_trip(tmp_path):
    path = tmp_path / "f.onnx"
    c = np.arange(3.0)
    program = ct.trace(lambda x, y: (np.sum(x * c), y - x), np.ones(3), 2.0)
    program.to_onnx(path)
    s = session(path)
    assert [i.name for i in s.get_inputs()] == ["x", "y"]
    got = s.run(None, {"x": np.ones(3) * 2, "y": np.asarray(5.0)})
    for mine, theirs in zip(got, program(np.ones(3) * 2, 5.0), strict=True):
        same(mine, theirs, 1e-15)


def test_custom_rules_and_checkpoints_are_written_out(tmp_path):
    @ct.adjoint
    def cube(x):
        return x**3, lambda dy: (dy * 3 * x**2,)

    @ct.checkpoint
    def block(x):
        return np.tanh(cube(x))

    def f(x):
        return np.sum(block(x) * ct.dropgrad(x))

    x = np.linspace(-1, 1, 5)
    path = tmp_path / "f.onnx"
    ct.to_onnx(f, x, path=path, gradient=True)
    value, (dx,) = ct.value_and_gradient(f, x)
    y, d = run(path, x)
    same(y, value, 1e-14)
    same(d, dx, 1e-14)


# --------------------------------------------------------------------------------------------------
# Functions with their gradient


def test_a_function_with_its_gradient(tmp_path):
    path = tmp_path / "f.onnx"

    def f(net, c, unused, y):
        return np.sum(net["w"] * c) * y

    args = ({"w": np.ones(3)}, ct.const(np.arange(3.0)), np.ones(2), 2.0)
    ct.to_onnx(f, *args, path=path, gradient=True)
    s = session(path)
    assert [i.name for i in s.get_inputs()] == ["net.w", "c", "unused", "y"]
    # An argument is called y already.
    assert [o.name for o in s.get_outputs()] == ["y_", "dnet.w", "dy"]
    got = s.run(
        None,
        {"net.w": np.ones(3), "c": np.ones(3), "unused": np.ones(2), "y": np.asarray(3.0)},
    )
    assert [g.tolist() for g in got] == [9.0, [3.0, 3.0, 3.0], 3.0]


def test_a_gradient_needs_a_scalar(tmp_path):
    for f in (lambda x: x, lambda x: (x[0], x[1]), lambda x: np.argmax(x)):
        with pytest.raises(ValueError, match="must return a real scalar"):
            ct.to_onnx(f, np.ones(3), path=tmp_path / "f.onnx", gradient=True)


# --------------------------------------------------------------------------------------------------
# Open sizes


def open_sizes(tmp_path, f, *args, dynamic, others, rtol=1e-13, gradient=False):
    """Export with open sizes; at each of `others` compare with the function itself."""
    path = tmp_path / "f.onnx"
    ct.to_onnx(f, *args, path=path, dynamic=dynamic, gradient=gradient)
    for other in [args, *others]:
        bare = [a.value if isinstance(a, _core.Const) else a for a in other]
        got = run(path, *bare)
        if gradient:
            held = [
                ct.const(a) if isinstance(b, _core.Const) else a
                for a, b in zip(bare, args, strict=True)
            ]
            value, parts = ct.value_and_gradient(f, *held)
            wanted = [value, *(p for p in parts if p is not None)]
        else:
            wanted = f(*(ct.asarray(a) for a in bare))
            wanted = wanted if isinstance(wanted, (tuple, list)) else [wanted]
        for mine, theirs in zip(got, wanted, strict=True):
            same(mine, np.asarray(_core.value(theirs)), rtol)


BATCH = {"x": {0: "batch"}}


def batch(n):
    return np.random.default_rng(n).random((n, 4)) + 0.1


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.exp(x) + 1,
        lambda x: x.reshape(-1),
        lambda x: x.reshape(2 * len(x), 2).T,
        lambda x: x - x.mean(axis=0),
        lambda x: np.var(x, axis=0, ddof=1),
        lambda x: np.std(x, axis=1),
        lambda x: x[::-1, ::2],
        lambda x: x[1:] - x[:-1],
        lambda x: x[::2],
        lambda x: x[len(x) // 2 :],
        lambda x: np.broadcast_to(x[0], (len(x), 4)),
        lambda x: x + np.zeros(len(x))[:, None],
        lambda x: x * np.arange(len(x))[:, None],
        lambda x: x * np.linspace(0, 2, 4),
        lambda x: x[np.arange(len(x)), 1],
        lambda x: np.concatenate([x, np.ones((1, 4)), 2 * x]),
        lambda x: np.stack([x, x]),
        lambda x: np.pad(x, ((1, 2), (0, 0))),
        lambda x: np.cumsum(x, axis=0),
        lambda x: np.sort(x, axis=0),
        lambda x: np.argmax(x, axis=0),
        lambda x: x @ x.T,
        lambda x: x.T @ x / len(x),
        lambda x: x / np.sqrt(len(x)),
        lambda x: np.where(x > 0.5, x, 0),
        lambda x: np.max(x, axis=0),
        lambda x: x * ct.sin(float(len(x))),
    ],
)
def test_open_sizes(tmp_path, f):
    others = [(batch(3),), (batch(12),), (batch(1),)]
    open_sizes(tmp_path, f, batch(6), dynamic=BATCH, others=others)


@pytest.mark.parametrize(
    "f",
    [
        lambda x, w: np.mean(np.tanh(x @ w)),
        lambda x, w: np.sum(((x - x.mean(axis=0)) @ w) ** 2),
        lambda x, w: np.sum(np.max(x @ w, axis=0)),
        lambda x, w: np.sum(np.cumsum(x @ w, axis=0) ** 2),
        lambda x, w: np.sum((x[1:] - x[:-1]) @ w),
        lambda x, w: np.sum(np.sort(x, axis=0) @ w * np.arange(1, len(x) + 1)[:, None]),
        lambda x, w: np.sum(x[::2] @ w) + np.sum(x.reshape(-1)[1:5]),
        lambda x, w: np.var(x @ w),
        lambda x, w: np.sum(np.concatenate([x, x[:1]]) @ w) / x.size,
    ],
)
def test_open_sizes_of_gradients(tmp_path, f):
    w = np.random.default_rng(1).random((4, 2))
    others = [(batch(3), w), (batch(12), w)]
    open_sizes(tmp_path, f, batch(6), w, dynamic=BATCH, others=others, gradient=True)


def test_two_open_sizes(tmp_path):
    def f(x, w):
        return np.mean(np.tanh(x @ w).reshape(-1) * np.arange(x.shape[0] * w.shape[1]))

    def args(n, m):
        rng = np.random.default_rng(n)
        return rng.random((n, 4)), rng.random((4, m))

    dynamic = {"x": {0: "n"}, "w": {1: "m"}}
    open_sizes(
        tmp_path, f, *args(5, 3), dynamic=dynamic, others=[args(2, 9), args(8, 8)], gradient=True
    )
    shapes = [tuple(i.shape) for i in session(tmp_path / "f.onnx").get_inputs()]
    assert shapes == [("n", 4), (4, "m")]


def test_what_does_not_follow_from_a_size_is_refused(tmp_path):
    path = tmp_path / "f.onnx"

    def loop(x):
        for row in range(len(x)):
            x = x + row
        return x

    with pytest.raises(ValueError, match="depends on batch in more than its shapes.*loops"):
        ct.to_onnx(loop, batch(6), path=path, dynamic=BATCH)
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="array of shape.*pass it as an argument"):
        ct.to_onnx(lambda x: x * rng.random((len(x), 1)), batch(6), path=path, dynamic=BATCH)
    with pytest.raises(ValueError, match="depends on batch|follow from batch"):
        ct.to_onnx(lambda x: x * math.sin(len(x)), batch(6), path=path, dynamic=BATCH)
    with pytest.raises(ValueError, match="there are x") as info:
        ct.to_onnx(np.sin, batch(6), path=path, dynamic={"z": {0: "n"}})
    with pytest.raises(ValueError, match=r"shape \(6, 4\)") as info:
        ct.to_onnx(lambda x: x, batch(6), path=path, dynamic={"x": {2: "n"}})
    c = np.ones((6, 4))
    with pytest.raises(ValueError, match="shapes") as info:
        ct.to_onnx(lambda x: x + c, batch(6), path=path, dynamic=BATCH)
    assert "recorded at batch = " in "".join(info.value.__notes__)


def test_formulas_of_lengths_and_factors():
    symbols = _onnx_sizes.choose(["n"], {6, 8})
    n = np.array(symbols["n"])
    assert not {6, 8} & set(n.tolist())
    fit = lambda values: _onnx_sizes.fit_length(tuple(values.tolist()), symbols)
    assert fit(3 * n + 2) == ({(): 2, ("n",): 3}, 1, 1, 0)
    assert fit(n * (n - 1) // 2) == ({("n",): -1, ("n", "n"): 1}, 2, 1, 0)
    assert fit((n + 1) // 2) == ({(): 1, ("n",): 1}, 2, 1, 0)
    assert fit((n + 1) // 2 * 3 + 1) == ({(): 1, ("n",): 1}, 2, 3, 1)
    factor = lambda values: _onnx_sizes.fit_factor(tuple(values.tolist()), symbols, 2e-16)
    assert factor(3 / n) == (3.0, (("n", 0, -1.0),))
    assert factor(1 / (n - 1.0)) == (1.0, (("n", -1, -1.0),))
    with pytest.raises(_onnx_sizes.MisfitError):
        factor(np.sin(n * 1.0))
    with pytest.raises(_onnx_sizes.MisfitError):
        fit(n**4)


# --------------------------------------------------------------------------------------------------
# A whole training step


@pytest.fixture(scope="module")
def digits():
    pytest.importorskip("sklearn")
    spec = importlib.util.spec_from_file_location("digits", TOP / "examples" / "digits.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["digits"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["digits"]


def test_a_training_step_of_the_digits_network(tmp_path, digits):
    """Forward, backward and Adam, as the example has them; the batch size is open."""
    rng = np.random.default_rng(0)
    net = digits.make_network(rng, 64, 10)
    start = digits.Adam(net)
    images = (digits.load_digits().data / 16).astype(np.float32)
    labels = digits.load_digits().target

    def step(net, mean, square, x, labels, steps, rate):
        adam = digits.Adam.__new__(digits.Adam)
        adam.mean, adam.square, adam.steps = mean, square, steps
        value, (gradient, _, _) = ct.value_and_gradient(
            digits.loss, net, ct.const(x), ct.const(labels)
        )
        adam.step(net, gradient, rate)
        return value, net, adam.mean, adam.square

    path = tmp_path / "step.onnx"
    args = (net, start.mean, start.square, images[:8], labels[:8], 0.0, 0.01)
    dynamic = {"x": {0: "batch"}, "labels": {0: "batch"}}
    ct.to_onnx(step, *args, path=path, dynamic=dynamic)
    s = session(path)
    names = [i.name for i in s.get_inputs()]
    assert names[0] == "net.w1" and names[-4:] == ["x", "labels", "steps", "rate"]
    adam = digits.Adam(net)
    flat = lambda *nets: [np.asarray(getattr(n, f.name)) for n in nets for f in digits.fields(n)]
    state = [a.copy() for a in flat(net, adam.mean, adam.square)]
    at = 0
    for t, size in enumerate([64, 8, 31]):
        x, y = images[at : at + size], labels[at : at + size]
        at += size
        feed = [*state, x, y, np.asarray(float(t)), np.asarray(0.01)]
        loss, *state = s.run(None, dict(zip(names, feed, strict=True)))
        value, (gradient, _, _) = ct.value_and_gradient(digits.loss, net, ct.const(x), ct.const(y))
        adam.step(net, gradient, 0.01)
        np.testing.assert_allclose(loss, value, rtol=1e-5)
    for mine, theirs in zip(state, flat(net, adam.mean, adam.square), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=2e-6)


# --------------------------------------------------------------------------------------------------
# Files


def test_an_old_file_stays_until_the_new_one_is_whole(tmp_path):
    path = tmp_path / "f.onnx"
    ct.to_onnx(np.sin, np.ones(3), path=path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="cholesky"):
        ct.to_onnx(np.linalg.cholesky, np.eye(3), path=path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["f.onnx"]
    with pytest.raises(ValueError, match="not a regular file"):
        ct.to_onnx(np.sin, np.ones(3), path=tmp_path)
    with pytest.raises(FileNotFoundError):
        ct.to_onnx(np.sin, np.ones(3), path=tmp_path / "none" / "f.onnx")


def test_too_large_files_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("cotan._onnx_graph.LARGEST", 1000)
    c = np.ones(200)
    with pytest.raises(ValueError, match="holds 2 GB.*as arguments"):
        ct.to_onnx(lambda x: x * c, np.ones(200), path=tmp_path / "f.onnx")


def test_without_the_package_the_error_says_how_to_get_it():
    code = (
        "import sys; sys.modules['onnx'] = None\n"
        "import cotan as ct\n"
        "try: ct.to_onnx(abs, 1.0, path='f.onnx')\n"
        "except ImportError as e: assert \"pip install 'cotan[onnx]'\" in str(e), e\n"
        "else: raise SystemExit('no error')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    code = "import sys, cotan; assert 'onnx' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
