"""The table of SciPy's page: every public name that has a row in the registry of overrides.

`scipy.special` is on the coverage page, function by function.
"""

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np

import cotan as ct
from cotan._src.runtime.registry import Kind, Override, Way, rows_of

MODULES = (
    *("fft", "fftpack", "integrate", "interpolate", "linalg", "ndimage", "optimize"),
    *("optimize.elementwise", "signal", "sparse", "sparse.linalg", "spatial"),
    *("spatial.distance", "spatial.transform", "stats"),
)
BEGIN, END = "<!-- generated: begin -->\n", "<!-- generated: end -->\n"


def row_of(module: Any, name: str, value: Any) -> Override | None:
    """Give the row of a public name: of the function, the class, or its methods."""
    row = rows_of(module.__name__).get(name)
    if row is not None:
        return row
    cls = value if isinstance(value, type) else type(value)
    if cls is type(np.sum) or cls.__module__.partition(".")[0] != "scipy":
        return None
    for base in cls.__mro__:
        for owner in (f"{module.__name__}.{base.__name__}", f"{base.__module__}.{base.__name__}"):
            for method in rows_of(owner, Kind.METHOD).values():
                return method
    return None


def public(module: Any) -> Iterator[tuple[str, Any]]:
    for name in sorted(getattr(module, "__all__", dir(module)), key=str.lower):
        value = getattr(module, name, None)
        if not name.startswith("_") and callable(value) and not isinstance(value, type(np)):
            yield name, value


def table() -> str:
    """Give the table: a row for each module and way in which derivatives come about."""
    text = "| module | derivative | names |\n| --- | --- | --- |\n"
    for short in MODULES:
        module = importlib.import_module(f"scipy.{short}")
        ct.gradient(lambda x: x * x, 1.0)  # enters the rows of what has been imported
        found = [(name, row_of(module, name, value)) for name, value in public(module)]
        head = f"`{short}`"
        for way in Way:
            names = [f"`{name}`" for name, row in found if row is not None and row.way is way]
            if names:
                text += f"| {head} | {way.value} | {', '.join(names)} |\n"
                head = ""
    return text


def filled(page: str) -> str:
    """Give the page with a current table."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + table() + END + after
