"""Prepared functions notice changes behind what functions hand on, and behind arguments."""

import collections
import functools
import itertools
import operator
import sys
import types

import numpy as np
import pytest

import cotan as ct

RATE = 1.0


class Box:
    """Holds one factor."""

    def __init__(self, factor=1.0):
        self.factor = factor

    def times(self, x):
        return x * self.factor


class Net:
    """What its methods read is no part of its structure."""

    scale = 1.0

    def __init__(self):
        self.weight = 1.0

    def __call__(self, x):
        return x * self.weight * self.scale * RATE


class Doubled(Net):
    def __call__(self, x):
        return 2 * super().__call__(x)


class Kept:
    """A descriptor that keeps its value itself."""

    def __init__(self):
        self.value = 1.0

    def __get__(self, owner, cls=None):
        return self.value


class Meta(type):
    def __len__(cls):
        return cls.size


class Sized(metaclass=Meta):
    size = 1


class Settings(collections.UserDict):
    pass


class Shown:
    def __init__(self):
        self.text = "1"

    def __str__(self):
        return self.text


class Attributes(dict):
    __getattr__ = dict.__getitem__


def set_rate(value=5.0):
    return lambda patch: patch.setitem(globals(), "RATE", value)


def change(owner, name, value=5.0):
    return lambda patch: patch.setattr(owner, name, value)


def put(owner, key=0, value=5.0):
    return lambda _: owner.__setitem__(key, value)


def times_rate(x):
    return x * RATE


def captured():
    """Give functions, and what changes behind them: x becomes 5 x."""
    table, row, box, net, shown = {"a": 1.0}, [1.0], Box(), Net(), Shown()
    settings, attributes, kept = Settings(a=1.0), Attributes(a=1.0), Kept()
    get, total, vector = table.get, np.array([1.0, 0.0]), np.vectorize(lambda a: a * RATE)
    summed, at, holder = total.sum, total.__getitem__, type("Holder", (), {"kept": kept})()
    ufunc = np.frompyfunc(lambda a: a * RATE, 1, 1)
    named = type("Named", (), {"value": property(operator.attrgetter("_value"))})()
    named._value = 1.0
    inner = ct.prepare(times_rate, transform="value")
    elsewhere = types.ModuleType("cotan_elsewhere")
    exec(
        "RATE = 1.0\nclass Made:\n    def go(self, x):\n        return x * RATE\n"
        "MADE = Made()\ndef build():\n    return Made()\ndef find():\n    return MADE\n",
        vars(elsewhere),
    )
    of_module = change(elsewhere, "RATE")
    return {
        "vectorize": (lambda x: vector(x).sum(), set_rate()),
        "frompyfunc": (lambda x: ufunc(x), set_rate()),
        "method of a dictionary": (lambda x: x * get("a"), put(table, "a")),
        "method of an array": (lambda x: x * summed(), put(total)),
        "operator of an array": (lambda x: x * at(0), put(total)),
        "method of a list": (lambda x, f=row.__getitem__: x * f(0), put(row)),
        "derived UserDict": (lambda x: x * settings["a"], put(settings, "a")),
        "attributes of a dictionary": (lambda x: x * attributes.a, put(attributes, "a")),
        "descriptor": (lambda x: x * holder.kept, change(kept, "value")),
        "property by a getter": (lambda x: x * named.value, change(named, "_value")),
        "method of a metaclass": (lambda x: x * float(len(Sized)), change(Sized, "size", 5)),
        "text of an object": (lambda x: x * float(str(shown)), change(shown, "text", "5")),
        "static method": (staticmethod(lambda x: x * RATE), set_rate()),
        "object that a module makes": (lambda x: elsewhere.build().go(x), of_module),
        "object that a module has": (lambda x: elsewhere.find().go(x), of_module),
        "method of the base": (
            lambda x: x * Doubled()(1.0) / 2,
            change(Net, "__call__", lambda self, x: 5 * x),
        ),
        "object in a partial": (
            functools.partial(lambda o, x: o.times(x), box),
            change(box, "factor"),
        ),
        "class attribute": (lambda x: net(x), change(Net, "scale")),
        "prepared function": (lambda x: inner(x), set_rate()),
    }


@pytest.mark.parametrize("name", captured())
def test_changes_behind_captured_objects(name, monkeypatch):
    f, alter = captured()[name]
    g = ct.prepare(f)
    assert g(2.0) == g(3.0) == (1.0,)
    alter(monkeypatch)
    assert g(2.0) == ct.gradient(f, 2.0) == (5.0,)


def arguments():
    """Give functions of x and an argument, that argument, and what changes behind it."""
    box, holder, call = Box(), types.SimpleNamespace(), lambda x, f: f(x)
    holder.times = box.times
    own = functools.partial(lambda row, x: x * row[0], [1.0])
    return {
        "function": (call, lambda x: x * RATE, set_rate()),
        "function in a dictionary": (
            lambda x, d: d["f"](x),
            {"f": lambda x: x * RATE},
            set_rate(),
        ),
        "bound method": (call, box.times, change(box, "factor")),
        "bound method in an object": (lambda x, h: h.times(x), holder, change(box, "factor")),
        "partial": (call, own, put(own.args[0])),
        "global of a method": (call, Net(), set_rate()),
        "class of an object": (call, Net(), change(Net, "scale")),
        "class": (lambda x, c: x * c.scale, Net, change(Net, "scale")),
        "method of a dictionary": (
            lambda x, get: x * get("a"),
            (table := {"a": 1.0}).get,
            put(table, "a"),
        ),
        "module": (lambda x, m: x * m.RATE, sys.modules[__name__], set_rate()),
        "class of a base": (lambda x, n: n(x) / 2, Doubled(), change(Net, "scale")),
    }


@pytest.mark.parametrize("constant", [False, True], ids=["wrt", "const"])
@pytest.mark.parametrize("name", arguments())
def test_changes_behind_arguments(name, constant, monkeypatch):
    f, argument, alter = arguments()[name]
    if constant:
        prepared = ct.prepare(f)
        g = lambda x: prepared(x, ct.const(argument))[0]
    else:
        prepared = ct.prepare(f, wrt="x")
        g = lambda x: prepared(x, argument)[0]
    assert g(2.0) == g(3.0) == 1.0
    assert prepared.num_recordings == 1
    alter(monkeypatch)
    assert g(2.0) == 5.0


class Numbered:
    """What happens where it is made is no part of a call."""

    ids = itertools.count()
    made = 0

    def __init__(self, weight):
        Numbered.made += 1
        next(self.ids)
        self.weight = weight

    def __call__(self, x):
        return x * self.weight


def test_how_arguments_were_made_does_not_count():
    g = ct.prepare(lambda x, layer: layer(x))
    assert [g(2.0, Numbered(w))[0] for w in (1.0, 2.0, 3.0)] == [1.0, 2.0, 3.0]
    assert g.num_recordings == 1


def test_a_module_that_answers_every_name_is_not_asked():
    class Lazy(types.ModuleType):
        weight = 3.0

        def __getattr__(self, name):
            raise RuntimeError(name)

    g = ct.prepare(lambda x, m: x * m.weight)
    assert g(2.0, ct.const(Lazy("lazy")))[0] == 3.0


def test_other_objects_of_a_class_are_not_recorded_anew():
    g = ct.prepare(lambda x, net: net(x))
    for weight in (1.0, 2.0, 3.0):
        net = Net()
        net.weight = weight
        assert g(2.0, net)[0] == weight
    assert g.num_recordings == 1


def test_other_defaults_of_keywords():
    def helper(x, *, rate=2.0):
        return np.sum(x) * rate

    g = ct.prepare(lambda x: helper(x))
    assert g(np.ones(1))[0][0] == 2.0
    helper.__kwdefaults__ = {"rate": 5.0}
    assert g(np.ones(1))[0][0] == 5.0
    helper.__kwdefaults__["rate"] = 7.0
    assert g(np.ones(1))[0][0] == 7.0


def test_modules_that_are_asked_for_by_name_are_those_of_programs(monkeypatch):
    settings = types.ModuleType("cotan_reached_settings")
    settings.rate = 2.0
    monkeypatch.setitem(sys.modules, settings.__name__, settings)

    def f(x):
        if "a_module_that_nobody_has" in sys.modules:
            return x
        return x * sys.modules["cotan_reached_settings"].rate

    g = ct.prepare(f, 1.0)
    monkeypatch.setitem(sys.modules, "imported_meanwhile", types.ModuleType("imported_meanwhile"))
    assert (g(1.0), g.num_recordings) == ((2.0,), 1)
    settings.rate = 3.0
    assert (g(1.0), g.num_recordings) == ((3.0,), 2)
