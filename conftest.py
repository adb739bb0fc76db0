"""Leaves out the docstrings of modules for libraries that are not installed."""

import importlib.util

collect_ignore_glob = [
    pattern
    for library in ("jax", "torch")
    if importlib.util.find_spec(library) is None
    for pattern in (f"python/cotan/{library}.py", f"python/cotan/_src/interop/{library}_*.py")
]
