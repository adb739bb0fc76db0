"""Prepared functions with objects of libraries, and with what a recording adds to a program."""

import ctypes
import decimal
import enum
import functools
import logging
import types
import typing

import numpy as np
import pytest

import cotan as ct


def test_a_series_of_pandas_is_compared_by_value():
    pd = pytest.importorskip("pandas")
    series = pd.Series([1.0, 2.0], index=["a", "b"])
    whole = ct.prepare(lambda x: np.sum(x * series.to_numpy()), np.ones(2))
    item = ct.prepare(lambda x: x * series["a"], 2.0)
    assert (item(2.0), list(whole(np.ones(2))[0])) == ((1.0,), [1.0, 2.0])
    series["a"] = 5.0
    assert (item(2.0), list(whole(np.ones(2))[0])) == ((5.0,), [5.0, 2.0])
    series.index = ["b", "a"]
    assert item(2.0) == (2.0,)


def test_an_index_of_pandas_is_compared_by_value():
    pd = pytest.importorskip("pandas")
    places = {"index": pd.Index([1.0, 2.0])}
    g = ct.prepare(lambda x: np.sum(x * places["index"].to_numpy()), np.ones(2))
    assert list(g(np.ones(2))[0]) == [1.0, 2.0]
    places["index"] = pd.Index([5.0, 2.0])
    assert list(g(np.ones(2))[0]) == [5.0, 2.0]


def test_the_settings_of_a_context_of_decimal_are_guards():
    context = decimal.Context(prec=1)
    third = decimal.Decimal(1), decimal.Decimal(3)
    g = ct.prepare(lambda x: x * float(context.divide(*third)) * context.prec, 2.0)
    assert g(2.0) == (0.3,)
    context.prec = 2
    assert g(2.0) == (0.66,)


def test_flags_may_be_combined_while_recording():
    class Mode(enum.IntFlag):
        A = 1
        B = 2

    setting = types.SimpleNamespace(mode=Mode.A)
    g = ct.prepare(lambda x: 5 * x if setting.mode & Mode.B else x, 2.0)
    assert g(2.0) == (1.0,)
    setting.mode = Mode.A | Mode.B
    assert g(2.0) == (5.0,)


def test_the_level_of_a_logger_is_a_guard():
    log = logging.getLogger("cotan.tests.prepared")
    g = ct.prepare(lambda x: 5 * x if log.isEnabledFor(logging.DEBUG) else x, 2.0)
    assert g(2.0) == (1.0,)
    log.setLevel(logging.DEBUG)
    assert g(2.0) == (5.0,)
    logging.disable(logging.INFO)
    try:
        assert g(2.0) == (1.0,)
    finally:
        logging.disable(logging.NOTSET)


def test_what_a_pointer_refers_to_is_a_guard():
    number = ctypes.c_double(1.0)
    pointer = ctypes.pointer(number)
    g = ct.prepare(lambda x: x * pointer.contents.value, 2.0)
    assert g(2.0) == (1.0,)
    number.value = 5.0
    assert g(2.0) == (5.0,)


def test_members_that_the_interpreter_adds_to_classes_are_no_changes():
    @typing.runtime_checkable
    class Scaled(typing.Protocol):
        def scale(self): ...

    class Model:
        factor = 1.0

        def scale(self):
            return self.factor

    m = Model()
    f = ct.prepare(lambda x: x * m.scale() if isinstance(m, Scaled) else x, 2.0)
    # Without annotations in the class, asking for them makes an entry.
    g = ct.prepare(lambda x: x * m.factor * (1 + len(getattr(Model, "__annotations__", {}))), 2.0)
    assert [f(2.0), g(2.0), f(2.0), g(2.0)] == 4 * [(1.0,)]
    Model.factor = 5.0
    assert f(2.0) == g(2.0) == (5.0,)


def test_a_table_that_a_class_keeps_for_its_objects_may_be_made_by_the_recording():
    class Model:
        @classmethod
        def table(cls):
            if not hasattr(cls, "_table"):
                cls._table = [3.0]
            return cls._table

    m = Model()
    g = ct.prepare(lambda x: x * m.table()[0], 2.0)
    assert (g(2.0), g(2.0)) == ((3.0,), (3.0,))
    Model._table[0] = 5.0
    assert (g(2.0), g.num_recordings) == ((5.0,), 3)


def test_an_attribute_that_is_called_like_a_global_is_another_value():
    names = {"k": 1.0}
    exec("def f(x, m): return x * m.k", names)
    m = type("Model", (), {"k": 3.0})
    g = ct.prepare(lambda x: names["f"](x, m), 2.0)
    h = ct.prepare(names["f"], 2.0, m, wrt=0)
    for value in (5.0, 7.0):
        names["k"] = value
        assert h(2.0, m)[0] == 3.0
    assert h.num_recordings == 1
    assert g(2.0) == (3.0,)


class Texts:
    text = "1.0"

    def __str__(self):
        return self.text


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x * float(f"{TEXTS}"),
        lambda x: x * float("%s" % TEXTS),  # noqa: UP031
        lambda x: x * float(str(TEXTS)),
    ],
)
def test_texts_of_objects_are_made_by_their_methods(f, monkeypatch):
    g = ct.prepare(f, 2.0)
    assert g(2.0) == (1.0,)
    monkeypatch.setattr(Texts, "text", "5.0")
    assert g(2.0) == (5.0,)


TEXTS = Texts()


def test_keys_are_objects_too():
    class Node:
        def __init__(self, k):
            self.k = k

    a, b = Node(1.0), Node(2.0)
    edges = {a: [b], b: []}
    g = ct.prepare(lambda x: x * sum(node.k for node in edges), 2.0)
    assert g(2.0) == (3.0,)
    a.k = 5.0
    assert g(2.0) == (7.0,)


def test_attributes_of_a_partial_function_and_items_of_a_class():
    class Table:
        rows = {"a": 1.0}  # noqa: RUF012

        def __class_getitem__(cls, key):
            return cls.rows[key]

    part = functools.partial(abs)
    part.k = 1.0
    g = ct.prepare(lambda x: x * part.k * Table["a"], 2.0)
    assert g(2.0) == (1.0,)
    part.k = 2.0
    assert g(2.0) == (2.0,)
    Table.rows["a"] = 3.0
    assert g(2.0) == (6.0,)


class Kernel(enum.StrEnum):
    NARROW = "narrow"

    def width(self):
        return WIDTHS[self.value]


WIDTHS = {"narrow": 1.0}


class Node:
    def __init__(self, k):
        self.k = k


def test_what_arguments_are_beside_their_leaves(monkeypatch):
    node, error = Node(1.0), ValueError(1.0)
    f = ct.prepare(lambda x, kernel: x * kernel.width(), 2.0, Kernel.NARROW, wrt=0)
    g = ct.prepare(lambda x, table: x * sum(key.k for key in table), 2.0, {node: None}, wrt=0)
    h = ct.prepare(lambda x, e: x * e.args[0], 2.0, error, wrt=0)

    def results():
        return f(2.0, Kernel.NARROW)[0], g(2.0, {node: None})[0], h(2.0, error)[0]

    assert results() == (1.0, 1.0, 1.0)
    monkeypatch.setitem(WIDTHS, "narrow", 5.0)
    node.k, error.args = 5.0, (5.0,)
    assert results() == (5.0, 5.0, 5.0)


def test_a_class_of_arguments_may_get_what_code_asks_for():
    class Model:
        def __init__(self):
            self.w = 1.0

    m = Model()
    g = ct.prepare(lambda x, m: x * m.w * getattr(m, "scale", 1.0), 2.0, m, wrt=0)
    assert g(2.0, m)[0] == 1.0
    Model.scale = 5.0
    assert g(2.0, m)[0] == 5.0


class Decorated:
    def __init__(self, factor):
        self.factor = factor
        self.scaled = ct.prepare(self.scaled)

    @ct.prepared
    def method(self, x):
        return self.factor * x**3

    @staticmethod
    @ct.prepared(transform="value_and_gradient")
    def plain(x):
        return x**3

    def scaled(self, x):
        return self.factor * x**3


def test_a_method_is_prepared_for_an_object():
    made = Decorated(2.0)
    with pytest.raises(TypeError, match=r"write self.method = ct.prepare\(self.method\) in __init"):
        made.method(1.0)
    assert Decorated.method.num_recordings == 0
    assert made.scaled(1.0) == (6.0,)
    assert made.plain(2.0) == Decorated.plain(2.0) == (8.0, (12.0,))


def test_whether_an_array_contains_a_value_is_a_branch():
    def f(x):
        return np.sum(x) * (2.0 if 2.0 in x else 3.0) * (5.0 if x[0] in x[1:] else 7.0)

    g = ct.prepare(f, np.array([1.0, 2.0]))
    for x in ([1.0, 2.0], [1.0, 3.0], [2.0, 2.0], [0.0, 2.0]):
        np.testing.assert_array_equal(g(np.array(x))[0], ct.gradient(f, np.array(x))[0])
    assert g.num_recordings == 3


def test_places_of_what_is_not_zero_are_a_branch():
    def f(x):
        return np.sum(x[x.nonzero()] ** 2) + (x * 2).nonzero()[0].sum() * x[0]

    g = ct.prepare(f, np.array([1.0, 2.0]))
    for x in ([1.0, 2.0], [1.0, 0.0], [3.0, 2.0]):
        np.testing.assert_array_equal(g(np.array(x))[0], ct.gradient(f, np.array(x))[0])
    assert g.num_recordings == 2
