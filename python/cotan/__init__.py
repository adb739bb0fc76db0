"""Automatic differentiation of NumPy code, with lazy cotangents and a Rust core.

>>> import cotan as ct
>>> import numpy as np
>>> ct.gradient(lambda x: np.sum(np.sin(x) ** 2), np.array([0.0, np.pi / 4]))
(array([0., 1.]),)
"""

import atexit as _atexit
import os as _os
from typing import TYPE_CHECKING as _TYPE_CHECKING

from cotan._src.runtime import versions as _versions  # noqa: F401 (it checks them)

# isort: split

from cotan._src.runtime import compiled_module as _compiled_module  # noqa: F401 (it imports it)

# isort: split

from cotan import _core as _core
from cotan import debug as debug
from cotan._core import (
    Array,
    Device,
    NotDifferentiableError,
    Prepared,
    Program,
    Pullback,
    Pushforward,
    __version__,
    array,
    asarray,
    clear_caches,
    device,
    devices,
    dropgrad,
    from_dlpack,
    gradient,
    isderiving,
    jvp,
    linear_transpose,
    linearize,
    nestlevel,
    num_threads,
    pullback,
    set_num_threads,
    simd_level,
    trace,
    value_and_gradient,
)
from cotan._src.api.check_grads import check_grads
from cotan._src.api.checkpoint import checkpoint, name
from cotan._src.api.control_flow import cond, fori_loop, scan, while_loop
from cotan._src.api.convolution import avg_pool, conv, conv_transpose, max_pool
from cotan._src.api.custom_rules import adjoint, clip_gradient, custom_jvp, hook, showgrad
from cotan._src.api.derivatives import const, grad, nograd, value_and_grad
from cotan._src.api.devices import to_device, use
from cotan._src.api.functions import *  # noqa: F403
from cotan._src.api.functions import __all__ as _functions
from cotan._src.api.jacobian import jacfwd, jacobian, jacrev
from cotan._src.api.operators import hessian_operator, jacobian_operator
from cotan._src.api.other_names import find as __getattr__  # noqa: F401
from cotan._src.api.other_names import listed as __dir__  # noqa: F401
from cotan._src.api.prepare import prepare, prepared
from cotan._src.api.second_order import ggnvp, hessian, hvp, vhp
from cotan._src.api.sparse_derivatives import hessian_sparsity, jacobian_sparsity
from cotan._src.api.sparsity import Coloring, SparsityPattern
from cotan._src.api.to_c import to_c
from cotan._src.api.to_onnx import to_onnx
from cotan._src.api.vmap import vmap
from cotan._src.array.fast_methods import attach as _attach_array
from cotan._src.array.methods import attach as _attach_methods
from cotan._src.array.scalar_classes import scalar_classes as _scalar_classes
from cotan._src.hooks import set_hooks as _set_hooks
from cotan._src.inspect.methods import attach as _attach_pictures
from cotan._src.inspect.nonfinite import NonFiniteError, detect
from cotan._src.inspect.prepared_report import PreparedReport, RerecordingWarning
from cotan._src.inspect.profile import profile
from cotan._src.inspect.report import Report, explain
from cotan._src.interpose import install as _lift
from cotan._src.interpose.install import lift
from cotan._src.interpose.switches import lifted, lifting, strict, warm_up
from cotan._src.program.accumulate import attach as _attach_accumulate
from cotan._src.program.methods import attach as _attach_programs
from cotan._src.program.serialization import load
from cotan._src.tree.class_registry import project_to, register
from cotan._src.tree.forcing import force
from cotan._src.tree.ravel import ravel
from cotan._src.tree.structure import tree_flatten, tree_leaves, tree_structure, tree_unflatten
from cotan._src.tree.tangent import Cotangent, Tangent
from cotan._src.tree.update import trainable_leaves, tree_map, update

vjp = pullback

if _TYPE_CHECKING:  # `__getattr__` imports them when they are used.
    from cotan import implicit as implicit
    from cotan import jax as jax
    from cotan import nn as nn
    from cotan import optim as optim
    from cotan import optimize as optimize
    from cotan import parallel as parallel
    from cotan import pytensor as pytensor
    from cotan import random as random
    from cotan import torch as torch

_set_hooks()
if _os.environ.get("COTAN_LIFTING", "1").strip().lower() in {"0", "false", "no", "off"}:
    _core.disable_overrides()
_core.set_scalar_classes(Array, _scalar_classes)
_attach_array(Array)
_attach_methods(Array)
_attach_programs(Program)
_attach_pictures(Program)
_attach_pictures(Pullback)
_attach_accumulate(Pullback)

_atexit.register(_core.before_exit)
_atexit.register(_core.forget_repeated_functions)
if hasattr(_os, "register_at_fork"):
    _os.register_at_fork(after_in_child=_core.after_fork_in_child)
    _os.register_at_fork(
        before=_lift.before_fork,
        after_in_parent=_lift.after_fork_in_parent,
        after_in_child=_lift.after_fork_in_child,
    )

__all__ = [  # noqa: PLE0604
    "Array",
    "Coloring",
    "Cotangent",
    "Device",
    "NonFiniteError",
    "NotDifferentiableError",
    "Prepared",
    "PreparedReport",
    "Program",
    "Pullback",
    "Pushforward",
    "Report",
    "RerecordingWarning",
    "SparsityPattern",
    "Tangent",
    "__version__",
    "adjoint",
    "array",
    "asarray",
    "avg_pool",
    "check_grads",
    "checkpoint",
    "clear_caches",
    "clip_gradient",
    "cond",
    "const",
    "conv",
    "conv_transpose",
    "custom_jvp",
    "detect",
    "device",
    "devices",
    "dropgrad",
    "explain",
    "force",
    "fori_loop",
    "from_dlpack",
    "ggnvp",
    "grad",
    "gradient",
    "hessian",
    "hessian_operator",
    "hessian_sparsity",
    "hook",
    "hvp",
    "isderiving",
    "jacfwd",
    "jacobian",
    "jacobian_operator",
    "jacobian_sparsity",
    "jacrev",
    "jvp",
    "lift",
    "lifted",
    "lifting",
    "linear_transpose",
    "linearize",
    "load",
    "max_pool",
    "name",
    "nestlevel",
    "nograd",
    "num_threads",
    "prepare",
    "prepared",
    "profile",
    "project_to",
    "pullback",
    "ravel",
    "register",
    "scan",
    "set_num_threads",
    "showgrad",
    "simd_level",
    "strict",
    "to_c",
    "to_device",
    "to_onnx",
    "trace",
    "trainable_leaves",
    "tree_flatten",
    "tree_leaves",
    "tree_map",
    "tree_structure",
    "tree_unflatten",
    "update",
    "use",
    "value_and_grad",
    "value_and_gradient",
    "vhp",
    "vjp",
    "vmap",
    "warm_up",
    "while_loop",
    *_functions,
]
