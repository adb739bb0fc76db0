"""Prepared functions: changes around them are noticed, and rows are where they were."""

import builtins
import ctypes
import functools
import io
import math
import operator
import os
import queue
import random
import sys
import threading
import types
import weakref
from collections import ChainMap, UserDict, deque
from contextvars import ContextVar

import numpy as np
import pytest

import cotan as ct


class Settings:
    factor = 1.0
    __slots__ = ("__dict__", "slot")

    @classmethod
    def scaled(cls, x):
        return cls.factor * x

    @staticmethod
    def act(x):
        return x


def attributed(x):
    return x * attributed.factor


def with_default(x, factor=1.0):
    return x * factor


def changes():
    """Functions of x, and changes after which they give 5 x."""
    thing, cls = Settings(), type("Mine", (Settings,), {"__slots__": ()})
    mine = cls()
    thing.slot = 1.0
    thing.plain = 1.0
    attributed.factor = 1.0
    with_default.__defaults__ = (1.0,)
    words, numbers, group, queue = {"a": 1.0}, {1: 1.0}, {1}, deque([1.0])
    return {
        "attribute of a class": (lambda x: x * mine.factor, lambda: setattr(cls, "factor", 5.0)),
        "class method": (lambda x: mine.scaled(x), lambda: setattr(cls, "factor", 5.0)),
        "static method": (
            lambda x: mine.act(x),
            lambda: setattr(cls, "act", staticmethod(lambda x: 5 * x)),
        ),
        "slot": (lambda x: x * thing.slot, lambda: setattr(thing, "slot", 5.0)),
        "literal name": (
            lambda x: x * vars(thing)["plain"],
            lambda: setattr(thing, "plain", 5.0),
        ),
        "attribute that appears": (
            lambda x: 5 * x if hasattr(thing, "late") else x,
            lambda: setattr(thing, "late", 1),
        ),
        "attribute of a function": (attributed, lambda: setattr(attributed, "factor", 5.0)),
        "default": (
            lambda x: with_default(x),
            lambda: setattr(with_default, "__defaults__", (5.0,)),
        ),
        "new key": (lambda x: sum(x * v for v in words.values()), lambda: words.update(b=4.0)),
        "number as key": (lambda x: x * numbers[1], lambda: numbers.update({1: 5.0})),
        "set": (lambda x: x * len(group), lambda: group.update((2, 3, 4, 5))),
        "deque": (lambda x: x * queue[0], lambda: queue.__setitem__(0, 5.0)),
    }


class Thing:
    """What is called by operators and loops, and finds attributes in its own way."""

    def __init__(self):
        self.inner = {"factor": 1.0}
        self.items = [1.0]

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self.inner[name]

    def __iter__(self):
        return iter(self.items)

    def __mul__(self, other):
        return self.items[0] * other


class Found:
    def __get__(self, thing, cls=None):
        return thing.inner["factor"]


class Described(Thing):
    found = Found()


class Plain:
    factor = 1.0


FACTOR = [1.0]


class Calls:
    def outer(self):
        return self.inner()

    def inner(self):
        return FACTOR[0]


@functools.cache
def looked_up():
    return FACTOR


@functools.singledispatch
def by_class(x):
    return x * FACTOR[0]


def with_keyword(x, *, factor=1.0):
    return x * factor


def replaced(x):
    return x


def imports(x):
    import cotan_settings

    return x * cotan_settings.factor


class Meta(type):
    """What classes find on their class, and what that does when they are called or indexed."""

    shared = 1.0

    def __getattr__(cls, name):
        if name == "late":
            return FACTOR[0]
        raise AttributeError(name)

    def __getitem__(cls, key):
        return FACTOR[0]

    def __call__(cls):
        made = super().__call__()
        made.factor = FACTOR[0]
        return made


class Made(metaclass=Meta):
    pass


class Five:
    factor = 5.0


def powered(x):
    return pow(x, 1)


class Pair(ctypes.Structure):
    _fields_ = (("a", ctypes.c_double),)


def by_globals(x):
    return x * globals().get("COTAN_LATE", 1.0)


calls = Calls()
setting = ContextVar("setting", default=1.0)
by_name = operator.attrgetter("factor")


def more_changes(tmp_path, monkeypatch):
    """As `changes`, for what is reached in less plain ways."""
    thing, described, cls = Thing(), Described(), type("Own", (Plain,), {})
    objects = [Plain() for _ in range(3000)]
    inside, user = {"a": 1.0}, UserDict(a=1.0)
    words = types.MappingProxyType(inside)
    number, memory, keeps = ctypes.c_double(1.0), bytearray(b"\1"), Plain()
    view, ref, queue, group = memoryview(memory), weakref.ref(keeps), deque([Plain()]), {Plain()}
    named, listed = type("Named", (dict,), {})(), type("Listed", (list,), {})([Plain()])
    named.extra = 1.0
    strings, boxes = np.array(["1"]), np.array([1.0, None], object)
    small, record = np.array([1], np.int16), np.rec.array([(1.0,)], dtype=[("a", float)])
    mapped = np.memmap(tmp_path / "m", float, "w+", shape=(1,))
    mapped[:] = record.a[:] = 1.0
    module = types.ModuleType("cotan_settings")
    module.factor = FACTOR[0] = with_keyword.__kwdefaults__["factor"] = 1.0
    monkeypatch.setitem(sys.modules, "cotan_settings", module)
    monkeypatch.setenv("COTAN_FACTOR", "1")
    replaced.__code__ = (lambda x: x).__code__
    setting.set(1.0)
    monkeypatch.setattr(np, "cotan_factor", 1.0, raising=False)
    monkeypatch.setattr(math, "cotan_factor", [1.0], raising=False)
    monkeypatch.setattr(Meta, "shared", 1.0)
    partly, state, lazy = functools.partial(with_keyword, factor=1.0), Plain(), {"late": 1.0}
    module.__getattr__ = lambda name: lazy[name]
    numbers_of_c = (ctypes.c_double * 2)(1.0, 2.0)
    long = [[float(i)] for i in range(3000)]
    long[2500][0] = 1.0
    pair, locked, event = Pair(1.0), np.ones(2), threading.Event()
    weak, weak_set = weakref.WeakValueDictionary(a=keeps), weakref.WeakSet()
    viewed, chained = {"a": 1.0}, ChainMap({"a": 1.0})
    shown, abstract = viewed.values(), chained.items()
    monkeypatch.delitem(globals(), "COTAN_LATE", raising=False)
    for owner in (np, by_globals):
        monkeypatch.setattr(owner, "cotan_late", 1.0, raising=False)
        monkeypatch.delattr(owner, "cotan_late")

    def put(container, key=0, value=5.0):
        return lambda: container.__setitem__(key, value)

    def five(owner, name="factor"):
        return lambda: setattr(owner, name, 5.0)

    return {
        "class": (lambda x: x * cls.factor, five(cls)),
        "class that it is made of": (lambda x: x * cls.factor, five(Plain)),
        "object made inside": (lambda x: x * Calls().outer(), put(FACTOR)),
        "method that a method calls": (lambda x: x * calls.outer(), put(FACTOR)),
        "__getattr__": (lambda x: x * thing.factor, put(thing.inner, "factor")),
        "__iter__": (lambda x: x * sum(thing), put(thing.items)),
        "__mul__": (lambda x: thing * x, put(thing.items)),
        "descriptor": (lambda x: x * described.found, put(described.inner, "factor")),
        "computed name": (lambda x: x * getattr(keeps, "FACTOR".lower()), five(keeps)),
        "attrgetter": (lambda x: x * by_name(keeps), five(keeps)),
        "values of vars": (lambda x: x * next(iter(vars(named).values())), five(named, "extra")),
        "attribute of a dict": (lambda x: x * named.extra, five(named, "extra")),
        "object in a kind of list": (lambda x: x * listed[0].factor, five(listed[0])),
        "object in a deque": (lambda x: x * queue[0].factor, five(queue[0])),
        "object in a set": (lambda x: x * next(iter(group)).factor, five(next(iter(group)))),
        "the last of many": (lambda x: x * objects[2999].factor, five(objects[2999])),
        "the last of many lists": (lambda x: x * long[2500][0], put(long[2500])),
        "mapping proxy": (lambda x: x * words["a"], put(inside, "a")),
        "UserDict": (lambda x: x * user["a"], put(user, "a")),
        "weak reference": (lambda x: x * ref().factor, five(keeps)),
        "number of C": (lambda x: x * number.value, five(number, "value")),
        "memoryview": (lambda x: x * view[0], put(memory, 0, 5)),
        "ContextVar": (lambda x: x * setting.get(), lambda: setting.set(5.0)),
        "environment": (
            lambda x: x * float(os.environ["COTAN_FACTOR"]),
            put(os.environ, "COTAN_FACTOR", "5"),
        ),
        "environment by getenv": (
            lambda x: x * float(os.getenv("COTAN_FACTOR", "")),
            put(os.environ, "COTAN_FACTOR", "5"),
        ),
        "module that is imported inside": (imports, five(module)),
        "cached function": (lambda x: x * looked_up()[0], put(FACTOR)),
        "function by class": (lambda x: by_class(x), put(FACTOR)),
        "another function by class": (
            lambda x: by_class(x),
            lambda: by_class.register(object, lambda x: 5 * x),
        ),
        "default of a keyword": (
            lambda x: with_keyword(x),
            put(with_keyword.__kwdefaults__, "factor"),
        ),
        "code that is reloaded": (
            lambda x: replaced(x),
            lambda: setattr(replaced, "__code__", (lambda x: 5 * x).__code__),
        ),
        "memmap": (lambda x: x * mapped[0], put(mapped)),
        "records": (lambda x: x * record.a[0], put(record.a)),
        "strings": (lambda x: x * float(strings[0]), put(strings, 0, "5")),
        "objects": (lambda x: x * boxes[0], put(boxes)),
        "small integers": (lambda x: x * int(small[0]), put(small, 0, 5)),
        "set on a library": (lambda x: x * np.cotan_factor, five(np, "cotan_factor")),
        "list on a library": (lambda x: x * math.cotan_factor[0], put(math.cotan_factor)),
        "metaclass": (lambda x: x * Made.shared, five(Meta, "shared")),
        "__getattr__ of a metaclass": (lambda x: x * Made.late, put(FACTOR)),
        "__getitem__ of a metaclass": (lambda x: x * Made["a"], put(FACTOR)),
        "__call__ of a metaclass": (lambda x: x * Made().factor, put(FACTOR)),
        "class of an object": (
            lambda x: x * state.factor,
            lambda: setattr(state, "__class__", Five),
        ),
        "name that hides a builtin": (
            powered,
            lambda: monkeypatch.setitem(globals(), "pow", lambda x, _: 5 * x),
        ),
        "builtin": (
            lambda x: abs(x),
            lambda: monkeypatch.setattr(builtins, "abs", lambda x: 5 * x),
        ),
        "__getattr__ of a module": (lambda x: x * module.late, put(lazy, "late")),
        "keyword of a partial function": (
            lambda x: partly(x),
            put(partly.keywords, "factor"),
        ),
        "structure of C": (lambda x: x * pair.a, five(pair, "a")),
        "array of C": (lambda x: x * numbers_of_c[0], put(numbers_of_c)),
        "flags": (
            lambda x: x * (1.0 if locked.flags.writeable else 5.0),
            lambda: locked.setflags(write=False),
        ),
        "weak dictionary": (lambda x: x * weak["a"].factor, five(keeps)),
        "view of a dictionary": (lambda x: x * next(iter(shown)), put(viewed, "a")),
        "view of another mapping": (
            lambda x: x * sum(v for _, v in abstract),
            put(chained, "a"),
        ),
        "weak set": (
            lambda x: x * (5.0 if len(weak_set) > 0 else 1.0),
            lambda: weak_set.add(thing),
        ),
        "event": (lambda x: x * (5.0 if event.is_set() else 1.0), event.set),
        "late on a library": (
            lambda x: x * getattr(np, "cotan_late", 1.0),
            five(np, "cotan_late"),
        ),
        "late on a function": (
            lambda x: x * getattr(by_globals, "cotan_late", 1.0),
            five(by_globals, "cotan_late"),
        ),
        "late among the globals": (by_globals, put(globals(), "COTAN_LATE")),
        "environment by expandvars": (
            lambda x: x * float(os.path.expandvars("$COTAN_FACTOR")),
            put(os.environ, "COTAN_FACTOR", "5"),
        ),
    }


MORE = """class; class that it is made of; object made inside; method that a method calls;
__getattr__; __iter__; __mul__; descriptor; computed name; attrgetter; values of vars;
attribute of a dict; object in a kind of list; object in a deque; object in a set; the last of many;
the last of many lists; mapping proxy; UserDict; weak reference; number of C; memoryview;
ContextVar; environment; environment by getenv;
module that is imported inside; cached function;
function by class; another function by class; default of a keyword; code that is reloaded; memmap;
records; strings; objects; small integers; set on a library; list on a library; metaclass;
__getattr__ of a metaclass; __getitem__ of a metaclass; __call__ of a metaclass; class of an object;
name that hides a builtin; builtin; __getattr__ of a module; keyword of a partial function;
structure of C; array of C; flags; weak dictionary; view of a dictionary; view of another mapping;
weak set; event; late on a library;
late on a function; late among the globals; environment by expandvars"""


@pytest.mark.parametrize("name", [name.strip() for name in MORE.split(";")])
def test_changes_in_less_plain_places_are_noticed(name, tmp_path, monkeypatch):
    monkeypatch.setattr(Plain, "factor", 1.0)
    f, change = more_changes(tmp_path, monkeypatch)[name]
    by_class.register(object, lambda x: x * FACTOR[0])
    g = ct.prepare(f, 1.0)
    assert g(2.0) == g(3.0) == (1.0,)
    change()
    assert g(2.0) == (5.0,)
    assert ct.gradient(f, 2.0) == (5.0,)


def test_each_of_them_is_tested(tmp_path, monkeypatch):
    assert list(more_changes(tmp_path, monkeypatch)) == [name.strip() for name in MORE.split(";")]


def test_functions_that_ask_one_object_for_different_attributes():
    shared = types.SimpleNamespace(first=1.0, second=1.0, inner=types.SimpleNamespace(third=1.0))

    def inner(x):
        return x * shared.second

    def innermost(x):
        return inner(x) * shared.inner.third

    def innermost_of_all(x):
        return x

    innermost_of_all.factor = 1.0

    def outer(x):
        return innermost(x) * shared.first * innermost_of_all.factor

    g = ct.prepare(outer, 1.0)
    places = [(shared, "first"), (shared, "second"), (shared.inner, "third")]
    for n, (owner, name) in enumerate([*places, (innermost_of_all, "factor")], 1):
        setattr(owner, name, 2.0)
        assert g(1.0) == (2.0**n,), name


def test_more_than_can_be_watched_is_refused():
    lists = [[i] for i in range(100_001)]
    with pytest.raises(TypeError, match="more than 100,000 objects"):
        ct.prepare(lambda x: x * lists[0][0], 1.0)


@pytest.mark.parametrize("name", changes())
def test_changes_are_noticed(name):
    f, change = changes()[name]
    g = ct.prepare(f, 1.0)
    assert g(2.0) == (1.0,)
    change()
    assert g(2.0) == (5.0,)
    assert ct.gradient(f, 2.0) == (5.0,)


def counts_globals(x):
    globals()["COTAN_CALLS"] = globals().get("COTAN_CALLS", 0) + 1
    return x * COTAN_CALLS  # noqa: F821


def counts_itself(x):
    counts_itself.calls = getattr(counts_itself, "calls", 0) + 1
    return x * counts_itself.calls


def test_changes_in_less_plain_places_are_refused_while_recording():
    waiting, system = queue.Queue(), random.SystemRandom()
    for _ in range(4):
        waiting.put(1.0)
    for f in (counts_globals, counts_itself, lambda x: x * waiting.get()):
        with pytest.raises(TypeError, match="prepare: the function changes"):
            ct.prepare(f, 1.0)
    with pytest.raises(TypeError, match=r"draws random numbers \(random.SystemRandom\)"):
        ct.prepare(lambda x: x * system.random(), 1.0)


def test_iterators_from_outside_are_refused():
    numbers = iter([1.0, 2.0])
    with pytest.raises(TypeError, match="iterator from outside"):
        ct.prepare(lambda x: x * next(numbers), 1.0)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_rows_with_an_element_for_each_row(dtype):
    column = np.array([[1.0], [10.0], [100.0]]).astype(dtype)
    x = np.array([[0.0, 1.0], [2.0, 3.0], [5.0, 4.0]]).astype(dtype)

    def f(x):
        return np.sum((column * np.log(np.sum(np.exp(x), axis=-1, keepdims=True))).real)

    g = ct.prepare(f)
    for factor in (1, 2, 3):
        got, want = g(factor * x)[0], ct.gradient(f, factor * x)[0]
        np.testing.assert_allclose(got, want, rtol=1e-5)


def test_files_from_outside_may_be_held_but_not_read():
    file = io.StringIO("1\n2\n")
    held = types.SimpleNamespace(file=file, factor=2.0)
    assert ct.prepare(lambda x: x * held.factor * bool(held.file), 3.0)(3.0) == (2.0,)
    with pytest.raises(TypeError, match="the place in a file"):
        ct.prepare(lambda x: x * len(held.file.readline()), 3.0)


@pytest.mark.parametrize(
    "caught", [Exception, AttributeError, (TypeError, AttributeError)], ids=str
)
def test_attributes_that_appear_where_their_absence_is_caught(caught):
    held = types.SimpleNamespace()

    def f(x):
        try:
            factor = held.appears
        except caught:
            factor = 2.0
        return x * factor

    g = ct.prepare(f, 3.0)
    assert g(3.0) == (2.0,)
    held.appears = 7.0
    assert g(3.0) == (7.0,)


def test_a_variable_that_holds_a_library():
    library = np

    def f(x):
        return library.sum(library.sin(x))

    g = ct.prepare(f, np.ones(2))
    np.testing.assert_array_equal(g(np.ones(2))[0], np.cos(np.ones(2)))
    library = types.SimpleNamespace(sum=np.sum, sin=np.exp)
    np.testing.assert_allclose(g(np.ones(2))[0], np.exp(np.ones(2)))


def test_a_global_that_holds_a_library():
    names = {"np": np, "library": np}
    exec("def f(x):\n    return np.sum(library.sin(x))", names)
    g = ct.prepare(names["f"], np.ones(2))
    names["library"] = types.SimpleNamespace(sin=np.exp)
    np.testing.assert_allclose(g(np.ones(2))[0], np.exp(np.ones(2)))
