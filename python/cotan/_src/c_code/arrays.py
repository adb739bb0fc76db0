"""Primitives on whole arrays as loops of C: reductions, scans, products, regions, indexing."""

from collections.abc import Callable, Sequence
from typing import Any

from cotan._src.c_code import scalars
from cotan._src.c_code.views import View, Writer, sliced


class ArrayEquation:
    """An equation on arrays: how its arguments are read, and its result is written."""

    def __init__(
        self,
        params: dict[str, Any],
        inputs: Sequence[tuple[View, str, Callable[[View, Sequence[str]], str]]],
        out: tuple[View, str, Callable[[View, Sequence[str]], str]],
    ) -> None:
        self.params = params
        self.views = [view for view, _, _ in inputs]
        self.dtypes = [dtype for _, dtype, _ in inputs]
        self._read = [read for _, _, read in inputs]
        self.target, self.dtype, self._write = out

    @property
    def type(self) -> str:
        """The type of elements of the result."""
        return scalars.TYPES[self.dtype]

    def x(self, i: int, names: Sequence[str]) -> str:
        """Give an element of an argument."""
        return self._read[i](self.views[i], names)

    def out(self, names: Sequence[str]) -> str:
        """Give an element of the result."""
        return self._write(self.target, names)

    def place(self, view: View, names: Sequence[str]) -> str:
        """Give an element of a region of the result."""
        return self._write(view, names)

    def number(self, value: float) -> str:
        """Give a number of the dtype of the result."""
        return scalars.number(value, self.dtype)


def start_of(name: str, dtype: str) -> str:
    """Give what a sum or another reduction begins with; nothing begins with the first element."""
    values: dict[str, float] = {"sum": 0, "mean": 0, "prod": 1}
    if name in values:
        return scalars.number(values[name], dtype)
    if dtype == "bool":
        return str(int(name == "min"))
    if dtype in scalars.FLOATS:
        return scalars.number(float("-inf" if name == "max" else "inf"), dtype)
    kind = dtype.upper()
    return f"{kind}_MIN" if name == "max" else f"{kind}_MAX"


def step_of(name: str, dtype: str, total: str, x: str) -> str:
    """Give the statement that takes one element more into a reduction."""
    if name in {"sum", "mean"}:
        return f"{total} += {x};"
    if name == "prod":
        return f"{total} *= {x};"
    sign = ">" if name == "max" else "<"
    test = f"{x} {sign} {total}"
    if dtype in scalars.FLOATS:
        test += f" || isnan({x})"
    return f"if ({test}) {total} = {x};"


def _reduction(name: str) -> Callable[[Writer, ArrayEquation], None]:
    def write(w: Writer, e: ArrayEquation) -> None:
        axes = e.params["axes"]
        shape = e.views[0].shape
        with w.loops(e.target.shape) as kept:
            w(f"{e.type} total = {start_of(name, e.dtype)};")
            with w.loops([shape[i] for i in axes]) as gone:
                x = e.x(0, _woven(len(shape), axes, kept, gone))
                w(step_of(name, e.dtype, "total", x))
            if name == "mean":
                count = 1
                for i in axes:
                    count *= shape[i]
                w(f"total /= {e.number(count)};")
            w(f"{e.out(kept)} = total;")

    return write


def _woven(ndim: int, axes: Sequence[int], kept: Sequence[str], gone: Sequence[str]) -> list[str]:
    """Give the counters of all axes, of those that are reduced and of the others."""
    reduced = dict(zip(axes, gone, strict=True))
    others = iter(kept)
    return [reduced[i] if i in reduced else next(others) for i in range(ndim)]


def _logsumexp(w: Writer, e: ArrayEquation) -> None:
    axes, shape = e.params["axes"], e.views[0].shape
    sizes = [shape[i] for i in axes]

    def of(text: str) -> str:
        return scalars.of_type(text, e.dtype)

    with w.loops(e.target.shape) as kept:
        w(f"{e.type} most = -INFINITY, total = 0;")
        with w.loops(sizes) as gone:
            w(step_of("max", e.dtype, "most", e.x(0, _woven(len(shape), axes, kept, gone))))
        with w.loops(sizes) as gone:
            x = e.x(0, _woven(len(shape), axes, kept, gone))
            w(of(f"total += exp({x} - most);"))
        w(of(f"{e.out(kept)} = isfinite(most) ? most + log(total) : most;"))


def _scan(name: str) -> Callable[[Writer, ArrayEquation], None]:
    def write(w: Writer, e: ArrayEquation) -> None:
        axis, is_reversed = e.params["axis"], e.params["reverse"]
        shape = list(e.target.shape)
        length = shape[axis]
        if 0 in shape:
            return
        with w.loops([n for i, n in enumerate(shape) if i != axis]) as others:
            w(f"{e.type} total = {start_of(name, e.dtype)};")
            with w.loops([length]) as (k,):
                at = f"({length - 1} - {k})" if is_reversed else k
                names = [*others[:axis], at, *others[axis:]]
                w(step_of(name, e.dtype, "total", e.x(0, names)))
                w(f"{e.out(names)} = total;")

    return write


def _recurrence(w: Writer, e: ArrayEquation) -> None:
    axis, is_reversed = e.params["axis"], e.params["reverse"]
    shape = e.target.shape
    if 0 in shape:
        return
    with w.loops([n for i, n in enumerate(shape) if i != axis]) as others:
        w(f"{e.type} last = 0;")
        with w.loops([shape[axis]]) as (k,):
            at = f"({shape[axis] - 1} - {k})" if is_reversed else k
            names = [*others[:axis], at, *others[axis:]]
            # The first element is b alone, even where a is infinite or NaN.
            product = f"{e.x(0, names)} * last + {e.x(1, names)}"
            w(f"last = {k} ? {product} : {e.x(1, names)};")
            w(f"{e.out(names)} = last;")


def _argument(sign: str) -> Callable[[Writer, ArrayEquation], None]:
    def write(w: Writer, e: ArrayEquation) -> None:
        axis, shape = e.params["axis"], e.views[0].shape
        is_float = e.dtypes[0] in scalars.FLOATS
        with w.loops([n for i, n in enumerate(shape) if i != axis]) as others:

            def at(k: str) -> str:
                return e.x(0, [*others[:axis], k, *others[axis:]])

            w("ptrdiff_t best = 0;")
            with w.loops([shape[axis]]) as (k,):
                test = f"{at(k)} {sign} {at('best')}"
                if is_float:
                    test = f"!isnan({at('best')}) && ({test} || isnan({at(k)}))"
                w(f"if ({test}) best = {k};")
            w(f"{e.out(others)} = best;")

    return write


def _argsort(w: Writer, e: ArrayEquation) -> None:
    """Sort indices in place by D. L. Shell's method; equal elements by their indices."""
    axis, shape = e.params["axis"], e.views[0].shape
    n = shape[axis]
    gaps = [1]
    while gaps[-1] * 3 + 1 < n:
        gaps.append(gaps[-1] * 3 + 1)
    at, place, gap = "cotan_at", "cotan_place", "cotan_gap"
    left, right = "cotan_left", "cotan_right"
    with w.loops([m for i, m in enumerate(shape) if i != axis]) as others:

        def whole(k: str) -> list[str]:
            return [*others[:axis], k, *others[axis:]]

        x, y = (e.x(0, whole(k)) for k in (left, right))
        with w.loops([n]) as (k,):
            w(f"{e.out(whole(k))} = {k};")
        steps = w.block(f"for (ptrdiff_t {gap} = {gaps[-1]}; {gap} > 0; {gap} /= 3)")
        with steps, w.block(f"for (ptrdiff_t {at} = {gap}; {at} < {n}; {at}++)"):
            w(f"const {e.type} {right} = {e.out(whole(at))};")
            w(f"ptrdiff_t {place} = {at};")
            with w.block(f"for (; {place} >= {gap}; {place} -= {gap})"):
                w(f"const {e.type} {left} = {e.out(whole(f'({place} - {gap})'))};")
                before, equal = f"{y} < {x}", f"{y} == {x}"
                if e.dtypes[0] in scalars.FLOATS:
                    before += f" || (isnan({x}) && !isnan({y}))"
                    equal = f"({equal} || (isnan({x}) && isnan({y})))"
                w(f"if (!({before} || ({equal} && {right} < {left}))) break;")
                w(f"{e.out(whole(place))} = {left};")
            w(f"{e.out(whole(place))} = {right};")


def _searchsorted(w: Writer, e: ArrayEquation) -> None:
    """Bisect."""
    n = e.views[0].shape[-1]
    first, middle, end = "cotan_first", "cotan_middle", "cotan_end"
    with w.loops(e.target.shape) as names:
        element, x = e.x(0, [*names[:-1], middle]), e.x(1, names)
        before, after = (x, element) if e.params["right"] else (element, x)
        less = f"({before} < {after})"
        if e.dtypes[0] in scalars.FLOATS:
            less = f"({less} || (isnan({after}) && !isnan({before})))"
        w(f"ptrdiff_t {first} = 0, {end} = {n};")
        with w.block(f"while ({first} < {end})"):
            w(f"const ptrdiff_t {middle} = {first} + ({end} - {first}) / 2;")
            is_behind = f"!{less}" if e.params["right"] else less
            w(f"if ({is_behind}) {first} = {middle} + 1; else {end} = {middle};")
        w(f"{e.out(names)} = {first};")


def _iota(w: Writer, e: ArrayEquation) -> None:
    with w.loops(e.target.shape) as names:
        w(f"{e.out(names)} = {names[0]};")


def _fill(w: Writer, e: ArrayEquation) -> None:
    with w.loops(e.target.shape) as names:
        w(f"{e.out(names)} = 0;")


def _copy(w: Writer, e: ArrayEquation, source: int, target: View, how: str = "=") -> None:
    with w.loops(target.shape) as names:
        w(f"{e.place(target, names)} {how} {e.x(source, names)};")


def _region(e: ArrayEquation) -> View:
    return sliced(e.target, e.params)


def _pad(w: Writer, e: ArrayEquation) -> None:
    _fill(w, e)
    _copy(w, e, 0, _region(e))


def _update(how: str) -> Callable[[Writer, ArrayEquation], None]:
    def write(w: Writer, e: ArrayEquation) -> None:
        _copy(w, e, 0, e.target)
        _copy(w, e, 1, _region(e), how)

    return write


def _concatenate(w: Writer, e: ArrayEquation) -> None:
    axis, t = e.params["axis"], e.target
    start = 0
    for i, view in enumerate(e.views):
        _copy(w, e, i, View(t.base, t.offset + start * t.strides[axis], t.strides, view.shape))
        start += view.shape[axis]


def _stack(w: Writer, e: ArrayEquation) -> None:
    t = e.target
    for i, view in enumerate(e.views):
        _copy(w, e, i, View(t.base, t.offset + i * t.strides[0], t.strides[1:], view.shape))


def _gather(w: Writer, e: ArrayEquation) -> None:
    ndim = len(e.views[1].shape)
    with w.loops(e.target.shape) as names:
        row = e.x(1, names[:ndim])
        w(f"{e.out(names)} = {e.x(0, [row, *names[ndim:]])};")


def _scatter(how: str) -> Callable[[Writer, ArrayEquation], None]:
    def write(w: Writer, e: ArrayEquation) -> None:
        _copy(w, e, 0, e.target)
        ndim = len(e.views[1].shape)
        with w.loops(e.views[2].shape) as names:
            row = e.x(1, names[:ndim])
            w(f"{e.out([row, *names[ndim:]])} {how} {e.x(2, names)};")

    return write


def _matmul(w: Writer, e: ArrayEquation) -> None:
    shape = e.target.shape
    inner = e.views[0].shape[-1]
    batch = len(shape) - 2
    fronts = [len(v.shape) - 2 for v in e.views]

    def front(i: int, names: Sequence[str]) -> list[str]:
        """Give the counters of the batch axes of an argument, which broadcast."""
        own = names[batch - fronts[i] : batch]
        return ["0" if n == 1 else k for k, n in zip(own, e.views[i].shape, strict=False)]

    with w.loops(shape) as names:
        row, column = names[-2:]
        w(f"{e.type} total = 0;")
        with w.loops([inner]) as (k,):
            x = e.x(0, [*front(0, names), row, k])
            y = e.x(1, [*front(1, names), k, column])
            w(f"total += {x} * {y};")
        w(f"{e.out(names)} = total;")


#: How each primitive on arrays is written.
ARRAYS: dict[str, Callable[[Writer, ArrayEquation], None]] = {
    **{name: _reduction(name) for name in ("sum", "mean", "prod", "max", "min")},
    "logsumexp": _logsumexp,
    "cumsum": _scan("sum"),
    "cummax": _scan("max"),
    "cummin": _scan("min"),
    "linear_recurrence": _recurrence,
    "argmax": _argument(">"),
    "argmin": _argument("<"),
    "argsort": _argsort,
    "searchsorted": _searchsorted,
    "iota": _iota,
    "pad": _pad,
    "update": _update("="),
    "update_add": _update("+="),
    "concatenate": _concatenate,
    "stack": _stack,
    "gather": _gather,
    "scatter": _scatter("="),
    "scatter_add": _scatter("+="),
    "matmul": _matmul,
}
#: Those that a loop over the whole array can compute on the way.
REDUCTIONS = {"sum", "mean", "prod", "max", "min"}
