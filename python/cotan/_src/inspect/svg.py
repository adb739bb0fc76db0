"""Draws diagrams of programs and pullbacks as SVG, and as HTML for notebooks."""

import html
import unicodedata
import zlib
from collections.abc import Iterable
from dataclasses import dataclass

from cotan import _core
from cotan._src.inspect.diagram import COLOURS, LIMIT, Box, Half, halves_of
from cotan._src.inspect.diagram_layout import Layout, layered

_LETTER = 7.25
_LINE = 17.0
_PAD = 9.0
_SIDES = 64.0
_DIP = 60.0
_MARGIN = 20.0
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


def svg(
    what: _core.Program | _core.Pullback,
    *,
    never: Iterable[str] = (),
    limit: int = LIMIT,
    title: str = "",
) -> str:
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
    >>> from cotan._src.inspect.svg import svg
    >>> svg(ct.trace(lambda x: ct.sin(x) * 2, 1.0))[:4]
    '<svg'
    """
    halves, across = halves_of(what, never, limit, condensed=True)
    panels = []
    for half in halves:
        sizes = [_size(box) for box in half.graph.boxes]
        panels.append(_Panel(half, layered(sizes, list(half.graph.arrows), half.upward)))
    return _Drawing(panels, across, title).text


def _size(box: Box) -> tuple[float, float]:
    longest = max(_columns(left) + _columns(right) + 3 * bool(right) for left, right, _ in box.rows)
    longest = max(longest, _columns(box.head))
    lines = len(box.rows) + bool(box.head)
    return longest * _LETTER + 2 * _PAD, lines * _LINE + _PAD


def _width(text: str) -> float:
    return _columns(text) * _LETTER * 1.1


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


@dataclass
class _Panel:
    """A half, laid out, and where its upper left corner goes."""

    half: Half
    layout: Layout
    left: float = 0.0
    top: float = 0.0

    def corner(self, n: int) -> tuple[float, float]:
        x, y = self.layout.corners[n]
        return self.left + x, self.top + y


class _Drawing:
    """An SVG in the making."""

    def __init__(self, panels: list[_Panel], across: list[tuple[int, int]], title: str) -> None:
        self.parts: list[str] = []
        self.panels = panels
        boxes = [box for panel in panels for box in panel.half.graph.boxes]
        seen = {box.kind for box in boxes}
        if any(never for box in boxes for *_, never in box.rows):
            seen.add("never")
        kinds = [kind for kind in _LEGEND if kind in seen]
        notes = list(dict.fromkeys(note for panel in panels for note in panel.half.graph.notes))

        x = _MARGIN
        for panel in panels:
            panel.left = x
            x += max(panel.layout.width, _width(panel.half.title)) + _SIDES
        entries = sum(map(self._entry, kinds))
        needed = [x - _SIDES - _MARGIN, min(entries, 720.0), _width(title), *map(_width, notes)]
        self.width = max(needed) + 2 * _MARGIN

        y = _MARGIN
        if title:
            self._words(_MARGIN, y + 12, title, "cotan-title")
            y += 26.0
        y = self._legend(kinds, y) + 14.0
        if len(panels) > 1:
            y += 24.0
            for panel in panels:
                self._words(panel.left, y - 12, panel.half.title, "cotan-title")
        bottom = y + max(panel.layout.height for panel in panels)
        for panel in panels:
            panel.top = bottom - panel.layout.height
            self._arrows(panel)
        self._across(across)
        bottom += 0.7 * _DIP if across else 0.0
        for panel in panels:
            for n, box in enumerate(panel.half.graph.boxes):
                self._box(box, *panel.corner(n))
        for note in notes:
            bottom += 20.0
            self._words(_MARGIN, bottom + 8.0, note, "cotan-note")
        self.text = self._whole(
            bottom + _MARGIN, title or " and ".join(p.half.title for p in panels)
        )

    def _whole(self, height: float, label: str) -> str:
        body = "".join(self.parts)
        # Several pictures may stand on one page; equal ones may share their arrow heads.
        mark = f"cotan-{zlib.crc32(body.encode('utf-8', 'replace')):08x}"
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width:.0f}" '
            f'height="{height:.0f}" viewBox="0 0 {self.width:.0f} {height:.0f}" role="img" '
            f'class="cotan-picture" aria-label="{escaped(label)}">'
            f"<style>{_style()}</style><defs>{_heads(mark)}</defs>"
            '<rect class="cotan-ground" width="100%" height="100%"/>'
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

    def _legend(self, kinds: list[str], top: float) -> float:
        x = _MARGIN
        for kind in kinds:
            if x > _MARGIN and x + self._entry(kind) > self.width - _MARGIN:
                x = _MARGIN
                top += 22.0
            self.parts.append(
                f'<rect class="cotan-box cotan-{kind}" x="{x:.1f}" y="{top:.1f}" width="18" '
                'height="13" rx="3"/>'
            )
            self._words(x + 24, top + 11, _LEGEND[kind], "cotan-note")
            x += self._entry(kind)
        return top + 20.0

    def _arrows(self, panel: _Panel) -> None:
        for (start, end), way in panel.layout.ways.items():
            points = [(panel.left + x, panel.top + y) for x, y in way]
            never = panel.half.graph.arrows[start, end]
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

    def _across(self, across: list[tuple[int, int]]) -> None:
        """Draw what is kept, from the side of one box into another from below."""
        for start, end in across:
            ahead, back = self.panels
            ax, ay = ahead.corner(start)
            w, h = _size(ahead.half.graph.boxes[start])
            ax, ay = ax + w, ay + h / 2
            bx, by = back.corner(end)
            w, h = _size(back.half.graph.boxes[end])
            bx, by = bx + w / 2, by + h
            bend = max(40.0, (bx - ax) / 2)
            # Straight ahead, but below the boxes that stand beside one further down.
            first = ay if by < ay else by + _DIP
            self.parts.append(
                f'<path class="cotan-kept" d="M{ax:.1f} {ay:.1f}C{ax + bend:.1f} {first:.1f} '
                f'{bx:.1f} {by + _DIP:.1f} {bx:.1f} {by:.1f}" marker-end="url(#{_MARK}-kept)"/>'
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
