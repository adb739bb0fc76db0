"""Functions of NumPy as functions of PyTorch: `wrap`.

Problem: a program in PyTorch calls a function that is written for NumPy. PyTorch is given an
`autograd.Function` whose rules are functions of the same kind: the backward of a wrapped function
calls its wrapped pullback, the forward mode its wrapped pushforward, `vmap` the mapped function. So
derivatives of any order, in any combination, come from cotan.
"""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.autograd import forward_ad

from cotan import _core
from cotan._src.interop.flat import Back, Cache, Flat, Mask, NotAlone
from cotan._src.interop.parts import Parts, Place, put_in, take_apart
from cotan._src.interop.torch_tensors import to_numpy, to_tensor
from cotan._src.typing import Args, Function, Kwargs, NDArray

_TENSORS = frozenset((torch.Tensor, torch.nn.Parameter))
_NO_KEYWORDS: Kwargs = {}


class Wrapped:
    """A function of NumPy that takes and gives tensors; `ct.torch.wrap` makes it."""

    def __init__(self, function: Function, is_prepared: bool) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._is_prepared = is_prepared
        self._name = getattr(function, "__name__", None) or type(function).__name__
        self._flats = Cache()

    def __repr__(self) -> str:
        return f"<ct.torch.wrap({self._name})>"

    def __get__(self, instance: object, owner: type | None = None) -> Function:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function with tensors in the places of arrays."""
        if torch.compiler.is_compiling():
            return _opaque(self)(*args, **kwargs)
        if kwargs or not _TENSORS.issuperset(map(type, args)):
            return self._taken(args, kwargs).run()
        flat = self._flats.get(len(args)) or self._of_tensors(len(args))
        if (
            flat.is_alone
            and torch.is_grad_enabled()
            and forward_ad._current_level < 0
            and not torch._C._are_functorch_transforms_active()
        ):
            mask = tuple([x.requires_grad for x in args])
            if True in mask:
                try:
                    return _Alone.apply(flat, mask, *args)
                except NotAlone:
                    pass
        return _Call(flat, (), args).run()

    def _of_tensors(self, count: int) -> Flat:
        flat: Flat = self._flats.made(
            count, lambda: Flat(self._function, self._name, self._is_prepared)
        )
        return flat

    def _taken(self, args: Args, kwargs: Kwargs) -> "_Call":
        parts = take_apart((args, kwargs), "", _is_array)
        is_tensor = [isinstance(leaf, torch.Tensor) for leaf in parts.leaves]
        tensors = [x for x, t in zip(parts.leaves, is_tensor, strict=True) if t]
        constants = [x for x, t in zip(parts.leaves, is_tensor, strict=True) if not t]
        # Tensors come first among the arguments of the flat function.
        order = sorted(range(len(is_tensor)), key=lambda i: not is_tensor[i])
        place = [order.index(i) for i in range(len(order))]

        def make() -> Flat:
            function = self._function
            skeleton = parts.skeleton

            def called(*leaves: Any) -> Any:
                args, kwargs = put_in(skeleton, [leaves[i] for i in place])
                return function(*args, **kwargs)

            return Flat(called, self._name, self._is_prepared and parts.key is not None)

        flat = make() if parts.key is None else self._flats.made((parts.key, *is_tensor), make)
        return _Call(flat, tuple(constants), tensors)


@functools.cache
def _opaque(wrapped: Wrapped) -> Any:
    """Give the function as one that `torch.compile` calls and does not look into."""
    return torch.compiler.disable(wrapped, recursive=True)


def _is_array(x: Any) -> bool:
    return isinstance(x, (torch.Tensor, np.ndarray))


class _Call:
    """One call of a wrapped function: what its rules share."""

    __slots__ = ("back", "constants", "flat", "mask", "parts", "tensors")

    def __init__(self, flat: Flat, constants: tuple[NDArray, ...], tensors: Sequence[Any]) -> None:
        self.flat, self.constants, self.tensors = flat, constants, tensors
        self.mask: Mask = ()
        self.back: Back | None = None
        self.parts: Parts | None = None

    def run(self) -> Any:
        """Give the result, with tensors for its arrays."""
        tensors = self.tensors
        if torch._C._are_functorch_transforms_active():
            results = _Transformed.apply(self, *tensors)
        else:
            self.mask = _active(tensors)
            if True not in self.mask and forward_ad._current_level < 0:
                results = self.values(tensors)
            else:
                results = _Recorded.apply(self, *tensors)
        # The rules keep the call, not what it was called with.
        self.tensors = ()
        skeleton = self.parts.skeleton  # type: ignore[union-attr]
        return results[0] if type(skeleton) is Place else put_in(skeleton, results)

    def arrays(self, tensors: Sequence[Any]) -> list[NDArray]:
        """Give the arguments of the flat function."""
        found = [to_numpy(x, self.flat.name, i) for i, x in enumerate(tensors)]
        return [*found, *self.constants]

    def values(self, tensors: Sequence[Any]) -> tuple[Any, ...]:
        """Compute the result without what a pullback needs."""
        self.parts = self.flat.value(self.arrays(tensors))
        return self._results()

    def values_with_pullback(self, tensors: Sequence[Any]) -> tuple[Any, ...]:
        """Compute the result, and keep its pullback."""
        mask = self.mask + (False,) * len(self.constants)
        self.parts, self.back = self.flat.value_and_pullback(self.arrays(tensors), mask)
        return self._results()

    def _results(self) -> tuple[Any, ...]:
        leaves, self.parts.leaves = self.parts.leaves, []  # type: ignore[union-attr]
        return tuple([to_tensor(x) for x in leaves])

    def derived(self, flat: Flat, tensors: Sequence[Any], more: Sequence[Any]) -> Any:
        """Call a function that was derived from this one, with tensors behind its arguments."""
        constants = len(self.constants)
        if constants:
            flat = _with_constants_last(flat, len(tensors), constants)
        return _Call(flat, self.constants, [*tensors, *more]).run()


def _with_constants_last(flat: Flat, count: int, constants: int) -> Flat:
    """Let a function whose constants come behind its first arguments take them at the end."""
    end = count + constants

    def make() -> Flat:
        def turned(*given: Any) -> Any:
            rest = given[count : len(given) - constants]
            return flat.function(*given[:count], *given[len(given) - constants :], *rest)

        return Flat(turned, flat.name, flat.is_prepared)

    found: Flat = flat._derived.made(("last", count, end), make)
    return found


def _active(tensors: Sequence[Any]) -> Mask:
    if not torch.is_grad_enabled():
        return ()
    return tuple([x.requires_grad for x in tensors])


def _backward(ctx: Any, cts: Sequence[Any]) -> list[Any]:
    """Give the cotangents of the tensors, by a function that can be differentiated again."""
    call: _Call = ctx.call
    tensors = ctx.saved_tensors
    wanted = ctx.needs_input_grad[1:]
    mask = tuple(wanted) + (False,) * len(call.constants)
    cts = [ct for ct, is_wanted in zip(cts, ctx.has_tangent, strict=True) if is_wanted]
    return list(call.derived(call.flat.pull(mask), tensors, cts))


def _spread(wanted: Sequence[bool], found: Sequence[Any]) -> tuple[Any, ...]:
    rest = iter(found)
    return (None, *(next(rest) if is_wanted else None for is_wanted in wanted))


def _jvp(ctx: Any, tangents: Sequence[Any]) -> tuple[Any, ...]:
    call: _Call = ctx.call
    tensors = ctx.saved_tensors
    mask = tuple(t is not None for t in tangents)
    flat = call.flat.push(mask + (False,) * len(call.constants))
    found = call.derived(flat, tensors, [t for t in tangents if t is not None])
    rest = iter(found)
    return tuple(next(rest) if has else None for has in ctx.has_tangent)


def _set_up(ctx: Any, call: _Call, tensors: Sequence[Any], results: Sequence[Any]) -> None:
    ctx.call = call
    ctx.save_for_backward(*tensors)
    if forward_ad._current_level >= 0:
        ctx.save_for_forward(*tensors)
    ctx.has_tangent = [y.dtype.is_floating_point or y.dtype.is_complex for y in results]
    if False in ctx.has_tangent:
        pairs = zip(results, ctx.has_tangent, strict=True)
        ctx.mark_non_differentiable(*(y for y, has in pairs if not has))


class _Recorded(torch.autograd.Function):  # type: ignore[misc]
    """A call that PyTorch's own autograd follows."""

    @staticmethod
    def forward(ctx: Any, call: _Call, *tensors: Any) -> tuple[Any, ...]:
        results = call.values_with_pullback(tensors) if True in call.mask else call.values(tensors)
        _set_up(ctx, call, tensors, results)
        return results

    @staticmethod
    def backward(ctx: Any, *cts: Any) -> tuple[Any, ...]:
        call: _Call = ctx.call
        wanted = ctx.needs_input_grad[1:]
        if torch.is_grad_enabled() or call.back is None:
            return _spread(wanted, _backward(ctx, cts))
        # It refuses tensors that were written to, and a second pass over what was let go.
        _ = ctx.saved_tensors
        given = [
            to_numpy(ct, call.flat.name, None)
            for ct, has in zip(cts, ctx.has_tangent, strict=True)
            if has
        ]
        return _spread(wanted, [to_tensor(ct) for ct in call.back(given)])

    @staticmethod
    def jvp(ctx: Any, _call: None, *tangents: Any) -> tuple[Any, ...]:
        return _jvp(ctx, tangents)


class _Alone(torch.autograd.Function):  # type: ignore[misc]
    """A call of tensors whose result is one tensor: `_Recorded`, without what that can besides."""

    # Functions of a line are written out here: each call costs as much as a small operation.

    @staticmethod
    def forward(ctx: Any, flat: Flat, mask: Mask, *tensors: Any) -> Any:
        ctx.save_for_backward(*tensors)
        try:
            if len(tensors) == 1:
                arrays = [tensors[0].detach().numpy()]
            else:
                arrays = [(x.detach() if x.requires_grad else x).numpy() for x in tensors]
        except (TypeError, RuntimeError):
            arrays = [to_numpy(x, flat.name, i) for i, x in enumerate(tensors)]
        slope = flat.slopes.get(mask)
        value, slopes, pull = (slope and slope(arrays)) or flat.alone(arrays, mask)
        ctx.kept = flat, mask, slopes, pull
        return to_tensor(value)

    @staticmethod
    def backward(ctx: Any, ct: Any) -> tuple[Any, ...]:
        # It refuses tensors that were written to, and a second pass over what was let go.
        tensors = ctx.saved_tensors
        flat, mask, slopes, pull = ctx.kept
        if torch.is_grad_enabled():
            found = _Call(flat.pull(mask), (), [*tensors, ct]).run()
            return None, *_spread(mask, found)
        if slopes is not None:
            tangents = [None if s is None else torch.from_numpy(s) * ct for s in slopes]
        else:
            try:
                dy = ct.numpy()
            except (TypeError, RuntimeError):
                dy = to_numpy(ct, flat.name, None)
            found = pull(dy)
            if type(pull) is functools.partial:
                if len(mask) == 1:
                    return None, None, to_tensor(found)
                cts = found if type(found) is tuple else (found,)
                return None, *_spread(mask, [to_tensor(x) for x in cts])
            if len(found) > 1:
                _core.force_all([x for x in found if x is not None])
            tangents = [None if x is None else to_tensor(_core.value(x)) for x in found]
        if type(None) in map(type, tangents):
            tangents = _zeros_for_none(tangents, tensors, mask)
        return None, None, *tangents


def _zeros_for_none(found: Sequence[Any], tensors: Sequence[Any], mask: Mask) -> list[Any]:
    triples = zip(found, tensors, mask, strict=True)
    return [torch.zeros_like(x) if ct is None and is_in else ct for ct, x, is_in in triples]


class _Transformed(torch.autograd.Function):  # type: ignore[misc]
    """A call inside of transforms of `torch.func`."""

    @staticmethod
    def forward(call: _Call, *tensors: Any) -> tuple[Any, ...]:
        return call.values(tensors)

    @staticmethod
    def setup_context(ctx: Any, inputs: Sequence[Any], output: tuple[Any, ...]) -> None:
        _set_up(ctx, inputs[0], inputs[1:], output)

    @staticmethod
    def backward(ctx: Any, *cts: Any) -> tuple[Any, ...]:
        return _spread(ctx.needs_input_grad[1:], _backward(ctx, cts))

    @staticmethod
    def jvp(ctx: Any, _call: None, *tangents: Any) -> tuple[Any, ...]:
        return _jvp(ctx, tangents)

    @staticmethod
    def vmap(info: Any, in_dims: Sequence[Any], call: _Call, *tensors: Any) -> Any:
        axes = (*in_dims[1:], *(None for _ in call.constants))
        mapped = _Call(call.flat.mapped(axes, info.batch_size), call.constants, tensors)
        results = _Transformed.apply(mapped, *tensors)
        call.parts = mapped.parts
        return results, (0,) * len(results)
