"""The data behind a report on a pullback: its arguments, residuals and checkpoints."""

import dataclasses
import os

from cotan._core import Program


def short(file: str) -> str:
    """Give the last part of a path; names of what is no file (`<stdin>`) are whole."""
    return file if file.startswith("<") else os.path.basename(file)


def time_text(seconds: float) -> str:
    """Say a time with three digits and a unit.

    >>> time_text(0.01234), time_text(2.5e-6), time_text(0.0)
    ('12.3 ms', '2.5 µs', '0 µs')
    """
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= 0.9995 * scale:
            return f"{seconds / scale:.3g} {unit}" if seconds < 999 * scale else f"{seconds:.0f} s"
    return f"{seconds * 1e6:.3g} µs"


def size_text(count: float) -> str:
    """Write a number of bytes as a person reads it."""
    if count < 1000:
        return f"{count:.0f} B"
    for unit in ("kB", "MB", "GB", "TB"):
        count /= 1000
        if count < 999.5 or unit == "TB":
            break
    return f"{count:.3g} {unit}"


def _type(dtype: str, shape: tuple[int, ...]) -> str:
    return f"{dtype}[{', '.join(map(str, shape))}]"


@dataclasses.dataclass(slots=True)
class Line:
    """A line of the user's code, known where lines were recorded (`ct.explain` records them)."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{short(self.file)}:{self.line}"


@dataclasses.dataclass(slots=True)
class Argument:
    """A leaf of the arguments."""

    path: str
    dtype: str
    shape: tuple[int, ...]
    #: `"computed"`, `"never computed"`, `"no influence"` (it has no cotangent), `"held constant"`,
    #: or `"not asked for"` (left out by `back.wrt`).
    state: str

    @property
    def type(self) -> str:
        """Dtype and shape, as they are shown."""
        return _type(self.dtype, self.shape)


@dataclasses.dataclass(slots=True)
class Held:
    """A value that the pullback keeps."""

    #: `"argument"`, `"computed"` (the result of an operation), `"constant"` (closed over), or
    #: `"unknown"` (of a pullback that was loaded).
    kind: str
    #: The path of the argument, or the name of the operation.
    name: str
    dtype: str
    shape: tuple[int, ...]
    #: Bytes; 0 for what lies in the memory of another one.
    bytes: int
    #: Where it was computed.
    line: Line | None
    #: The first equation of the pullback that needs it, or None where it is handed out as it is.
    needed_by: str | None
    needed_at: Line | None
    #: How many equations need it.
    readers: int
    #: The paths of the arguments whose cotangents need it.
    cotangents: list[str]
    #: Which input of the pullback's program it is.
    input: int

    @property
    def type(self) -> str:
        """Dtype and shape, as they are shown."""
        return _type(self.dtype, self.shape)

    def what(self) -> str:
        """Say in words what it is."""
        if self.kind == "argument":
            return self.name
        if self.kind == "computed":
            return f"result of {self.name}" + (f" ({self.line})" if self.line else "")
        return "a constant" if self.kind == "constant" else "a value"

    def why(self) -> str:
        """Say in words what needs it."""
        if self.needed_by is None:
            return "is a cotangent itself"
        text = self.needed_by + (f" ({self.needed_at})" if self.needed_at else "")
        return text + (f" and {self.readers - 1} more" if self.readers > 1 else "")


@dataclasses.dataclass(slots=True)
class Place:
    """A stretch of the forward pass that a checkpoint could enclose."""

    #: The first and the last operation.
    first: str
    last: str
    first_line: Line | None
    last_line: Line | None
    #: How many equations it has.
    equations: int
    #: Bytes that would not be held.
    bytes: int
    #: The part of the forward pass's work that would be done again.
    work: float

    def __str__(self) -> str:
        ends = [self.first, self.last]
        if self.first_line and self.last_line:
            ends = [f"{end} ({line})" for end, line in zip(ends, self._lines(), strict=True)]
        return (
            f"from {ends[0]} to {ends[1]}: {self.equations} equations, "
            f"{size_text(self.bytes)} less, {self.work:.0%} of the work again"
        )

    def _lines(self) -> tuple[Line | None, Line | None]:
        return self.first_line, self.last_line


@dataclasses.dataclass(slots=True)
class Decision:
    """A line that decided by values of arguments, as `if`, `while` and keys of dictionaries do."""

    line: Line
    #: How often it did.
    count: int

    def __str__(self) -> str:
        times = "once" if self.count == 1 else f"{self.count} times"
        return f"{self.line} in {self.line.function}, {times}"


#: What is said above such lines.
DECISIONS_TITLE = "Decided by values, whose influence on which way is taken has no derivative"
DECISIONS_REMEDY = (
    "A result that such a loop narrows down, as a bisection does, has no derivative or a wrong "
    "one; state the equation that it solves with ct.implicit"
)


@dataclasses.dataclass
class ReportFacts:
    """What there is to say about a pullback, without its presentation."""

    #: The leaves of the arguments, in order.
    arguments: list[Argument]
    #: The values that are kept.
    held: list[Held]
    #: Bytes of these: `back.nbytes`.
    held_bytes: int
    #: How many equations the pullback's program has,
    equations: int
    #: how many of them only cotangents need that were never computed,
    equations_avoided: int
    #: and the bytes of their results.
    bytes_avoided: int
    #: For each primitive, for how many arguments its rule was not applied, because nothing asked
    #: for the cotangent (constants).
    skipped: dict[str, int]
    #: Where a checkpoint would free the most, best first; at most three.
    checkpoints: list[Place]
    #: The pullback's program.
    program: Program = dataclasses.field(repr=False)
    #: For each equation of it the line that it comes from, as far as that is known.
    lines: list[tuple[str, int] | None] = dataclasses.field(repr=False)
    #: The lines that decided by values of arguments, those that did it most often first; only
    #: `ct.explain` counts them.
    decisions: list[Decision] = dataclasses.field(default_factory=list)
    #: The program that gave the results and what is held; None when that is not known.
    forward: Program | None = dataclasses.field(default=None, repr=False)
    #: For each equation of it the line that it comes from.
    forward_lines: list[tuple[str, int] | None] = dataclasses.field(
        default_factory=list, repr=False
    )

    def _in_state(self, state: str) -> list[str]:
        return [a.path for a in self.arguments if a.state == state]

    @property
    def computed(self) -> list[str]:
        """Paths of the arguments whose cotangents have been computed."""
        return self._in_state("computed")

    @property
    def never_computed(self) -> list[str]:
        """Paths of the arguments whose cotangents nobody has read."""
        return self._in_state("never computed")

    @property
    def without_influence(self) -> list[str]:
        """Paths of the arguments on which the result does not depend."""
        return self._in_state("no influence")

    @property
    def held_constant(self) -> list[str]:
        """Paths of the arguments that were held constant."""
        return self._in_state("held constant")

    def held_for(self, path: str) -> list[Held]:
        """Give the values that the cotangent of one argument needs; none for an unknown path.

        >>> import cotan as ct
        >>> report = ct.explain(lambda x, y: x * y, 2.0, 3.0)
        >>> [held.name for held in report.held_for("x")]
        ['y']
        """
        return [h for h in self.held if path in h.cotangents]

    def bytes_only_for(self, path: str) -> int:
        """Give the bytes that only the cotangent of one argument needs.

        Raises `ValueError` when there is no argument of this path.

        >>> import cotan as ct
        >>> ct.explain(lambda x, y: x * y, 2.0, 3.0).bytes_only_for("x")
        8
        """
        known = [argument.path for argument in self.arguments]
        if path not in known:
            raise ValueError(f"bytes_only_for: there is no argument {path!r}; there are {known}")
        return sum(h.bytes for h in self.held if h.cotangents == [path])
