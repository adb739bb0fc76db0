"""How each library gets what a row asks for, and whether it is right."""

import math
from importlib import import_module
from typing import Any

import numpy as np

from cotan._src.bench import libraries
from cotan._src.bench.libraries import (
    BUILD,
    Built,
    NotWrittenError,
    WrongResult,
    as_is,
    torch_arrays,
    torch_parts,
)
from cotan._src.bench.timing import THREADS
from rows._row import Row

TITLES = {**libraries.TITLES, "func": "PyTorch (torch.func)"}


def torch_defaults(w: Row) -> None:
    """Let PyTorch make floats of the row's dtype, on as many threads as the others."""
    torch = import_module("torch")

    torch.set_num_threads(THREADS)
    torch.set_default_dtype(getattr(torch, w.dtype))


def func(w: Row, arguments: tuple[Any, ...]) -> Built:
    """Call a function transform of PyTorch, without its compiler."""
    torch = import_module("torch")

    f, xs = torch_parts(w, arguments)
    gradient = torch.func.grad_and_value(f, argnums=w.wrt)

    def call() -> Any:
        gradients, value = gradient(*xs)
        return value, gradients

    return call, torch_arrays


def build(library: str, w: Row, arguments: tuple[Any, ...]) -> Built:
    """Make the call of a library; a `NotWrittenError` says why there is none."""
    if library in w.without:
        raise NotWrittenError(w.without[library])
    if library in ("torch", "compiled", "func"):
        torch_defaults(w)
    if library == "func":
        if not w.torch_func:
            raise NotWrittenError("not written")
        return func(w, arguments)
    if w.builders:
        if library not in w.builders:
            raise NotWrittenError("not written")
        if library in ("prepared", "cotan"):
            import_module("cotan").set_num_threads(THREADS)
        return w.builders[library](*arguments), as_is
    if library == "numpy" and w.by_hand is None:
        raise NotWrittenError("not written")
    return BUILD[library](w, arguments)


def check(w: Row, result: tuple[Any, tuple[Any, ...]], arguments: tuple[Any, ...]) -> None:
    """Compare value and gradients with the formula, or with differences, in float64.

    Raises `WrongResult` where they differ by more than the row allows.
    """
    wide = [
        np.float64(x) if getattr(x, "dtype", np.dtype(int)).kind == "f" else x for x in arguments
    ]
    if w.by_hand is None:
        value = float((w.cotan or w.function)(np, *wide))
    else:
        value, exact = w.by_hand(*wide)
    eps = float(np.finfo(w.dtype).eps)
    # A sum may cancel: it is as good as its terms.
    size = max(1.0, float(np.max(np.abs(value))), math.sqrt(sum(np.size(x) for x in wide)))
    error = float(np.max(np.abs(np.asarray(result[0], dtype=np.float64) - value))) / size
    _require(error <= 256 * eps * w.loose, f"value is {error / eps:.3g} eps off")
    found = [np.asarray(g, dtype=np.float64) for g in result[1]]
    for k, g in zip(w.wrt, found, strict=False):
        _require(g.shape == np.shape(wide[k]) or bool(w.builders), f"gradient {k} has {g.shape}")
    if w.by_hand is None:
        _differences(w, found, wide)
        return
    _require(len(exact) == len(found), f"{len(found)} gradients")
    for k, (wanted, g) in enumerate(zip(exact, found, strict=True)):
        _require(g.shape == np.shape(wanted), f"gradient {k} has shape {g.shape}")
        error = float(np.max(np.abs(g - wanted)) / np.max(np.abs(wanted)))
        _require(error <= 16 * eps * w.loose, f"gradient {k} is {error / eps:.3g} eps off")


def _differences(w: Row, gradients: list[np.ndarray], wide: list[Any]) -> None:
    """Compare with differences of fourth order along three directions."""
    text = w.cotan or w.function
    tolerance = (1e-6 if w.dtype == "float64" else 2e-3) * w.loose

    def along(directions: list[np.ndarray], step: float) -> float:
        moved = list(wide)
        for k, d in zip(w.wrt, directions, strict=True):
            moved[k] = wide[k] + step * d
        return float(text(np, *moved))

    draw = np.random.default_rng(1)
    for _ in range(3):
        directions = [draw.normal(size=np.shape(wide[k])) for k in w.wrt]
        h = w.step / math.sqrt(sum(d.size for d in directions))
        near = along(directions, h) - along(directions, -h)
        far = along(directions, 2 * h) - along(directions, -2 * h)
        pairs = list(zip(gradients, directions, strict=True))
        total = sum(float(np.sum(g * d)) for g, d in pairs)
        size = math.sqrt(sum(float(np.sum((g * d) ** 2)) for g, d in pairs))
        error = abs(total - (8 * near - far) / (12 * h)) / size
        _require(error <= tolerance, f"a derivative along a direction is {error:.3g} off")


def _require(is_so: bool, message: str) -> None:
    if not is_so:
        raise WrongResult(message)
