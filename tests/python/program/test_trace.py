"""Programs as values, and profiles."""

import collections

import numpy as np
import pytest

import cotan as ct

X = np.array([0.5, 1.0, 1.5])


# --------------------------------------------------------------------------------------------------
# Programs, profiles


def test_trace():
    c = np.array([1.0, 2.0, 3.0])
    program = ct.trace(lambda x, y: (ct.sum(ct.exp(x) * c), y + 1), X, 2.0)
    assert [v.name for v in program.inputs][:2] == ["x", "y"]
    value, more = program(X, 2.0)
    assert value == pytest.approx(np.sum(np.exp(X) * c))
    assert more == 3.0
    names = [e.primitive for e in program.equations]
    assert names.count("exp") == 1
    assert len(program) == len(names)
    sum_ = next(e for e in program.equations if e.primitive == "sum")
    assert sum_.params == {"axes": (0,)}
    assert sum_.shape == ()
    assert sum_.dtype == "float64"
    assert repr(sum_).startswith(f"<Equation %{sum_.output} = sum[axes=(0,)](%")
    with pytest.raises(TypeError, match="takes 2 arrays, 1 given"):
        program(X)
    with pytest.raises(ValueError, match=r"input 0 \(x\) must be f64\[3\], not f64\[2\]"):
        program(X[:2], 2.0)


def test_a_trace_computes_nothing():
    with ct.profile() as work:
        ct.trace(lambda x: ct.sum(ct.exp(x)), X)
    assert work.runs == 0


def test_a_trace_takes_the_branch_of_its_arguments():
    def f(x):
        return x * 2 if x > 1 else x * 3

    assert ct.trace(f, 2.0)(5.0) == 10.0
    assert ct.trace(f, 0.0)(5.0) == 15.0


def test_programs_are_values():
    def f(x):
        return ct.sum(ct.exp(x) * ct.exp(x))

    p, q = ct.trace(f, X), ct.trace(f, 2 * X)
    assert p == q
    assert hash(p) == hash(q)
    assert p != ct.trace(ct.sum, X)
    assert ct.Program.parse(str(p)) == p
    smaller = p.optimize()
    assert len(smaller) < len(p)
    assert smaller(X) == pytest.approx(p(X))
    assert isinstance(p(ct.array(X)), ct.Array)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1, column 1"),
        ("programme", "line 1, column"),
        (
            'program(%0 "x": f64[3]) {\n  %1: f64[3] = tangens(%0)\n  return %1\n}',
            "line 2.*tangens",
        ),
        ('program(%0 "x": f64[3]) {\n  %1: f64[2] = sin(%0)\n  return %1\n}', r"f64\[2\]|\(2,\)"),
        ('program(%0 "x": f64[3]) {\n  %1: f64[3] = sin(%7)\n  return %1\n}', "%7"),
        ('program(%0 "x": q64[3]) {\n  return %0\n}', "q64"),
    ],
)
def test_programs_that_do_not_parse(text, message):
    with pytest.raises(ValueError, match=message):
        ct.Program.parse(text)


def test_profile():
    with ct.profile() as outer:
        with ct.profile() as inner:
            ct.exp(ct.array(X)).force()
        ct.exp(ct.array(X)).force()
        assert inner.equations == {"exp": 1}
    assert outer.equations == {"exp": 2}
    assert isinstance(outer.equations, collections.Counter)
    assert outer.equations["sin"] == 0
    assert outer.runs == 2
    ct.exp(ct.array(X)).force()
    assert outer.equations == {"exp": 2}
    with ct.profile() as work:
        _, back = ct.pullback(lambda x, c: ct.sin(x) * ct.cos(c), X, ct.const(X))
        back(np.ones(3))[0].force()
    assert sum(work.skipped.values()) > 0
