"""What a picture of a program shows: boxes and arrows, before anybody says where they are."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from cotan import _core

LONGEST = 44
ROWS = 30
INPUTS = 40


@dataclass
class Box:
    """A box: an input, an output, an equation, a fused group of them, or a block of many.

    `kind` says in which colours it is drawn; `rows` are pairs of what stands on the left and on the
    right of a line, and whether the line is about something that was never computed.
    """

    kind: str
    rows: list[tuple[str, str, bool]]
    head: str = ""
    tip: str = ""
    group: int | None = None


@dataclass
class Graph:
    """Boxes, and arrows between them by number; a program, or one half of a pullback."""

    boxes: list[Box] = field(default_factory=list)
    arrows: dict[tuple[int, int], bool] = field(default_factory=dict)
    """For each arrow, whether it leads to something that was never computed."""
    made_by: dict[int, int] = field(default_factory=dict)
    """For each variable, the box that it comes from."""
    notes: list[str] = field(default_factory=list)

    def add(self, box: Box) -> int:
        """Add a box; give its number."""
        self.boxes.append(box)
        return len(self.boxes) - 1

    def arrow(self, start: int, end: int, never: bool = False) -> None:
        """Add an arrow, once."""
        if start != end:
            self.arrows[start, end] = never and self.arrows.get((start, end), True)


@dataclass(frozen=True)
class Roles:
    """What inputs and outputs are, by position: `"input"`, `"bound"`, `"cotangent"`, ..."""

    inputs: Sequence[str]
    outputs: Sequence[str]


def short(text: str, longest: int = LONGEST) -> str:
    """Leave out the middle of a long text; write control characters as escapes."""
    text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    if len(text) <= longest:
        return text
    return f"{text[: longest // 2]}…{text[-(longest - longest // 2 - 1) :]}"


def type_text(thing: _core.Variable | _core.Equation) -> str:
    """Write dtype and shape as the listing does: `f64[3,4]`."""
    dtype = thing.dtype
    if dtype.name == "bool":
        name = "bool"
    elif dtype.name == "bfloat16":
        name = "bf16"
    else:
        name = f"{dtype.kind}{8 * dtype.itemsize}"
    return f"{name}[{','.join(map(str, thing.shape))}]"


def bytes_text(nbytes: float) -> str:
    """Write a number of bytes in a unit that fits."""
    for unit in ("B", "kB", "MB", "GB"):
        if nbytes < 1000:
            break
        nbytes /= 1000
    return f"{nbytes:.3g} {unit}"


def size_of(thing: _core.Variable | _core.Equation) -> int:
    """Give the bytes of a variable."""
    return math.prod(thing.shape) * thing.dtype.itemsize


class Reader:
    """A program, read once."""

    def __init__(self, program: _core.Program, roles: Roles, never: Iterable[int] = ()) -> None:
        self.program = program
        self.roles = roles
        self.inputs = program.inputs
        self.outputs = program.outputs
        self.equations = program.equations
        self.first = len(self.inputs)
        """The number of the first equation's variable."""
        self.groups = program.fusion_groups()
        self.args = [equation.inputs for equation in self.equations]
        self.prims = [equation.primitive for equation in self.equations]
        never = set(never)
        self.never_outputs = never
        self.never = self._unused(never)
        results = {variable.index for variable in self.outputs}
        self.literals = {
            self.first + k: short(repr(equation.params["value"]), 12)
            for k, equation in enumerate(self.equations)
            if self.prims[k] == "literal" and self.first + k not in results
        }

    def _unused(self, never: set[int]) -> list[bool]:
        """For every variable, whether only outputs that were never computed need it."""
        if not never:
            return [False] * (self.first + len(self.equations))
        needed = [False] * (self.first + len(self.equations))
        for i, variable in enumerate(self.outputs):
            needed[variable.index] |= i not in never
        for k in range(len(self.equations) - 1, -1, -1):
            if needed[self.first + k]:
                for a in self.args[k]:
                    needed[a] = True
        return [not each for each in needed]

    def called(self, var: int) -> str:
        """Give what a variable is called among arguments."""
        if var in self.literals:
            return self.literals[var]
        name = self.inputs[var].name if var < self.first else ""
        return short(name, 24) or f"%{var}"

    def text(self, k: int) -> str:
        """Write an equation without the type of its result."""
        params = {
            key: value
            for key, value in self.equations[k].params.items()
            if not (self.prims[k] == "reshape" and key == "shape")
        }
        listed = ", ".join(f"{key}={_param(value)}" for key, value in params.items())
        listed = short(f"[{listed}]", 32) if listed else ""
        args = ", ".join(map(self.called, self.args[k][:6])) + (
            ", …" if len(self.args[k]) > 6 else ""
        )
        return f"%{self.first + k} = {self.prims[k]}{listed}({args})"

    def row(self, k: int) -> tuple[str, str, bool]:
        """Give the line of an equation."""
        return self.text(k), type_text(self.equations[k]), self.never[self.first + k]


def _param(value: Any) -> str:
    return getattr(value, "name", None) or repr(value)


def graph(reader: Reader, *, limit: int, condensed: bool) -> Graph:
    """Make the graph of a program.

    With `condensed`, a fused group is one box with a line for each equation. Above `limit` boxes,
    blocks of neighbouring equations are one box each.
    """
    groups = {group for group in reader.groups if group is not None}
    alone = sum(group is None for group in reader.groups) - len(reader.literals)
    boxes = len(groups) + alone if condensed else len(reader.equations) - len(reader.literals)
    out = Graph()
    _inputs(reader, out)
    if boxes > limit:
        _blocks(reader, out, limit)
    else:
        _equations(reader, out, condensed)
    for i, (variable, role) in enumerate(zip(reader.outputs, reader.roles.outputs, strict=True)):
        if role == "hidden":
            continue
        if i >= INPUTS:
            out.notes.append(f"{len(reader.outputs) - INPUTS} further outputs are not drawn")
            break
        never = i in reader.never_outputs
        name = variable.name or ("result" if len(reader.outputs) == 1 else f"result {i}")
        row = (short(name), type_text(variable), never)
        kind = "never" if never else role
        box = out.add(Box(kind, [row], tip=f"{name}: {type_text(variable)} = %{variable.index}"))
        source = out.made_by.get(variable.index)
        if source is not None:
            out.arrow(source, box, never)
    return out


def _inputs(reader: Reader, out: Graph) -> None:
    rest: list[int] = []
    for variable, role in zip(reader.inputs, reader.roles.inputs, strict=True):
        if variable.index >= INPUTS:
            rest.append(variable.index)
            continue
        name = variable.name or f"%{variable.index}"
        never = reader.never[variable.index]
        size = bytes_text(size_of(variable))
        tip = f"{name}: {type_text(variable)}, {role}, {size}"
        row = (short(name), type_text(variable), never)
        out.made_by[variable.index] = out.add(Box(role, [row], tip=tip))
    if rest:
        row = (f"{len(rest)} further inputs", "", False)
        box = out.add(Box(reader.roles.inputs[rest[0]], [row], tip="inputs that are not drawn"))
        out.made_by |= dict.fromkeys(rest, box)
        out.notes.append(f"{len(rest)} of {len(reader.inputs)} inputs are drawn as one box")


def _equations(reader: Reader, out: Graph, condensed: bool) -> None:
    together: dict[int, int] = {}
    hidden: Counter[int] = Counter()
    for k, group in enumerate(reader.groups):
        var = reader.first + k
        if var in reader.literals:
            continue
        row = reader.row(k)
        if condensed and group is not None and group in together:
            at = together[group]
            box = out.boxes[at]
            if len(box.rows) < ROWS:
                box.rows.append(row)
            else:
                hidden[at] += 1
        else:
            at = out.add(Box("equation", [row], tip=f"{row[0]}: {row[1]}", group=group))
            if group is not None:
                together[group] = at
        out.made_by[var] = at
    for at, count in hidden.items():
        out.boxes[at].rows.append((f"… {count} more equations", "", False))
    sizes = Counter(group for group in reader.groups if group is not None)
    for group, at in together.items():
        if condensed and sizes[group] > 1:
            out.boxes[at].kind = "group"
            out.boxes[at].head = f"one pass, {sizes[group]} equations"
            out.boxes[at].tip = "computed together, without arrays in between"
    for box in out.boxes:
        if box.kind in {"equation", "group"} and all(never for *_, never in box.rows):
            box.kind = "never"
    for k, args in enumerate(reader.args):
        var = reader.first + k
        for a in args:
            if a not in reader.literals and var in out.made_by:
                out.arrow(out.made_by[a], out.made_by[var], reader.never[var])


def _blocks(reader: Reader, out: Graph, limit: int) -> None:
    count = len(reader.equations)
    blocks = max(1, min(limit, 24))
    size = -(-count // blocks)
    for start in range(0, count, size):
        end = min(start + size, count)
        kinds = Counter(reader.prims[start:end])
        kinds.pop("literal", None)
        first, last = reader.first + start, reader.first + end - 1
        common = [(name, f"× {n}", False) for name, n in kinds.most_common(4)]
        others = len(kinds) - len(common)
        if others > 0:
            common.append((f"and {others} other primitives", "", False))
        never = all(reader.never[first : last + 1])
        at = out.add(Box("never" if never else "block", common, head=f"%{first} … %{last}"))
        out.made_by |= dict.fromkeys(range(first, last + 1), at)
    for k, args in enumerate(reader.args):
        for a in args:
            out.arrow(out.made_by[a], out.made_by[reader.first + k], reader.never[reader.first + k])
    out.notes.append(
        f"{count} equations are drawn in blocks of {size}; prune the program to fewer outputs, "
        "or print it, to see them"
    )
