"""Tensors as ndarrays and back, on the same memory.

Problem: what cannot be shared (another device, a layout or dtype that NumPy has not) has to be said
in words that tell what to write instead.
"""

from typing import Any

import numpy as np
import torch

from cotan import _core
from cotan._src.typing import NDArray


def to_numpy(x: Any, name: str, index: int | None) -> NDArray:
    """Give a tensor as an ndarray on the same memory.

    Raises `TypeError` for tensors of other devices, layouts and dtypes.
    """
    try:
        # `detach` makes a tensor; most need none.
        return (x.detach() if x.requires_grad else x).numpy()  # type: ignore[no-any-return]
    except (TypeError, RuntimeError):
        return _otherwise(x, name, index)


def to_tensor(x: Any) -> Any:
    """Give an array of a result as a tensor, on the same memory where nobody else has it."""
    if type(x) is not np.ndarray:
        x = np.asarray(x)
    flags = x.flags
    # Larger results lie in memory that cotan has handed over.
    if flags.writeable and (flags.owndata or type(x.base) is _core._Memory):
        try:
            return torch.from_numpy(x)
        except (TypeError, ValueError):
            pass  # a dtype or an order of bytes that PyTorch has not, strides below zero
    x = np.array(x, order="C")
    if x.dtype.kind == "V" and x.dtype.name == "bfloat16":
        return torch.from_numpy(x.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(x.astype(x.dtype.newbyteorder("=")))


def _otherwise(x: Any, name: str, index: int | None) -> NDArray:
    what = f"{name}: " + ("a cotangent" if index is None else f"tensor {index}")
    what += f" of shape {tuple(x.shape)} and dtype {str(x.dtype).removeprefix('torch.')}"
    if x.device.type != "cpu":
        raise TypeError(
            f"{what} is on {x.device}, and cotan computes in memory of the CPU; pass x.cpu(), and "
            "move the result to the device"
        )
    if torch._C._functorch.is_legacy_batchedtensor(x):
        raise TypeError(
            f"{what} is batched by torch.autograd (is_grads_batched=True, vectorize=True), which "
            "does not ask functions how they are mapped; use torch.func.jacrev, jacfwd or vmap"
        )
    if x.layout != torch.strided or x.is_nested:
        raise TypeError(f"{what} has the layout {x.layout}; pass x.to_dense()")
    if x.is_quantized:
        raise TypeError(f"{what} is quantized; pass x.dequantize()")
    plain = x.detach().resolve_conj().resolve_neg()
    if x.dtype == torch.bfloat16:
        try:
            import ml_dtypes
        except ImportError:
            raise TypeError(
                f"{what} has a dtype of the package ml_dtypes, which is not installed; pass "
                "x.float()"
            ) from None
        bits: NDArray = plain.view(torch.int16).numpy()
        return bits.view(ml_dtypes.bfloat16)
    try:
        array: NDArray = plain.numpy()
    except (TypeError, RuntimeError) as error:
        raise TypeError(f"{what} is no array of NumPy: {error}") from error
    return array
