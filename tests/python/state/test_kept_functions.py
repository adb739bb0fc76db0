"""What is kept of a function that a solver calls, and what a call of it may change, never shows."""

import contextvars

import numpy as np
import pytest
from scipy import integrate, optimize

import cotan as ct
from cotan import _core
from cotan._core import FunctionKey

POWER = 1.0
FACTORS = [1.0, 2.0]


def helper(x):
    return FACTORS[0] * x**POWER


def root_of(equation):
    return optimize.brentq(equation, 0.0, 3.0)


def gradient(f, p=2.0, times=1):
    """Give value and derivative of the last of some calls."""
    found = None
    for _ in range(times):
        y, (g,) = ct.value_and_gradient(f, p)
        found = float(y), float(g)
    return found


def by_differences(f, p=2.0, h=1e-5):
    return f(p), (f(p + h) - f(p - h)) / (2 * h)


def expect_same(f, p=2.0):
    """Look if the gradient is that of the code as it is now, in each call."""
    value, slope = by_differences(f, p)
    for _ in range(3):
        found = gradient(f, p)
        assert found[0] == value
        assert found[1] == pytest.approx(slope, rel=1e-4)


SOLVERS = {
    "brentq": lambda p, side: root_of(lambda x: side(x) - p),
    "fsolve": lambda p, side: optimize.fsolve(lambda v: [side(v[0]) - p], [1.0])[0],
    "newton": lambda p, side: optimize.newton(lambda x: side(x) - p, 1.0, tol=1e-14),
    "quad": lambda p, side: integrate.quad(lambda x: p * side(x), 0.0, 2.0)[0],
    "odeint": lambda p, side: integrate.odeint(
        lambda y, t: [side(1.0) - p * y[0]], [1.0], [0.0, 1.0]
    )[-1, 0],
}


@pytest.mark.parametrize("solve", SOLVERS.values(), ids=SOLVERS)
def test_what_a_function_reads_may_change_between_calls(solve, monkeypatch):
    own = {"shift": 0.5, "list": [1.0]}
    table = np.array([1.0, 0.25])

    def value(p):
        return solve(p, lambda x: helper(x) * own["list"][0] + table[1] * x + own["shift"])

    expect_same(value)
    own["shift"] = 0.25
    expect_same(value)
    own["list"][0] = 1.5
    expect_same(value)
    table[1] = 0.75
    expect_same(value)
    monkeypatch.setitem(globals(), "POWER", 2.0)
    expect_same(value)
    FACTORS[0] = 1.25
    expect_same(value)
    FACTORS[0] = 1.0
    monkeypatch.setitem(globals(), "helper", lambda x: 1.5 * x)
    expect_same(value)


def test_branches_are_taken_anew(monkeypatch):
    def side(x, p):
        return x * np.exp(x) - p if p < 2.5 else x**2 - p

    for p in (2.0, 3.0, 2.0, 3.0):
        expect_same(lambda p: root_of(lambda x: side(x, p)), p)


def test_a_function_that_calls_itself():
    def value(p):
        def power(x, n):
            return p if n == 0 else x * power(x, n - 1)

        return root_of(lambda x: power(x, 3) - 4.0)

    expect_same(value)


def test_a_helper_that_captures_and_is_shared():
    def value(p):
        scaled = lambda x, by=p: by * x
        both = [scaled, scaled]
        return root_of(lambda x: both[0](x) + both[1](x) * x - 3.0)

    expect_same(value)


@pytest.mark.parametrize("is_active", [True, False])
def test_calls_are_counted_as_without_a_gradient(is_active):
    def count_of(run):
        calls, seen, total = [], {}, np.zeros(1)

        def value(p):
            def equation(x):
                calls.append(x)
                seen["last"] = x
                total[0] += 1.0
                return x * np.exp(x) - (p if is_active else 2.0)

            return root_of(equation) * p

        run(value)
        return len(calls), float(seen["last"]), float(total[0])

    plain = count_of(lambda value: value(2.0))
    assert count_of(lambda value: gradient(value)) == pytest.approx(plain, abs=1e-9)


def test_a_root_of_constants_is_that_of_scipy():
    found = []

    def value(p):
        y = root_of(lambda x: x * np.exp(x) - 2.0)
        found.append(y)
        return y * p

    plain = root_of(lambda x: x * np.exp(x) - 2.0)
    assert gradient(value, times=2) == (2.0 * plain, plain)
    assert type(found[0]) is type(plain)
    assert found == [plain, plain]


def test_errors_of_a_function_of_constants_are_its_own():
    def value(p):
        return root_of(lambda x: {}["a"] + x) * p

    with pytest.raises(KeyError):
        ct.gradient(value, 2.0)
    with pytest.raises(ValueError, match="different signs"):
        ct.gradient(lambda p: root_of(lambda x: x + 5.0) * p, 2.0)


def test_constants_around_an_active_global(monkeypatch):
    def value(p):
        monkeypatch.setitem(globals(), "POWER", p)
        return root_of(lambda x: helper(x + 1.0) - 4.0)

    y, (g,) = ct.value_and_gradient(value, 2.0)
    # (x + 1)ᵖ = 4
    assert float(y) == pytest.approx(1.0)
    assert float(g) == pytest.approx(-0.5 * np.log(4.0) * 4.0**0.5 / 2.0)


def test_context_variables_are_left_as_scipy_leaves_them():
    variable = contextvars.ContextVar("variable", default=0.0)

    def value(p):
        def equation(x):
            variable.set(variable.get() + 1.0)
            return x * np.exp(x) - p

        return root_of(equation)

    value(2.0)
    plain = variable.get()
    variable.set(0.0)
    gradient(value)
    assert variable.get() == plain


# --------------------------------------------------------------------------------------------------
# The key itself


def key_inside(make, p=1.5):
    """Give what `make` makes while a gradient is recorded."""
    found = []

    def measured(p):
        found.append(make(p))
        return p * 1.0

    ct.pullback(measured, p)
    return found[0]


WRITES = {
    "an item": lambda items, names, array: items.__setitem__(0, 5.0),
    "another item": lambda items, names, array: items.append(1.0),
    "an entry": lambda items, names, array: names.__setitem__("a", 5.0),
    "another entry": lambda items, names, array: names.__setitem__("b", 5.0),
    "no entry": lambda items, names, array: names.clear(),
    "an element": lambda items, names, array: array.__setitem__(1, 5.0),
    "a zero of another sign": lambda items, names, array: array.__setitem__(0, -0.0),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_writes_are_seen_and_taken_back(write):
    items, names, array = [1.0, 2.0], {"a": 1.0}, np.array([0.0, 1.0])
    key = FunctionKey.of(lambda x: items[0] * names["a"] * array[0] * x, ())
    assert not key.has_changed()
    assert not key.restore()
    write(items, names, array)
    assert key.has_changed()
    assert key.restore()
    assert not key.has_changed()
    assert (items, names, array.tolist()) == ([1.0, 2.0], {"a": 1.0}, [0.0, 1.0])
    assert not np.signbit(array[0])


def test_writes_to_active_arrays_are_seen_and_taken_back():
    def make(p):
        key = FunctionKey.of(lambda x: p[0] * x, ())
        before = key.has_changed()
        p[1] = 7.0
        seen = key.has_changed(), key.restore(), key.has_changed()
        return before, seen, np.asarray(ct.dropgrad(p)).tolist()

    assert key_inside(make, np.array([1.0, 2.0])) == (False, (True, True, False), [1.0, 2.0])


def test_writes_to_copies_are_seen():
    def make(p):
        items = [p, 1.0]
        key = FunctionKey.of(lambda x: items[0] * x, ())
        plain = key.plain[0].__closure__[0].cell_contents
        assert plain == [1.5, 1.0]
        assert type(plain[0]) is float
        plain[1] = 2.0
        return key.has_changed(), items[1]

    assert key_inside(make) == (True, 1.0)


def test_copies_have_values_and_originals_keep_arrays():
    def make(p):
        def slope(x, c=p, *, d=p):
            return again(x, c) * d + p

        def again(x, c):
            return slope(x, c) if x > 10.0 else x * c

        key = FunctionKey.of(slope, (p, [p]))
        copy, args = key.plain
        assert copy(2.0) == (2.0 * 1.5) * 1.5 + 1.5
        assert args == (1.5, [1.5])
        assert copy.__closure__[0].cell_contents.__closure__[0].cell_contents is copy
        assert isinstance(slope.__defaults__[0], ct.Array)
        return len(key.leaves), key.captures

    assert key_inside(make) == (1, True)


def test_what_is_not_active_is_no_leaf():
    key = FunctionKey.of(lambda x: x * POWER, ())
    assert (key.leaves, key.captures) == ([], False)


def test_memory_of_others_has_no_key():
    lent = np.frombuffer(bytearray(16), np.float64)
    assert FunctionKey.of(lambda x: lent[0] * x, ()) is None


def test_outside_nothing_is_recorded_and_inside_goes_on():
    def value(p):
        def fail():
            raise KeyError

        assert _core.call_outside(_core.nestlevel) == 0
        assert _core.call_outside(lambda: ct.gradient(lambda q: q * q, 3.0)[0]) == 6.0
        with pytest.raises(KeyError):
            _core.call_outside(fail)
        assert _core.nestlevel() == 1
        return p * p

    assert ct.gradient(value, 2.0)[0] == 4.0


def test_active_arrays_are_found_in_collections():
    def make(p):
        whole = [[], ({"a": (p,)},)]
        return _core.contains_active(whole), _core.contains_active([1.0, {"a": np.ones(2)}, "p"])

    assert key_inside(make) == (True, False)
    assert key_inside(lambda p: _core.contains_active(p > 1.0)) is False
    endless = []
    endless.append(endless)
    with pytest.raises(RecursionError):
        _core.contains_active(endless)
