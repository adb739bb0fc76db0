"""Methods of programs and pullbacks that draw them: as SVG, HTML, Graphviz and Mermaid.

What draws is imported with the first picture, since few programs want one.
"""

from os import PathLike
from typing import Any

from cotan import _core


def to_svg(self: _core.Program | _core.Pullback, path: str | PathLike[str] | None = None) -> str:
    """Draw it as an SVG that needs nothing from outside, for light and dark grounds.

    Each fused group is a box that lists its equations; of a pullback the forward half stands on the
    left, the backward half on the right, and dashed arrows lead to the values that are kept. A
    program of thousands of equations is drawn in blocks.

    Parameters
    ----------
    path
        Where to write it too, in UTF-8.

    Returns the text of the SVG.

    >>> import cotan as ct
    >>> picture = ct.trace(lambda x: ct.sin(x) * 2, 1.0).to_svg()
    >>> picture.startswith("<svg"), "sin(x)" in picture
    (True, True)
    """
    text = _svg(self)
    if path is not None:
        _core.write_file(path, text.encode())
    return text


def to_html(self: _core.Program | _core.Pullback) -> str:
    """Draw it for a notebook: the SVG, which scrolls where it is too large, and its text.

    >>> import cotan as ct
    >>> "<svg" in ct.trace(lambda x: ct.sin(x), 1.0).to_html()
    True
    """
    from cotan._src.inspect.svg import escaped

    text = str(self if isinstance(self, _core.Program) else self.program)
    lines = text.splitlines()
    if len(lines) > 400:
        lines = [*lines[:400], f"... {len(lines) - 400} more lines"]
    return (
        f'<div style="overflow:auto;max-height:48em">{_svg(self)}</div>'
        f"<details><summary>{escaped(repr(self))}</summary>"
        f"<pre>{escaped(chr(10).join(lines))}</pre></details>"
    )


def _svg(drawn: _core.Program | _core.Pullback) -> str:
    from cotan._src.inspect.diagram import never_computed
    from cotan._src.inspect.svg import svg

    return svg(drawn, never=never_computed(drawn))


def to_dot(self: _core.Program | _core.Pullback) -> str:
    """Write it for Graphviz: boxes for equations, clusters for fused groups.

    >>> import cotan as ct
    >>> print(ct.trace(lambda x: ct.sin(x), 1.0).to_dot().splitlines()[0])
    digraph program {
    """
    from cotan._src.inspect.diagram_text import dot

    return dot(self)


def to_mermaid(self: _core.Program | _core.Pullback) -> str:
    """Write it as a Mermaid flowchart, which Markdown pages show: subgraphs for fused groups.

    >>> import cotan as ct
    >>> print(ct.trace(lambda x: ct.sin(x), 1.0).to_mermaid().splitlines()[0])
    flowchart TD
    """
    from cotan._src.inspect.diagram_text import mermaid

    return mermaid(self)


def attach(cls: Any) -> None:
    """Give the class its methods."""
    for method in (to_svg, to_html, to_dot, to_mermaid):
        setattr(cls, method.__name__, method)
    cls._repr_svg_ = to_svg
    cls._repr_html_ = to_html
