"""Leaves out what only imports with a library that is missing: docstrings, scripts of tests."""

import importlib.util

_FILES = {
    "jax": ("python/cotan/jax.py", "python/cotan/_src/interop/jax_*.py"),
    "torch": ("python/cotan/torch.py", "python/cotan/_src/interop/torch_*.py"),
    "pytensor": ("python/cotan/pytensor.py", "python/cotan/_src/pytensor/operation.py"),
    "mpi4py": ("tests/python/parallel/ranks.py",),
}
collect_ignore_glob = [
    pattern
    for library, patterns in _FILES.items()
    if importlib.util.find_spec(library) is None
    for pattern in patterns
]
