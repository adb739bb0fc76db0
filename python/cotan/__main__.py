"""`python -m cotan`: prints saved pullbacks and programs, and reports on this installation."""

import argparse
import os
import pickle
import sys
from collections.abc import Callable, Sequence
from typing import Any

import cotan
from cotan._src.bench import contest, run
from cotan._src.bench.libraries import BUILD
from cotan._src.bench.workloads import WORKLOADS
from cotan._src.inspect import doctor, installation


class _Error(Exception):
    """What went wrong, in words for the user."""


def _size(count: int) -> str:
    size = float(count)
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


def _summary(path: str, saved: cotan.Program | cotan.Pullback) -> str:
    program = saved if isinstance(saved, cotan.Program) else saved.program
    count = len(program.equations)
    equations = "1 equation" if count == 1 else f"{count} equations"
    if isinstance(saved, cotan.Program):
        return f"# {path}: a program of {equations}"
    return f"# {path}: a pullback of {equations}, keeps {_size(saved.nbytes)}"


def _call(saved: cotan.Program | cotan.Pullback, what: str, *names: str) -> str:
    """Give what the first of these methods returns that is there: of the program, if need be."""
    owners = [saved] if isinstance(saved, cotan.Program) else [saved, saved.program]
    for owner in owners:
        method: Any = owner
        for name in names:
            method = getattr(method, name, None)
            if callable(method):
                method = method()
        if method is not None:
            return str(method)
    kind = "program" if isinstance(saved, cotan.Program) else "pullback"
    raise _Error(f"--{what}: a saved {kind} has none in this version of cotan")


def _show(options: argparse.Namespace) -> int:
    try:
        saved = cotan.load(options.file, mmap=options.mmap)
    except ValueError as error:
        known = str(error).startswith(str(options.file))
        raise _Error(str(error) if known else f"{options.file}: {error}") from error
    asked = False
    pictures: dict[str, Callable[[], str]] = {
        "report": lambda: _call(saved, "report", "report"),
        "dot": lambda: _call(saved, "dot", "to_dot"),
        "mermaid": lambda: _call(saved, "mermaid", "to_mermaid"),
    }
    for name, picture in pictures.items():
        if getattr(options, name):
            print(picture().rstrip("\n"))
            asked = True
    if options.html is not None:
        page = _call(saved, "html", "report", "html")
        cotan._core.write_file(options.html, page.encode())
        asked = True
    if options.svg is not None:
        cotan._core.write_file(options.svg, _call(saved, "svg", "to_svg").encode())
        asked = True
    if not asked:
        program = saved if isinstance(saved, cotan.Program) else saved.program
        print(_summary(options.file, saved))
        # With the lines that it comes from, where they were recorded.
        print(program.text(lines=True).rstrip("\n"))
    return 0


def _info(_options: argparse.Namespace) -> int:
    for name, value in installation.facts().items():
        print(f"{name + ':':14}{value}")
    return 0


def _doctor(options: argparse.Namespace) -> int:
    found = doctor.diagnose()
    print(found.json() if options.json else found.text())
    return 1 if found.status == "error" else 0


def _bench(options: argparse.Namespace) -> int:
    if options.worker:
        contest.work(options.worker, WORKLOADS)
        return 0
    if options.list:
        for name, about in run.SHOWN.items():
            print(f"{name + ':':24}{about}")
        return 0
    there = run.installed()
    missing = [name for name in options.libraries or () if name not in there]
    if missing:
        raise _Error(f"not installed: {', '.join(missing)}; pip install 'cotan[peers]'")
    shown = list(run.SHOWN)
    for word in options.only or ():
        if not any(word in (name, name.partition(" ")[0]) for name in shown):
            raise _Error(f"no workload {word!r}; there are {', '.join(shown)}")
    names = [
        name
        for name in shown
        if not options.only or {name, name.partition(" ")[0]} & set(options.only)
    ]
    return run.report(names, options.libraries or there, options.seconds, options.json)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m cotan", description="Look at saved pullbacks and programs."
    )
    parser.add_argument("--version", action="version", version=f"cotan {cotan.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    show = commands.add_parser(
        "show",
        help="print a saved pullback or program",
        description="Print the program of a saved pullback or program, or what is asked for.",
    )
    show.add_argument("file", metavar="FILE", help="what save() wrote")
    show.add_argument("--report", action="store_true", help="what is held, and why")
    show.add_argument("--html", metavar="OUT", help="write the report as a page")
    show.add_argument("--svg", metavar="OUT", help="write a picture")
    show.add_argument("--dot", action="store_true", help="the picture for Graphviz")
    show.add_argument("--mermaid", action="store_true", help="the picture for Mermaid")
    show.add_argument(
        "--mmap", action="store_true", help="use arrays where they are in the file (large ones)"
    )
    show.set_defaults(run=_show)
    info = commands.add_parser(
        "info",
        help="print what a bug report needs",
        description="Print versions, the machine, and the optional packages that are there.",
    )
    info.set_defaults(run=_info)
    doctor_ = commands.add_parser(
        "doctor",
        help="check that cotan works here, and what could disturb it",
        description="Check versions, results, overrides, settings, threads and memory. The exit "
        "status is 1 if something does not work.",
    )
    doctor_.add_argument("--json", action="store_true", help="print JSON")
    doctor_.set_defaults(run=_doctor)
    bench = commands.add_parser(
        "bench",
        help="compare cotan with the libraries that are installed",
        description="Time value and gradient of a few workloads in cotan, JAX, PyTorch, HIPS "
        "autograd (those that are installed) and NumPy by hand, each in a process of its own with "
        "two threads. Results are compared with formulas first.",
    )
    bench.add_argument("--only", nargs="+", metavar="NAME", help="workloads, or their first word")
    bench.add_argument("--libraries", nargs="+", choices=run.LIBRARIES, help="who takes part")
    bench.add_argument(
        "--seconds", type=float, default=75.0, help="about how long it takes (default 75)"
    )
    bench.add_argument("--list", action="store_true", help="name the workloads")
    bench.add_argument("--json", action="store_true", help="print JSON")
    bench.add_argument("--worker", choices=list(BUILD), help=argparse.SUPPRESS)
    bench.set_defaults(run=_bench)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; give the exit status: 0, 1 when it failed, 2 when it was not understood."""
    options = _parser().parse_args(arguments)
    if sys.stdout is None:  # closed
        return 0
    try:
        status = int(options.run(options))
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read has seen enough. What is left goes nowhere, also when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError, TypeError, MemoryError, pickle.PicklingError, _Error) as error:
        print(f"python -m cotan {options.command}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    else:
        return status
    return 0


if __name__ == "__main__":
    sys.exit(main())
