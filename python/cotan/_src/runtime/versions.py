"""Refuses Python and NumPy of versions that cotan does not support when it is imported.

This file is the first that is imported, and any Python 3 has to be able to read it.
"""

import importlib.util
import os
import sys

#: The first version, and the first that is too new: the layouts of CPython's structures that
#: interposition relies on have been tested between them. `pyproject.toml` has the same bounds.
PYTHON = (3, 11), (3, 15)
NUMPY = (2, 1)
#: The first version that cotan has a module of its own for where there is no interpreter lock.
FREE_THREADED = (3, 14)


def check_versions() -> None:
    """Raise `ImportError` for a version of Python or NumPy that is out of range."""
    if not PYTHON[0] <= sys.version_info[:2] < PYTHON[1]:
        newest = PYTHON[1][0], PYTHON[1][1] - 1
        raise ImportError(
            f"cotan needs Python {_text(PYTHON[0])} to {_text(newest)}, and this is Python "
            f"{_text(sys.version_info[:2])}; install cotan in an environment with one of these"
        )
    if "free-threading" in sys.version:
        _check_free_threaded()
    import numpy as np  # noqa: PLC0415

    if tuple(int(part) for part in np.__version__.split(".")[:2]) < NUMPY:
        raise ImportError(
            f"cotan needs NumPy {_text(NUMPY)} or later, and NumPy {np.__version__} is installed; "
            f'upgrade it with pip install --upgrade "numpy>={_text(NUMPY)}"'
        )


def _check_free_threaded() -> None:
    """Raise `ImportError` where the compiled module is not one for this free-threaded build."""
    version = sys.version_info[:2]
    if version < FREE_THREADED:
        raise ImportError(
            f"cotan needs free-threaded Python {_text(FREE_THREADED)} or the usual build, and this "
            f"is a free-threaded build of Python {_text(version)}; install cotan in an environment "
            "with one of these"
        )
    # On Windows this interpreter would load the module for the usual ones, and crash.
    found = importlib.util.find_spec("cotan._core")
    name = os.path.basename(found.origin or "") if found else ""
    tag = f"{version[0]}{version[1]}t-"
    if tag not in name:
        raise ImportError(
            f"this is a free-threaded build of Python {_text(version)}, and cotan was compiled for "
            f"the usual one; install the wheel whose name has cp{tag[:-1]}, or build it from the "
            "sources with pip install ."
        )


def _text(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


check_versions()
