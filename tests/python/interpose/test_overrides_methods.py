"""Compiled methods of plain ndarrays and of ufuncs, with traced values among their arguments."""

import array
import collections
import contextvars
import functools
import inspect
import json
import re
import subprocess
import sys
import threading

import numpy as np
import pytest
from override_cases import slope_is_right
from scipy import interpolate, stats

import cotan as ct

TABLE = np.array([[1.0, 2.0], [3.0, 5.0]])
SHIFTED = functools.partial(stats.norm.logpdf, loc=0.2)
# Bound before anything is recorded, as programs do.
N = stats.norm.cdf
DENSITY = stats.norm(0.1, 2.0).pdf
CUBIC = interpolate.CubicSpline([0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 4.0, 2.0]).__call__
GENERATOR = np.random.default_rng(0)


def test_products_from_the_left():
    for f in (
        lambda x: np.sum(TABLE.dot([x, 2.0])),
        lambda x: np.sum(TABLE.dot(np.array([x, 2.0])) ** 2),
        lambda x: TABLE.dot(TABLE).dot(b=np.array([x, x]))[0],
        lambda x: np.sum(TABLE.T.dot(((x, 1.0), (2.0, x)))),
        lambda x: np.sum(TABLE.dot(x)),
        lambda x: np.sum(list(map(TABLE.dot, [np.array([x, 1.0])]))),
    ):
        slope_is_right(f)
    assert type(TABLE.dot([1.0, 2.0])) is np.ndarray
    with pytest.raises(ValueError, match="shapes"):
        ct.gradient(lambda x: np.sum(TABLE.dot(np.ones(3) * x)), 1.0)


def test_methods_of_ufuncs_of_lists():
    for f in (
        lambda x: np.add.reduce([x, 2 * x, 1.0]),
        lambda x: np.multiply.reduce((x, 2 * x)),
        lambda x: np.maximum.reduce([[x, 0.1], [0.3, x]], axis=1)[0],
        lambda x: np.add.accumulate([x, x * x])[1],
        lambda x: np.add.reduceat([x, x, 3 * x], [0, 2])[1],
        lambda x: np.sum(np.multiply.outer([x, 1.0], TABLE)),
        lambda x: np.sum(np.subtract.outer(TABLE, [x, 2.0]) ** 2),
    ):
        slope_is_right(f)
    assert type(np.add.reduce([1.0, 2.0])) is np.float64


def test_copies_are_written():
    def f(x):
        made = TABLE.copy()
        made[0] *= x
        other = TABLE[1].copy(order="C")
        other[0] = x * x
        return np.sum(made) * other[0]

    slope_is_right(f)
    assert TABLE.tolist() == [[1.0, 2.0], [3.0, 5.0]]

    def g(x):
        assert type(np.arange(3).copy()) is np.ndarray
        assert type(GENERATOR.permutation(TABLE)) is np.ndarray
        return x

    ct.gradient(g, 1.0)
    assert type(TABLE.copy()) is np.ndarray


def test_methods_leave_no_trace():
    kept, seen = [], []

    def f(x):
        kept.extend([TABLE.dot, TABLE.copy, np.add.reduce])
        look = lambda: seen.append(type(TABLE.copy()))
        thread = threading.Thread(target=contextvars.Context().run, args=(look,))
        thread.start()
        thread.join()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ct.gradient(f, 1.0)
    assert seen == [np.ndarray]
    dot, copy, add = kept
    assert dot([1.0, 1.0]).tolist() == [3.0, 8.0]
    assert type(copy()) is np.ndarray
    assert add([1.0, 2.0]) == 3.0
    with pytest.raises(TypeError):
        TABLE.dot()
    with ct.lifting(False), pytest.raises(TypeError, match="drop the gradient"):
        ct.gradient(lambda x: np.sum(TABLE.dot(np.ones(2) * x)), 1.0)


def test_methods_do_not_leak():
    def f(x):
        return np.sum(TABLE.dot([x, 2.0])) + np.add.reduce([x, x]) + TABLE.copy()[0, 0]

    ct.gradient(f, 1.0)
    before = sys.getrefcount(TABLE)
    for _ in range(100):
        ct.gradient(f, 1.0)
    assert sys.getrefcount(TABLE) - before < 10


def test_sequences_are_operands():
    for f in (
        lambda x: np.sum(x * np.ones(3) + range(3)),
        lambda x: np.sum(range(3) * (x * np.ones(3))),
        lambda x: np.sum(x * np.ones(2) * array.array("d", [1.0, 2.0])),
        lambda x: np.sum(np.ones(2) * x - collections.deque([1.0, x * x])),
    ):
        slope_is_right(f)


def test_lists_beside_texts():
    slope_is_right(lambda x: np.sum(np.einsum("ij,j->i", TABLE, [x, x * x])))
    slope_is_right(lambda x: np.linalg.norm([[x, 1.0], [2.0, x]], "fro"))


def test_functions_along_an_axis():
    slope_is_right(lambda x: np.sum(np.apply_along_axis(lambda row: row * x, 0, TABLE)))
    slope_is_right(lambda x: np.sum(np.apply_along_axis(np.dot, 1, TABLE, [x, 1.0])))
    made = np.apply_along_axis(np.sum, 0, TABLE)
    assert type(made) is np.ndarray


def test_bounds_of_a_plain_array():
    slope_is_right(lambda x: np.sum(TABLE.clip(0.0, 2 + x)))
    slope_is_right(lambda x: np.sum(TABLE.clip(x + 1, None)))


def test_what_needs_plain_numbers_says_what_to_write():
    with pytest.raises(TypeError, match="dropgrad"):
        ct.gradient(lambda x: x * len(json.dumps({"a": x})), 1.0)
    with pytest.raises(TypeError, match="dropgrad"):
        ct.gradient(lambda x: x * memoryview(x * np.zeros(2)).nbytes, 1.0)
    assert ct.gradient(lambda x: x * memoryview(np.zeros(2)).nbytes, 1.0) == (16.0,)


class Pricer:
    n = stats.norm.pdf

    def __init__(self):
        self.N = stats.norm.cdf


def test_methods_that_a_program_bound_before():
    signature = inspect.signature(N)

    def price(x, law=stats.t.cdf):
        return N(x) + Pricer.n(x) + Pricer().N(2 * x) + law(x, 4.0) + SHIFTED(x)

    slope_is_right(price)
    slope_is_right(lambda x: DENSITY(x) + sum(map(N, [x, 2 * x])))
    slope_is_right(lambda x: CUBIC(x))
    assert inspect.signature(N) == signature
    assert N(x=0.3, loc=1.0) == stats.norm.cdf(-0.7)
    assert type(stats.norm).cdf.__name__ == "cdf"


def test_methods_taken_from_the_class_of_ndarrays_say_what_to_write():
    for method in (np.ndarray.sum, np.ndarray.max):
        with pytest.raises(TypeError, match="'cotan.Array'.*ask the array, x.sum"):
            ct.gradient(lambda x, method=method: method(x * 2), np.ones(3))


DOT, REDUCE = TABLE.dot, np.add.reduce


BOUND_BEFORE = """
import numpy as np
import cotan as ct

DOT, REDUCE = np.ones((2, 2)).dot, np.add.reduce
for f, x in ((lambda x: np.sum(DOT(x)), np.ones(2)), (lambda x: REDUCE([x, x * x]), 2.0)):
    try:
        ct.gradient(f, x)
    except TypeError as error:
        print(error)
"""


def test_methods_taken_from_an_object_say_what_to_write():
    # Before the first recording of the process, whose entries later ones would find.
    run = subprocess.run([sys.executable, "-c", BOUND_BEFORE], capture_output=True, text=True)  # noqa: PLW1510
    dot, reduce = run.stdout.splitlines()
    assert re.search(r"DOT is a method that was taken.*write table.dot\(...\)", dot), run.stderr
    assert re.search(r"REDUCE is a method that.*write np.add.reduce\(...\)", reduce)
    reduced = ct.gradient(lambda x: np.add.reduce([np.sum(TABLE.dot(x)), x[0]]), np.ones(2))
    np.testing.assert_array_equal(reduced[0], [5.0, 7.0])
