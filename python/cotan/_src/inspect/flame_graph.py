"""Writes the times of a profile as a flame graph: SVG, speedscope's format, or collapsed stacks."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from zlib import crc32

from cotan._src.inspect.report_facts import time_text
from cotan._src.inspect.svg import escaped

_WIDTH = 1200.0
_ROW = 20.0
_LETTER = 6.6
#: Narrower frames are left out; their time shows as a gap.
_NARROW = 0.4
_STYLE = (
    ".cotan-flames text{font:11px ui-monospace,Menlo,Consolas,monospace;fill:#1c2024;"
    "pointer-events:none}.cotan-flames rect{stroke:#fff;stroke-width:.7}"
)

#: Names of frames from the outermost to the innermost, and seconds.
Stack = tuple[tuple[str, ...], float]


@dataclass
class _Frame:
    name: str
    seconds: float = 0.0
    inner: dict[str, "_Frame"] = field(default_factory=dict)

    def add(self, names: tuple[str, ...], seconds: float) -> None:
        self.seconds += seconds
        if names:
            frame = self.inner.setdefault(names[0], _Frame(names[0]))
            frame.add(names[1:], seconds)

    def depth(self) -> int:
        return 1 + max((frame.depth() for frame in self.inner.values()), default=0)


def _tree(found: Iterable[Stack]) -> _Frame:
    root = _Frame("all")
    for names, seconds in found:
        root.add(names, seconds)
    return root


def svg(found: list[Stack]) -> str:
    """Draw stacks, the outermost frames on top; the width of a frame is its time. No scripts.

    >>> svg([(("run", "sin"), 0.25), (("plan",), 0.75)])[:4]
    '<svg'
    """
    root = _tree(found)
    height = _ROW * root.depth() + 8
    scale = _WIDTH / root.seconds if root.seconds else 0.0
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:.0f} {height:.0f}" '
        'width="100%" role="img" aria-label="Flame graph of a profile" class="cotan-flames">'
        f"<style>{_STYLE}</style>{''.join(_drawn(root, 0.0, 0, scale, root.seconds))}</svg>"
    )


def _drawn(frame: _Frame, x: float, depth: int, scale: float, whole: float) -> Iterator[str]:
    width, y = frame.seconds * scale, 4.0 + _ROW * depth
    if width < _NARROW:
        return
    label = f"{frame.name}: {time_text(frame.seconds)}, {frame.seconds / whole:.1%}"
    letters = int((width - 6) / _LETTER)
    shown = frame.name if len(frame.name) <= letters else f"{frame.name[: letters - 1]}…"
    text = f'<text x="{x + 4:.1f}" y="{y + 14:.1f}">{escaped(shown)}</text>' if letters > 1 else ""
    yield (
        f'<g><title>{escaped(label)}</title><rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" '
        f'height="{_ROW:.0f}" rx="2" fill="{_colour(frame.name, depth)}"/>{text}</g>'
    )
    for inner in sorted(frame.inner.values(), key=lambda f: -f.seconds):
        yield from _drawn(inner, x, depth + 1, scale, whole)
        x += inner.seconds * scale


def _colour(name: str, depth: int) -> str:
    """Choose a colour that a name keeps from one picture to the next; the outermost are grey."""
    if depth <= 1:
        return "#c9d6e8"
    bits = crc32(name.partition(" (backward")[0].encode("utf-8", "replace"))
    hue = 200 + bits % 60 if "(backward" in name else 20 + bits % 40
    return f"hsl({hue},{60 + bits // 64 % 25}%,{72 + bits // 4096 % 10}%)"


def speedscope(found: list[Stack]) -> str:
    """Give stacks in the file format of speedscope: one sample a stack, seconds as weights.

    >>> json.loads(speedscope([(("run", "sin"), 0.25)]))["profiles"][0]["weights"]
    [0.25]
    """
    numbers: dict[str, int] = {}
    samples = [[numbers.setdefault(name, len(numbers)) for name in names] for names, _ in found]
    weights = [seconds for _, seconds in found]
    return json.dumps(
        {
            "$schema": "https://www.speedscope.app/file-format-schema.json",
            "exporter": "cotan",
            "name": "cotan",
            "shared": {"frames": [{"name": name} for name in numbers]},
            "profiles": [
                {
                    "type": "sampled",
                    "name": "cotan",
                    "unit": "seconds",
                    "startValue": 0.0,
                    "endValue": sum(weights),
                    "samples": samples,
                    "weights": weights,
                }
            ],
        }
    )


def collapsed(found: list[Stack]) -> str:
    """Give stacks one a line, frames between semicolons, and whole microseconds behind.

    >>> print(collapsed([(("run", "sin"), 0.25)]), end="")
    run;sin 250000
    """
    lines = []
    for names, seconds in found:
        frames = ";".join(name.replace(";", ",") for name in names)
        lines.append(f"{frames} {round(seconds * 1e6)}\n")
    return "".join(lines)
