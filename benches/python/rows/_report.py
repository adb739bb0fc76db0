"""The tables of `row_table.py`: every row, with quartiles and the load it was measured under."""

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

from _harness import Timing, summary, table
from cotan._src.bench.timing import cell, short
from rows._libraries import TITLES as EVERY_DAY

#: Libraries that only `compiled.py` times.
COMPILED = {"casadi": "CasADi", "numba": "numba, by hand", "c": "C, by hand"}
TITLES = {**EVERY_DAY, **COMPILED}
OWN = ("prepared", "cotan")
PEERS = ("jax", "torch", "compiled", "func", "autograd", "casadi")
#: More than this, and the page says that other work ran beside the measurement.
CALM = 0.5


def times_of(found: Mapping[str, Any]) -> dict[str, Timing]:
    """Give median and quartiles of each library that has a time."""
    return {x: summary(found["samples"][x]) for x in TITLES if found["samples"].get(x)}


def best_peer(times: Mapping[str, Timing]) -> tuple[str, float] | None:
    """Name the fastest library that differentiates by itself, and its time."""
    found = min(((times[p].median, p) for p in PEERS if p in times), default=None)
    return (found[1], found[0]) if found else None


def line(name: str, found: Mapping[str, Any]) -> str:
    """Write one row while the others run."""
    times = times_of(found)
    rival = best_peer(times)
    parts = [f"{name}:"]
    for library, timing in times.items():
        ratio = f" ({timing.median / rival[1]:.2f})" if rival and library in OWN else ""
        parts.append(f"{library} {cell(timing)}{ratio}")
    parts += [f"{x}: {why}" for x, why in found["missing"].items() if is_news(why)]
    return "  ".join([*parts, f"[load {found['load']:.1f}]"])


def is_news(why: str) -> bool:
    """Whether the reason of a missing time is more than that nobody asked for it."""
    return "not asked for" not in why and why != "not installed"


def ratio_cell(times: Mapping[str, Timing], library: str, rival: float | None) -> str:
    """Write a time over the best peer's; above 1 in bold."""
    if library not in times or rival is None:
        return "–"
    ratio = times[library].median / rival
    return f"**{ratio:.2f}**" if ratio > 1 else f"{ratio:.2f}"


def least(found: Mapping[str, Any], library: str) -> str:
    """Write the ratio of the shortest samples, which other work on the machine disturbs least."""
    shortest = {x: min(s) for x, s in found["samples"].items() if s}
    rivals = [shortest[p] for p in PEERS if p in shortest]
    return f"{shortest[library] / min(rivals):.2f}" if library in shortest and rivals else "–"


def geometric(ratios: Sequence[float]) -> str:
    """Write a geometric mean."""
    return f"{math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}" if ratios else "–"


def text(results: Mapping[str, Mapping[str, Any]], about: str, command: str) -> str:
    """Give the tables of times and of ratios, and what is to be said of them."""
    times = {name: times_of(found) for name, found in results.items()}
    shown = [x for x in TITLES if any(x in t for t in times.values())]
    rows = [[name, *(cell(t[x]) if x in t else "–" for x in shown)] for name, t in times.items()]
    ratios, kept = [], {library: [] for library in OWN}
    for name, t in times.items():
        rival = best_peer(t)
        who = f"{TITLES[rival[0]]}, {short(rival[1])}" if rival else "–"
        one = rival[1] if rival else None
        for library in OWN:
            if library in t and one:
                kept[library].append(t[library].median / one)
        found = results[name]
        ratios.append(
            [
                name,
                who,
                *(ratio_cell(t, x, one) for x in OWN),
                *(least(found, x) for x in OWN),
                f"{found['load']:.1f}",
            ]
        )
    means = [geometric(kept[x]) for x in OWN]
    wins = [f"{sum(r <= 1 for r in kept[x])} of {len(kept[x])}" for x in OWN]
    ratios += [
        ["geometric mean", "", *means, "", "", ""],
        ["as fast or faster", "", *wins, "", "", ""],
    ]
    state = load_of(results)
    parts = [
        (
            f"{command}: median, and half the distance between the quartiles in percent of it. "
            f"{about}; {state}."
        ),
        table(["", *(TITLES[x] for x in shown)], rows),
        (
            "Time over that of the fastest library that differentiates by itself: of the medians, "
            "and of the shortest samples, which other work disturbs least. Bold is slower than it."
        ),
        table(
            [
                "time over the best peer's",
                "best peer",
                "prepared",
                "unmodified",
                "prepared, shortest",
                "unmodified, shortest",
                "load",
            ],
            ratios,
        ),
        *notes(results),
    ]
    return "\n\n".join(parts)


def load_of(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Say how busy the machine was, and what that means where it was."""
    loads = [found["load"] for found in results.values()]
    state = f"load {min(loads):.1f} to {max(loads):.1f} from row to row"
    if max(loads) > CALM * (os.cpu_count() or 1):
        state += (
            "; **the machine did other work meanwhile**, so the times are longer than they "
            "have to be, and only what stands in one row compares"
        )
    return state


def over(results: Mapping[str, Mapping[str, Any]], about: str, command: str, one: str) -> str:
    """Give the table of times, and that of times over those of one library."""
    times = {name: times_of(found) for name, found in results.items()}
    shown = [x for x in TITLES if any(x in t for t in times.values())]
    middle = {name: {x: t.median for x, t in found.items()} for name, found in times.items()}
    shortest = {
        name: {x: min(s) for x, s in found["samples"].items() if s}
        for name, found in results.items()
    }

    def compared(name: str, library: str) -> str:
        if library not in times[name] or one not in times[name]:
            return "–"
        parts = (seconds[name][library] / seconds[name][one] for seconds in (middle, shortest))
        return "{:.2f} ({:.2f})".format(*parts)

    def mean(library: str) -> str:
        both = [n for n in times if library in times[n] and one in times[n]]
        parts = (
            geometric([seconds[n][library] / seconds[n][one] for n in both])
            for seconds in (middle, shortest)
        )
        return "{} ({})".format(*parts)

    ratios = [
        [name, *(compared(name, x) for x in shown), f"{results[name]['load']:.1f}"]
        for name in times
    ]
    parts = [
        (
            f"{command}: median, and half the distance between the quartiles in percent of it. "
            f"{about}; {load_of(results)}."
        ),
        table(
            ["", *(TITLES[x] for x in shown)],
            [[name, *(cell(t[x]) if x in t else "–" for x in shown)] for name, t in times.items()],
        ),
        (
            f"Times over that of {TITLES[one]}: of the medians, and in parentheses of the shortest "
            "samples, which other work disturbs least."
        ),
        table(
            ["", *(TITLES[x] for x in shown), "load"],
            [*ratios, ["geometric mean", *map(mean, shown), ""]],
        ),
        *notes(results),
    ]
    return "\n\n".join(parts)


def notes(results: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Say which libraries have no time for which rows."""
    lines = [
        f"- {TITLES[library]} has no time for {name}: {why.replace('|', '/')}"
        for name, found in results.items()
        for library, why in found["missing"].items()
        if is_news(why)
    ]
    out = sorted(
        {
            TITLES[x]
            for f in results.values()
            for x, why in f["missing"].items()
            if why == "not installed"
        }
    )
    if out:
        lines.append(f"- not installed, and left out: {', '.join(out)}")
    return ["\n".join(lines)] if lines else []
