"""Exports programs and pullbacks as ONNX files.

`onnx.graph` writes graphs, `onnx.recipes` and `onnx.array_ops` translate primitives, and
`onnx.symbolic_sizes` finds how shapes depend on the axes whose size is left open.
"""

import os
import traceback
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from cotan import _core
from cotan._src.onnx.equations import FIRST_ONLY, equation
from cotan._src.onnx.graph import (
    IR_VERSION,
    OPSET,
    Graph,
    need_onnx,
)
from cotan._src.onnx.symbolic_sizes import (
    Factor,
    Length,
    MisfitError,
    Size,
    Symbols,
    choose,
    merge,
)
from cotan._src.program.recorded import PlainProgram, Recorded, needed
from cotan._src.typing import AnyArray, Args, Function, NDArray, Scalar

_File = str | os.PathLike[str]

#: A number, or what differs between recordings.
_Number: TypeAlias = float | Size | Factor
#: Names for axes that are left open, by argument.
_Dynamic: TypeAlias = Mapping[str, Mapping[int, str]]


_TABLE: dict[str, dict[str, Any]] = {}


def _table() -> dict[str, dict[str, Any]]:
    if not _TABLE:
        _TABLE.update((entry["name"], entry) for entry in _core.table())
    return _TABLE


def export_function(
    f: Function,
    args: Args,
    path: _File,
    gradient: bool,
    dynamic: Mapping[str, Mapping[int, str]] | None,
) -> None:
    """Write a function, and its gradient if asked for: what `ct.to_onnx` does."""
    need_onnx()
    dynamic = _given(dynamic)
    if dynamic:
        merged, symbols, layout = _at_sizes(f, args, gradient, dynamic)
    else:
        recorded = Recorded("to_onnx", f, args, {}, gradient)
        merged, symbols, layout = recorded.plain, {}, recorded
    _write(merged, path, layout.inputs, layout.outputs, symbols, dynamic)


def _at_sizes(
    f: Function,
    args: Args,
    gradient: bool,
    dynamic: Mapping[str, Mapping[int, str]],
) -> tuple[PlainProgram, Symbols, Recorded]:
    """Record a function at several sizes, and make one program of what they have in common."""
    first = Recorded("to_onnx", f, args, {}, gradient)
    leaves = dict(zip(first.inputs, first.leaves, strict=True))
    fixed = {n for leaf in leaves.values() for n in np.shape(leaf)}
    _check_dynamic(dynamic, leaves)
    names = list(dict.fromkeys(symbol for axes in dynamic.values() for symbol in axes.values()))
    symbols = choose(names, fixed)
    count = len(next(iter(symbols.values())))
    parts = []
    for j in range(count):
        replaced = {}
        for name, axes in dynamic.items():
            array = np.asarray(leaves[name])
            for axis, symbol in axes.items():
                n = symbols[symbol][j]
                array = np.take(array, np.arange(n) % array.shape[axis], axis)
            replaced[name] = array
        sizes = ", ".join(f"{s} = {symbols[s][j]}" for s in names)
        try:
            parts.append(Recorded("to_onnx", f, args, replaced, gradient))
        except Exception as error:
            raise _failed(error, sizes, dynamic, leaves) from error
    return _merged(parts, symbols), symbols, first


def _given(dynamic: _Dynamic | None) -> _Dynamic:
    """Give the arguments with axes that are left open."""
    if dynamic is None:
        return {}
    if not isinstance(dynamic, Mapping):
        raise TypeError(
            f"to_onnx: dynamic={dynamic!r} must be a dictionary of axis names per argument: "
            "dynamic={'x': {0: 'batch'}}"
        )
    return {name: axes for name, axes in dynamic.items() if axes != {}}


def _check_dynamic(dynamic: Mapping[str, Any], leaves: dict[str, AnyArray | Scalar]) -> None:
    """Refuse what names no axes of the arguments."""
    example = "dynamic={'x': {0: 'batch'}} gives names for axes of an argument"
    for name, axes in dynamic.items():
        if name not in leaves:
            raise ValueError(
                f"to_onnx: dynamic: no argument {name!r}; there are {', '.join(leaves)}"
            )
        if not isinstance(axes, Mapping):
            raise TypeError(
                f"to_onnx: dynamic: {axes!r} for {name} must be a dictionary of axis names; "
                f"{example}"
            )
        shape = np.shape(leaves[name])
        for axis, symbol in axes.items():
            if not isinstance(axis, (int, np.integer)) or isinstance(axis, bool):
                raise TypeError(f"to_onnx: dynamic: {axis!r} is not an axis of {name}; {example}")
            if not isinstance(symbol, str) or not symbol:
                raise TypeError(
                    f"to_onnx: dynamic: axis {axis} of {name} needs a name for its size, not "
                    f"{symbol!r}; {example}"
                )
            if not 0 <= axis < len(shape) or shape[axis] == 0:
                raise ValueError(
                    f"to_onnx: dynamic: {name} has shape {shape}; it has no axis {axis} with "
                    "elements (axes are counted from 0)"
                )


def _failed(
    error: Exception, sizes: str, dynamic: _Dynamic, leaves: dict[str, AnyArray | Scalar]
) -> Exception:
    """Make the error for a function that fails at other sizes than those of its arguments."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not _core.is_library_file(frame.filename)]
    # The first is that of whoever calls to_onnx only where that is the function itself.
    where = f" at {own[-1].filename}:{own[-1].lineno} ({own[-1].line})" if own else ""
    opened = "; ".join(
        f"axis {axis} of {name} is {symbol}, and has size {np.shape(leaves[name])[axis]} in the "
        "example"
        for name, axes in dynamic.items()
        for axis, symbol in axes.items()
    )
    others = [
        f"{name} {np.shape(leaf)}"
        for name, leaf in leaves.items()
        if name not in dynamic and np.ndim(leaf)
    ]
    fixed = f" These have a fixed size: {', '.join(others)}." if others else ""
    return ValueError(
        f"to_onnx: the function fails{where} when it is recorded at {sizes} (dynamic=): {error}. "
        f"{opened[0].upper()}{opened[1:]}.{fixed} Everything combined with that axis must scale "
        "with it: name the same axis of other arguments, too, and derive the sizes of arrays from "
        "the argument's shape"
    )


def _merged(parts: Sequence[Recorded], symbols: Symbols) -> PlainProgram:
    first = parts[0].plain
    names = ", ".join(symbols)
    lists = [p.plain["equations"] for p in parts]
    for k, equations in enumerate(zip(*lists, strict=False)):
        if len({(e[0], tuple(e[1])) for e in equations}) > 1:
            found = sorted({f"{e[0]} of {', '.join(f'%{a}' for a in e[1])}" for e in equations})
            _differ(names, f"equation {k} is {' or '.join(found[:2])}")
    if len({len(entries) for entries in lists}) > 1:
        _differ(names, f"it has {len(lists[0])} or {len(lists[-1])} equations")
    merged: Any = {
        "names": first["names"],
        "constants": [
            _constant([p.plain["constants"][i] for p in parts], names)
            for i in range(len(first["constants"]))
        ],
    }
    try:
        for key in ("outputs", "types", "equations"):
            merged[key] = merge([p.plain[key] for p in parts], key)
    except MisfitError as error:
        _differ(names, f"its {error}")
    program: PlainProgram = merged
    return program


def _differ(names: str, what: str) -> None:
    raise ValueError(
        f"to_onnx: the recorded program depends on {names} in more than its shapes: {what}; "
        "leave the size fixed, or write the function without branches, loops and products "
        "over that axis"
    )


class Ramp:
    """A constant array that differs between recordings: numbers in equal steps along each axis."""

    def __init__(
        self, start: _Number, steps: list[_Number], shape: list[Length], dtype: str
    ) -> None:
        self.start, self.steps, self.shape, self.dtype = start, steps, shape, dtype


def _constant(arrays: list[NDArray], names: str) -> NDArray | Ramp:
    """Give a constant that is the same in all recordings, or how it depends on the sizes."""
    first = arrays[0]
    shapes = [list(a.shape) for a in arrays]
    if all(s == shapes[0] for s in shapes) and all(a.tobytes() == first.tobytes() for a in arrays):
        return first
    dtype = first.dtype.name
    try:
        shape = merge(shapes, "constants")
        starts = [a.flat[0].item() for a in arrays]
        steps = [_steps(a) for a in arrays]
        if all(map(_is_even, arrays, steps)):
            start = merge(starts, "constants")
            common = merge(_with_known_steps(steps, shapes), "constants")
            return Ramp(start, common, shape, dtype)
    except (MisfitError, IndexError):
        pass
    raise _unknown([tuple(s) for s in shapes], names)


def _steps(array: NDArray) -> Sequence[float]:
    """Give the step from the first element along each axis."""
    first = [0] * array.ndim
    if array.dtype == bool or np.all(array == array.flat[0]):
        return first
    steps = []
    for k, n in enumerate(array.shape):
        # From the last element, which is furthest away, and exact where the first step is.
        step, end = (
            (array[(*first[:k], i, *first[k + 1 :])] - array.flat[0]).item() for i in (1 % n, -1)
        )
        steps.append(step if step * (n - 1) == end else end / (n - 1))
    return steps


def _with_known_steps(
    steps: Sequence[Sequence[float]], shapes: Sequence[Sequence[int]]
) -> list[list[float]]:
    """Give the steps; along an axis of one element, which has none, those of other recordings."""
    found = [list(of) for of in steps]
    for k in range(len(shapes[0])):
        known = {of[k] for of, shape in zip(steps, shapes, strict=True) if shape[k] > 1}
        if len(known) == 1:
            (step,) = known
            for of in found:
                of[k] = step
    return found


def _is_even(array: NDArray, steps: Sequence[float]) -> bool:
    """Say whether an array consists of equal steps."""
    whole: Any = array.flat[0]
    for k, step in enumerate(steps):
        if step != 0:
            along = [1] * array.ndim
            along[k] = -1
            whole = whole + step * np.arange(array.shape[k]).reshape(along)
    if np.array_equal(np.broadcast_to(whole, array.shape), array):
        return True
    if array.dtype.kind != "f" or not np.all(np.isfinite(array)):
        return False
    near = 4 * float(np.finfo(array.dtype).eps) * float(np.max(np.abs(array)))
    return bool(np.all(np.abs(whole - array) <= near))


def _unknown(shapes: Sequence[tuple[Length, ...]], names: str) -> ValueError:
    first, second = shapes[:2]
    return ValueError(
        f"to_onnx: an array of shape {first}, {second}, ... that the function makes depends on "
        f"{names} in a way that the exporter cannot express: it knows values in equal steps along "
        "each axis (zeros, arange, linspace, indices); pass it as an argument, or compute it from "
        "one"
    )


def _ramp(g: Graph, c: Ramp) -> str:
    def number(value: _Number) -> str:
        if isinstance(value, Size):
            return g.cast(g.scalar(g.length(value)), c.dtype)
        if isinstance(value, (int, float)):
            return g.const(value, c.dtype)
        return g.factor(value, c.dtype)

    total = number(c.start)
    for k, step in enumerate(c.steps):
        if isinstance(step, (int, float)) and step == 0:
            continue
        count = g.scalar(g.length(c.shape[k]))
        steps = g.op("Range", g.const(0, "int64"), count, g.const(1, "int64"))
        part = g.op("Mul", g.cast(steps, c.dtype), number(step))
        if not isinstance(step, (int, float)):
            # A step may be infinite where there is none: that of linspace with one element.
            none = g.op("Equal", steps, g.const(0, "int64"))
            part = g.where_(none, g.const(0, c.dtype), part)
        along: list[Length] = [1] * len(c.shape)
        along[k] = c.shape[k]
        total = g.op("Add", total, g.reshape(part, along))
    return g.expand(total, c.shape)


def export_program(program: _core.Program, path: _File) -> None:
    """Write a program: what `Program.to_onnx` and `Pullback.to_onnx` do."""
    plain: Any = _core.plain(program)
    count = len(plain["names"]) - len(plain["constants"])
    inputs = [name or f"x{i}" for i, name in enumerate(plain["names"][:count])]
    results = plain["output_names"]
    one = len(results) == 1
    outputs = [name or ("y" if one else f"y[{i}]") for i, name in enumerate(results)]
    _write(plain, path, inputs, outputs, {}, {})


def _write(
    plain: PlainProgram,
    path: _File,
    inputs: list[str],
    outputs: list[str],
    symbols: Symbols,
    dynamic: Mapping[str, Mapping[int, str]],
) -> None:
    g = Graph(symbols)
    model = _model(g, plain, inputs, outputs, dynamic)
    g.onnx.checker.check_model(model, full_check=True)
    _core.write_file(path, model.SerializeToString())


def _model(
    g: Graph,
    plain: PlainProgram,
    inputs: list[str],
    outputs: list[str],
    dynamic: _Dynamic,
) -> Any:
    types = plain["types"]
    inputs = [g.name(name) for name in inputs]
    # Arguments may have the name of a result; theirs stays.
    outputs = [g.name(name) for name in outputs]
    for name, axes in dynamic.items():
        for axis, symbol in axes.items():
            g.where.setdefault(symbol, (name, axis))
    variables: dict[int, str] = dict(enumerate(inputs))
    equations = needed(plain, FIRST_ONLY)
    used = {a for e in equations for a in e[1]} | set(plain["outputs"])
    for i, constant in enumerate(plain["constants"]):
        var = len(inputs) + i
        if var not in used:
            continue
        if isinstance(constant, Ramp):
            try:
                variables[var] = _ramp(g, constant)
            except MisfitError:
                shapes = [tuple(constant.shape)] * 2
                raise _unknown(shapes, ", ".join(g.symbols)) from None
        else:
            name = plain["names"][var] or f"residual_{i}"
            variables[var] = g.initializer(g.name(name), np.asarray(constant))
    g.translate = lambda e: equation(g, e, _table())
    g.write(equations, types, variables)
    for name, var in zip(outputs, plain["outputs"], strict=True):
        g.nodes.append(g.onnx.helper.make_node("Identity", [variables[var]], [name]))
    graph = g.onnx.helper.make_graph(
        g.nodes,
        "cotan",
        [g.info(name, types[i]) for i, name in enumerate(inputs)],
        [g.info(n, types[v]) for n, v in zip(outputs, plain["outputs"], strict=True)],
        g.initializers,
    )
    return g.onnx.helper.make_model(
        graph,
        opset_imports=[g.onnx.helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="cotan",
        producer_version=_core.__version__,
    )
