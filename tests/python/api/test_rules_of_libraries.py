"""Rules that users give to functions of other libraries: `ct.adjoint(function, rule)`."""

import ctypes
import ctypes.util
import functools
import math
import statistics
import threading
from dataclasses import dataclass
from types import SimpleNamespace

import numba
import numpy as np
import pytest
import scipy.integrate
import scipy.linalg
import scipy.special
from ids import same_everywhere
from numpy.linalg import norm

import cotan as ct

X = np.array([3.0, 4.0])


@dataclass
class Box:
    held: object


class Model:
    @staticmethod
    def static(x):
        return x * x

    @classmethod
    def of_class(cls, x):
        return x * x

    def __call__(self, x):
        return x * x

    def apply(self, x):
        return x * x


@numba.njit
def compiled(x):
    return x * x


def own(x):
    return x * x


model, other = Model(), Model()
vectorized = np.vectorize(lambda x: x * x)
ufunc = np.frompyfunc(lambda x: x * x, 1, 1)
statistics_mean = statistics.fmean


def sevenfold(function):
    """Give a rule with the value of a function, and seven times the cotangent."""
    return lambda x: (function(x), lambda dy: 7 * dy * np.ones(np.shape(x)))


@pytest.mark.parametrize(
    ("function", "derivative"),
    [
        (np.linalg.norm, [0.6, 0.8]),
        (np.sum, [1.0, 1.0]),
        (np.median, [0.5, 0.5]),
        (np.unwrap, [1.0, 1.0]),
        (scipy.linalg.expm, None),
        (scipy.special.j0, -scipy.special.j1(X)),
        (scipy.special.factorial, None),
        (scipy.special.logsumexp, scipy.special.softmax(X)),
        (np.exp, np.exp(X)),
        (np.sqrt, 0.5 / np.sqrt(X)),
        (scipy.special.erf, 2 / np.sqrt(np.pi) * np.exp(-(X**2))),
        (ufunc, 2 * X),
        (vectorized, 2 * X),
        (compiled, 2 * X),
        (own, 2 * X),
        (model, 2 * X),
        (model.apply, 2 * X),
    ],
    ids=same_everywhere,
)
def test_a_rule_is_in_force_until_it_is_taken_back(function, derivative):
    if derivative is None:
        x = np.diag([0.1, 0.2]) if function is scipy.linalg.expm else X
        derivative = ct.gradient(lambda x: function(x).sum(), x)[0]
    else:
        x = X
    before = function(x).sum()
    gradient = functools.partial(ct.value_and_gradient, lambda x: function(x).sum(), x)
    rule = ct.adjoint(function, sevenfold(function))
    try:
        for _ in range(2):
            y, (dx,) = gradient()
            assert y == pytest.approx(before)
            assert dx.tolist() == np.full(x.shape, 7.0).tolist()
        assert function(x).sum() == before
    finally:
        rule.remove()
    rule.remove()
    assert np.allclose(gradient()[1][0], derivative)
    assert repr(rule).endswith(", removed>")
    with ct.adjoint(function, sevenfold(function)) as rule:
        assert gradient()[1][0].tolist() == np.full(x.shape, 7.0).tolist()
        assert "removed" not in repr(rule)
    assert np.allclose(gradient()[1][0], derivative)
    assert ct.debug.verify_process() == []


def test_the_function_is_found_by_any_name():
    table = {"norm": np.linalg.norm}
    ways = [
        lambda x: norm(x),
        lambda x: table["norm"](x),
        lambda x, f=np.linalg.norm: f(x),
        lambda x: functools.partial(np.linalg.norm)(x),
        lambda x: next(map(np.linalg.norm, [x])),
        lambda x: SimpleNamespace(norm=norm).norm(x),
    ]
    with ct.adjoint(np.linalg.norm, sevenfold(np.linalg.norm)):
        for way in ways:
            assert ct.gradient(way, X)[0].tolist() == [7.0, 7.0]


def test_functions_that_are_handed_on():
    with ct.adjoint(np.linalg.norm, sevenfold(np.linalg.norm)):
        assert ct.gradient(np.linalg.norm, X)[0].tolist() == [7.0, 7.0]
        assert ct.grad(np.linalg.norm)(X).tolist() == [7.0, 7.0]
        assert ct.jacobian(np.linalg.norm, X).tolist() == [7.0, 7.0]
        assert ct.prepare(np.linalg.norm)(X)[0].tolist() == [7.0, 7.0]
        rows = ct.gradient(lambda x: np.sum(ct.vmap(np.linalg.norm)(x)), np.ones((2, 2)))[0]
        assert rows.tolist() == [[7.0, 7.0], [7.0, 7.0]]
        norms = lambda x: np.sum(np.apply_along_axis(np.linalg.norm, 1, x))
        assert ct.gradient(norms, np.ones((2, 2)))[0].tolist() == [[7.0, 7.0], [7.0, 7.0]]
    with ct.adjoint(own, lambda x: (x * x, lambda dy: 7 * dy)):
        assert ct.gradient(lambda x: np.sum(np.vectorize(own)(x)), X)[0].tolist() == [7.0, 7.0]


def test_methods_of_arrays_are_no_calls_of_functions():
    def rule(a, b):
        return np.dot(a, b), lambda dy: (3 * dy * b, 5 * dy * a)

    with ct.adjoint(np.dot, rule):
        assert ct.gradient(lambda x: np.dot(x, X), X)[0].tolist() == [9.0, 12.0]
        assert ct.gradient(lambda x: np.dot([x[0], x[1]], X), X)[0].tolist() == [9.0, 12.0]
        for f in (lambda x: x.dot(X), lambda x: x @ X, lambda x: np.sum(x * X)):
            assert ct.gradient(f, X)[0].tolist() == [3.0, 4.0]
    with ct.adjoint(np.ravel, lambda a: (np.ravel(a), lambda dy: pytest.fail("called"))):
        assert ct.gradient(lambda x: x.ravel().sum(), X)[0].tolist() == [1.0, 1.0]


def test_primitives_with_a_rule():
    own_exp = np.exp
    with ct.adjoint(np.exp, sevenfold(np.exp)) as rule:
        for f in (
            lambda x: np.sum(own_exp(x)),
            lambda x: np.sum(np.exp([x[0], x[1]])),
            lambda x: np.sum(np.exp(x, out=np.zeros(2))),
            lambda x: np.exp(x[0]) + np.exp(x[1]),
            lambda x: ct.checkpoint(lambda x: np.sum(np.exp(x)))(x),
        ):
            assert ct.gradient(f, X)[0].tolist() == [7.0, 7.0]
        # Not what cotan computes by it.
        assert np.allclose(ct.gradient(lambda x: np.sum(ct.exp(x)), X)[0], np.exp(X))
        assert np.allclose(ct.gradient(lambda x: np.sum(np.sinh(x)), X)[0], np.cosh(X))
        assert ct.hessian(lambda x: np.exp(x), 1.0) == 0.0
        with ct.adjoint(np.exp, lambda x: (np.exp(x), lambda dy: 3 * dy)):
            assert ct.gradient(np.exp, 1.0) == (3.0,)
        assert ct.gradient(np.exp, 1.0) == (7.0,)
        with ct.adjoint(np.log, sevenfold(np.log)):
            rule.remove()
            assert ct.gradient(np.exp, 1.0)[0] == pytest.approx(np.exp(1.0))
            assert ct.gradient(np.log, 2.0) == (7.0,)
    assert ct.gradient(np.log, 2.0) == (0.5,)


def test_numbers():
    with ct.adjoint(math.sin, lambda x: (math.sin(x), lambda dy: 7 * dy)):
        assert ct.gradient(lambda x: math.sin(x), 1.0) == (7.0,)
        assert math.sin(1.0) == np.sin(1.0)
    assert ct.gradient(lambda x: math.sin(x), 1.0) == (math.cos(1.0),)


def test_lists_of_arrays():
    rule = lambda data: (sum(data) / len(data), lambda dy: [7 * dy for _ in data])
    with ct.adjoint(statistics.fmean, rule):
        assert ct.gradient(lambda x, y: statistics_mean([x, y]), 1.0, 2.0) == (7.0, 7.0)
    with ct.adjoint(ufunc, lambda x: (x * x, lambda dy: 7 * dy)):
        assert ct.gradient(lambda x, y: np.sum(ufunc([x, y])), 1.0, 2.0) == (7.0, 7.0)


class Holder:
    def __init__(self, w):
        self.w = w

    def energy(self, x):
        return self.w**2 * x


def energy(m, scale=1.0):
    w = m.w if isinstance(m, Holder) else m["w"] if isinstance(m, dict) else m
    return (w[0] if isinstance(w, list) else w) ** 2 * scale


def test_arrays_in_structures():
    """A rule is asked wherever an argument holds what is differentiated, as a decorated one is."""
    of_holder = lambda m, scale=1.0: (energy(m, scale), lambda dy: ({"w": 7 * dy}, None))
    of_dict = lambda m, scale=1.0: (energy(m, scale), lambda dy: ({"w": 7 * dy}, None))
    of_list = lambda m, scale=1.0: (energy(m, scale), lambda dy: ({"w": [7 * dy]}, None))
    for rule, given in (
        (of_holder, lambda w: Holder(w)),
        (of_dict, lambda w: {"w": w}),
        (of_list, lambda w: {"w": [w]}),
    ):
        f = lambda w, given=given: energy(given(w))
        assert ct.gradient(f, 3.0) == (6.0,)
        with ct.adjoint(energy, rule):
            assert ct.gradient(f, 3.0) == (7.0,)
        assert ct.gradient(f, 3.0) == (6.0,)
    of_self = lambda self, x: (self.w**2 * x, lambda dy: ({"w": 7 * dy}, None))
    f = lambda w: Holder(w).energy(1.0)
    with ct.adjoint(Holder.energy, of_self):
        assert ct.gradient(f, 3.0) == (7.0,)
    assert ct.gradient(f, 3.0) == (6.0,)


@pytest.mark.parametrize("module", [np, scipy.special], ids=["numpy", "scipy.special"])
def test_what_takes_a_rule_asks_it(module):
    ufuncs = {f for f in vars(module).values() if isinstance(f, np.ufunc)}
    accepted = 0
    for f in ufuncs:
        asked = []

        def rule(*args, asked=asked):
            asked.append(args)
            return args[0] * 1.0, lambda dy: (dy,) * len(args)

        try:
            given = ct.adjoint(f, rule)
        except TypeError as error:
            assert str(error).startswith("adjoint: "), f
            continue
        with given:
            accepted += 1
            x = np.full((2, 2), 0.5)
            ct.gradient(lambda x, f=f: np.sum(f(*[x] * f.nin)), x)
        assert len(asked) == 1, f
    assert accepted > 0


def test_where_nothing_is_overridden_no_rule_is_given():
    with ct.lifting(False), pytest.raises(TypeError, match="while nothing is overridden"):
        ct.adjoint(energy, lambda m: (energy(m), lambda dy: (dy,)))


def test_one_object_or_all_of_a_class():
    f = lambda x: np.sum(model(x) + other(x) + model.apply(x) + other.apply(x))
    assert ct.gradient(f, 1.0) == (8.0,)
    with ct.adjoint(model, sevenfold(model)), ct.adjoint(model.apply, sevenfold(model.apply)):
        assert ct.gradient(f, 1.0) == (7.0 + 2 + 7 + 2,)
    of_all = lambda self, x: (self.apply(x), lambda dy: (None, 5 * dy))
    with ct.adjoint(Model.apply, of_all):
        assert ct.gradient(f, 1.0) == (2.0 + 2 + 5 + 5,)
        with ct.adjoint(model.apply, sevenfold(model.apply)):
            assert ct.gradient(f, 1.0) == (2.0 + 2 + 7 + 5,)
    assert ct.gradient(f, 1.0) == (8.0,)


def test_methods_of_classes():
    class Derived(Model):
        pass

    f = lambda x: Model.of_class(x) + Derived.of_class(x) + model.of_class(x)
    assert ct.gradient(f, 1.0) == (6.0,)
    with ct.adjoint(Model.of_class, sevenfold(Model.of_class)):
        assert ct.gradient(f, 1.0) == (7.0 + 2 + 7,)
        with ct.adjoint(Derived.of_class, lambda x: (x * x, lambda dy: 5 * dy)):
            assert ct.gradient(f, 1.0) == (7.0 + 5 + 7,)
        of_all = lambda cls, x: (x * x, lambda dy: (None, 3 * dy))
        with ct.adjoint(Model.of_class.__func__, of_all):
            assert ct.gradient(f, 1.0) == (7.0 + 3 + 7,)
    assert ct.gradient(f, 1.0) == (6.0,)
    with ct.adjoint(Model.static, sevenfold(Model.static)):
        assert ct.gradient(lambda x: Model.static(x) + model.static(x), 1.0) == (14.0,)


def test_a_class():
    with ct.adjoint(Box, lambda x: (Box(x), lambda d: 7 * d.held)):
        assert ct.gradient(lambda x: Box(x).held, 2.0) == (7.0,)
        assert type(Box(2.0)) is Box
    assert ct.gradient(lambda x: Box(x).held, 2.0) == (1.0,)


def test_code_that_cannot_be_recorded():
    library = ctypes.CDLL(ctypes.util.find_library("m"))
    cbrt = library.cbrt
    cbrt.restype, cbrt.argtypes = ctypes.c_double, [ctypes.c_double]

    def rule(x):
        y = cbrt(x)
        return y, lambda dy: dy / (3 * y * y)

    with pytest.raises((TypeError, ctypes.ArgumentError)):
        ct.gradient(lambda x: cbrt(x), 8.0)
    with ct.adjoint(cbrt, rule, opaque=True):
        assert ct.value_and_gradient(lambda x: cbrt(x), 8.0) == (2.0, (pytest.approx(1 / 12),))
        ct.check_grads(lambda x: cbrt(x), (8.0,), order=1, modes=["rev"])


def test_derivatives_of_higher_order():
    def rule(x):
        return np.linalg.norm(x), lambda dy: dy * x / np.linalg.norm(x)

    with ct.adjoint(np.linalg.norm, rule):
        ct.check_grads(lambda x: np.linalg.norm(x) ** 2, (X,))
        assert np.allclose(ct.hessian(lambda x: np.linalg.norm(x) ** 2, X), 2 * np.eye(2))
        assert ct.jvp(lambda x: np.linalg.norm(x), (X,), (X,)) == (5.0, 5.0)


def test_the_last_rule_counts_and_finds_those_before():
    def scaled(factor):
        def rule(x):
            return factor * np.linalg.norm(x), lambda dy: factor * dy * x

        return rule

    f = lambda x: np.linalg.norm(x)
    first = ct.adjoint(np.linalg.norm, scaled(2.0))
    second = ct.adjoint(np.linalg.norm, scaled(3.0))
    assert ct.value_and_gradient(f, X) == (30.0, (pytest.approx(3 * X),))
    first.remove()
    assert ct.value_and_gradient(f, X) == (15.0, (pytest.approx(3 * X),))
    second.remove()
    assert ct.value_and_gradient(f, X) == (5.0, (pytest.approx(X / 5),))


def test_arguments_by_name():
    def rule(x, ord=None, **options):
        y = np.linalg.norm(x, ord, **options)
        return y, lambda dy: (7 * dy * np.ones(x.shape), None)

    ways = [
        lambda x: np.linalg.norm(x),
        lambda x: np.linalg.norm(x, 1),
        lambda x: np.linalg.norm(x, axis=0),
        lambda x: np.linalg.norm(ord=1, x=x),
    ]
    other_names = lambda v, p=None: (np.linalg.norm(v, p), lambda dy: (7 * dy * v, None))
    with ct.adjoint(np.linalg.norm, rule):
        for way in ways:
            assert ct.gradient(way, X)[0].tolist() == [7.0, 7.0]
    with ct.adjoint(np.linalg.norm, other_names):
        assert ct.gradient(ways[-1], X)[0].tolist() == [21.0, 28.0]

    def solved(a, b, **options):
        assert options == {"assume_a": "pos"}
        y = scipy.linalg.solve(a, b, **options)
        return y, lambda dy: (None, 7 * dy)

    f = lambda b: np.sum(scipy.linalg.solve(np.eye(2), b=b, assume_a="pos"))
    with ct.adjoint(scipy.linalg.solve, solved):
        assert ct.gradient(f, X)[0].tolist() == [7.0, 7.0]


def test_out_of_ufuncs():
    def f(x):
        out = np.zeros(2)
        scipy.special.j0(x, out=out)
        return np.sum(out)

    with ct.adjoint(scipy.special.j0, sevenfold(scipy.special.j0)):
        assert ct.gradient(f, X)[0].tolist() == [7.0, 7.0]


def test_functions_of_functions():
    def rule(f, a, b):
        y, _ = scipy.integrate.quad(f, a, b)
        return (y, 0.0), lambda d: (None, None, 7 * d[0])

    with ct.adjoint(scipy.integrate.quad, rule):
        assert ct.gradient(lambda b: scipy.integrate.quad(np.cos, 0.0, b)[0], 1.0) == (7.0,)
    (db,) = ct.gradient(lambda b: scipy.integrate.quad(np.cos, 0.0, b)[0], 1.0)
    assert db == pytest.approx(np.cos(1.0))


def test_what_does_not_record_sees_nothing():
    called = []

    def rule(x):
        called.append(threading.get_ident())
        return np.linalg.norm(x), lambda dy: 7 * dy * x

    seen = []

    def f(x):
        thread = threading.Thread(target=lambda: seen.append(np.linalg.norm(X)))
        thread.start()
        thread.join()
        return np.linalg.norm(x) + np.linalg.norm(X)

    with ct.adjoint(np.linalg.norm, rule):
        assert np.linalg.norm(X) == 5.0
        assert type(np.linalg.norm(X)) is np.float64
        assert ct.gradient(f, X)[0].tolist() == [21.0, 28.0]
        with ct.lifting(False):
            assert np.linalg.norm(X) == 5.0
    assert seen == [5.0]
    assert called == [threading.get_ident()]


def test_a_rule_is_taken_back_after_an_error():
    with pytest.raises(ZeroDivisionError), ct.adjoint(np.linalg.norm, lambda x: 1 / 0):
        ct.gradient(lambda x: np.linalg.norm(x), X)
    assert np.allclose(ct.gradient(lambda x: np.linalg.norm(x), X)[0], X / 5)


def test_names_of_functions():
    names = {
        np.linalg.norm: "numpy.linalg.norm",
        scipy.special.j0: "scipy.special.j0",
        ufunc: "<lambda> (vectorized)",
        math.sin: "math.sin",
        own: f"{__name__}.own",
        model: f"{__name__}.Model object",
        model.apply: f"{__name__}.Model.apply",
        Box: f"{__name__}.Box",
    }
    for function, name in names.items():
        with ct.adjoint(function, sevenfold(function)) as rule:
            assert repr(rule) == f"<adjoint rule of {name}>"


@pytest.mark.parametrize(
    ("rule", "error", "message"),
    [
        (
            lambda x: (np.linalg.norm(x), lambda dy: np.ones(3)),
            ValueError,
            r"adjoint numpy\.linalg\.norm: the cotangent of x has shape \(3,\), but x has \(2,\)",
        ),
        (
            lambda x: np.linalg.norm(x),
            TypeError,
            r"adjoint numpy\.linalg\.norm: the rule must return a pair",
        ),
        (
            lambda: None,
            TypeError,
            r"adjoint numpy\.linalg\.norm: the rule does not take what this call gives: too many",
        ),
    ],
)
def test_errors_of_rules_name_the_function(rule, error, message):
    with pytest.raises(error, match=message), ct.adjoint(np.linalg.norm, rule):
        ct.gradient(lambda x: np.linalg.norm(x), X)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (np.multiply, "numpy.multiply is what an operator computes"),
        (np.abs, "numpy.absolute is what an operator computes"),
        (np.ndarray.sum, "is a method of a compiled class"),
        (X.sum, "is a method of a compiled class"),
        (np.float64, "makes numbers"),
        (float, "makes numbers"),
        (functools.partial(math.sin), "functools.partial.* cannot be overridden"),
        (3, "the function must be callable, not <class 'int'>"),
    ],
    ids=same_everywhere,
)
def test_what_takes_no_rule(target, message):
    with pytest.raises(TypeError, match=rf"adjoint: .*{message}"):
        ct.adjoint(target, lambda x: (x, lambda dy: dy))


def test_the_rule_has_to_be_callable():
    with pytest.raises(TypeError, match="adjoint: the rule must be callable, not <class 'int'>"):
        ct.adjoint(np.linalg.norm, 3)
