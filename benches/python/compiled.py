"""Gradients of nine rows next to compiled code: JAX, CasADi, and gradients by hand in numba and C.

    python benches/python/compiled.py [--only lorenz] [--peers cotan c] [--json FILE]
                                      [--markdown FILE]

The functions in C are those of `benches/c`, with `cc -O3 -march=native`; those in numba are the
same formulas. Both run on one thread. `pip install casadi numba`; what is not installed is left out
and named. How the libraries take turns says `row_table.py`.
"""

from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from _harness import write_section
from cotan._src.bench.libraries import Built
from row_table import merged, options, run, worker
from rows import ROWS, Row, _c, _libraries, _report

LIBRARIES = ("prepared", "cotan", "jax", "casadi", "numba", "c")
#: numba compiles for seconds; a minute would leave it out on a machine that is busy.
LIMIT = 120.0


def build(library: str, w: Row, arguments: tuple[Any, ...]) -> Built:
    """Make the call of a library; an ImportError says that it is not installed."""
    if library == "c":
        return _c.build(w, arguments)
    if library in ("casadi", "numba"):
        import_module(library)
        built: Built = import_module(f"rows._{library}").build(w, arguments)
        return built
    return _libraries.build(library, w, arguments)


def more_versions(libraries: Sequence[str]) -> str:
    """Name the versions of CasADi and numba, where they are installed."""
    found = []
    for package in ("casadi", "numba"):
        try:
            if package in libraries:
                found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return ", ".join(found)


def main() -> None:
    """Measure, or read what was measured, and write the tables."""
    parser = options(__doc__.splitlines()[0], list(LIBRARIES))
    parser.set_defaults(limit=LIMIT)
    args = parser.parse_args()
    if args.worker:
        worker(args.worker, args.clock, build)
        return
    rows = [w for w in ROWS if w.name in _c.SIZES]
    found = merged(args.files) if args.files else run(args, rows, __file__)
    about = ", ".join(filter(None, (found["about"], more_versions(args.peers))))
    text = _report.over(found["rows"], about, "`benches/python/compiled.py`", "c")
    print(f"\n{text}")
    if args.markdown:
        write_section(args.markdown, "compiled", f"### Next to compiled code\n\n{text}")


if __name__ == "__main__":
    main()
