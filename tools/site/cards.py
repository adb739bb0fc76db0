"""Draws the picture that other sites show of a page: its title and its group, 1200 by 630 pixels.

Matplotlib draws it with the font that it brings, so that nothing is fetched.
"""

import re
import textwrap
from pathlib import Path
from typing import Any

FOLDER = "assets/cards"
#: The first folder of a page, and what its card says below the title.
GROUPS = {
    "tutorial": "Tutorial",
    "how_to": "How-to",
    "reference": "Reference",
    "explanation": "Explanation",
    "contributing": "Contributing",
    "design": "Design notes",
}
START = "Automatic differentiation of NumPy code"
BACK, FRONT, PALE = "#1f4e6b", "#ffffff", "#b9d3e2"

#: The pages that have been written, by the place of their card: title and group.
_pages: dict[str, tuple[str, str]] = {}


def address(page: Any) -> str:
    """Give the place of a page's card in the site, and remember that it is wanted."""
    path = page.file.src_uri.removesuffix(".md")
    place = f"{FOLDER}/{path}.png"
    title = START if page.is_homepage else re.sub(r"<[^>]+>", "", page.title)
    _pages[place] = (title, GROUPS.get(path.partition("/")[0], ""))
    return place


def draw(site: Path, name: str) -> None:
    """Draw the cards of all pages into a built site."""
    from matplotlib.figure import Figure

    for place, (title, group) in _pages.items():
        figure = Figure(figsize=(12, 6.3), dpi=100, facecolor=BACK)
        figure.text(0.08, 0.8, name, color=PALE, size=40, weight="bold")
        lines = "\n".join(textwrap.wrap(title, 28)[:4])
        figure.text(0.08, 0.7, lines, color=FRONT, size=46, va="top", linespacing=1.3)
        figure.text(0.08, 0.1, group, color=PALE, size=30)
        (site / place).parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(site / place, facecolor=BACK)
