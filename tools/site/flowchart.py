"""Draws flowcharts of Mermaid as SVG, since Mermaid itself would be loaded from another host.

What the pages use of the language: `flowchart`, nodes with quoted labels, `subgraph` with a title,
and chains of arrows with labels. Subgraphs are drawn one below the other, in the order of the text,
and inside of one a node below those that lead to it.
"""

import html
import re
from dataclasses import dataclass, field

BLOCK = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NODE = re.compile(r'(\w+)(?:\(\["(.*?)"\]\)|\["(.*?)"\])')
SUBGRAPH = re.compile(r'subgraph (\w+)\["(.*?)"\]')
ARROW = re.compile(r"\s*-->\s*|\s*--\s+(?P<label>.+?)\s+-->\s*")

WIDTH, NODE_WIDTH, LINE, STEP, MARGIN = 700, 284, 18, 40, 34


@dataclass
class Chart:
    """What a flowchart says: labels of nodes, groups of them, arrows."""

    labels: dict[str, list[str]] = field(default_factory=dict)
    groups: list[tuple[str, list[str]]] = field(default_factory=list)
    arrows: list[tuple[str, str, str]] = field(default_factory=list)


def expand(markdown: str) -> str:
    """Put pictures in the place of blocks of Mermaid."""
    return BLOCK.sub(lambda block: draw(parse(block[1])), markdown)


def parse(source: str) -> Chart:
    """Read a flowchart; `ValueError` names a line that is not understood."""
    chart, inside = Chart(), False
    first, *lines = [line.strip() for line in source.splitlines() if line.strip()]
    if first.split()[0] != "flowchart":
        raise ValueError(f"cannot draw {first!r}: not a flowchart")
    for line in lines:
        if found := SUBGRAPH.fullmatch(line):
            chart.groups.append((found[2], []))
            inside = True
        elif line == "end":
            inside = False
        elif found := NODE.fullmatch(line):
            chart.labels[found[1]] = (found[2] or found[3]).split("<br/>")
            if not inside:
                chart.groups.append(("", []))
            chart.groups[-1][1].append(found[1])
        elif "-->" in line:
            _chain(chart, line)
        else:
            raise ValueError(f"cannot draw {line!r}")
    return chart


def _chain(chart: Chart, line: str) -> None:
    names, labels = [], []
    at = 0
    for arrow in ARROW.finditer(line):
        names.append(line[at : arrow.start()])
        labels.append((arrow["label"] or "").strip('"'))
        at = arrow.end()
    names.append(line[at:])
    for name in names:
        if name not in chart.labels:
            raise ValueError(f"cannot draw {line!r}: there is no node {name!r}")
    chart.arrows += zip(names, names[1:], labels, strict=False)


def _ranks(nodes: list[str], chart: Chart) -> dict[str, int]:
    """Give for each node of a group how many of the group come before it."""
    ranks = dict.fromkeys(nodes, 0)
    for _ in nodes:  # as often as the longest chain
        for a, b, _label in chart.arrows:
            if a in ranks and b in ranks and nodes.index(a) < nodes.index(b):
                ranks[b] = max(ranks[b], ranks[a] + 1)
    return ranks


def draw(chart: Chart) -> str:
    """Give the picture, in one line: it stands in a page of Markdown."""
    place: dict[str, tuple[float, float, float]] = {}  # middle, top, bottom
    boxes, titles, y = [], [], 6.0
    for title, nodes in chart.groups:
        ranks, top = _ranks(nodes, chart), y
        y += MARGIN if title else 0
        for rank in sorted({*ranks.values()}):
            row = sorted(
                (n for n in nodes if ranks[n] == rank), key=lambda n: _wish(n, chart, place)
            )
            height = LINE * max(len(chart.labels[n]) for n in row) + 16
            for at, name in enumerate(row):
                middle = (WIDTH - 70) * (at + 0.5) / len(row)
                place[name] = (middle, y, y + height)
            y += height + STEP
        if title:
            boxes.append(
                f'<rect class="group" x="1" y="{top:g}" width="{WIDTH - 70}" '
                f'height="{y - top - 20:g}" rx="8"/>'
            )
            titles.append(
                f'<text class="title" x="12" y="{top + 20:g}">{html.escape(title)}</text>'
            )
            y += 10
    arrows = "".join(_arrow(place, *arrow) for arrow in chart.arrows)
    nodes = "".join(_node(chart.labels[n], *place[n]) for n in place)
    steps = ", ".join(f"{chart.labels[a][0]} to {chart.labels[b][0]}" for a, b, _ in chart.arrows)
    head = (
        '<defs><marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" '
        'markerHeight="7" orient="auto"><path class="tip" d="M0 0L10 5L0 10z"/></marker></defs>'
    )
    return (
        '<div class="flowchart"><svg xmlns="http://www.w3.org/2000/svg" '
        f'viewBox="0 0 {WIDTH} {y - 20:g}" role="img" '
        f'aria-label="{html.escape(steps, quote=True)}">'
        f"{head}{''.join(boxes)}{nodes}{arrows}{''.join(titles)}</svg></div>"
    )


def _wish(name: str, chart: Chart, place: dict[str, tuple[float, float, float]]) -> float:
    """Give where a node would stand: below those that lead to it."""
    above = [place[a][0] for a, b, _ in chart.arrows if b == name and a in place]
    return sum(above) / len(above) if above else WIDTH / 2


def _node(lines: list[str], middle: float, top: float, bottom: float) -> str:
    texts = "".join(
        f'<text class="{"more" if at else "first"}" x="{middle:g}" '
        f'y="{top + 21 + LINE * at:g}" text-anchor="middle">{html.escape(line)}</text>'
        for at, line in enumerate(lines)
    )
    left = middle - NODE_WIDTH / 2
    size = f'width="{NODE_WIDTH}" height="{bottom - top:g}"'
    return f'<rect class="node" x="{left:g}" y="{top:g}" {size} rx="6"/>{texts}'


def _arrow(place: dict[str, tuple[float, float, float]], a: str, b: str, label: str) -> str:
    (ax, at, ab), (bx, bt, bb) = place[a], place[b]
    if bt > at:
        bend = (ab + bt) / 2
        path = f"M{ax:g} {ab:g}C{ax:g} {bend:g} {bx:g} {bend:g} {bx:g} {bt:g}"
        # Beside the arrow, on the side that it comes from.
        anchor, x = ("end", (ax + bx) / 2 - 26) if ax < bx else ("start", (ax + bx) / 2 + 8)
        x += 18 if ax > bx else 0
        text = (
            f'<text class="label" text-anchor="{anchor}" x="{x:g}" y="{bend + 5:g}">'
            f"{html.escape(label)}</text>"
        )
    else:  # back to one above: round the right side
        start, end, side = ax + NODE_WIDTH / 2, bx + NODE_WIDTH / 2, WIDTH - 40
        ay, by = (at + ab) / 2, (bt + bb) / 2
        path = (
            f"M{start:g} {ay:g}H{side - 12}Q{side} {ay:g} {side} {ay - 12:g}"
            f"V{by + 12:g}Q{side} {by:g} {side - 12} {by:g}H{end:g}"
        )
        middle = (ay + by) / 2
        text = (
            f'<text class="label" text-anchor="middle" '
            f'transform="translate({side + 16} {middle:g}) rotate(90)">{html.escape(label)}</text>'
        )
    return f'<path class="arrow" marker-end="url(#arrow)" d="{path}"/>' + (text if label else "")
