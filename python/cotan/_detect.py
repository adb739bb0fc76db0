"""Where NaN and infinity come from."""

import os
import sys

_LIBRARIES = ("cotan", "numpy", "scipy")


def is_library(file: str) -> bool:
    """Say whether a source file is cotan's, NumPy's or SciPy's own: no line of the user's."""
    for name in _LIBRARIES:
        path = getattr(sys.modules.get(name), "__path__", None)
        if path and any(file.startswith(os.path.join(entry, "")) for entry in path):
            return True
    return file.startswith("<frozen ")
