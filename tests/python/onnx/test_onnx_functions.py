"""Functions with their gradient, pullbacks and programs as ONNX files; open sizes."""

import importlib.util
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx_checks import onnx, run, same, session

import cotan as ct
from cotan import _core
from cotan._src.onnx import symbolic_sizes

TOP = Path(__file__).parents[3]

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


def open_sizes(tmp_path, f, *args, dynamic, others, rtol=1e-13, atol=0.0, gradient=False):
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
            same(mine, np.asarray(_core.value(theirs)), rtol, atol)


BATCH = {"x": {0: "batch"}}
windows = np.lib.stride_tricks.sliding_window_view


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
        lambda x: x * np.linspace(0, 1, len(x))[:, None],
        lambda x: x * np.linspace(2, 1, len(x), endpoint=False)[:, None],
        lambda x: x + np.indices((len(x), 4))[0],
        lambda x: np.repeat(x, 3, axis=0),
        lambda x: np.repeat(x, 2),
        lambda x: np.maximum(x, np.full(len(x), -np.inf)[:, None]),
        lambda x: np.tile(x, (2, 1)),
        lambda x: np.median(x, axis=0),
        lambda x: np.median(x, axis=1),
        lambda x: np.median(x),
        lambda x: np.take_along_axis(x, np.argmin(x, axis=1)[:, None], 1),
        lambda x: windows(x, 3, axis=1) @ np.array([1.0, -2.0, 3.0]),
        lambda x: np.mean(windows(x, (1, 2), axis=(0, 1)), axis=(-1, -2)),
        lambda x: np.convolve(x[:, 0], [1.0, 2.0, 1.0]),
        lambda x: ct.conv(x[:, None], np.ones((2, 1, 3)) / 3, padding="same"),
    ],
)
def test_open_sizes(tmp_path, f):
    others = [(batch(3),), (batch(12),), (batch(1),)]
    open_sizes(tmp_path, f, batch(6), dynamic=BATCH, others=others)


def test_windows_along_an_open_axis(tmp_path):
    f = lambda x: np.sum(windows(x, 3, axis=0) ** 2, axis=-1)
    open_sizes(tmp_path, f, batch(6), dynamic=BATCH, others=[(batch(3),), (batch(12),)])


def test_a_convolution_over_windows_with_its_gradient(tmp_path):
    def loss(x, w):
        images = np.reshape(x, (len(x), 2, 2))
        return np.mean(np.einsum("bhwij,ij->bhw", windows(images, (2, 2), axis=(1, 2)), w) ** 2)

    w = np.array([[0.5, -1.0], [2.0, 0.1]])
    others = [(batch(1), w), (batch(9), w)]
    open_sizes(tmp_path, loss, batch(6), w, dynamic=BATCH, others=others, gradient=True)


@pytest.mark.parametrize(
    ("dynamic", "error", "message"),
    [
        (["x"], TypeError, r"=\['x'\] must be a dictionary.*\{0: 'batch'\}"),
        ({"x": 0}, TypeError, "0 for x must be a dictionary"),
        ({"x": ["n"]}, TypeError, "for x must be a dictionary"),
        ({"x": {0: 1}}, TypeError, "axis 0 of x needs a name for its size, not 1"),
        ({"x": {0: ""}}, TypeError, "axis 0 of x needs a name"),
        ({"x": {0.5: "n"}}, TypeError, "0.5 is not an axis of x"),
        ({"x": {"n": 0}}, TypeError, "'n' is not an axis of x"),
        ({"x": {-1: "n"}}, ValueError, "no axis -1 .*counted from 0"),
    ],
)
def test_open_sizes_that_say_nothing(tmp_path, dynamic, error, message):
    with pytest.raises(error, match="(?s)to_onnx: dynamic.*" + message):
        ct.to_onnx(lambda x: x, batch(6), path=tmp_path / "f.onnx", dynamic=dynamic)


def test_no_open_axis_is_one_that_is_fixed(tmp_path):
    for dynamic in ({}, {"x": {}}, None):
        ct.to_onnx(lambda x: x * 2, batch(6), path=tmp_path / "f.onnx", dynamic=dynamic)
        assert session(tmp_path / "f.onnx").get_inputs()[0].shape == [6, 4]


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


def test_open_sizes_of_attention(tmp_path):
    def attention(q, k, v):
        scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
        e = np.exp(scores - scores.max(-1, keepdims=True))
        return np.sum(((e / e.sum(-1, keepdims=True)) @ v) ** 2) / len(q)

    def args(batch, length):
        rng = np.random.default_rng(batch)
        return tuple(rng.random((batch, length, 4)) for _ in range(3))

    dynamic = {name: {0: "batch", 1: "length"} for name in "qkv"}
    others = [args(1, 1), args(3, 7), args(4, 4)]
    f = attention
    open_sizes(tmp_path, f, *args(2, 5), dynamic=dynamic, others=others, gradient=True, atol=1e-15)


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
        ct.to_onnx(lambda x: np.sin(x), batch(6), path=path, dynamic={"z": {0: "n"}})
    with pytest.raises(ValueError, match=r"shape \(6, 4\)") as info:
        ct.to_onnx(lambda x: x, batch(6), path=path, dynamic={"x": {2: "n"}})
    c = np.ones((6, 4))
    with pytest.raises(ValueError, match="shapes") as info:
        ct.to_onnx(lambda x: x + c, batch(6), path=path, dynamic=BATCH)
    for part in (
        "recorded at batch = ",
        "Axis 0 of x is batch, and has size 6",
        "ct.to_onnx(lambda x: x + c",
    ):
        assert part in str(info.value)


def test_formulas_of_lengths_and_factors():
    symbols = symbolic_sizes.choose(["n"], {6, 8})
    n = np.array(symbols["n"])
    assert not {6, 8} & set(n.tolist())
    fit = lambda values: symbolic_sizes.fit_length(tuple(values.tolist()), symbols)
    assert fit(3 * n + 2) == ({(): 2, ("n",): 3}, 1, 1, 0)
    assert fit(n * (n - 1) // 2) == ({("n",): -1, ("n", "n"): 1}, 2, 1, 0)
    assert fit((n + 1) // 2) == ({(): 1, ("n",): 1}, 2, 1, 0)
    assert fit((n + 1) // 2 * 3 + 1) == ({(): 1, ("n",): 1}, 2, 3, 1)
    factor = lambda values: symbolic_sizes.fit_factor(tuple(values.tolist()), symbols, 2e-16)
    assert factor(3 / n) == (3.0, (("n", 0, -1.0),))
    assert factor(1 / (n - 1.0)) == (1.0, (("n", -1, -1.0),))
    with pytest.raises(symbolic_sizes.MisfitError):
        factor(np.sin(n * 1.0))
    with pytest.raises(symbolic_sizes.MisfitError):
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
    monkeypatch.setattr("cotan._src.onnx.graph.LARGEST", 1000)
    c = np.ones(200)
    with pytest.raises(ValueError, match="limit of ONNX files is 2 GB.*as arguments"):
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
