"""What a decorator has made of a function, found by the function's name: pickles say no more."""

import importlib
import sys
from typing import Any


def by_name(made: Any, function: Any) -> tuple[Any, tuple[str, str]] | None:
    """Say how to find what was made of a function, if its module has that in its place."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if module not in sys.modules or name is None:
        return None
    return (named, (module, name)) if _member(sys.modules[module], name) is made else None


def named(module: str, name: str) -> Any:
    """Find it again."""
    return _member(importlib.import_module(module), name)


def _member(owner: Any, name: str) -> Any:
    for part in name.split("."):
        owner = getattr(owner, part, None)
    return owner
