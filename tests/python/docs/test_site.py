"""What the site and the notebooks are made of is complete and current; `make site` builds it."""

import re
import sys
from pathlib import Path

import notebooks
import pytest

import cotan as ct

TOP = Path(__file__).parents[3]
sys.path.append(str(TOP / "tools" / "site"))

import api  # noqa: E402
import decision  # noqa: E402
import docstrings  # noqa: E402
import flowchart  # noqa: E402
import nav  # noqa: E402
import text  # noqa: E402


def test_notebooks_are_current():
    assert notebooks.stale() == [], "run `python tools/notebooks.py`"


def test_a_notebook_has_all_code_of_its_page():
    for name, pages in notebooks.NOTEBOOKS.items():
        code = "\n".join(c.source for c in notebooks.cells(name) if c.kind == "code")
        for page in pages:
            page_text = (notebooks.PAGES / f"{page}.md").read_text(encoding="utf-8")
            lines = re.findall(r"^>>> (.+)$", page_text, re.MULTILINE)
            assert len(lines) > 5
            assert [line for line in lines if line not in code] == []


def test_links_of_notebooks_lead_somewhere():
    for name in notebooks.NOTEBOOKS:
        for cell in notebooks.cells(name):
            if cell.kind == "markdown":
                for target in re.findall(r"\]\(([^)\s]+)\)", cell.source):
                    path = target.partition("#")[0]
                    assert not path or "://" in path or (notebooks.OUT / path).exists(), target


def test_every_public_name_has_a_place():
    assert {name for page in api.pages() if page.module is ct for name in page.names} == {
        *ct.__all__
    }


@pytest.mark.parametrize("page", api.pages(), ids=lambda page: page.file)
def test_a_page_of_names(page):
    written = api.write(page)
    for name in page.names:
        assert f"## `{page.short(name)}` {{" in written
    assert " at 0x" not in written
    assert written.count("\n```") % 2 == 0


def test_signatures():
    assert api.signature("ct.vmap", lambda x, /, *, axis=0, **options: x) == (
        "ct.vmap(x, /, *, axis=0, **options)"
    )
    long = api.signature("f", ct.gradient)
    assert long.startswith("f(") and max(map(len, long.splitlines())) <= api.WIDTH
    for page in api.pages():
        for name in page.names:
            shown = api.signature(name, getattr(page.module, name)) or ""
            flat = re.sub(r"\s+", "", shown).replace(",)", ")")
            assert flat.count("(") == flat.count(")")


DOC = """Compute it.

Parameters
----------
x, y
    Two arrays,
    of one shape.

    The second text.

Returns a number.

Raises
------
ValueError
    When it cannot.

>>> 1 + 1
2

>>> 2 + 2
4

The end, see [`other`].
"""


def test_docstrings():
    assert re.split(r"\n\n+", docstrings.markdown(DOC)) == [
        "Compute it.",
        "**Parameters**",
        "`x`, `y`\n:   Two arrays,\n    of one shape.",
        "    The second text.",
        "Returns a number.",
        "**Raises**",
        "`ValueError`\n:   When it cannot.",
        "```pycon\n>>> 1 + 1\n2",
        ">>> 2 + 2\n4\n```",
        "The end, see `other`.\n",
    ]
    assert docstrings.summary("Give [`x`], e.g.\nthis. And that.") == "Give `x`, e.g. this."


def test_every_page_is_in_the_navigation():
    def paths(entries):
        for entry in entries:
            for value in entry.values():
                yield from [value] if isinstance(value, str) else paths(value)

    found = list(paths(nav.read(TOP / "docs")))
    assert len(found) == len({*found})
    assert {str(p.relative_to(TOP / "docs")) for p in TOP.glob("docs/**/*.md")} <= {*found}


def test_the_decision_picture_has_every_row():
    page = (TOP / "docs/how_to/which_function.md").read_text(encoding="utf-8")
    rows = [choice for section in decision.read(page).values() for choice in section]
    assert len(rows) == page.count("\n| ") - 2 * page.count("\n| you want")
    picture = decision.draw(decision.read(page), lambda link: link)
    assert picture.count("<a ") == len(rows) > 25
    with pytest.raises(ValueError, match="1 rows, of which 0"):
        decision.read(
            "## A\n\n| you want | function | page |\n| --- | --- | --- |\n| a | b | c |\n"
        )


def test_the_diagram_of_the_architecture():
    page = (TOP / "docs/architecture.md").read_text(encoding="utf-8")
    picture = flowchart.expand(page)
    assert "```mermaid" not in picture
    for name in (
        "f(x), plain NumPy code",
        "sched",
        "SIMD loops, threads",
        "one node per operation",
    ):
        assert name in picture
    with pytest.raises(ValueError, match="cannot draw"):
        flowchart.expand("```mermaid\nsequenceDiagram\n  a ->> b\n```\n")


def test_lists_are_indented_by_four():
    assert text.normalise("1. a\n   b\n\n   - c\n     d\n\n   e\n") == (
        "1. a\n    b\n\n    - c\n        d\n\n    e\n"
    )
    assert text.normalise("```\n  - a\n```\n") == "```\n  - a\n```\n"
    assert text.normalise("| `a \\| b` | c |\n") == "| `a | b` | c |\n"


def test_names_become_links():
    html = "<p><code>ct.hvp(f, x)</code> <code>hvp</code> <a><code>ct.hvp</code></a></p>"
    address = {"cotan.hvp": "there"}.get
    link = '<a class="name" href="there"><code>{}</code></a>'
    once = html.replace("<code>ct.hvp(f, x)</code>", link.format("ct.hvp(f, x)"))
    assert text.link_names(html, address, None) == once
    twice = once.replace("<code>hvp</code>", link.format("hvp"))
    assert text.link_names(html, address, "cotan.nn") == twice
