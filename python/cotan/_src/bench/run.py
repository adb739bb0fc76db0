"""Compares cotan with the libraries that are installed, on this machine, in under two minutes.

Behind `python -m cotan bench`. `benches/python/peers.py` of the sources has more workloads, more
rounds, memory, and the time that an import takes.
"""

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version

from cotan import _core
from cotan._src.bench import bars
from cotan._src.bench.contest import Contestant, Measured, measure, versions, worker_command
from cotan._src.bench.libraries import PACKAGES, TITLES
from cotan._src.bench.timing import machine
from cotan._src.bench.workloads import WORKLOADS

#: PyTorch's compiler takes up to a minute for each workload, and is left to `peers.py`.
LIBRARIES = ("prepared", "cotan", "jax", "torch", "autograd", "numpy")
#: What is compared, with a line that says what it is.
SHOWN = {
    "seed 10 float64": "sum(sin(x) cos(c)), 10 numbers",
    "seed 1,000,000 float64": "sum(sin(x) cos(c)), a million numbers",
    "chain 1,000,000": "20 elementwise operations, a million numbers, float32",
    "scalar-loop": "1,000 operations on Python numbers in a loop",
    "mlp": "a network of layers 784-512-512-10, 128 examples, float32",
    "softmax": "softmax of 4,096 rows of 1,024, float32",
    "layernorm": "layer normalisation of 4,096 rows of 1,024, float32",
}
_TURN = 0.05
_ROUNDS = 9
#: Seconds that one library may take to compile one workload.
_FIRST_CALL = 20.0


def installed() -> list[str]:
    """Name the libraries that can take part."""
    found = []
    for library in LIBRARIES:
        package = PACKAGES.get(library, "cotan")
        try:
            version(package)
        except PackageNotFoundError:
            if package != "cotan":  # sources without an installed package
                continue
        found.append(library)
    return found


def compare(
    workloads: Sequence[str],
    libraries: Sequence[str],
    seconds: float,
    tell: Callable[[str, Measured], None],
) -> dict[str, Measured]:
    """Measure the workloads, and tell of each when it is done.

    The time is shared among the workloads; each gets one round at least.
    """
    peers = [Contestant(library, worker_command(library)) for library in libraries]
    results: dict[str, Measured] = {}
    end = time.monotonic() + seconds
    try:
        for at, name in enumerate(workloads):
            left = len(workloads) - at
            until = time.monotonic() + (end - time.monotonic()) / left
            found = measure(peers, WORKLOADS[name], _ROUNDS, _TURN, _FIRST_CALL, until)
            results[name] = found
            tell(name, found)
    finally:
        for peer in peers:
            peer.close(at_once=True)
    return results


def report(
    workloads: Sequence[str], libraries: Sequence[str], seconds: float, as_json: bool
) -> int:
    """Print the comparison; the status is 1 where cotan itself has no time for a workload."""
    about = f"cotan {_core.__version__}, {versions(libraries)}; {machine()}"
    plain = not _takes_blocks()

    def tell(name: str, found: Measured) -> None:
        if not as_json:
            title = f"{name}: {SHOWN[name]}" if name in SHOWN else name
            print("\n".join(bars.bars(title, found, plain)) + "\n", flush=True)

    if not as_json:
        print(f"{about}\n\nValue and gradient: median, half the distance of the quartiles, ratio\n")
    results = compare(workloads, libraries, seconds, tell)
    if as_json:
        print(json.dumps(_as_data(about, results), indent=1))
    else:
        print("\n".join(bars.scale(bool({*libraries} & {*bars.PEERS}), plain)))
        out = [TITLES[x] for x in LIBRARIES if x not in installed()]
        if out:
            text = ", ".join(out)
            print(f"\nnot installed, and left out: {text} (pip install 'cotan[peers]')")
    own = {"prepared", "cotan"} & set(libraries)
    return int(any(own & found.missing.keys() for found in results.values()))


def _as_data(about: str, results: dict[str, Measured]) -> dict[str, object]:
    return {
        "about": about,
        "workloads": {
            name: {
                "seconds": {x: asdict(t) for x, t in found.timings().items()},
                "first_call": found.first,
                "missing": found.missing,
            }
            for name, found in results.items()
        },
    }


def _takes_blocks() -> bool:
    try:
        "█┴│±µ".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
