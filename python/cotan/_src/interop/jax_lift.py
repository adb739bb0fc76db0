"""Functions of JAX inside of recordings of cotan: `lift`.

JAX compiles the function and each of its pullbacks, once for each structure and shape of arguments.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from cotan import _core
from cotan._src.interop import lifted
from cotan._src.interop.flat import Cache
from cotan._src.interop.parts import put_in, take_apart
from cotan._src.typing import NDArray


class Lifted(lifted.Hidden):
    """A function of JAX that takes and gives ndarrays; `ct.jax.lift` makes it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function, (function, Cache()))

    def __repr__(self) -> str:
        return f"<ct.jax.lift({self.__name__})>"

    def __get__(self, instance: object, owner: type | None = None) -> Callable[..., Any]:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function with ndarrays in the places of arrays of JAX."""
        parts = take_apart((args, kwargs), "", _is_array)
        function, calls = self._state

        def make() -> tuple[_Call, _Foreign]:
            call = _Call(function, self.__name__, parts.skeleton)
            return call, _Foreign(call, self.__name__, parts.key is not None)

        call, foreign = make() if parts.key is None else calls.made(parts.key, make)
        results = lifted.call(foreign, parts.leaves)
        skeleton = call.skeletons[_key(parts.leaves)]
        return put_in(skeleton, results)


def _is_array(x: Any) -> bool:
    return isinstance(x, (np.ndarray, jax.Array, _core.Array))


def _is_result(x: Any) -> bool:
    return isinstance(x, (np.ndarray, np.generic, jax.Array))


def _key(arrays: Sequence[Any]) -> Any:
    return tuple((x.shape, jax.dtypes.canonicalize_dtype(x.dtype)) for x in arrays)


class _Call:
    """The function of leaves, and the structures of its results."""

    def __init__(self, function: Callable[..., Any], name: str, skeleton: Any) -> None:
        self._function, self._name, self._skeleton = function, name, skeleton
        self.skeletons: dict[Any, Any] = {}

    def __call__(self, *leaves: Any) -> list[Any]:
        args, kwargs = put_in(self._skeleton, leaves)
        parts = take_apart(self._function(*args, **kwargs), "result", _is_result)
        if not parts.leaves:
            raise TypeError(f"{self._name}: the result has no array in it: {parts.skeleton!r}")
        self.skeletons[_key(leaves)] = parts.skeleton
        return parts.leaves


class _Foreign:
    """A function of a list of arrays of JAX, for cotan."""

    def __init__(
        self, function: Callable[..., Sequence[Any]], name: str, is_compiled: bool
    ) -> None:
        self._function, self.name, self._is_compiled = function, name, is_compiled
        self._run = jax.jit(function) if is_compiled else function
        self._pulls = Cache()

    def values(self, arrays: Sequence[NDArray]) -> list[NDArray]:
        """Compute the results."""
        return [np.asarray(y) for y in self._run(*map(jax.numpy.asarray, arrays))]

    def values_to_differentiate(
        self, arrays: Sequence[NDArray], mask: lifted.Mask
    ) -> tuple[list[NDArray], Any]:
        """Compute the results. JAX computes them again for the pullback, in compiled code."""
        del mask
        return self.values(arrays), None

    def cotangents(
        self, kept: Any, arrays: Sequence[NDArray], cts: Sequence[NDArray]
    ) -> list[NDArray] | None:
        """Give nothing: nothing was kept."""
        del kept, arrays, cts
        return None

    def pull(self, mask: lifted.Mask) -> "_Foreign":
        """Give the function from arguments and cotangents to cotangents."""
        found: _Foreign = self._pulls.made(
            mask, lambda: _Foreign(_pull(self._function, mask), self.name, self._is_compiled)
        )
        return found


def _pull(function: Callable[..., Sequence[Any]], mask: lifted.Mask) -> Callable[..., Any]:
    count = len(mask)

    def pulled(*given: Any) -> Sequence[Any]:
        x = given[:count]

        def of_wanted(*wanted: Any) -> list[Any]:
            rest = iter(wanted)
            results = function(
                *(next(rest) if is_wanted else a for a, is_wanted in zip(x, mask, strict=True))
            )
            return [y for y in results if jax.numpy.issubdtype(y.dtype, jax.numpy.inexact)]

        results, back = jax.vjp(of_wanted, *(a for a, w in zip(x, mask, strict=True) if w))
        # The transpose of JAX is that for Re(a b), the pullback of cotan that for Re(conj(a) b).
        pairs = zip(given[count:], results, strict=True)
        cts = [jax.numpy.conj(ct).astype(y.dtype) for ct, y in pairs]
        return [jax.numpy.conj(ct) for ct in back(cts)]

    return pulled
