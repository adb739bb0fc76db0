"""Makes what a callable keeps its first argument, to be differentiated like the others."""

import functools
import inspect
from types import CellType, FunctionType, MethodType
from typing import Any

from cotan._src.typing import Function


def with_state(function: Function) -> tuple[Function, object]:
    """Give a function of what `function` keeps and of its arguments, and what it keeps.

    That is the object of a method, the variables that a function closes over (a dictionary by their
    names), the bound arguments of a `functools.partial`, and any other callable itself.
    """
    called, state = _taken(function)
    called.__signature__ = _signature(function)  # type: ignore[attr-defined]
    return called, state


def _taken(function: Any) -> tuple[Function, object]:
    if isinstance(function, MethodType):
        # A function of its own: the method's is somebody else's, and gets no signature from here.
        method = function.__func__
        return functools.partial(method), function.__self__
    if isinstance(function, functools.partial):
        bound = {"args": function.args, "keywords": function.keywords}
        inner = function.func
        return lambda state, *args: inner(*state["args"], *args, **state["keywords"]), bound
    if isinstance(function, FunctionType):
        return _closure(function)
    return lambda state, *args: state(*args), function


def _closure(function: FunctionType) -> tuple[Function, object]:
    names = function.__code__.co_freevars
    cells = dict(zip(names, function.__closure__ or (), strict=True))
    variables = {}
    for name, cell in cells.items():
        try:
            variables[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    if not variables:
        raise TypeError(
            f"wrt_self: {function.__qualname__} closes over no variables; pass what it uses as an "
            "argument, or give a method or an object that can be called"
        )

    def called(state: dict[str, object], *args: object) -> object:
        made = [CellType(state[n]) if n in state else cells[n] for n in names]
        same = FunctionType(
            function.__code__,
            function.__globals__,
            function.__name__,
            function.__defaults__,
            tuple(made),
        )
        same.__kwdefaults__ = function.__kwdefaults__
        return same(*args)

    return called, variables


def _signature(function: Function) -> inspect.Signature:
    """Give the names of the arguments, for paths: `self` and those of the function."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        variadic = inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL)
        parameters = [variadic]
    kind = inspect.Parameter.POSITIONAL_ONLY
    name = "self" if all(p.name != "self" for p in parameters) else "callable"
    return inspect.Signature([inspect.Parameter(name, kind), *parameters])
