"""A function recorded for export: a program as plain data, with names of its inputs and outputs.

Exporters (`to_onnx`, `to_c`) walk a list of equations that calls of rules are written out in.
"""

import functools
from collections.abc import Collection
from typing import Any, TypeAlias, TypedDict

import numpy as np

from cotan import _core
from cotan._src.array import fancy_indexing
from cotan._src.runtime.loops import fewest_steps
from cotan._src.tree.structure import tree_leaves
from cotan._src.typing import Args, Function, NDArray

#: An equation: primitive, arguments, result, parameters.
Entry: TypeAlias = tuple[str, list[int], int, dict[str, Any]]
#: The dtype and the shape of a variable; an axis that is left open has no number.
VariableType: TypeAlias = tuple[str, list[Any]]


class PlainProgram(TypedDict):
    """A program as plain data, as `_core.plain` gives it."""

    names: list[str]
    output_names: list[str]
    constants: list[Any]
    types: list[VariableType]
    equations: list[Entry]
    outputs: list[int]


class Recorded:
    """A function recorded for export, with names of the inputs and outputs."""

    def __init__(
        self,
        operation: str,
        f: Function,
        args: Args,
        replaced: dict[str, NDArray],
        gradient: bool,
    ) -> None:
        masks = fancy_indexing.refuses_masks.set(operation)
        steps = fewest_steps.set(2)
        try:
            program, results, able, self.leaves = _core.record(
                f if isinstance(f, _core.Pullback) else _of_arrays(operation, f), args, replaced
            )
        finally:
            fewest_steps.reset(steps)
            fancy_indexing.refuses_masks.reset(masks)
        self.inputs = [v.name for v in program.inputs][: len(able)]
        self.outputs = [f"y{path}" for path in results]
        if gradient:
            _check_scalar(operation, program, results)
            program, slots = _core.with_gradient(program, able)
            named = sorted(
                (slot, name)
                for slot, name in zip(slots, self.inputs, strict=False)
                if slot is not None
            )
            self.outputs += [f"d{name}" for _, name in named]
        self.program = program
        plain: Any = _core.plain(program)
        self.plain: PlainProgram = plain
        _check_used(operation, self.plain, self.inputs)


def _of_arrays(operation: str, f: Function) -> Function:
    """Give integers and bools among the results as arrays; refuse what no array can stand for."""

    @functools.wraps(f)
    def given(*args: object) -> object:
        y = f(*args)
        # What is no structure is looked at as everywhere: a number is a float.
        return _arrays(operation, y, "y") if isinstance(y, (dict, list, tuple)) else y

    return given


def _arrays(operation: str, y: Any, path: str) -> Any:
    kind = type(y)
    if issubclass(kind, (int, np.integer, np.bool_)):
        return np.array(y, np.int64) if kind is int else np.array(y)
    if issubclass(kind, dict):
        return {
            key: _arrays(
                operation, value, f"{path}.{key}" if isinstance(key, str) else f"{path}[{key!r}]"
            )
            for key, value in y.items()
        }
    if kind is list or kind is tuple:
        return kind(_arrays(operation, value, f"{path}[{i}]") for i, value in enumerate(y))
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        named = zip(kind._fields, y, strict=True)
        return kind._make(  # type: ignore[attr-defined]
            _arrays(operation, value, f"{path}.{field}") for field, value in named
        )
    if y is None or issubclass(kind, (list, tuple)) or tree_leaves(y):
        return y
    raise TypeError(
        f"{operation}: {path} of the result is {y!r}, which no array can stand for; "
        "export a function that leaves it out"
    )


def needed(plain: PlainProgram, first_only: Collection[str]) -> list[Entry]:
    """Give the equations that the outputs need.

    `first_only` are primitives of which the exporter needs no argument but the first.
    """
    wanted = set(plain["outputs"])
    kept = []
    for name, args, out, params in reversed(plain["equations"]):
        if out in wanted:
            used = args[:1] if name in first_only else args
            wanted.update(used)
            kept.append((name, used, out, params))
    return kept[::-1]


def _check_used(operation: str, plain: PlainProgram, inputs: list[str]) -> None:
    """Refuse an integer or boolean that was read while recording, and only then, or not at all.

    What is exported would take it and ignore it. The two cannot be told apart here.
    """
    used = {a for e in needed(plain, {"barrier", "det"}) for a in e[1]} | set(plain["outputs"])
    for i, name in enumerate(inputs):
        dtype, shape = plain["types"][i]
        if i not in used and dtype.startswith(("bool", "int", "uint")) and 0 not in shape:
            raise ValueError(
                f"{operation}: the export would ignore the input {name} ({dtype}{shape}): no "
                "result depends on it, or its value was read while the function was recorded (as a "
                "scalar index, an int, a branch); leave it out, use an array of indices, or bind "
                "the argument (functools.partial)"
            )


def _check_scalar(operation: str, program: _core.Program, results: list[str]) -> None:
    plain = _core.plain(program)
    dtype, shape = plain["types"][plain["outputs"][0]] if len(results) == 1 else ("structure", [0])
    if shape or not dtype.startswith("float"):
        what = f"{len(results)} results" if len(results) != 1 else f"{dtype}{shape}"
        raise ValueError(
            f"{operation}: with gradient=True the function must return a real scalar, not {what}; "
            f"reduce it (np.sum), or export ct.pullback's result with {operation}"
        )
