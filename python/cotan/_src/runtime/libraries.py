"""What cotan knows about each library as a whole: one table, a row for each package or module.

Its columns are what others read: the set of the libraries with a trait. Modules of the standard
library have a row only where they differ from the rest of it.
"""

import enum
import sys


class Trait(enum.Flag):
    """A column of the table: what is so of a library."""

    #: It hands memory to C. Its code gets ndarrays, unless the arguments of a conversion are
    #: active: then it gets an `Array`, which C code refuses by name. The state of its objects is
    #: not restored between calls of a solver.
    NATIVE = enum.auto()
    #: Prepared functions do not watch what its modules and objects hold.
    UNGUARDED = enum.auto()
    #: No line of it is one of the user's, which messages name.
    NO_USER_CODE = enum.auto()
    #: Its Python code is rebound, so that it runs on `Array`s.
    REBOUND = enum.auto()
    #: Its objects keep arrays, lists and dictionaries for their callers.
    KEEPS_OBJECTS = enum.auto()
    #: Its objects copy values into memory of their own.
    COPIES_VALUES = enum.auto()
    #: It is of the standard library, and its objects hold those of user code.
    HOLDS_USER_STATE = enum.auto()
    #: It computes in processes of its own.
    STARTS_PROCESSES = enum.auto()
    #: It draws: values are read to be looked at, as by printing.
    DRAWS = enum.auto()
    #: A module of a library that draws, which also computes for user code that calls it.
    COMPUTES = enum.auto()
    #: Its code stands between that of a library that draws and what it reads.
    READS_FOR_OTHERS = enum.auto()


# Short names, for the table alone.
_C, _U, _L = Trait.NATIVE, Trait.UNGUARDED, Trait.NO_USER_CODE
_R, _K, _M = Trait.REBOUND, Trait.KEEPS_OBJECTS, Trait.COPIES_VALUES
_H, _P = Trait.HOLDS_USER_STATE, Trait.STARTS_PROCESSES
_D, _N, _B = Trait.DRAWS, Trait.COMPUTES, Trait.READS_FOR_OTHERS

_TABLE = {
    "PIL": _C,
    "cotan": _C | _U | _L | _B,
    "cupy": _C,
    "cv2": _C,
    "dask": _C,
    "h5py": _C,
    "jax": _C,
    "jaxlib": _C,
    "joblib": _C | _P,
    "llvmlite": _C,
    "matplotlib": _C | _U | _D,
    "matplotlib.cbook": _N,
    "matplotlib.mlab": _R | _N,
    "matplotlib.tri._triinterpolate": _N,
    "mpl_toolkits": _D,
    "networkx": _C,
    "numba": _C,
    "numexpr": _C,
    "numpy": _C | _U | _L | _R | _K | _B,
    "pandas": _C | _M,
    "pyarrow": _C,
    "scipy": _C | _U | _L | _R | _K,
    "skimage": _C | _M,
    "sklearn": _C | _M,
    "statsmodels": _C | _M,
    "sympy": _C,
    "tensorflow": _C,
    "torch": _C,
    "xarray": _C | _M,
    # Of the standard library:
    "_thread": _H,
    "_weakrefset": _K,
    "argparse": _H,
    "builtins": _H,
    "collections": _K | _H,
    "concurrent": _P,
    "functools": _H,
    "math": _R,
    "multiprocessing": _P,
    "queue": _K | _H,
    "threading": _K,
    "types": _H,
    "weakref": _K | _H,
}


def libraries_with(trait: Trait) -> frozenset[str]:
    """Name the packages and modules that have a trait."""
    return frozenset(name for name, traits in _TABLE.items() if trait in traits)


#: The standard library's packages.
STANDARD_LIBRARY = sys.stdlib_module_names
#: Packages whose code gets ndarrays.
NATIVE_LIBRARIES = libraries_with(Trait.NATIVE)
#: Packages whose state prepared functions do not watch.
UNGUARDED_LIBRARIES = libraries_with(Trait.UNGUARDED) | STANDARD_LIBRARY
#: Packages whose objects are not restored between calls of a solver.
UNRESTORED_LIBRARIES = (NATIVE_LIBRARIES | STANDARD_LIBRARY) - libraries_with(
    Trait.HOLDS_USER_STATE
)
#: Packages that have no line of the user's.
LIBRARIES_WITHOUT_USER_CODE = libraries_with(Trait.NO_USER_CODE)
