"""The tables of SciPy's page: each public function and class, by how its derivative comes about.

The ways are those of the rows in the registry of overrides, with one more for names without a row.
"""

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import special

import cotan as ct
from cotan._src.numpy import ufunc_rules
from cotan._src.runtime.registry import Kind, Override, Way, rows_of
from cotan._src.special.ufuncs import PARTIALS, ZERO

MODULES = (
    *("cluster.hierarchy", "cluster.vq", "fft", "fftpack", "integrate", "interpolate", "linalg"),
    *(
        "linalg.blas",
        "linalg.lapack",
        "linalg.interpolative",
        "ndimage",
        "optimize",
        "optimize.elementwise",
        "signal",
    ),
    *("signal.windows", "sparse", "sparse.csgraph", "sparse.linalg", "spatial"),
    *("spatial.distance", "spatial.transform", "special", "stats", "stats.contingency"),
    *("stats.mstats", "stats.qmc", "stats.sampling"),
)
NO_OVERRIDE = "no override"
#: The ways, in the order of the tables.
WAYS = (*(way.value for way in Way), NO_OVERRIDE)
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


def way_of_ufunc(ufunc: np.ufunc) -> Way:
    """Give the way of a ufunc; those with partial derivatives have no row."""
    if ufunc_rules.rule(ufunc) is None:
        return Way.REFUSED
    partials = PARTIALS.get(ufunc.__name__, (None,))
    is_constant = ufunc is special.round or all(partial == ZERO for partial in partials)
    return Way.VALUES if is_constant else Way.RULE


def way_of(module: Any, name: str, value: Any) -> str:
    """Give the way in which the derivative of a public name comes about, one of `WAYS`."""
    row = row_of(module, name, value)
    if row is not None:
        return row.way.value
    return way_of_ufunc(value).value if isinstance(value, np.ufunc) else NO_OVERRIDE


def public(module: Any) -> Iterator[tuple[str, Any]]:
    """Give the public functions and classes of a module, by name; not errors and warnings."""
    for name in sorted(set(module.__all__), key=lambda n: (n.lower(), n)):
        value = getattr(module, name)
        is_error = isinstance(value, type) and issubclass(value, BaseException)
        if callable(value) and not is_error:
            yield name, value


def classified(short: str) -> dict[str, str]:
    """Give the way of every public name of a module: `classified("fft")["dct"] == "a rule"`."""
    module = importlib.import_module(f"scipy.{short}")
    ct.gradient(lambda x: x * x, 1.0)  # enters the rows of what has been imported
    return {name: way_of(module, name, value) for name, value in public(module)}


def table() -> str:
    """Give the table: a row for each module and way in which derivatives come about."""
    text = "| module | derivative | names |\n| --- | --- | --- |\n"
    for short in MODULES:
        ways = classified(short)
        head = f"`{short}`"
        for way in WAYS:
            names = [f"`{name}`" for name, its_way in ways.items() if its_way == way]
            if names:
                text += f"| {head} | {way} | {', '.join(names)} |\n"
                head = ""
    return text


def filled(page: str) -> str:
    """Give the page with a current table."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + table() + END + after
