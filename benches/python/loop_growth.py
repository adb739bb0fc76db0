"""How gradients of loops grow with their steps: time, memory and the size of the program.

    python benches/python/loop_growth.py [--quick] [--markdown FILE]

Steps of the classical Runge-Kutta method on the Lorenz system (three numbers, three parameters) by
`ct.scan(..., rolled=True)`, from a hundred to a million; and a recursion by a loop of Python, which
is written out, up to a hundred thousand. Each count runs in a process of its own.
"""

import argparse
import json
import pickle
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from _harness import environment, machine, summary, table, unit_of, write_section

COUNTS = (100, 1_000, 10_000, 100_000, 1_000_000)


def measure(steps: int) -> None:
    """Print seconds, bytes and equations of a gradient over so many steps."""
    import numpy as np

    import cotan as ct
    from rows.field.dynamics import lorenz_slope
    from rows.steps import rk4

    def loss(state: Any, parameters: Any) -> Any:
        slope = lorenz_slope(np, parameters)

        def step(s: Any, _: None) -> tuple[Any, None]:
            return rk4(slope, s, 0.01), None

        last, _ = ct.scan(step, state, None, length=steps, rolled=True)
        return np.sum(last)

    arguments = np.array([1.0, 1.0, 1.0]), np.array([10.0, 28.0, 8 / 3])

    def seconds(call: Any) -> float:
        start = time.perf_counter()
        call(*arguments)
        return time.perf_counter() - start

    ct.gradient(lambda s, p: np.sum(s * p), *arguments)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found: dict[str, float] = {"first": seconds(lambda *xs: ct.gradient(loss, *xs))}
    found["bytes"] = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    prepared = ct.prepare(loss, *arguments)
    prepared(*arguments)
    samples = [seconds(prepared) for _ in range(300 if steps <= 1000 else 15)]
    found["prepared"] = summary(samples[len(samples) // 2 :]).median
    found["equations"] = str(prepared.programs[0]).count(" = ")
    print(json.dumps(found))


def highest() -> int:
    """Give the most bytes that this process has had in memory."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


def measure_written(steps: int) -> None:
    """Print the same of a loop of Python, and how large the rolled program of its gradient is."""
    import numpy as np

    import cotan as ct

    def loss(state: Any, factor: Any) -> Any:
        for _ in range(steps):
            state = np.sin(state) * factor + 0.1
        return state

    # Where the cotangents do not end in subnormal numbers, which processors are slow with.
    arguments = 0.9, 1.1

    def seconds(call: Any) -> float:
        start = time.perf_counter()
        call(*arguments)
        return time.perf_counter() - start

    ct.gradient(lambda s, p: np.sum(s * p), *arguments)
    before = highest()
    start = time.perf_counter()
    program = ct.trace(lambda *xs: ct.gradient(loss, *xs), *arguments)
    found: dict[str, float] = {"trace": time.perf_counter() - start}
    found["bytes"] = highest() - before
    found["first"] = seconds(program)
    samples = [seconds(program) for _ in range(300 if steps <= 1000 else 15)]
    found["runs"] = summary(samples[len(samples) // 2 :]).median
    program = program.rolled()
    found["equations"] = str(program).count(" = ")
    found["text"] = len(str(program))
    found["pickle"] = len(pickle.dumps(program))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "gradient.onnx")
        program.to_onnx(path)
        found["onnx"] = path.stat().st_size
    print(json.dumps(found))


def run(steps: int, what: str = "--steps") -> dict[str, float]:
    command = [sys.executable, __file__, what, str(steps)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env=environment(), timeout=600
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def short(seconds: float) -> str:
    scale, unit = unit_of(seconds)
    return f"{seconds * scale:.3g} {unit}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="up to 10,000 steps")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the section there")
    parser.add_argument("--steps", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--written", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.steps:
        measure(args.steps)
        return
    if args.written:
        measure_written(args.written)
        return
    rows = []
    for steps in COUNTS[:3] if args.quick else COUNTS:
        found = run(steps)
        times = (found["first"], found["prepared"])
        each = [f"{short(t)} ({t / steps * 1e9:.0f} ns each)" for t in times]
        memory = f"{found['bytes'] / 1e6:.1f} MB"
        rows.append([f"{steps:,}", *each, memory, f"{found['equations']:.0f}"])
        print(*rows[-1], flush=True)
    titles = ["steps", "first gradient", "prepared", "memory", "equations"]
    text = (
        "Steps of the classical Runge-Kutta method on the Lorenz system by "
        "`ct.scan(..., rolled=True)`, `benches/python/loop_growth.py`: the first gradient of a "
        "process with respect to state and parameters, a prepared one (the median), what memory "
        "the first one adds to the process, and the equations of its program. "
        f"{machine()}.\n\n{table(titles, rows)}"
    )
    rows = []
    for steps in COUNTS[:3] if args.quick else COUNTS[:4]:
        found = run(steps, "--written")
        times = [short(found[key]) for key in ("trace", "first", "runs")]
        memory = f"{found['bytes'] / 1e6:.1f} MB"
        sizes = [f"{found[key] / 1e3:.1f} kB" for key in ("text", "pickle", "onnx")]
        rows.append([f"{steps:,}", *times, memory, f"{found['equations']:.0f}", *sizes])
        print(*rows[-1], flush=True)
    titles = ["steps", "traced", "first run", "runs", "memory", "equations"]
    titles += ["text", "pickle", "ONNX"]
    text += (
        "\n\nThe gradient of a recursion by a `for` of Python, `x = np.sin(x) * a + 0.1`, which is "
        "written out: to trace it, the first run of the program, the median of later ones, what "
        "memory tracing adds to the process; and the program, in which loops are found again: its "
        "equations, and how large it is.\n\n"
        f"{table(titles, rows)}"
    )
    print(text)
    if args.markdown:
        write_section(args.markdown, "loops", f"### Loops\n\n{text}")


if __name__ == "__main__":
    main()
