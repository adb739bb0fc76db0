"""Brings Markdown as GitHub reads it to what Python-Markdown reads, and links names in HTML."""

import re
from collections.abc import Callable

FENCE = re.compile(r"^ *(```|~~~)")
MARKER = re.compile(r"^( *)([-*+]|\d+\.)( +)(?=\S)")
LINK = re.compile(r"(!?\[(?:[^\[\]]|`[^`]*`|\[[^\]]*\])*\]\()([^)\s]+)(\))")


def slug(heading: str, separator: str) -> str:
    """Give the anchor of a heading, as GitHub does and the tests of the pages expect."""
    return re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", separator)


def outside_of_code(markdown: str, change: Callable[[str], str]) -> str:
    """Change the lines that are in no fenced block."""
    parts = re.split(r"(^```.*?^```[^\n]*$)", markdown, flags=re.MULTILINE | re.DOTALL)
    return "".join(p if p.startswith("```") else change(p) for p in parts)


def links(markdown: str, target: Callable[[str], str]) -> str:
    """Give each link and picture another target."""

    def change(part: str) -> str:
        return LINK.sub(lambda m: m[1] + target(m[2]) + m[3], part)

    return outside_of_code(markdown, change)


def normalise(markdown: str) -> str:
    """Indent lists by four, and take the backslash from `|` in code that is in tables."""
    return outside_of_code(markdown, lambda part: _tables(_lists(part)))


def _tables(part: str) -> str:
    lines = part.split("\n")
    for at, line in enumerate(lines):
        if line.startswith("|"):
            lines[at] = re.sub(r"`[^`]*`", lambda m: m[0].replace(r"\|", "|"), line)
    return "\n".join(lines)


def _lists(part: str) -> str:
    out: list[str] = []
    open_items: list[int] = []  # where the text of each open item begins
    after_blank = True
    for line in part.split("\n"):
        if not line.strip():
            out.append(line)
            after_blank = True
            continue
        indent = len(line) - len(line.lstrip())
        marker = MARKER.match(line)
        while open_items and indent < open_items[-1] and (after_blank or marker):
            open_items.pop()
        depth = len(open_items)
        base = open_items[-1] if open_items else 0
        if marker and indent - base < 4:
            out.append("    " * depth + line.lstrip())
            open_items.append(len(marker[0]))
        elif open_items and indent >= base:
            out.append("    " * depth + line[base:])
        else:
            out.append(line)
        after_blank = False
    return "\n".join(out)


def cards(markdown: str, mark: str) -> str:
    """Show the table of two columns that follows a mark as cards."""
    before, _, after = markdown.partition(mark)
    table, rest = re.match(r"\n+((?:\|[^\n]*\n)+)(.*)", after, re.DOTALL).groups()
    rows = [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]
    items = "".join(f"-   {title}\n\n    ---\n\n    {what}\n\n" for title, what in rows)
    return f'{before}<div class="grid cards" markdown>\n\n{items}</div>\n{rest}'


#: What text names in code: `ct.nn.gelu`, `ct.hvp(f, x, v)`, and on pages of the reference `hvp`.
NAME = re.compile(r"(?:(?:ct|cotan)\.)?([A-Za-z_]\w*(?:\.\w+)*)(?:\(.*\))?")


def link_names(html: str, address: Callable[[str], str | None], module: str | None) -> str:
    """Link the names in code to where they are documented.

    A name without `ct.` is looked up too where the page is about a module; headings, links and
    blocks of code stay as they are.
    """
    out: list[str] = []
    closed = 0  # how many elements are open that hold no new links
    pieces = re.split(r"(<[^>]+>)", html)
    for at, piece in enumerate(pieces):
        tag = re.match(r"<(/?)(a|h[1-6]|pre|svg)\b", piece)
        if tag:
            closed += -1 if tag[1] else 1
        is_code = (
            not closed and at > 0 and pieces[at - 1] == "<code>" and pieces[at + 1] == "</code>"
        )
        where = _address(piece, address, module) if is_code else None
        if where:
            out[-1] = f'<a class="name" href="{where}"><code>'
            pieces[at + 1] = "</code></a>"
        out.append(piece)
    return "".join(out)


def _address(code: str, address: Callable[[str], str | None], module: str | None) -> str | None:
    found = NAME.fullmatch(code)
    if found is None:
        return None
    if code.startswith(("ct.", "cotan.")):
        return address(f"cotan.{found[1]}")
    if module is None:
        return None
    return address(f"{module}.{found[1]}") or (address(f"cotan.{found[1]}"))
