"""Optimisers for training: SGD, Adam and others, over parameters of any structure.

They work as in optax: `opt.init(params)` gives a state, `opt.update(grads, state, params)` gives
updates and the next state, `apply_updates` adds the updates; `opt.step` does both.

>>> import cotan as ct
>>> opt = ct.optim.adam(0.1)
>>> params = {"w": 1.0}
>>> state = opt.init(params)
>>> for _ in range(100):
...     grads = ct.gradient(lambda p: (p["w"] - 3.0) ** 2, params)
...     params, state = opt.step(grads, state, params)
>>> abs(params["w"] - 3.0) < 0.1
True
"""

from cotan._src.optim.optax import from_optax
from cotan._src.optim.optimizers import adagrad, adam, adamw, rmsprop, sgd
from cotan._src.optim.rules import (
    add_decayed_weights,
    clip,
    clip_by_global_norm,
    global_norm,
    scale,
    scale_by_adam,
    scale_by_learning_rate,
    scale_by_rms,
    scale_by_rss,
    trace,
)
from cotan._src.optim.schedules import (
    constant_schedule,
    cosine_decay_schedule,
    exponential_decay,
    join_schedules,
    linear_schedule,
    piecewise_constant_schedule,
    warmup_cosine_decay_schedule,
)
from cotan._src.optim.transformation import GradientTransformation, apply_updates, chain

__all__ = [
    "GradientTransformation",
    "adagrad",
    "adam",
    "adamw",
    "add_decayed_weights",
    "apply_updates",
    "chain",
    "clip",
    "clip_by_global_norm",
    "constant_schedule",
    "cosine_decay_schedule",
    "exponential_decay",
    "from_optax",
    "global_norm",
    "join_schedules",
    "linear_schedule",
    "piecewise_constant_schedule",
    "rmsprop",
    "scale",
    "scale_by_adam",
    "scale_by_learning_rate",
    "scale_by_rms",
    "scale_by_rss",
    "sgd",
    "trace",
    "warmup_cosine_decay_schedule",
]
