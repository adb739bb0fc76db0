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

# The modules of `cotan._src` that enter the functions of a module, imported when that module is.
PROVIDERS = {
    "numpy": [
        *(
            "numpy.creation",
            "interpose.number_classes",
            "numpy.matrix",
            "interpose.c_methods",
        ),
        "numpy.user_subclasses",
        "numpy.nditer",
    ],
    "numpy.fft": [],
    "numpy.linalg": [],
    "numpy.ma": ["numpy.masked_array", "numpy.masked_functions"],
    "numpy.lib.stride_tricks": ["numpy.indexing"],
    "numpy.random": ["numpy.random"],
    "math": ["stdlib.math"],
    "cmath": ["stdlib.math"],
    "builtins": ["interpose.number_classes"],
    "statistics": ["stdlib.statistics"],
    "hashlib": ["stdlib.hashlib"],
    "numpy.polynomial": ["numpy.polynomial"],
    "matplotlib.mlab": ["thirdparty.matplotlib_mlab"],
    "numba.core.registry": ["thirdparty.numba"],
    "numba.core.types.scalars": ["thirdparty.numba"],
    "numba.np.ufunc.dufunc": ["thirdparty.numba"],
    "numba.np.ufunc.gufunc": ["thirdparty.numba"],
    "numba.stencils.stencil": ["thirdparty.numba"],
    "scipy.fft": ["scipy.fft"],
    "scipy.fftpack": ["scipy.fft"],
    "scipy.integrate": [
        "scipy.integrate.quadrature",
        "scipy.integrate.ivp",
        "scipy.integrate.ode_class",
    ],
    "scipy.interpolate": [
        *(
            "scipy.interpolate.core",
            "scipy.interpolate.fitpack",
            "scipy.interpolate.fitpack2d",
        ),
        "scipy.interpolate.rbf",
    ],
    "scipy.linalg": [
        *(
            "scipy.linalg.solve",
            "scipy.linalg.banded",
            "scipy.linalg.decompositions",
        ),
        *(
            "scipy.linalg.matrix_equations",
            "scipy.linalg.structured_matrices",
            "scipy.linalg.matrix_functions",
        ),
        *("scipy.linalg.composites", "scipy.linalg.blas"),
    ],
    "scipy.linalg.blas": ["scipy.linalg.blas"],
    "scipy.linalg.lapack": ["scipy.linalg.blas"],
    "scipy.ndimage": ["scipy.ndimage"],
    "scipy.optimize": [
        "scipy.optimize.minimize_root",
        "scipy.optimize.least_squares",
        "scipy.optimize.global_search",
        "scipy.optimize.linear_least_squares",
    ],
    "scipy.optimize.elementwise": ["scipy.optimize.elementwise"],
    "scipy.signal": [
        *(
            "scipy.signal.filtering",
            "scipy.signal.filter_design",
            "scipy.signal.lti",
        ),
        "scipy.signal.peaks",
    ],
    "scipy.sparse": [
        *(
            "scipy.sparse.products",
            "scipy.sparse.traced",
            "scipy.sparse.lil_dok",
            "scipy.sparse.matmul",
        ),
    ],
    "scipy.sparse.linalg": [
        *("scipy.sparse.products", "scipy.sparse.traced"),
        "scipy.sparse.eigen",
    ],
    "scipy.spatial": ["scipy.spatial.distance"],
    "scipy.spatial.distance": ["scipy.spatial.distance"],
    "scipy.spatial.transform": ["scipy.spatial.rotation"],
    "scipy.special": ["special.functions"],
    "scipy.stats": [
        *(
            "scipy.stats.distributions",
            "scipy.stats.sample_statistics",
            "scipy.stats.kde",
        ),
        *("scipy.stats.multivariate", "scipy.stats.correlation"),
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
                from cotan._src.runtime.constant_fallback import with_constant_fallback  # noqa: PLC0415 - it needs arrays

                rule = with_constant_fallback(name, implementation)
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
