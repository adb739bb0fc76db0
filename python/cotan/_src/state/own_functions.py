"""Tells which functions of cotan only compute: transforms, loops, and those of the primitive table.

Problem: a function that is replayed unasked may ask for a gradient, or loop with `scan`. A replay
does that without running Python. It must not leave out what can be seen: a hook, a print, a
question whether something is differentiated. What is not listed here is not known to be harmless.
"""

import functools
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from cotan import _core

_HOME = "cotan._src.api."
# Functions of Python functions and arrays that compute, and what they give for functions (`_maker`
# that of `jacfwd` and `jacrev`).
_COMPUTING = frozenset({
    "array", "asarray", "avg_pool", "checkpoint", "cond", "const", "conv", "conv_transpose",
    "dropgrad", "fori_loop", "grad", "gradient", "hessian", "hvp", "jacfwd", "jacobian", "jacrev",
    "jvp", "max_pool", "nograd", "scan", "value_and_grad", "value_and_gradient", "vhp", "vmap",
    "while_loop", "_maker",
})  # fmt: skip
#: Modules of the package, some of which are imported when they are used.
SUBMODULES = frozenset({
    "debug", "implicit", "jax", "math", "nn", "numpy", "optim", "optimize", "parallel", "pytensor",
    "random", "scipy", "torch",
})  # fmt: skip


def computes(value: Any) -> bool:
    """Say whether something is the package `cotan`, or a function of it that only computes.

    A function that `grad` or `vmap` has made counts: whose gradient it is can be reached.
    """
    kind = type(value)
    if kind is ModuleType:
        return bool(value.__name__ == "cotan")
    if kind is BuiltinFunctionType:
        known = _COMPUTING | _primitives()
        return value.__self__ is _core and value.__name__ in known
    if kind is not FunctionType or not str(value.__globals__.get("__name__")).startswith(_HOME):
        return False
    # The name in the code is that of the transform, whatever function it was given.
    return value.__code__.co_qualname.partition(".")[0] in _COMPUTING


@functools.cache
def _primitives() -> frozenset[str]:
    return frozenset(entry["name"] for entry in _core.table())


def made_of(function: Any) -> tuple[Any, tuple[object, ...]]:
    """Give the user's function that transforms were applied to, and what these are.

    Of `grad(vmap(f))` that is `f`. The second one tells what was made of it, with the options.
    It is read off the variables `function`, or `innermost` and `options`, that transforms capture.
    """
    applied: list[object] = []
    while type(function) is FunctionType and function.__closure__ and computes(function):
        code, cells = function.__code__, function.__closure__
        captured = {
            name: cell.cell_contents for name, cell in zip(code.co_freevars, cells, strict=True)
        }
        if "innermost" in captured:
            # Made by `vmap`, which has asked this itself.
            return captured["innermost"], (*applied, *captured["options"])
        if "function" not in captured:
            break
        function = captured.pop("function")
        # True is no 1 here.
        options = (str(x) if isinstance(x, bool) else x for x in captured.values())
        applied += code.co_qualname, *options
    return function, tuple(applied)
