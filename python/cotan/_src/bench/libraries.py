"""How each library gets value and gradient of a workload, by calls that do not return before."""

import functools
import math
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from cotan._src.bench.timing import THREADS
from cotan._src.bench.workloads import Function, Workload

# A call without arguments, and what turns its result into (value, gradients) of plain arrays.
Built = tuple[Callable[[], Any], Callable[[Any], tuple[Any, tuple[Any, ...]]]]


class NotWrittenError(LookupError):
    """A workload has no form for a library; the text says why, and stands in its place."""


def as_is(result: Any) -> tuple[Any, tuple[Any, ...]]:
    """Take a result that is a value and gradients of plain arrays."""
    value, gradients = result
    return value, tuple(gradients)


def by_hand(w: Workload, arguments: tuple[Any, ...]) -> Built:
    """Compute the formula in NumPy."""
    if w.hoisted is not None:  # what depends on constants alone is computed once
        call = w.hoisted(*arguments)
        return call, as_is
    return lambda: w.by_hand(*arguments), as_is


def cotan_parts(w: Workload, arguments: tuple[Any, ...]) -> tuple[Function, list[Any]]:
    """Give the function and its arguments as cotan takes them."""
    ct = import_module("cotan")

    ct.set_num_threads(THREADS)
    f = functools.partial(w.cotan or w.function, np)
    return f, [x if k in w.wrt else held(ct, x) for k, x in enumerate(arguments)]


def held(ct: Any, x: Any) -> Any:
    """Hold an array constant; other things are constant as they are."""
    return ct.const(x) if isinstance(x, np.ndarray | np.floating) else x


def pick(w: Workload) -> Callable[[Any], tuple[Any, tuple[Any, ...]]]:
    """Give the gradients that are asked for."""
    return lambda result: (result[0], tuple(result[1][k] for k in w.wrt))


def cotan(w: Workload, arguments: tuple[Any, ...]) -> Built:
    """Call `ct.value_and_gradient`."""
    ct = import_module("cotan")

    f, xs = cotan_parts(w, arguments)
    return lambda: ct.value_and_gradient(f, *xs), pick(w)


def prepared(w: Workload, arguments: tuple[Any, ...]) -> Built:
    """Call a function that `ct.prepare` has recorded."""
    ct = import_module("cotan")

    if not hasattr(ct, "prepare"):
        raise ImportError("this cotan has no prepared gradients")
    f, xs = cotan_parts(w, arguments)
    gradient = ct.prepare(f, *xs, transform="value_and_gradient")
    plain = list(arguments)
    return lambda: gradient(*plain), pick(w)


def jax(w: Workload, arguments: tuple[Any, ...]) -> Built:
    """Call a function that JAX has compiled."""
    jax, jnp = import_module("jax"), import_module("jax.numpy")

    text = w.jax or w.function
    xs = [jnp.asarray(x) for x in arguments]
    given = [k for k in range(len(xs)) if k not in w.constants]

    def f(*some: Any) -> Any:
        everything = list(xs)
        for k, x in zip(given, some, strict=True):
            everything[k] = x
        return text(jnp, *everything)

    gradient = jax.jit(jax.value_and_grad(f, argnums=tuple(given.index(k) for k in w.wrt)))
    some = [xs[k] for k in given]
    return lambda: jax.block_until_ready(gradient(*some)), as_is


def torch_parts(w: Workload, arguments: tuple[Any, ...]) -> tuple[Function, list[Any]]:
    """Give the function and its arguments as PyTorch takes them."""
    torch = import_module("torch")

    torch.set_num_threads(THREADS)
    text = w.torch or w.function

    def tensor(x: Any) -> Any:
        if isinstance(x, np.ndarray):
            return torch.from_numpy(x)
        return float(x)

    xs = [tensor(x) for x in arguments]
    for k in w.wrt:
        if isinstance(xs[k], float):
            xs[k] = torch.tensor(xs[k], dtype=torch.float64)
    return lambda *xs: text(torch, *xs), xs


def torch_arrays(result: Any) -> tuple[Any, tuple[Any, ...]]:
    """Make ndarrays of tensors."""
    value, gradients = result
    return value.detach().numpy(), tuple(g.numpy() for g in gradients)


def torch(w: Workload, arguments: tuple[Any, ...]) -> Built:
    """Call PyTorch without its compiler."""
    torch = import_module("torch")

    f, xs = torch_parts(w, arguments)
    wrt = [xs[k].requires_grad_() for k in w.wrt]

    def call() -> Any:
        value = f(*xs)
        return value, torch.autograd.grad(value, wrt)

    return call, torch_arrays


def compiled(w: Workload, arguments: tuple[Any, ...]) -> Built:
    """Call what PyTorch's compiler made."""
    torch = import_module("torch")

    # It counts how often the same code is compiled, and gives up.
    torch.compiler.reset()
    f, xs = torch_parts(w, arguments)
    gradient = torch.compile(torch.func.grad_and_value(f, argnums=w.wrt), fullgraph=True)

    def call() -> Any:
        gradients, value = gradient(*xs)
        return value, gradients

    return call, torch_arrays


def autograd(w: Workload, arguments: tuple[Any, ...]) -> Built:
    """Call HIPS autograd."""
    autograd, anp = import_module("autograd"), import_module("autograd.numpy")

    if w.autograd is None and w.cotan is not None:
        raise NotWrittenError("it has no function for it")
    text = w.autograd or w.function
    gradient = autograd.value_and_grad(lambda *xs: text(anp, *xs), argnum=w.wrt)
    return lambda: gradient(*arguments), as_is


BUILD: dict[str, Callable[[Workload, tuple[Any, ...]], Built]] = {
    "prepared": prepared,
    "cotan": cotan,
    "jax": jax,
    "torch": torch,
    "compiled": compiled,
    "autograd": autograd,
    "numpy": by_hand,
}
TITLES = {
    "prepared": "cotan, prepared",
    "cotan": "cotan, unmodified",
    "jax": "JAX (jit)",
    "torch": "PyTorch (eager)",
    "compiled": "PyTorch (compiled)",
    "autograd": "HIPS autograd",
    "numpy": "NumPy by hand",
}
PACKAGES = {
    "cotan": "cotan",
    "jax": "jax",
    "torch": "torch",
    "autograd": "autograd",
    "numpy": "numpy",
}


def check(w: Workload, result: tuple[Any, tuple[Any, ...]], arguments: tuple[Any, ...]) -> None:
    """Compare value and gradients with those of the formula in float64.

    Raises `WrongResult` where they differ by more than the workload allows.
    """
    wide = [
        np.float64(x) if getattr(x, "dtype", np.dtype(int)).kind == "f" else x for x in arguments
    ]
    value, gradients = w.by_hand(*wide)
    eps = float(np.finfo(w.dtype).eps)
    _require(len(gradients) == len(result[1]), f"{len(result[1])} gradients")
    for k, (exact, gradient) in enumerate(zip(gradients, result[1], strict=True)):
        found = np.asarray(gradient, dtype=np.float64)
        _require(found.shape == np.shape(exact), f"gradient {k} has shape {found.shape}")
        error = float(np.max(np.abs(found - exact)) / np.max(np.abs(exact)))
        _require(error <= 16 * eps * w.loose, f"gradient {k} is {error / eps:.3g} eps off")
    # A sum may cancel: it is as good as its terms.
    size = max(1.0, abs(float(value)), math.sqrt(sum(np.size(x) for x in wide)))
    error = abs(float(np.asarray(result[0])) - float(value)) / size
    _require(error <= 256 * eps * w.loose, f"value is {error / eps:.3g} eps off")


class WrongResult(Exception):  # noqa: N818 - a cell of a table says it
    """A library's value or gradient is not that of the formula."""


def _require(is_so: bool, message: str) -> None:
    if not is_so:
        raise WrongResult(message)
