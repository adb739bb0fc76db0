"""`A @ B` where a sparse matrix or the other operand is active."""

from typing import Any

import numpy as np

from cotan import _core
from cotan._src.numpy.matrix import Matrix, asmatrix, is_matrix
from cotan._src.rebind.numpy_substitutes import asarray, gathered
from cotan._src.runtime.registry import ALWAYS, METHOD, override
from cotan._src.runtime.values import is_array
from cotan._src.scipy.sparse.products import (
    BASES,
    Sparse,
    has_active_entries,
    method_of,
    product_with,
)
from cotan._src.scipy.sparse.traced import product
from cotan._src.typing import AnyArray


def _matmul(self: Sparse, other: Any) -> AnyArray | Sparse:
    if hasattr(other, "tocoo"):
        return product(self, other)
    if np.ndim(other) == 0:
        return self._mul_scalar(other)
    x = asarray(other)
    if x.ndim > 2 or len(self.shape) != 2:
        raise ValueError(
            f"matmul: a sparse matrix of shape {self.shape} and an array of shape {x.shape} do "
            "not fit"
        )
    kind = np.result_type(self.dtype, x.dtype)
    return product_with(self, x if x.dtype.kind in "fc" else _core.asarray(x, kind))


def _lift_matmul(base: str) -> None:
    @override(f"{base}._matmul_dispatch", kind=METHOD, when=ALWAYS)
    def matmul(self: Sparse, other: Any) -> AnyArray | Sparse | Matrix:
        result: AnyArray | Sparse | Matrix
        other = gathered(other)
        if is_matrix(other):
            made: Any = _matmul(self, other.A)
            result = asmatrix(made)
            return result
        if is_array(other) or has_active_entries(self) or has_active_entries(other):
            return _matmul(self, other)
        result = method_of(base, "_matmul_dispatch")(self, other)
        return result


for _base in BASES:
    _lift_matmul(_base)
