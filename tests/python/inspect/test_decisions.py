"""`ct.explain` counts the lines that decide by values of arguments."""

import contextlib
import linecache

import numpy as np

import cotan as ct


def bisected(a):
    low, high = 0.0, 1.0 * a
    for _ in range(20):
        middle = (low + high) / 2
        if middle**2 < a:
            low = middle
        else:
            high = middle
    return low


def source(decision):
    return linecache.getline(decision.line.file, decision.line.line).strip()


def test_lines_are_counted():
    report = ct.explain(bisected, 2.0)
    (decision,) = report.decisions
    assert (decision.count, decision.line.function) == (20, "bisected")
    assert source(decision) == "if middle**2 < a:"
    assert "test_decisions.py" in str(report) and "20 times" in str(report)
    assert "ct.implicit" in str(report) and "ct.implicit" in report.html()


def test_all_ways_to_decide():
    def f(x):
        total = 0.0 * x[0]
        while total < 2.5:
            total = total + 1.0
        if np.any(x > 1.0):
            total = total + {1.0: 2.0}[np.floor(x[0])]
        k = int(x[1])
        return total + k * x[2] + [1.0, 2.0][np.argmax(x)]

    report = ct.explain(f, np.array([1.5, 2.0, 0.5]))
    lines = {source(d): d.count for d in report.decisions}
    assert lines["while total < 2.5:"] == 4
    assert lines["if np.any(x > 1.0):"] == 1
    assert lines["total = total + {1.0: 2.0}[np.floor(x[0])]"] >= 1
    assert lines["k = int(x[1])"] == 1
    assert lines["return total + k * x[2] + [1.0, 2.0][np.argmax(x)]"] == 1
    assert report.decisions[0].count == 4


def test_constants_decide_nothing():
    def f(x, c):
        return x * 2 if c[0] > 1 and len(c) > 0 else x

    report = ct.explain(f, 1.0, ct.const(np.array([2.0])))
    assert report.decisions == []
    assert "ct.implicit" not in str(report)
    assert ct.explain(lambda x: np.where(x > 0, x, 0.0), np.ones(2)).decisions == []


def test_an_error_ends_the_count():
    def fail(x):
        if x > 0:
            raise ZeroDivisionError
        return x

    with contextlib.suppress(ZeroDivisionError):
        ct.explain(fail, 1.0)
    assert ct.explain(lambda x: x, 1.0).decisions == []
