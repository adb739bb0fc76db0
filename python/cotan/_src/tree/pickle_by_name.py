"""Pickles the result of a decorator by the qualified name of the function, as functions are."""

import importlib
import sys
from collections.abc import Callable

from cotan._src.typing import Function


def by_name(
    made: object, function: Function
) -> tuple[Callable[[str, str], object], tuple[str, str]] | None:
    """Say how to find what was made of a function, if its module has that in its place."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if module not in sys.modules or name is None:
        return None
    return (named, (module, name)) if _member(sys.modules[module], name) is made else None


def named(module: str, name: str) -> object:
    """Find it again."""
    return _member(importlib.import_module(module), name)


def _member(owner: object, name: str) -> object:
    for part in name.split("."):
        owner = getattr(owner, part, None)
    return owner
