"""Finds names that `cotan` has not got yet: its modules, and what other libraries call its own."""

import sys
from importlib import import_module
from typing import Any

from cotan._src.runtime.deprecation import OldNames

#: Public modules that are imported when they are used for the first time.
MODULES = frozenset(
    ("implicit", "jax", "nn", "optim", "optimize", "parallel", "pytensor", "random", "torch")
)

#: By the name that somebody may ask for, what to say.
_INSTEAD = {
    "lift_module": "modules are looked at by themselves; ct.lift(module, name, rule) adds a rule",
    "jit": "ct.prepare(f, x) records a function once and replays it",
    "compile": "ct.prepare(f, x) records a function once and replays it",
    "make_jaxpr": "ct.trace(f, x) gives the program of a function",
    "eval_shape": "ct.trace(f, x).outputs have the dtypes and shapes of the results",
    "stop_gradient": "ct.dropgrad(x) holds a value constant",
    "detach": "ct.dropgrad(x) holds a value constant",
    "no_grad": "ct.nograd(f) makes a function whose results are constants, ct.dropgrad(x) a value",
    "stopgrad": "ct.dropgrad(x) holds a value constant",
    "elementwise_grad": "the gradient of the sum is the same: ct.grad(lambda x: np.sum(f(x)))",
    "egrad": "the gradient of the sum is the same: ct.grad(lambda x: np.sum(f(x)))",
    "make_vjp": "ct.vjp(f, x) gives the value and the pullback",
    "make_jvp": "ct.jvp(f, (x,), (v,)) gives the value and its tangent",
    "make_hvp": "ct.hvp(f, x, v) gives the product",
    "make_ggnvp": "ct.ggnvp(f, x, v) gives the product",
    "hessian_vector_product": "ct.hvp(f, x, v) gives the product",
    "grad_and_value": "ct.value_and_grad(f) gives the value first",
    "value_and_jacobian": "ct.jacobian(lambda x: (f(x), f(x)), x, has_aux=True) gives both",
    "withgradient": "ct.value_and_gradient(f, x) gives both",
    "withjacobian": "ct.jacobian(lambda x: (f(x), f(x)), x, has_aux=True) gives both",
    "pushforward": "ct.linearize(f, x) gives the value and the pushforward",
    "custom_vjp": "ct.adjoint declares a function with its pullback",
    "custom_gradient": "ct.adjoint declares a function with its pullback",
    "remat": "ct.checkpoint(f) computes intermediate values again",
    "rematerialize": "ct.checkpoint(f) computes intermediate values again",
    "GradientTape": "ct.value_and_gradient(f, x) records f and differentiates it",
    "requires_grad": "pass what is differentiated as an argument, or list arrays: wrt=[x]",
    "backward": "ct.pullback(f, x) gives the value and its pullback",
    "tensor": "ct.array(x) makes an array",
    "vectorize": "ct.vmap(f) maps a function of one example over many",
    "debug_nans": "with ct.detect(): names where the first NaN comes from",
    "detect_anomaly": "with ct.detect(): names where the first NaN comes from",
}


#: Old names of the package itself, and names of other libraries.
OLD_NAMES = OldNames("cotan", renamed={}, instead=_INSTEAD)


def find(name: str) -> Any:
    """Import a public module; for any other name, give what it is called now, or say what does it.

    Raises `AttributeError` for a name that has no successor.
    """
    if name in MODULES:
        return import_module(f"cotan.{name}")
    if name == "load_ipython_extension":  # `%load_ext cotan`
        return import_module("cotan._src.inspect.ipython_magic").load_ipython_extension
    return OLD_NAMES.find(name)


def listed() -> list[str]:
    """Give the names of the package, with those of modules that have not been imported."""
    return sorted({*vars(sys.modules["cotan"]), *MODULES})
