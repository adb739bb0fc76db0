"""Derivatives of `scipy.special` far away, where the terms of the short formulas cancel."""

import mpmath as mp
import numpy as np
import pytest
from scipy import special

import cotan as ct


def root_pi():
    return mp.sqrt(mp.pi)


def wofz(z):
    return mp.exp(-z * z) * mp.erfc(-1j * z)


def wofz_slope(z):
    return 2j / root_pi() - 2 * z * wofz(z)


def bessel(which, v, x):
    """Give a Bessel function that is scaled by an exponential, of large numbers."""
    sign = -1 if which == "i" else 1
    term = total = mp.mpf(1)
    for k in range(1, 30):
        term *= sign * (4 * v * v - (2 * k - 1) ** 2) / (8 * k * x)
        total += term
    return total / mp.sqrt(2 * mp.pi * x) if which == "i" else total * mp.sqrt(mp.pi / (2 * x))


def bessel_slope(which, v, x):
    sign = 1 if which == "i" else -1
    beside = bessel(which, v - 1, x) + bessel(which, v + 1, x)
    return sign * (beside / 2 - bessel(which, v, x))


SLOPES = {
    "i0e": lambda x: mp.sign(x) * bessel_slope("i", 0, abs(x)),
    "i1e": lambda x: bessel_slope("i", 1, abs(x)),
    "k0e": lambda x: bessel_slope("k", 0, x),
    "k1e": lambda x: bessel_slope("k", 1, x),
    "erfcx": lambda x: 2 * x * mp.exp(x * x) * mp.erfc(x) - 2 / root_pi(),
    "dawsn": lambda x: 1 - x * root_pi() * mp.exp(-x * x) * mp.erfi(x),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", SLOPES)
def test_slopes_of_large_numbers(name, dtype):
    tolerance = 1e-6 if dtype == np.float32 else 1e-12
    points = [30.0, 49.0, 60.0] if name in {"erfcx", "dawsn"} else [900.0, 1100.0, 1e5, 1e8]
    signs = (1, -1) if name in {"i0e", "i1e", "dawsn"} else (1,)
    with mp.workdps(60):
        for x in (s * x for s in signs for x in points):
            (slope,) = ct.gradient(getattr(special, name), np.array(x, dtype))
            assert slope == pytest.approx(float(SLOPES[name](mp.mpf(x))), rel=tolerance)


@pytest.mark.parametrize("v", [0.0, 0.5, 3.0, 7.3])
@pytest.mark.parametrize("which", ["i", "k"])
def test_slopes_of_scaled_bessel_functions(which, v):
    function = special.ive if which == "i" else special.kve
    with mp.workdps(40):
        for x in (60_000.0, 1e7):
            (slope,) = ct.gradient(lambda x: function(v, x), x)
            wanted = bessel_slope(which, mp.mpf(v), mp.mpf(x))
            assert slope == pytest.approx(float(wanted), rel=1e-11)
            (second,) = ct.gradient(lambda x: ct.gradient(lambda x: function(v, x), x)[0], x)
            assert second == pytest.approx(-1.5 * slope / x, rel=1e-2)


@pytest.mark.parametrize("sigma", [0.5, 0.01, 1e-3, 1e-5, 1e-7, 1e-12])
@pytest.mark.parametrize("x", [0.0, 0.3, -2.0])
def test_the_profile_of_a_narrow_width(sigma, x):
    gamma = 0.4
    slopes = ct.gradient(special.voigt_profile, x, sigma, gamma)
    with mp.workdps(120):
        s = mp.mpf(sigma)
        z = (mp.mpf(x) + 1j * mp.mpf(gamma)) / (s * mp.sqrt(2))
        slope, norm = wofz_slope(z), s * s * 2 * root_pi()
        turned = mp.re(wofz(z) + z * slope) * mp.sqrt(2)
        wanted = [mp.re(slope), -turned, -mp.im(slope)]
        for a, b in zip(slopes, wanted, strict=True):
            assert a == pytest.approx(float(b / norm), rel=1e-7, abs=1e-30)
    narrow = ct.gradient(special.voigt_profile, *map(np.float32, (x, sigma, gamma)))
    np.testing.assert_allclose(narrow, slopes, 2e-5, 1e-30)


def test_the_profile_without_a_width_is_curved():
    def slope(sigma):
        return ct.gradient(lambda s: special.voigt_profile(0.3, s, 0.4), sigma)[0]

    assert slope(0.0) == 0.0
    assert ct.gradient(slope, 0.0)[0] == pytest.approx(slope(1e-3) / 1e-3, rel=1e-4)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("name", ["wofz", "erfcx", "dawsn", "log_ndtr"])
def test_complex_slopes_of_large_numbers(name, dtype):
    slopes = {
        "wofz": wofz_slope,
        "erfcx": lambda z: 1j * wofz_slope(1j * z),
        "dawsn": SLOPES["dawsn"],
        "log_ndtr": lambda z: (
            mp.sqrt(2) / root_pi() / (mp.exp(z * z / 2) * mp.erfc(-z / mp.sqrt(2)))
        ),
    }
    tolerance = 1e-5 if dtype == np.complex64 else 1e-11
    for z in (40 + 3j, 45j + 30, 60 + 1j, -70 + 5j, 200 + 4j, 1000 + 0j, -51 - 0.01j, 60 - 2j):
        function = getattr(special, name)
        value = function(z)
        if not 1e-30 < abs(value) < 1e30:
            continue
        _, back = ct.pullback(function, np.array(z, dtype))
        (slope,) = back(np.array(1.0, dtype))
        with mp.workdps(80):
            wanted = complex(slopes[name](mp.mpc(z)))
        assert complex(np.conj(np.asarray(slope))) == pytest.approx(wanted, rel=tolerance)


def test_quantiles_of_tiny_logarithms():
    for y in (-1e3, -1e6, -1e10):
        (slope,) = ct.gradient(special.ndtri_exp, y)
        t = special.ndtri_exp(y)
        # The ratio of Mills, by its first terms.
        wanted = (1 - 1 / t**2 + 3 / t**4) / -t
        assert slope == pytest.approx(wanted, rel=1e-7)
    (slope,) = ct.gradient(special.ndtri_exp, np.float32(-1e6))
    assert slope == pytest.approx(7.0710931e-4, rel=1e-5)


@pytest.mark.parametrize(("name", "args", "wanted"), [
    ("agm", (0.0, 0.7), (np.inf, 0.0)),
    ("agm", (0.7, 0.0), (0.0, np.inf)),
    ("elliprg", (0.0, 0.0, 0.49), (np.inf, np.inf, 0.25 / 0.7)),
    ("gdtr", (0.0, 0.5, 0.9), (np.inf, 0.0, 0.0)),
    ("gdtrc", (0.0, 0.5, 0.9), (-np.inf, 0.0, 0.0)),
])  # fmt: skip
def test_slopes_where_one_argument_is_zero(name, args, wanted):
    for i, slope in enumerate(wanted):
        if np.isfinite(slope):
            (found,) = ct.gradient(
                lambda x, i=i: getattr(special, name)(*args[:i], x, *args[i + 1 :]), args[i]
            )
            assert found == pytest.approx(slope)


def test_the_profile_of_a_negative_width():
    for args in ((3.0, -0.3, 0.1), (0.4, -0.7, 0.2), (9.0, -0.2, 0.5)):
        for i, slope in enumerate(ct.gradient(special.voigt_profile, *args)):
            h = 1e-6 * abs(args[i])
            ends = [special.voigt_profile(*args[:i], args[i] + s, *args[i + 1 :]) for s in (-h, h)]
            assert slope == pytest.approx((ends[1] - ends[0]) / (2 * h), rel=1e-4)


@pytest.mark.parametrize("name", ["legendre", "sh_legendre", "chebyt", "chebyu", "chebys",
                                  "sh_chebyt", "sh_chebyu"])  # fmt: skip
def test_polynomials_of_negative_degrees(name):
    function = getattr(special, f"eval_{name}")
    for n in (-1.0, -2.0, -3.0, -4.0, -2.5):
        x, h = 0.7, 1e-4

        def slope(x, n=n):
            return ct.gradient(lambda x: function(n, x), x)[0]

        wanted = (function(n, x + h) - function(n, x - h)) / (2 * h)
        assert slope(x) == pytest.approx(wanted, rel=1e-5, abs=1e-7)
        (second,) = ct.gradient(slope, x)
        assert second == pytest.approx((slope(x + h) - slope(x - h)) / (2 * h), 1e-5, 1e-6)
