"""What `ct.torch` offers; PyTorch is imported by the first call."""

from collections.abc import Callable
from typing import Any

from cotan._src.typing import Function


def wrap(function: Function, /, *, prepare: bool = True) -> Callable[..., Any]:
    """x."""
    from cotan._src.interop.torch_wrap import Wrapped

    return Wrapped(function, prepare)
