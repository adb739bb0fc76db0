"""Translates one equation of a program to ONNX nodes, in dtypes for which ONNX has kernels."""

from typing import Any

import numpy as np

from cotan._src.onnx.graph import Equation, Graph
from cotan._src.onnx.recipes import DOUBLE, OPERATORS, RECIPES
from cotan._src.onnx.windows import TAPWISE

MOVES = {
    *(
        "reshape",
        "transpose",
        "broadcast",
        "slice",
        "pad",
        "concatenate",
        "stack",
        "flip",
        "gather",
    ),
    *("cast", "literal", "dropgrad", "barrier", "iota", "scatter", "update", "where", "loop"),
}
# Among them those that runtimes have for every dtype; the others go by a wider one.
PLAIN_MOVES = MOVES - {"where", "scatter", "update", "pad", "broadcast"}
# Whether something holds: of every dtype.
PREDICATES = {
    *("eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "isfinite"),
    *("logical_not", "logical_and", "logical_or", "logical_xor"),
}
# These take bools as they are.
BOOLS = {"logical_not", "logical_and", "logical_or", "logical_xor", "eq", "ne", "invert"}
# They need no argument but the first.
FIRST_ONLY = {"barrier", "det"}

# In which dtype an equation on another one is computed. Short floats are rounded after each
# operation, as they are here; short integers wrap around.
WIDER = {"float16": "float32", "bfloat16": "float32", "uint8": "int32", "bool": "int32"}
# Integers that runtimes have few kernels for. They are moved, and cast to what holds all of them.
RARE = {"int8", "int16", "uint16", "uint32", "uint64"}


def equation(g: Graph, e: Equation, table: dict[str, Any]) -> str:
    """Write an equation; gives the name of its result."""
    if any(d.startswith("complex") for d in (e.dtype, *(d for d, _ in e.types))):
        e.refuse(
            "ONNX has no complex numbers; export the function without them, or write real and "
            "imaginary parts as two real arrays"
        )
    if e.name not in {*PLAIN_MOVES, "literal"} and RARE & {e.dtype, *(d for d, _ in e.types)}:
        return _rare(g, e, table)
    plain = e.name in PLAIN_MOVES or (e.name in BOOLS and e.source == "bool")
    short = {d for d, _ in e.types} & WIDER.keys()
    if plain or not short:
        return _of_table(g, e, table)
    condition = e.name == "where"
    x = [
        g.cast(name, WIDER[d]) if d in WIDER and not (condition and i == 0) else name
        for i, (name, (d, _)) in enumerate(zip(e.x, e.types, strict=True))
    ]
    wide = e.of(WIDER, x)
    if condition:
        wide.types[0] = ("bool", e.types[0][1])
    if e.name in PREDICATES:
        wide.dtype = "bool"
    out = _of_table(g, wide, table)
    if e.name in PREDICATES or e.dtype not in WIDER:
        return out
    if e.dtype == "uint8" and e.name not in MOVES:
        out = g.op("BitwiseAnd", out, g.const(255, "int32"))
    return g.cast(out, e.dtype)


def _rare(g: Graph, e: Equation, table: dict[str, Any]) -> str:
    if e.name in {"sum", "prod", "cumsum"} and e.dtype == "uint64":
        # The sums of short ones, which an int64 holds as well.
        wide = e.of({"uint64": "int64"}, [g.cast(x, "int64") for x in e.x])
        return g.cast(_of_table(g, wide, table), "uint64")
    if e.name != "cast" or not np.can_cast(e.source, e.dtype):
        e.refuse(
            f"{e.dtype if e.dtype in RARE else e.source} has no arithmetic in ONNX; cast it to "
            "int32, int64 or a float first"
        )
    return _of_table(g, e, table)


def _of_table(g: Graph, e: Equation, table: dict[str, Any]) -> str:
    """Write an equation as the entry of its primitive says."""
    entry = table[e.name]
    if entry["onnx_recipe"] is not None:
        out = RECIPES[entry["onnx_recipe"]](g, e)
    elif entry["onnx_operator"] is not None:
        operator = entry["onnx_operator"]
        special = OPERATORS.get(operator)
        wide = DOUBLE.get(operator) if e.source == "float64" else None
        if wide is not None:
            out = wide(g, e)
        elif special is not None:
            out = special(g, e)
        else:
            out = g.op(operator, *e.x)
    elif e.name in TAPWISE:
        out = TAPWISE[e.name](g, e)
    else:
        e.refuse(f"{entry['onnx_reason']}; {ADVICE.get(e.name, ELSEWHERE)}")
    return str(out)


ELSEWHERE = "compute it outside of the exported function and pass its result as an argument"
ADVICE = {
    "host": "export the function without hooks, opaque rules and functions that SciPy computes",
}
