"""Gradients by hand in C: the functions of `benches/c`, compiled for this machine and called."""

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from cotan._src.bench.libraries import Built, NotWrittenError, as_is
from rows._row import Row

FOLDER = Path(__file__).parents[2] / "c"
FLAGS = ("-O3", "-march=native")
#: The sizes that a function gets before its arrays, from the arguments of the row.
SIZES: dict[str, Callable[..., tuple[int, ...]]] = {
    "scalar-loop": lambda x: (),
    "lorenz": lambda state, parameters, times: (len(times),),
    "n-body": lambda state, masses, times: (state.shape[1], len(times)),
    "lstm": lambda main, extra, start, text: (main.shape[0], main.shape[3], len(text)),
    "ba": lambda cameras, points, camera, point, seen: (len(seen), len(cameras), len(points)),
    "gmm": lambda alphas, means, icf, x: (*x.shape, len(alphas)),
    "kalman": lambda dynamics, process, noise, look, seen: (len(seen),),
    "satellite": lambda elements, times, seen: (len(times),),
    "ode-calibration": lambda parameters, start, seen: (len(seen),),
}
#: Arguments that only say how often, and are no arrays of the function in C.
COUNTS = {"lorenz": (2,), "n-body": (2,)}


@cache
def library() -> ctypes.CDLL:
    """Compile all functions into one shared library.

    Raises ImportError without a compiler.
    """
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        raise ImportError("no compiler of C")
    with tempfile.TemporaryDirectory() as folder:
        built = os.path.join(folder, "rows.so")
        sources = sorted(map(str, FOLDER.glob("*.c")))
        command = [compiler, *FLAGS, "-shared", "-fPIC", *sources, "-o", built, "-lm"]
        subprocess.run(command, check=True, capture_output=True)
        return ctypes.CDLL(built)


def build(w: Row, arguments: tuple[Any, ...]) -> Built:
    """Call the function of a row: sizes first, then inputs, then where the gradients go."""
    if w.name not in SIZES:
        raise NotWrittenError("not written")
    function = getattr(library(), w.name.replace("-", "_"))
    function.restype = ctypes.c_double
    left_out = COUNTS.get(w.name, ())
    kept = [
        np.ascontiguousarray(x, np.int64 if np.asarray(x).dtype.kind == "i" else np.float64)
        for k, x in enumerate(arguments)
        if k not in left_out
    ]
    gradients = tuple(np.empty(np.shape(arguments[k])) for k in w.wrt)
    given = [
        *map(ctypes.c_long, SIZES[w.name](*arguments)),
        # Pointers that keep their arrays alive.
        *(x.ctypes.data_as(ctypes.c_void_p) for x in (*kept, *gradients)),
    ]

    return lambda: (function(*given), gradients), as_is
