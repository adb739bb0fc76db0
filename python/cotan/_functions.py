"""The functions of the primitive table as public functions of the package."""

from cotan import _core
from cotan._core import (
    argmax,
    argmin,
    argsort,
    broadcast_to,
    cast,
    concatenate,
    cumsum,
    flip,
    gather,
    logsumexp,
    matmul,
    max,
    mean,
    min,
    pad,
    prod,
    reshape,
    scatter,
    scatter_add,
    sum,
    transpose,
)

_elementwise = [entry["name"] for entry in _core.table() if entry["class"] == "elementwise"]
globals().update({name: getattr(_core, name) for name in _elementwise})

__all__ = [  # noqa: PLE0604
    "argmax",
    "argmin",
    "argsort",
    "broadcast_to",
    "cast",
    "concatenate",
    "cumsum",
    "flip",
    "gather",
    "logsumexp",
    "matmul",
    "max",
    "mean",
    "min",
    "pad",
    "prod",
    "reshape",
    "scatter",
    "scatter_add",
    "sum",
    "transpose",
    *_elementwise,
]
