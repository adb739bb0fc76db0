"""Puts the equations of a program into steps: loops over elementwise groups, and array equations.

Elementwise equations of one shape share a loop, where their arguments are there in time; values
that nobody else reads are never stored. Sums and other reductions of a whole array are computed in
the loop that makes its elements.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from cotan._src.c_code import scalars
from cotan._src.c_code.arrays import ARRAYS, REDUCTIONS
from cotan._src.c_code.views import LAYOUTS, View, layout, whole
from cotan._src.program.recorded import Entry, PlainProgram, VariableType, needed

#: Primitives of which only the first argument counts.
FIRST_ONLY = {"barrier"}
#: Refuses an equation, with the reason.
Refuse: TypeAlias = Callable[[Entry, list[VariableType], str], None]


class Loop:
    """Elementwise equations of one shape, and reductions of their results to numbers."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.equations: list[tuple[Entry, list[View]]] = []
        self.reductions: list[tuple[Entry, View]] = []

    @property
    def reads(self) -> list[View]:
        """What it reads."""
        return [v for _, views in self.equations for v in views] + [v for _, v in self.reductions]


class Step:
    """An equation on arrays."""

    def __init__(self, entry: Entry, views: list[View]) -> None:
        self.entry = entry
        self.reads = views


class Repeat:
    """A loop over a body, for all of its outputs that are needed.

    The body has a schedule of its own, whose variables are numbered with those around it. What it
    carries from step to step lies in memory that has the first carries before.
    """

    def __init__(self, params: dict[str, Any], reads: list[View]) -> None:
        self.length: int = params["length"]
        self.end: str = params["end"]
        self.reverse: bool = params["reverse"]
        self.carries: int = params["carries"]
        self.scanned: int = params["scanned"]
        self.reads = reads
        self.body: Schedule
        #: Variables of the body that are what it carries, and those that are slices.
        self.carried: list[int] = []
        self.slices: list[int] = []
        #: Where the next value of a carry waits until all have been read.
        self.waiting: dict[int, int] = {}
        #: What is stacked: how, of which carry or result, and in which variable.
        self.stacks: list[tuple[str, int, int]] = []

    @property
    def own(self) -> list[int]:
        """Variables that need memory while it runs."""
        return [*self.carried, *self.waiting.values()]


class Schedule:
    """The steps of a program, and how each of its variables is read.

    `made` says for each variable which step computes it; arguments, constants and numbers are not
    in it. `numbers` are literals. The body of a loop has the variables `first` and following.
    """

    def __init__(
        self,
        plain: PlainProgram,
        equations: Sequence[Entry],
        table: dict[str, dict[str, Any]],
        refuse: Refuse,
        outer: "Schedule | None" = None,
        views: Sequence[View] = (),
    ) -> None:
        self.types: list[VariableType] = list(plain["types"]) if outer is None else outer.types
        self.steps: list[Loop | Step | Repeat] = []
        self.made: dict[int, int] = {}
        self.numbers: dict[int, str] = {} if outer is None else dict(outer.numbers)
        self.views: dict[int, View]
        self._outer = outer
        self._repeats: dict[int, Repeat] = {}
        # Results of reductions, which are there when their loop is over.
        self._totals: set[int] = set()
        self._table, self._refuse = table, refuse
        first = 0
        if outer is None:
            self.views = {i: whole(i, self.types[i][1]) for i in range(len(plain["names"]))}
        else:
            first = len(self.types)
            self.types += plain["types"]
            self.views = {first + i: view for i, view in enumerate(views)}
        for name, args, out, params in equations:
            self._add((name, [first + a for a in args], first + out, params))
        self.outputs = [self.views[first + v] for v in plain["outputs"]]
        self.stored = self._stored()

    def _add(self, entry: Entry) -> None:
        name, args, out, params = entry
        dtype, shape = self.types[out]
        for d in (dtype, *(self.types[a][0] for a in args)):
            if d not in scalars.TYPES:
                self._refuse(
                    entry,
                    self.types,
                    f"{d} has no type in C here; cast it to float64, float32, int64 or int32",
                )
        if name == "literal":
            self.numbers[out] = scalars.number(params["value"], dtype)
            self.views[out] = View(out, 0, (0,) * len(shape), tuple(shape))
            return
        views = [self.views[a] for a in args]
        if name in LAYOUTS:
            view = layout(name, params, views[0])
            self.views[out] = self._copied(views[0], shape) if view is None else view
            return
        self.views[out] = whole(out, shape)
        if name == "loop":
            self._repeat(entry, views)
        elif name == "cast":
            self._join(entry, views)
        elif self._table[name]["class"] == "elementwise":
            if scalars.expression(self._table[name], self._source(entry), ["x"] * 3) is None:
                self._refuse(
                    entry,
                    self.types,
                    f"it has no form in C for {self._source(entry)}; cast it to a float",
                )
            self._join(entry, [self._wide(v, shape) for v in views])
        elif name in REDUCTIONS and self._reduced(entry, views[0]):
            pass
        elif name in ARRAYS:
            self.made[out] = len(self.steps)
            self.steps.append(Step(entry, views))
        else:
            self._refuse(
                entry, self.types, "there is no C for it; compute it outside, and pass its result"
            )

    def _repeat(self, entry: Entry, views: list[View]) -> None:
        """Put an output of a loop where the loop is, which is at the first of them."""
        _, args, out, params = entry
        repeat = self._repeats.get(params["group"])
        if repeat is None:
            repeat = self._repeats[params["group"]] = self._repeated(params, args, views)
            self.steps.append(repeat)
        k = self.steps.index(repeat)
        kind, number = params["output"]
        if kind == "last":
            carried = repeat.carried[number]
            self.made[carried] = k
            self.views[out] = whole(carried, self.types[out][1])
        else:
            self.made[out] = k
            repeat.stacks.append((kind, number, out))

    def _repeated(self, params: dict[str, Any], args: list[int], reads: list[View]) -> Repeat:
        """Put the body of a loop into steps."""
        repeat, body = Repeat(params, reads), params["body"]
        inputs = []
        for i, (view, arg) in enumerate(zip(reads, args, strict=True)):
            dtype, shape = self.types[arg]
            if i < repeat.carries:
                repeat.carried.append(self._variable(dtype, shape))
                inputs.append(whole(repeat.carried[-1], shape))
            elif i >= repeat.carries + repeat.scanned or self.is_constant(view.base):
                is_slice = i < repeat.carries + repeat.scanned
                inputs.append(view if not is_slice else _slice_of(view, view.base))
            else:
                repeat.slices.append(self._variable(dtype, shape[1:]))
                inputs.append(_slice_of(view, repeat.slices[-1]))
        entries = needed(body, FIRST_ONLY)
        repeat.body = Schedule(body, entries, self._table, self._refuse, self, inputs)
        # What is carried on may be what another carry was, or lie in its memory.
        for j, view in enumerate(repeat.body.outputs[: repeat.carries]):
            is_same = view == whole(repeat.carried[j], view.shape)
            if view.base in repeat.carried and not is_same:
                repeat.waiting[j] = self._variable(self.types[view.base][0], list(view.shape))
        return repeat

    def _variable(self, dtype: str, shape: Sequence[int]) -> int:
        """Add a variable."""
        self.types.append((dtype, list(shape)))
        return len(self.types) - 1

    def is_constant(self, variable: int) -> bool:
        """Whether a variable is a number of C, which all slices are."""
        return variable in self.numbers or self.is_number(variable)

    def _source(self, entry: Entry) -> str:
        """Give the dtype that an equation computes in."""
        name, args, _, _ = entry
        return self.types[args[1 if name == "where" else 0]][0]

    @staticmethod
    def _wide(view: View, shape: Sequence[int]) -> View:
        wide = layout("broadcast", {"shape": shape}, view)
        return view if wide is None else wide

    def _copied(self, view: View, shape: Sequence[int]) -> View:
        """Copy the elements of a view, and give them another shape."""
        copy = self._variable(self.types[view.base][0], view.shape)
        self._join(("copy", [view.base], copy, {}), [view])
        return whole(copy, shape)

    def _join(self, entry: Entry, views: list[View]) -> None:
        """Put an elementwise equation into the first loop of its shape where it can be computed."""
        out = entry[2]
        shape = tuple(self.types[out][1])
        first = max((self.made.get(v.base, -1) for v in views), default=-1)
        for k in range(max(first, 0), len(self.steps)):
            step = self.steps[k]
            if isinstance(step, Loop) and step.shape == shape and self._fits(views, k):
                step.equations.append((entry, views))
                self.made[out] = k
                return
        self.made[out] = len(self.steps)
        loop = Loop(shape)
        loop.equations.append((entry, views))
        self.steps.append(loop)

    def _fits(self, views: list[View], k: int) -> bool:
        """Say whether what a loop computes itself is read element by element."""
        step = self.steps[k]
        shape = step.shape if isinstance(step, Loop) else None
        return all(
            v.base not in self._totals and v.is_whole and v.shape == shape
            for v in views
            if self.made.get(v.base) == k
        )

    def _reduced(self, entry: Entry, view: View) -> bool:
        """Put a reduction of all elements into the loop that makes them, if there is one."""
        k = self.made.get(view.base)
        if k is None or len(entry[3]["axes"]) != len(view.shape) or not self._fits([view], k):
            return False
        step = self.steps[k]
        if not isinstance(step, Loop) or step.shape != view.shape:
            return False
        step.reductions.append((entry, view))
        self.made[entry[2]] = k
        self._totals.add(entry[2])
        return True

    def is_number(self, variable: int) -> bool:
        """Whether a variable is a local one of C, not memory."""
        if variable in self._totals:
            return True
        k = self.made.get(variable)
        if k is None:
            return self._outer is not None and self._outer.is_number(variable)
        step = self.steps[k]
        return isinstance(step, Loop) and not step.shape

    @property
    def read(self) -> set[int]:
        """The variables that steps or outputs read."""
        return {v.base for step in self.steps for v in step.reads} | {v.base for v in self.outputs}

    def _stored(self) -> dict[int, int]:
        """Give the variables that need memory, and the last step that reads each of them."""
        last: dict[int, int] = {}
        end = len(self.steps)
        reads = [(k, v) for k, step in enumerate(self.steps) for v in step.reads]
        for k, view in [*reads, *((end, v) for v in self.outputs)]:
            made = self.made.get(view.base)
            if made is None or self.is_number(view.base):
                continue
            if made != k or not isinstance(self.steps[made], Loop):
                last[view.base] = max(last.get(view.base, made), k)
        for k, step in enumerate(self.steps):
            if isinstance(step, Repeat):
                for variable in [*step.own, *(out for _, _, out in step.stacks)]:
                    self.made[variable] = k
                    last[variable] = max(last.get(variable, k), k)
        return last


def _slice_of(view: View, base: int) -> View:
    """Give a slice of a view along its first axis: it begins where the memory of `base` does."""
    offset = view.offset if base == view.base else 0
    return View(base, offset, view.strides[1:], view.shape[1:])
