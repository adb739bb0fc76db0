"""Prints times of several libraries as bars: how long each takes beside the fastest peer."""

import math
from collections.abc import Mapping

from cotan._src.bench.contest import NOT_INSTALLED, Measured
from cotan._src.bench.libraries import TITLES
from cotan._src.bench.timing import Timing, cell

#: Libraries that count as peers: NumPy by hand is a formula that somebody derived.
PEERS = ("jax", "torch", "compiled", "autograd")
_LOW, _HIGH = 0.05, 100.0
_WIDTH = 44
_TICKS = (0.05, 0.2, 1, 5, 20, 100)
_WIDE = max(map(len, TITLES.values()))
#: Before the bars: the name, the time, the ratio.
_INDENT = 2 + _WIDE + 2 + 14 + 2 + 6 + 2


def reference(times: Mapping[str, Timing]) -> float | None:
    """Give the time of the fastest peer; of NumPy by hand, where there is no peer."""
    found = [times[name].median for name in PEERS if name in times]
    if not found and "numpy" in times:
        found = [times["numpy"].median]
    return min(found, default=None)


def bars(name: str, found: Measured, plain: bool = False) -> list[str]:
    """Give the lines of one workload: time, ratio to the fastest peer, and a bar, logarithmic.

    `plain` draws with the characters of ASCII.
    """
    times = found.timings()
    one = reference(times)
    lines = [name]
    for library, title in TITLES.items():
        if library in times:
            timing = times[library]
            ratio = timing.median / one if one else 1.0
            text = cell(timing).replace("±", "+-").replace("µ", "u") if plain else cell(timing)
            bar = _bar(ratio, plain)
            lines.append(f"  {title:{_WIDE}}  {text:>14}  {ratio:6.2f}  {bar}".rstrip())
        elif found.missing.get(library, NOT_INSTALLED) != NOT_INSTALLED:
            lines.append(f"  {title:{_WIDE}}  {found.missing[library]}")
    return lines


def scale(has_peers: bool, plain: bool = False) -> list[str]:
    """Give the ticks below the bars, and what they mean."""
    marks = [" "] * _WIDTH
    labels = [" "] * (_WIDTH + 4)
    for tick in _TICKS:
        at = min(_WIDTH - 1, round(_place(tick)))
        marks[at] = "|" if plain else "┴"
        text = f"{tick:g}"
        start = max(0, at - len(text) // 2)
        labels[start : start + len(text)] = text
    lines = [
        "".join(marks),
        "".join(labels).rstrip(),
        f"time over that of {'the fastest peer' if has_peers else 'NumPy by hand'}",
    ]
    return [" " * _INDENT + line for line in lines]


def _place(ratio: float) -> float:
    low, high = math.log10(_LOW), math.log10(_HIGH)
    return (math.log10(min(max(ratio, _LOW), _HIGH)) - low) / (high - low) * _WIDTH


def _bar(ratio: float, plain: bool) -> str:
    """Draw a bar as long as the logarithm of the ratio, with a mark where it is 1."""
    full, mark = ("#", "|") if plain else ("█", "│")
    length = max(1, round(_place(ratio)))
    one = round(_place(1.0))
    cells = [full] * length + [" "] * max(0, one + 1 - length)
    if length <= one:
        cells[one] = mark
    return "".join(cells)
