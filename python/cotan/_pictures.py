"""Pictures of programs and pullbacks: SVG, and HTML for notebooks."""

import html
import unicodedata
import zlib
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any

from cotan import _core
from cotan._picture_graph import COLOURS, LIMIT, Box, Graph, Half, halves_of, never_computed
from cotan._picture_layout import Layout, layered
from cotan._picture_text import to_dot, to_mermaid

_LETTER = 7.25
_LINE = 17.0
_PAD = 9.0
_SIDES = 64.0
_LEGEND = {
    "input": "argument",
    "bound": "constant",
    "cotangent": "cotangent of a result",
    "residual": "value that is kept",
    "equation": "equation",
    "group": "one pass over memory",
    "block": "many equations",
    "output": "result",
    "gradient": "cotangent of an argument",
    "never": "never computed",
}


def svg(what: Any, *, never: Iterable[str] = (), limit: int = LIMIT, title: str = "") -> str:
    """Draw a program or a pullback as an SVG text that needs nothing from outside.

    Parameters
    ----------
    what
        A `Program`; or a `Pullback`, whose forward and backward halves stand side by side.
    never
        Paths of arguments whose cotangents were never computed (or names of outputs of a program).
    limit
        More boxes than this are drawn as blocks of many equations, with a note.
    title
        Stands above the picture.

    >>> import cotan as ct
    >>> from cotan._pictures import svg
    >>> svg(ct.trace(lambda x: ct.sin(x) * 2, 1.0))[:4]
    '<svg'
    """
    halves, across = halves_of(what, never, limit, condensed=True)
    layouts = [
        layered([_size(box) for box in half.graph.boxes], list(half.graph.arrows), half.upward)
        for half in halves
    ]
    return _Drawing(halves, layouts, across, title).text


def _size(box: Box) -> tuple[float, float]:
    longest = max(_columns(left) + _columns(right) + 3 * bool(right) for left, right, _ in box.rows)
    longest = max(longest, _columns(box.head))
    lines = len(box.rows) + bool(box.head)
    return longest * _LETTER + 2 * _PAD, lines * _LINE + _PAD


def _columns(text: str) -> int:
    """Count the columns that a text takes: wide letters of East Asia take two, marks none."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def escaped(text: str) -> str:
    """Write a text for XML, which has no control characters."""
    return html.escape("".join(c if _is_xml(c) else "\ufffd" for c in text), quote=True)


def _is_xml(c: str) -> bool:
    code = ord(c)
    return code in {9, 10, 13} or 0x20 <= code <= 0xD7FF or 0xE000 <= code <= 0xFFFD or code > 65535


class _Drawing:
    """An SVG in the making."""

    def __init__(
        self,
        halves: list[Half],
        layouts: list[Layout],
        across: list[tuple[int, int]],
        title: str,
    ) -> None:
        self.parts: list[str] = []
        seen = {box.kind for half in halves for box in half.graph.boxes}
        if any(never for half in halves for b in half.graph.boxes for *_, never in b.rows):
            seen.add("never")
        kinds = [kind for kind in _LEGEND if kind in seen]
        notes = list(dict.fromkeys(note for half in halves for note in half.graph.notes))
        margin = 20.0
        top = margin + (26.0 if title else 0.0)
        headings = len(halves) > 1
        body_top = top + self._legend_height(kinds) + 14.0 + (24.0 if headings else 0.0)
        height = max(layout.height for layout in layouts)
        lefts = []
        x = margin
        for layout, half in zip(layouts, halves, strict=True):
            lefts.append(x)
            x += max(layout.width, 12 + len(half.title) * _LETTER) + _SIDES
        longest = max((len(note) for note in notes), default=0) * _LETTER + 2 * margin
        width = max(x - _SIDES + margin, 340.0, longest, len(title) * 9.0 + 2 * margin)
        width = max(width, min(self._legend_width(kinds) + 2 * margin, 720.0))
        self.limit = width - margin
        legend = self._legend(kinds, margin, top)
        body_top = legend + 14.0 + (24.0 if headings else 0.0)
        total = body_top + height + margin + 20.0 * len(notes)

        if title:
            self._words(margin, margin + 12, title, "cotan-title")
        for (layout, half), left in zip(zip(layouts, halves, strict=True), lefts, strict=True):
            down = body_top + (height - layout.height)
            if headings:
                self._words(left, body_top - 12, half.title, "cotan-title")
            self._arrows(layout, half.graph, left, down)
        if across:
            self._across(layouts, halves, across, lefts, body_top, height)
        for (layout, half), left in zip(zip(layouts, halves, strict=True), lefts, strict=True):
            down = body_top + (height - layout.height)
            for box, (bx, by) in zip(half.graph.boxes, layout.corners, strict=True):
                self._box(box, left + bx, down + by)
        for i, note in enumerate(notes):
            self._words(margin, body_top + height + 28.0 + 20.0 * i, note, "cotan-note")
        body = "".join(self.parts)
        # Several pictures may stand on one page; equal ones may share their arrow heads.
        mark = f"cotan-{zlib.crc32(body.encode('utf-8', 'replace')):08x}"
        self.text = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{total:.0f}" '
            f'viewBox="0 0 {width:.0f} {total:.0f}" role="img" class="cotan-picture">'
            f"<style>{_style()}</style><defs>{_heads(mark)}</defs>"
            f'<rect class="cotan-ground" width="100%" height="100%"/>'
            f"{body.replace(_MARK, mark)}</svg>"
        )

    def _words(self, x: float, y: float, text: str, kind: str, anchor: str = "start") -> None:
        self.parts.append(
            f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" '
            f'xml:space="preserve">{escaped(text)}</text>'
        )

    @staticmethod
    def _entry(kind: str) -> float:
        return len(_LEGEND[kind]) * _LETTER + 40.0

    def _legend_width(self, kinds: list[str]) -> float:
        return sum(map(self._entry, kinds))

    @staticmethod
    def _legend_height(kinds: list[str]) -> float:
        return 20.0 if kinds else 0.0

    def _legend(self, kinds: list[str], left: float, top: float) -> float:
        x = left
        for kind in kinds:
            if x > left and x + self._entry(kind) > self.limit:
                x = left
                top += 22.0
            self.parts.append(
                f'<rect class="cotan-box cotan-{kind}" x="{x:.1f}" y="{top:.1f}" width="18" '
                'height="13" rx="3"/>'
            )
            self._words(x + 24, top + 11, _LEGEND[kind], "cotan-note")
            x += self._entry(kind)
        return top + 20.0

    def _arrows(self, layout: Layout, drawn: Graph, left: float, down: float) -> None:
        for (start, end), way in layout.ways.items():
            points = [(left + x, down + y) for x, y in way]
            never = drawn.arrows[start, end]
            self._arrow(points, "never-arrow" if never else "arrow")

    def _arrow(self, points: list[tuple[float, float]], kind: str) -> None:
        (x, y), rest = points[0], points[1:]
        path = [f"M{x:.1f} {y:.1f}"]
        for nx, ny in rest:
            # Upright at both ends.
            bend = (ny - y) / 2
            path.append(f"C{x:.1f} {y + bend:.1f} {nx:.1f} {ny - bend:.1f} {nx:.1f} {ny:.1f}")
            x, y = nx, ny
        self.parts.append(
            f'<path class="cotan-{kind}" d="{"".join(path)}" marker-end="url(#{_MARK}-{kind})"/>'
        )

    def _across(
        self,
        layouts: list[Layout],
        halves: list[Half],
        across: list[tuple[int, int]],
        lefts: list[float],
        top: float,
        height: float,
    ) -> None:
        """Draw what is kept, from the side of one box to that of another."""
        for start, end in across:
            ends = []
            for half, number, right in ((0, start, True), (1, end, False)):
                x, y = layouts[half].corners[number]
                w, h = _size(halves[half].graph.boxes[number])
                down = top + height - layouts[half].height
                ends.append((lefts[half] + x + (w if right else 0.0), down + y + h / 2))
            (ax, ay), (bx, by) = ends
            bend = max(40.0, (bx - ax) / 2)
            self.parts.append(
                f'<path class="cotan-kept" d="M{ax:.1f} {ay:.1f}C{ax + bend:.1f} {ay:.1f} '
                f'{bx - bend:.1f} {by:.1f} {bx:.1f} {by:.1f}" marker-end="url(#{_MARK}-kept)"/>'
            )

    def _box(self, box: Box, x: float, y: float) -> None:
        width, height = _size(box)
        self.parts.append(
            f'<g class="cotan-{box.kind}"><title>{escaped(box.tip or box.head)}</title>'
            f'<rect class="cotan-box cotan-{box.kind}" x="{x:.1f}" y="{y:.1f}" '
            f'width="{width:.1f}" height="{height:.1f}" rx="5"/>'
        )
        line = y + _PAD / 2 + 12.5
        if box.head:
            self._words(x + width / 2, line, box.head, "cotan-head", "middle")
            line += _LINE
        for left, right, never in box.rows:
            lost = " cotan-lost" if never else ""
            self._words(x + _PAD, line, left, f"cotan-row{lost}")
            if right:
                self._words(x + width - _PAD, line, right, f"cotan-type{lost}", "end")
            line += _LINE
        self.parts.append("</g>")


_MARK = "\x00mark\x00"
_HEADS = {"arrow": "cotan-tip", "never-arrow": "cotan-never-tip", "kept": "cotan-kept-tip"}


def _heads(mark: str) -> str:
    return "".join(
        f'<marker id="{mark}-{kind}" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="7" '
        f'markerHeight="7" orient="auto"><path class="{tip}" d="M0 .5L8 4L0 7.5z"/></marker>'
        for kind, tip in _HEADS.items()
    )


def _style() -> str:
    font = "font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"
    rules = [
        f".cotan-picture text{{{font};font-size:12px}}",
        ".cotan-picture .cotan-title{font-size:13px;font-weight:600}",
        ".cotan-picture .cotan-note,.cotan-picture .cotan-head{font-size:11.5px}",
        ".cotan-picture .cotan-head{font-style:italic}",
        ".cotan-picture .cotan-box{stroke-width:1.2}",
        ".cotan-picture rect.cotan-group{stroke-width:1.6}",
        ".cotan-picture rect.cotan-never{stroke-dasharray:4 3}",
        ".cotan-picture path{fill:none;stroke-width:1.2}",
        ".cotan-picture .cotan-kept{stroke-dasharray:5 3}",
        ".cotan-picture .cotan-never-arrow{stroke-dasharray:3 3}",
        ".cotan-picture .cotan-type{opacity:.72}",
        ".cotan-picture .cotan-lost{text-decoration:line-through}",
    ]
    for dark in (False, True):
        colours = [
            f".cotan-picture .cotan-ground{{fill:{'#0f172a' if dark else '#ffffff'}}}",
            f".cotan-picture text{{fill:{'#e2e8f0' if dark else '#0f172a'}}}",
        ]
        for kind, tip, colour in (
            ("arrow", "tip", "#94a3b8" if dark else "#64748b"),
            ("never-arrow", "never-tip", "#b91c1c" if dark else "#f87171"),
            ("kept", "kept-tip", "#fb923c" if dark else "#ea580c"),
        ):
            colours.append(f".cotan-picture path.cotan-{kind}{{stroke:{colour}}}")
            colours.append(f".cotan-picture path.cotan-{tip}{{fill:{colour};stroke:none}}")
        for kind, both in COLOURS.items():
            fill, border, text = both[dark]
            colours.append(f".cotan-picture rect.cotan-{kind}{{fill:{fill};stroke:{border}}}")
            colours.append(f".cotan-picture .cotan-{kind} text{{fill:{text}}}")
        joined = "".join(colours)
        rules.append(f"@media (prefers-color-scheme:dark){{{joined}}}" if dark else joined)
    return "".join(rules)


def to_svg(what: Any, path: str | PathLike[str] | None = None) -> str:
    """Draw it as an SVG that needs nothing from outside, for light and dark grounds.

    Each fused group is a box that lists its equations; of a pullback the forward half stands on the
    left, the backward half on the right, and dashed arrows lead to the values that are kept. A
    program of thousands of equations is drawn in blocks.

    Parameters
    ----------
    path
        Where to write it too, in UTF-8.

    Returns the text of the SVG.

    >>> import cotan as ct
    >>> picture = ct.trace(lambda x: ct.sin(x) * 2, 1.0).to_svg()
    >>> picture.startswith("<svg"), "sin(x)" in picture
    (True, True)
    """
    text = svg(what, never=never_computed(what))
    if path is not None:
        Path(path).write_text(text, encoding="utf-8")
    return text


def to_html(what: Any) -> str:
    """Draw it for a notebook: the SVG, which scrolls where it is too large, and its text."""
    text = str(what if isinstance(what, _core.Program) else what.program)
    lines = text.splitlines()
    if len(lines) > 400:
        lines = [*lines[:400], f"... {len(lines) - 400} more lines"]
    return (
        f'<div style="overflow:auto;max-height:48em">{svg(what, never=never_computed(what))}</div>'
        f"<details><summary>{escaped(repr(what))}</summary>"
        f"<pre>{escaped(chr(10).join(lines))}</pre></details>"
    )


def attach(cls: Any) -> None:
    """Give the class its methods."""
    for method in (to_svg, to_html, to_dot, to_mermaid):
        setattr(cls, method.__name__, method)
    cls._repr_svg_ = to_svg
    cls._repr_html_ = to_html
