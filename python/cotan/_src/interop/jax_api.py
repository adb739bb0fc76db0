"""What `ct.jax` offers; JAX is imported by the first call."""

from collections.abc import Callable
from typing import Any

from cotan._src.typing import Function


def wrap(
    function: Function, /, *, result_shape: Any = None, prepare: bool = True
) -> Callable[..., Any]:
    """x."""
    from cotan._src.interop.jax_wrap import Wrapped

    return Wrapped(function, result_shape, prepare)
