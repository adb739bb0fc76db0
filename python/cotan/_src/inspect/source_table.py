"""Shows the lines of functions with the time that each took, from a profile."""

import linecache
from collections.abc import Callable, Iterable

from cotan._src.inspect.profile import Work
from cotan._src.inspect.report_facts import time_text

#: So many functions are shown, those that took longest.
_FUNCTIONS = 5
#: Lines without time that are shown between two with time; of longer gaps, none.
_GAP = 3


def source_table(
    rows: Iterable[Work], name_of: Callable[[str], str | None] = lambda _: None
) -> str:
    """Give each function's lines with time: forward, backward, and the share of the whole.

    *Backward* is what cotan's rules for the operations of the line computed. `name_of` gives a
    file another name than its own, or None.
    """
    functions: dict[tuple[str, str], dict[int, list[float]]] = {}
    whole = 0.0
    for row in rows:
        whole += row.seconds
        if row.file is None or row.line is None:
            continue
        lines = functions.setdefault((row.file, row.function or ""), {})
        times = lines.setdefault(row.line, [0.0, 0.0])
        times[1 if row.rule else 0] += row.seconds
    order = sorted(functions.items(), key=lambda item: -sum(map(sum, item[1].values())))
    parts = [
        _function(f"{function} in {name_of(file) or _shown(file)}", file, lines, whole)
        for (file, function), lines in order[:_FUNCTIONS]
    ]
    if len(order) > _FUNCTIONS:
        parts.append(f"({len(order) - _FUNCTIONS} more functions)")
    return "\n\n".join(parts)


def _function(title: str, file: str, lines: dict[int, list[float]], whole: float) -> str:
    text = [title, " forward  backward  share  line"]
    numbers = sorted(lines)
    width = len(str(numbers[-1]))
    for before, number in zip([None, *numbers], numbers, strict=False):
        if before is not None and number - before > _GAP + 1:
            text.append(f"{'':8}  {'':8}  {'':5}  {'':{width}} ⋮")
        elif before is not None:
            text += [_line(file, k, None, whole, width) for k in range(before + 1, number)]
        text.append(_line(file, number, lines[number], whole, width))
    return "\n".join(text)


def _line(file: str, number: int, times: list[float] | None, whole: float, width: int) -> str:
    cells = ["", "", ""]
    if times is not None:
        cells = [time_text(seconds) if seconds else "" for seconds in times]
        cells.append(f"{sum(times) / whole:.0%}" if whole else "")
    source = linecache.getline(file, number).rstrip()
    return f"{cells[0]:>8}  {cells[1]:>8}  {cells[2]:>5}  {number:{width}} {source}".rstrip()


def _shown(file: str) -> str:
    return file.replace("\\", "/").rpartition("/")[2]
