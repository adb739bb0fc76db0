"""What the tests of `scipy.special` share: arguments of each ufunc, and which have a derivative."""

import numpy as np
import scipy.special as sp
from scipy.special import _ufuncs

import cotan._src.numpy.ufunc_composites  # noqa: F401 - enters its rows
from cotan._src.runtime.registry import UFUNC, rules_of
from cotan._src.special.ufuncs import PARTIALS, UNKNOWN, ZERO

#: Ufuncs of `scipy.special` that consist of primitives.
SCIPY = set(rules_of("scipy.special", UFUNC))

WIDE, POSITIVE, UNIT = (-3.0, 3.0), (0.3, 4.0), (0.1, 0.9)

# For each ufunc where its arguments are drawn from; a list stands for integers.
ARGUMENTS = {
    "erf": [WIDE], "erfc": [WIDE], "erfcx": [WIDE], "erfi": [(-2, 2)], "erfinv": [(-0.9, 0.9)],
    "erfcinv": [(0.1, 1.9)], "dawsn": [WIDE], "wofz": [WIDE], "ndtr": [WIDE],
    "log_ndtr": [(-6, 6)], "ndtri": [UNIT], "ndtri_exp": [(-4, -0.2)],
    "voigt_profile": [WIDE, POSITIVE, POSITIVE], "owens_t": [WIDE, WIDE], "fresnel": [(-2, 2)],
    "gamma": [(0.3, 4)], "loggamma": [POSITIVE], "gammaln": [(-0.9, -0.1)],
    "rgamma": [(-2.8, 2.9)], "gammasgn": [POSITIVE], "psi": [(-0.8, -0.1)],
    "_zeta": [(2, 4), POSITIVE], "_riemann_zeta": [(1.5, 6)],
    "beta": [POSITIVE, POSITIVE], "betaln": [POSITIVE, POSITIVE], "binom": [(4, 6), (0.5, 3.5)],
    "poch": [POSITIVE, POSITIVE], "gammainc": [POSITIVE, POSITIVE],
    "gammaincc": [POSITIVE, POSITIVE], "gammaincinv": [(1, 4), UNIT],
    "gammainccinv": [(1, 4), UNIT], "betainc": [POSITIVE, POSITIVE, UNIT],
    "betaincc": [POSITIVE, POSITIVE, UNIT], "betaincinv": [(1, 3), (1, 3), UNIT],
    "betainccinv": [(1, 3), (1, 3), UNIT], "gdtr": [POSITIVE, POSITIVE, POSITIVE],
    "gdtrc": [POSITIVE, POSITIVE, POSITIVE], "gdtrix": [POSITIVE, (1, 3), UNIT],
    "gdtria": [UNIT, (1, 3), POSITIVE], "chdtr": [POSITIVE, POSITIVE],
    "chndtr": [POSITIVE, (2, 5), POSITIVE], "chndtrix": [UNIT, (2, 5), POSITIVE],
    "chndtrinc": [(4, 6), (2, 3), (0.3, 0.5)],
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
    "wright_bessel": [UNIT, POSITIVE, (0.5, 2)], "log_wright_bessel": [UNIT, POSITIVE, (0.5, 2)],
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
    # Inverses by parameters, as real numbers.
    "bdtrik": [UNIT, (5, 9), UNIT], "bdtrin": [(1, 3), UNIT, (0.2, 0.8)],
    "nbdtrik": [(0.4, 0.9), (2, 5), (0.2, 0.6)], "nbdtrin": [(1, 3), (0.2, 0.8), (0.2, 0.8)],
    "btdtria": [UNIT, (1, 3), (0.2, 0.8)], "btdtrib": [(1, 3), UNIT, (0.2, 0.8)],
    "chdtriv": [UNIT, POSITIVE], "gdtrib": [POSITIVE, UNIT, POSITIVE],
    "pdtrik": [(0.5, 0.9), (1, 3)], "fdtridfd": [(2, 5), (0.75, 0.8), (2, 2.2)],
    "stdtridf": [(0.8, 0.84), (1.1, 1.2)], "nrdtrisd": [(-1, 0), (0.6, 0.9), (0.5, 2)],
    "tklmbda": [(-0.8, 0.8), (0.3, 1)], "kolmogorov": [(0.4, 2)], "kolmogi": [UNIT],
    # Waves. Of the second radial functions SciPy has wrong values for most orders.
    "pro_ang1": [[0, 1], [2, 3], POSITIVE, (-0.8, 0.8)],
    "obl_ang1": [[0, 1], [2, 3], POSITIVE, (-0.8, 0.8)],
    "pro_ang1_cv": [[0, 0], [1, 1], (1, 1), (2.5930845799771327, 2.5930845799771327), (-0.8, 0.8)],
    "obl_ang1_cv": [[0, 0], [1, 1], (1, 1), (1.3932063104484202, 1.3932063104484202), (-0.8, 0.8)],
    "pro_rad1": [[0, 1], [2, 3], POSITIVE, (1.2, 3)],
    "obl_rad1": [[0, 1], [2, 3], POSITIVE, (0.5, 3)],
    "pro_rad2": [[0, 0], [2, 3], POSITIVE, (1.5, 3)],
    "obl_rad2": [[1, 1], [1, 1], (1, 2), (1.5, 3)],
    "pro_rad1_cv": [[0, 0], [1, 1], (1, 1), (2.5930845799771327, 2.5930845799771327), (1.2, 3)],
    "obl_rad1_cv": [[0, 0], [1, 1], (1, 1), (1.3932063104484202, 1.3932063104484202), (0.5, 3)],
    "pro_rad2_cv": [[0, 0], [1, 1], (1, 1), (2.5930845799771327, 2.5930845799771327), (1.5, 3)],
    "obl_rad2_cv": [[1, 1], [1, 1], (1, 1), (1.7953045872818243, 1.7953045872818243), (0.5, 3)],
    "mathieu_cem": [[0, 3], POSITIVE, (10, 80)], "mathieu_sem": [[1, 3], POSITIVE, (10, 80)],
    "mathieu_modcem1": [[0, 3], POSITIVE, UNIT], "mathieu_modcem2": [[0, 3], POSITIVE, UNIT],
    "mathieu_modsem1": [[1, 3], POSITIVE, UNIT], "mathieu_modsem2": [[1, 3], POSITIVE, UNIT],
    "modfresnelp": [POSITIVE], "modfresnelm": [POSITIVE], "airye": [POSITIVE],
    "besselpoly": [POSITIVE, (1, 3), (1.2, 3)],
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
    "pro_rad2": 1e-4, "pro_rad2_cv": 1e-4, "obl_rad2": 1e-4,
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
# Rows that only `scipy.stats` uses are entered by it, and compared in its tests.
OF_STATS = {
    *("_beta_ppf", "_ncx2_sf", "_ncx2_isf", "_log1mexp"),
    *("_binom_cdf", "_binom_sf", "_nbinom_cdf", "_nbinom_sf"),
}
ENTERED = {name for name in PARTIALS if not name.startswith("stats.")} - OF_STATS
NAMES = sorted((ENTERED - {"sph_harm_y"}) | (SCIPY - {"round"}))
