"""Draws the page "Which function do I want?" as a picture: have, want, function.

The tables of the page are its only source, and say the same to those who do not see it.
"""

import html
import re
from collections.abc import Callable
from dataclasses import dataclass

MARK = "<!-- picture -->"
ROW = re.compile(
    r"^\| (?!you want|---)([^|]+) \| `([^`|]+)` \| \[([^\]]+)\]\(([^)]+)\) \|$", re.MULTILINE
)

WIDTH, HAVE, WANT, FUNCTION = 830, 200, 250, 555  # the picture, and where its columns begin or end
LINE, GAP, TOP = 32, 22, 34


@dataclass(frozen=True)
class Choice:
    """A line of a table."""

    want: str
    function: str
    page: str
    link: str


def read(markdown: str) -> dict[str, list[Choice]]:
    """Give the choices of each section; `ValueError` for a section that has none."""
    found = {}
    for section in re.split(r"^## ", markdown, flags=re.MULTILINE)[1:]:
        title, _, body = section.partition("\n")
        found[title] = [Choice(*row) for row in ROW.findall(body)]
        rows = len(re.findall(r"^\|", body, re.MULTILINE)) - 2
        if len(found[title]) != rows or rows < 1:
            raise ValueError(f"{title}: {rows} rows, of which {len(found[title])} can be drawn")
    return found


def expand(markdown: str, address: Callable[[str], str]) -> str:
    """Put the picture where the page wants it."""
    if MARK not in markdown:
        raise ValueError(f"the page has no {MARK}")
    return markdown.replace(MARK, draw(read(markdown), address))


def draw(sections: dict[str, list[Choice]], address: Callable[[str], str]) -> str:
    """Give the picture as SVG, in one line: it stands in a page of Markdown."""
    parts, y = [], TOP
    for x, anchor, heading in (
        (0, "start", "You have"),
        (WANT, "start", "You want"),
        (FUNCTION, "start", "Call"),
    ):
        parts.append(f'<text class="head" x="{x}" y="16" text-anchor="{anchor}">{heading}</text>')
    for title, choices in sections.items():
        height = LINE * len(choices)
        parts.append(_have(title, y, height))
        for at, choice in enumerate(choices):
            parts.append(_choice(choice, y, height, at, address))
        y += height + GAP
    size = f'viewBox="0 0 {WIDTH} {y - GAP + 4}"'
    label = "What you have, what you want, and the function for it; the tables below say the same"
    return (
        f'<div class="decision"><svg xmlns="http://www.w3.org/2000/svg" {size} role="group" '
        f'aria-label="{label}">{"".join(parts)}</svg></div>'
    )


def _have(title: str, y: int, height: int) -> str:
    middle = y + height / 2
    words, lines = title.split(), [""]
    for word in words:
        if len(lines[-1]) + len(word) > 20:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    box = max(46, 22 * len(lines) + 16)
    texts = "".join(
        f'<text x="{HAVE / 2}" y="{middle + 5 + 20 * (i - (len(lines) - 1) / 2):g}" '
        f'text-anchor="middle">{html.escape(line)}</text>'
        for i, line in enumerate(lines)
    )
    rectangle = f'<rect x="1" y="{middle - box / 2:g}" width="{HAVE - 2}" height="{box}" rx="8"/>'
    return f'<g class="have">{rectangle}{texts}</g>'


def _choice(choice: Choice, y: int, height: int, at: int, address: Callable[[str], str]) -> str:
    middle, row = y + height / 2, y + LINE * at + LINE / 2
    bend = (HAVE + WANT) / 2
    path = f"M{HAVE} {middle:g}C{bend:g} {middle:g} {bend:g} {row:g} {WANT - 6} {row:g}"
    label = html.escape(f"{choice.want}: {choice.function}, {choice.page}", quote=True)
    width = WIDTH - FUNCTION - 1
    left, right = WANT - 6, FUNCTION + 10
    return (
        f'<path d="{path}"/>'
        f'<a href="{html.escape(address(choice.link))}" aria-label="{label}">'
        f'<rect class="row" x="{left}" y="{row - 14:g}" width="{WIDTH - left - 1}" height="28" '
        'rx="5"/>'
        f'<text x="{WANT}" y="{row + 5:g}">{html.escape(choice.want)}</text>'
        f'<rect class="call" x="{FUNCTION}" y="{row - 12:g}" width="{width}" height="24" rx="5"/>'
        f'<text class="code" x="{right}" y="{row + 5:g}">{html.escape(choice.function)}</text>'
        "</a>"
    )
