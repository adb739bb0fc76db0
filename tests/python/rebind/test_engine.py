"""Rebinding: a library's own Python code, run with other names in place of its own."""

import builtins
import importlib
import inspect

import numpy as np
import pytest
import scipy.integrate
import scipy.interpolate
import scipy.ndimage
import scipy.signal

import cotan as ct
from cotan import _core
from cotan._src.rebind import engine
from cotan._src.runtime.registry import Way

X = np.linspace(0.1, 0.9, 7)

FUNCTIONS = [
    "scipy.integrate.simpson",
    "scipy.interpolate.lagrange",
    "scipy.linalg.companion",
    "scipy.signal.detrend",
    "scipy.signal.welch",
]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_rebound_function_is_the_librarys_but_for_its_names(name):
    original = engine.locate(name)
    rebound = engine.rebind_function(original)
    assert rebound is not original
    for same in ("__name__", "__qualname__", "__module__", "__doc__", "__code__", "__defaults__",
                 "__kwdefaults__"):  # fmt: skip
        assert getattr(rebound, same) == getattr(engine.original_of(original), same), same
    assert list(inspect.signature(rebound).parameters) == list(
        inspect.signature(original).parameters
    )
    assert original.__globals__ is vars(importlib.import_module(original.__module__))
    assert rebound.__globals__ is not original.__globals__


def test_a_function_is_rebound_once():
    original = engine.locate("scipy.integrate.simpson")
    assert engine.rebind_function(original) is engine.rebind_function(original)
    assert engine.rebound_by_name("scipy.integrate.simpson") is engine.rebind_function(original)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("scipy.integrate.simpson", {"dx": 0.5}),
        ("scipy.integrate.simpson", {"x": np.sin(X[:5])}),
        ("scipy.integrate.romb", {}),
        ("scipy.linalg.companion", {}),
    ],
)
def test_it_gives_for_arrays_what_the_library_gives(name, arguments):
    x = np.linspace(0.1, 0.9, 5)
    rebound = engine.rebound_by_name(name)
    given = rebound(_core.array(x), **arguments)
    assert isinstance(given, _core.Array)
    np.testing.assert_allclose(given, engine.locate(name)(x, **arguments), rtol=1e-14)


def test_messages_are_the_librarys():
    with pytest.raises(ValueError, match="power of 2") as ours:
        engine.rebound_by_name("scipy.integrate.romb")(_core.array(X[:4]))
    with pytest.raises(ValueError, match="power of 2") as theirs:
        scipy.integrate.romb(X[:4])
    assert str(ours.value) == str(theirs.value)


def test_names_are_looked_up_when_they_are_used():
    names = engine.rebind_function(engine.locate("scipy.integrate.romb")).__globals__
    assert names["__name__"] == "scipy.integrate._quadrature"
    assert isinstance(names["np"], engine.Namespace)
    assert names["np"] is engine.namespace(np)
    with pytest.raises(KeyError):
        names["no_such_name"]
    assert names["__builtins__"]["len"] is builtins.len


def test_functions_in_closures_are_rebound_and_classes_of_methods_are_not():
    cls = scipy.interpolate.BarycentricInterpolator
    ct.gradient(lambda x: x, 1.0)  # the twin is kept, so it needs the rows of the class
    twin = engine.rebound_class(cls)
    assert issubclass(twin, cls)
    assert (twin.__name__, twin.__qualname__, twin.__doc__) == (
        cls.__name__, cls.__qualname__, cls.__doc__,
    )  # fmt: skip
    assert engine.rebound_class(cls) is twin
    assert engine.rebound_class(twin) is twin
    original = engine.original_of(vars(cls)["__init__"])
    assert vars(twin)["__init__"].__code__ is original.__code__


def test_what_is_no_librarys_stays_as_it_is():
    def of_the_user():
        return np.sin

    for value in (of_the_user, 3.0, "text", None, importlib):
        assert engine.substitute_for(value) is value


# --------------------------------------------------------------------------------------------------
# Rules made from a target's name


def test_a_refusal_names_the_function_and_what_to_write():
    maker = engine.refused("use firls")
    assert maker.way is Way.REFUSED
    rule = maker.make("scipy.signal.medfilt")
    wanted = r"scipy\.signal\.medfilt has no derivative rule in cotan; use firls, or hold"
    with pytest.raises(ct.NotDifferentiableError, match=wanted):
        ct.gradient(lambda x: np.sum(rule(x)), X)
    with pytest.raises(ct.NotDifferentiableError, match=wanted):
        ct.gradient(lambda x: np.sum(rule(volume=[x, x])), X)


def test_a_refused_function_computes_of_constants():
    rule = engine.refused("use firls").make("scipy.signal.medfilt")
    np.testing.assert_array_equal(rule(X), scipy.signal.medfilt(X))
    np.testing.assert_array_equal(rule(_core.array(X), 5), scipy.signal.medfilt(X, 5))
    (gradient,) = ct.gradient(lambda x: np.sum(x * rule(ct.dropgrad(x))), X)
    np.testing.assert_array_equal(gradient, scipy.signal.medfilt(X))


def test_public_functions_are_refused_by_name():
    with pytest.raises(ct.NotDifferentiableError, match=r"scipy\.signal\.remez has no derivative"):
        ct.gradient(lambda b: np.sum(scipy.signal.remez(9, b, [1, 0], fs=2.0)), X[:4])


def test_the_original_writes_to_arrays():
    out = _core.array(np.zeros(7))
    given = engine.call_original(
        "scipy.ndimage.median_filter", (_core.array(X), 3), {"output": out}
    )
    np.testing.assert_array_equal(out, scipy.ndimage.median_filter(X, 3))
    assert given is None or given is out


# --------------------------------------------------------------------------------------------------
# Arrays among arguments


@pytest.mark.parametrize(
    ("make", "is_there"),
    [
        (lambda x: (x,), True),
        (lambda x: (1.0, [2.0, (x,)]), True),
        (lambda x: {"key": [x]}.values(), True),
        (lambda x: (), False),
        (lambda x: (1.0, X, "text", [X]), False),
        (lambda x: ({"key": x},), False),
    ],
    ids=["itself", "lists", "values", "nothing", "constants", "dictionaries"],
)
def test_arrays_among_items(make, is_there):
    x = _core.array(X)
    assert engine.contains_unmasked_array(make(x)) is is_there
    assert _core.contains_array(tuple(make(x)), {}) is is_there


def test_masked_arrays_among_items_are_refused():
    masked = np.ma.masked_array(X, X > 0.5)
    assert not _core.contains_array((masked,), {})
    with pytest.raises(TypeError, match="would lose its mask"):
        engine.contains_unmasked_array((masked, _core.array(X)))
    assert engine.contains_unmasked_array((_core.array(X), masked))
