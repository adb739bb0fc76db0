"""Writes a report as one self-contained HTML page, without scripts or external resources."""

from collections.abc import Sequence
from html import escape

from cotan._core import Program
from cotan._src.inspect.report_facts import (
    DECISIONS_REMEDY,
    DECISIONS_TITLE,
    Held,
    ReportFacts,
    short,
    size_text,
)

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"

#: Columns that are set right.
_NUMBERS = ("Bytes", "Needs")

_STYLE = """
:root{color-scheme:light dark;--ink:#1c2024;--soft:#5b6470;--line:#d9dee4;--page:#fff;
--band:#f5f7f9;--good:#0b6b3a;--goodbg:#e0f3e8;--idle:#6b4d00;--idlebg:#fdf0cf;--none:#4d5663;--nonebg:#e9edf1;
--bar:#4f7cc4}
@media (prefers-color-scheme:dark){:root{--ink:#e6e9ed;--soft:#a3adb8;--line:#333b44;--page:#14181c;
--band:#1b2126;--good:#8fe0b0;--goodbg:#143524;--idle:#f2d07f;--idlebg:#3b2f0d;--none:#bcc5cf;
--nonebg:#2a3138;--bar:#6f9be0}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
main{max-width:68rem;margin:0 auto;padding:1.25rem 1rem 3rem}
h1{font-size:1.5rem;margin:0 0 .25rem}h2{font-size:1.15rem;margin:2rem 0 .5rem}
h3{font-size:1rem;margin:1.25rem 0 0}
p{margin:.25rem 0 .75rem;color:var(--soft)}
.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(9rem,1fr));gap:.6rem;
margin:1rem 0;padding:0}
.facts div{border:1px solid var(--line);border-radius:8px;padding:.6rem .8rem;
background:var(--band)}
.facts dt{color:var(--soft);font-size:.85rem}.facts dd{margin:0;font-size:1.3rem;font-weight:600}
.wide{overflow-x:auto;border:1px solid var(--line);border-radius:8px}
table{border-collapse:collapse;width:100%;font-size:.92rem}
th,td{text-align:left;padding:.4rem .7rem;border-top:1px solid var(--line);vertical-align:top}
thead th{border-top:0;background:var(--band);color:var(--soft);font-weight:600;white-space:nowrap}
td code{white-space:nowrap}td code.leaf{white-space:normal}
td.n,th.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
code{font:.9em/1.45 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;overflow-wrap:anywhere}
.tag{display:inline-block;border-radius:99px;padding:0 .6rem;font-size:.85rem;white-space:nowrap;
background:var(--nonebg);color:var(--none)}
.computed{background:var(--goodbg);color:var(--good)}
.never-computed{background:var(--idlebg);color:var(--idle)}
.bar{display:block;height:.35rem;border-radius:99px;background:var(--nonebg);margin-top:.25rem}
.bar i{display:block;height:100%;border-radius:99px;background:var(--bar);min-width:2px}
ol.eqns{margin:0;padding:.4rem 0;list-style:none}
ol.eqns li{padding:.1rem .7rem;display:flex;flex-wrap:wrap;gap:0 1.5rem;
justify-content:space-between}
ol.eqns li:nth-child(even){background:var(--band)}
ol.eqns code{white-space:pre-wrap}
.at{color:var(--soft);font-size:.85rem}
@media (max-width:40rem){body{font-size:15px}
.cards thead{position:absolute;clip-path:inset(50%);width:1px;height:1px;overflow:hidden}
.cards tr{display:block;padding:.5rem .7rem;border-top:1px solid var(--line)}
.cards tbody tr:first-child{border-top:0}
.cards td{display:flex;gap:.75rem;border:0;padding:.1rem 0;text-align:left}
.cards td::before{content:attr(data-label);color:var(--soft);flex:0 0 7rem}
.cards td code{white-space:nowrap}td code.leaf{white-space:normal}
td.n,th.n{text-align:left}.bar{flex:1;align-self:center}}
"""


def page(report: ReportFacts) -> str:
    """Give the page."""
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        # Nothing may be loaded, whatever names say; not even an icon is asked for.
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<link rel="icon" href="data:,">',
        f"<title>Report of a pullback</title><style>{_STYLE}</style></head><body><main>",
        "<h1>Report of a pullback</h1>",
        "<p>What it holds and why, and what it never computed.</p>",
        _facts(report),
        _arguments(report),
        _held(report),
        _checkpoints(report),
        _decisions(report),
        _equations(report),
        "</main></body></html>",
    ]
    return "\n".join(parts)


def _facts(report: ReportFacts) -> str:
    facts = [
        (Held, size_text(report.held_bytes)),
        ("Values", len(report.held)),
        ("Equations", report.equations),
        ("Never computed", f"{report.equations_avoided} equations"),
        ("Bytes avoided", size_text(report.bytes_avoided)),
    ]
    cells = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in facts)
    return f'<dl class="facts">{cells}</dl>'


def _table(caption: str, head: list[str], rows: list[list[str]]) -> str:
    """Give a table; its cells are HTML."""
    right = [' class="n"' if name in _NUMBERS else "" for name in head]
    names = "".join(
        f'<th scope="col"{kind}>{name}</th>' for name, kind in zip(head, right, strict=True)
    )
    lines = []
    for row in rows:
        cells = []
        for name, kind, cell in zip(head, right, row, strict=True):
            cells.append(f'<td data-label="{name}"{kind}>{cell}</td>')
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{caption}">'
        f'<table class="cards"><thead><tr>{names}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def _arguments(report: ReportFacts) -> str:
    needs: dict[str, int] = {}
    for held in report.held:
        for path in held.cotangents:
            needs[path] = needs.get(path, 0) + held.bytes
    rows = []
    for argument in report.arguments:
        state = argument.state.replace(" ", "-")
        rows.append(
            [
                f'<code class="leaf">{escape(argument.path)}</code>',
                f"<code>{argument.type}</code>",
                f'<span class="tag {state}">{argument.state}</span>',
                size_text(needs[argument.path]) if argument.path in needs else "–",
            ]
        )
    table = _table("Cotangents", ["Argument", "Type", "Cotangent", "Needs"], rows)
    return (
        "<h2>Cotangents</h2><p>Each argument, whether its cotangent was computed, and how much of "
        f"what is held it needs.</p>{table}"
    )


def _held(report: ReportFacts) -> str:
    if not report.held:
        return "<h2>Held</h2><p>Nothing.</p>"
    most = max(h.bytes for h in report.held) or 1
    rows = [_held_row(h, most) for h in sorted(report.held, key=lambda h: -h.bytes)]
    table = _table("Held values", ["Value", "Type", "Bytes", "Needed by", "For"], rows)
    return f"<h2>Held</h2><p>The values that the pullback keeps, largest first.</p>{table}"


def _held_row(held: Held, most: int) -> list[str]:
    share = 100 * held.bytes / most
    bar = f'<span class="bar" aria-hidden="true"><i style="width:{share:.0f}%"></i></span>'
    return [
        f"<span>{escape(held.what())}</span>",
        f"<code>{held.type}</code>",
        f"{size_text(held.bytes)}{bar}",
        escape(held.why()),
        escape(", ".join(held.cotangents) or "–"),
    ]


def _checkpoints(report: ReportFacts) -> str:
    if not report.checkpoints:
        return ""
    items = "".join(f"<li>{escape(str(place))}</li>" for place in report.checkpoints)
    return (
        "<h2>Checkpoints</h2><p>Where <code>ct.checkpoint</code> would free the most.</p>"
        f"<ol>{items}</ol>"
    )


def _decisions(report: ReportFacts) -> str:
    if not report.decisions:
        return ""
    items = "".join(f"<li>{escape(str(decision))}</li>" for decision in report.decisions)
    return (
        f"<h2>Decisions</h2><p>{escape(DECISIONS_TITLE)}.</p><ul>{items}</ul>"
        f"<p>{escape(DECISIONS_REMEDY)}.</p>"
    )


def _at(file: str, line: int) -> str:
    name = short(file)
    return f'<span class="at" title="{escape(file)}">{escape(name)}:{line}</span>'


def _equations(report: ReportFacts) -> str:
    parts = ["<h2>Equations</h2>"]
    if report.forward is not None:
        parts.append(
            "<h3>Forward</h3><p>From the arguments to the results and to what is held.</p>"
            + _listing("Forward equations", report.forward, report.forward_lines)
        )
    parts.append(
        "<h3>Backward</h3><p>The program of the pullback: from cotangents and what is held to the "
        "cotangents of the arguments.</p>"
        + _listing("Backward equations", report.program, report.lines)
    )
    return "".join(parts)


def _listing(label: str, program: Program, places: Sequence[tuple[str, int] | None]) -> str:
    lines = str(program).splitlines()
    # The header may be broken, one input a line; it ends with the first brace.
    header = next(i for i, line in enumerate(lines) if line.endswith(") {")) + 1
    end = header + len(program)
    items = []
    for text, place in zip(lines[header:end], places or [None] * len(program), strict=True):
        at = _at(*place) if place else ""
        items.append(f'<li class="eqn"><code>{escape(text.strip())}</code>{at}</li>')
    head = "".join(f"<li><code>{escape(line)}</code></li>" for line in lines[:header])
    tail = "".join(f"<li><code>{escape(line)}</code></li>" for line in lines[end:])
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{label}">'
        f'<ol class="eqns">{head}{"".join(items)}{tail}</ol></div>'
    )
