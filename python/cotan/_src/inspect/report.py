"""What a pullback holds and why, and what it never computed."""

import dataclasses
import html as _html
import os
from collections.abc import Callable, Sequence
from typing import Any

from cotan import _core
from cotan._src.inspect import report_html
from cotan._src.inspect.nonfinite import recorded_lines
from cotan._src.inspect.report_html import short, size_text

#: In texts, lists are cut after so many entries.
_MANY = 40


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


@dataclasses.dataclass
class Report:
    """What a pullback holds and why, which cotangents were computed, and what was avoided.

    `back.report()` makes one, `ct.explain(f, *args)` too. `print` shows it as text, a notebook as a
    page, `save` writes that page to a file.

    >>> import cotan as ct
    >>> import numpy as np
    >>> _, back = ct.pullback(lambda x, c: np.sum(np.exp(x) * c), np.ones(1000), np.ones(1000))
    >>> dx, dc = back(1.0)
    >>> _ = np.asarray(dx)
    >>> report = back.report()
    >>> report.computed, report.never_computed, report.held_bytes == back.nbytes
    (['x'], ['c'], True)
    """

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
    program: Any = dataclasses.field(repr=False)
    #: For each equation of it the line that it comes from, as far as that is known.
    lines: list[tuple[str, int] | None] = dataclasses.field(repr=False)
    #: The program that gave the results and what is held; None when that is not known.
    forward: Any = dataclasses.field(default=None, repr=False)
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
        """Give the values that the cotangent of one argument needs."""
        return [h for h in self.held if path in h.cotangents]

    def bytes_only_for(self, path: str) -> int:
        """Give the bytes that only the cotangent of one argument needs.

        Raises `ValueError` when there is no argument of this path.
        """
        known = [argument.path for argument in self.arguments]
        if path not in known:
            raise ValueError(f"bytes_only_for: there is no argument {path!r}; there are {known}")
        return sum(h.bytes for h in self.held if h.cotangents == [path])

    def __str__(self) -> str:
        return _text(self)

    def html(self) -> str:
        """Give the report as a page: one file, which loads nothing and runs no script."""
        return report_html.page(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page of `html` to a file, whole or not at all."""
        _core.write_file(path, self.html().encode())

    def _repr_html_(self) -> str:
        # A page in a frame: its style stays inside.
        inner = _html.escape(self.html(), quote=True)
        return (
            f'<iframe title="Report of a pullback" srcdoc="{inner}" sandbox="" '
            'style="width:100%;height:32rem;border:1px solid #8886;border-radius:6px"></iframe>'
        )


def explain(f: Callable[..., Any], /, *args: Any, wrt: Any = None) -> Report:
    """Say what the pullback of a function would hold, and why.

    The function is recorded and run once, with its lines; no cotangent is computed. Arguments are
    as for `pullback`.

    >>> import cotan as ct
    >>> import numpy as np
    >>> report = ct.explain(lambda x: np.sum(np.exp(x)), np.ones(1000))
    >>> [(h.what().split(" (")[0], h.bytes) for h in report.held]
    [('result of exp', 8000)]
    """
    with recorded_lines():
        _, back = _core.pullback(f, *args, wrt=wrt)
        report: Report = back.report()
        return report


def build(facts: dict[str, Any]) -> Report:
    """Make a report of what the compiled part says."""
    held = [
        Held(
            kind,
            name,
            dtype,
            shape,
            nbytes,
            _line(place),
            reader[0] if reader else None,
            _line(reader[1]) if reader else None,
            readers,
            cotangents,
            number,
        )
        for number, (kind, name, dtype, shape, nbytes, place), (
            reader,
            readers,
            cotangents,
        ) in facts["held"]
    ]
    places = [
        Place(
            f"%{first[0]} {first[1]}",
            f"%{last[0]} {last[1]}",
            _line(first[2]),
            _line(last[2]),
            equations,
            nbytes,
            work,
        )
        for first, last, equations, nbytes, work in facts["checkpoints"]
    ]
    return Report(
        arguments=[Argument(*fields) for fields in facts["arguments"]],
        held=held,
        held_bytes=facts["held_bytes"],
        equations=facts["equations"],
        equations_avoided=facts["equations_avoided"],
        bytes_avoided=facts["bytes_avoided"],
        skipped=dict(facts["skipped"]),
        checkpoints=places,
        program=facts["program"],
        lines=facts["lines"],
        forward=facts["forward"],
        forward_lines=facts["forward_lines"],
    )


def _line(place: tuple[str, int, str] | None) -> Line | None:
    return Line(*place) if place else None


def _type(dtype: str, shape: tuple[int, ...]) -> str:
    return f"{dtype}[{', '.join(map(str, shape))}]"


def _text(report: Report) -> str:
    parts = [
        (
            f"Pullback: holds {size_text(report.held_bytes)} in {len(report.held)} values, "
            f"{report.equations} equations; {report.equations_avoided} of them "
            f"({size_text(report.bytes_avoided)}) never computed"
        )
    ]
    rows: list[tuple[str, ...]] = [
        (
            a.path,
            a.type,
            a.state,
            f"needs {size_text(sum(h.bytes for h in report.held_for(a.path)))}"
            if a.state in ("computed", "never computed")
            else "",
        )
        for a in report.arguments[:_MANY]
    ]
    parts += ["", "Cotangents", *_aligned(rows), *_rest(report.arguments)]
    if report.held:
        largest = sorted(report.held, key=lambda h: -h.bytes)
        rows = [
            (
                h.what(),
                h.type,
                size_text(h.bytes),
                f"needed by {h.why()}",
                "for " + _some(h.cotangents),
            )
            for h in largest[:_MANY]
        ]
        parts += ["", "Held", *_aligned(rows), *_rest(largest)]
    if report.skipped:
        counts = ", ".join(f"{n} of {name}" for name, n in report.skipped.items())
        parts += ["", f"Not asked for: the rules of {counts} for arguments held constant"]
    if report.checkpoints:
        parts += ["", "Checkpoints that would free the most"]
        parts += [f"  {i}. {place}" for i, place in enumerate(report.checkpoints, 1)]
    return "\n".join(parts)


def _some(names: Sequence[str]) -> str:
    if len(names) <= 3:
        return ", ".join(names) or "none"
    return f"{', '.join(names[:2])} and {len(names) - 2} more"


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return [
        "  " + "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _rest(items: Sequence[Any]) -> list[str]:
    return [f"  ... and {len(items) - _MANY} more"] if len(items) > _MANY else []
