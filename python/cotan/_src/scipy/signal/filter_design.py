"""Overrides of the filter designs of `scipy.signal`, differentiable in edges and ripples.

SciPy computes the coefficients and checks the arguments; here they are computed once more as
functions of zeros and poles, for their derivatives.
"""

# ruff: noqa: N803 - the names are SciPy's

from typing import Any, TypeAlias

import numpy as np

from cotan import _core
from cotan._core import Array
from cotan._src.rebind.engine import locate, locate_original
from cotan._src.rebind.numpy_substitutes import asarray
from cotan._src.runtime.registry import override
from cotan._src.runtime.values import (
    attach_derivative,
    contains_active,
    is_array,
    refuse,
    to_numpy,
)
from cotan._src.state.callback_probe import to_numpy_items
from cotan._src.typing import AnyArray, ArrayLike, NDArray, Scalar

_HERE = "scipy.signal"

#: The gain of a filter: a number, in whatever form.
_Gain: TypeAlias = AnyArray | Scalar
#: Zeros, poles and gain of a filter.
_Roots: TypeAlias = tuple[AnyArray, AnyArray, _Gain]
#: A filter: its sections, or the polynomials, or zeros, poles and gain.
_Filter: TypeAlias = AnyArray | tuple[_Gain, ...]


def _known(name: str, *args: object, **options: object) -> Any:
    options = {key: to_numpy_items(value) for key, value in options.items()}
    return locate(f"{_HERE}.{name}")(*map(to_numpy_items, args), **options)


def _valued(known: Any, computed: Any) -> Any:
    """Give SciPy's values with the derivatives of those computed here."""
    if isinstance(known, tuple):
        return tuple(map(_valued, known, computed))
    computed = asarray(computed)
    if not np.iscomplexobj(known) and np.iscomplexobj(computed):
        computed = computed.real
    return attach_derivative(known, computed)


def complex_vector(x: ArrayLike) -> Array:
    """Give numbers of any shape as a vector of complex128."""
    return _core.asarray(asarray(x), np.complex128).reshape(-1)


def polynomial(roots: AnyArray) -> AnyArray:
    """Give the coefficients of a polynomial with these roots."""
    one = np.ones(1, np.complex128)
    c: AnyArray = one
    for i in range(roots.shape[0]):
        c = np.concatenate([c, 0 * one]) - roots[i] * np.concatenate([0 * one, c])
    return c


def _product(x: AnyArray) -> Scalar:
    return np.prod(x) if x.shape[0] else 1.0


# --------------------------------------------------------------------------------------------------
# From prototypes to filters, by zeros, poles and gains


_PROTOTYPES = {"butter": "buttap", "bessel": "besselap", "cheby1": "cheb1ap", "cheby2": "cheb2ap",
               "ellip": "ellipap"}  # fmt: skip


def _prototype(name: str, order: int, rp: Scalar | None, rs: Scalar | None, norm: str) -> _Roots:
    options: dict[str, list[Any]] = {
        "cheby1": [rp],
        "cheby2": [rs],
        "ellip": [rp, rs],
        "bessel": [norm],
    }
    ripples = options.get(name, [])
    z, p, k = _known(_PROTOTYPES[name], order, *ripples)
    if not contains_active(ripples):
        return z, p, k
    if name == "ellip":
        raise refuse("scipy.signal.ellip with respect to its ripples")
    rule = _first if name == "cheby1" else _second
    moved: _Roots = _valued((z, p, k), rule(order, ripples[0]))
    return moved


def _angles(order: int) -> NDArray:
    return np.pi * np.arange(-order + 1, order, 2) / (2 * order)


def _first(order: int, ripple: Scalar) -> _Roots:
    """Chebyshev's filter of the first kind."""
    eps = np.sqrt(10 ** (0.1 * ripple) - 1.0)
    p = -np.sinh(np.arcsinh(1 / eps) / order + 1j * _angles(order))
    k = np.real(_product(-p))
    return np.zeros(0), p, k / np.sqrt(1 + eps * eps) if order % 2 == 0 else k


def _second(order: int, ripple: Scalar) -> _Roots:
    """Chebyshev's filter of the second kind."""
    de = 1.0 / np.sqrt(10 ** (0.1 * ripple) - 1)
    mu = np.arcsinh(1.0 / de) / order
    m = np.arange(-order + 1, order, 2)
    z = -np.conjugate(1j / np.sin(m[m != 0] * np.pi / (2 * order)))
    unit = np.exp(1j * _angles(order))
    p = 1.0 / (np.sinh(mu) * -unit.real + 1j * np.cosh(mu) * -unit.imag)
    return z, p, np.real(_product(-p) / _product(-z))


def _moved(btype: str, z: ArrayLike, p: ArrayLike, k: _Gain, warped: AnyArray) -> _Roots:
    """Give the zeros, poles and gain of a filter for other frequencies than a prototype's."""
    z, p = complex_vector(z), complex_vector(p)
    degree = p.shape[0] - z.shape[0]
    if btype == "lowpass":
        return z * warped, p * warped, k * warped**degree
    turned = k * np.real(_product(-z) / _product(-p))
    nothing = np.zeros(degree, np.complex128)
    if btype == "highpass":
        return np.concatenate([warped / z, nothing]), warped / p, turned
    bw, wo = warped[1] - warped[0], np.sqrt(warped[0] * warped[1])

    def both(x: AnyArray) -> AnyArray:
        root = np.sqrt(x**2 - wo**2)
        return np.concatenate([x + root, x - root])

    if btype == "bandpass":
        return np.concatenate([both(z * bw / 2), nothing]), both(p * bw / 2), k * bw**degree
    at = 1j * wo * np.ones(degree)
    return np.concatenate([both(bw / 2 / z), at, -at]), both(bw / 2 / p), turned


def _bilinear(z: AnyArray, p: AnyArray, k: _Gain, fs: float) -> _Roots:
    degree = p.shape[0] - z.shape[0]
    fs2 = 2.0 * fs
    gain = k * np.real(_product(fs2 - z) / _product(fs2 - p))
    moved = np.concatenate([(fs2 + z) / (fs2 - z), -np.ones(degree)])
    return moved, (fs2 + p) / (fs2 - p), gain


_BTYPES = {
    **dict.fromkeys(("band", "bandpass", "pass", "bp"), "bandpass"),
    **dict.fromkeys(("bs", "bandstop", "bands", "stop"), "bandstop"),
    **dict.fromkeys(("l", "low", "lowpass", "lp"), "lowpass"),
    **dict.fromkeys(("high", "highpass", "h", "hp"), "highpass"),
}


def _designed(name: str, order: int, Wn: ArrayLike, rp: Scalar | None, rs: Scalar | None,
              btype: str, analog: bool, output: str, norm: str,
              fs: Scalar | None) -> tuple[_Gain, ...]:  # fmt: skip
    """Compute what SciPy's function of a name computes, which has looked at the arguments."""
    edges = asarray(Wn)
    edges = edges.reshape(-1) if edges.size > 1 else edges.reshape(())
    if fs is not None:
        edges = edges / (fs / 2.0)
    z, p, k = _prototype(name, order, rp, rs, norm)
    warped = edges if analog else 4.0 * np.tan(np.pi * edges / 2.0)
    z, p, k = _moved(_BTYPES[btype.lower()], z, p, k, warped)
    if not analog:
        z, p, k = _bilinear(z, p, k, 2.0)
    return (k * polynomial(z), polynomial(p)) if output == "ba" else (z, p, k)


def _design(name: str, parameters: tuple[str, ...]) -> None:
    """Enter a function of filter design, whose ripples have these names."""

    @override(f"{_HERE}.{name}")
    def design(*args: Any, **given: Any) -> _Filter:
        names = ("N", *parameters, "Wn", "btype", "analog", "output", "norm", "fs")
        names = names if name == "bessel" else tuple(n for n in names if n != "norm")
        options = dict(zip(names, args, strict=False)) | given
        known = _known(name, **options)
        output = options.get("output", "ba")
        computed = _designed(
            name, int(to_numpy(options["N"])), options["Wn"], options.get("rp"), options.get("rs"),
            options.get("btype", "low"), options.get("analog", False), output,
            options.get("norm", "phase"), options.get("fs"),
        )  # fmt: skip
        made: _Filter = _valued(known, computed) if output != "sos" else _rows(known, *computed)
        return made


for _name, _parameters in {
    "butter": (), "bessel": (), "cheby1": ("rp",), "cheby2": ("rs",), "ellip": ("rp", "rs"),
}.items():  # fmt: skip
    _design(_name, _parameters)

_FTYPES = {"butterworth": "butter", "cauer": "ellip", "elliptic": "ellip", "chebyshev1": "cheby1",
           "chebyshevi": "cheby1", "chebyshev2": "cheby2", "chebyshevii": "cheby2"}  # fmt: skip


@override(f"{_HERE}.iirfilter")
def iirfilter(N: int, Wn: ArrayLike, rp: Scalar | None = None, rs: Scalar | None = None,
              btype: str = "band", analog: bool = False, ftype: str = "butter", output: str = "ba",
              fs: Scalar | None = None) -> _Filter:  # fmt: skip
    known = _known("iirfilter", N, Wn, rp, rs, btype, analog, ftype, output, fs)
    name, _, norm = ftype.lower().partition("_")
    computed = _designed(
        _FTYPES.get(name, name),
        int(to_numpy(N)),
        Wn,
        rp,
        rs,
        btype,
        analog,
        output,
        norm or "phase",
        fs,
    )
    made: _Filter = _valued(known, computed) if output != "sos" else _rows(known, *computed)
    return made


# --------------------------------------------------------------------------------------------------
# Sections of second order


def _rows(known: NDArray, z: ArrayLike, p: ArrayLike, k: _Gain) -> Array:
    """Give SciPy's sections, whose zeros and poles are those that are nearest to these."""
    # Where there are fewer, the others are zero.
    count = 2 * known.shape[0]
    z, p = (
        np.concatenate([x, np.zeros(count - x.shape[0])])
        for x in (complex_vector(z), complex_vector(p))
    )
    pairs = [_nearest(to_numpy(x), known[:, i : i + 3]) for x, i in ((z, 0), (p, 3))]
    rows = []
    for section, (zeros, poles) in enumerate(zip(*pairs, strict=True)):
        top, bottom = polynomial(z[zeros]), polynomial(p[poles])
        rows.append(np.concatenate([top * k if section == 0 else top, bottom]))
    sections: Array = _valued(known, np.stack(rows))
    return sections


def _nearest(x: NDArray, polynomials: NDArray) -> list[NDArray]:
    """Say which elements are the roots of each polynomial."""
    left = list(range(len(x)))
    found_of = []
    for c in polynomials:
        # Those of a lower degree in 1/z are at zero.
        lead = np.trim_zeros(c, "f")
        own = []
        for root in (
            np.append(np.roots(lead), np.zeros(3 - lead.size)) if lead.size else np.zeros(2)
        ):
            at = min(left, key=lambda i: abs(x[i] - root))
            left.remove(at)
            own.append(at)
        found_of.append(np.array(own))
    return found_of


@override(f"{_HERE}.zpk2sos")
def zpk2sos(
    z: ArrayLike, p: ArrayLike, k: _Gain, pairing: str | None = None, *, analog: bool = False
) -> Array:
    if analog:
        raise refuse("scipy.signal.zpk2sos with analog=True")
    return _rows(_known("zpk2sos", z, p, k, pairing), z, p, k)


@override(f"{_HERE}.tf2sos")
def tf2sos(
    b: ArrayLike, a: ArrayLike, pairing: str | None = None, *, analog: bool = False
) -> Array:
    if analog:
        raise refuse("scipy.signal.tf2sos with analog=True")
    b, a = (np.atleast_1d(asarray(c)) for c in (b, a))
    return zpk2sos(np.roots(b), np.roots(a), b[0] / a[0], pairing)


# --------------------------------------------------------------------------------------------------
# One frequency


def _resonator(name: str, peak: bool) -> None:
    @override(f"{_HERE}.{name}")
    def resonator(
        w0: Scalar, Q: Scalar, fs: Scalar = 2.0, **options: object
    ) -> tuple[Array, Array]:
        known = _known(name, w0, Q, fs, **options)
        angle = asarray(2 * w0 / fs) * np.pi
        # The edges are where the gain is half the power.
        beta = np.tan(angle / Q / 2.0)
        gain = 1.0 / (1.0 + beta)
        middle = -2.0 * gain * np.cos(angle)
        one = asarray(1.0)
        a = np.stack([one, middle, 2.0 * gain - 1.0])
        b = [1.0 - gain, 0 * one, gain - 1.0] if peak else [gain, middle, gain]
        made: tuple[Array, Array] = _valued(known, (np.stack(b), a))
        return made


_resonator("iirnotch", False)
_resonator("iirpeak", True)


@override(f"{_HERE}.windows.get_window")
def get_window(window: Any, *args: Any, **options: Any) -> AnyArray:
    if is_array(window):  # a number stands for the window that it is the parameter of
        window = "kaiser", window
    result: AnyArray = locate_original(f"{_HERE}.windows.get_window")(window, *args, **options)
    return result
