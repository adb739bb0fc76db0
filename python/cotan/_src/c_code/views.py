"""Arrays as C reads them: views of memory, and the loops over them.

Reshapes, transpositions, broadcasts and slices compute nothing: they are another way of reading
the memory that some array lies in.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple


class View(NamedTuple):
    """An array as a strided region of a variable's memory; offset and strides in elements."""

    base: int
    """The variable whose memory it is."""
    offset: int
    strides: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def is_whole(self) -> bool:
        """Whether it reads memory in order, from its start."""
        return self.offset == 0 and self.is_contiguous

    @property
    def is_contiguous(self) -> bool:
        """Whether it reads memory in order."""
        usual = contiguous(self.shape)
        rows = zip(self.shape, self.strides, usual, strict=True)
        return all(n == 1 or s == u for n, s, u in rows)


def contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    """Give the strides of an array in row-major order."""
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))


def whole(base: int, shape: Sequence[int]) -> View:
    """Give a variable itself."""
    return View(base, 0, contiguous(shape), tuple(shape))


def reshaped(view: View, shape: Sequence[int]) -> View | None:
    """Give the same elements in another shape; None where they have to be copied."""
    shape = tuple(shape)
    if view.is_contiguous or 0 in shape:
        return View(view.base, view.offset, contiguous(shape), shape)
    kept = [(n, s) for n, s in zip(view.shape, view.strides, strict=True) if n != 1]
    if [n for n, _ in kept] != [n for n in shape if n != 1]:
        return None
    strides = iter([s for _, s in kept])
    return View(view.base, view.offset, tuple(0 if n == 1 else next(strides) for n in shape), shape)


def broadcast(view: View, shape: Sequence[int]) -> View:
    """Give a view repeated to a larger shape."""
    more = len(shape) - len(view.shape)
    strides = tuple(
        0 if n == 1 and m != 1 else s
        for n, s, m in zip(view.shape, view.strides, tuple(shape)[more:], strict=True)
    )
    return View(view.base, view.offset, (0,) * more + strides, tuple(shape))


def sliced(view: View, params: dict[str, Any]) -> View:
    """Give a strided region of a view."""
    start, length, step = params["start"], params["len"], params["step"]
    offset = sum(a * s for a, s, n in zip(start, view.strides, length, strict=True) if n)
    strides = tuple(s * k for s, k in zip(view.strides, step, strict=True))
    return View(view.base, view.offset + offset, strides, tuple(length))


def layout(name: str, params: dict[str, Any], view: View) -> View | None:
    """Give the view that a primitive makes of another; None where elements have to be copied."""
    if name == "reshape":
        return reshaped(view, params["shape"])
    if name == "broadcast":
        return broadcast(view, params["shape"])
    if name == "slice":
        return sliced(view, params)
    if name == "transpose":
        axes = params["axes"]
        strides, shape = ([t[i] for i in axes] for t in (view.strides, view.shape))
        return View(view.base, view.offset, tuple(strides), tuple(shape))
    if name == "flip":
        axes = [i for i in params["axes"] if view.shape[i]]
        offset = sum((view.shape[i] - 1) * view.strides[i] for i in axes)
        strides = [-s if i in axes else s for i, s in enumerate(view.strides)]
        return View(view.base, view.offset + offset, tuple(strides), view.shape)
    return view


#: The primitives that `layout` knows.
LAYOUTS = {"reshape", "broadcast", "slice", "transpose", "flip", "dropgrad", "barrier"}


def merged(shape: Sequence[int], views: Sequence[View]) -> tuple[list[int], list[list[int]]]:
    """Join axes that all views pass through in order: the shape, and strides for each view."""
    axes = [k for k, n in enumerate(shape) if n != 1]
    sizes: list[int] = []
    strides: list[list[int]] = [[] for _ in views]
    for k in axes:
        steps = [v.strides[k] for v in views]
        if sizes and all(s[-1] == step * shape[k] for s, step in zip(strides, steps, strict=True)):
            sizes[-1] *= shape[k]
            for s, step in zip(strides, steps, strict=True):
                s[-1] = step
        else:
            sizes.append(shape[k])
            for s, step in zip(strides, steps, strict=True):
                s.append(step)
    return sizes, strides


def index(offset: int, strides: Sequence[int], names: Sequence[str]) -> str:
    """Give the place of an element as C."""
    terms = [
        name if s == 1 else f"{s} * {name}" for name, s in zip(names, strides, strict=True) if s
    ]
    if offset or not terms:
        terms.insert(0, str(offset))
    return " + ".join(terms).replace("+ -", "- ")


class Writer:
    """Lines of C, indented."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._depth = 1
        self._names = 0

    def __call__(self, line: str) -> None:
        """Write a line."""
        self.lines.append("    " * self._depth + line)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Write braces around what is written inside."""
        self(f"{head} {{" if head else "{")
        self._depth += 1
        yield
        self._depth -= 1
        self("}")

    @contextmanager
    def loops(self, shape: Sequence[int | str], goes_on: str = "") -> Iterator[list[str]]:
        """Write loops over a shape, while something holds; gives the names of their counters."""
        names = []
        for n in shape:
            name = f"i{self._names}"
            self._names += 1
            names.append(name)
            test = f"{name} < {n}" + (f" && {goes_on}" if goes_on else "")
            self(f"for (ptrdiff_t {name} = 0; {test}; {name}++) {{")
            self._depth += 1
        yield names
        for _ in shape:
            self._depth -= 1
            self("}")
        self._names -= len(names)
