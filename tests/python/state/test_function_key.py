"""Keys of functions: the same where a recorded program may stand for them, and None elsewhere."""

import builtins
import functools
import math
import time
from types import SimpleNamespace

import numpy as np
import pytest

import cotan as ct
from cotan._core import FunctionKey

RATE = 0.5
TABLE = [1.0, 2.0]


def key_at(function_of, *numbers):
    """Give the key of a function that captures an active number, and how many leaves it has."""
    found = []

    def measured(a):
        found.append(FunctionKey.of(function_of(a, *numbers), ()))
        return a * 1.0

    ct.gradient(measured, 1.5)
    (key,) = found
    return key if key is None else (key.key, len(key.leaves))


def decay(a, c=2.0):
    return lambda t, y: -a * y + c


def helper(x):
    return RATE * x


def test_same_code_and_captured_values_are_the_same():
    assert key_at(decay) == key_at(decay)
    assert key_at(decay)[1] == 1


@pytest.mark.parametrize("other", [3.0, np.float64(2.0), 2, True, -2.0, "2.0", None])
def test_other_numbers_are_not(other):
    assert key_at(decay, other) != key_at(decay)


def test_signs_of_zeros_count():
    assert key_at(decay, 0.0) != key_at(decay, -0.0)


def test_contents_of_collections_and_arrays_count():
    for first, second in [
        ([1.0, 2.0], [1.0, 3.0]),
        ([1.0, 2.0], (1.0, 2.0)),
        ({"a": 1.0}, {"b": 1.0}),
        (np.ones(3), np.ones(2)),
        (np.ones(3), np.ones(3, np.float32)),
        (np.ones((2, 2)), np.eye(2)),
    ]:
        assert key_at(decay, first) is not None
        assert key_at(decay, first) != key_at(decay, second)
        assert key_at(decay, first) == key_at(decay, first)


def test_globals_and_what_they_call_count(monkeypatch):
    def slope_of(a):
        return lambda t, y: -a * helper(y) + TABLE[0]

    module = globals()
    before = key_at(slope_of)
    assert before == key_at(slope_of)
    monkeypatch.setitem(module, "RATE", 0.25)
    assert key_at(slope_of) != before
    monkeypatch.setitem(module, "RATE", 0.5)
    assert key_at(slope_of) == before
    TABLE[0] = 7.0
    assert key_at(slope_of) != before
    TABLE[0] = 1.0
    monkeypatch.setitem(module, "helper", lambda x: x)
    assert key_at(slope_of) != before


def test_active_globals_have_no_key(monkeypatch):
    def slope_of(a):
        monkeypatch.setitem(globals(), "RATE", a)
        return lambda t, y: helper(y) + a

    assert key_at(slope_of) is None


def test_one_array_in_two_places_is_not_two():
    def both(a, is_one):
        b = a if is_one else a * 1.0
        return lambda t, y: a * y + b

    assert key_at(both, True)[1] == 1
    assert key_at(both, False)[1] == 2


def wrapped(a):
    inner = decay(a)

    @functools.wraps(inner)
    def call(t, y):
        return inner(t, y)

    return call


def counting(a):
    count = 0

    def call(t, y):
        nonlocal count
        count += 1
        return a * y

    return call


def importing(a):
    def call(t, y):
        from random import random

        return a * y + random()

    return call


def with_value(a, value, use=lambda v: 0.0):
    return lambda t, y: a * y + use(value)


class Model:
    def __init__(self, a):
        self.a = a

    def slope(self, t, y):
        return self.a * y


@pytest.mark.parametrize(
    "function_of",
    [
        wrapped,
        counting,
        importing,
        lambda a: with_value(a, iter([1.0, 2.0])),
        lambda a: with_value(a, np.random.default_rng(0)),
        lambda a: lambda t, y: a * np.random.standard_normal(),  # noqa: NPY002
        lambda a: lambda t, y: a * y + time.time(),
        lambda a: lambda t, y: print(t) or a * y,
        lambda a: with_value(a, SimpleNamespace(c=1.0)),
        lambda a: Model(a).slope,
        lambda a: functools.partial(decay, a),
        lambda a: lambda t, y: a * y * getattr(math, "p" + "i"),
        lambda a: lambda t, y: a * y + np.empty(1),
        lambda a: with_value(a, [object()]),
        lambda a: with_value(a, np.zeros(100_000)),
        lambda a: [a].__getitem__,
    ],
)
def test_what_may_do_more_has_none(function_of):
    assert key_at(function_of) is None


def test_keys_of_dictionaries_have_types():
    assert key_at(decay, {1: 3.0}) != key_at(decay, {True: 3.0})


def test_arrays_with_fields_have_no_key():
    assert key_at(decay, np.zeros(2, [("a", "i4"), ("b", "i4")])) is None


def test_ufuncs_of_a_program_have_no_key():
    made = np.frompyfunc(lambda x: x, 1, 1)
    assert key_at(lambda a: lambda t, y: -a * made(y)) is None
    taken = np.sin
    assert key_at(lambda a: lambda t, y: -a * taken(y)) is not None


def on_a_library(a):
    return lambda t, y: -a * y * np.cotan_factor


def test_what_a_program_puts_on_a_library_counts(monkeypatch):
    monkeypatch.setattr(np, "cotan_factor", 1.0, raising=False)
    first = key_at(on_a_library)
    assert first == key_at(on_a_library)
    np.cotan_factor = 2.0
    assert key_at(on_a_library) != first


def test_a_builtin_that_was_replaced_has_no_key(monkeypatch):
    def function_of(a):
        return lambda t, y: -a * y * min(0, 1)

    assert key_at(function_of) is not None
    monkeypatch.setattr(builtins, "min", max)
    assert key_at(function_of) is None


def test_many_objects_have_no_key():
    assert key_at(decay, [[[0.0] * 20] * 20 for _ in range(20)]) is not None
    assert key_at(decay, [[[float(i)] * 20 for i in range(20)] for _ in range(20)]) is None
