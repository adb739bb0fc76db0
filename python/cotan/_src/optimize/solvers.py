"""Where the solvers come from: SciPy, which cotan does not need otherwise."""

import importlib
from typing import Any


def scipy_module(name: str) -> Any:
    """Import a module of SciPy, such as `scipy.optimize`, when it is needed.

    Raises `ImportError` without SciPy.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(
            f"cotan.optimize uses the solvers of SciPy, which cannot be imported: {error}. "
            "Install it with pip install scipy"
        ) from error
