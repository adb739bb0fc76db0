"""Refuses Python and NumPy of versions that cotan does not support when it is imported.

This file is the first that is imported, and any Python 3 has to be able to read it.
"""

import sys

#: The first version, and the first that is too new: the layouts of CPython's structures that
#: interposition relies on have been tested between them. `pyproject.toml` has the same bounds.
PYTHON = (3, 11), (3, 15)
NUMPY = (2, 1)


def check_versions() -> None:
    """Raise `ImportError` for a version of Python or NumPy that is out of range."""
    if not PYTHON[0] <= sys.version_info[:2] < PYTHON[1]:
        newest = PYTHON[1][0], PYTHON[1][1] - 1
        raise ImportError(
            f"cotan needs Python {_text(PYTHON[0])} to {_text(newest)}, and this is Python "
            f"{_text(sys.version_info[:2])}; install cotan in an environment with one of these"
        )
    if "free-threading" in sys.version:
        raise ImportError(
            "cotan needs the interpreter lock, and this is a free-threaded build of Python "
            f"{_text(sys.version_info[:2])}; install cotan in an environment with the usual build"
        )
    import numpy as np  # noqa: PLC0415

    if tuple(int(part) for part in np.__version__.split(".")[:2]) < NUMPY:
        raise ImportError(
            f"cotan needs NumPy {_text(NUMPY)} or later, and NumPy {np.__version__} is installed; "
            f'upgrade it with pip install --upgrade "numpy>={_text(NUMPY)}"'
        )


def _text(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


check_versions()
