"""The table of functions of other modules that have a rule here: those that NumPy does not dispatch.

An entry computes one function, with that function's signature, whenever one of our arrays is among
its arguments. Entries are named by text, so that no library is imported for the table's sake.
"""

from collections.abc import Callable
from typing import Any

# Modules by name, their functions by name, and what computes them.
LIFTED: dict[str, dict[str, Callable[..., Any]]] = {}


def lifts(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter an implementation into the table, under names such as `"scipy.linalg.solve"`."""

    def enter(implementation: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            module, _, function = name.rpartition(".")
            LIFTED.setdefault(module, {})[function] = implementation
        return implementation

    return enter
