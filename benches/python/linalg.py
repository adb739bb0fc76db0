"""Systems of equations and decompositions against NumPy as it is installed, and against PyTorch.

Values are compared with NumPy, a value with its gradient with PyTorch.

    env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE \
        python benches/python/linalg.py [--size 512] [--markdown FILE]
"""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

from _harness import ENVIRONMENT, Peer, machine, serve, table, time_together, write_section

FUNCTIONS = ["solve", "cholesky", "qr", "eigvalsh", "eigh", "svd", "slogdet", "inv"]


def matrices(n: int) -> tuple:
    import numpy as np

    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, n))
    return x, x + x.T, x @ x.T / n + np.eye(n), rng.normal(size=(n, 4))


def call(linalg: object, name: str, data: tuple) -> object:
    x, symmetric, definite, b = data
    if name == "solve":
        return linalg.solve(x, b)
    argument = {"cholesky": definite, "eigh": symmetric, "eigvalsh": symmetric}.get(name, x)
    return getattr(linalg, name)(argument)


def total(name: str, result: object, sum_: Callable) -> object:
    """Give a scalar of which all parts have a gradient."""
    parts = result if isinstance(result, tuple) or hasattr(result, "_fields") else (result,)
    value = 0.0
    for part in parts:
        value = value + sum_(part * part)
    return value


def of_position(name: str) -> int:
    return {"cholesky": 2, "eigh": 1, "eigvalsh": 1}.get(name, 0)


def compare_values(n: int) -> list[list[str]]:
    import numpy as np

    import cotan as ct

    data = matrices(n)
    ours = tuple(map(ct.array, data))

    def computed(name: str) -> None:
        result = call(np.linalg, name, ours)
        for part in result if isinstance(result, tuple) else (result,):
            part.force()

    rows = []
    for name in FUNCTIONS:
        times = time_together(
            {"cotan": lambda name=name: computed(name),
             "NumPy": lambda name=name: call(np.linalg, name, data)},
            rounds=7,
        )  # fmt: skip
        ratio = times["NumPy"].median / times["cotan"].median
        rows.append([f"`{name}`", str(times["cotan"]), str(times["NumPy"]), f"{ratio:.1f}"])
    return rows


def gradient_of(library: str, name: str, n: int) -> Callable[[], object]:
    import numpy as np

    data = matrices(n)
    at = of_position(name)
    if library == "cotan":
        import cotan as ct

        def f(x: object) -> object:
            mine = (*data[:at], x, *data[at + 1 :])
            return total(name, call(np.linalg, name, mine), np.sum)

        return lambda: ct.value_and_gradient(f, data[at])
    import torch

    torch.set_num_threads(int(ENVIRONMENT["OMP_NUM_THREADS"]))
    tensors = tuple(map(torch.from_numpy, data))

    def run() -> object:
        x = tensors[at].clone().requires_grad_()
        mine = (*tensors[:at], x, *tensors[at + 1 :])
        total(name, call(torch.linalg, name, mine), torch.sum).backward()
        return x.grad

    return run


def answer(library: str, name: str, n: int) -> dict:
    timing = time_together({"it": gradient_of(library, name, n)}, rounds=7)["it"]
    return {"seconds": timing.median, "text": str(timing)}


def compare_gradients(n: int) -> list[list[str]]:
    rows = []
    for name in FUNCTIONS:
        found = {}
        for library in ("cotan", "torch"):
            peer = Peer(__file__, library)
            found[library] = peer.ask(library=library, name=name, n=n)
            peer.close()
        texts = [found[k].get("text", found[k].get("error", "")) for k in ("cotan", "torch")]
        both = all("seconds" in x for x in found.values())
        ratio = found["torch"]["seconds"] / found["cotan"]["seconds"] if both else 0.0
        rows.append([f"`{name}`", *texts, f"{ratio:.1f}" if both else "-"])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables there too")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        serve(answer)
        return
    os.environ.update(ENVIRONMENT)
    n = options.size
    values = table(["value", "cotan", "NumPy", "NumPy / cotan"], compare_values(n))
    head = ["value and gradient", "cotan", "PyTorch", "PyTorch / cotan"]
    gradients = table(head, compare_gradients(n))
    text = (
        f"### Decompositions and systems of equations\n\nMatrices of {n} × {n}, float64, medians "
        f"with quartiles; {machine()}. `benches/python/linalg.py` measures.\n\n{values}\n\n"
        f"{gradients}"
    )
    print(text)
    if options.markdown:
        write_section(options.markdown, "linalg", text)


if __name__ == "__main__":
    sys.exit(main())
