"""Functions of NumPy as functions of JAX: `wrap`.

Problem: a program in JAX, perhaps compiled, calls a function that is written for NumPy. JAX gets a
primitive whose rules lead to the same primitive: its tangents are the wrapped pushforward, which is
linear and whose transpose is the wrapped pullback; mapped, it is the mapped function. So it is
differentiated in both directions, any number of times. (`custom_vjp` would have reverse mode only.)
Compiled code calls back to Python, as `jax.pure_callback` does.
"""

import functools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from cotan import _core
from cotan._src.api.vmap import vmap
from cotan._src.interop.flat import Cache, Flat, Mask
from cotan._src.interop.parts import Parts, is_number_or_array, put_in, take_apart
from cotan._src.typing import Function

Shapes = list[jax.ShapeDtypeStruct]


class Wrapped:
    """A function of NumPy that takes and gives arrays of JAX; `ct.jax.wrap` makes it."""

    def __init__(self, function: Function, result_shape: Any, is_prepared: bool) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._result = None
        if result_shape is not None:
            self._result = take_apart(result_shape, "result_shape", _has_shape)
        self._is_prepared = is_prepared
        self._name = getattr(function, "__name__", None) or type(function).__name__
        self._nodes = Cache()

    def __repr__(self) -> str:
        return f"<ct.jax.wrap({self._name})>"

    def __get__(self, instance: object, owner: type | None = None) -> Function:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function with arrays of JAX in the places of ndarrays."""
        parts = take_apart((args, kwargs), "", _is_array)
        node = self._node(parts)
        leaves = parts.leaves
        if not any(isinstance(x, jax.core.Tracer) for x in leaves):
            found = node.flat.value([np.asarray(x) for x in leaves])
            return found.build([jax.numpy.asarray(y) for y in found.leaves])
        leaves = [jax.numpy.asarray(x) for x in leaves]
        skeleton, _ = node.results([_struct(x) for x in leaves])
        return put_in(skeleton, _call.bind(*leaves, node=node))

    def _node(self, parts: Parts) -> "_Function":
        def make() -> _Function:
            function, skeleton = self._function, parts.skeleton

            def called(*leaves: Any) -> Any:
                args, kwargs = put_in(skeleton, leaves)
                return function(*args, **kwargs)

            return _Function(Flat(called, self._name, self._is_prepared), self._result)

        if parts.key is None:
            raise TypeError(
                f"{self._name}: an argument cannot be compared with that of other calls, which JAX "
                "has to; pass lists, tuples and dictionaries of arrays, numbers and strings, or "
                "close over it"
            )
        node: _Function = self._nodes.made(parts.key, make)
        return node


def _is_array(x: Any) -> bool:
    return isinstance(x, (jax.Array, np.ndarray))


def _has_shape(x: Any) -> bool:
    return hasattr(x, "shape") and hasattr(x, "dtype")


def _struct(x: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(x.shape, jax.dtypes.canonicalize_dtype(x.dtype))


def _is_inexact(x: Any) -> bool:
    return bool(jax.numpy.issubdtype(x.dtype, jax.numpy.inexact))


# --------------------------------------------------------------------------------------------------
# Functions, and what is derived from them


class _Node(ABC):
    """What the primitive calls: a function, the shapes of its results, its transpose if linear."""

    residuals = 0
    """So many arguments come first in which it is not linear."""

    def __init__(self, flat: Flat) -> None:
        self.flat = flat
        self._derived = Cache()

    @abstractmethod
    def shapes(self, of: Shapes) -> Shapes:
        """Give shapes and dtypes of the results for those of arguments."""

    def transposed(self) -> "_Node":
        """Give the function from what it is not linear in, and cotangents, to cotangents."""
        raise TypeError(f"ct.jax: {self.flat.name} is not linear and has no transpose")

    def push(self, mask: Mask) -> "_Node":
        """Give the function of arguments and tangents."""
        node: _Node = self._derived.made(("push", mask), lambda: _Push(self, mask))
        return node

    def pull(self, mask: Mask) -> "_Node":
        """Give the function of arguments and cotangents."""
        node: _Node = self._derived.made(("pull", mask), lambda: _Pull(self, mask))
        return node

    def mapped(self, axes: tuple[int | None, ...], size: int) -> "_Node":
        """Give the function of many examples."""
        node: _Node = self._derived.made((axes, size), lambda: _Mapped(self, axes, size))
        return node


class _Function(_Node):
    """The function of the user."""

    def __init__(self, flat: Flat, result: Parts | None) -> None:
        super().__init__(flat)
        self._result = result
        self._found = Cache()

    def results(self, of: Shapes) -> tuple[Any, Shapes]:
        """Give the structure of the results, and their shapes."""
        if self._result is not None:
            return self._result.skeleton, [_struct(x) for x in self._result.leaves]
        key = tuple((x.shape, x.dtype) for x in of)
        found: tuple[Any, Shapes] = self._found.made(key, lambda: self._trace(of))
        return found

    def shapes(self, of: Shapes) -> Shapes:
        return self.results(of)[1]

    def _trace(self, of: Shapes) -> tuple[Any, Shapes]:
        taken: list[Parts] = []

        def asked(*arrays: Any) -> tuple[Any, ...]:
            taken.append(take_apart(self.flat.function(*arrays), "result", is_number_or_array))
            return tuple(taken[-1].leaves)

        zeros = [np.zeros(x.shape, x.dtype) for x in of]
        try:
            _core.trace(asked, *zeros)
        except (ArithmeticError, TypeError, ValueError):
            # What reads values is not traced, but runs.
            try:
                with np.errstate(all="ignore"):
                    asked(*zeros)
            except Exception as error:
                error.add_note(
                    "ct.jax.wrap: this happened while the shapes of the results of "
                    f"{self.flat.name} were looked for, with zeros as arguments; result_shape= "
                    "says them"
                )
                raise
        parts = taken[-1]
        shapes = [_struct(x if hasattr(x, "dtype") else np.asarray(x)) for x in parts.leaves]
        return parts.skeleton, shapes


class _Push(_Node):
    """From arguments and tangents to the tangents of results."""

    def __init__(self, of: _Node, mask: Mask) -> None:
        super().__init__(of.flat.push(mask))
        self._of, self._mask, self.residuals = of, mask, len(mask)

    def shapes(self, of: Shapes) -> Shapes:
        return [y for y in self._of.shapes(of[: self.residuals]) if _is_inexact(y)]

    def transposed(self) -> _Node:
        return self._of.pull(self._mask)


class _Pull(_Node):
    """From arguments and cotangents of results to those of arguments, in JAX's convention.

    The transpose of JAX is that for `Re(a b)`, the pullback of cotan that for `Re(conj(a) b)`.
    """

    def __init__(self, of: _Node, mask: Mask) -> None:
        count, pull = len(mask), of.flat.pull(mask)

        def pulled(*given: Any) -> tuple[Any, ...]:
            cts = map(_conjugate, given[count:])
            return tuple(map(_conjugate, pull.function(*given[:count], *cts)))

        super().__init__(Flat(pulled, pull.name, pull.is_prepared))
        self._of, self._mask, self.residuals = of, mask, count

    def shapes(self, of: Shapes) -> Shapes:
        return [x for x, wanted in zip(of, self._mask, strict=False) if wanted]

    def transposed(self) -> _Node:
        return self._of.push(self._mask)


class _Mapped(_Node):
    """The function of many examples, which come first in the results."""

    def __init__(self, of: _Node, axes: tuple[int | None, ...], size: int) -> None:
        super().__init__(of.flat.mapped(axes, size))
        self.of, self.axes, self.size = of, axes, size
        self.residuals = of.residuals

    def shapes(self, of: Shapes) -> Shapes:
        return [_with_axis(y, 0, self.size) for y in self.of.shapes(_of_one(of, self.axes))]

    def transposed(self) -> _Node:
        node: _Node = self._derived.made("transposed", lambda: _MappedTransposed(self))
        return node


class _MappedTransposed(_Node):
    """The transpose of a mapped function, whose results have the examples where that has them.

    What all examples share gets the sum of their cotangents.
    """

    def __init__(self, of: _Mapped) -> None:
        one, self.residuals = of.of.transposed(), of.residuals
        self._of, self._one = of, one
        self._axes = of.axes[of.residuals :]
        function = one.flat.function

        def mapped(*given: Any) -> tuple[Any, ...]:
            axes = self._axes_of(given)
            found = vmap(function, in_axes=axes, axis_size=of.size)(*given)
            return tuple(
                np.sum(ct, 0) if axis is None else np.moveaxis(ct, 0, axis)
                for ct, axis in zip(found, self._axes, strict=True)
            )

        super().__init__(Flat(mapped, of.flat.name, of.flat.is_prepared))

    def _axes_of(self, given: Sequence[Any]) -> tuple[int | None, ...]:
        return (*self._of.axes[: self.residuals], *(0 for _ in given[self.residuals :]))

    def shapes(self, of: Shapes) -> Shapes:
        found = self._one.shapes(_of_one(of, self._axes_of(of)))
        return [
            y if axis is None else _with_axis(y, axis, self._of.size)
            for y, axis in zip(found, self._axes, strict=True)
        ]

    def transposed(self) -> _Node:
        return self._of


def _of_one(of: Shapes, axes: Sequence[int | None]) -> Shapes:
    return [
        x
        if axis is None
        else jax.ShapeDtypeStruct((*x.shape[:axis], *x.shape[axis + 1 :]), x.dtype)
        for x, axis in zip(of, axes, strict=True)
    ]


def _with_axis(x: jax.ShapeDtypeStruct, axis: int, size: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((*x.shape[:axis], size, *x.shape[axis:]), x.dtype)


def _conjugate(x: Any) -> Any:
    return np.conj(x) if x.dtype.kind == "c" else x


# --------------------------------------------------------------------------------------------------
# The primitive


_call = Primitive("cotan_call")
_call.multiple_results = True


def _compute(node: _Node, shapes: Shapes, *arrays: Any) -> list[Any]:
    """Call the function of a node with values."""
    found = node.flat.value([np.asarray(x) for x in arrays]).leaves
    results = [np.asarray(y, x.dtype) for y, x in zip(found, shapes, strict=False)]
    if len(found) != len(shapes) or any(
        y.shape != x.shape for y, x in zip(results, shapes, strict=True)
    ):
        expected, got = ([tuple(y.shape) for y in ys] for ys in (shapes, results))
        raise ValueError(
            f"{node.flat.name}: the results have the shapes {got}, where {expected} were found by "
            "tracing or said by result_shape=; compiled functions of JAX have results of fixed "
            "shapes"
        )
    return results


@_call.def_impl  # type: ignore[untyped-decorator]
def _impl(*arrays: Any, node: _Node) -> list[Any]:
    # A cotangent may be a float of a dtype.
    arrays = tuple(x if hasattr(x, "shape") else jax.numpy.asarray(x) for x in arrays)
    shapes = node.shapes([_struct(x) for x in arrays])
    return [jax.numpy.asarray(y) for y in _compute(node, shapes, *arrays)]


@_call.def_abstract_eval  # type: ignore[untyped-decorator]
def _abstract(*of: Any, node: _Node) -> list[Any]:
    return [jax.core.ShapedArray(y.shape, y.dtype) for y in node.shapes([_struct(x) for x in of])]


def _called_back(*arrays: Any, node: _Node) -> Any:
    shapes = node.shapes([_struct(x) for x in arrays])
    return jax.pure_callback(functools.partial(_compute, node, shapes), shapes, *arrays)


_lowered = mlir.lower_fun(_called_back, multiple_results=True)


def _lowered_for_one_cpu(ctx: Any, *operands: Any, node: _Node) -> Any:
    """Let compiled code call back with ndarrays, of which `pure_callback` makes arrays of JAX."""
    context = ctx.module_context.axis_context
    if not (isinstance(context, mlir.ShardingContext) and context.num_devices == 1):
        return _lowered(ctx, *operands, node=node)
    results, _, _ = mlir.emit_python_callback(
        ctx,
        functools.partial(_compute, node, ctx.avals_out),
        None,
        list(operands),
        ctx.avals_in,
        ctx.avals_out,
        has_side_effect=False,
        returns_token=False,
    )
    return results


mlir.register_lowering(_call, _lowered, cacheable=False)
mlir.register_lowering(_call, _lowered_for_one_cpu, platform="cpu", cacheable=False)


def _batched(arrays: Sequence[Any], axes: Sequence[int | None], *, node: _Node) -> Any:
    size = next(x.shape[axis] for x, axis in zip(arrays, axes, strict=True) if axis is not None)
    results = _call.bind(*arrays, node=node.mapped(tuple(axes), size))
    return results, [0] * len(results)


def _tangents(primals: Sequence[Any], tangents: Sequence[Any], *, node: _Node) -> Any:
    results = _call.bind(*primals, node=node)
    mask = tuple(type(t) is not ad.Zero for t in tangents)
    given = [t for t in tangents if type(t) is not ad.Zero]
    found = iter(_call.bind(*primals, *given, node=node.push(mask)))
    return results, [next(found) if _is_inexact(y) else _no_tangent(y) for y in results]


def _no_tangent(y: Any) -> Any:
    return ad.Zero(jax.core.ShapedArray(y.shape, jax.dtypes.float0))


def _transposed(cts: Sequence[Any], *args: Any, node: _Node) -> list[Any]:
    count = node.residuals
    cts = [ad.instantiate_zeros(ct) if type(ct) is ad.Zero else ct for ct in cts]
    found = _call.bind(*args[:count], *cts, node=node.transposed())
    pairs = zip(args[count:], found, strict=True)
    return [None] * count + [ct if ad.is_undefined_primal(x) else None for x, ct in pairs]


batching.primitive_batchers[_call] = _batched
ad.primitive_jvps[_call] = _tangents
ad.primitive_transposes[_call] = _transposed
