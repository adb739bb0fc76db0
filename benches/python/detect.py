"""What `ct.detect` costs, and how long a report of a pullback of 10,000 equations takes.

python benches/python/detect.py [--markdown FILE]
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np

import cotan as ct
from _harness import machine, table, time_together, write_section


def elementwise(x):
    y = np.sin(x) * np.cos(x) + np.exp(-x * x)
    return np.sum(np.sqrt(y * y + 1.0) * np.tanh(x))


def mlp(layers, x):
    for w, b in layers:
        x = np.tanh(w @ x + b)
    return np.sum(x * x)


def small(x):
    return np.sum(np.sin(x) * np.cos(x) + x)


def cases() -> list[tuple[str, Callable, tuple]]:
    rng = np.random.default_rng(0)
    layers = [(rng.normal(size=(256, 256)) / 16, rng.normal(size=(256, 1))) for _ in range(4)]
    return [
        ("elementwise, n = 1,000,000", elementwise, (rng.normal(size=10**6),)),
        ("a network of four layers of 256, batch 64", mlp, (layers, rng.normal(size=(256, 64)))),
        ("a small function, n = 10", small, (rng.normal(size=10),)),
    ]


def watched(run: Callable) -> Callable:
    def inside():
        with ct.detect():
            run()

    return inside


def chain(x):
    for _ in range(3333):
        x = np.sin(x) * 1.5
    return np.sum(x)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables there too")
    options = parser.parse_args()
    rows = []
    for name, f, args in cases():

        def run(f=f, args=args):
            ct.gradient(f, *args)

        times = time_together({"plain": run, "inside": watched(run)})
        plain, inside = times["plain"], times["inside"]
        rows.append((name, str(plain), str(inside), f"{inside.median / plain.median:.2f}"))
    _, back = ct.pullback(chain, np.ones(10))
    times = time_together({"report": back.report, "page": back.report().html}, rounds=5)
    head = ("gradient of", "plain", "inside `detect`", "ratio")
    text = (
        f"`benches/python/detect.py`. {machine()}.\n\n{table(head, rows)}\n\n"
        f"The report of a pullback of {len(back.program):,} equations takes {times['report']}, its "
        f"page {times['page']}."
    )
    print(text)
    if options.markdown:
        write_section(options.markdown, "detect", f"### Detection and reports\n\n{text}")


if __name__ == "__main__":
    main()
