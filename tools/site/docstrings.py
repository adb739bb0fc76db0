"""Turns a docstring into Markdown: sections become lists, examples become blocks of code."""

import re

SECTIONS = {
    *("Attributes", "Examples", "Methods", "Notes", "Parameters", "Raises", "References"),
    *("Returns", "See Also", "Warns", "Yields"),
}


def markdown(doc: str) -> str:
    """Give the Markdown of a docstring whose common indentation is taken off."""
    # The compiled module's texts link names as Rust's do.
    lines = re.sub(r"\[(`[^`]+`)\](?!\()", r"\1", doc).strip("\n").split("\n")
    out: list[str] = []
    at = 0
    while at < len(lines):
        if lines[at].startswith(">>> "):
            at = _session(lines, at, out)
        elif _begins_section(lines, at):
            out += ["", f"**{lines[at]}**", ""]
            at = _entries(lines, at + 2, out)
        else:
            out.append(lines[at])
            at += 1
    return "\n".join(out).strip() + "\n"


def summary(doc: str) -> str:
    """Give the first sentence of a docstring."""
    first = " ".join(re.sub(r"\[(`[^`]+`)\](?!\()", r"\1", doc).strip().split("\n\n")[0].split())
    return re.split(r"(?<=[.!?]) (?=[A-Z`])", first)[0]


def _begins_section(lines: list[str], at: int) -> bool:
    following = lines[at + 1] if at + 1 < len(lines) else ""
    return lines[at] in SECTIONS and re.fullmatch("-{3,}", following) is not None


def _session(lines: list[str], at: int, out: list[str]) -> int:
    out += ["", "```pycon"]
    while at < len(lines) and (lines[at] or _goes_on(lines, at)):
        out.append(lines[at])
        at += 1
    out += ["```", ""]
    return at


def _goes_on(lines: list[str], at: int) -> bool:
    """Whether the session goes on behind an empty line."""
    rest = [line for line in lines[at:] if line]
    return bool(rest) and rest[0].startswith(">>> ")


def _entries(lines: list[str], at: int, out: list[str]) -> int:
    """Write entries, a name and an indented text each, up to what is not one."""
    while at < len(lines):
        if not lines[at]:
            at += 1
            continue
        following = lines[at + 1] if at + 1 < len(lines) else ""
        if lines[at].startswith((">>> ", " ")) or not following.startswith("    "):
            break
        out.append(", ".join(_code(name) for name in lines[at].split(", ")))
        mark = ":   "
        at += 1
        while at < len(lines) and (not lines[at] or lines[at].startswith("    ")):
            text = lines[at][4:]
            out.append(f"{mark}{text}" if text else "")
            mark = "    " if text else mark
            at += 1
        out.append("")
    return at


def _code(name: str) -> str:
    return name if "`" in name else f"`{name}`"
