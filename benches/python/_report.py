"""The tables and the picture that `peers.py` writes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from _harness import Timing, table
from _limits import Bandwidth
from cotan._src.bench.libraries import TITLES
from cotan._src.bench.timing import cell, short
from workloads import WORKLOADS, Workload

OWN = ("prepared", "cotan")
PEERS = ("jax", "torch", "compiled", "autograd")
COLOURS = {
    "prepared": "#b2182b",
    "cotan": "#ef8a62",
    "jax": "#2166ac",
    "torch": "#4393c3",
    "compiled": "#92c5de",
    "autograd": "#7fbf7b",
    "numpy": "#999999",
}
Times = dict[str, Timing]


def best_peer(times: Times) -> tuple[str, float] | None:
    found = [(times[p].median, p) for p in PEERS if p in times]
    return (min(found)[1], min(found)[0]) if found else None


def line(w: Workload, times: Times, first: dict[str, float], missing: dict[str, str]) -> str:
    """One workload while it runs."""
    rival = best_peer(times)
    parts = [f"{w.name}:"]
    for library, timing in times.items():
        ratio = f" ({timing.median / rival[1]:.2f})" if rival and library in OWN else ""
        parts.append(f"{library} {cell(timing)}{ratio}")
    if first.get("compiled"):
        parts.append(f"[compiled in {first['compiled']:.0f} s]")
    parts += [f"{library}: {why}" for library, why in missing.items() if why != "not installed"]
    return "  ".join(parts)


def verdict(ratio: float, target: float) -> str:
    return f"{ratio:.2f} (≤ {target:g}) {'reached' if ratio <= target else '**missed**'}"


@dataclass
class Report:
    """All that was measured in one run."""

    about: str
    timings: dict[str, Times]
    first: dict[str, dict[str, float]]
    missing: dict[str, dict[str, str]]
    rises: dict[str, dict[str, float]]
    cold: dict[str, dict[str, float]]
    peak: dict[str, float]
    bandwidth: Bandwidth

    def workloads(self) -> list[Workload]:
        return [w for w in WORKLOADS if self.timings.get(w.name)]

    def libraries(self) -> list[str]:
        return [name for name in TITLES if any(name in times for times in self.timings.values())]

    def floor(self, w: Workload) -> float | None:
        """Seconds that no code could do without; none where a call costs more than the work."""
        found = []
        if w.nbytes >= 1 << 16:
            found.append(w.nbytes / self.bandwidth.at(w.nbytes))
        if w.flops and w.dtype in self.peak:
            found.append(w.flops / self.peak[w.dtype])
        return max(found, default=None)

    def times(self) -> str:
        libraries = self.libraries()
        rows = []
        for w in self.workloads():
            row = [w.name]
            for library in libraries:
                timing = self.timings[w.name].get(library)
                row.append(cell(timing) if timing else "–")
            rows.append(row)
        return table(["", *(TITLES[library] for library in libraries)], rows)

    def targets(self) -> str:
        rows = []
        for w in self.workloads():
            times = self.timings[w.name]
            rival = best_peer(times)
            if rival is None:
                continue
            row = [w.name, f"{TITLES[rival[0]]}, {short(rival[1])}"]
            for library, target in zip(OWN, w.targets, strict=True):
                if library not in times:
                    row.append("–")
                    continue
                row.append(self.against(w, library, target, rival[1]))
            floor = self.floor(w)
            row.append(short(floor) if floor else "–")
            own = [times[library].median for library in OWN if library in times]
            row.append(f"{min(own) / floor:.1f}" if floor and own else "–")
            row.append(f"{rival[1] / floor:.1f}" if floor else "–")
            rows.append(row)
        head = ["time over the best peer's", "best peer", "prepared", "unmodified"]
        return table([*head, "floor", "cotan / floor", "best peer / floor"], rows)

    def against(self, w: Workload, library: str, target: float | None, rival: float) -> str:
        times = self.timings[w.name]
        own = times[library].median
        text = verdict(own / rival, target) if target else f"{own / rival:.2f}"
        if library == "cotan" and w.eager_target and "torch" in times:
            text += f"; eager: {verdict(own / times['torch'].median, w.eager_target)}"
        if library == "prepared" and w.below_hand and "numpy" in times:
            below = own < times["numpy"].median
            text += f"; {'below' if below else '**above**'} NumPy by hand"
        return text

    def memory(self) -> str:
        libraries = [name for name in TITLES if any(name in found for found in self.rises.values())]
        rows = []
        for name, found in self.rises.items():
            cells = (f"{found[x] / 1e6:.0f} MB" if x in found else "–" for x in libraries)
            hand = self.rises.get("deep", {}).get("numpy")
            limit = hand and (hand if name == "deep" else hand / 4)
            own = max((found[x] for x in OWN if x in found), default=None)
            reached = "–"
            if own and limit:
                reached = f"≤ {limit / 1e6:.0f} MB {'reached' if own <= limit else '**missed**'}"
            rows.append([name, *cells, reached])
        return table(["", *(TITLES[x] for x in libraries), "target"], rows)

    def cold_start(self) -> str:
        rows = []
        for library, found in self.cold.items():
            reached = ["", ""]
            if library in OWN:
                reached = [
                    " reached" if found["first"] <= 0.3 else " **missed**",
                    " reached" if found["import"] <= 0.08 else " **missed**",
                ]
            rows.append(
                [
                    TITLES[library],
                    f"{found['first']:.2f} s{reached[0]}",
                    f"{found['import'] * 1e3:.0f} ms{reached[1]}",
                ]
            )
        return table(["", "to the first `mlp` gradient", "import, beyond NumPy's"], rows)

    def notes(self) -> list[str]:
        rates = ", ".join(f"{rate / 1e9:.0f} GFLOP/s in {d}" for d, rate in self.peak.items())
        copies = ", ".join(
            f"{rate / 1e9:.0f} GB/s at {size / 2**20:g} MB"
            for size, rate in self.bandwidth.rates().items()
        )
        compiled = [f["compiled"] for f in self.first.values() if "compiled" in f]
        notes = [f"Measured in this run: {rates}; copies, read and written, {copies}."]
        if compiled:
            notes.append(
                f"PyTorch compiled for {min(compiled):.0f} to {max(compiled):.0f} s before its "
                "first gradient of a workload; that is not in the times."
            )
        for name, missing in self.missing.items():
            for library, why in missing.items():
                if why != "not installed":
                    notes.append(f"{TITLES[library]} has no time for {name}: {why}.")
        return notes

    def text(self) -> str:
        parts = [
            (
                "Value and gradient, `benches/python/peers.py`: the median, and half the distance "
                f"between the quartiles in percent of it. {self.about}."
            ),
            self.times(),
            " ".join(self.notes()),
            (
                "The next table holds cotan's time against that of the fastest peer (NumPy by hand "
                "does not count as one) with the target, and against the floor: the bytes that "
                "have to be read and written over the bandwidth at that size, or the products "
                "over the peak."
            ),
            self.targets(),
        ]
        if self.rises:
            parts += [
                (
                    "Peak memory of three calls, beyond what the process held after a call with 64 "
                    "elements. An array is 4 MB, and 100 steps keep 100 of them when they are kept."
                ),
                self.memory(),
            ]
        if self.cold:
            parts += ["From the start of a process, files cached:", self.cold_start()]
        return "\n\n".join(parts)

    def picture(self) -> str:
        """Time over the best peer's, one row a workload, one dot a library, logarithmic."""
        rows = []
        for w in self.workloads():
            rival = best_peer(self.timings[w.name])
            if rival:
                times = self.timings[w.name]
                rows.append((w.name, {x: t.median / rival[1] for x, t in times.items()}))
        return dots(rows, [name for name in TITLES if name in self.libraries()])


def dots(rows: Sequence[tuple[str, dict[str, float]]], libraries: Sequence[str]) -> str:
    left, top, width, step = 190, 60, 560, 22
    low, high = math.log10(0.05), math.log10(100)
    height = top + step * len(rows) + 40

    def across(ratio: float) -> float:
        place = (math.log10(min(max(ratio, 0.05), 100)) - low) / (high - low)
        return left + width * place

    bottom = top + step * len(rows)
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 30} {height}" '
            'font-family="sans-serif" font-size="12">'
        ),
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for tick in (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100):
        x = across(tick)
        colour, thick = ("#444", 1.5) if tick == 1 else ("#ddd", 1)
        parts.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top - 6}" y2="{bottom}" stroke="{colour}" '
            f'stroke-width="{thick}"/>'
            f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle" fill="#444">{tick:g}</text>'
        )
    parts.append(
        f'<text x="{left + width / 2}" y="{bottom + 34}" text-anchor="middle" fill="#444">'
        "time over the fastest peer's (further left is faster)</text>"
    )
    for k, name in enumerate(libraries):
        x, y = 10 + 185 * (k % 4), 16 + 18 * (k // 4)
        parts.append(
            f'<circle cx="{x}" cy="{y - 4}" r="5" fill="{COLOURS[name]}"/>'
            f'<text x="{x + 9}" y="{y}">{escape(TITLES[name])}</text>'
        )
    for row, (name, ratios) in enumerate(rows):
        y = top + step * row + step / 2
        parts.append(f'<text x="{left - 10}" y="{y + 4}" text-anchor="end">{escape(name)}</text>')
        parts.extend(
            f'<circle cx="{across(ratios[library]):.1f}" cy="{y}" r="5" fill="{COLOURS[library]}">'
            f"<title>{escape(TITLES[library])}: {ratios[library]:.2f}</title></circle>"
            for library in reversed(libraries)  # our own come last, on top
            if library in ratios
        )
    return "\n".join([*parts, "</svg>\n"])
