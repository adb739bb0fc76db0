"""The examples of the documentation run, and its links lead somewhere."""

import doctest
import importlib.util
import pkgutil
import re
from pathlib import Path

import pytest

import cotan as ct

TOP = Path(__file__).parents[3]
PAGES = sorted([TOP / "README.md", TOP / "CONTRIBUTING.md", *TOP.glob("docs/**/*.md")])
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


# What pages may import although the tests run without it: its sections are left out then.
OPTIONAL = [name for name in ("jax", "torch") if importlib.util.find_spec(name) is None]


def text_to_run(page):
    """Give the text of a page; in sections for libraries that are not installed, empty lines."""
    sections = re.split(r"(?m)^(?=## )", page.read_text())
    for i, section in enumerate(sections):
        if any(re.search(rf"\b{name}\.", section) for name in OPTIONAL):
            sessions_of_it = re.compile(r"^```pycon\n.*?^```", re.MULTILINE | re.DOTALL)
            sections[i] = sessions_of_it.sub(lambda m: "\n" * m[0].count("\n"), section)
    return "".join(sections) if page.name == "torch_and_jax.md" else page.read_text()


def sessions(page):
    """Give the text of a page with only its sessions left, each line in its place.

    A blank line inside of what is printed is one; doctest would end the output there.
    """
    lines = text_to_run(page).split("\n")
    kept = [""] * len(lines)
    inside = False
    for at, line in enumerate(lines):
        if line.startswith("```"):
            inside = line == "```pycon"
        elif line and inside:
            kept[at] = line
        elif inside:
            following = next(filter(None, lines[at:]))
            kept[at] = "" if following.startswith((">>> ", "```")) else "<BLANKLINE>"
    return "\n".join(kept)


def ids(pages):
    return [str(page.relative_to(TOP)) for page in pages]


with_sessions = [p for p in PAGES if ">>> " in text_to_run(p)]
with_scripts = [p for p in PAGES if blocks(p, "python")]


@pytest.mark.parametrize("page", with_sessions, ids=ids(with_sessions))
def test_sessions(page):
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    name = str(page.relative_to(TOP))
    report = []
    session = doctest.DocTestParser().get_doctest(sessions(page), {}, name, name, 0)
    runner.run(session, out=report.append)
    assert runner.failures == 0, "".join(report)
    assert runner.tries > 0


@pytest.mark.parametrize("page", with_scripts, ids=ids(with_scripts))
def test_scripts(page, capsys):
    for block in blocks(page, "python"):
        capsys.readouterr()
        exec(compile(block, str(page), "exec"), {})
        printed = capsys.readouterr().out
        expected = re.search(
            re.escape(block) + r"```\n+```text\n(.*?)^```",
            page.read_text(),
            re.MULTILINE | re.DOTALL,
        )
        if expected:
            assert printed == expected.group(1)


def test_every_session_is_run():
    for page in with_sessions:
        assert text_to_run(page).count("\n>>> ") == sessions(page).count("\n>>> "), page
        assert "<BLANKLINE>" not in page.read_text(), page


def test_there_are_examples():
    assert len(with_sessions) >= 3
    assert with_scripts


def anchors(page):
    """Give the names by which links reach the headings of a page."""
    headings = re.findall(r"^#+ (.*)", page.read_text(), re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", h).strip().lower().replace(" ", "-") for h in headings]


@pytest.mark.parametrize("page", PAGES, ids=ids(PAGES))
def test_links(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"`[^`\n]*`", "", text)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not target.startswith("http"):
            path, _, anchor = target.partition("#")
            there = page.parent / path if path else page
            assert there.exists(), target
            if anchor:
                assert anchor in anchors(there), target


NAME = re.compile(r"(?<![\w.])(?:ct|cotan)((?:\.[A-Za-z]\w*)+)")


def test_names_in_the_text_are_there():
    """What the pages name in backticks, in sentences and in tables, such as `ct.optim.adam`."""
    missing, found = [], 0
    for page in PAGES:
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        for name in NAME.findall(" ".join(re.findall(r"`([^`\n]+)`", text))):
            found += 1
            try:
                pkgutil.resolve_name(f"cotan{name}")
            except (AttributeError, ImportError):
                missing.append((str(page.relative_to(TOP)), f"cotan{name}"))
    assert missing == []
    assert found > 100


def test_docstrings():
    """Those of the compiled module; `--doctest-modules` runs the others."""
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    finder = doctest.DocTestFinder()
    for name, value in list(vars(ct).items()):  # modules are imported as they are needed
        if not name.startswith("_") and callable(value) and value.__doc__:
            for test in finder.find(value, name, module=False, globs={}):
                report = []
                runner.run(test, out=report.append)
                assert runner.failures == 0, "".join(report)
    assert runner.tries > 10
