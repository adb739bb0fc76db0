"""Lays out a diagram as a layered drawing of a directed graph.

After Sugiyama, Tagawa and Toda (1981). A box is in the layer given by the longest path to it. The
order inside a layer, and then the positions, are found by averaging over neighbours. Arrows across
several layers pass through empty positions in between; those from one box share them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

GAP_X = 28.0
GAP_Y = 40.0
EMPTY = 6.0
GAP_EMPTY = 7.0
SWEEPS = 8


@dataclass
class Layout:
    """Upper left corners of the boxes, ways of the arrows, and the extent of it all."""

    corners: list[tuple[float, float]]
    ways: dict[tuple[int, int], list[tuple[float, float]]]
    width: float
    height: float


def layered(
    sizes: Sequence[tuple[float, float]], arrows: Sequence[tuple[int, int]], upward: bool = False
) -> Layout:
    """Lay out boxes of these sizes so that all arrows point down, or up."""
    if not sizes:
        return Layout([], {}, 0.0, 0.0)
    ranks = _ranks(len(sizes), arrows)
    widths = [width for width, _ in sizes]
    chains: dict[tuple[int, int], list[int]] = {}
    links: list[tuple[int, int]] = []
    ranks = list(ranks)
    # Arrows from one box run together as far as they can.
    trunks: dict[int, list[int]] = {}
    for start, end in arrows:
        trunk = trunks.setdefault(start, [start])
        span = ranks[end] - ranks[start]
        while len(trunk) < span:
            ranks.append(ranks[start] + len(trunk))
            links.append((trunk[-1], len(widths)))
            trunk.append(len(widths))
            widths.append(EMPTY)
        chains[start, end] = [*trunk[:span], end]
        links.append((trunk[span - 1], end))
    above: list[list[int]] = [[] for _ in widths]
    below: list[list[int]] = [[] for _ in widths]
    for start, end in links:
        below[start].append(end)
        above[end].append(start)
    layers: list[list[int]] = [[] for _ in range(max(ranks) + 1)]
    for node, rank in enumerate(ranks):
        layers[rank].append(node)
    _order(layers, above, below)
    centres = _places(layers, above, below, widths)

    heights = [max((sizes[n][1] for n in layer if n < len(sizes)), default=0.0) for layer in layers]
    tops = [sum(heights[:i]) + GAP_Y * i for i in range(len(layers))]
    height = tops[-1] + heights[-1]
    middles = [top + h / 2 for top, h in zip(tops, heights, strict=True)]
    left = min(c - w / 2 for c, w in zip(centres, widths, strict=True))
    centres = [c - left for c in centres]
    width = max(c + w / 2 for c, w in zip(centres, widths, strict=True))

    def flipped(y: float) -> float:
        return height - y if upward else y

    corners = []
    for node, (w, h) in enumerate(sizes):
        y = middles[ranks[node]] - h / 2
        corners.append((centres[node] - w / 2, height - y - h if upward else y))
    ways = {}
    for (start, end), chain in chains.items():
        way = [(centres[start], flipped(middles[ranks[start]] + sizes[start][1] / 2))]
        for node in chain[1:-1]:
            rank = ranks[node]
            way.append((centres[node], flipped(tops[rank])))
            way.append((centres[node], flipped(tops[rank] + heights[rank])))
        way.append((centres[end], flipped(middles[ranks[end]] - sizes[end][1] / 2)))
        ways[start, end] = way
    return Layout(corners, ways, width, height)


def _ranks(count: int, arrows: Sequence[tuple[int, int]]) -> list[int]:
    """Give layers: below what leads there, and just above the readers where that is no detour.

    A box with no more arrows to it than from it goes down to its readers: arrows get no longer, and
    what is read late (values that are kept, and what is made of one of them) is not all in one row.
    """
    after: list[list[int]] = [[] for _ in range(count)]
    waiting = [0] * count
    for start, end in arrows:
        after[start].append(end)
        waiting[end] += 1
    arriving = list(waiting)
    ranks = [0] * count
    ready = [node for node in range(count) if waiting[node] == 0]
    order = []
    while ready:
        node = ready.pop()
        order.append(node)
        for other in after[node]:
            ranks[other] = max(ranks[other], ranks[node] + 1)
            waiting[other] -= 1
            if waiting[other] == 0:
                ready.append(other)
    for node in reversed(order):
        if after[node] and arriving[node] <= len(after[node]):
            ranks[node] = min(ranks[other] for other in after[node]) - 1
    lowest = min(ranks)
    return [rank - lowest for rank in ranks]


def _order(layers: list[list[int]], above: list[list[int]], below: list[list[int]]) -> None:
    """Sort each layer so that few arrows cross."""
    best = [list(layer) for layer in layers]
    fewest = _crossings(layers, below)
    for sweep in range(SWEEPS):
        if fewest == 0:
            break
        down = sweep % 2 == 0
        neighbours = above if down else below
        at = {n: float(i) for layer in layers for i, n in enumerate(layer)}
        for layer in layers if down else layers[::-1]:
            middle = {
                n: sum(at[m] for m in neighbours[n]) / len(neighbours[n])
                if neighbours[n]
                else at[n]
                for n in layer
            }
            layer.sort(key=middle.__getitem__)
            at.update((n, float(i)) for i, n in enumerate(layer))
        crossings = _crossings(layers, below)
        if crossings < fewest:
            fewest = crossings
            best = [list(layer) for layer in layers]
    layers[:] = best


def _crossings(layers: list[list[int]], below: list[list[int]]) -> int:
    """Count the pairs of arrows that cross: inversions, with a binary indexed tree."""
    total = 0
    for upper, lower in pairwise(layers):
        at = {n: i for i, n in enumerate(lower)}
        tree = [0] * (len(lower) + 1)
        seen = 0
        for node in upper:
            ends = [at[m] for m in below[node]]
            for end in ends:
                i, not_right = end + 1, 0
                while i:
                    not_right += tree[i]
                    i &= i - 1
                total += seen - not_right
            for end in ends:
                i = end + 1
                while i <= len(lower):
                    tree[i] += 1
                    i += i & -i
            seen += len(ends)
    return total


def _places(
    layers: list[list[int]], above: list[list[int]], below: list[list[int]], widths: list[float]
) -> list[float]:
    """Give centres: near those of the neighbours, in the order of the layer, without overlap."""
    centres = [0.0] * len(widths)

    def apart(a: int, b: int) -> float:
        empty = widths[a] == EMPTY or widths[b] == EMPTY
        return (widths[a] + widths[b]) / 2 + (GAP_EMPTY if empty else GAP_X)

    for layer in layers:
        for before, node in pairwise(layer):
            centres[node] = centres[before] + apart(before, node)
    for sweep in range(2 * SWEEPS):
        down = sweep % 2 == 0
        neighbours = above if down else below
        for layer in layers if down else layers[::-1]:
            wanted = [
                sum(centres[m] for m in neighbours[n]) / len(neighbours[n])
                if neighbours[n]
                else centres[n]
                for n in layer
            ]
            left, right = list(wanted), list(wanted)
            for i in range(1, len(layer)):
                left[i] = max(left[i], left[i - 1] + apart(layer[i - 1], layer[i]))
                j = len(layer) - 1 - i
                right[j] = min(right[j], right[j + 1] - apart(layer[j], layer[j + 1]))
            # Both keep the distances, so their mean does.
            for node, a, b in zip(layer, left, right, strict=True):
                centres[node] = (a + b) / 2
    return centres
