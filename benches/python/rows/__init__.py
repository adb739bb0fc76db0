"""The rows of `row_table.py`: what users differentiate, whether cotan wins there or loses.

A row says what a user of NumPy would write. `function(np, *arguments)` takes the namespace, so that
the same text serves cotan (with NumPy itself), HIPS autograd, JAX and PyTorch; where a library has
a form of its own for it (a loop, a convolution), `torch`, `jax` or `autograd` hold what its users
write. `by_hand` is the gradient in NumPy, and in float64 the reference; where nobody wrote one,
finite differences are. `tiny` are the arguments of the tests.
"""

from rows import blocks, captured, elementwise, field, networks, products, scalars, steps
from rows._row import Row

GROUPS: dict[str, list[Row]] = {
    "common": [
        *captured.ROWS,
        *products.ROWS,
        *networks.ROWS,
        *blocks.ROWS,
        *elementwise.ROWS,
        *steps.ROWS,
        *scalars.ROWS,
    ],
    "field": field.ROWS,
}
ROWS = [row for group in GROUPS.values() for row in group]

__all__ = ["GROUPS", "ROWS", "Row"]
