"""Where NaN and infinity come from."""

import contextlib
import inspect
import pickle
import threading

import numpy as np
import pytest

import cotan as ct


def line_of(function, text):
    """The line of a function's source that has this text."""
    lines, start = inspect.getsourcelines(function)
    return start + next(i for i, line in enumerate(lines) if text in line)


def caught(f, *args, how=ct.value_and_gradient, **look):
    with ct.detect(**look), pytest.raises(ct.NonFiniteError) as info:
        how(f, *args)
    error = info.value
    assert isinstance(error, FloatingPointError)
    return error


def loss(x, c):
    y = np.exp(x)
    z = np.log(x * c)
    return np.sum(y + z)


def test_the_forward_pass_names_line_operation_and_argument():
    error = caught(loss, np.array([1.0, 2.0, -3.0]), ct.const(np.ones(3)))
    assert (error.kind, error.direction, error.operation) == ("nan", "forward", "log")
    assert error.file == __file__ and error.line == line_of(loss, "np.log")
    assert error.text == "z = np.log(x * c)" and error.function == "loss"
    (argument,) = error.arguments
    assert (argument.shape, argument.least, argument.greatest) == ((3,), -3.0, 2.0)
    assert error.argument == 0 and argument.value == -3.0
    assert error.made.index == (2,) and error.made.nans == 1
    text = str(error)
    assert "z = np.log(x * c)" in text and "forward pass" in text and "there -3" in text


def root(x):
    y = x * 1.5
    return np.sum(np.sqrt(y))


def test_the_reverse_pass_names_the_primal_operation_and_the_path():
    def f(model):
        return root(model["w"])

    error = caught(f, {"w": np.array([4.0, 0.0]), "b": np.ones(2)}, how=ct.gradient)
    assert (error.kind, error.direction, error.rule, error.rule_argument) == (
        *("inf", "backward"),
        *("sqrt", 0),
    )
    assert error.line == line_of(root, "np.sqrt") and error.path == "model.w"
    assert error.argument == 1, "the denominator is to blame"
    assert "the gradient of model.w" in str(error) and "by the rule of sqrt" in str(error)


def test_the_argument_to_blame():
    def f(x, y):
        return np.sum(x / y)

    error = caught(f, np.array([0.0, 1.0]), np.array([0.0, 2.0]))
    assert error.operation == "div" and error.argument == 1
    assert [a.value for a in error.arguments] == [0.0, 0.0]
    assert "<- this one" in str(error)
    error = caught(lambda x, y: np.sum(x**y), np.array([-2.0]), np.array([0.5]))
    assert error.argument == 0


def test_what_was_bad_before_is_named_by_its_path():
    def f(model, scale):
        return np.sum(model["a"] * 2) + np.sum(model["b"][0] * scale)

    model = {"a": np.ones(3), "b": [np.array([1.0, np.nan])]}
    error = caught(f, model, 2.0)
    assert (error.direction, error.input) == ("input", "model.b[0]")
    assert error.made.index == (1,)
    assert "the argument model.b[0] already has it" in str(error)
    error = caught(f, model, ct.const(np.inf), how=lambda f, m, s: ct.pullback(f, m, s))
    assert error.input == "model.b[0]"
    closed_over = np.array([np.inf])
    error = caught(lambda x: np.sum(x * closed_over), np.ones(1))
    assert error.direction == "input" and error.input is None


def test_only_what_is_asked_for():
    def f(x):
        return np.sum(1 / x)

    x = np.array([1.0, 0.0])
    with ct.detect(nan=True, inf=False):
        value, _ = ct.value_and_gradient(f, x)
    assert value == np.inf
    assert caught(f, x, nan=False).kind == "inf"
    error = caught(lambda x: np.sum(np.exp(x) - np.exp(x)), np.array([1e3]), inf=False)
    assert (error.kind, error.operation) == ("nan", "sub")


def test_what_is_masked_away_is_no_error():
    x = np.array([1.0, 0.0, -1.0])
    with ct.detect():
        value, (g,) = ct.value_and_gradient(lambda x: np.sum(np.where(x > 0, np.log(x), 0.0)), x)
    assert value == 0.0 and g.tolist() == [1.0, 0.0, 0.0]


def test_the_first_that_reaches_a_result_is_named():
    def f(x):
        hidden = np.where(x > 0, np.log(x), 0.0)
        return np.sum(hidden) + np.sum(np.sqrt(x))

    error = caught(f, np.array([1.0, -1.0]), how=ct.pullback)
    assert error.operation == "sqrt", "the logarithm's is masked away"


def test_pullbacks_when_their_cotangents_are_read():
    def f(x, c):
        return np.sum(np.sqrt(x) * c)

    with ct.detect():
        _, back = ct.pullback(f, np.array([0.0, 1.0]), np.ones(2))
        dx, dc = back(1.0)
        np.asarray(dc)
        with pytest.raises(ct.NonFiniteError) as info:
            np.asarray(dx)
        assert (info.value.path, info.value.rule) == ("x", "sqrt")
        assert info.value.line == line_of(f, "np.sqrt")
        with pytest.raises(ct.NonFiniteError):
            np.asarray(dx)
    assert np.asarray(dx).tolist() == [np.inf, 0.5]


def test_lazy_arrays_when_they_are_read():
    x = ct.array([0.0, 1.0])
    with ct.detect():
        y = np.log(x)
        z = y * 2
        with pytest.raises(ct.NonFiniteError) as info:
            print(z)
    assert info.value.operation == "log" and info.value.text == "y = np.log(x)"


def test_reading_inside_of_the_function():
    def f(x):
        y = np.log(x)
        if y[0] > 0:
            return np.sum(y)
        return np.sum(x)

    error = caught(f, np.array([np.nan, 1.0]))
    assert error.direction == "input" and error.input == "x"


def test_the_same_program_at_other_lines():
    def one(x):
        return np.sum(np.log(x))

    def other(x):
        return np.sum(np.log(x))

    x = np.array([-1.0])
    for _ in range(2):
        for f in (one, other):
            assert caught(f, x).line == line_of(f, "np.log")
            assert caught(f, x, how=ct.pullback).line == line_of(f, "np.log")


def test_library_frames_are_skipped():
    def f(x):
        return np.linalg.norm(np.mean(np.log(x)) * np.ones(2))

    error = caught(f, np.array([-1.0, 2.0]))
    assert error.text == "return np.linalg.norm(np.mean(np.log(x)) * np.ones(2))"


def test_hooks_run_once():
    seen = []

    def f(x):
        return np.sum(np.sqrt(ct.hook(lambda g: seen.append(np.array(g)), x)))

    error = caught(f, np.array([0.0, 1.0]), how=ct.gradient)
    assert error.rule == "sqrt" and len(seen) == 1

    def g(x):
        return np.sum(ct.hook(lambda g: g / 0.0, x) * 2)

    with np.errstate(all="ignore"):
        error = caught(g, np.array([0.0, 1.0]), how=ct.gradient)
    assert error.kind == "inf" and "g / 0.0" in error.text


def test_checkpoints_and_rules():
    def inner(x):
        return np.log(x) * 2

    error = caught(lambda x: np.sum(ct.checkpoint(inner, x)), np.array([-1.0]))
    assert (error.operation, error.line) == ("log", line_of(inner, "np.log"))
    f = lambda x: np.sum(np.sqrt(ct.checkpoint(np.square, x)))
    error = caught(f, np.zeros(1), how=ct.gradient)
    assert error.direction == "backward"

    @ct.adjoint
    def cube(x):
        def back(dy):
            return (dy / (x * 0),)

        return x**3, back

    error = caught(lambda x: np.sum(cube(x)), np.ones(2), how=ct.gradient)
    assert error.operation == "div" and error.text == "return (dy / (x * 0),)"


def test_second_derivatives():
    def f(x):
        (g,) = ct.gradient(lambda x: np.sum(x**1.5), x)
        return np.sum(g)

    error = caught(f, np.array([0.0, 1.0]), how=ct.gradient)
    assert error.path == "x" and "x**1.5" in error.text


def test_complex_and_small_dtypes():
    error = caught(lambda z: np.abs(np.sum(1 / z)), np.array([0j, 1.0]), how=ct.pullback)
    assert error.operation == "div"
    error = caught(lambda x: np.sum(np.exp(x)), np.array([200.0], dtype=np.float32))
    assert error.operation == "exp" and error.kind == "inf"
    error = caught(lambda x: np.sum(x * x), np.array([500.0], dtype=np.float16))
    assert error.made.dtype == "float16"


def bad():
    return ct.gradient(lambda x: np.sum(np.sqrt(x)), np.array([0.0]))


def is_on():
    try:
        bad()
    except ct.NonFiniteError:
        return True
    return False


def test_blocks_nest_and_the_innermost_counts():
    assert not is_on()
    with ct.detect():
        assert is_on()
        with ct.detect(nan=False, inf=False):
            assert not is_on()
        with contextlib.suppress(RuntimeError), ct.detect(inf=False):
            assert not is_on()
            raise RuntimeError
        assert is_on()
        with contextlib.suppress(ct.NonFiniteError), ct.detect():
            bad()
        assert is_on()
    assert not is_on()
    block = ct.detect()
    with block, block:
        assert is_on()
    assert not is_on()


def test_other_threads_are_left_alone():
    found = []
    with ct.detect():
        thread = threading.Thread(target=lambda: found.append(is_on()))
        thread.start()
        thread.join()
    assert found == [False]


def test_generators():
    def steps():
        with ct.detect():
            yield is_on()

    first, second = steps(), steps()
    assert next(first) and next(second)
    first.close()
    assert is_on(), "the second one is in its block"
    second.close()
    assert not is_on()


def test_as_a_decorator():
    @ct.detect()
    def run():
        return is_on()

    assert run() and not is_on()


def test_the_error_can_be_pickled():
    error = caught(loss, np.array([-1.0]), ct.const(np.ones(1)))
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error) and again.arguments == error.arguments


def test_plain_results_are_the_same():
    x = np.linspace(0.1, 1.0, 50)
    plain = ct.value_and_gradient(lambda x: np.sum(np.sin(x) * np.exp(x)), x)
    with ct.detect():
        watched = ct.value_and_gradient(lambda x: np.sum(np.sin(x) * np.exp(x)), x)
    assert plain[0] == watched[0]
    np.testing.assert_array_equal(plain[1][0], watched[1][0])


@pytest.mark.parametrize("name", ["nan", "inf"])
@pytest.mark.parametrize("value", ["no", 1, None, [True]])
def test_what_to_look_for_is_a_bool(name, value):
    with pytest.raises(TypeError, match=f"detect: {name}= is True or False, not"):
        ct.detect(**{name: value})


def test_where_there_is_no_derivative_the_rule_says_so():
    def rotated(a):
        return np.sum(np.linalg.eigh(a)[1] * np.arange(9.0).reshape(3, 3))

    error = caught(rotated, np.eye(3), how=ct.gradient)
    assert (error.direction, error.rule) == ("backward", "eigh_vectors")
    assert str(error).splitlines()[0] == (
        "NaN in the gradient of a: set by the rule of eigh_vectors for its argument 0, in the "
        "reverse pass, where there is no derivative"
    )
    assert "literal" not in str(error)


def hooked(hook):
    return lambda x: np.sum(np.square(ct.hook(hook, 2 * x)))


def test_a_hook_that_makes_it_is_named():
    def spoil(ct):
        return np.full(3, np.nan)

    error = caught(lambda: ct.gradient(hooked(spoil), np.ones(3)))
    assert (error.called, error.inside, error.path) == ("spoil", None, "x")
    assert error.operation == "host"
    assert "first produced by spoil, a callback" in str(error)
    assert "spoil(x) = float64[3], 3 NaN" in str(error)


def test_an_operation_inside_a_hook_is_named_with_the_hook():
    def spoil(ct):
        return np.log(-ct)

    error = caught(lambda: ct.gradient(hooked(spoil), np.ones(3)))
    assert (error.operation, error.inside) == ("log", "the hook spoil")
    assert error.function.endswith("spoil")
    assert "while the hook spoil ran as a callback" in str(error)


def test_an_opaque_rule_that_makes_it_is_named():
    @ct.adjoint(opaque=True)
    def measured(x):
        return x / 2, lambda d: (d * np.inf,)

    error = caught(lambda: ct.gradient(lambda x: np.sum(measured(x)), np.ones(3)))
    assert error.kind == "inf"
    assert "measured" in (error.called or error.inside)
