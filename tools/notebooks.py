"""Writes the notebooks of `examples/notebooks` from the pages of `docs/how_to`.

    python tools/notebooks.py          write them
    python tools/notebooks.py --check  exit with 1 and name the stale ones

A page is the only source of its notebook. Sentences become cells of text and sessions cells of
code, one for each result, without the results: running the notebook gives them. Code that only a
notebook has, such as a picture, stands in the page as a comment that begins with `<!-- notebook`.
"""

import argparse
import doctest
import json
import os.path
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parent.parent
PAGES = TOP / "docs" / "how_to"
OUT = TOP / "examples" / "notebooks"

#: What each notebook is made of.
NOTEBOOKS = {
    "fit_a_curve": ["fit_a_curve"],
    "train_with_minibatches": ["train"],
    "calibrate_an_ode": ["calibrate_an_ode"],
    "sample_with_hmc": ["sample_with_hmc"],
    "laplace_approximation": ["laplace_approximation"],
    "robot_jacobian": ["robot_jacobian"],
    "pandas_pipeline": ["pandas_pipeline"],
    "portfolio": ["portfolio"],
    "profile_and_checkpoint": ["profiling", "checkpoints"],
    "sparse_jacobian": ["sparse"],
}

BLOCK = re.compile(
    r"^```pycon\n(?P<session>.*?)^```$|^<!-- notebook\n(?P<code>.*?)^-->$", re.MULTILINE | re.DOTALL
)
LINK = re.compile(r"(\]\()([^)\s#:]+\.\w+)(#[^)\s]*)?(\))")


@dataclass(frozen=True)
class Cell:
    """A cell: text in Markdown, or code with what its last statement is to print."""

    kind: str
    source: str
    want: str = ""
    raises: bool = False


def cells(name: str) -> list[Cell]:
    """Give the cells of a notebook."""
    found = []
    for page in NOTEBOOKS[name]:
        found += list(_cells((PAGES / f"{page}.md").read_text(encoding="utf-8")))
    pages = " and ".join(f"[{p}.md](../../docs/how_to/{p}.md)" for p in NOTEBOOKS[name])
    made = Cell("markdown", f"*Made from {pages} by `tools/notebooks.py`: change it there.*")
    return [found[0], made, *found[1:]]


def _cells(page: str) -> Iterator[Cell]:
    at = 0
    for block in BLOCK.finditer(page):
        yield from _text(page[at : block.start()])
        if block["code"]:
            yield Cell("code", block["code"].strip())
        else:
            yield from _session(block["session"])
        at = block.end()
    yield from _text(page[at:])


def _text(text: str) -> Iterator[Cell]:
    """Give text, a cell for each section, with links that lead from the notebook's folder."""
    text = re.sub(r"<!--.*?-->\n?", "", text, flags=re.DOTALL)
    for part in re.split(r"^(?=#+ )", text, flags=re.MULTILINE):
        if part.strip():
            yield Cell("markdown", LINK.sub(_link, part.strip()))


def _link(found: re.Match[str]) -> str:
    path = os.path.relpath(PAGES / found[2], OUT)
    return f"{found[1]}{path}{found[3] or ''}{found[4]}"


def _session(session: str) -> Iterator[Cell]:
    """Give code, a cell for each result, or for all up to the end."""
    waiting: list[str] = []
    for example in doctest.DocTestParser().get_examples(session):
        waiting.append(example.source.rstrip("\n"))
        if example.want:
            raises = example.exc_msg is not None
            yield Cell("code", "\n".join(waiting), example.want, raises)
            waiting = []
    if waiting:
        yield Cell("code", "\n".join(waiting))


def notebook(name: str) -> str:
    """Give the text of a notebook's file."""
    rows = []
    for at, cell in enumerate(cells(name)):
        tags = {"tags": ["raises-exception"]} if cell.raises else {}
        row: dict[str, Any] = {"cell_type": cell.kind, "id": f"cell-{at}", "metadata": tags}
        if cell.kind == "code":
            row |= {"execution_count": None, "outputs": []}
        rows.append(row | {"source": cell.source.splitlines(keepends=True)})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    whole = {"cells": rows, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def stale() -> list[str]:
    """Give the notebooks that are not what their pages make, or that nothing makes."""
    wanted = {OUT / f"{name}.ipynb": notebook(name) for name in NOTEBOOKS}
    old = [p for p, text in wanted.items() if not p.exists() or p.read_text("utf-8") != text]
    return [p.name for p in sorted([*old, *({*OUT.glob("*.ipynb")} - {*wanted})])]


def main() -> int:
    """Write or check, as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    if parser.parse_args().check:
        for name in (names := stale()):
            print(f"examples/notebooks/{name} is stale; run `python tools/notebooks.py`")
        return bool(names)
    OUT.mkdir(exist_ok=True)
    for name in NOTEBOOKS:
        (OUT / f"{name}.ipynb").write_text(notebook(name), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
