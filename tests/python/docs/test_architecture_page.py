"""The pages for contributors name files, folders and constants that are there."""

import re
from pathlib import Path

import pytest

TOP = next(p for p in Path(__file__).parents if (p / "pyproject.toml").exists())
DOCS = TOP / "docs"
MAP = DOCS / "architecture.md"
LIMITS = DOCS / "contributing" / "limits.md"
OVERRIDES = DOCS / "contributing" / "adding_an_override.md"
PAGES = sorted([MAP, TOP / "CONTRIBUTING.md", *DOCS.glob("contributing/*.md"),
                *DOCS.glob("design/*.md")])  # fmt: skip
SOURCES = [TOP / "rust/core/src", TOP / "rust/py/src", TOP / "python/cotan/_src"]
# Where a path on a page may begin.
ROOTS = [TOP, *SOURCES, TOP / "python/cotan", TOP / "rust/wgpu/src"]
SUFFIXES = "bin|html|json|md|pyi?|rs|svg|template|toml|txt"
# What commands write.
OUTPUTS = {"dist/"}
MADE = ("build/", "target/")


def paths(page):
    """Give what a page names in backticks that is a path: with a folder, or with a suffix."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for name in re.findall(r"`([^`\n]+)`", text):
        is_file = re.fullmatch(rf"[\w./*-]+\.(?:{SUFFIXES})", name)
        is_folder = re.fullmatch(r"(?:[\w.*-]+/)+(?:[\w*-]+)?", name)
        if (is_file or is_folder) and name not in OUTPUTS and not name.startswith(MADE):
            yield name


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(TOP)))
def test_paths_exist(page):
    missing = {name for name in paths(page) if not any(list(root.glob(name)) for root in ROOTS)}
    assert not missing, sorted(missing)


@pytest.mark.parametrize("source", SOURCES, ids=lambda p: str(p.relative_to(TOP)))
def test_every_folder_is_on_the_map(source):
    text = MAP.read_text()
    start = text.index("## Code map")
    code_map = text[start : text.index("\n## ", start + 1)]
    folders = {p.name for p in source.iterdir() if p.is_dir() and p.name != "__pycache__"}
    assert folders
    # A part of the map begins with its folder, or with the one above.
    title = source.parent if source.name == "_src" else source
    section = code_map.partition(f"### `{title.relative_to(TOP)}`\n")[2].partition("\n### ")[0]
    missing = {name for name in folders if f"**`{name}/`**" not in section}
    assert not missing, sorted(missing)


UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "ns": 1, "µs": 1, "ms": 1, "s": 1}
RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")


def number(cell):
    """Give what a cell of the table says, such as `2¹⁸ B`, in bytes or units of time."""
    text, _, unit = cell.rpartition(" ") if cell.split()[-1] in UNITS else (cell, "", "")
    text = text.replace(",", "").replace("−", "-")
    text = re.sub("[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+", lambda m: "**" + m.group().translate(RAISED), text)
    return eval(text, {}) * UNITS.get(unit, 1)


def constant(file, name):
    """Give the value of a constant in a source file, in Rust or in Python."""
    known = rf"^\s*(?:pub(?:\(\w+\))? )?(?:const )?{name}(?:: [^=\n]+)? = ([^\n]*)$"
    found = re.search(known, (TOP / file).read_text(), re.MULTILINE)
    assert found, f"{file} has no constant {name}"
    text = re.sub(r"Duration::\w+\((.*)\)|\[([^,]*),.*\]", r"\1\2", found[1].rstrip(";"))
    other = re.match(r"[A-Z_]+\b", text)
    names = {} if other is None else {other.group(): constant(file, other.group())}
    return eval(text, {}, names)


def rows():
    for line in LIMITS.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) > 3 and "`" in cells[1]:
            names, files = (re.findall("`([^`]+)`", cell) for cell in cells[1:3])
            # What `lru_cache` remembers has no name.
            pairs = [(file, name) for file in files for name in names if name.isupper()]
            values = cells[0].split("; ") if pairs else []
            for (file, name), value in zip(pairs, values, strict=True):
                yield pytest.param(file, name, value, id=f"{file}:{name}")


@pytest.mark.parametrize(("file", "name", "value"), list(rows()))
def test_limits_are_those_of_the_sources(file, name, value):
    assert constant(file, name) == number(value)


def test_there_are_limits():
    assert len(list(rows())) > 80


def rule_makers():
    for line in OVERRIDES.read_text().splitlines():
        found = re.fullmatch(r"\| `(\w+)(?:\(\))?` \| `([a-z_]+/[a-z_]+\.py)` \| [^|]* \|", line)
        if found:
            yield pytest.param(found[1], found[2], id=found[1])


@pytest.mark.parametrize(("name", "file"), list(rule_makers()))
def test_rule_makers_are_there(name, file):
    text = (TOP / "python/cotan/_src" / file).read_text()
    assert re.search(rf"^(def {name}\(|{name} = )", text, re.MULTILINE)


def test_there_are_rule_makers():
    assert len(list(rule_makers())) > 3


def excerpts():
    text = OVERRIDES.read_text()
    for block in re.finditer(r"^```py\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        file = re.findall(r"`(python/cotan/_src/[^`]*\.py)`", text[: block.start()])[-1]
        yield pytest.param(file, block[1], id=file)


@pytest.mark.parametrize(("file", "excerpt"), list(excerpts()))
def test_examples_are_from_the_sources(file, excerpt):
    lines = set((TOP / file).read_text().splitlines())
    assert [
        line for line in excerpt.splitlines() if line.strip() != "..." and line not in lines
    ] == []


def test_there_are_examples():
    assert len(list(excerpts())) > 3
