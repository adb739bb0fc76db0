"""Reports on a prepared function: its recordings, their guards, and why there are several.

The words are those of TorchDynamo: a *guard* is what must hold for a recording to be replayed, its
*source* is where the value comes from.
"""

import dataclasses
from typing import Any, TypeAlias

from cotan._src.runtime.call_site import warn
from cotan._src.runtime.values import name_of

# Lists are cut after so many entries when they are printed.
_MANY = 20
_Pairs: TypeAlias = list[tuple[str, str]]
_Fields: TypeAlias = tuple[str, str, str, str]


class RerecordingWarning(UserWarning):
    """A prepared function is recorded anew in call after call, which takes as long as a first call.

    The warning is given once for each prepared function, with the guard that failed.
    `Prepared.explain` shows all of them.

    >>> import cotan as ct, warnings
    >>> g = ct.prepare(lambda x, n: x * n, 1.0, ct.const(0), transform="value")
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     for n in range(20):
    ...         _ = g(1.0, n)
    >>> [w.category.__name__ for w in caught]
    ['RerecordingWarning']
    """


@dataclasses.dataclass(frozen=True)
class Guard:
    """What must hold for a recording to be replayed."""

    #: Where the value comes from: `global rate`, `closure variable k`, `decision at file.py:12`.
    source: str
    #: What must hold: `is 3.0`.
    guard: str

    def __str__(self) -> str:
        return f"{self.source}: {self.guard}"


@dataclasses.dataclass(frozen=True)
class Reason(Guard):
    """The guard that failed when a function was recorded anew."""

    #: The value in the recording, as text.
    old: str
    #: The value that was found.
    new: str

    def __str__(self) -> str:
        was = f" (was {self.old})" if self.old else ""
        return f"{self.source}: {self.new}{was}"


@dataclasses.dataclass(frozen=True)
class Recording:
    """One recording of the function."""

    #: Counted from 1.
    number: int
    #: The guard that failed in the recordings before it; None for the first one.
    reason: Reason | None


@dataclasses.dataclass(frozen=True)
class Specialization:
    """A recording that is kept, with what it is valid for."""

    #: The arguments by their paths, with their dtypes and shapes or constant values.
    arguments: dict[str, str]
    guards: tuple[Guard, ...]
    num_replays: int


@dataclasses.dataclass(frozen=True)
class PreparedReport:
    """What a prepared function has recorded, what each recording is valid for, and why.

    `Prepared.explain` makes one; `print` shows it.

    Attributes
    ----------
    function, transform
        The name of the function, and what is computed of it.
    num_recordings
        How often it was recorded, whether or not the recordings are kept.
    recordings
        The first recording and the last thousand, with reasons.
    specializations
        The recordings that are kept, the last used first.
    unprepared
        Why calls were made without preparation, and how many.

    >>> import cotan as ct
    >>> import numpy as np
    >>> g = ct.prepare(lambda x: np.sum(x * x), np.ones(2))
    >>> _ = g(np.ones(3))
    >>> print(g.explain().recordings[1].reason)
    argument x: f64[3] (was f64[2])
    """

    function: str
    transform: str
    num_recordings: int
    recordings: tuple[Recording, ...]
    specializations: tuple[Specialization, ...]
    unprepared: dict[str, int]

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def _lines(report: PreparedReport) -> list[str]:
    kept = len(report.specializations)
    lines = [
        (
            f"{report.transform} of {report.function}: recorded {_times(report.num_recordings)}, "
            f"{kept} {'specialization' if kept == 1 else 'specializations'} kept"
        )
    ]
    for number, specialization in enumerate(report.specializations, 1):
        lines.append(f"specialization {number}, replayed {_times(specialization.num_replays)}")
        lines += _cut([f"  {path}: {what}" for path, what in specialization.arguments.items()])
        if specialization.guards:
            lines.append("  guards")
            lines += _cut([f"    {guard}" for guard in specialization.guards])
    again = [r for r in report.recordings if r.reason is not None]
    if again:
        lines.append("recorded anew because of")
        lines += _cut([f"  recording {r.number}: {r.reason}" for r in again])
    if report.unprepared:
        lines.append("called without preparation because of")
        lines += [f"  {why}: {_times(count)}" for why, count in report.unprepared.items()]
    return lines


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _cut(lines: list[str]) -> list[str]:
    rest = len(lines) - _MANY
    if rest <= 1:
        return lines
    indent = " " * (len(lines[0]) - len(lines[0].lstrip()))
    return [*lines[:_MANY], f"{indent}... and {rest} more"]


def made(
    function: object,
    transform: str,
    kept: list[tuple[_Pairs, _Pairs, int]],
    num_recordings: int,
    recordings: list[tuple[int, _Fields | None]],
    unprepared: list[tuple[str, int]],
) -> PreparedReport:
    """Make a report of what the compiled module knows of a prepared function."""
    return PreparedReport(
        name_of(function),
        transform,
        num_recordings,
        tuple(Recording(n, Reason(*why) if why else None) for n, why in recordings),
        tuple(
            Specialization(dict(arguments), tuple(Guard(*guard) for guard in guards), replays)
            for arguments, guards, replays in kept
        ),
        dict(unprepared),
    )


def warn_recording(function: Any, count: int, why: _Fields) -> None:
    """Warn that a function is recorded in call after call, and say why in the last one."""
    warn(
        f"prepare: {name_of(function)} was recorded anew {count} times in a row, which takes as "
        f"long as unprepared calls; the last reason is: {Reason(*why)}; pass what changes as an "
        "array among the arguments, or leave the function unprepared; explain() shows all reasons",
        RerecordingWarning,
    )
