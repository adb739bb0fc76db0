"""`scipy.special` on `Array`s: values, dtypes, derivatives to second order, edges, refusals."""

import subprocess
import sys

import mpmath
import numpy as np
import pytest
import scipy.special as sp
from scipy import stats
from scipy.special import _ufuncs

import cotan as ct
import cotan._scipy_special  # enters its functions
from cotan._lifted import LIFTED
from cotan._numpy_special import SCIPY
from cotan._special import PARTIALS, UNKNOWN, ZERO

WIDE, POSITIVE, UNIT = (-3.0, 3.0), (0.3, 4.0), (0.1, 0.9)

# For each ufunc where its arguments are drawn from; a list stands for whole numbers.
ARGUMENTS = {
    "erf": [WIDE], "erfc": [WIDE], "erfcx": [WIDE], "erfi": [(-2, 2)], "erfinv": [(-0.9, 0.9)],
    "erfcinv": [(0.1, 1.9)], "dawsn": [WIDE], "wofz": [WIDE], "ndtr": [WIDE],
    "log_ndtr": [(-6, 6)], "ndtri": [UNIT], "ndtri_exp": [(-4, -0.2)],
    "voigt_profile": [WIDE, POSITIVE, POSITIVE], "owens_t": [WIDE, WIDE], "fresnel": [(-2, 2)],
    "gamma": [(0.3, 4)], "loggamma": [POSITIVE], "gammaln": [(-0.9, -0.1)],
    "rgamma": [(-2.8, 2.9)], "gammasgn": [POSITIVE], "psi": [(-0.8, -0.1)],
    "_zeta": [(2, 4), POSITIVE],
    "beta": [POSITIVE, POSITIVE], "betaln": [POSITIVE, POSITIVE], "binom": [(4, 6), (0.5, 3.5)],
    "poch": [POSITIVE, POSITIVE], "gammainc": [POSITIVE, POSITIVE],
    "gammaincc": [POSITIVE, POSITIVE], "gammaincinv": [(1, 4), UNIT],
    "gammainccinv": [(1, 4), UNIT], "betainc": [POSITIVE, POSITIVE, UNIT],
    "betaincc": [POSITIVE, POSITIVE, UNIT], "betaincinv": [(1, 3), (1, 3), UNIT],
    "betainccinv": [(1, 3), (1, 3), UNIT], "gdtr": [POSITIVE, POSITIVE, POSITIVE],
    "gdtrc": [POSITIVE, POSITIVE, POSITIVE], "gdtrix": [POSITIVE, (1, 3), UNIT],
    "gdtria": [UNIT, (1, 3), POSITIVE], "chdtr": [POSITIVE, POSITIVE],
    "chdtrc": [POSITIVE, POSITIVE], "chdtri": [(2, 5), UNIT], "pdtr": [(1.1, 5.9), POSITIVE],
    "pdtrc": [(1.1, 5.9), POSITIVE], "pdtri": [[1, 4], UNIT], "bdtr": [[1, 3], [5, 9], UNIT],
    "bdtrc": [[1, 3], [5, 9], UNIT], "bdtri": [[1, 3], [5, 9], UNIT],
    "nbdtr": [[1, 3], [3, 9], UNIT], "nbdtrc": [[1, 3], [3, 9], UNIT],
    "nbdtri": [[1, 3], [3, 9], UNIT], "fdtr": [(2, 5), (2, 5), POSITIVE],
    "fdtrc": [(2, 5), (2, 5), POSITIVE], "fdtri": [(2, 5), (2, 5), UNIT],
    "stdtr": [(2, 5), WIDE], "stdtrit": [(2, 5), UNIT], "nrdtrimn": [UNIT, POSITIVE, WIDE],
    "expi": [POSITIVE], "exp1": [POSITIVE], "expn": [[0, 3], POSITIVE], "exprel": [WIDE],
    "sici": [POSITIVE], "shichi": [POSITIVE], "spence": [(0.5, 3)],
    "_lambertw": [(0.3, 4), [0, 1], (1e-9, 1e-8)], "wrightomega": [WIDE],
    "wright_bessel": [UNIT, POSITIVE, (0.5, 2)],
    "jv": [(-0.5, 3), POSITIVE], "yv": [(0.2, 3), POSITIVE], "iv": [(0.2, 3), POSITIVE],
    "kv": [(0.2, 3), POSITIVE], "kn": [[0, 3], POSITIVE], "yn": [[0, 3], POSITIVE],
    "jve": [(0.2, 3), POSITIVE], "yve": [(0.2, 3), POSITIVE], "ive": [(0.2, 3), POSITIVE],
    "kve": [(0.2, 3), POSITIVE], "hankel1": [(0.2, 3), POSITIVE], "hankel2": [(0.2, 3), POSITIVE],
    "hankel1e": [(0.2, 3), POSITIVE], "hankel2e": [(0.2, 3), POSITIVE],
    "struve": [(0.5, 3), POSITIVE], "modstruve": [(0.5, 3), POSITIVE], "airy": [WIDE],
    "itairy": [POSITIVE], "kelvin": [POSITIVE], "ellipj": [(0.2, 1.5), UNIT],
    "pbdv": [(0.2, 2), POSITIVE], "pbvv": [(0.2, 2), POSITIVE], "pbwa": [(0.2, 2), POSITIVE],
    "lpmv": [[0, 2], [2, 4], UNIT], "eval_genlaguerre": [[0, 4], POSITIVE, WIDE],
    "eval_gegenbauer": [[0, 4], POSITIVE, WIDE], "eval_jacobi": [[0, 4], POSITIVE, POSITIVE, WIDE],
    "eval_sh_jacobi": [[0, 4], (2, 3), UNIT, UNIT], "hyp0f1": [POSITIVE, WIDE],
    "hyp1f1": [POSITIVE, POSITIVE, WIDE], "hyp2f1": [POSITIVE, POSITIVE, POSITIVE, (-0.9, 0.7)],
    "hyperu": [POSITIVE, POSITIVE, POSITIVE], "ellipk": [(-2, 0.9)], "ellipkm1": [(0.1, 1.8)],
    "ellipe": [(-2, 0.9)], "ellipkinc": [(-4, 4), (0.2, 0.8)], "ellipeinc": [(-4, 4), (0.2, 0.8)],
    "elliprf": [POSITIVE, (5, 8), (10, 12)], "elliprc": [POSITIVE, (5, 8)],
    "elliprd": [POSITIVE, (5, 8), (10, 12)], "elliprg": [POSITIVE, (5, 8), (10, 12)],
    "agm": [(0.5, 1), (2, 3)],
    # Those that are made of primitives.
    "expit": [WIDE], "log_expit": [WIDE], "logit": [UNIT], "exp10": [(-2, 2)], "cosm1": [WIDE],
    "sindg": [(-100, 100)], "cosdg": [(-100, 100)], "tandg": [(-80, 80)], "cotdg": [(10, 80)],
    "powm1": [POSITIVE, WIDE], "xlogy": [WIDE, POSITIVE], "xlog1py": [WIDE, POSITIVE],
    "entr": [POSITIVE], "rel_entr": [POSITIVE, POSITIVE], "kl_div": [POSITIVE, POSITIVE],
    "huber": [(0.5, 1), (1.2, 3)], "pseudo_huber": [(0.5, 1), WIDE], "boxcox": [POSITIVE, WIDE],
    "boxcox1p": [POSITIVE, WIDE], "inv_boxcox": [UNIT, POSITIVE], "inv_boxcox1p": [UNIT, POSITIVE],
    "radian": [WIDE, WIDE, WIDE], "round": [(1.1, 1.4)], "log1p": [POSITIVE], "expm1": [WIDE],
    "cbrt": [POSITIVE], "exp2": [WIDE],
}  # fmt: skip
for _n in [
    "legendre",
    "chebyt",
    "chebyu",
    "chebyc",
    "chebys",
    "sh_legendre",
    "sh_chebyt",
    "sh_chebyu",
    "laguerre",
]:
    ARGUMENTS[f"eval_{_n}"] = [[0, 4], WIDE]
for _n in ("eval_hermite", "eval_hermitenorm"):
    ARGUMENTS[_n] = [[0, 4], (-2, 2)]
for _n in ("jn", "yn", "in", "kn"):
    ARGUMENTS[f"_spherical_{_n}"] = ARGUMENTS[f"_spherical_{_n}_d"] = [[0, 4], POSITIVE]
for _n in [
    "j0",
    "j1",
    "y0",
    "y1",
    "i0",
    "i1",
    "i0e",
    "i1e",
    "k0",
    "k1",
    "k0e",
    "k1e",
    "ber",
    "bei",
    "ker",
    "kei",
    "berp",
    "beip",
    "kerp",
    "keip",
]:
    ARGUMENTS[_n] = [POSITIVE]
for _n in ["itj0y0", "iti0k0", "it2j0y0", "it2i0k0", "itstruve0", "it2struve0", "itmodstruve0"]:
    ARGUMENTS[_n] = [POSITIVE]

# Where SciPy's own values are good to fewer digits.
COARSE = {
    "pbvv": 1e-4, "pbwa": 1e-4, "itairy": 1e-4, "it2j0y0": 1e-4, "it2i0k0": 1e-4,
    "itstruve0": 1e-3, "it2struve0": 1e-3, "itmodstruve0": 1e-3, "itj0y0": 1e-3, "iti0k0": 1e-3,
}  # fmt: skip


def ufunc(name):
    found = getattr(_ufuncs, name, None)
    return found if isinstance(found, np.ufunc) else getattr(sp, name)


def arguments(name, shape=(5,)):
    rng = np.random.default_rng(sum(map(ord, name)))
    found = []
    for interval in ARGUMENTS[name]:
        if isinstance(interval, list):
            found.append(rng.integers(*interval, shape, endpoint=True))
        else:
            found.append(rng.uniform(*interval, shape))
    return [x.astype(complex) if name == "wofz" else x for x in found]


def parts(y):
    """Everything real in a result."""
    ys = y if isinstance(y, tuple) else (y,)
    out = []
    for y in ys:
        out.extend([y.real, y.imag] if y.dtype.kind == "c" else [y])
    return out


def derivative(f, x, step=2e-3):
    """Central differences of sixth order of a function that acts on each element."""
    h = step * np.maximum(np.abs(x), 0.5)
    weights = {1: 3 / 4, 2: -3 / 20, 3: 1 / 60}
    return sum(w * (f(x + k * h) - f(x - k * h)) for k, w in weights.items()) / h


def variables(name, args):
    """The arguments that have a derivative."""
    partials = PARTIALS.get(name, (None,) * len(args))
    if name in SCIPY:
        partials = (None,) * len(args)
    kinds = zip(args, partials, strict=True)
    return [
        i for i, (x, p) in enumerate(kinds) if x.dtype.kind in "fc" and p not in (UNKNOWN, ZERO)
    ]


# What NumPy has, too, is tested with it.
NAMES = sorted((set(PARTIALS) - {"sph_harm_y"}) | (set(SCIPY) - {"round"}))


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
    if name in {"jve", "yve", "ive", "psi"}:
        with pytest.raises(TypeError, match=f"{name} of complex numbers"):
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

LIFTS = LIFTED["scipy.special"]
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
    a, b = np.array([1.0, np.inf]), np.array([2.0, 0.0])
    np.testing.assert_allclose(ours(ct.array(a), b=b), sp.logsumexp(a, b=b))
    (g,) = ct.gradient(lambda a: ours(a, b=b), a)
    np.testing.assert_array_equal(g, [1.0, 0.0])
    z = np.array([1 + 2j, 0.5 - 1j])
    np.testing.assert_allclose(ours(ct.array(z)), sp.logsumexp(z))
    value, sign = ours(ct.array(z), b=np.array([1, -2.0]), return_sign=True)
    expected = sp.logsumexp(z, b=np.array([1, -2.0]), return_sign=True)
    np.testing.assert_allclose([value, sign], expected)


# --------------------------------------------------------------------------------------------------
# Against mpmath, edges, refusals


@pytest.mark.parametrize(
    ("name", "reference", "points"),
    [
        ("gammaln", lambda x: mpmath.log(mpmath.gamma(x)), [1e-3, 0.5, 1.4616, 30.0, 1e5]),
        ("psi", lambda x: mpmath.psi(0, x), [1e-3, 0.5, 1.4616, 30.0, -2.5]),
        ("erfcx", lambda x: mpmath.exp(x * x) * mpmath.erfc(x), [-2.0, 0.0, 1.0, 10.0]),
        ("j1", lambda x: mpmath.besselj(1, x), [0.0, 1e-4, 3.8, 30.0]),
        ("i0e", lambda x: mpmath.exp(-x) * mpmath.besseli(0, x), [1e-4, 1.0, 40.0]),
        ("ellipk", mpmath.ellipk, [-1e6, -1e3, -5.0, 0.0, 1e-9, 0.5, 0.99]),
        ("ellipe", mpmath.ellipe, [-5.0, 0.0, 1e-9, 0.5, 0.99]),
        ("exprel", lambda x: mpmath.expm1(x) / x if x else mpmath.mpf(1), [-9.0, -1e-7, 1e-7, 3.0]),
        ("rgamma", mpmath.rgamma, [-3.0, -2.0, 0.0, 0.5, 3.0]),
        ("spence", lambda x: mpmath.polylog(2, 1 - x), [0.2, 1.0, 1.0001, 1.9, 7.0]),
        ("log_ndtr", lambda x: mpmath.log(mpmath.ncdf(x)), [-30.0, -5.0, 0.0, 6.0, 9.0]),
        ("sici", mpmath.si, [-2.0, 1e-5, 1.0, 20.0]),
    ],
)
def test_derivatives_against_mpmath(name, reference, points):
    def function(x):
        y = ufunc(name)(x)
        return y[0] if isinstance(y, tuple) else y

    with mpmath.workdps(40):
        for x in points:
            for order, f in enumerate([function, ct.grad(function), ct.grad(ct.grad(function))]):
                expected = float(mpmath.diff(reference, mpmath.mpf(x), order).real)
                actual = float(np.asarray(f(ct.array(x)) if order == 0 else f(x)))
                np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-13)


SHAPES = [0.1, 0.5, 1.0, 2.5, 20.0, 200.0]


def slope_by_shape(reference, at):
    """The derivative of a function of mpmath's, exact to the digits of a float."""
    with mpmath.workdps(60):
        return float(mpmath.diff(reference, mpmath.mpf(at), h=mpmath.mpf(10) ** -25))


@pytest.mark.parametrize("a", SHAPES)
@pytest.mark.parametrize("share", [1e-3, 0.1, 0.7, 0.97, 1.0, 1.03, 1.5, 4.0])
def test_gamma_functions_by_their_shape(a, share):
    """Below the mean of the logarithm, about it and above it, where the slope is tiny."""
    x = a * share
    sign, ends = (1, (0, x)) if share < 1 else (-1, (x, mpmath.inf))
    expected = sign * slope_by_shape(lambda a: mpmath.gammainc(a, *ends, regularized=True), a)
    for name, sign in (("gammainc", 1), ("gammaincc", -1)):
        (slope,) = ct.gradient(lambda a, name=name: ufunc(name)(a, x), a)
        assert sign * slope == pytest.approx(expected, rel=1e-11, abs=0)


@pytest.mark.parametrize("a", SHAPES)
@pytest.mark.parametrize("b", [0.1, 1.0, 7.0])
@pytest.mark.parametrize("x", [1e-3, 0.3, 0.5, 0.9, 0.999])
def test_beta_functions_by_their_shapes(a, b, x):
    def reference(a, b):
        with mpmath.workdps(120):
            return mpmath.betainc(a, b, 0, x, regularized=True)

    by_a, by_b, _ = ct.gradient(lambda a, b, x: ufunc("betainc")(a, b, x), a, b, x)
    with mpmath.workdps(120):
        expected = slope_by_shape(lambda a: reference(a, b), a)
        assert by_a == pytest.approx(expected, rel=1e-11, abs=1e-60)
        expected = slope_by_shape(lambda b: reference(a, b), b)
        assert by_b == pytest.approx(expected, rel=1e-11, abs=1e-60)


@pytest.mark.parametrize("df", [0.2, 1.0, 2.5, 30.0, 200.0])
@pytest.mark.parametrize("t", [-30.0, -2.0, -1e-3, 0.5, 8.0])
def test_students_distribution_by_its_degrees_of_freedom(df, t):
    def reference(df):
        tail = mpmath.betainc(df / 2, 0.5, 0, df / (df + t * t), regularized=True) / 2
        return tail if t < 0 else 1 - tail

    (slope,) = ct.gradient(lambda df: ufunc("stdtr")(df, t), df)
    assert slope == pytest.approx(slope_by_shape(reference, df), rel=1e-9, abs=0)


def test_slopes_by_shapes_at_the_ends():
    for t in (0.0, np.inf, 1e-300, 1e300):
        assert ct.gradient(lambda a, t=t: ufunc("gammainc")(a, t), 2.0)[0] == 0.0
    ends = [ct.gradient(lambda a, t=t: ufunc("betainc")(a, 2.0, t), 1.5)[0] for t in (0.0, 1.0)]
    assert ends == [0.0, 0.0]
    assert ct.gradient(lambda df: ufunc("stdtr")(df, 0.0), 3.0) == (0.0,)
    for a in (0.0, -1.0, np.nan):
        assert np.isnan(ct.gradient(lambda a: ufunc("gammainc")(a, 1.0), a)[0])
    narrow = np.array([0.5, 2.0], np.float32)
    slope = ct.gradient(lambda a: ct.sum(ufunc("gammainc")(a, np.float32(1.2))), narrow)[0]
    assert slope.dtype == np.float32
    wide = ct.gradient(lambda a: ct.sum(ufunc("gammainc")(a, 1.2)), narrow.astype(float))[0]
    np.testing.assert_allclose(slope, wide, rtol=1e-5)


def test_slopes_far_out():
    slope, bend = ct.grad(sp.spence), ct.grad(ct.grad(sp.spence))
    for z in (1e-30, 1e16, 1e100):
        assert slope(z) == pytest.approx(np.log(z) / (1 - z))
        expected = 1 / (z * (1 - z)) + np.log(z) / (1 - z) ** 2
        assert bend(z) == pytest.approx(expected, rel=1e-9, abs=0)
    # K(m) is log(16 * |m|) / (2 * sqrt(|m|)) far to the left.
    for m in (-1e14, -1e30):
        expected = (np.log(-16 * m) / 2 - 1) / 2 * (-m) ** -1.5
        assert ct.grad(sp.ellipk)(m) == pytest.approx(expected, rel=1e-9, abs=0)
    for function in (sp.i0e, sp.i1e, sp.k0e, sp.k1e):
        assert abs(ct.grad(ct.grad(function))(1e12)) < 1e-20


EDGES = np.array([0.0, -0.0, 1.0, -1.0, 0.5, 30.0, -30.0, 1e300, 1e-300, np.inf, -np.inf, np.nan])


# 0 in SciPy where delta is not finite and r is 0; an overflow in SciPy.
ELSEWHERE = {"pseudo_huber", "kl_div"}


@pytest.mark.parametrize("name", [n for n in NAMES if n in SCIPY or len(ARGUMENTS[n]) == 1])
def test_edges_have_the_values_of_scipy(name):
    function = ufunc(name)
    if name in ELSEWHERE or name == "wofz":
        return
    grid = np.meshgrid(*[EDGES] * function.nin)
    with np.errstate(all="ignore"):
        expected = function(*grid)
    actual = function(*map(ct.array, grid))
    if not isinstance(expected, tuple):
        expected, actual = (expected,), (actual,)
    for a, e in zip(actual, expected, strict=True):
        np.testing.assert_allclose(np.asarray(a), e, rtol=1e-12)


def test_kinks_and_poles():
    def slope(name, *args):
        x = np.array(args[-1])
        return float(ct.gradient(lambda x: ct.sum(ufunc(name)(*args[:-1], x)), x)[0])

    assert slope("i0e", 0.0) == 0.0
    assert slope("rgamma", -2.0) == pytest.approx(2.0)
    assert slope("expn", 0, 1.0) == pytest.approx(-2 * np.exp(-1))
    assert slope("eval_legendre", 3, 1.0) == pytest.approx(6.0)
    assert slope("eval_chebyt", 0, 0.3) == 0.0
    assert slope("gammainc", 1.0, 0.0) == 1.0
    assert slope("boxcox", 0.0, 2.0) == pytest.approx(0.25)
    assert np.isinf(slope("erfinv", 1.0))
    assert np.isnan(slope("gamma", -1.0))


def test_softmax_of_numbers_and_of_complex_numbers():
    z = np.array([0.3 + 9j, 1.2 - 14j, 0.7 + 30j])
    value = ct.pullback(lambda z: sp.log_softmax(z), z)[0]
    np.testing.assert_allclose(value, sp.log_softmax(z))
    for name in ("softmax", "log_softmax"):
        value, (slope,) = ct.value_and_gradient(lambda x, n=name: getattr(sp, n)(x, axis=0), 1.5)
        assert value == getattr(sp, name)(1.5, axis=0)
        assert slope == 0


def test_slopes_where_formulas_meet():
    # Zero times a logarithm is 0; its slope is the logarithm.
    y = np.array([0.2, 1.0, 5.0])
    (slope,) = ct.gradient(lambda x: np.sum(sp.xlogy(x, y)), np.zeros(3))
    np.testing.assert_allclose(slope, np.log(y))
    (slope,) = ct.gradient(lambda x: np.sum(sp.xlog1py(x - 1, y)), np.ones(3))
    np.testing.assert_allclose(slope, np.log1p(y))
    for edge in (0.0, np.inf):
        value, slopes = ct.value_and_gradient(lambda x, y: sp.xlogy(x, y), 0.0, edge)
        assert (value, *slopes) == (0.0, 0.0, 0.0)
    assert np.isnan(sp.xlogy(ct.array(0.0), np.nan))
    (slope,) = ct.gradient(lambda a: stats.dirichlet.logpdf([0.2, 0.8], a), np.ones(2))
    np.testing.assert_allclose(slope, np.log([0.2, 0.8]) + 1)
    # R_C where its arguments are equal, and near to that.
    for x in (1.0, 1.001, 1.06):
        dx, dy = ct.gradient(lambda x, y: sp.elliprc(x, y), x, 1.0)
        step = 1e-5
        near = (sp.elliprc(x + step, 1.0) - sp.elliprc(x - step, 1.0)) / (2 * step)
        assert abs(dx - near) < 1e-9
        near = (sp.elliprc(x, 1.0 + step) - sp.elliprc(x, 1.0 - step)) / (2 * step)
        assert abs(dy - near) < 1e-9
    bend = ct.grad(ct.grad(lambda x: sp.elliprc(x, 1.0)))(1.0)
    assert abs(bend - 0.15) < 1e-12
    assert abs(ct.gradient(lambda y: sp.elliprc(0.0, y), 1.0)[0] + np.pi / 4) < 1e-12


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
        if own in PARTIALS or own in SCIPY or hasattr(np, own):
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


@pytest.mark.parametrize(
    "point", [(1, 1, 2), (1, 1, 1), (1, 2, 1), (2, 1, 1.05), (1, 30, 1.001), (3, 0.1, 3.5)]
)
def test_integrals_of_carlson_at_arguments_that_coincide(point):
    with mpmath.workdps(40):
        exact = {
            "elliprd": lambda x, y, z: mpmath.elliprj(x, y, z, z),
            "elliprf": mpmath.elliprf,
            "elliprg": mpmath.elliprg,
        }
        for name, of in exact.items():
            g = ct.gradient(getattr(sp, name), *map(float, point))
            for i in range(3):

                def along(t, i=i, of=of):
                    return of(*(t if k == i else mpmath.mpf(p) for k, p in enumerate(point)))

                slope = float(mpmath.diff(along, point[i]))
                np.testing.assert_allclose(g[i], slope, 1e-13, err_msg=f"{name}, {i}")
            # The second derivative, along all three.
            first = ct.gradient(lambda s, name=name: sum(
                ct.gradient(getattr(sp, name), *(p + s for p in point))[::2]), 0.0)[0]  # fmt: skip

            def moved(s, of=of):
                return sum(
                    mpmath.diff(
                        lambda t, i=i: of(
                            *(p + s + (t if k == i else 0) for k, p in enumerate(point))
                        ),
                        0,
                    )
                    for i in (0, 2)
                )

            np.testing.assert_allclose(first, float(mpmath.diff(moved, 0)), 1e-9)


def test_integrals_of_carlson_where_one_argument_is_zero():
    x, y, z = ct.gradient(sp.elliprd, 0.0, 1.0, 2.0)
    assert x == -np.inf
    step = 1e-5
    np.testing.assert_allclose(
        [y, z],
        [
            (sp.elliprd(0, 1 + step, 2) - sp.elliprd(0, 1 - step, 2)) / (2 * step),
            (sp.elliprd(0, 1, 2 + step) - sp.elliprd(0, 1, 2 - step)) / (2 * step),
        ],
        1e-8,
    )
    np.testing.assert_allclose(
        ct.gradient(sp.elliprg, 0.0, 1.0, 1.0), np.pi / np.array([8, 16, 16])
    )


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


def test_the_derivative_of_psi_far_to_the_left():
    x = np.array([-1e15 + 0.5, -3e7 - 0.25, -1000.3, -20.7, -19.7, 1e300])
    (g,) = ct.gradient(lambda x: np.sum(sp.psi(x)), x)
    with mpmath.workdps(40):
        exact = [float(mpmath.psi(1, mpmath.mpf(v))) for v in x[2:5]]
    np.testing.assert_allclose(g[2:5], exact, 1e-13)
    np.testing.assert_allclose(g[[0, 1, 5]], [np.pi**2, 2 * np.pi**2, 1e-300], 1e-6)
    assert ct.gradient(sp.psi, -30.0) == (np.inf,)


def test_nothing_to_choose_has_no_slope():
    n, k = np.array([-1.0, 2.0, 5.0, 5.0]), np.array([0.0, 3.0, -1.0, 2.0])
    for g in (
        *ct.gradient(lambda n, k: np.sum(sp.comb(n, k)), n, k),
        ct.gradient(lambda n: np.sum(sp.perm(n, k)), n)[0],
    ):
        assert np.all(g[:3] == 0)
        assert g[3] != 0


@pytest.mark.parametrize(
    ("name", "args"),
    [
        *(("binom", p) for p in [(0.0, 2.0), (1.0, 2.0), (5.0, -1.0), (5.0, 10.0), (2.5, 3.5)]),
        *(("binom", p) for p in [(4.0, 2.0), (-0.5, -2.0), (3.0, 0.0)]),
        *(("poch", p) for p in [(0.0, 2.15), (-1.0, 2.15), (-3.0, 0.5), (2.0, 1.5)]),
        *((name, (0.0,)) for name in ("berp", "beip", "it2struve0")),
    ],
)
def test_slopes_where_a_factor_vanishes(name, args):
    function, step = getattr(sp, name), 1e-4
    g = ct.gradient(function, *args)
    for i, slope in enumerate(g):
        moves = [tuple(a + (d * step if j == i else 0) for j, a in enumerate(args))
                 for d in (-2, -1, 1, 2)]  # fmt: skip
        a, b, c, d = (function(*m) for m in moves)
        np.testing.assert_allclose(slope, (8 * (c - b) - (d - a)) / (12 * step), 1e-7, 1e-10)


def test_first_of_two_integrals_at_zero():
    for function in (sp.it2j0y0, sp.it2i0k0):
        assert ct.gradient(lambda x, function=function: function(x)[0], 0.0) == (0.0,)


def test_the_mean_of_gauss_near_zero():
    assert ct.gradient(lambda a: sp.agm(a, 2.5), 0.0) == (np.inf,)
    with mpmath.workdps(60):
        exact = mpmath.diff(lambda a: mpmath.agm(a, 2.5), mpmath.mpf(10) ** -20, h=1e-26)
    np.testing.assert_allclose(ct.gradient(lambda a: sp.agm(a, 2.5), 1e-20)[0], float(exact), 1e-9)
    np.testing.assert_allclose(ct.gradient(sp.agm, 1.5, 1.5), 0.5)


def test_legendre_functions_at_the_ends():
    x = np.array([1.0, -1.0])
    for m, v in [(0, 0), (0, 3), (0, 4), (2, 1), (2, 2), (2, 5), (3, 4), (4, 4), (-2, 3)]:
        g = ct.gradient(lambda x, m=m, v=v: np.sum(sp.lpmv(m, v, x)), x)[0]
        step = 1e-7
        inside = x - np.sign(x) * step
        slope = (sp.lpmv(m, v, x) - sp.lpmv(m, v, inside)) / (x - inside)
        np.testing.assert_allclose(g, slope, 1e-3, 0.1, err_msg=f"{m}, {v}")
    for m in (1, -1):
        for v in (1, 2, 3):
            g = ct.gradient(lambda x, m=m, v=v: np.sum(sp.lpmv(m, v, x)), x)[0]
            slope = sp.lpmv(m, v, x) - sp.lpmv(m, v, x * (1 - 1e-9))
            np.testing.assert_array_equal(g, np.sign(slope) * np.sign(x) * np.inf)


def test_nodes_of_moving_polynomials_are_refused_where_scipy_knows_a_special_case():
    for name, given in (("roots_jacobi", (0.0, 0.0)), ("roots_sh_jacobi", (1.0, 1.0))):
        f = lambda *p, name=name: np.sum(getattr(sp, name)(4, *p)[0] ** 2)
        with pytest.raises(TypeError, match=f"special.{name} has no derivative rule.*dropgrad"):
            ct.gradient(f, *given)
        assert ct.gradient(lambda x, f=f, g=given: x * f(*g), 1.0)[0] == pytest.approx(f(*given))


# At infinity, at 0 and at 1: the limit, or infinity with its sign.
SLOPES_AT_EDGES = [
    (lambda x: sp.gammainc(2.0, x), np.inf, 0.0), (lambda x: sp.chdtr(2.0, x), np.inf, 0.0),
    (lambda y: sp.gammaincinv(2.0, y), 1.0, np.inf),
    (lambda y: sp.gammainccinv(2.0, y), 0.0, -np.inf),
    (lambda x: sp.fdtr(2.0, 3.0, x), np.inf, 0.0), (lambda p: sp.fdtri(2.0, 3.0, p), 1.0, np.inf),
    (lambda p: sp.chdtri(2.0, p), 0.0, -np.inf), (lambda m: sp.pdtr(2, m), np.inf, 0.0),
    (lambda p: sp.pdtri(2, p), 0.0, -np.inf), (lambda df: sp.stdtr(df, 0.7), np.inf, 0.0),
    (lambda t: sp.stdtr(np.inf, t), 0.7, stats.norm.pdf(0.7)),
    (lambda p: sp.stdtrit(np.inf, p), 0.7, 1 / stats.norm.pdf(stats.norm.ppf(0.7))),
    (sp.exprel, np.inf, np.inf), (sp.exprel, -np.inf, 0.0), (sp.dawsn, np.inf, 0.0),
    (sp.erfcx, np.inf, 0.0), (sp.rgamma, np.inf, 0.0), (sp.ndtri_exp, -np.inf, 0.0),
    (sp.ndtri, 0.0, np.inf), (sp.ndtri, 1.0, np.inf), (sp.k0e, 0.0, -np.inf),
    (sp.k1e, 0.0, -np.inf), (lambda x: sp.kve(1.5, x), 0.0, -np.inf), (sp.y1, 0.0, np.inf),
    (lambda x: sp.yn(3, x), 0.0, np.inf), (lambda x: sp.yv(0.5, x), 0.0, np.inf),
    (lambda y: sp.rel_entr(0.5, y), 0.0, -np.inf), (lambda y: sp.kl_div(0.5, y), 0.0, -np.inf),
    (lambda x: sp.rel_entr(x, 0.0), 0.5, np.inf), (lambda x: sp.betainc(2.0, 1.0, x), 1.0, 2.0),
    (lambda x: sp.betainc(0.5, 1.0, x), 0.0, np.inf), (lambda p: sp.boxcox(2.5, p), np.inf, np.inf),
]  # fmt: skip


@pytest.mark.parametrize("i", range(len(SLOPES_AT_EDGES)))
def test_slopes_at_edges(i):
    function, x, slope = SLOPES_AT_EDGES[i]
    np.testing.assert_allclose(ct.gradient(function, x)[0], slope, rtol=1e-12)


@pytest.mark.parametrize("x", [55.0, 1e3, 1e6])
def test_slopes_do_not_cancel_far_out(x):
    with mpmath.workdps(60):
        z, root = mpmath.mpf(x), mpmath.sqrt(mpmath.pi)
        dawsn = 1 - z * root * mpmath.exp(-z * z) * mpmath.erfi(z)
        erfcx = 2 * z * mpmath.exp(z * z) * mpmath.erfc(z) - 2 / root
    for at, function, slope in ((x, sp.dawsn, dawsn), (-x, sp.dawsn, dawsn), (x, sp.erfcx, erfcx)):
        np.testing.assert_allclose(ct.gradient(function, at)[0], float(slope), rtol=1e-11)


@pytest.mark.parametrize("a", [3.0, 1e3, 1e5])
def test_single_precision_of_large_parameters(a):
    """What nearly cancels is computed in double precision: slopes are good to what is given."""
    x = np.float32(a + np.sqrt(a) / 2)
    a = np.float32(a)
    for function in (
        sp.gammainc, sp.gammaincc, lambda a, x: sp.chdtr(2 * a, 2 * x), sp.pdtr,
        lambda a, x: sp.betainc(a, a, 0.5 + (x - a) / a / 8), lambda a, x: sp.fdtr(a, a, x / a),
        lambda a, x: sp.stdtr(a, (x - a) / np.sqrt(a)), lambda a, x: sp.betaln(a, x * 0 + 2.5),
        lambda a, x: sp.gammaincinv(a, x * 0 + np.float32(0.3)),
    ):  # fmt: skip
        narrow = ct.gradient(function, ct.array(a), ct.array(x))
        wide = ct.gradient(function, float(a), float(x))
        for found, expected in zip(narrow, wide, strict=True):
            if expected is not None:
                assert found.dtype == np.float32
                np.testing.assert_allclose(found, expected, rtol=5e-4)
