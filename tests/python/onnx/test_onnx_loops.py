"""Loops as ONNX's Scan and Loop: values, derivatives, sizes of files, open sizes."""

import numpy as np
import pytest
from loop_programs import FORWARD, GRADIENTS, SECOND, XS, U, W, fori_loop, rotating, scan
from onnx_checks import check, onnx, run, same, session

import cotan as ct


def operators(path):
    """The operators of a file, and of the graphs in it."""
    found, graphs = [], [onnx.load(path).graph]
    while graphs:
        for node in graphs.pop().node:
            found.append(node.op_type)
            graphs += [a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH]
    return found


@pytest.mark.parametrize(("f", "args"), FORWARD, ids=lambda v: getattr(v, "__name__", ""))
def test_values(tmp_path, f, args):
    check(tmp_path, f, *args, rtol=1e-12, atol=1e-13)
    assert {"Scan", "Loop"} & set(operators(tmp_path / "f.onnx"))


@pytest.mark.parametrize("k", range(len(GRADIENTS)))
def test_gradients(tmp_path, k):
    f, args = GRADIENTS[k]
    check(tmp_path, f, *args, rtol=1e-11, atol=1e-12)
    found = operators(tmp_path / "f.onnx")
    assert found.count("Scan") + found.count("Loop") > 1


@pytest.mark.parametrize("k", range(len(SECOND)))
def test_derivatives_of_gradients(tmp_path, k):
    f, args = SECOND[k]
    check(tmp_path, f, *args, rtol=1e-10, atol=1e-11)
    assert {"Scan", "Loop"} & set(operators(tmp_path / "f.onnx"))


def test_a_runtime_of_another_kind_gives_the_same(tmp_path):
    from onnx.reference import ReferenceEvaluator

    path = tmp_path / "f.onnx"

    def f(x):
        last, ys = scan(lambda c, s: (np.sin(c) + s, c * x), x, XS)
        return fori_loop(0, 20, lambda i, v: v * x + i, last), ys

    ct.to_onnx(f, U, path=path)
    for mine, theirs in zip(ReferenceEvaluator(str(path)).run(None, {"x": U}), f(U), strict=True):
        same(mine, theirs, 1e-13)


def test_an_evaluator_that_wants_a_condition_takes_all_steps(tmp_path):
    from onnx.reference import ReferenceEvaluator

    path = tmp_path / "f.onnx"
    f = lambda x: fori_loop(0, 20, lambda i, v: np.sin(v) + 0.1, x)
    ct.to_onnx(f, U, path=path)
    same(ReferenceEvaluator(str(path)).run(None, {"x": U})[0], f(U), 1e-13)


def test_how_many_steps_there_are_is_found_when_the_graph_runs(tmp_path):
    path = tmp_path / "f.onnx"
    f = lambda x: ct.while_loop(lambda v: v > 1, lambda v: v / 2, x, rolled=True)
    ct.to_onnx(f, 12.0, path=path, gradient=True)
    for x, steps in ((12.0, 4), (0.5, 0), (2.0**40, 40)):
        value, slope = run(path, x)
        assert (value, slope) == (x / 2**steps, 0.5**steps)


def test_with_the_gradient(tmp_path):
    path = tmp_path / "f.onnx"
    ct.to_onnx(rotating, W, U, XS, path=path, gradient=True)
    assert [o.name for o in session(path).get_outputs()] == ["y", "dw", "du", "dxs"]
    value, gradients = ct.value_and_gradient(rotating, W, U, XS)
    for got, wanted in zip(run(path, W, U, XS), (value, *gradients), strict=True):
        same(got, wanted, 1e-11, 1e-13)


def test_pullbacks_and_programs(tmp_path):
    path = tmp_path / "f.onnx"
    _, back = ct.pullback(lambda u: scan(lambda c, x: (np.sin(c * x), c), u, XS)[0], U)
    back.to_onnx(path)
    dy = np.arange(3.0)
    same(run(path, dy)[0], back(dy)[0], 1e-12)
    program = ct.trace(rotating, W, U, XS)
    program.to_onnx(path)
    same(run(path, W, U, XS)[0], program(W, U, XS), 1e-12)


@pytest.mark.parametrize("gradient", [False, True])
def test_files_do_not_grow_with_steps(tmp_path, gradient):
    path, sizes = tmp_path / "f.onnx", []
    for n in (20, 2000, 200_000):
        f = lambda x, n=n: np.sum(fori_loop(0, n, lambda i, v: np.sin(v) * x, x))
        ct.to_onnx(f, U, path=path, gradient=gradient)
        sizes.append(path.stat().st_size)
    assert max(sizes) < min(sizes) + 100


def test_how_many_steps_there_are_may_be_open(tmp_path):
    path = tmp_path / "f.onnx"

    def f(w, u, xs):
        return rotating(w, u, xs), scan(lambda c, x: (c + x, c * len(xs)), u, xs, reverse=True)[1]

    ct.to_onnx(f, W, U, XS, path=path, dynamic={"xs": {0: "steps"}})
    for n in (6, 7, 20, 300):
        xs = np.random.default_rng(n).uniform(-1, 1, (n, 3))
        for got, wanted in zip(run(path, W, U, xs), f(W, U, xs), strict=True):
            same(got, wanted, 1e-11, 1e-12)
    loss = lambda xs: np.sum(fori_loop(0, len(xs), lambda i, v: np.sin(v) + xs[i], U))
    ct.to_onnx(loss, XS, path=path, gradient=True, dynamic={"xs": {0: "steps"}})
    for n in (6, 40):
        xs = np.random.default_rng(n).uniform(-1, 1, (n, 3))
        value, gradient = run(path, xs)
        same(value, loss(xs), 1e-12)
        same(gradient, ct.grad(loss)(xs), 1e-11, 1e-13)


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_other_dtypes(tmp_path, dtype):
    x = np.arange(1, 4).astype(dtype)
    check(tmp_path, lambda x: scan(lambda c, v: (c * 2 - v, c + v), x, np.stack([x] * 20)), x)


def test_what_a_step_cannot_do_is_refused_by_its_name(tmp_path):
    f = lambda x: fori_loop(0, 20, lambda i, v: np.linalg.cholesky(v @ v.T + np.eye(3)), x)
    with pytest.raises(ValueError, match=r"cholesky\(float64\[3,3\]\) has no ONNX form"):
        ct.to_onnx(f, W, path=tmp_path / "f.onnx")
    g = lambda x: np.abs(fori_loop(0, 20, lambda i, v: v * 1j, x + 0j))
    with pytest.raises(ValueError, match="ONNX has no complex numbers"):
        ct.to_onnx(g, U, path=tmp_path / "f.onnx")
