"""Writes diagrams of programs and pullbacks as text for Graphviz (dot) and Mermaid."""

import re

from cotan._core import Program, Pullback
from cotan._src.inspect.diagram import COLOURS, LIMIT, Graph, halves_of, never_computed


def dot(drawn: Program | Pullback) -> str:
    """Write it for Graphviz."""
    halves, across = halves_of(drawn, never_computed(drawn), 4 * LIMIT, condensed=False)
    lines = [
        "digraph program {",
        '  graph [fontname="monospace", newrank=true];',
        '  node [shape=box, style="rounded,filled", fontname="monospace", fontsize=10];',
        '  edge [color="#64748b", arrowsize=0.7];',
    ]
    for h, half in enumerate(halves):
        indent = "  "
        if len(halves) > 1:
            lines.append(f"  subgraph cluster_half{h} {{ label={_dot(half.title)};")
            indent = "    "
        for group, members in _grouped(half.graph):
            inner = indent
            if group is not None:
                lines.append(f"{indent}subgraph cluster_{h}_{group} {{")
                lines.append(
                    f'{indent}  label="one pass"; style="rounded,dashed"; color="#0d9488";'
                )
                inner = indent + "  "
            for n in members:
                box = half.graph.boxes[n]
                fill, border, text = COLOURS[box.kind][0]
                rows = [box.head] * bool(box.head)
                rows += [f"{left}  {right}".rstrip() for left, right, _ in box.rows]
                dashed = ', style="rounded,filled,dashed"' if box.kind == "never" else ""
                lines.append(
                    f"{inner}n{h}_{n} [label={_dot(chr(10).join(rows))}, "
                    f'fillcolor="{fill}", color="{border}", fontcolor="{text}"{dashed}];'
                )
            if group is not None:
                lines.append(f"{indent}}}")
        for (start, end), never in half.graph.arrows.items():
            style = ' [style=dashed, color="#f87171"]' if never else ""
            lines.append(f"{indent}n{h}_{start} -> n{h}_{end}{style};")
        if len(halves) > 1:
            lines.append("  }")
    lines += [
        f'  n0_{start} -> n1_{end} [style=dashed, color="#ea580c", constraint=false];'
        for start, end in across
    ]
    lines += [f"  // {_one_line(note)}" for half in halves for note in half.graph.notes]
    return "\n".join([*lines, "}", ""])


def _grouped(drawn: Graph) -> list[tuple[int | None, list[int]]]:
    """Give the boxes of each fused group of several; the others are in none."""
    groups: dict[int, list[int]] = {}
    for n, box in enumerate(drawn.boxes):
        if box.group is not None:
            groups.setdefault(box.group, []).append(n)
    several = {group: members for group, members in groups.items() if len(members) > 1}
    grouped = {n for members in several.values() for n in members}
    rest = [n for n in range(len(drawn.boxes)) if n not in grouped]
    return [(None, rest), *several.items()]


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _dot(text: str) -> str:
    """Quote a label; a backslash would begin an escape of Graphviz's."""
    text = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + text.replace("\n", "\\n") + '"'


def mermaid(drawn: Program | Pullback) -> str:
    """Write it for Mermaid."""
    halves, across = halves_of(drawn, never_computed(drawn), LIMIT, condensed=False)
    lines = ["flowchart TD"]
    kinds: dict[str, list[str]] = {}
    for h, half in enumerate(halves):
        if len(halves) > 1:
            lines.append(f"  subgraph half{h}[{_mermaid(half.title)}]")
        for group, members in _grouped(half.graph):
            if group is not None:
                lines.append(f"  subgraph group{h}_{group}[{_mermaid('one pass')}]")
            for n in members:
                box = half.graph.boxes[n]
                rows = [box.head] * bool(box.head)
                rows += [f"{left}  {right}".rstrip() for left, right, _ in box.rows]
                lines.append(f"  n{h}_{n}[{_mermaid(chr(10).join(rows))}]")
                kinds.setdefault(box.kind, []).append(f"n{h}_{n}")
            if group is not None:
                lines.append("  end")
        if len(halves) > 1:
            lines.append("  end")
        for (start, end), never in half.graph.arrows.items():
            lines.append(f"  n{h}_{start} {'-.->' if never else '-->'} n{h}_{end}")
    lines += [f"  n0_{start} -.-> n1_{end}" for start, end in across]
    for kind, names in kinds.items():
        fill, border, text = COLOURS[kind][0]
        lines.append(f"  classDef {kind} fill:{fill},stroke:{border},color:{text}")
        lines.append(f"  class {','.join(names)} {kind}")
    lines += [f"  %% {_one_line(note)}" for half in halves for note in half.graph.notes]
    return "\n".join([*lines, ""])


def _mermaid(text: str) -> str:
    """Quote a label: all that is no letter, digit or space is written by its number."""
    lines = [re.sub(r"[^\w .,()=]", lambda m: f"#{ord(m[0])};", line) for line in text.split("\n")]
    return '"' + "<br/>".join(lines) + '"'
