"""Reports on a pullback: which residuals it keeps and why, and what it never computes."""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

from cotan import _core
from cotan._src.inspect.nonfinite import recorded_lines
from cotan._src.inspect.report_facts import (
    DECISIONS_REMEDY,
    DECISIONS_TITLE,
    Argument,
    Decision,
    Held,
    Line,
    Place,
    ReportFacts,
    size_text,
)
from cotan._src.typing import Function

#: In texts, lists are cut after so many entries.
_MANY = 40


@dataclasses.dataclass
class Report(ReportFacts):
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

    def __str__(self) -> str:
        return _text(self)

    def html(self) -> str:
        """Give the report as a page: one file, which loads nothing and runs no script.

        >>> import cotan as ct
        >>> ct.explain(lambda x: x * x, 2.0).html().startswith("<!DOCTYPE html>")
        True
        """
        from cotan._src.inspect import report_html

        return report_html.page(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page of `html` to a file, whole or not at all.

        Raises `OSError` where it cannot be written.

        >>> import cotan as ct, os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "report.html")
        >>> ct.explain(lambda x: x * x, 2.0).save(path)
        >>> os.path.exists(path)
        True
        """
        _core.write_file(path, self.html().encode())

    def _repr_html_(self) -> str:
        # A page in a frame: its style stays inside.
        from html import escape

        inner = escape(self.html(), quote=True)
        return (
            f'<iframe title="Report of a pullback" srcdoc="{inner}" sandbox="" '
            'style="width:100%;height:32rem;border:1px solid #8886;border-radius:6px"></iframe>'
        )


def explain(
    f: Function,
    /,
    *args: object,
    wrt: "_core._Wrt" = None,
    argnums: "_core._Argnums" = None,
    **kwargs: Any,
) -> Report:
    """Say what the pullback of a function would hold, and why.

    The function is recorded and run once, with its lines; no cotangent is computed. Arguments are
    as for `pullback`, and so are errors. The report also counts the lines that decided by values
    of arguments: a derivative does not see that another value would have decided otherwise.

    >>> import cotan as ct
    >>> import numpy as np
    >>> report = ct.explain(lambda x: np.sum(np.exp(x)), np.ones(1000))
    >>> [(h.what().split(" (")[0], h.bytes) for h in report.held]
    [('result of exp', 8000)]
    """
    _core.begin_decisions()
    try:
        with recorded_lines():
            _, back = _core.pullback(f, *args, wrt=wrt, argnums=argnums, **kwargs)
            report: Report = back.report()
    finally:
        counts = _core.end_decisions()
    decisions = [Decision(Line(*line), count) for line, count in counts]
    report.decisions = sorted(decisions, key=lambda decision: -decision.count)
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
        parts += ["", f"Not applied: the rules of {counts} for arguments held constant"]
    if report.checkpoints:
        parts += ["", "Checkpoints that would free the most"]
        parts += [f"  {i}. {place}" for i, place in enumerate(report.checkpoints, 1)]
    if report.decisions:
        shown = [f"  {decision}" for decision in report.decisions[:_MANY]]
        parts += ["", DECISIONS_TITLE, *shown, *_rest(report.decisions), f"  {DECISIONS_REMEDY}"]
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


def _rest(items: Sequence[object]) -> list[str]:
    return [f"  ... and {len(items) - _MANY} more"] if len(items) > _MANY else []
