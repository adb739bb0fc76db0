"""Whole functions in C: gradients, second derivatives, structures, names, workspaces."""

import re
import subprocess

import numpy as np
import pytest
from c_checks import COMPILER, RTOL, Compiled, check, needs_compiler, same
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cotan as ct

pytestmark = needs_compiler


def loss(p, x, y):
    h = np.tanh(x @ p["w1"] + p["b1"])
    return np.mean((h @ p["w2"] - y) ** 2)


def network(dtype):
    rng = np.random.default_rng(0)

    def draw(*shape):
        return rng.normal(size=shape).astype(dtype)

    p = {"w1": draw(3, 4), "b1": draw(4), "w2": draw(4)}
    return p, draw(5, 3), draw(5)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_network_and_its_gradient(tmp_path, dtype):
    p, x, y = network(dtype)
    path = tmp_path / "loss.c"
    ct.to_c(loss, p, ct.const(x), ct.const(y), path=path, name="loss", gradient=True)
    compiled = Compiled(path, "loss")
    names = [name for _, name, _, _ in compiled.variables]
    assert names == ["p_w1", "p_b1", "p_w2", "x", "y", "y_", "dp_w1", "dp_b1", "dp_w2"]
    value, *slopes = compiled(p["w1"], p["b1"], p["w2"], x, y)
    wanted, (gradient, _, _) = ct.value_and_gradient(loss, p, ct.const(x), ct.const(y))
    same(value, np.asarray(wanted, dtype), RTOL[dtype])
    for key, slope in zip(["w1", "b1", "w2"], slopes, strict=True):
        same(slope, gradient[key], RTOL[dtype], RTOL[dtype])


def valley(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_second_derivatives(tmp_path, dtype):
    x = np.linspace(-1.0, 1.0, 5).astype(dtype)
    rtol = RTOL[dtype]
    check(tmp_path, lambda x: ct.hessian(valley, x), x, rtol=rtol, atol=100 * rtol)
    check(
        tmp_path, lambda x, v: ct.hvp(valley, x, v), x, x[::-1].copy(), rtol=rtol, atol=100 * rtol
    )
    check(tmp_path, lambda x: ct.jacobian(lambda x: np.cumsum(np.exp(x)), x), x, rtol=rtol)


def test_against_finite_differences(tmp_path):
    ct.to_c(valley, np.ones(4), path=tmp_path / "f.c", gradient=True)
    f = Compiled(tmp_path / "f.c")
    x = np.array([0.3, -0.2, 0.5, 0.1])
    slope = f(x)[1]
    steps = 1e-6 * np.eye(4)
    differences = [(f(x + e)[0] - f(x - e)[0]) / 2e-6 for e in steps]
    np.testing.assert_allclose(slope, differences, rtol=1e-6)


def test_programs_and_pullbacks(tmp_path):
    x = np.linspace(0.1, 1.0, 6).reshape(2, 3)
    program = ct.trace(lambda x: np.sin(x) @ np.ones((3, 2)), x)
    ct.to_c(program, path=tmp_path / "p.c", name="p")
    same(Compiled(tmp_path / "p.c", "p")(x)[0], program(x), 1e-12)
    y, back = ct.pullback(lambda x: np.exp(x) / x, x)
    ct.to_c(back, path=tmp_path / "b.c", name="b")
    compiled = Compiled(tmp_path / "b.c", "b")
    assert [v[1] for v in compiled.variables] == ["dy", "dx"]
    same(compiled(np.ones_like(x))[0], back(np.ones_like(np.asarray(y)))[0], 1e-12)
    prepared = ct.prepare(valley, np.ones(3), transform="value_and_gradient", wrt=0)
    check(tmp_path, lambda x: ct.grad(valley)(x), np.ones(3))
    ct.to_c(prepared, np.ones(3), path=tmp_path / "q.c", name="q")
    value, slope = Compiled(tmp_path / "q.c", "q")(np.arange(3.0))
    same(value, valley(np.arange(3.0)), 1e-12)
    same(slope, ct.grad(valley)(np.arange(3.0)), 1e-12)


def test_views_are_not_copied(tmp_path):
    text = check(tmp_path, lambda x: x.T[1:, ::-1] * 2.0, np.arange(12.0).reshape(3, 4)).text
    assert "work->" not in text and text.count("for (") == 2


def test_elementwise_groups_share_a_loop(tmp_path):
    def f(x):
        y = np.sin(x) * np.cos(x)
        return np.sum(y * y + x), y

    text = check(tmp_path, f, np.linspace(0.0, 1.0, 50)).text
    assert "work->" not in text and text.count("for (") == 1


def test_memory_is_used_again(tmp_path):
    def f(x):
        for _ in range(20):
            x = np.cumsum(x) / 7.0
        return x

    text = check(tmp_path, f, np.linspace(0.0, 1.0, 100)).text
    assert int(re.search(r"double d\[(\d+)\]", text)[1]) <= 300


def test_the_same_array_twice_and_arguments_as_results(tmp_path):
    def f(x):
        y = np.exp(x)
        return [y, y, x, y.T, y[0], 3.0 * np.ones(2), np.sum(y)]

    check(tmp_path, f, np.arange(6.0).reshape(2, 3))


def test_integers_masks_and_indices(tmp_path):
    def f(x, i, m):
        rows = x[i]
        return np.where(m, rows, 0.0).sum(), np.argmax(x), np.asarray(rows > 0.0)

    x = np.array([0.5, -1.0, 2.0, 0.1])
    check(tmp_path, f, x, np.array([3, 0, 3]), np.array([True, False, True]))
    check(
        tmp_path,
        lambda x, i: ct.grad(lambda x: np.sum(x[i] ** 2))(x),
        x,
        np.array([3, 0, 3]),
    )


def test_names(tmp_path):
    def f(exp, y, work, double, t1):
        return np.exp(exp) * y + work - double / t1

    path = tmp_path / "f.c"
    ct.to_c(f, *np.arange(1.0, 6.0), path=path)
    compiled = Compiled(path)
    names = [v[1] for v in compiled.variables]
    assert names == ["exp_", "y", "work_", "double_", "x_t1", "y_"]
    same(compiled(*np.arange(1.0, 6.0))[0], np.exp(1.0) * 2.0 + 3.0 - 4.0 / 5.0, 1e-14)
    for name in ("for", "a-b", "1f", "", "exp", "y0", "gamma", "cotan_remainder"):
        with pytest.raises(ValueError, match="no name of a function of C"):
            ct.to_c(f, *np.arange(1.0, 6.0), path=path, name=name)


def test_names_of_macros_and_of_what_loops_use(tmp_path):
    """Compiled with a compiler's own dialect, which has more macros than C99."""

    def f(HUGE_VAL, M_PI, NULL, INT64_MAX, linux, asm, k, left, right, gap, place, f_work, F_TYPES):
        order = np.argsort(k)
        rest = M_PI * NULL + INT64_MAX * linux - asm / left + right * gap - place * f_work
        return np.sum(np.sort(HUGE_VAL)[order] * rest * F_TYPES)

    args = [np.array([3.0, 1.0, 2.0]) + i for i in range(13)]
    path = tmp_path / "f.c"
    ct.to_c(f, *args, path=path)
    same(Compiled(path, flags=["-std=gnu17"])(*args)[0], f(*args), 1e-14)


def test_a_program_of_c_calls_it(tmp_path):
    ct.to_c(valley, np.ones(3), path=tmp_path / "valley.c", name="valley", gradient=True)
    (tmp_path / "main.c").write_text(
        "#include <stdio.h>\n"
        "#define VALLEY_DECLARATIONS\n"
        '#include "valley.c"\n'
        "int main(void)\n{\n"
        "    double x[3] = {0.5, 0.25, 0.0}, y, dx[3];\n"
        "    valley_work work;\n"
        "    valley(x, &y, dx, &work);\n"
        '    printf("%.15g %.15g %.15g %.15g\\n", y, dx[0], dx[1], dx[2]);\n'
        "    return 0;\n}\n"
    )
    flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-pedantic", "-std=c99"]
    files = [str(tmp_path / name) for name in ("main.c", "valley.c")]
    subprocess.run([COMPILER, *flags, *files, "-o", str(tmp_path / "main"), "-lm"], check=True)
    done = subprocess.run([str(tmp_path / "main")], capture_output=True, text=True, check=True)
    x = np.array([0.5, 0.25, 0.0])
    expected = [valley(x), *ct.grad(valley)(x)]
    np.testing.assert_allclose(np.array(done.stdout.split(), float), expected, rtol=1e-12)


def test_refusals(tmp_path):
    path = tmp_path / "f.c"
    program = ct.trace(np.sin, np.ones(3))
    with pytest.raises(TypeError, match="a Program is written as it is"):
        ct.to_c(program, np.ones(3), path=path)
    with pytest.raises(ValueError, match="to_c: with gradient=True the function must return"):
        ct.to_c(np.sin, np.ones(3), path=path, gradient=True)
    with pytest.raises(ValueError, match="to_c: the result of indexing with a mask"):
        ct.to_c(lambda x: x[x > 0.0], np.ones(3), path=path)
    with pytest.raises(ValueError, match="to_c: .*ignore the input n"):
        ct.to_c(lambda x, n: x[: int(n)], np.ones(3), np.array(2), path=path)
    _, back = ct.pullback(lambda x: (x, x), np.ones(3))
    with pytest.raises(ValueError, match="several results"):
        ct.to_c(back, path=path)


# --------------------------------------------------------------------------------------------------
# Small programs at random

UNARY = [
    np.sin, np.exp, np.tanh, np.square, np.abs, np.negative, np.sign,
    lambda x: np.log1p(np.square(x)), lambda x: np.sqrt(np.square(x) + 1.0),
    lambda x: np.cumsum(x, -1), lambda x: x[..., ::-1], lambda x: np.sort(x[..., :1], -1),
    lambda x: np.concatenate([x, x[..., :2]], -1)[..., 2:], lambda x: np.roll(x, 1, -1),
    lambda x: x - np.mean(x), lambda x: x / (1.0 + np.max(np.abs(x))), lambda x: x.T.copy().T,
    lambda x: np.where(x > 0.1, x, 0.5 * x), lambda x: np.clip(x, -0.5, 0.5),
    lambda x: x[..., np.array([0, 2, 1])], lambda x: x - np.min(x, axis=-1, keepdims=True),
    lambda x: x.reshape(-1)[: x.shape[-1]] if x.ndim == 2 else x,
    lambda x: np.sum(x, 0, keepdims=True) + x,
    lambda x: x @ np.linspace(0.1, 0.9, 9).reshape(3, 3),
]  # fmt: skip
BINARY = [
    np.add, np.subtract, np.multiply, np.maximum, np.arctan2, np.hypot, np.logaddexp,
    lambda x, y: x / (1.0 + np.square(y)), lambda x, y: np.where(x < y, x, y * y),
    lambda x, y: np.stack([x + y, x - y]).prod(0),
]  # fmt: skip


@st.composite
def functions(draw):
    """A function of two arrays: which operations, on which of the values so far."""
    steps = []
    for count in range(2, 2 + draw(st.integers(1, 7))):
        if draw(st.booleans()):
            steps.append((draw(st.sampled_from(UNARY)), draw(st.integers(0, count - 1))))
        else:
            pair = [draw(st.integers(0, count - 1)) for _ in range(2)]
            steps.append((draw(st.sampled_from(BINARY)), *pair))

    def f(x, y):
        values = [x, y]
        for operation, *places in steps:
            found = operation(*(values[i] for i in places))
            # All have a last axis of three.
            values.append(found if found.shape[-1] == 3 else found + np.zeros(3))
        return np.sum(np.sin(values[-1]) + 0.1 * np.sum(values[-2]))

    return f


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(f=functions(), seed=st.integers(0, 100))
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_small_programs(tmp_path, dtype, f, seed):
    rng = np.random.default_rng(seed)
    x, y = rng.uniform(-1.0, 1.0, (2, 3)).astype(dtype), rng.uniform(-1.0, 1.0, 3).astype(dtype)

    def derivatives(x, y):
        value, slopes = ct.value_and_gradient(f, x, y)
        slopes = [np.zeros_like(z) if s is None else s for s, z in zip(slopes, (x, y), strict=True)]
        return [value, *slopes, ct.hvp(lambda x: f(x, y), x, np.ones_like(x))]

    scale = max(float(np.max(np.abs(np.asarray(d)))) for d in derivatives(x, y))
    rtol = {"float64": 1e-10, "float32": 2e-4}[dtype]
    check(tmp_path, derivatives, x, y, rtol=rtol, atol=rtol * (1.0 + scale))


def test_integers_and_bools_among_results_are_constants(tmp_path):
    def f(x):
        return {"y": 2 * x, "n": 3, "found": True, "rest": None, "pair": (np.int64(2), x)}

    file = tmp_path / "f.c"
    ct.to_c(f, 1.5, path=file)
    text = file.read_text()
    for line in (
        "y_n (y.n): int64 []",
        "y_found (y.found): bool []",
        "y_pair_0 (y.pair[0]): int64",
    ):
        assert f"out  {line}" in text
    assert "y_rest" not in text


@pytest.mark.parametrize("export", [ct.to_c, ct.to_onnx])
@pytest.mark.parametrize(
    ("value", "path"),
    [(["text"], "y[0]"), ({"a": [1.0, print]}, "y.a[1]"), ({0: b"text"}, "y[0]")],
)
def test_results_that_no_array_can_stand_for_are_refused_by_path(tmp_path, export, value, path):
    with pytest.raises(TypeError, match=re.escape(f"{export.__name__}: {path} of the result is ")):
        export(lambda x: value, 1.0, path=tmp_path / "f")
