"""From the start of a process to its first gradient: fresh processes, which take turns."""

import inspect
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from _harness import environment
from workloads import cross_entropy_by_hand, mlp, mlp_by_hand, mlp_data, mlp_jax, mlp_torch

# What a script does after it has loaded the arguments into `a`.
SCRIPTS = {
    "cotan": (
        "import cotan as ct",
        [mlp],
        "ct.value_and_gradient(lambda *p: mlp(np, *a[:2], *p), *a[2:])",
    ),
    "prepared": (
        "import cotan as ct",
        [mlp],
        (
            "ct.prepare(lambda *p: mlp(np, *a[:2], *p), *a[2:], "
            "transform='value_and_gradient')(*a[2:])"
        ),
    ),
    "jax": (
        "import jax, jax.numpy as jnp",
        [mlp_jax],
        (
            "jax.block_until_ready(jax.jit(jax.value_and_grad("
            "lambda *p: mlp_jax(jnp, *p), argnums=(2, 3, 4, 5, 6, 7)))(*a))"
        ),
    ),
    "torch": (
        "import torch",
        [mlp_torch],
        (
            "t = [torch.from_numpy(x) for x in a]; w = [x.requires_grad_() for x in t[2:]]; "
            "torch.autograd.grad(mlp_torch(torch, *t), w)"
        ),
    ),
    "compiled": (
        "import torch",
        [mlp_torch],
        (
            "torch.compile(torch.func.grad_and_value(lambda *p: mlp_torch(torch, *p), "
            "argnums=(2, 3, 4, 5, 6, 7)))(*[torch.from_numpy(x) for x in a])"
        ),
    ),
    "autograd": (
        "import autograd, autograd.numpy as anp",
        [mlp],
        "autograd.value_and_grad(lambda *p: mlp(anp, *p), argnum=(2, 3, 4, 5, 6, 7))(*a)",
    ),
    "numpy": ("pass", [cross_entropy_by_hand, mlp_by_hand], "mlp_by_hand(*a)"),
}


def script(library: str, folder: Path) -> str:
    imports, functions, call = SCRIPTS[library]
    load = f"a = [np.load(f'{folder}/{{k}}.npy') for k in range({len(list(folder.iterdir()))})]"
    text = "\n".join(inspect.getsource(function) for function in functions)
    head = "from importlib import import_module\nfrom typing import Any\nimport numpy as np"
    return f"{head}\n{imports}\n{text}\n{load}\n{call}\n"


def run(text: str, cache: str) -> float | None:
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", text],
        env=environment()
        | {
            "TORCHINDUCTOR_CACHE_DIR": cache,
            # What is imported is compiled once, as if installed, and nothing is left behind.
            "PYTHONPYCACHEPREFIX": os.path.join(os.path.dirname(cache), "bytecode"),
        },
        capture_output=True,
        check=False,
    )
    return time.perf_counter() - start if done.returncode == 0 else None


def cold_starts(libraries: Sequence[str], rounds: int) -> dict[str, dict[str, float]]:
    """For each library the medians: to the first gradient, and of the import beyond NumPy's.

    Files are in the page cache; what PyTorch compiles is compiled anew each time.
    """
    samples: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root, "arguments")
        folder.mkdir()
        for k, x in enumerate(mlp_data()):
            np.save(folder / f"{k}.npy", x)
        out = set()
        for round_ in range(rounds + 1):
            plain = run("import numpy as np", os.path.join(root, "none"))
            for library in libraries:
                if library in out or (library == "compiled" and round_ > 3):
                    continue
                cache = os.path.join(root, f"cache-{round_}")
                first = run(script(library, folder), cache)
                imported = run(f"import numpy as np\n{SCRIPTS[library][0]}", cache)
                if first is None or imported is None or plain is None:
                    out.add(library)
                    samples.pop(library, None)
                elif round_:  # the first reads the files from the disk
                    kept = samples.setdefault(library, {"first": [], "import": []})
                    kept["first"].append(first)
                    kept["import"].append(imported - plain)
    return {
        library: {what: statistics.median(found) for what, found in kept.items()}
        for library, kept in samples.items()
    }
