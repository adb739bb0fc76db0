"""Functions and modules of PyTorch inside of recordings of cotan: `lift`, `parameters`."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from cotan import _core
from cotan._src.interop import lifted
from cotan._src.interop.parts import Parts, put_in, take_apart
from cotan._src.interop.torch_tensors import to_numpy, to_tensor
from cotan._src.typing import NDArray


class Lifted(lifted.Hidden):
    """A function of PyTorch that takes and gives arrays; `ct.torch.lift` makes it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function, function)

    def __repr__(self) -> str:
        return f"<ct.torch.lift({self.__name__})>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function with arrays in the places of tensors."""
        parts = take_apart((args, kwargs), "", _is_array)
        call = _Call(self._state, self.__name__, parts)
        results = lifted.call(_Foreign(call, self.__name__), parts.leaves)
        return put_in(call.skeleton_of_results, results)


def parameters(module: Any) -> dict[str, NDArray]:
    """Give the parameters of a module by name, as copies."""
    return {name: to_numpy(p, name, None).copy() for name, p in module.named_parameters()}


def _is_array(x: Any) -> bool:
    return isinstance(x, (np.ndarray, _core.Array))


def _is_tensor(x: Any) -> bool:
    return isinstance(x, torch.Tensor)


class _Call:
    """The function of tensors alone, and the structure of its result."""

    def __init__(self, function: Any, name: str, parts: Parts) -> None:
        self._function, self._name = function, name
        self._skeleton = parts.skeleton
        self.skeleton_of_results: Any = None

    def __call__(self, *tensors: Any) -> list[Any]:
        args, kwargs = put_in(self._skeleton, tensors)
        if isinstance(self._function, torch.nn.Module) and "parameters" in kwargs:
            given = kwargs.pop("parameters")
            result = torch.func.functional_call(self._function, given, args, kwargs, strict=False)
        else:
            result = self._function(*args, **kwargs)
        parts = take_apart(result, "result", _is_tensor)
        if not parts.leaves:
            raise TypeError(f"{self._name}: the result has no tensor in it: {result!r}")
        self.skeleton_of_results = parts.skeleton
        return parts.leaves


class _Foreign:
    """A function of a list of tensors, for cotan."""

    def __init__(self, function: Callable[..., Sequence[Any]], name: str, order: int = 0) -> None:
        self._function, self.name, self._order = function, name, order

    def values(self, arrays: Sequence[NDArray]) -> list[NDArray]:
        with torch.no_grad() if self._order == 0 else torch.enable_grad():
            return _arrays(self._function(*map(_tensor, arrays)), self.name)

    def values_to_differentiate(
        self, arrays: Sequence[NDArray], mask: lifted.Mask
    ) -> tuple[list[NDArray], Any]:
        with torch.enable_grad():
            tensors = [_tensor(x) for x in arrays]
            wanted = [
                x.requires_grad_() for x, is_wanted in zip(tensors, mask, strict=True) if is_wanted
            ]
            results = self._function(*tensors)
        return _arrays(results, self.name), (arrays, wanted, results)

    def cotangents(
        self, kept: Any, arrays: Sequence[NDArray], cts: Sequence[NDArray]
    ) -> list[NDArray] | None:
        before, wanted, results = kept
        if not all(map(np.array_equal, before, arrays)):
            return None
        found = self._grad(results, wanted, [_tensor(ct) for ct in cts], again=False)
        return _arrays(found, self.name)

    def pull(self, mask: lifted.Mask) -> "_Foreign":
        count = len(mask)

        def pulled(*given: Any) -> Sequence[Any]:
            again = any(x.requires_grad for x in given)
            with torch.enable_grad():
                tensors = [
                    x.detach().requires_grad_() if is_wanted and not x.requires_grad else x
                    for x, is_wanted in zip(given[:count], mask, strict=True)
                ]
                wanted = [x for x, is_wanted in zip(tensors, mask, strict=True) if is_wanted]
                results = self._function(*tensors)
                cts = list(given[count:])
                if again:
                    # Rules that are differentiated once look at the cotangents alone.
                    cts = [ct if ct.requires_grad else ct.detach().requires_grad_() for ct in cts]
                return self._grad(results, wanted, cts, again=again)

        return _Foreign(pulled, self.name, self._order + 1)

    def _grad(
        self, results: Sequence[Any], wanted: Sequence[Any], cts: Sequence[Any], *, again: bool
    ) -> Sequence[Any]:
        inexact = [y for y in results if y.is_floating_point() or y.is_complex()]
        pairs = [(y, ct) for y, ct in zip(inexact, cts, strict=True) if y.requires_grad]
        if not pairs and self._order:
            return [torch.zeros_like(x) for x in wanted]
        if not pairs:
            raise _core.NotDifferentiableError(
                f"{self.name}: its result has no gradient in PyTorch, since it is computed under "
                "no_grad or from detach(), item() or numpy(); leave these out, or hold the result "
                "constant with ct.dropgrad"
            )
        try:
            found: Sequence[Any] = torch.autograd.grad(
                [y for y, _ in pairs],
                wanted,
                [ct.to(y.dtype) for y, ct in pairs],
                retain_graph=True,
                create_graph=again,
                allow_unused=True,
                materialize_grads=True,
            )
        except RuntimeError as error:
            raise self._no_more(self._order + 1, str(error)) from error
        if again and _ends_in_errors(found):
            raise self._no_more(self._order + 2, "a rule in it is differentiated once only")
        return found

    def _no_more(self, order: int, reason: str) -> _core.NotDifferentiableError:
        return _core.NotDifferentiableError(
            f"{self.name}: PyTorch has no derivative of order {order} here: {reason}"
        )


def _ends_in_errors(tensors: Sequence[Any]) -> bool:
    """Say whether a result has passed `once_differentiable`.

    That puts a node there which raises, but is not linked to what the rule was computed from: asked
    for a gradient, PyTorch finds no way and gives None.
    """
    waiting, seen = [x.grad_fn for x in tensors], {None}
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            if node.name() == "torch::autograd::Error":
                return True
            waiting += [following for following, _ in node.next_functions]
    return False


def _tensor(x: NDArray) -> Any:
    """Give an array as a tensor, on the same memory if PyTorch may have it."""
    if x.flags.writeable and all(n >= 0 for n in x.strides) and x.dtype.kind != "V":
        return torch.from_numpy(x)
    return to_tensor(x.copy())


def _arrays(tensors: Sequence[Any], name: str) -> list[NDArray]:
    return [to_numpy(x, name, None) for x in tensors]
