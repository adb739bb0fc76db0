"""What the site does with the pages of docs/, beyond what mkdocs does.

The navigation is read from the lists of `docs/index.md`. Pages that are not in docs/ (the reference
of Python names, CONTRIBUTING.md, CHANGELOG.md) are added. Links to examples and notebooks lead to
pages and files of the site. Names of functions in the text become links to the reference.
"""

import os
import posixpath
import re
import sys
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

import api
import cards
import decision
import flowchart
import gallery
import nav
import notebooks
import text
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

TOP = Path(__file__).parents[2]
DOCS = TOP / "docs"
#: Pages of the site that are files elsewhere.
ELSEWHERE = {"CONTRIBUTING.md": TOP / "CONTRIBUTING.md", "CHANGELOG.md": TOP / "CHANGELOG.md"}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Set what is computed: navigation, address, anchors as GitHub makes them."""
    config.nav = nav.read(DOCS)
    config.site_url = os.environ.get("COTAN_SITE_URL", "")
    config.mdx_configs.setdefault("toc", {})["slugify"] = text.slug
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages and pictures that are made."""
    for path, source in ELSEWHERE.items():
        files.append(File.generated(config, path, content=source.read_text(encoding="utf-8")))
    for page in api.pages():
        files.append(File.generated(config, page.path, content=api.write(page)))
    namespaces = f"{api.FOLDER}/namespaces.md"
    files.append(File.generated(config, namespaces, content=api.write_namespaces()))
    for path, picture in gallery.pictures().items():
        files.append(File.generated(config, path, abs_src_path=str(picture)))
    for notebook in sorted((TOP / "examples" / "notebooks").glob("*.ipynb")):
        path = f"notebooks/{notebook.name}"
        files.append(File.generated(config, path, abs_src_path=str(notebook)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Write a page as mkdocs reads it: lists, tables, links, pictures."""
    path = page.file.src_uri
    if path == "tutorial/examples.md":
        markdown = gallery.expand(markdown)
    if path == "reference/api.md":
        markdown = markdown.replace("<!-- names -->", _names())
        markdown = markdown.replace("<!-- rust -->", RUST if WITH_RUST else "")
    for name, made_of in notebooks.NOTEBOOKS.items():
        if path in [f"how_to/{file}.md" for file in made_of]:
            note = f"*This page as a [notebook](../../examples/notebooks/{name}.ipynb).*"
            markdown = re.sub(r"\A(# .*\n)", rf"\1\n{note}\n", markdown)
    if path == "how_to/which_function.md":
        markdown = decision.expand(markdown, lambda link: _address(link, page, files))
    if path.startswith(f"{api.FOLDER}/"):
        page.meta["search"] = {"boost": 2}
    if path == "index.md":
        page.meta["hide"] = ["navigation"]
        markdown = text.cards(markdown, "<!-- ways in -->")
    markdown = text.normalise(markdown)
    markdown = flowchart.expand(re.sub(r"<!--.*?-->\n?", "", markdown, flags=re.DOTALL))
    return text.links(markdown, lambda link: _target(link, path))


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Make names of functions links to where they are documented."""
    here = page.file.src_uri
    module = next((p.module.__name__ for p in api.pages() if p.path == here), None)

    def address(name: str) -> str | None:
        target = ANCHORS.get(name)
        if target is None:
            return None
        path, _, anchor = target.partition("#")
        relative = "" if path == here else _url(path, page, files)
        return f"{relative}#{anchor}" if anchor else relative

    return text.link_names(html, address, module)


def on_post_build(config: MkDocsConfig) -> None:
    """Draw the pictures that other sites show of a page."""
    if config.site_url:
        cards.draw(Path(config.site_dir), config.site_name)


def on_env(env: Any, config: MkDocsConfig, files: Files) -> Any:
    """Give templates the address of a page's picture."""
    env.globals["card"] = cards.address
    return env


ANCHORS = api.anchors()
#: The pages of rustdoc are copied in when mkdocs is done, so that it cannot check this link.
WITH_RUST = os.environ.get("COTAN_SITE_RUST") == "1"
RUST = 'The core has <a href="../../rust/cotan/index.html">pages of its own</a>, made by rustdoc.'


def _url(path: str, page: Page, files: Files) -> str:
    file = files.get_file_from_path(path)
    if file is None:
        raise ValueError(f"{page.file.src_uri} wants {path}, which is no page")
    return file.url_relative_to(page.file)


def _address(link: str, page: Page, files: Files) -> str:
    """Give the address, for HTML in a page, of a link as Markdown has it."""
    path, _, anchor = link.partition("#")
    whole = posixpath.normpath(posixpath.join(posixpath.dirname(page.file.src_uri), path))
    return _url(whole, page, files) + (f"#{anchor}" if anchor else "")


def _target(link: str, path: str) -> str:
    """Give what a link of a page becomes, when it leads to a file outside of docs/."""
    where, mark, anchor = link.partition("#")
    if not where or ":" in where:
        return link
    source = ELSEWHERE.get(path, DOCS / path)
    there = Path(os.path.normpath(source.parent / where))
    if there.is_relative_to(DOCS):
        inside = there.relative_to(DOCS).as_posix()
    elif there.parent == TOP / "examples":
        inside, mark, anchor = "tutorial/examples.md", "#", there.stem
    elif there.parent == TOP / "examples" / "notebooks":
        inside = f"notebooks/{there.name}"
    else:
        inside = there.relative_to(TOP).as_posix()
    return posixpath.relpath(inside, posixpath.dirname(path) or ".") + mark + anchor


def _names() -> str:
    lines = ["| page | |", "| --- | --- |"]
    for page in api.pages():
        first = page.text.split("\n\n")[0].replace("\n", " ").replace("|", r"\|")
        lines.append(f"| [{page.title}](api/{page.file}.md) | {first} |")
    lines.append("| [NumPy, SciPy and math](api/namespaces.md) | Their functions, for `Array`s. |")
    return "\n".join(lines)
