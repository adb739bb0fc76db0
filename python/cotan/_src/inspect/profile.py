"""`profile`: where the time of a block goes, by primitive and by line of the caller's code."""

import linecache
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from time import perf_counter
from typing import Self

from cotan import _core
from cotan._src.inspect import flame_graph
from cotan._src.inspect.report_facts import time_text
from cotan._src.inspect.svg import escaped

#: So many rows of a table are printed.
_ROWS = 12
_PHASES = {
    "run": "programs run",
    "plan": "programs planned",
    "derive": "derivatives written",
    "python": "Python and recording",
}


@dataclass(frozen=True)
class Work:
    """What one primitive computed for one line.

    `seconds` is time of the thread that waited. Where equations share a pass over memory, its
    time is divided among them by estimates of what they cost. `rule` is the primitive whose
    derivative rule wrote the equations, in backward passes; None otherwise. `file`, `line` and
    `function` are None where lines were not recorded.
    """

    primitive: str
    seconds: float
    equations: int
    file: str | None = None
    line: int | None = None
    function: str | None = None
    rule: str | None = None

    @property
    def place(self) -> str:
        """File and line, as they are printed."""
        return f"{_short(self.file)}:{self.line}" if self.file else "(line not recorded)"


class profile(_core.Profile):  # noqa: N801 - a context manager, named as a function
    """Count and time what this thread computes inside a `with` block.

    `print(work)` shows tables by primitive and by line, `work.save("work.svg")` draws a flame
    graph.

    Attributes
    ----------
    equations, skipped
        Counters of equations that were computed, by primitive, and of cotangents that nobody
        asked for, by the primitive that would have computed them.
    on_processor
        Counter of equations that the processor computed for runs on a GPU, which has no kernel for
        them, by primitive.
    runs
        How often the executor was entered.
    bytes_copied
        Bytes of ndarrays that were copied because somebody could have written to them later.
    seconds
        How long the block took.
    phases
        Where these seconds went: `"run"` (programs), `"plan"` (programs optimised and planned),
        `"derive"` (derivative programs written), `"python"` (all else: the block's own code, and
        recording it).

    While it is active, recording notes the line of each operation, which costs a few
    microseconds per operation. Prepared functions know their lines; an older pullback has the
    line of its call. Other threads are not counted.

    >>> import cotan as ct
    >>> import numpy as np
    >>> with ct.profile() as work:
    ...     _ = ct.gradient(lambda x: np.sum(np.exp(x)), np.ones(3))
    >>> work.equations["exp"], work.by_primitive()["exp"].equations
    (1, 1)
    """

    def __init__(self) -> None:
        self._ended = 0.0
        self._started: list[float] = []

    @property
    def seconds(self) -> float:
        now = perf_counter() - self._started[0] if self._started else 0.0
        return self._ended + now

    def __enter__(self) -> Self:
        super().__enter__()
        self._started.append(perf_counter())
        return self

    def __exit__(self, *exception: object) -> None:
        if not self._started:
            raise RuntimeError("profile: it is not entered")
        super().__exit__(*exception)
        started = self._started.pop()
        # Inside of itself it is counted once.
        if not self._started:
            self._ended += perf_counter() - started

    @property
    def phases(self) -> dict[str, float]:
        derive, plan, run = self._phases()
        rest = max(0.0, self.seconds - derive - plan - run)
        return {"run": run, "plan": plan, "derive": derive, "python": rest}

    @property
    def rows(self) -> list[Work]:
        """What was computed, by primitive, line and rule, the longest first."""
        sums: dict[Work, Work] = {}
        for name, place, rule, seconds, equations in self._rows():
            file, line, function = place or (None, None, None)
            key = Work(name, 0.0, 0, file, line, function, rule)
            old = sums.get(key, key)
            sums[key] = replace(
                old, seconds=old.seconds + seconds, equations=old.equations + equations
            )
        return _sorted(sums.values())

    def by_primitive(self) -> dict[str, Work]:
        """Give the sums for each primitive, the longest first."""
        sums: dict[str, Work] = {}
        for row in self.rows:
            old = sums.get(row.primitive, Work(row.primitive, 0.0, 0))
            sums[row.primitive] = replace(
                old, seconds=old.seconds + row.seconds, equations=old.equations + row.equations
            )
        return {work.primitive: work for work in _sorted(sums.values())}

    def by_line(self) -> dict[str, list[Work]]:
        """Give the rows of each line (`"file:line"`), the line that took longest first."""
        lines: dict[str, list[Work]] = {}
        for row in self.rows:
            lines.setdefault(row.place, []).append(row)
        return dict(sorted(lines.items(), key=lambda item: -_seconds(item[1])))

    def __str__(self) -> str:
        run, plan, derive, python = map(time_text, self.phases.values())
        first = (
            f"{time_text(self.seconds)}: {run} running programs, {plan} planning, {derive} writing "
            f"derivatives, {python} in Python and recording"
        )
        text = [first]
        whole = _seconds(self.rows)
        if whole > 0:
            text += self._primitives(whole) + self._lines(whole)
        return "\n".join(text)

    def __repr__(self) -> str:
        return f"<cotan.profile: {time_text(self.seconds)}, {self.runs} runs>"

    def _primitives(self, whole: float) -> list[str]:
        rows = [
            (time_text(w.seconds), f"{w.seconds / whole:.0%}", str(w.equations), name)
            for name, w in self.by_primitive().items()
        ]
        return _table(("time", "share", "equations", "primitive"), rows)

    def _lines(self, whole: float) -> list[str]:
        rows = []
        for place, works in self.by_line().items():
            seconds = _seconds(works)
            backward = _seconds(w for w in works if w.rule)
            function = works[0].function
            rows.append(
                (
                    time_text(seconds),
                    f"{seconds / whole:.0%}",
                    time_text(seconds - backward),
                    time_text(backward),
                    f"{place} in {function}" if function else place,
                )
            )
        return _table(("time", "share", "forward", "backward", "line"), rows)

    def save(self, path: str | PathLike[str]) -> None:
        """Write a flame graph: by phase, function, line and primitive.

        A picture for `.svg`; for `.json` a file for speedscope (https://www.speedscope.app); for
        `.txt` the collapsed stacks that flamegraph.pl and inferno read, in microseconds.

        Raises `ValueError` for another suffix.
        """
        writers = {
            ".svg": flame_graph.svg,
            ".json": flame_graph.speedscope,
            ".txt": flame_graph.collapsed,
        }
        path = Path(path)
        if path.suffix not in writers:
            raise ValueError(
                f"profile.save: {path.name!r} ends in none of .svg (a picture), .json "
                "(speedscope) and .txt (collapsed stacks)"
            )
        path.write_text(writers[path.suffix](_stacks(self)), encoding="utf-8")

    def _repr_html_(self) -> str:
        return f"{flame_graph.svg(_stacks(self))}<pre>{escaped(str(self))}</pre>"


def _stacks(work: profile) -> list[flame_graph.Stack]:
    """Give each row as a stack: phase, function, line, primitive."""
    phases, rows = work.phases, work.rows
    found = [((_PHASES["run"], *_frames(row)), row.seconds) for row in rows]
    # What a run takes besides its steps.
    found.append(((_PHASES["run"],), phases["run"] - sum(row.seconds for row in rows)))
    found += [((_PHASES[name],), phases[name]) for name in ("plan", "derive", "python")]
    return [(names, seconds) for names, seconds in found if seconds > 0.0]


def _frames(row: Work) -> Iterator[str]:
    if row.file and row.line:
        yield f"{row.function} ({row.place.rpartition(':')[0]})"
        source = linecache.getline(row.file, row.line).strip()
        yield f"line {row.line}: {source}" if source else f"line {row.line}"
    else:
        yield "lines not recorded"
    yield f"{row.primitive} (backward, rule of {row.rule})" if row.rule else row.primitive


def _seconds(works: Iterable[Work]) -> float:
    return sum(work.seconds for work in works)


def _sorted(works: Iterable[Work]) -> list[Work]:
    return sorted(works, key=lambda w: (-w.seconds, w.primitive, w.place, w.rule or ""))


def _short(file: str) -> str:
    """Name a file from the working directory, or by its last two parts."""
    try:
        inside = os.path.relpath(file)
    except (ValueError, OSError):  # Another drive, or a directory that is gone.
        inside = os.pardir
    if file.startswith("<") or not inside.startswith(os.pardir):
        return file if file.startswith("<") else inside
    return os.path.join(*Path(file).parts[-2:])


def _table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Align all columns but the last to the right."""
    shown = rows[:_ROWS]
    widths = [max(map(len, column)) for column in zip(heads, *shown, strict=True)][:-1]
    lines = [
        "  ".join([*(cell.rjust(w) for cell, w in zip(row, widths, strict=False)), row[-1]])
        for row in (heads, *shown)
    ]
    if len(rows) > _ROWS:
        lines.append(f"({len(rows) - _ROWS} more)")
    return ["", *lines]
