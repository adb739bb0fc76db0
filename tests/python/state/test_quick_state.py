"""Tests of the state that simple functions can change, found without a walk."""
# ruff: noqa: PLW0603

import functools
import random
import sys
import types

import numpy as np
import pytest
from scipy import integrate, optimize

import cotan as ct
from cotan._src.state.quick_state import QuickState

LEVEL = 2.0
COUNTS = {"calls": 0}
TABLE = np.array([1.0, 2.0])


def central(f, at, step=1e-6):
    return (f(at + step) - f(at - step)) / (2 * step)


def same_global(x):
    return x * np.exp(x) - LEVEL


def counting(x):
    COUNTS["calls"] += 1
    return x - 1.0


def rebinding(x):
    global LEVEL
    LEVEL = x
    return x


def with_attribute(x):
    with_attribute.last = x
    return x


def event(x):
    return x - 1.0


event.terminal = True


def drawing(x):
    return x + random.random()


def calling(x):
    return same_global(x) + np.sum(TABLE)


def captured(value):
    return lambda x: x + np.sum(value)


class Model:
    scale = 1.0

    def __call__(self, x):
        return self.scale * x


@pytest.mark.parametrize(
    "function",
    [same_global, counting, calling, event, np.sin, captured(1.0), captured(np.ones(3)),
     captured([1.0]), captured({"a": 2.0, "b": [np.ones(2)]}), captured((1.0, "text", None)),
     lambda x, a=TABLE, *, b=2.0: a * x + b],
)  # fmt: skip
def test_simple_functions_are_looked_through(function):
    assert QuickState.of(function) is not None


@pytest.mark.parametrize(
    "function",
    [rebinding, with_attribute, drawing, Model(), Model().__call__, captured(Model()),
     captured(iter([1.0])), captured(np.array([[1.0], None], object)), captured(np.zeros(300_000)),
     captured(np.random.default_rng(0)), captured(list(range(100))), random.random],
)  # fmt: skip
def test_whatever_may_keep_more_is_left_to_the_walk(function):
    assert QuickState.of(function) is None


def test_a_function_that_assigns_a_captured_variable_is_left_to_the_walk():
    total = 0.0

    def adding(x):
        nonlocal total
        total += x
        return x

    assert QuickState.of(adding) is None


def test_a_module_of_the_user_is_left_to_the_walk():
    home = types.ModuleType("settings")
    home.level = 1.0
    assert QuickState.of(types.FunctionType((lambda x: home.level * x).__code__, {"home": home},
                                            closure=(types.CellType(home),))) is None  # fmt: skip
    assert QuickState.of(eval("lambda x: home.level", {"home": home})) is None
    assert QuickState.of(eval("lambda x: sys.maxsize", {"sys": sys})) is not None


@pytest.mark.parametrize("change", ["array", "view", "list", "dict", "order", "key", "attribute"])
def test_what_changes_is_seen_and_restored(change):
    array, items, pairs = np.arange(4.0), [1.0, 2.0], {"a": 1.0, "b": 2.0}
    view = np.zeros((3, 4))[:, ::2]
    function = lambda x: x + array[0] + items[0] + pairs["a"] + view[0, 0]
    function.terminal = True
    state = QuickState.of(function)
    assert state is not None
    assert not state.has_changed()
    assert not state.restore()
    if change == "array":
        array[2] = np.nan
    elif change == "view":
        view[1, 1] = -0.0
    elif change == "list":
        items[0] = 1.5
    elif change == "dict":
        pairs["b"] = 3.0
    elif change == "order":
        pairs["a"] = pairs.pop("a")
    elif change == "attribute":
        function.terminal = 2
    else:
        pairs["c"] = 3.0
    assert state.has_changed()
    assert state.restore()
    assert not state.has_changed()
    np.testing.assert_array_equal(array, np.arange(4.0))
    assert not np.signbit(view).any()
    assert items == [1.0, 2.0]
    assert list(pairs.items()) == [("a", 1.0), ("b", 2.0)]
    assert function.terminal is True


# --------------------------------------------------------------------------------------------------
# Solvers


def root_of(level):
    return optimize.brentq(lambda x: x * np.exp(x) - level, 0.0, 5.0)


def test_a_global_variable_that_changes_between_calls():
    global LEVEL

    def root(p):
        return optimize.brentq(lambda x: p * x - LEVEL, -50.0, 50.0)

    found = []
    for level in (2.0, 3.0, 2.0):
        LEVEL = level
        found.append(ct.value_and_gradient(root, 0.5)[1][0])
    LEVEL = 2.0
    np.testing.assert_allclose(found, [-8.0, -12.0, -8.0], rtol=1e-10)


def test_a_root_is_the_solvers_own_to_the_last_bit():
    value, (slope,) = ct.value_and_gradient(root_of, 2.0)
    assert value == root_of(2.0)
    assert slope == pytest.approx(central(root_of, 2.0), rel=1e-7)


@pytest.mark.parametrize("kind", [list, np.array, lambda y: np.array(y)[0]])
def test_forms_of_one_equation(kind):
    def root(p):
        return optimize.newton(lambda x: kind([x**3 - p])[0] if kind is list else
                               np.ravel(kind([x**3 - p]))[0], 1.0)  # fmt: skip

    _, (slope,) = ct.value_and_gradient(root, 2.0)
    assert slope == pytest.approx(2.0 ** (-2 / 3) / 3, rel=1e-9)


def test_a_root_without_a_slope_is_refused():
    def flat(p):
        return optimize.bisect(lambda x: (x - p) ** 3, -1.0, 3.0)

    with pytest.raises(ValueError, match="singular at the solution"):
        ct.gradient(flat, 1.0)


def test_a_search_that_stopped_early_is_refused():
    def early(p):
        return optimize.bisect(lambda x: x**3 - p, 0.0, 5.0, xtol=1.0)

    with pytest.raises(ValueError, match="stopped before it reached a solution"):
        ct.gradient(early, 2.0)


def test_counts_and_texts_are_those_of_scipy(capsys):
    log = []

    def root(p):
        def equation(x):
            log.append(float(ct.dropgrad(x)))
            return p * x - 1.0

        return optimize.brentq(equation, 0.0, 5.0)

    root(0.5)
    plain = log[:]
    log.clear()
    _, (slope,) = ct.value_and_gradient(root, 0.5)
    assert log == plain
    assert slope == pytest.approx(-4.0, rel=1e-9)

    def telling(p):
        def equation(x):
            print("called")
            return p * x - 1.0

        return optimize.brentq(equation, 0.0, 5.0)

    telling(0.5)
    alone = capsys.readouterr().out
    ct.gradient(telling, 0.5)
    # The equation is recorded once, and its slope taken once.
    assert capsys.readouterr().out.count("called") == alone.count("called") + 2


def test_the_error_of_a_function_is_its_own():
    def root(p):
        def equation(x):
            if x > 1.0:
                raise ZeroDivisionError("nothing beyond 1")
            return p * x - 10.0

        return optimize.brentq(equation, 0.0, 5.0)

    with pytest.raises(ZeroDivisionError, match="nothing beyond 1"):
        ct.gradient(root, 0.5)


def test_branches_on_values():
    def root(p):
        def equation(x):
            return p * x - 1.0 if x < 1.0 else p**2 * x - 1.0

        return optimize.brentq(equation, 0.0, 20.0)

    for at, slope in ((2.0, -0.25), (0.5, -16.0)):
        _, (found,) = ct.value_and_gradient(root, at)
        assert found == pytest.approx(slope, rel=1e-9)


def test_a_table_that_the_function_writes_to_is_as_scipy_leaves_it():
    def root(p):
        seen = np.zeros(2)

        def equation(x):
            seen[0] += 1.0
            return p * x - 1.0

        found = optimize.brentq(equation, 0.0, 5.0)
        return found * seen[0]

    value, (slope,) = ct.value_and_gradient(root, 0.5)
    assert value == root(0.5)
    assert slope == pytest.approx(-4.0 * value / 2.0, rel=1e-9)


def test_an_array_that_is_differentiated_and_written_to():
    def root(p):
        def equation(x):
            y = p[0] * x - p[1]
            p[1] = p[1]
            return y

        return optimize.brentq(equation, 0.0, 5.0)

    _, (slope,) = ct.value_and_gradient(root, np.array([0.5, 1.0]))
    np.testing.assert_allclose(slope, [-4.0, 2.0], rtol=1e-9)


@pytest.mark.parametrize("n", [1, 2, 20, 50])
def test_systems_of_several_sizes(n):
    start, weights = np.linspace(0.5, 1.5, n), np.linspace(1.0, 2.0, n)

    def total(p):
        def equations(v):
            left = np.concatenate([[0.0], v[:-1]])
            return v**3 + 0.2 * left - p * weights

        return np.sum(weights * optimize.fsolve(equations, start, xtol=1e-13))

    _, (slope,) = ct.value_and_gradient(total, 1.3)
    assert slope == pytest.approx(central(total, 1.3), rel=1e-7)


def test_an_integral_whose_integrand_reads_a_dictionary():
    values = {"rate": 0.7, "names": ["x", "y"]}

    def area(p):
        rates = {**values, "scale": p}
        f = lambda x: rates["scale"] ** 2 * np.exp(-rates["rate"] * x)
        return integrate.quad(f, 0.0, 3.0)[0]

    _, (slope,) = ct.value_and_gradient(area, 1.5)
    assert slope == pytest.approx(central(area, 1.5), rel=1e-7)


def test_a_decorator_that_gives_its_function_the_name_of_a_librarys():
    def memo(function):
        cache = {}

        @functools.wraps(function)
        def call(a):
            key = np.asarray(ct.dropgrad(a)).tobytes()
            if key not in cache:
                cache[key] = function(a)
            return cache[key]

        return call

    globals()["norm"] = memo(np.linalg.norm)

    def root(p):
        return optimize.brentq(lambda x: norm(np.array([x, p])) - 3.0, 0.0, 5.0)  # noqa: F821

    value, (slope,) = ct.value_and_gradient(root, 2.0)
    assert value == pytest.approx(np.sqrt(5.0))
    assert slope == pytest.approx(-2.0 / np.sqrt(5.0), rel=1e-9)


def test_what_has_not_changed_is_left_alone():
    """Other threads may be reading a dictionary, so it is not filled anew."""
    table = {n: float(n) for n in range(1000)}
    for n in range(3, 1000):
        del table[n]
    state = QuickState.of(lambda x: x * table[1])
    room = sys.getsizeof(table)
    assert not state.restore()
    assert sys.getsizeof(table) == room
    table[1] = 5.0
    assert state.restore()
    assert table == {0: 0.0, 1: 1.0, 2: 2.0}


def test_objects_of_scipy_are_looked_through():
    memory = np.zeros(2)

    def above(x):
        memory[0] += 1.0
        return x

    constraint = optimize.NonlinearConstraint(above, 0.0, np.inf)
    state = QuickState.of([constraint])
    assert state is not None
    assert not state.has_changed()
    above(1.0)
    assert state.restore()
    assert memory[0] == 0.0
    counting = types.SimpleNamespace(count=0)
    assert QuickState.of(optimize.NonlinearConstraint(lambda x: counting.count, 0, 1)) is None
