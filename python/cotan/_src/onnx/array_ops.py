"""ONNX operators for shapes, reductions and indexing: equations that have parameters."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from cotan._src.onnx.graph import Equation, Graph, Recipe
from cotan._src.onnx.symbolic_sizes import Factor, Length, Size

FLOATS = {"float32", "float64"}

# --------------------------------------------------------------------------------------------------
# Layouts


def _literal(g: Graph, e: Equation) -> str:
    value = e.params["value"]
    return g.factor(value, e.dtype) if isinstance(value, Factor) else g.const(value, e.dtype)


def _cast(g: Graph, e: Equation) -> str:
    if e.dtype == "uint8" and e.source != "bool":
        # Out of range a conversion is undefined in ONNX; here it wraps around.
        whole = g.op("BitwiseAnd", g.cast(e.x[0], "int64"), g.const(255, "int64"))
        return g.cast(whole, "uint8")
    return g.cast(e.x[0], e.dtype)


def _reshape(g: Graph, e: Equation) -> str:
    return g.reshape(e.x[0], e.params["shape"])


def _transpose(g: Graph, e: Equation) -> str:
    return str(g.op("Transpose", e.x[0], perm=e.params["axes"]))


def _broadcast(g: Graph, e: Equation) -> str:
    if 0 in e.params["shape"]:
        # onnxruntime keeps an axis of length 1 where it should become one of length 0.
        return g.expand(g.const(0, e.dtype), e.params["shape"])
    return g.expand(e.x[0], e.params["shape"])


def _slice(g: Graph, e: Equation) -> str:
    return g.slice(e.x[0], e.params["start"], e.params["len"], e.params["step"])


def _flip(g: Graph, e: Equation) -> str:
    return _flipped(g, e.x[0], e.params["axes"])


def _flipped(g: Graph, x: str, axes: Sequence[int]) -> str:
    if not axes:
        return str(g.op("Identity", x))
    count = len(axes)
    start, end = np.full(count, -1, np.int64), np.full(count, -(2**31), np.int64)
    parts = (start, end, np.asarray(axes, np.int64), np.full(count, -1, np.int64))
    return str(g.op("Slice", x, *map(g.const, parts)))


def _concatenate(g: Graph, e: Equation) -> str:
    return str(g.op("Concat", *e.x, axis=e.params["axis"]))


def _stack(g: Graph, e: Equation) -> str:
    first = g.const(np.asarray([0], np.int64))
    return str(g.op("Concat", *(g.op("Unsqueeze", x, first) for x in e.x), axis=0))


def _pad(g: Graph, e: Equation) -> str:
    p = e.params
    return placed(g, e.x[0], p["shape"], p["start"], p["len"], p["step"], e.source)


def placed(
    g: Graph,
    x: str,
    shape: Sequence[Length],
    start: Sequence[Length],
    length: Sequence[Length],
    step: Sequence[int],
    dtype: str,
) -> str:
    """Give zeros of a shape with `x` as a strided region."""
    rank = len(shape)
    zero = g.const(0, dtype)
    if any(n == 0 for n in length):
        return g.expand(zero, shape)
    x = _flipped(g, x, [i for i in range(rank) if step[i] < 0])
    stride = [abs(s) for s in step]
    if any(s > 1 for s in stride):
        # Behind each element along an axis as many zeros as are between two, then one axis of both.
        wide = [k for n, s in zip(length, stride, strict=True) for k in ((n, 1) if s > 1 else (n,))]
        x = g.reshape(x, wide)
        ends = [k for s in stride for k in ((0, s - 1) if s > 1 else (0,))]
        x = g.op("Pad", x, g.lengths([0] * len(ends) + ends), zero)
        x = g.reshape(x, [n * s for n, s in zip(length, stride, strict=True)])
    low = [a if s > 0 else a + (n - 1) * s for a, n, s in zip(start, length, step, strict=True)]
    # Negative where the zeros behind the last element reach too far.
    high = [_rest(g, n, a, k, s) for n, a, k, s in zip(shape, low, length, stride, strict=True)]
    return str(g.op("Pad", x, g.lengths(low + high), zero))


def _rest(g: Graph, n: Length, start: Length, length: Length, step: int) -> Length | str:
    """Give `n - start - length * step`, which may have no formula of its own: of odd and even."""
    if step == 1 or not isinstance(length, Size):
        return n - start - length * step
    taken = g.op("Add", g.length(start), g.op("Mul", g.length(length), g.length(step)))
    rest: str = g.op("Sub", g.length(n), taken)
    return rest


def _region(g: Graph, e: Equation) -> str | None:
    """Give where a region of the first argument is, as a mask; None where that is everywhere."""
    p = e.params
    shape: list[Any] = e.types[0][1]
    mask = None
    for i, n in enumerate(shape):
        start, length, step = p["start"][i], p["len"][i], p["step"][i]
        if length == n:
            continue
        along = [n if k == i else 1 for k in range(len(shape))]
        if any(isinstance(v, Size) for v in (n, start, length)):
            ones = g.expand(g.const(1, "int32"), [length])
            here = placed(g, ones, [n], [start], [length], [step], "int32")
            part = g.reshape(g.cast(here, "bool"), along)
        else:
            inside = np.zeros(n, bool)
            inside[start + step * np.arange(length)] = True
            part = g.const(inside.reshape(along))
        mask = part if mask is None else g.op("And", mask, part)
    return mask


def _update(g: Graph, e: Equation) -> str:
    p = e.params
    shape = e.types[0][1]
    new = placed(g, e.x[1], shape, p["start"], p["len"], p["step"], e.source)
    mask = _region(g, e)
    return new if mask is None else g.where_(mask, new, e.x[0])


def _update_add(g: Graph, e: Equation) -> str:
    p = e.params
    shape = e.types[0][1]
    more = placed(g, e.x[1], shape, p["start"], p["len"], p["step"], e.source)
    return str(g.op("Add", e.x[0], more))


# --------------------------------------------------------------------------------------------------
# Reductions


def _axes(g: Graph, axes: Sequence[int]) -> str:
    return g.const(np.asarray(axes, np.int64))


def _reduced(g: Graph, operator: str, x: str, axes: Sequence[int], keep: bool = False) -> str:
    if not axes:
        # Without axes the operators reduce over all of them.
        return str(g.op("Identity", x))
    return str(g.op(operator, x, _axes(g, axes), keepdims=int(keep)))


def _reduce(operator: str) -> Recipe:
    def recipe(g: Graph, e: Equation) -> str:
        return _reduced(g, operator, e.x[0], e.params["axes"])

    return recipe


def _extremum(operator: str) -> Recipe:
    def recipe(g: Graph, e: Equation) -> str:
        axes, x = e.params["axes"], e.x[0]
        if any(e.types[0][1][a] == 0 for a in axes):
            # Of booleans, which are numbers here: whether any holds, whether all do.
            return g.expand(g.const(int(operator == "ReduceMin"), e.source), e.shape)
        return _nan_first(g, operator, x, e.source, axes)

    return recipe


def _nan_first(
    g: Graph, operator: str, x: str, dtype: str, axes: Sequence[int], keep: bool = False
) -> str:
    """Give an extremum that is NaN when an element is: runtimes do not agree about that."""
    out = _reduced(g, operator, x, axes, keep)
    if dtype not in FLOATS or not axes:
        return out
    bad = _reduced(g, "ReduceMax", g.cast(g.op("IsNaN", x), "int32"), axes, keep)
    return g.where_(g.cast(bad, "bool"), g.const(np.nan, dtype), out)


def _mean(g: Graph, e: Equation) -> str:
    axes, shape = e.params["axes"], e.types[0][1]
    if e.source in FLOATS and not any(shape[a] == 0 for a in axes):
        return _reduced(g, "ReduceMean", e.x[0], axes)
    count: Length = 1
    for a in axes:
        count = shape[a] * count
    number = g.cast(g.scalar(g.length(count)), e.dtype)
    return str(g.op("Div", _reduced(g, "ReduceSum", e.x[0], axes), number))


def _cumsum(g: Graph, e: Equation) -> str:
    axis = g.const(np.asarray(e.params["axis"], np.int64))
    return str(g.op("CumSum", e.x[0], axis, reverse=int(e.params["reverse"])))


def _running(operator: str) -> Recipe:
    """Fold along an axis by doubling: log2(n) steps, each of the whole array."""

    def recipe(g: Graph, e: Equation) -> str:
        x, axis, shape = e.x[0], e.params["axis"], e.types[0][1]
        n = shape[axis]
        if isinstance(n, Size):
            e.refuse("the length of its axis has to be a number, not a symbol")

        def part(start: int, length: int) -> str:
            starts = [start if i == axis else 0 for i in range(len(shape))]
            lengths = [length if i == axis else m for i, m in enumerate(shape)]
            return g.slice(x, starts, lengths, [1] * len(shape))

        shift = 1
        while shift < n:
            rest = n - shift
            folded = g.op(operator, part(0, rest), part(shift, rest))
            parts = [part(0, shift), folded]
            if e.params["reverse"]:
                parts = [folded, part(rest, shift)]
            x = str(g.op("Concat", *parts, axis=axis))
            shift *= 2
        return x

    return recipe


def _linear_recurrence(g: Graph, e: Equation) -> str:
    """Compose steps `y -> a * y + b` by doubling: those of twice as many places at a time."""
    a, b, axis, shape = e.x[0], e.x[1], e.params["axis"], e.types[0][1]
    n = shape[axis]
    if isinstance(n, Size):
        e.refuse("the length of its axis has to be a number, not a symbol")

    def part(x: str, start: int, length: int) -> str:
        starts = [start if i == axis else 0 for i in range(len(shape))]
        lengths = [length if i == axis else m for i, m in enumerate(shape)]
        return g.slice(x, starts, lengths, [1] * len(shape))

    shift = 1
    while shift < n:
        rest = n - shift
        kept, changed, before = (0, shift, 0) if not e.params["reverse"] else (rest, 0, shift)

        def joined(x: str, y: str, kept: int = kept, shift: int = shift) -> str:
            parts = [part(x, kept, shift), y]
            return str(g.op("Concat", *(reversed(parts) if kept else parts), axis=axis))

        factor = part(a, changed, rest)
        product = g.op("Mul", factor, part(b, before, rest))
        b = joined(b, str(g.op("Add", part(b, changed, rest), product)))
        a = joined(a, str(g.op("Mul", factor, part(a, before, rest))))
        shift *= 2
    return b


def _arg(operator: str) -> Recipe:
    """Give where the extremum is first, or a NaN."""

    def recipe(g: Graph, e: Equation) -> str:
        x, axis = e.x[0], e.params["axis"]
        best = _nan_first(g, operator, x, e.source, [axis], True)
        wins = g.op("Equal", x, best)
        if e.source in FLOATS:
            wins = g.op("Or", wins, g.op("IsNaN", x))
        return str(g.op("ArgMax", g.cast(wins, "int32"), axis=axis, keepdims=0))

    return recipe


def _argsort(g: Graph, e: Equation) -> str:
    x, axis = e.x[0], e.params["axis"]
    n = g.length(e.types[0][1][axis])

    def order(keys: str) -> str:
        # Of equal keys the one with the lower index comes first.
        return str(g.op("TopK", keys, n, outputs=2, axis=axis, largest=0, sorted=1)[1])

    if e.source not in FLOATS:
        return order(x)
    bad = g.op("IsNaN", x)
    first = order(g.where_(bad, g.const(np.inf, e.source), x))
    # Then NaN behind infinities.
    moved = g.op("GatherElements", g.cast(bad, "int32"), first, axis=axis)
    return str(g.op("GatherElements", first, order(moved), axis=axis))


# --------------------------------------------------------------------------------------------------
# Indices


def _iota(g: Graph, e: Equation) -> str:
    n = e.params["size"]
    if not isinstance(n, Size):
        return g.const(np.arange(n, dtype=np.int64))
    zero, one = g.const(0, "int64"), g.const(1, "int64")
    return str(g.op("Range", zero, g.scalar(g.length(n)), one))


def _searchsorted(g: Graph, e: Equation) -> str:
    """Count what comes before each element, of all: there is no operator that bisects."""
    row, x = (
        g.op("Unsqueeze", e.x[0], g.const([-2], "int64")),
        g.op("Unsqueeze", e.x[1], g.const([-1], "int64")),
    )
    right = e.params["right"]
    before = g.op("Not", g.op("Less", x, row)) if right else g.op("Less", row, x)
    if e.source in FLOATS:
        # NaN comes last.
        nan, last = g.op("IsNaN", x), g.op("IsNaN", row)
        if right:
            before = g.op("Or", nan, g.op("And", before, g.op("Not", last)))
        else:
            before = g.op("And", g.op("Or", nan, before), g.op("Not", last))
    return str(g.op("ReduceSum", g.cast(before, "int64"), g.const([-1], "int64"), keepdims=0))


def _index(g: Graph, e: Equation) -> str:
    """Give indices of which a negative one is an error: in ONNX it would count from the end."""
    index = e.x[1]
    known = g.known.get(index)
    if known is not None and (known >= 0).all():
        return index
    negative = g.op("Less", index, g.const(0, "int64"))
    return g.where_(negative, g.length(e.types[0][1][0]), index)


def _gather(g: Graph, e: Equation) -> str:
    # A scalar stays one: the length has an axis.
    index = g.reshape(_index(g, e), e.types[1][1])
    return str(g.op("Gather", e.x[0], index, axis=0))


def _rows(e: Equation) -> tuple[Length, list[Length]]:
    """Give how many indices there are, and the shape of a row."""
    count: Length = 1
    for n in e.types[1][1]:
        count = n * count
    return count, list(e.types[0][1][1:])


def _scatter_add(g: Graph, e: Equation) -> str:
    x, updates, index = e.x[0], e.x[2], _index(g, e)
    count, row = _rows(e)
    if 0 in row:
        return str(g.op("Identity", x))
    # Element by element: runtimes add rows in parallel, and then lose some.
    index = g.reshape(index, [count] + [1] * len(row))
    index = g.expand(index, [count, *row])
    updates = g.reshape(updates, [count, *row])
    return str(g.op("ScatterElements", x, index, updates, axis=0, reduction="add"))


def _scatter(g: Graph, e: Equation) -> str:
    x, updates, index = e.x[0], e.x[2], _index(g, e)
    count, row = _rows(e)
    rows = e.types[0][1][0]
    # Which of several updates of one row is written is undefined in ONNX; here it is the last. So:
    # number them, and find the largest number for each row.
    numbers = g.op("Range", g.const(0, "int64"), g.scalar(g.length(count)), g.const(1, "int64"))
    none = g.expand(g.const(-1, "int64"), [rows])
    index = g.reshape(index, [count])
    last = g.op("ScatterElements", none, index, numbers, axis=0, reduction="max")
    if count == 0:
        return str(g.op("Identity", x))
    written = g.op("GreaterOrEqual", last, g.const(0, "int64"))
    new = g.op(
        "Gather",
        g.reshape(updates, [count, *row]),
        g.op("Max", last, g.const(0, "int64")),
        axis=0,
    )
    return g.where_(g.reshape(written, [rows] + [1] * len(row)), new, x)


def _first(g: Graph, e: Equation) -> str:
    return str(g.op("Identity", e.x[0]))


def _det(g: Graph, e: Equation) -> str:
    return str(g.op("Det", e.x[0]))


ARRAYS: dict[str, Recipe] = {
    "pad": _pad,
    "stack": _stack,
    "flip": _flip,
    "update": _update,
    "update_add": _update_add,
    "mean": _mean,
    "max": _extremum("ReduceMax"),
    "min": _extremum("ReduceMin"),
    "cummax": _running("Max"),
    "cummin": _running("Min"),
    "linear_recurrence": _linear_recurrence,
    "argmax": _arg("ReduceMax"),
    "argmin": _arg("ReduceMin"),
    "argsort": _argsort,
    "searchsorted": _searchsorted,
    "scatter_add": _scatter_add,
    "scatter": _scatter,
    "det": _det,
}

PARAMETRIC: dict[str, Recipe] = {
    "Identity": _first,
    "Constant": _literal,
    "Cast": _cast,
    "Reshape": _reshape,
    "Transpose": _transpose,
    "Expand": _broadcast,
    "Slice": _slice,
    "Concat": _concatenate,
    "ReduceSum": _reduce("ReduceSum"),
    "ReduceProd": _reduce("ReduceProd"),
    "ReduceLogSumExp": _reduce("ReduceLogSumExp"),
    "CumSum": _cumsum,
    "Range": _iota,
    "Gather": _gather,
}
