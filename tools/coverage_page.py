"""Find out what is covered of NumPy, `math`, `cmath` and `scipy.special`; write the coverage page.

Names are those of the modules themselves. What computes a name stands in the tables of the package;
whether a result has a derivative is found by differentiating sample calls, which are those of the
tests (tests/python/cases/coverage_cases.py).
"""

import cmath
import inspect
import math
import sys
import textwrap
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import scipy.special

import cotan as ct
from cotan import _core
from cotan._src.numpy import ufunc_rules
from cotan._src.runtime import registry
from cotan._src.runtime.registry import FUNCTIONS

TOP = Path(__file__).resolve().parent.parent
for folder in ("cases", "array", "numpy"):
    sys.path.insert(0, str(TOP / "tests" / "python" / folder))

import coverage_cases as cases  # noqa: E402
import numpy_cases as inputs  # noqa: E402
import special_cases  # noqa: E402

RULE, COMPOSITE, CONSTANT, NOT_YET, OTHER = (
    "rule",
    "composite",
    "constant",
    "not yet",
    "not about arrays",
)
MEANING = {
    RULE: "a derivative rule, or primitives that have one",
    COMPOSITE: "NumPy's own Python code, or a formula, over functions that have rules",
    CONSTANT: "integers, bools and piecewise constant functions, which have no derivative",
    NOT_YET: "computed for constants; refused by name for active arguments",
    OTHER: "files, text, settings, dtypes, memory, arrays of integers: left to NumPy",
}
IN_PART = " (in part)"


@dataclass(frozen=True)
class Line:
    """One name and how it is covered."""

    area: str
    name: str
    status: str


def observed(function: Callable[..., Any], arguments: list[Any]) -> str | None:
    """Say what differentiating a call shows: None for a derivative, else a status."""
    numbers = [np.result_type(x).kind in "fc" for x in arguments]
    weights = inputs.weights_of(inputs.quiet(function, *map(copied, arguments)))
    given = [x if n else ct.const(x) for x, n in zip(arguments, numbers, strict=True)]
    try:
        gradients = inputs.quiet(
            lambda: ct.gradient(lambda *xs: inputs.weighted(function(*xs), weights), *given)
        )
    except ct.NotDifferentiableError:
        return NOT_YET
    return CONSTANT if all(g is None for g in gradients) else None


def copied(x: Any) -> Any:
    return np.copy(x) if np.ndim(x) else x


def of_cases(found: list[Callable[..., Any]], table: dict[str, Any], status: str) -> str:
    """Give the status of a name by its sample calls: the least that any of them shows."""
    seen = set()
    for case in found:
        values = [copied(table[name]) for name in inputs.parameters(case)]
        seen.add(observed(case, values))
    if not seen or NOT_YET in seen:
        return NOT_YET
    return status if None in seen else CONSTANT


# --------------------------------------------------------------------------------------------------
# Functions of modules


def public(module: Any) -> list[str]:
    return sorted(name for name in dir(module) if not name.startswith("_"))


def is_function(value: Any) -> bool:
    return (
        callable(value)
        and not isinstance(value, (type, np.ufunc, types.ModuleType))
        and not isinstance(value, BaseException)
    )


REBOUND = {
    function
    for function in FUNCTIONS
    for row in registry.rows(registry.DISPATCHED)
    if row.way is registry.Way.REBOUND and row.name == function.__name__
}


def computed_by(value: Any) -> str:
    """Say what kind of entry computes a function."""
    return RULE if value in FUNCTIONS and value not in REBOUND else COMPOSITE


def functions(module: Any) -> Iterator[Line]:
    area = module.__name__
    prefix = area.removeprefix("numpy").lstrip(".")
    others = {"": [*cases.CLASSES]}.get(prefix, [])
    for name in public(module):
        value = getattr(module, name)
        if not is_function(value) and name not in others:
            continue
        dotted = f"{prefix}.{name}" if prefix else name
        if name in cases.NOT_ABOUT_ARRAYS[area]:
            yield Line(area, name, OTHER)
            continue
        known = cases.CLASSES if name in others else cases.FUNCTIONS
        found = known.get(dotted) or alias(value)
        yield Line(area, name, of_cases(found, inputs.INPUTS, computed_by(value)))


def alias(value: Any) -> list[Any]:
    """Give the cases of another name of a function."""
    for name, found in cases.FUNCTIONS.items():
        if numpy_member(name) is value:
            return found
    return []


def numpy_member(name: str) -> Any:
    found: Any = np
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


# --------------------------------------------------------------------------------------------------
# Methods and attributes

# What Python itself asks of any object.
PROTOCOL = set(
    """
    __array__ __array_finalize__ __array_function__ __array_interface__ __array_namespace__
    __array_priority__ __array_struct__ __array_ufunc__ __array_wrap__ __class_getitem__ __class__
    __complex__ __delitem__ __delattr__ __dir__ __dlpack__ __dlpack_device__ __doc__ __float__
    __getattribute__ __getstate__ __hash__ __init__ __init_subclass__ __new__ __reduce__
    __reduce_ex__ __repr__ __setattr__ __setstate__ __sizeof__ __subclasshook__ __buffer__
    """.split()  # noqa: SIM905 - as many lines otherwise
)


def methods() -> Iterator[Line]:
    area = "numpy.ndarray"
    for name in sorted(dir(np.ndarray), key=lambda n: (n.startswith("_"), n)):
        if name in PROTOCOL or name in cases.GONE:
            continue
        if name in cases.MEMORY:
            yield Line(area, name, OTHER)
        else:
            yield Line(area, name, of_cases(cases.METHODS.get(name, []), inputs.INPUTS, RULE))


# --------------------------------------------------------------------------------------------------
# Ufuncs


def numpy_ufuncs() -> Iterator[tuple[str, Any]]:
    return ((n, getattr(np, n)) for n in public(np) if isinstance(getattr(np, n), np.ufunc))


def entry(ufunc: Any) -> str:
    name = ufunc.__name__
    if name in registry.UFUNCS:
        is_primitive = isinstance(registry.UFUNCS[name], types.BuiltinFunctionType)
        return RULE if is_primitive else COMPOSITE
    return RULE if ufunc_rules.rule(ufunc) is not None else COMPOSITE


def ufunc_calls(name: str, ufunc: Any) -> Iterator[tuple[str, Callable[..., Any], list[Any]]]:
    """Give the sample calls of a ufunc and its methods that NumPy answers."""
    arguments = [*cases.samples(name, ufunc.nin)]
    for method, call in cases.UFUNC_METHODS.items():

        def function(*xs: Any, _call: Any = call) -> Any:
            return _call(ufunc, *xs)

        try:
            inputs.quiet(function, *map(copied, arguments))
        except (TypeError, ValueError, RuntimeError):
            continue
        yield method, function, arguments


def ufuncs() -> Iterator[Line]:
    for name, ufunc in numpy_ufuncs():
        area = "ufuncs of numpy"
        if name == "isnat":
            yield Line(area, name, OTHER)
            continue
        for method, function, arguments in ufunc_calls(name, ufunc):
            status = observed(function, [copied(x) for x in arguments]) or entry(ufunc)
            yield Line(area, f"{name}.{method}", status)


def special() -> Iterator[Line]:
    """Give the ufuncs of SciPy; where they are called, and in what, is said by their tests."""
    lifted = registry.rows_of("scipy.special")
    for name in sorted(set(scipy.special.__all__)):
        ufunc = getattr(scipy.special, name)
        if not isinstance(ufunc, np.ufunc):
            continue
        if ufunc_rules.rule(ufunc) is None and name not in lifted:
            yield Line("scipy.special", name, NOT_YET)
            continue
        # Another name of a ufunc is one of the same function.
        key = name if name in special_cases.ARGUMENTS else ufunc.__name__
        arguments = special_cases.arguments(key, (3,))
        active = special_cases.variables(key, arguments)
        numbers = [i for i, x in enumerate(arguments) if x.dtype.kind in "fc"]
        function = partly(called(name), arguments, active)
        status = observed(function, [arguments[i] for i in active]) or entry(ufunc)
        mark = "" if active == numbers or status == CONSTANT else IN_PART
        yield Line("scipy.special", name + mark, status)


def partly(
    function: Callable[..., Any], arguments: list[Any], active: list[int]
) -> Callable[..., Any]:
    """Give a function of some of its arguments, the others being as they are."""

    def call(*xs: Any) -> Any:
        given = list(arguments)
        for i, x in zip(active, xs, strict=True):
            given[i] = x
        return function(*given)

    return call


def called(name: str) -> Callable[..., Any]:
    """Call a function by its name in its module, as code does, so that a lifted one is met."""

    def call(*xs: Any) -> Any:
        return getattr(scipy.special, name)(*xs)

    return call


# --------------------------------------------------------------------------------------------------
# math and cmath


def numbers(module: Any, table: dict[str, Any]) -> Iterator[Line]:
    area = module.__name__
    for name in public(module):
        if not callable(getattr(module, name)):
            continue
        if name in cases.NOT_ABOUT_ARRAYS[area]:
            yield Line(area, name, OTHER)
        else:
            by_name = [rebound(module, name, case) for case in table[name]]
            yield Line(area, name, of_cases(by_name, cases.NUMBERS, RULE))


def rebound(module: Any, name: str, case: Callable[..., Any]) -> Callable[..., Any]:
    """Let a case that holds a function itself ask its module for it, as code does."""
    if "f" not in inspect.signature(case).parameters:
        return case
    parameter = inputs.parameters(case)[0]
    return eval(f"lambda {parameter}: module.{name}({parameter})", {"module": module})  # noqa: S307


# --------------------------------------------------------------------------------------------------
# The page


def lines() -> list[Line]:
    """Give every name, area by area."""
    return [
        *functions(np),
        *functions(np.linalg),
        *functions(np.fft),
        *methods(),
        *ufuncs(),
        *numbers(math, cases.MATH),
        *numbers(cmath, cases.CMATH),
        *special(),
    ]


def versions() -> str:
    """Give the versions that the page is about; Python's counts for `math`."""
    parts = [".".join(v.split(".")[:2]) for v in (np.__version__, scipy.__version__)]
    python = ".".join(map(str, sys.version_info[:2]))
    return f"NumPy {parts[0]}, SciPy {parts[1]}, Python {python}"


def shares(found: list[Line]) -> dict[str, int]:
    return {status: sum(line.status == status for line in found) for status in MEANING}


def page(found: list[Line] | None = None) -> str:
    """Give the page."""
    found = lines() if found is None else found
    areas = list(dict.fromkeys(line.area for line in found))
    text = (
        "<!-- Written by tools/coverage_page.py. -->\n\n# Coverage\n\n"
        f"For {versions()}. Generated from the tables of the package\n"
        "and from sample calls, which the tests check against NumPy and finite differences.\n\n"
        "| status | meaning |\n| --- | --- |\n"
    )
    text += "".join(f"| *{status}* | {meaning} |\n" for status, meaning in MEANING.items())
    text += "\n| | " + " | ".join(MEANING) + " |\n| --- |" + " --- |" * len(MEANING) + "\n"
    for area in [*areas, "all"]:
        counts = shares([line for line in found if area in {"all", line.area}])
        text += f"| {area} | " + " | ".join(str(n or "") for n in counts.values()) + " |\n"
    for area in areas:
        text += f"\n## {area}\n\n"
        if any(line.name.endswith(IN_PART) for line in found if line.area == area):
            text += "*In part*: an order or another parameter has no derivative.\n\n"
        mine = [line for line in found if line.area == area]
        text += matrix(mine) if area == "ufuncs of numpy" else listed(mine)
    return text


def listed(found: list[Line]) -> str:
    rows = ""
    for status in MEANING:
        names = [f"`{line.name}`" for line in found if line.status == status]
        if names:
            text = f"- *{status}*: {', '.join(names)}"
            rows += textwrap.fill(text, 108, subsequent_indent="  ", break_on_hyphens=False) + "\n"
    return rows


def matrix(found: list[Line]) -> str:
    columns = list(cases.UFUNC_METHODS)
    text = "| ufunc | " + " | ".join(columns) + " |\n| --- |" + " --- |" * len(columns) + "\n"
    rows: dict[str, dict[str, str]] = {}
    for line in found:
        name, _, method = line.name.partition(".")
        rows.setdefault(name, {})[method or "call"] = line.status
    for name, row in rows.items():
        text += f"| `{name}` | " + " | ".join(row.get(c, "–") for c in columns) + " |\n"
    return text


__all__ = ["_core", "lines", "page", "versions"]
