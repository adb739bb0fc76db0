"""Follows every link of a built site: pages, anchors, pictures, styles and scripts.

    python tools/site/check.py [build/site]

Exits with 1 and names what leads nowhere, and what a page would load from another host.
"""

import argparse
import functools
import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

TOP = Path(__file__).resolve().parents[2]
#: Elements that load what their attribute names.
LOADING = {"img": "src", "script": "src", "link": "href", "iframe": "src", "source": "src"}
#: Relations of `link` that are addresses only.
ADDRESSES = {"canonical", "prev", "next", "alternate"}


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[tuple[str, bool]] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note where an element leads, whether it loads that, and its anchor."""
        values = dict(attrs)
        if name := values.get("id"):
            self.ids.append(name)
        if tag == "a" and "name" in values and values["name"]:
            self.ids.append(values["name"])
        loads = tag in LOADING and values.get("rel") not in ADDRESSES
        for attribute in ("href", "src"):
            if (target := values.get(attribute)) is not None:
                self.links.append((target, loads))


@functools.cache
def _read(page: Path) -> _Reader:
    reader = _Reader()
    reader.feed(page.read_text(encoding="utf-8"))
    return reader


def pages(site: Path) -> list[Path]:
    """Give all pages but those of rustdoc, which has a check of its own."""
    found = sorted(site.rglob("*.html"))
    # The page for addresses that do not exist is shown at any depth: its links are absolute.
    return [p for p in found if "rust" not in p.relative_to(site).parts and p.name != "404.html"]


def faults(site: Path) -> Iterator[str]:
    """Give what is wrong, a line each."""
    for page in pages(site):
        reader = _read(page)
        name = page.relative_to(site)
        for twice in sorted({i for i in reader.ids if reader.ids.count(i) > 1}):
            yield f"{name}: two anchors #{twice}"
        for target, loads in reader.links:
            if fault := _fault(page, target, loads=loads, site=site):
                yield f"{name}: {target}: {fault}"
    for style in sorted(site.rglob("*.css")):
        for url in re.findall(r"url\(['\"]?(https?:[^)'\"]+)", style.read_text(encoding="utf-8")):
            yield f"{style.relative_to(site)}: loads {url}"


def _fault(page: Path, target: str, *, loads: bool, site: Path) -> str | None:
    parts = urlsplit(target)
    if parts.scheme in {"http", "https"} or parts.netloc:
        return "loaded from another host" if loads else None
    if parts.scheme in {"data", "mailto", "javascript"}:
        return None
    if parts.path.startswith("/"):
        return "absolute, so it breaks in a folder"
    there = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if not there.is_relative_to(site.resolve()):
        return "leads out of the site"
    if there.is_dir():
        there /= "index.html"
    if not there.exists():
        return "no such file"
    anchor = unquote(parts.fragment)
    if anchor and there.suffix == ".html" and anchor not in _read(there).ids:
        return "no such anchor"
    return None


def main() -> int:
    """Check the site that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("site", type=Path, nargs="?", default=TOP / "build" / "site")
    site = parser.parse_args().site.resolve()
    found = list(faults(site))
    print("\n".join(found) or f"{len(pages(site))} pages, all links lead somewhere")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
