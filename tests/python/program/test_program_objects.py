"""Programs as Python objects: called, cut, bound, composed, differentiated, read back."""

import inspect
import threading
from dataclasses import dataclass

import numpy as np
import pytest

import cotan as ct

X = np.array([0.5, 1.0, 1.5])
W = np.array([2.0, 3.0, 4.0])


@dataclass
class Model:
    w: np.ndarray
    b: np.ndarray
    name: str = "linear"


def linear(model, x):
    return {"loss": np.sum((model.w * x + model.b) ** 2), "out": model.w * x}


@pytest.fixture
def model():
    return Model(W, np.ones(3))


def names(variables):
    return [v.name for v in variables]


# --------------------------------------------------------------------------------------------------
# Recording


def test_a_trace_executes_no_equation(model):
    with ct.profile() as work:
        program = ct.trace(linear, model, X)
        program.optimize().prune("loss")
        program.pullback()
        str(program)
    assert sum(work.equations.values()) == 0
    with ct.profile() as work:
        program(model, X)
    assert sum(work.equations.values()) > 0


def test_inputs_have_the_paths_of_arguments(model):
    program = ct.trace(linear, model, X)
    assert names(program.inputs) == ["model.w", "model.b", "x"]
    assert names(program.outputs) == ["loss", "out"]
    nested = ct.trace(lambda p, *rest: p["a b"][1] + rest[0] + rest[1], {"a b": [0, X]}, X, 2.0)
    assert names(nested.inputs) == ["p['a b'][1]", "rest[0]", "rest[1]"]


def test_keyword_arguments_are_inputs():
    program = ct.trace(lambda x, *, scale, shift=0.0: x * scale + shift, X, shift=W, scale=2.0)
    assert names(program.inputs) == ["x", "shift", "scale"]
    np.testing.assert_array_equal(program(X, scale=3.0, shift=W), X * 3 + W)


def test_constants_are_bound_and_named():
    hidden = np.array([1.0, 2.0, 3.0])
    program = ct.trace(lambda x, c: np.sum(x * c * hidden), X, ct.const(W))
    assert names(program.inputs) == ["x", "c", ""]
    assert [v.value is None for v in program.inputs] == [True, False, False]
    np.testing.assert_array_equal(program.inputs[1].value, W)
    assert program(X) == np.sum(X * W * hidden)
    assert "# bound, 24 bytes" in str(program)
    assert "2 bound" in repr(program)
    numbers = ct.trace(lambda x, c: x * 2.25 + c, X, ct.const(0.1))
    assert names(numbers.inputs) == ["x"]
    assert [e.params["value"] for e in numbers.equations if e.primitive == "literal"] == [2.25, 0.1]


def test_what_is_bound_does_not_change_later():
    c = W.copy()
    program = ct.trace(lambda x: x * c, X)
    c[:] = 0
    program.inputs[-1].value[...] = 7
    np.testing.assert_array_equal(program(X), X * W)


def test_integers_and_bools_are_inputs():
    labels = np.array([2, 0])
    program = ct.trace(lambda x, i, m: x[i] * i + np.where(m, 1.0, 0.0), X, labels, labels > 0)
    assert names(program.inputs)[:3] == ["x", "i", "m"]
    assert all(v.value is None for v in program.inputs[:3])
    for i in (labels, np.array([1, 1]), np.array([-1, -3])):
        np.testing.assert_array_equal(program(X, i, i > 0), X[i] * i + (i > 0))
    with pytest.raises(IndexError):
        program(X, np.array([0, 3]), labels > 0)
    with pytest.raises(IndexError):
        program(X, np.array([0, -4]), labels > 0)


def test_several_index_arrays_are_checked_each():
    x = np.arange(12.0).reshape(3, 4)
    i, j = np.array([0, 2]), np.array([[1], [-1]])
    program = ct.trace(lambda x, i, j: x[i, j], x, i, j)
    np.testing.assert_array_equal(program(x, i, j), x[i, j])
    np.testing.assert_array_equal(program(x, -i, -j), x[-i, -j])
    for wrong in (4, -5):  # the next row, as positions in memory go
        with pytest.raises(IndexError):
            program(x, np.array([0, 1]), np.array([[wrong], [0]]))


def test_traced_indices_are_written_and_differentiated():
    def f(x, i):
        y = x * 1.0
        y[i] = 2 * x[i]
        return np.sum(y * y)

    program = ct.trace(f, X, np.array([0, 2]))
    for i in (np.array([0, 2]), np.array([1, -1])):
        assert program(X, i) == pytest.approx(f(X, i))
        got = ct.gradient(program, X, i, allow_int=True)[0]
        np.testing.assert_allclose(got, ct.gradient(f, X, ct.const(i))[0])


def test_indices_that_are_computed():
    program = ct.trace(lambda x: x[np.argsort(x)], X)
    np.testing.assert_array_equal(program(X[::-1]), X)
    np.testing.assert_array_equal(ct.trace(lambda x: np.sort(x), X)(X[::-1]), X)


def test_index_errors_while_tracing():
    with pytest.raises(IndexError, match="index 5 is out of bounds for axis 0 with size 3"):
        ct.trace(lambda x, i: x[i], X, np.array([0, 5]))


def test_lines_are_recorded_on_request():
    def f(x):
        y = np.exp(x)
        return np.sum(y * y)

    first = inspect.getsourcelines(f)[1]
    assert [e.line for e in ct.trace(f, X).equations] == [None] * 3
    program = ct.trace(f, X, lines=True)
    exp, mul, total = program.equations
    assert exp.line.endswith(f"test_program_objects.py:{first + 1}")
    assert mul.line == total.line == exp.line.replace(f":{first + 1}", f":{first + 2}")
    text = program.text(lines=True)
    assert f"exp(%x)  # test_program_objects.py:{first + 1}\n" in text
    assert "#" not in program.text() == str(program)
    again = ct.Program.parse(text)
    assert again == program == ct.trace(f, X)
    assert again.text(lines=True) == text
    assert program.optimize().text(lines=True).count("# test_program") == 3
    assert "# test_program" in program.pullback().text(lines=True)


@pytest.mark.parametrize("result", [None, "text", True, object()])
def test_a_function_that_returns_no_array(result, tmp_path):
    for record in (
        lambda f: ct.trace(f, X),
        lambda f: pytest.importorskip("onnx") and ct.to_onnx(f, X, path=tmp_path / "f.onnx"),
    ):
        with pytest.raises(TypeError, match="the function returned .*in which there is no array"):
            record(lambda x: result)
    assert ct.trace(lambda x: [], X)(X) == ()


def test_a_number_that_counts_is_told_how():
    with pytest.raises(TypeError, match="scalar index; this one is a float.*ct.const"):
        ct.trace(lambda n, x: sum(x for _ in range(n)), 3, X)
    program = ct.trace(lambda n, x: sum(x for _ in range(n)), ct.const(3), X)
    np.testing.assert_array_equal(program(X), 3 * X)


def test_tracing_ends_with_an_error():
    def fails(x):
        raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        ct.trace(fails, X)
    assert not ct.isderiving()


# --------------------------------------------------------------------------------------------------
# Calling


def test_calls_by_position_name_and_structure(model):
    program = ct.trace(linear, model, X)
    loss, out = program(model, X)
    for again in (
        program(model.w, model.b, X),
        program(x=X, model=model),
        program(model, x=X),
        program(x=X, **{"model.w": W, "model.b": model.b}),
    ):
        assert again[0] == loss
        np.testing.assert_array_equal(again[1], out)
    assert loss == pytest.approx(np.sum((W * X + 1) ** 2))


def test_results():
    assert type(ct.trace(lambda x: np.sum(x), X)(X)) is np.float64
    assert type(ct.trace(lambda x: x, X)(X)) is np.ndarray
    assert type(ct.trace(lambda x: (x,), X)(X)) is np.ndarray
    assert type(ct.trace(lambda x: {"a": x, "b": [x, x]}, X)(X)) is tuple
    assert names(ct.trace(lambda x: {"a": x, "b": [x, x]}, X).outputs) == ["a", "b[0]", "b[1]"]
    assert names(ct.trace(lambda x: (x, x), X).outputs) == ["[0]", "[1]"]
    assert ct.trace(lambda x: (), X)(X) == ()
    lazy = ct.trace(lambda x: x + 1, X)(ct.array(X))
    assert isinstance(lazy, ct.Array)
    assert not lazy.is_forced


@pytest.mark.parametrize(
    ("args", "kwargs", "error", "message"),
    [
        ((), {}, TypeError, r"takes 3 arrays, 0 given; missing: model\.w, model\.b, x"),
        ((W, W, X, X), {}, TypeError, r"takes 3 arrays \(model\.w, model\.b, x\), more were given"),
        ((W, W[:2], X), {}, ValueError, r"input 1 \(model\.b\) must be f64\[3\], not f64\[2\]"),
        ((W, W, X), {"x": X}, TypeError, r"input 2 \(x\) was given twice"),
        (
            (W, W),
            {"z": X},
            TypeError,
            r"no input is called z; the inputs are model\.w, model\.b, x",
        ),
        (
            ({"w": W}, X),
            {},
            TypeError,
            r"input 1 \(model\.b\) is not in .* model; there is model\.w",
        ),
        ((W, W, "x"), {}, TypeError, "takes arrays and numbers, not .*str"),
        ((W, W, X * 1j), {}, TypeError, r"input 2 \(x\) is of dtype float64, .* take complex128"),
    ],
)
def test_calls_that_do_not_fit(model, args, kwargs, error, message):
    program = ct.trace(linear, model, X)
    with pytest.raises(error, match=message):
        program(*args, **kwargs)


def test_what_is_cast():
    small = ct.trace(lambda x, s, i: x * s + i, X.astype(np.float32), np.float32(2), np.array([1]))
    x = X.astype(np.float32)
    expected = small(x, np.float32(3), np.array([1]))
    for s in (3, 3.0, np.float64(3), True):
        np.testing.assert_array_equal(small(x, np.float32(s), [1]), small(x, s, np.array([True])))
    assert expected.dtype == np.float64
    for wrong in ((X, 3.0, [1]), (x, 3j, [1]), (x, np.ones(()) * 3.0, [1.0]), (x, 3.0, [0.5])):
        with pytest.raises(TypeError, match="cast it on purpose"):
            small(*wrong)
    with pytest.raises(TypeError, match=r"bind: input 0 \(x\) is of dtype float32"):
        small.bind(x=X)


def test_a_program_runs_in_several_threads(model):
    program = ct.trace(linear, model, X)
    expected = program(model, X)[0]
    found = []
    work = [threading.Thread(target=lambda: found.append(program(model, X)[0])) for _ in range(4)]
    for thread in work:
        thread.start()
    for thread in work:
        thread.join()
    assert found == [expected] * 4


# --------------------------------------------------------------------------------------------------
# Looking


def test_equations_can_be_inspected():
    x = np.ones((2, 3))
    program = ct.trace(lambda x: np.sum(np.transpose(x)[1:, ::-1] * 2.0, axis=0) + (x[0, 0] < 1), x)
    by_name = {e.primitive: e for e in program.equations}
    assert by_name["transpose"].params == {"axes": (1, 0)}
    assert by_name["sum"].params == {"axes": (0,)}
    values = [e.params for e in program.equations if e.primitive == "literal"]
    assert {"dtype": np.dtype(np.float64), "value": 2.0} in values
    cut = by_name["slice"]
    assert set(cut.params) == {"start", "len", "step"}
    assert all(type(v) is tuple for v in cut.params.values())
    first = len(program.inputs)
    for k, equation in enumerate(program.equations):
        assert equation.output == first + k
        assert all(type(i) is int and i < equation.output for i in equation.inputs)
        variable = program.variable(equation.output)
        assert variable.shape == equation.shape
        assert variable.dtype == equation.dtype
        assert variable.name == ""
    assert by_name["sum"].shape == (2,)
    assert by_name["sum"].dtype == np.float64
    with pytest.raises(IndexError, match=r"the program has 12 variables, %0 to %11, no %99"):
        program.variable(99)


@pytest.mark.parametrize(
    ("value", "kind"), [(2.5, float), (2, int), (2 + 1j, complex), (True, bool)]
)
def test_literals_are_python_numbers(value, kind):
    dtype = {"float": "f64", "int": "i64", "complex": "c128", "bool": "bool"}[kind.__name__]
    more = f", imag={float(value.imag)}" if kind is complex else ""
    params = f"dtype={dtype}, value={float(value.real)}{more}"
    text = f"program() {{ %0: {dtype}[] = literal[{params}]() return %0 }}"
    (equation,) = ct.Program.parse(text).equations
    assert equation.params["value"] == value
    assert type(equation.params["value"]) is kind


def test_params_have_the_keys_of_the_text():
    x = np.linspace(0.1, 1, 8)

    def f(x):
        a = np.cumsum(x[::-1]) + np.fft.irfft(np.fft.rfft(x))
        b = np.concatenate([a, x]).reshape(4, 4).astype(np.float32)
        return np.linalg.solve(b + 5 * np.eye(4, dtype=np.float32), b), ct.logsumexp(a)

    program = ct.trace(f, x)
    lines = [line for line in str(program).splitlines() if " = " in line]
    for equation, line in zip(program.equations, lines, strict=True):
        for key in equation.params:
            assert f"{key}=" in line
        assert line.count("=") - 1 - ("imag=" in line) == len(equation.params)


# --------------------------------------------------------------------------------------------------
# Cutting, binding, composing


def test_prune(model):
    program = ct.trace(linear, model, X)
    out = program.prune("out")
    assert names(out.inputs) == ["model.w", "x"]
    np.testing.assert_array_equal(out(model, X), W * X)
    assert len(out) < len(program)
    assert program.prune(1) == program.prune(-1) == program.prune(["out"]) == out
    assert names(program.prune(("out", 0)).outputs) == ["out", "loss"]
    assert len(program.prune([]).equations) == 0
    with pytest.raises(
        ValueError, match=r'no output is called "lost"; there are 2 .*"loss", "out"'
    ):
        program.prune("lost")
    with pytest.raises(IndexError, match="output 2 of a program with 2 outputs"):
        program.prune(2)
    for wrong in (1.5, True, [np.True_], None):
        with pytest.raises(TypeError, match="positions and names"):
            program.prune(wrong)


def test_prune_lets_go_of_what_is_bound():
    big = np.ones(10_000)
    program = ct.trace(lambda x: (np.sum(x), big[:3] * x), X)
    assert len(program.inputs) == 2
    assert len(program.prune(0).inputs) == 1


def test_bind(model):
    program = ct.trace(linear, model, X)
    bound = program.bind(model=model)
    assert names(bound.inputs) == ["x", "model.w", "model.b"]
    assert bound(X)[0] == program(model, X)[0]
    assert program.bind({"model.w": W})(model.b, X)[0] == program(model, X)[0]
    assert program.bind({"model.w": W}, x=X)(model.b)[0] == program(model, X)[0]
    assert program.bind(x=1.0 * X) == program.bind(x=X) != program.bind(x=2 * X)
    assert program.bind(x=X).prune("out").bind({"model.w": W})().shape == (3,)
    with pytest.raises(TypeError, match="no input is called x; the inputs are model.w, model.b"):
        program.bind(x=X).bind(x=X)
    with pytest.raises(ValueError, match=r"must be f64\[3\], not f64\[2\]"):
        program.bind(x=X[:2])


def test_binding_keeps_a_copy():
    x = X.copy()
    program = ct.trace(lambda x, y: x + y, X, X).bind(x=x)
    x[:] = 0
    np.testing.assert_array_equal(program(X), 2 * X)


def test_active_arrays_cannot_be_bound():
    program = ct.trace(lambda x, y: np.sum(x * y), X, X)
    with pytest.raises(TypeError, match="being differentiated cannot be bound"):
        ct.gradient(lambda x: program.bind(x=x)(X), X)


def test_composition():
    encode = ct.trace(lambda x, w: (x * w, x + w), X, W)
    decode = ct.trace(lambda a, b, scale: np.sum(a * b) * scale, X, X, 2.0)
    both = encode >> decode
    assert names(both.inputs) == ["x", "w", "scale"]
    assert both(X, W, 3.0) == decode(*encode(X, W), 3.0)
    assert len(both) == len(encode) + len(decode)
    hidden = encode.bind(w=W) >> decode.bind(scale=3.0)
    assert names(hidden.inputs) == ["x", "w", "scale"]
    assert hidden(X) == both(X, W, 3.0)
    with pytest.raises(
        ValueError, match=r"output 0 \(\[0\]\) of the first .* f64\[3\], but input 0"
    ):
        encode >> ct.trace(lambda a, b: a, 1.0, 2.0)
    with pytest.raises(ValueError, match="has 2 outputs, the second takes 1 inputs"):
        encode >> ct.trace(lambda a: a, X)
    with pytest.raises(TypeError):
        encode >> 3


# --------------------------------------------------------------------------------------------------
# Optimising


def test_passes_one_by_one():
    text = """program(%x: f64[3]) {
      %1: f64[3] = exp(%x)
      %2: f64[3] = exp(%x)
      %3: f64[] = literal[dtype=f64, value=1.0]()
      %4: f64[3] = mul(%2, %3)
      %5: f64[3] = sin(%x)
      %6: f64[] = mean[axes=(0,)](%1)
      %7: f64[3] = add(%1, %4)
      return %7, %6
    }"""
    program = ct.Program.parse(text)

    def primitives(*passes):
        return sorted(e.primitive for e in program.optimize(passes=passes).equations)

    assert primitives() == ["add", "exp", "exp", "literal", "mean", "mul", "sin"]
    assert primitives("cse") == ["add", "exp", "literal", "mean", "mul", "sin"]
    assert primitives("dce") == ["add", "exp", "exp", "literal", "mean", "mul"]
    assert primitives("rewrite") == ["add", "exp", "exp", "literal", "mean", "sin"]
    assert primitives("rewrite", "cse", "dce") == ["add", "exp", "mean"]
    assert "mean" not in primitives("lower")
    assert "sum" in primitives("lower")
    assert [e.primitive for e in program.optimize().equations] == ["exp", "mean", "add"]
    for name in ct.Program.PASSES:
        for mine, other in zip(program.optimize(passes=[name])(X), program(X), strict=True):
            np.testing.assert_array_equal(mine, other)
    assert program.optimize(passes="cse") == program.optimize(passes=["cse"])
    assert names(program.optimize().inputs) == ["x"]


def test_unknown_passes():
    program = ct.trace(lambda x: x, X)
    with pytest.raises(ValueError, match='no pass "fuse"; there are rewrite, cse, dce, lower'):
        program.optimize(passes=["cse", "fuse"])
    with pytest.raises(TypeError, match="a list of names"):
        program.optimize(passes=3)


# --------------------------------------------------------------------------------------------------
# Differentiating


def test_gradients_of_programs(model):
    program = ct.trace(linear, model, X).prune("loss")
    expected = ct.gradient(lambda model, x: linear(model, x)["loss"], model, X)
    for got in (ct.gradient(program, model, X), ct.gradient(program, model, X, wrt="**")):
        np.testing.assert_allclose(got[0].w, expected[0].w)
        np.testing.assert_allclose(got[0].b, expected[0].b)
        np.testing.assert_allclose(got[1], expected[1])
    assert ct.gradient(program, model, X, wrt="model.b")[1] is None
    flat = ct.gradient(program, model.w, model.b, X, wrt="model.b")
    assert flat[0] is None
    np.testing.assert_allclose(flat[1], expected[0].b)
    _, back = ct.pullback(program, model.w, model.b, X)
    np.testing.assert_allclose(back(1.0)[2], expected[1])
    second = ct.hessian(lambda x: program(model.w, model.b, x), X)
    np.testing.assert_allclose(second, np.diag(2 * W**2))


def test_a_program_inside_a_function_is_part_of_its_trace():
    inner = ct.trace(lambda x: np.exp(x) * 2, X)
    outer = ct.trace(lambda x: np.sum(inner(x) + inner(x * x)), X)
    kinds = [e.primitive for e in outer.equations]
    assert kinds.count("exp") == 2
    assert outer(X) == pytest.approx(np.sum(2 * np.exp(X) + 2 * np.exp(X * X)))


def test_the_program_of_a_pullback():
    f = lambda x, w: {"s": np.sum(x * w), "p": x * x}
    program = ct.trace(f, X, W)
    back = program.pullback()
    assert names(back.inputs) == ["x", "w", "ds", "dp"]
    assert names(back.outputs) == ["dx", "dw"]
    dp = np.array([1.0, 0.0, -1.0])
    dx, dw = back(X, W, ds=2.0, dp=dp)
    np.testing.assert_allclose(dx, 2 * W + 2 * X * dp)
    np.testing.assert_allclose(dw, 2 * X)
    for wrt in ("w", 1, [1], lambda path, leaf: path == "w" and leaf.shape == (3,)):
        assert names(program.pullback(wrt).outputs) == ["dw"]
    twice = program.prune("s").pullback("x").pullback("w")
    np.testing.assert_allclose(twice(X, W, 2.0, dp), 2 * dp)
    assert back == ct.Program.parse(str(back))


def test_the_pullback_of_a_program_with_bound_values():
    c = np.array([1.0, 2.0, 3.0])
    program = ct.trace(lambda x: np.sum(x * x * c), X)
    back = program.pullback()
    assert names(back.inputs) == ["x", "dy", ""]
    np.testing.assert_allclose(back(X, 1.0), 2 * X * c)


def test_pullbacks_that_there_are_not():
    with pytest.raises(ValueError, match="no output depends on the selected inputs among x, y"):
        ct.trace(lambda x, y: y * 2, X, X).pullback("x")
    with pytest.raises(ValueError, match="wrt"):
        ct.trace(lambda x: x, X).pullback("z")


def test_names_in_the_program_of_a_pullback(model):
    _, back = ct.pullback(linear, model, ct.const(X))
    assert names(back.program.inputs)[:2] == ["dy.loss", "dy.out"]
    assert "x" in names(back.program.inputs)
    assert names(back.program.outputs) == ["dmodel.w", "dmodel.b"]
    assert names(back.wrt("model.b").program.outputs) == ["dmodel.b"]
    _, back = ct.pullback(lambda x: x * x, X)
    assert names(back.program.inputs)[0] == "dy"
    array = ct.array(X)
    _, back = ct.pullback(lambda: np.sum(array * array), wrt=[array])
    assert names(back.program.outputs) == ["dwrt[0]"]


def test_the_forward_half(model):
    for wrt in (None, "model.b"):
        y, back = ct.pullback(linear, model, ct.const(X))
        back = back.wrt(wrt) if wrt else back
        forward = back.forward
        assert names(forward.inputs) == ["model.w", "model.b", "x"]
        kept = forward.outputs[2:]
        assert names(forward.outputs) == ["y.loss", "y.out"] + [""] * len(kept)
        residuals = back.program.inputs[2:]
        assert [v.shape for v in kept] == [v.shape for v in residuals]
        loss, _, *values = forward(model, X)
        assert loss == y["loss"]
        got = back.program(1.0, np.ones(3), *values)
        got = got if isinstance(got, tuple) else (got,)
        expected = back({"loss": 1.0, "out": np.ones(3)})[0]
        fields = ["w", "b"] if wrt is None else ["b"]
        for mine, field in zip(got, fields, strict=True):
            np.testing.assert_allclose(mine, getattr(expected, field))


def test_every_program_without_arrays_reads_back(model):
    def step(model, x, rate):
        loss = lambda m: np.mean(0.3 * (m.w * x + m.b) ** 2) / len(x)
        (g,) = ct.gradient(loss, model)
        return model.w - 0.1 * rate * g.w, 1e-3 * g.b

    traced = ct.trace(step, model, X, 0.7)
    total = ct.trace(lambda m, x: sum(np.sum(p**1.7) for p in step(m, x, 0.7)), model, X)
    assert all(v.value is None for v in traced.inputs)
    for program in (
        *(traced, total, total.pullback(), total.pullback("x").pullback("x")),
        *(traced.optimize(), traced.bind(rate=0.1), traced.bind(rate=0.1).prune(0)),
        total >> ct.trace(lambda y: 2.5 * y, 1.0),
    ):
        again = ct.Program.parse(str(program))
        assert again == program
        assert names(again.inputs) == names(program.inputs)


class TestProgramsThatHoldActiveArrays:
    """A program that was traced inside of a gradient is a function of what it captured."""

    X = np.arange(3.0)

    def outer(self, u):
        program = ct.trace(lambda x: x * x * u, self.X)
        return np.sum(program(self.X))

    def test_gradients(self):
        np.testing.assert_array_equal(ct.gradient(self.outer, np.ones(3))[0], [0.0, 1.0, 4.0])
        assert ct.jvp(self.outer, (np.ones(3),), (np.ones(3),))[1] == 5.0

    def test_other_transforms(self):
        assert ct.trace(self.outer, np.ones(3))(5 * np.ones(3)) == 25.0
        np.testing.assert_array_equal(
            ct.prepare(self.outer, np.ones(3))(np.ones(3))[0], [0.0, 1.0, 4.0]
        )
        found = ct.vmap(self.outer)(np.array([[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]]))
        np.testing.assert_array_equal(found, [5.0, 10.0])


def test_captured_arrays_that_differ_in_a_sign_stay_apart():
    zeros, negative = np.zeros(3), -np.zeros(3)
    assert len(ct.trace(lambda x: x + zeros - negative, np.ones(3)).inputs) == 3
    assert len(ct.trace(lambda x: x + zeros - zeros.copy(), np.ones(3)).inputs) == 2


def test_results_of_a_program_are_the_callers():
    weights = np.arange(6.0).reshape(2, 3)
    program = ct.trace(lambda x: (weights, weights.T, x, np.sin(x), np.sin(x)), np.ones(3))
    wanted = [y.copy() for y in program(np.ones(3))]
    for _ in range(4):
        given = np.ones(3)
        for k, y in enumerate(program(given)):
            y[...] = k
        np.testing.assert_array_equal(given, np.ones(3))
        for y, z in zip(program(np.ones(3)), wanted, strict=True):
            np.testing.assert_array_equal(y, z)
