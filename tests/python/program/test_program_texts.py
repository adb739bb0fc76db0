"""Programs compared and printed: equality up to names, numbers, comments, errors in texts."""

import numpy as np
import pytest
from test_program_objects import W, X, names

import cotan as ct


def test_equality_up_to_names():
    one = ct.trace(lambda x, y: np.sum(x * y), X, W)
    other = ct.trace(lambda a, b: np.sum(a * b), W, X)
    assert one == other
    assert hash(one) == hash(other)
    assert len({one, other}) == 1
    assert one != ct.trace(lambda x, y: np.sum(y * x), X, W)
    assert one != ct.trace(lambda x, y: np.sum(x * y), X[:2], W[:2])
    assert one != ct.trace(lambda x, y: np.sum(x * y), X.astype(np.float32), W.astype(np.float32))
    assert one != "program"


def test_equality_of_what_is_bound():
    def with_constant(c):
        return ct.trace(lambda x: x * c, X)

    nan = np.array([np.nan, 0.0, 1.0])
    assert with_constant(W) == with_constant(W.copy())
    assert with_constant(W) != with_constant(W + 1)
    assert with_constant(nan) == with_constant(nan.copy())
    zero, minus = np.zeros(3), -np.zeros(3)
    assert with_constant(zero) != with_constant(minus)
    strided = np.arange(6.0)[::2]
    assert with_constant(strided) == with_constant(strided.copy())
    bound = with_constant(W)
    assert bound != ct.Program.parse(str(bound))
    assert ct.Program.parse(str(bound)).bind({}) != bound


def test_programs_made_in_different_ways_are_equal():
    program = ct.trace(lambda x, y: (np.sum(x), x @ y, np.sum(y)), np.ones((2, 2)), np.ones((2, 2)))
    direct = ct.trace(lambda y: np.sum(y), np.ones((2, 2)))
    assert program.prune(2) == direct
    assert hash(program.prune(2)) == hash(direct)
    for derived in (program, program.prune(1), program.pullback(), program.optimize(passes="cse")):
        again = ct.Program.parse(str(derived))
        assert again == derived
        assert hash(again) == hash(derived)


def test_long_headers_are_broken():
    program = ct.trace(lambda *xs: sum(xs), *[X] * 12)
    lines = str(program).splitlines()
    assert lines[0] == "program("
    assert lines[1] == "  %xs[0]: f64[3],"
    assert max(map(len, lines)) < 100
    assert ct.Program.parse(str(program)) == program
    many = ct.trace(lambda x: {f"result {i}": x + i for i in range(12)}, X)
    assert max(map(len, str(many).splitlines())) < 100
    assert names(ct.Program.parse(str(many)).outputs) == names(many.outputs)


def test_comments_are_read_over():
    text = """# a program
    program(  # takes
      %x: f64[3],  # x
    ) {
      # the square
      %1: f64[3] = mul(%x, %x)  # here
      return %1 "it's # no comment"  # done
    }  # end
    """
    program = ct.Program.parse(text)
    assert names(program.outputs) == ["it's # no comment"]
    np.testing.assert_array_equal(program(X), X * X)
    assert program.equations[0].line is None


NUMBERS = [
    *(0.1, -0.0, 1e300, np.inf, -np.inf, np.nan, 7, -(2**63), 2**62 + 1, True, 1 + 2j),
    *(np.float32(0.1), np.float16(0.1), np.complex64(0.1 + 1j), np.uint8(200), np.int32(-5)),
    *(np.float64(np.pi), np.bool_(False), np.complex128(complex(-0.0, np.inf))),
]


@pytest.mark.parametrize("number", NUMBERS, ids=repr)
def test_numbers_are_in_the_text(number):
    def f(x, c):
        return x * c if np.asarray(c).dtype != bool else np.where(c, x, 0.0)

    met = ct.trace(lambda x: f(x, ct.asarray(number)), X)
    bound = ct.trace(f, X, np.asarray(number)).bind(c=np.asarray(number))
    for program in (met, bound):
        again = ct.Program.parse(str(program))
        assert again == program
        assert hash(again) == hash(program)
        np.testing.assert_array_equal(again(X), program(X))
    # A literal holds a float64, which is not enough for some integers.
    is_large = type(number) is int and abs(number) > 2**53
    assert len(met.inputs) == 1 + is_large
    assert names(bound.inputs) == ["x", "c"]
    assert " = " in str(bound).partition("{")[0]


def test_the_same_function_gives_the_same_program():
    def f(x):
        return np.sum(x * 0.37 + 2.0) * 0.21 - 1.0 / 0.37

    first = ct.trace(f, X)
    # Numbers that were met before are remembered, and older than what is made of them.
    ct.trace(lambda x: 0.21 + x * 0.5 + 1.0, X)
    second = ct.trace(f, X)
    assert first == second
    assert str(first) == str(second)
    kinds = [e.primitive for e in first.equations]
    assert kinds[:4] == ["literal", "mul", "literal", "add"]
    assert ct.trace(lambda x: [0.5, x, 0.5, 2], X).equations[0].primitive == "literal"


def test_an_array_that_is_bound_is_not_in_the_text():
    program = ct.trace(lambda x, c: x * W * c, X, 2.0).bind(c=2.5)
    again = ct.Program.parse(str(program))
    assert "# bound, 24 bytes" in str(program)
    assert [v.value is None for v in again.inputs] == [True, True, False]
    np.testing.assert_array_equal(again(X, W), program(X))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("program(%x: f64[] = ) { return %x }", "line 1, column 21: no number of type f64"),
        ("program(%x: f64[] = 1.0.0) { return %x }", "line 1, column 21: no number"),
        ("program(%x: i64[] = 1.5) { return %x }", "no number of type i64"),
        ("program(%x: bool[] = 1) { return %x }", "no number of type bool"),
        ("program(%x: c128[] = 1.0) { return %x }", "no number of type c128"),
        ("program(%x: c128[] = (1.0, 2.0) { return %x }", "line 1, column"),
        ("program(%x: f64[2] = 1.0) { return %x }", r"no number of type f64\[2\]"),
        ("program(%x: f64[] = 1.0 %y: f64[]) { return %x }", "line 1, column"),
    ],
)
def test_numbers_that_are_none(text, message):
    with pytest.raises(ValueError, match=message):
        ct.Program.parse(text)


def test_a_program_is_true():
    nothing = ct.trace(lambda x: x, X)
    assert len(nothing) == 0
    assert nothing
    assert ct.Program.parse("program() { return }")


@pytest.mark.parametrize("index", [-1, 5, 2**40, -(2**80)])
def test_variables_that_there_are_not(index):
    program = ct.trace(lambda x: x * x, X)
    with pytest.raises(IndexError, match=rf"has 2 variables, %0 to %1, no %{index}"):
        program.variable(index)
    assert program.variable(np.int64(1)).shape == (3,)
    with pytest.raises(TypeError, match="given by its number, not .*str"):
        program.variable("x")


def test_errors_point_at_the_place():
    text = "program(%x: f64[3]) {\n  %1: f64[3] = sine(%x)\n  return %1\n}"
    with pytest.raises(ValueError, match="line 2") as caught:
        ct.Program.parse(text)
    assert str(caught.value).splitlines() == [
        "line 2, column 16: `sine` is no primitive; did you mean `sin`?",
        "    %1: f64[3] = sine(%x)",
        "                 ^",
    ]
    with pytest.raises(ValueError, match="no input is called `y`"):
        ct.Program.parse("program(%x: f64[3]) {\n  return %y\n}")
    with pytest.raises(ValueError, match="two inputs are called `x`"):
        ct.Program.parse("program(%x: f64[3], %x: f64[3]) {\n  return %x\n}")


def test_old_numbered_inputs_are_read():
    old = 'program(%0 "x": f64[3]) {\n  %1: f64[3] = exp(%0)\n  return %1\n}\n'
    assert str(ct.Program.parse(old)) == old.replace('%0 "x"', "%x").replace("%0", "%x")


def test_names_of_functions_stay_in_their_line():
    def hook(ct):
        return ct

    hook.__name__ = "a\nb"
    program = ct.trace(lambda x: ct.hook(hook, x) * 2, X)
    assert len(str(program).splitlines()) == 1 + len(program) + 2


def test_sizes_that_there_are_not():
    huge = "9999999999,9999999999"
    with pytest.raises(ValueError, match="line 1, column 13: .* too large"):
        ct.Program.parse(f"program(%x: f64[{huge}]) {{ return %x }}")


def test_rules_of_python_code_are_no_part_of_a_text():
    program = ct.trace(lambda x: ct.hook(print, x) * 2, X)
    with pytest.raises(ValueError, match="print cannot be read back from text"):
        ct.Program.parse(str(program))


def test_a_long_program():
    def long(x):
        # No two stretches after each other are alike, so that there are no loops in it.
        for i in range(30_000):
            x = x * 0.5 + 1.0 if i.bit_count() % 2 else ct.sin(x)
        return x

    program = ct.trace(long, X)
    assert len(program) > 40_000
    assert ct.Program.parse(str(program)) == program
    assert len(program.prune(0)) == len(program)
    assert (program >> program)(X).shape == (3,)
