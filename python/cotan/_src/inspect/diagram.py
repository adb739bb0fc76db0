"""The boxes and arrows of a program's diagram, before they are laid out or drawn."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from cotan import _core

LIMIT = 80
"""More boxes than this are drawn as blocks."""

"""Above this, letters of a name, lines of a fused group and inputs are left out."""
LONGEST = 44
ROWS = 30
INPUTS = 40

# For each kind: fill, border and text, on a light and on a dark ground.
COLOURS = {
    "input": (("#dbeafe", "#2563eb", "#1e3a8a"), ("#172554", "#60a5fa", "#dbeafe")),
    "bound": (("#e5e7eb", "#6b7280", "#1f2937"), ("#374151", "#9ca3af", "#f3f4f6")),
    "cotangent": (("#f3e8ff", "#9333ea", "#581c87"), ("#3b0764", "#c084fc", "#f3e8ff")),
    "residual": (("#ffedd5", "#ea580c", "#7c2d12"), ("#431407", "#fb923c", "#ffedd5")),
    "equation": (("#ffffff", "#94a3b8", "#0f172a"), ("#1e293b", "#64748b", "#e2e8f0")),
    "group": (("#f0fdfa", "#0d9488", "#134e4a"), ("#042f2e", "#2dd4bf", "#ccfbf1")),
    "block": (("#f8fafc", "#475569", "#0f172a"), ("#1e293b", "#94a3b8", "#e2e8f0")),
    "output": (("#dcfce7", "#16a34a", "#14532d"), ("#052e16", "#4ade80", "#dcfce7")),
    "gradient": (("#dcfce7", "#16a34a", "#14532d"), ("#052e16", "#4ade80", "#dcfce7")),
    "never": (("#fef2f2", "#f87171", "#991b1b"), ("#1c1917", "#b91c1c", "#fca5a5")),
}


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
    units = ["B", "kB", "MB", "GB"]
    while nbytes >= 1000 and len(units) > 1:
        nbytes /= 1000
        del units[0]
    return f"{nbytes:.3g} {units[0]}"


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
        self.labels: dict[int, str] = {}
        """What is written into the box of an input instead of its name."""
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


def _param(value: object) -> str:
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
    few = boxes > limit
    _inputs(reader, out, INPUTS // 4 if few else INPUTS)
    if few:
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


def _inputs(reader: Reader, out: Graph, most: int) -> None:
    rest: list[int] = []
    for variable, role in zip(reader.inputs, reader.roles.inputs, strict=True):
        if variable.index >= most:
            rest.append(variable.index)
            continue
        name = reader.labels.get(variable.index) or variable.name or f"%{variable.index}"
        if role == "bound" and variable.shape == () and variable.value is not None:
            name = f"{name} = {variable.value}"
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
        if condensed and group is not None and group in together:
            at = together[group]
            box = out.boxes[at]
            if len(box.rows) < ROWS:
                box.rows.append(reader.row(k))
            else:
                hidden[at] += 1
        else:
            row = reader.row(k)
            at = out.add(Box("equation", [row], tip=f"{row[0]}: {row[1]}", group=group))
            if group is not None:
                together[group] = at
        out.made_by[var] = at
    for at, count in hidden.items():
        out.boxes[at].rows.append((f"… {count} more equations", "", False))
    if condensed:
        _name_groups(reader, out, together)
    for box in out.boxes:
        if box.kind in {"equation", "group"} and all(never for *_, never in box.rows):
            box.kind = "never"
    _arrows(reader, out)


def _arrows(reader: Reader, out: Graph) -> None:
    for k, args in enumerate(reader.args):
        var = reader.first + k
        for a in args:
            if a not in reader.literals and var in out.made_by:
                out.arrow(out.made_by[a], out.made_by[var], reader.never[var])


def _name_groups(reader: Reader, out: Graph, together: dict[int, int]) -> None:
    sizes = Counter(group for group in reader.groups if group is not None)
    for group, at in together.items():
        if sizes[group] > 1:
            out.boxes[at].kind = "group"
            out.boxes[at].head = f"one pass, {sizes[group]} equations"
            out.boxes[at].tip = "computed together, without arrays in between"


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


@dataclass
class Half:
    """A graph, what stands above it, and whether its arrows point up."""

    graph: Graph
    title: str
    upward: bool = False


def halves_of(
    what: _core.Program | _core.Pullback, never: Iterable[str], limit: int, condensed: bool
) -> tuple[list[Half], list[tuple[int, int]]]:
    """Give the graphs of a program or a pullback, and arrows from the first to the second."""
    if isinstance(what, _core.Program):
        inputs = ["bound" if v.value is not None else "input" for v in what.inputs]
        roles = Roles(inputs, ["output"] * len(what.outputs))
        lost = _positions(what, never, "")
        read = Reader(what, roles, lost)
        return [Half(graph(read, limit=limit, condensed=condensed), "program")], []
    if not isinstance(what, _core.Pullback):
        raise TypeError(f"a picture shows a Program or a Pullback, not {type(what)}")
    back, forward = what.program, what.forward
    given, left = back.inputs, back.outputs
    if forward is None:
        # A loaded pullback does not know any more what was run.
        residual = [
            "cotangent" if v.name.startswith("dy") and i < len(given) else "residual"
            for i, v in enumerate(given)
        ]
        roles = Roles(residual, ["gradient"] * len(left))
        read = Reader(back, roles, _positions(back, never, "d"))
        return [Half(graph(read, limit=limit, condensed=condensed), "backward")], []
    made = forward.outputs
    # The results have names, `y` and paths in it; what is kept has none.
    results = sum(v.name != "" for v in made)
    residuals = len(made) - results
    first = len(given) - residuals
    roles = Roles(["cotangent"] * first + ["residual"] * residuals, ["gradient"] * len(left))
    read = Reader(back, roles, _positions(back, never, "d"))
    for i, variable in enumerate(given[first:]):
        if not variable.name:
            read.labels[first + i] = f"%{first + i} = forward %{made[results + i].index}"
    backward = graph(read, limit=limit, condensed=condensed)
    active = {v.name.removeprefix("d") for v in left}
    inputs = ["input" if v.name in active else "bound" for v in forward.inputs]
    roles = Roles(inputs, ["output"] * results + ["hidden"] * residuals)
    ahead = graph(Reader(forward, roles), limit=limit, condensed=condensed)
    across: dict[tuple[int, int], None] = {}
    for i in range(residuals):
        start = ahead.made_by.get(made[results + i].index)
        end = backward.made_by.get(first + i)
        if start is not None and end is not None:
            across[start, end] = None
    nbytes = sum(size_of(v) for v in given[first:])
    title = f"backward, keeps {bytes_text(nbytes)}"
    return [Half(ahead, "forward"), Half(backward, title, upward=True)], list(across)


def _positions(program: _core.Program, names: Iterable[str], prefix: str) -> list[int]:
    wanted = {prefix + name for name in names}
    return [i for i, variable in enumerate(program.outputs) if variable.name in wanted]


def never_computed(what: _core.Program | _core.Pullback) -> list[str]:
    """Give the paths of arguments whose cotangents a pullback never computed, where it is known."""
    report = getattr(what, "report", None)
    if report is None or not isinstance(what, _core.Pullback):
        return []
    return list(report().never_computed)
