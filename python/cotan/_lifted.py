"""The table of functions of other modules that have a rule here: what NumPy does not dispatch.

An entry computes one function, with that function's signature, whenever one of our arrays is among
its arguments. Entries are named by text, so that no library is imported for the table's sake.
"""

from collections.abc import Callable
from typing import Any

# Modules by name, their functions by name, and what computes them.
LIFTED: dict[str, dict[str, Callable[..., Any]]] = {}
# Entries that are called whatever the arguments are, since an array may hide in a function among
# them. They call the original themselves when none does.
ALWAYS: set[Callable[..., Any]] = set()

_Entry = Callable[..., Any]

# Functions that make new arrays, by module, into which traced values may be written later.
CREATORS: dict[str, set[str]] = {}

# What stands in for a name altogether: made of the original, and of a function that says whether
# names are lifted.
REPLACED: dict[str, dict[str, Callable[..., Any]]] = {}

# Methods of classes, by the class's dotted name. Changing a class costs more than a small gradient,
# so they are replaced once; like functions they call the original where no array of ours is met.
METHODS: dict[str, dict[str, Callable[..., Any]]] = {}

# Classes that make numbers (`np.float64(x)`), and the rule for a call of one. A call gives a plain
# number where the calling module knows of cotan, unless `ct.lift_module` was asked for that module.
NUMBERS: dict[str, dict[str, Callable[..., Any]]] = {}

# What enters the functions of a module, imported when that module has been.
PROVIDERS = {
    "numpy": [
        *("cotan._lift_numpy", "cotan._lift_numbers", "cotan._lift_matrix", "cotan._lift_methods"),
        "cotan._lift_subclasses",
        "cotan._numpy_iter",
    ],
    "numpy.fft": [],
    "numpy.linalg": [],
    "numpy.ma": ["cotan._lift_masked", "cotan._lift_masked_calls"],
    "numpy.lib.stride_tricks": ["cotan._numpy_index"],
    "numpy.random": ["cotan._lift_random"],
    "math": ["cotan._lift_math"],
    "cmath": ["cotan._lift_math"],
    "builtins": ["cotan._lift_numbers"],
    "statistics": ["cotan._lift_statistics"],
    "hashlib": ["cotan._lift_hashes"],
    "numpy.polynomial": ["cotan._lift_polynomial"],
    "matplotlib.mlab": ["cotan._drawn_spectra"],
    "numba.core.registry": ["cotan._lift_numba"],
    "numba.core.types.scalars": ["cotan._lift_numba"],
    "numba.np.ufunc.dufunc": ["cotan._lift_numba"],
    "numba.np.ufunc.gufunc": ["cotan._lift_numba"],
    "numba.stencils.stencil": ["cotan._lift_numba"],
    "scipy.fft": ["cotan._scipy_fft"],
    "scipy.fftpack": ["cotan._scipy_fft"],
    "scipy.integrate": ["cotan._scipy_integrate", "cotan._scipy_ode", "cotan._scipy_ode_class"],
    "scipy.interpolate": [
        *("cotan._scipy_interpolate", "cotan._scipy_splines", "cotan._scipy_surfaces"),
        "cotan._scipy_rbf",
    ],
    "scipy.linalg": [
        *("cotan._scipy_linalg", "cotan._scipy_bands", "cotan._scipy_decompositions"),
        *("cotan._scipy_equations", "cotan._scipy_forms", "cotan._scipy_matfuncs"),
        *("cotan._scipy_composites", "cotan._scipy_blas"),
    ],
    "scipy.linalg.blas": ["cotan._scipy_blas"],
    "scipy.linalg.lapack": ["cotan._scipy_blas"],
    "scipy.ndimage": ["cotan._scipy_ndimage"],
    "scipy.optimize": [
        "cotan._scipy_optimize",
        "cotan._scipy_fits",
        "cotan._scipy_searches",
        "cotan._scipy_bounded",
    ],
    "scipy.optimize.elementwise": ["cotan._scipy_elementwise"],
    "scipy.signal": [
        *("cotan._scipy_signal", "cotan._scipy_filters", "cotan._scipy_systems"),
        "cotan._scipy_peaks",
    ],
    "scipy.sparse": [
        *("cotan._scipy_sparse", "cotan._scipy_sparse_followed", "cotan._scipy_sparse_written"),
    ],
    "scipy.sparse.linalg": [
        *("cotan._scipy_sparse", "cotan._scipy_sparse_followed"),
        "cotan._scipy_sparse_spectra",
    ],
    "scipy.spatial": ["cotan._scipy_spatial"],
    "scipy.spatial.distance": ["cotan._scipy_spatial"],
    "scipy.spatial.transform": ["cotan._scipy_rotation"],
    "scipy.special": ["cotan._scipy_special"],
    "scipy.stats": [
        *("cotan._scipy_stats", "cotan._scipy_samples", "cotan._scipy_kde"),
        *("cotan._scipy_multivariate", "cotan._scipy_correlation"),
    ],
}


def lifts(*names: str, always: bool = False) -> Callable[[_Entry], _Entry]:
    """Enter an implementation into the table, under names such as `"scipy.linalg.solve"`.

    `always` asks for the entry to be called without one of our arrays among the arguments, too.
    """

    def enter(implementation: _Entry) -> _Entry:
        for name in names:
            module, _, function = name.rpartition(".")
            rule = implementation
            if module.startswith("scipy.") and not always and not isinstance(rule, type):
                from cotan._lift_constants import of_constants  # noqa: PLC0415 - it needs arrays

                rule = of_constants(name, implementation)
            LIFTED.setdefault(module, {})[function] = rule
        if always:
            ALWAYS.add(implementation)
        return implementation

    return enter


def replaces(*names: str) -> Callable[[_Entry], _Entry]:
    """Enter what makes a stand-in: a function of the original and of `is_on`."""

    def enter(make: _Entry) -> _Entry:
        for name in names:
            module, _, function = name.rpartition(".")
            REPLACED.setdefault(module, {})[function] = make
        return make

    return enter


def lifts_method(owner: str, *names: str, always: bool = False) -> Callable[[_Entry], _Entry]:
    """Enter an implementation of a method: `lifts_method("numpy.vectorize", "__call__")`."""

    def enter(implementation: _Entry) -> _Entry:
        for name in names:
            METHODS.setdefault(owner, {})[name] = implementation
        if always:
            ALWAYS.add(implementation)
        return implementation

    return enter


def creates(module: str, names: str) -> None:
    """Say that functions of a module make new arrays."""
    CREATORS.setdefault(module, set()).update(names.split())
