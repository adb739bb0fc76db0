"""Prepared functions: what code looked for in vain, and what hides or follows it later."""

import builtins
import collections
import contextlib
import dataclasses
import enum
import functools
import inspect
import os
import sys
import types

import numpy as np
import pytest

import cotan as ct


def namespace(text):
    """Run some code in a module of its own; give its variables."""
    names = {"np": np, "__name__": "program"}
    exec(text, names)
    return names


def objects():
    class Base:
        pass

    class Model(Base):
        pass

    return Base, Model, Model()


def late_attributes():
    """Functions that ask an object for `k`, which it has not got."""
    _, _, m = objects()

    def asked(m):
        return m.k

    def caught(x):
        try:
            return x * asked(m)
        except AttributeError:
            return x

    def suppressed(x):
        k = 1.0
        with contextlib.suppress(AttributeError):
            k = m.k
        return x * k

    class Hides:
        def __enter__(self):
            return self

        def __exit__(self, *error):
            return True

    def hidden(x):
        k = 1.0
        with Hides():
            k = m.k
        return x * k

    def finally_returned(x):
        k = 1.0
        try:
            k = m.k
        finally:
            return x * k  # noqa: B012

    def matched(x):
        match m:
            case object(k=k):
                return x * k
            case _:
                return x

    name = "k"
    return m, {
        "getattr": lambda x: x * getattr(m, "k", 1.0),
        "hasattr": lambda x: x * m.k if hasattr(m, "k") else x,
        "name from a variable": lambda x: x * getattr(m, name, 1.0),
        "name put together": lambda x: x * getattr(m, f"{'k'}", 1.0),
        "dir": lambda x: x * m.k if "k" in dir(m) else x,
        "except": caught,
        "suppress": suppressed,
        "__exit__": hidden,
        "finally": finally_returned,
        "match": matched,
    }


def set_on_base(m):
    type(m).__base__.k = 5.0


def set_on_class(m):
    type(m).k = property(lambda self: 5.0)


def set_on_object(m):
    m.k = 5.0


@pytest.mark.parametrize("set_it", [set_on_base, set_on_class, set_on_object])
@pytest.mark.parametrize("name", late_attributes()[1])
def test_attributes_that_appear_are_noticed(name, set_it):
    m, functions = late_attributes()
    g = ct.prepare(functions[name], 2.0)
    assert (g(2.0), g.num_recordings) == ((1.0,), 1)
    set_it(m)
    assert g(2.0) == (5.0,)
    assert (g(3.0), g.num_recordings) == ((5.0,), 2)


def test_other_members_that_appear_change_nothing():
    _, cls, m = objects()
    g = ct.prepare(lambda x: x * m.k if hasattr(m, "k") else x, 2.0)
    cls.another = 5.0
    assert (g(2.0), g.num_recordings) == ((1.0,), 1)


def changes():
    """Functions of x, and changes after which they give 5 x."""
    base, cls, m = objects()
    m.own = 1.0

    class Slotted:
        __slots__ = ("k",)

    slotted = Slotted()

    class Meta(type):
        above = 1.0

    class Made(metaclass=Meta):
        below = 1.0

    class Hidden:
        k = 1.0

    class Hides(Hidden):
        k = 2.0

    class Middle(Hidden):
        pass

    class Calls(Middle):
        @property
        def k(self):
            return super().k

    class Other:
        k = 5.0

    class Moved(Middle, Hidden):
        pass

    class Like(Other, Hidden):
        pass

    calls, moved = Calls(), Moved()

    class Words(dict):
        pass

    words = Words()

    def word(x):
        try:
            return x * words["k"]
        except KeyError:
            return x

    class Partial:
        def times(self, x, k):
            return x * k

        once = functools.partialmethod(times, k=1.0)

    partial = Partial()
    defaults = collections.defaultdict(lambda: 1.0)
    error = ValueError(1.0)

    def is_first(x):
        match dataclass:
            case Pair(first, _):
                return x * first

    @dataclasses.dataclass
    class Pair:
        first: float = 1.0
        second: float = 5.0

    dataclass = Pair()

    class Plain:
        pass

    plain = Plain()

    def late(name, method):
        return lambda: setattr(Plain, name, method)

    class Indexed:
        def __getitem__(self, i):
            return [1.0][i]

    row = Indexed()

    class Ones:
        __slots__ = ()

        def get(self):
            return 1.0

    class Fives:
        __slots__ = ()

        def get(self):
            return 5.0

    class Table(dict):
        get = Ones.get

    class FiveTable(dict):
        get = Fives.get

    small, table = Ones(), Table()
    module = types.ModuleType("module")
    module.__getattr__ = lambda name: 1.0
    silent = types.ModuleType("silent")
    return {
        "property that hides": (
            lambda x: x * m.own,
            lambda: setattr(base, "own", property(lambda self: 5.0)),
        ),
        "slot": (lambda x: x * getattr(slotted, "k", 1.0), lambda: setattr(slotted, "k", 5.0)),
        "class hides metaclass": (lambda x: x * Made.above, lambda: setattr(Made, "above", 5.0)),
        "metaclass hides class": (
            lambda x: x * Made.below,
            lambda: setattr(Meta, "below", property(lambda cls: 5.0)),
        ),
        "metaclass has it": (
            lambda x: x * getattr(Made, "k", 1.0),
            lambda: setattr(Meta, "k", 5.0),
        ),
        "by __mro__": (lambda x: x * Hides.__mro__[1].k, lambda: setattr(Hidden, "k", 5.0)),
        "by __bases__": (lambda x: x * Hides.__bases__[0].k, lambda: setattr(Hidden, "k", 5.0)),
        "by getmro": (lambda x: x * inspect.getmro(Hides)[1].k, lambda: setattr(Hidden, "k", 5.0)),
        "super": (lambda x: x * calls.k, lambda: setattr(Middle, "k", 5.0)),
        "other bases": (lambda x: x * moved.k, lambda: setattr(Moved, "__bases__", (Like,))),
        "__missing__": (word, lambda: setattr(Words, "__missing__", lambda self, key: 5.0)),
        "partialmethod": (
            lambda x: partial.once(x),
            lambda: vars(Partial)["once"].keywords.update(k=5.0),
        ),
        "default factory": (
            lambda x: x * defaults.default_factory(),
            lambda: setattr(defaults, "default_factory", lambda: 5.0),
        ),
        "arguments of an error": (
            lambda x: x * error.args[0],
            lambda: setattr(error, "args", (5.0,)),
        ),
        "text of an error": (lambda x: x * float(str(error)), lambda: setattr(error, "args", (5,))),
        "truth": (lambda x: x if plain else 5 * x, late("__bool__", lambda self: False)),
        "length": (lambda x: x if plain else 5 * x, late("__len__", lambda self: 0)),
        "equality": (lambda x: 5 * x if plain == m else x, late("__eq__", lambda *_: True)),
        "membership": (lambda x: 5 * x if plain in (m, m) else x, late("__eq__", lambda *_: True)),
        "call": (lambda x: 5 * x if callable(plain) else x, late("__call__", lambda self: 1)),
        "iteration": (
            lambda x: x * sum(row),
            lambda: setattr(Indexed, "__iter__", lambda self: iter([2.0, 3.0])),
        ),
        "class of an object with slots": (
            lambda x: x * small.get(),
            lambda: setattr(small, "__class__", Fives),
        ),
        "class of a dictionary": (
            lambda x: x * table.get(),
            lambda: setattr(table, "__class__", FiveTable),
        ),
        "members of a class": (
            lambda x: 5 * x if [n for n in vars(cls) if n[:4] == "new_"] else x,
            lambda: setattr(cls, "new_one", 1),
        ),
        "pattern": (is_first, lambda: setattr(dataclass, "first", 5.0)),
        "order of a pattern": (
            is_first,
            lambda: setattr(Pair, "__match_args__", ("second", "first")),
        ),
        "__getattr__ of a module": (
            lambda x: x * module.k,
            lambda: setattr(module, "__getattr__", lambda name: 5.0),
        ),
        "new __getattr__ of a module": (
            lambda x: x * getattr(silent, "k", 1.0),
            lambda: setattr(silent, "__getattr__", lambda name: 5.0),
        ),
    }  # fmt: skip


@pytest.mark.parametrize("name", changes())
def test_what_hides_or_follows_is_noticed(name):
    f, change = changes()[name]
    g = ct.prepare(f, 2.0)
    assert (g(2.0), g.num_recordings) == ((1.0,), 1)
    change()
    assert g(2.0) == ct.gradient(f, 2.0) == (5.0,)


GLOBAL = """
def read():
    return later

def f(x):
    try:
        return x * read()
    except NameError:
        return x
"""


@pytest.mark.parametrize("place", ["globals", "builtins"])
def test_globals_that_appear_are_noticed(place, monkeypatch):
    names = namespace(GLOBAL)
    g = ct.prepare(names["f"], 2.0)
    assert (g(2.0), g.num_recordings) == ((1.0,), 1)
    target = names if place == "globals" else vars(builtins)
    monkeypatch.setitem(target, "later", 5.0)
    assert (g(2.0), g.num_recordings) == ((5.0,), 2)


def test_a_closure_variable_that_gets_a_value_is_noticed():
    def f(x):
        try:
            return x * later
        except NameError:
            return x

    g = ct.prepare(f, 2.0)
    assert g(2.0) == (1.0,)
    later = 5.0
    assert (g(2.0), g.num_recordings) == ((5.0,), 2)


def test_a_global_that_the_function_fills_in_is_part_of_the_next_recording():
    names = namespace("""
def f(x):
    global table
    try:
        table
    except NameError:
        table = [3.0]
    return x * table[0]
""")
    g = ct.prepare(names["f"], 2.0)
    assert g(2.0) == (3.0,)
    names["table"][0] = 5.0
    assert (g(2.0), g(2.0), g.num_recordings) == ((5.0,), (5.0,), 3)


@pytest.mark.parametrize(
    "statement",
    ["import late_program as m", "import importlib; m = importlib.import_module('late_program')"],
)
def test_modules_that_appear_are_noticed(statement, monkeypatch):
    f = namespace(f"""
def f(x):
    try:
        {statement}
    except ImportError:
        return x
    return x * m.k
""")["f"]
    g = ct.prepare(f, 2.0)
    assert (g(2.0), g.num_recordings) == ((1.0,), 1)
    module = types.ModuleType("late_program")
    module.k = 5.0
    monkeypatch.setitem(sys.modules, "late_program", module)
    assert (g(2.0), g.num_recordings) == ((5.0,), 2)


def test_a_module_that_the_recording_imports_is_watched_from_then_on(tmp_path, monkeypatch):
    (tmp_path / "first_imported.py").write_text("k = 1.0\n")
    monkeypatch.syspath_prepend(tmp_path)

    def f(x):
        import first_imported

        return x * first_imported.k

    g = ct.prepare(f, 2.0)
    assert (g(2.0), g(2.0), g.num_recordings) == ((1.0,), (1.0,), 2)
    sys.modules["first_imported"].k = 5.0
    assert g(2.0) == (5.0,)
    monkeypatch.delitem(sys.modules, "first_imported")


def test_a_cached_property_may_be_computed_first_by_the_recording():
    class Model:
        factor = 3.0

        @functools.cached_property
        def doubled(self):
            return 2.0 * self.factor

    m = Model()
    g = ct.prepare(lambda x: x * m.doubled, 2.0)
    assert (g(2.0), g(2.0), g.num_recordings) == ((6.0,), (6.0,), 2)
    Model.factor = 2.5
    assert g(2.0) == (6.0,)
    del m.doubled
    assert (g(2.0), g(2.0)) == ((5.0,), (5.0,))


@pytest.mark.parametrize("cache", [functools.cache, functools.lru_cache(4)])
def test_a_cache_that_is_cleared_is_noticed(cache):
    data = [1.0]

    def read(n):
        return data[0] * n

    read = cache(read)
    read(2)
    g = ct.prepare(lambda x: x * read(1), 2.0)
    assert (g(2.0), read(3), g(2.0), g.num_recordings) == ((1.0,), 3.0, (1.0,), 1)
    data[0] = 5.0
    assert g(2.0) == (1.0,)
    read.cache_clear()
    read(2)
    assert g(2.0) == (5.0,)
    recordings = g.num_recordings
    for n in range(3, 9):
        read(n)
        g(2.0)
    assert g.num_recordings <= recordings + (cache is not functools.cache)


class Unit(float):
    pass


class Name(str):
    pass


class Code(bytes):
    pass


class Row(tuple):
    pass


class Group(frozenset):
    pass


class Pool(set):
    pass


class Line(collections.deque):
    pass


@pytest.mark.parametrize("cls", [Unit, Name, Code, Row, Group, Pool, Line])
@pytest.mark.parametrize("where", ["object", "class"])
def test_classes_derived_from_builtin_ones_have_attributes(cls, where):
    value = cls()
    target = value if where == "object" else type(value)
    target.k = 1.0
    g = ct.prepare(lambda x: x * value.k, 2.0)
    assert g(2.0) == (1.0,)
    target.k = 5.0
    assert g(2.0) == (5.0,)
    del target.k


def test_methods_of_derived_classes_are_followed():
    weights = {1: 1.0, "b": 1.0}

    class Kind(enum.IntEnum):
        A = 1

        def weight(self):
            return weights[self.value]

    class Word(enum.StrEnum):
        B = "b"

        @property
        def weight(self):
            return weights[self.value]

    word = Word.B
    f, g = (
        ct.prepare(lambda x: x * Kind.A.weight(), 2.0),
        ct.prepare(lambda x: x * word.weight, 2.0),
    )
    assert f(2.0) == g(2.0) == (1.0,)
    weights.update({1: 5.0, "b": 5.0})
    assert f(2.0) == g(2.0) == (5.0,)


def test_the_environment_is_watched_by_other_names(monkeypatch):
    monkeypatch.setenv("COTAN_TEST_A", "1.0")
    names = namespace("""
from os import environ as e, getenv as get
def f(x):
    return x * float(get("COTAN_TEST_A", "5.0"))
def g(x):
    return x * float(e["COTAN_TEST_A"]) if "COTAN_TEST_A" in e else 5 * x
""")
    f, g = ct.prepare(names["f"], 2.0), ct.prepare(names["g"], 2.0)
    assert f(2.0) == g(2.0) == (1.0,)
    # Another key with the same value.
    monkeypatch.delenv("COTAN_TEST_A")
    os.environ["COTAN_TEST_B"] = "1.0"
    assert f(2.0) == g(2.0) == (5.0,)
    monkeypatch.delenv("COTAN_TEST_B")


def test_a_handler_of_other_errors_needs_no_guards_on_absence():
    _, _, m = objects()
    m.k = 2.0

    def plain(x):
        return np.sum(x * m.k)

    def handled(x):
        with np.errstate(all="ignore"):
            try:
                return np.sum(np.linalg.solve(np.eye(2), x) * m.k)
            except (np.linalg.LinAlgError, ZeroDivisionError):
                return np.sum(x * m.k)

    x = np.ones(2)
    few, more = (
        len(ct.prepare(f, x).explain().specializations[0].guards) for f in (plain, handled)
    )
    assert more < few + 6


@pytest.mark.parametrize("attribute", ["w_{}", "w_{0}"])
@pytest.mark.parametrize("place", ["object", "class", "module"])
def test_names_that_are_put_together_are_looked_up(place, attribute):
    target = {"object": objects()[2], "class": objects()[1], "module": types.ModuleType("m")}[place]
    target.w_0 = 1.0

    def counted(x):
        n = 0
        while hasattr(target, attribute.format(n)):
            n += 1
        return x * n

    def summed(x):
        return x * sum(getattr(target, f"w_{i}", 0.0) for i in range(5))

    def listed(x):
        return x * sum(value for name, value in vars(target).items() if name[:2] == "w_")

    functions = counted, summed, listed
    prepared = [ct.prepare(f, 2.0) for f in functions]
    assert [g(2.0) for g in prepared] == 3 * [(1.0,)]
    target.w_1 = 4.0
    assert [g(2.0) for g in prepared] == [(2.0,), (5.0,), (5.0,)]
    target.w_1 = 9.0
    assert [g(2.0) for g in prepared] == [(2.0,), (10.0,), (10.0,)]


def test_a_dictionary_of_attributes_that_a_method_replaces_is_noticed():
    class Shared:
        def __init__(self, state):
            self.__dict__ = state

    m = Shared({"k": 1.0})
    g = ct.prepare(lambda x: x * m.k, 2.0)
    assert g(2.0) == (1.0,)
    m.__init__({"k": 5.0})
    assert g(2.0) == (5.0,)
