"""What a gradient of a whole program costs, that knows nothing of cotan, beside the program itself.

    python benches/python/user_programs.py [--only beam cam] [--rounds 5] [--markdown FILE]

The programs are those of `tests/python/programs`: of many fields, most with small arrays and
numbers in loops, as people write them. Value and gradient of all their arguments, unmodified and
prepared, take turns with the program's plain run. What is timed first has been called once.
"""

import argparse
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import cotan as ct
from _harness import Timing, machine, table, time_together, write_section

FOLDER = Path(__file__).parents[2] / "tests/python/programs"
PREPARED = "prepared"


def load(path: Path) -> ModuleType:
    """Import a program."""
    spec = importlib.util.spec_from_file_location(f"program_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def calls(module: ModuleType) -> dict[str, Callable[[], Any]]:
    """Give the calls that are compared; a program that cannot be prepared has two."""
    f, arguments = module.main, module.ARGUMENTS
    found: dict[str, Callable[[], Any]] = {
        "plain": lambda: f(*arguments),
        "unmodified": lambda: ct.value_and_gradient(f, *arguments),
    }
    value, _ = found["unmodified"]()
    np.testing.assert_allclose(value, f(*arguments), rtol=1e-9)
    try:
        g = ct.prepare(f, *arguments, transform="value_and_gradient")
        g(*arguments)
    except TypeError as refused:
        print(f"{module.__name__}: {refused}", file=sys.stderr)
        return found
    found[PREPARED] = lambda: g(*arguments)
    return found


def shares(timings: dict[str, dict[str, Timing]], kind: str) -> list[float]:
    """Give how many plain runs a call takes, for all programs, in order."""
    found = [t[kind].median / t["plain"].median for t in timings.values() if kind in t]
    return sorted(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="NAME")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the section there")
    options = parser.parse_args()
    timings = {}
    for path in sorted(FOLDER.glob("[!_]*.py")):
        if not options.only or path.stem in options.only:
            timings[path.stem] = time_together(calls(load(path)), options.rounds, budget=0.01)
            print(path.stem, {k: f"{t.median * 1e6:.4g} µs" for k, t in timings[path.stem].items()})
    rows = []
    for kind in ("unmodified", PREPARED):
        found = shares(timings, kind)
        quarters = [float(np.quantile(found, q)) for q in (0.25, 0.5, 0.75, 0.95)]
        rows.append([kind, str(len(found)), *(f"{x:.2g}" for x in (*quarters, found[-1]))])
    worst = sorted(
        timings, key=lambda n: -timings[n]["unmodified"].median / timings[n]["plain"].median
    )
    named = ", ".join(
        f"{n} {timings[n]['unmodified'].median / timings[n]['plain'].median:.0f}" for n in worst[:8]
    )
    head = [
        "value and gradient",
        "programs",
        "a quarter below",
        "median",
        "three quarters",
        "95 %",
        "most",
    ]
    text = (
        f"### Programs of users\n\n`benches/python/user_programs.py`; {machine()}. Plain runs that "
        "value and gradient of a program take: of the programs that the tests run, of many fields, "
        "most with numbers and short arrays in loops.\n\n"
        f"{table(head, rows)}\n\nThe most, unmodified: {named}.\n"
    )
    print(text)
    if options.markdown:
        write_section(options.markdown, "user-programs", text)


if __name__ == "__main__":
    main()
