"""`scipy.special` on `Array`s: values, dtypes, derivatives to second order, refusals."""

import subprocess
import sys

import numpy as np
import pytest
import scipy.special as sp
from special_cases import COARSE, NAMES, arguments, derivative, parts, ufunc, variables

import cotan as ct
import cotan._src.special.functions  # enters its functions
from cotan._src.runtime.registry import UFUNCS, rules_of
from cotan._src.special.ufuncs import PARTIALS


@pytest.mark.parametrize("name", NAMES)
def test_values_and_dtypes(name):
    function, args = ufunc(name), arguments(name)
    narrow = [x.astype({"f": "f4", "c": "c8"}.get(x.dtype.kind, x.dtype)) for x in args]
    for given in (args, narrow, [x.astype(np.float64) if x.dtype.kind == "i" else x for x in args]):
        try:
            expected = function(*given)
        except (TypeError, SystemError):  # no such loop, or one that is deprecated
            continue
        actual = function(*map(ct.array, given))
        pairs = [(actual, expected)]
        if isinstance(expected, tuple):
            assert isinstance(actual, tuple)
            pairs = list(zip(actual, expected, strict=True))
        for a, e in pairs:
            assert isinstance(a, ct.Array)
            assert (a.dtype, a.shape) == (e.dtype, e.shape)
            tol = 3e-5 if e.dtype.char in "fF" else 1e-11
            np.testing.assert_allclose(np.asarray(a), e, rtol=tol, atol=tol)
    scalar = function(*(ct.array(x)[0] for x in args))
    scalar = scalar[0] if isinstance(scalar, tuple) else scalar
    assert scalar.ndim == 0
    assert scalar._rank == "scalar"


@pytest.mark.parametrize("name", NAMES)
def test_gradients_to_second_order(name):
    function, args = ufunc(name), arguments(name)
    tol = COARSE.get(name, 2e-6)
    wanted = variables(name, args)
    assert wanted or name == "gammasgn", name
    outputs = len(parts(function(*args)))
    for i in wanted:

        def at(x, k, i=i):
            return parts(function(*args[:i], x, *args[i + 1 :]))[k]

        def slope(x, k, at=at):
            (g,) = ct.gradient(lambda x: ct.sum(at(x, k)), x)
            return np.zeros_like(x) if g is None else np.asarray(g)

        def curvature(x, k, at=at):
            inner = ct.grad(lambda x: ct.sum(at(x, k)))
            (g,) = ct.gradient(lambda x: ct.sum(inner(x)).real, x)
            return np.zeros_like(x) if g is None else np.asarray(g)

        x = args[i]
        if x.dtype.kind == "c":
            continue  # below
        for k in range(outputs):
            expected = derivative(lambda x: at(x, k), x)
            scale = np.max(np.abs(expected)) + 1
            np.testing.assert_allclose(slope(x, k), expected, rtol=tol, atol=tol * scale)
            if (name, i) in FIRST_ORDER_ONLY:
                continue
            expected = derivative(lambda x: slope(x, k), x)
            scale = np.max(np.abs(expected)) + 1
            np.testing.assert_allclose(curvature(x, k), expected, rtol=tol, atol=tol * scale)


FIRST_ORDER_ONLY = {("_lambertw", 0)}

COMPLEX = [n for n in NAMES if any(t.split("->")[0][-1] == "D" for t in ufunc(n).types)]
COMPLEX = [n for n in COMPLEX if n in PARTIALS and not n.startswith("ellipr")]


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_gradients(name):
    function = ufunc(name)
    args = arguments(name)
    z = args[-1] if name != "_lambertw" else args[0]
    at = 0 if name == "_lambertw" else len(args) - 1
    z = z + 0.3j * np.arange(1, 6) / 5
    args = [*args[:at], z, *args[at + 1 :]]
    if name in {"jve", "yve", "ive", "psi", "airye", "_riemann_zeta"}:
        public = name.removeprefix("_riemann_")
        with pytest.raises(TypeError, match=f"{public} of complex numbers"):
            ct.gradient(lambda z: ct.sum(function(*args[:at], z)).real, z)
        return

    def value(z, k):
        y = function(*args[:at], z, *args[at + 1 :])
        return y[k] if isinstance(y, tuple) else y

    count = function.nout
    for k in range(count):
        (g,) = ct.gradient(lambda z: ct.sum(value(z, k)).real, z)
        # Of a holomorphic function: the conjugate of its derivative.
        h = 1e-3
        expected = (
            8 * (value(z + h, k) - value(z - h, k)) - value(z + 2 * h, k) + value(z - 2 * h, k)
        ) / (12 * h)
        np.testing.assert_allclose(g, np.conj(expected), rtol=1e-7, atol=1e-8)


# --------------------------------------------------------------------------------------------------
# What is not a ufunc

LIFTS = rules_of("scipy.special")
X = np.array([[0.3, 1.7, 0.9], [2.2, 0.4, 1.3]])
FUNCTIONS = {
    "logsumexp": [
        lambda g, x: g(x),
        lambda g, x: g(x, axis=0),
        lambda g, x: g(x, axis=(0, 1), keepdims=True),
        lambda g, x: g(x, axis=1, b=np.array([1.0, 0.0, 2.5])),
        lambda g, x: g(x, axis=1, b=np.array([1.0, 0.5, -2.5]), return_sign=True)[0],
        lambda g, x: g(1.5, b=x),
    ],
    "softmax": [lambda g, x: g(x), lambda g, x: g(x, axis=1), lambda g, x: g(x, axis=(0, 1))],
    "log_softmax": [lambda g, x: g(x), lambda g, x: g(x, axis=0)],
    "polygamma": [
        lambda g, x: g(0, x),
        lambda g, x: g(2, x),
        lambda g, x: g(np.array([0, 1, 3]), x),
    ],
    "multigammaln": [lambda g, x: g(x + 2, 3)],
    "comb": [
        lambda g, x: g(x + 3, 1.5),
        lambda g, x: g(5.5, x),
        lambda g, x: g(x, 1.2),
        lambda g, x: g(x, 2.5, repetition=True),
    ],
    "perm": [lambda g, x: g(x + 3, 2), lambda g, x: g(5.5, x)],
    "factorial": [lambda g, x: g(x), lambda g, x: g(x - 1)],
    "diric": [lambda g, x: g(x, 5), lambda g, x: g(x + 2 * np.pi, 4)],
    "spherical_jn": [
        lambda g, x: g(1, x - 1),
        lambda g, x: g(np.array([0, 1, 2]), x - 1, True),
        lambda g, x: g(2, x),
        lambda g, x: g(2, x, derivative=True),
    ],
    "spherical_yn": [lambda g, x: g(2, x), lambda g, x: g(2, x, True)],
    "spherical_in": [lambda g, x: g(2, x), lambda g, x: g(0, x, True)],
    "spherical_kn": [lambda g, x: g(1, x - 1), lambda g, x: g(2, x), lambda g, x: g(1, x, True)],
    "sph_harm_y": [
        lambda g, x: g(2, 1, x, 0.4).real,
        lambda g, x: g(3, -3, 0.4, x).imag,
        lambda g, x: g(3, np.array([0, 2, 3]), x, 2 * x).real,
        lambda g, x: g(2, 1, -x, 0.4).real,
    ],
}
NATIVE = {
    "zeta": lambda g, x: g(3.5, x),
    "lambertw": lambda g, x: g(x).real,
    "jvp": lambda g, x: g(2, x, 2),
    "kvp": lambda g, x: g(1.5, x),
    "softplus": lambda g, x: g(x),
    "sinc": lambda g, x: g(x),
    "assoc_laguerre": lambda g, x: g(x, 3, 1.5),
}


@pytest.mark.parametrize(
    ("name", "case"), [(n, i) for n, calls in FUNCTIONS.items() for i in range(len(calls))]
)
def test_functions_that_are_no_ufuncs(name, case):
    check_function(getattr(sp, name), LIFTS[name], FUNCTIONS[name][case])


@pytest.mark.parametrize("name", NATIVE)
def test_functions_that_scipy_writes_with_ufuncs(name):
    check_function(getattr(sp, name), getattr(sp, name), NATIVE[name])


def check_function(theirs, ours, call):
    for dtype, tol in ((np.float64, 1e-11), (np.float32, 1e-4)):
        x = X.astype(dtype)
        expected, actual = call(theirs, x), call(ours, ct.array(x))
        assert isinstance(actual, ct.Array)
        assert actual.shape == expected.shape
        if theirs.__name__ not in WIDENS:
            assert actual.dtype == expected.dtype
        np.testing.assert_allclose(np.asarray(actual), expected, rtol=tol, atol=tol)
    w = np.cos(np.arange(np.size(expected), dtype=float)).reshape(np.shape(expected))

    def loss(x):
        return ct.sum(call(ours, x) * w)

    (g,) = ct.gradient(loss, X)
    np.testing.assert_allclose(
        g, differences(lambda x: np.sum(call(theirs, x) * w), X), rtol=1e-6, atol=1e-7
    )

    def slope(x):
        (g,) = ct.gradient(loss, x)
        return ct.sum(g * np.sin(np.arange(6.0)).reshape(2, 3))

    (h,) = ct.gradient(slope, X)
    expected = differences(lambda x: float(slope(x)), X)
    np.testing.assert_allclose(h, expected, rtol=1e-5, atol=1e-6)


# SciPy leaves single precision there.
WIDENS = {
    "polygamma",
    "multigammaln",
    "factorial",
    "comb",
    "perm",
    "diric",
    "kvp",
    "jvp",
    "zeta",
    "sinc",
}


def differences(f, x, step=1e-5):
    out = np.zeros(x.shape)
    for i in np.ndindex(x.shape):
        e = np.zeros(x.shape)
        e[i] = step
        out[i] = (f(x + e) - f(x - e)) / (2 * step)
    return out


def test_logsumexp_at_its_edges():
    ours = LIFTS["logsumexp"]
    for a in ([-np.inf, -np.inf], [np.inf, 0.0], [1000.0, 999.0], [np.nan, 1.0], []):
        expected = sp.logsumexp(a)
        np.testing.assert_allclose(ours(ct.array(np.array(a))), expected)
    for a, slopes in (([1e308, 1e308], [0.5, 0.5]), ([-np.inf, 3.0], [0, 1])):
        np.testing.assert_array_equal(ct.gradient(ours, np.array(a))[0], slopes)
    a = np.array([1e6, 1e6 + 1, 1e6 - 1], np.float32)
    np.testing.assert_allclose(np.sum(ct.gradient(ours, a)[0]), 1.0, rtol=1e-6)
    a, b = np.array([1.0, np.inf]), np.array([2.0, 0.0])
    np.testing.assert_allclose(ours(ct.array(a), b=b), sp.logsumexp(a, b=b))
    (g,) = ct.gradient(lambda a: ours(a, b=b), a)
    np.testing.assert_array_equal(g, [1.0, 0.0])
    z = np.array([1 + 2j, 0.5 - 1j])
    np.testing.assert_allclose(ours(ct.array(z)), sp.logsumexp(z))
    value, sign = ours(ct.array(z), b=np.array([1, -2.0]), return_sign=True)
    expected = sp.logsumexp(z, b=np.array([1, -2.0]), return_sign=True)
    np.testing.assert_allclose([value, sign], expected)


def test_softmax_of_numbers_and_of_complex_numbers():
    z = np.array([0.3 + 9j, 1.2 - 14j, 0.7 + 30j])
    value = ct.pullback(lambda z: sp.log_softmax(z), z)[0]
    np.testing.assert_allclose(value, sp.log_softmax(z))
    for name in ("softmax", "log_softmax"):
        value, (slope,) = ct.value_and_gradient(lambda x, n=name: getattr(sp, n)(x, axis=0), 1.5)
        assert value == getattr(sp, name)(1.5, axis=0)
        assert slope == 0


@pytest.mark.filterwarnings("ignore:floating point number truncated")
def test_every_ufunc_has_a_rule_or_is_refused_by_name():
    with_rule = refused = 0
    for name in dir(sp):
        function = getattr(sp, name)
        if not isinstance(function, np.ufunc):
            continue
        args = [np.array([0.5])] * function.nin

        def loss(*args, function=function):
            y = function(*args)
            y = y[0] if isinstance(y, tuple) else y
            return ct.sum(y.real if y.dtype.kind == "c" else y)

        own = function.__name__
        if own in PARTIALS or own in UFUNCS or hasattr(np, own):
            with_rule += 1
            continue
        refused += 1
        with pytest.raises(TypeError, match=f"{own} has no derivative rule"):
            ct.gradient(loss, *args)
        expected = function(*args)
        actual = function(*map(ct.array, args))
        if not isinstance(expected, tuple):
            np.testing.assert_array_equal(actual, expected)
    assert with_rule > 150
    assert refused > 0


def test_parameters_without_a_formula_are_refused_by_name():
    for name, args in {
        "jv": (1.5, 2.0),
        "hyp1f1": (1.5, 2.0, 0.5),
        "wright_bessel": (1.0, 2.0, 0.5),
    }.items():
        x = np.array(args[0])
        with pytest.raises(
            TypeError, match=f"special.{name} with respect to its argument number 1"
        ):
            ct.gradient(lambda x, name=name, args=args: getattr(sp, name)(x, *args[1:]), x)
    with pytest.raises(TypeError, match=r"special\.stirling2 has no derivative rule"):
        ct.gradient(lambda x: LIFTS["stirling2"](x, 2.0), 3.0)
    x = ct.array(3.0)
    assert LIFTS["factorial"](x) == 6.0
    assert LIFTS["legendre_p"](2, x) == sp.legendre_p(2, 3.0)


def test_programs_that_call_back_run_again_with_other_values():
    value_and_slope = ct.value_and_grad(lambda x: ct.sum(sp.gamma(x) * np.sin(x)))
    for x in (np.array([1.5, 2.5]), np.array([0.5, 3.5])):
        y, g = value_and_slope(x)
        np.testing.assert_allclose(y, np.sum(sp.gamma(x) * np.sin(x)))
        slope = sp.gamma(x) * (sp.psi(x) * np.sin(x) + np.cos(x))
        np.testing.assert_allclose(g, slope)
    y, back = ct.pullback(sp.gamma, np.array([1.5, 2.5]))
    for scale in (1.0, 2.0):
        np.testing.assert_allclose(
            back(np.full(2, scale))[0], scale * sp.gamma([1.5, 2.5]) * sp.psi([1.5, 2.5])
        )


def test_shapes_broadcast():
    v, x = np.arange(3.0)[:, None], np.array([0.5, 1.5])
    y = sp.jv(ct.array(v), ct.array(x))
    np.testing.assert_allclose(y, sp.jv(v, x))
    (g,) = ct.gradient(lambda x: np.sum(sp.jv(v, x)), x)
    np.testing.assert_allclose(g, np.sum(sp.jvp(v, x), 0))
    with pytest.raises(ValueError, match="do not broadcast together"):
        sp.jv(ct.array(np.ones(3)), np.ones(2))


def test_scipy_is_not_imported():
    code = "import sys, cotan; assert 'scipy' not in sys.modules, 'scipy'"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.filterwarnings("ignore:floating point number truncated", "ignore:non-integer arg n")
@pytest.mark.parametrize(
    ("name", "orders"),
    [
        *((name, (v,)) for name in ("expn", "kn", "yn") for v in (0.5, 1.7)),
        *((name, (1.5, 4.7)) for name in ("bdtr", "bdtrc", "bdtri", "nbdtr", "nbdtrc", "nbdtri")),
    ],
)
def test_orders_are_cut_off_in_derivatives_too(name, orders):
    function, x, step = getattr(sp, name), 0.6, 1e-6
    y, g = ct.value_and_grad(lambda x: function(*orders, x))(x)
    assert y == function(*orders, x)
    slope = (function(*orders, x + step) - function(*orders, x - step)) / (2 * step)
    np.testing.assert_allclose(g, slope, 1e-7)


def test_periodic_sincs_are_in_the_common_precision():
    for n in (3, [1, 5], np.float32(3)):
        for x in (np.array(6.28, np.float32), np.array([0.5, 6.28], np.float32), np.array(0.5)):
            for at in (x, x[..., None]):
                y = ct.pullback(lambda at, n=n: sp.diric(at, n), at)[0]
                assert y.dtype == sp.diric(at, n).dtype


def test_factorials_of_arrays_are_in_double_precision():
    for n in (np.array([2.5, 3.7], np.float32), np.float32(2.5), np.array(2.5, np.float32)):
        found, wanted = ct.pullback(sp.factorial, n)[0], sp.factorial(n)
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, 2e-7)


def test_nodes_of_moving_polynomials_are_refused_where_scipy_knows_a_special_case():
    for name, given in (("roots_jacobi", (0.0, 0.0)), ("roots_sh_jacobi", (1.0, 1.0))):
        f = lambda *p, name=name: np.sum(getattr(sp, name)(4, *p)[0] ** 2)
        with pytest.raises(TypeError, match=f"special.{name} has no derivative rule.*dropgrad"):
            ct.gradient(f, *given)
        assert ct.gradient(lambda x, f=f, g=given: x * f(*g), 1.0)[0] == pytest.approx(f(*given))
