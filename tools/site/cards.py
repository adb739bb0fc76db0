"""Draws the pictures that other sites show of a page: title, group and mark, 1200 by 630 pixels.

One for each group of pages and one for the start, drawn with Matplotlib and the font that it
brings, so that nothing is fetched.
"""

import textwrap
from pathlib import Path
from typing import Any

FOLDER = "assets/cards"
#: The first folder of a page, and what its card says.
GROUPS = {
    "": "Automatic differentiation of NumPy code",
    "tutorial": "Tutorial",
    "how_to": "How-to",
    "reference": "Reference",
    "explanation": "Explanation",
    "contributing": "Contributing",
    "design": "Design notes",
}
BACK, FRONT, PALE = "#1f4e6b", "#ffffff", "#b9d3e2"


def address(page: Any) -> str:
    """Give the place of a page's card in the site."""
    folder = page.file.src_uri.partition("/")[0]
    return f"{FOLDER}/{folder if folder in GROUPS else 'start'}.png"


def draw(site: Path, name: str) -> None:
    """Draw all cards into a built site."""
    from matplotlib.figure import Figure

    (site / FOLDER).mkdir(parents=True, exist_ok=True)
    for group, title in GROUPS.items():
        figure = Figure(figsize=(12, 6.3), dpi=100, facecolor=BACK)
        figure.text(0.08, 0.72, name, color=FRONT, size=72, weight="bold")
        lines = "\n".join(textwrap.wrap(title, 28))
        figure.text(0.08, 0.58, lines, color=FRONT, size=38, va="top", linespacing=1.3)
        figure.text(0.08, 0.1, "gradients of plain NumPy, lazy and exact", color=PALE, size=22)
        figure.savefig(site / FOLDER / f"{group or 'start'}.png", facecolor=BACK)
