"""Reads the order of the site's pages from the lists of `docs/index.md` and of the design notes."""

import re
from pathlib import Path
from typing import Any

import api

Nav = list[dict[str, Any]]

ITEM = re.compile(r"^- \[(?P<title>(?:[^\]`]|`[^`]*`)+)\]\((?P<path>[^)]+)\)")
GROUP = re.compile(r"^\*(?P<name>[^*]+)\*$|^(?P<plain>[A-Z][\w ]*):$")


def read(docs: Path) -> Nav:
    """Give the navigation as mkdocs takes it."""
    nav: Nav = [{"Home": "index.md"}]
    text = (docs / "index.md").read_text(encoding="utf-8")
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        title, _, body = section.partition("\n")
        entries = _lists(body, "")
        if not entries:
            continue
        if title == "Contributing":
            entries.insert(0, {"Contributing": "CONTRIBUTING.md"})
            design = (docs / "design" / "index.md").read_text(encoding="utf-8")
            entries = [e for e in entries if "design/index.md" not in e.values()]
            entries.append(
                {"Design notes": [{"Design notes": "design/index.md"}, *_lists(design, "design/")]}
            )
            entries.append({"Changes": "CHANGELOG.md"})
        nav.append({title: [_with_names(entry) for entry in entries]})
    return nav


def _with_names(entry: dict[str, Any]) -> dict[str, Any]:
    """Put the generated pages below the page that introduces them."""
    if "reference/api.md" not in entry.values():
        return entry
    generated = [{page.title.replace("cotan.", "ct."): page.path} for page in api.pages()]
    last = {"NumPy, SciPy, math": f"{api.FOLDER}/namespaces.md"}
    return {"Python names": [{"Overview": "reference/api.md"}, *generated, last]}


def _lists(text: str, folder: str) -> Nav:
    entries: Nav = []
    into = entries
    for line in text.splitlines():
        if found := GROUP.match(line):
            into = []
            entries.append({found["name"] or found["plain"]: into})
        elif (found := ITEM.match(line)) and found["path"].endswith(".md"):
            into.append({found["title"].replace("`", ""): folder + found["path"]})
    return [entry for entry in entries if all(entry.values())]
