"""Overrides of `np.nditer` and its relatives, whose elements have to stay traced and writable.

NumPy's iterator reads memory; of an `Array` that would be a copy. Here elements are views. NumPy's
iterator is used where nothing is traced and nothing is written. `np.broadcast` yields scalars.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, overload

import numpy as np

from cotan import _core
from cotan._core import Array
from cotan._src.runtime.registry import override
from cotan._src.runtime.values import contains_active, is_array, to_numpy
from cotan._src.typing import (
    AnyArray,
    ArrayLike,
    DTypeLike,
    Function,
    NDArray,
    Scalar,
    Shape,
)

if TYPE_CHECKING:
    from types import EllipsisType

# As many arrays as NumPy's iterators take.
_MOST_OPERANDS = 64
_OF_MASKS = {"arraymask", "writemasked"}
_KNOWN = {"multi_index", "c_index", "f_index", "refs_ok", "zerosize_ok", "copy_if_overlap"}

# What is iterated over: an array, or None for one that the iterator makes.
_Operand: TypeAlias = ArrayLike | None
# What is asked for all operands, or for each.
_Asked: TypeAlias = Sequence[str] | Sequence[Sequence[str]] | None


@override("numpy.nditer")
def nditer(
    op: _Operand | Sequence[_Operand],
    flags: Sequence[str] | None = None,
    op_flags: _Asked = None,
    op_dtypes: DTypeLike | Sequence[DTypeLike] | None = None,
    order: str = "K",
    *args: object,
    **kwargs: object,
) -> "np.nditer | _Elements":
    operands: list[Any] = list(op) if isinstance(op, (list, tuple)) else [op]
    flags, asked = tuple(flags or ()), _asked(op_flags, operands)
    written = any(_is_written(x, a) for x, a in zip(operands, asked, strict=True))
    by_numpy: Function = np.nditer
    if not written and not contains_active(operands):
        order = _order(order, operands)
        read = [
            _in_memory(to_numpy(x), x.strides) if is_array(x) else to_numpy(x) for x in operands
        ]
        several = isinstance(op, (list, tuple))
        op = read if several else read[0]
        iterator: np.nditer = by_numpy(op, flags, op_flags, op_dtypes, order, *args, **kwargs)
        return iterator
    unknown = sorted(set(flags) - _KNOWN | set().union(*asked) & _OF_MASKS)
    options = bool(args) or any(v is not None for v in (op_dtypes, *kwargs.values()))
    if (unknown or options) and not contains_active(operands):
        lent = [_lent(x) for x in operands]
        op = lent if isinstance(op, (list, tuple)) else lent[0]
        over_memory: np.nditer = by_numpy(op, flags, op_flags, op_dtypes, order, *args, **kwargs)
        return over_memory
    if unknown:
        raise TypeError(
            f"nditer: {', '.join(unknown)} concerns memory, which a traced array does not have; "
            "leave it out, or loop over x.flat, np.ndenumerate(x), or np.ndindex(x.shape)"
        )
    if options:
        raise TypeError(
            "nditer: op_dtypes=, casting=, op_axes= and itershape= are not supported for traced "
            "arrays; use astype, transpose and np.broadcast_to before"
        )
    return _Elements(operands, flags, asked, order, isinstance(op, (list, tuple)))


@override("numpy.nested_iters")
def nested_iters(op: _Operand | Sequence[_Operand], *args: Any, **kwargs: Any) -> Any:
    operands: list[Any] = list(op) if isinstance(op, (list, tuple)) else [op]
    if contains_active(operands):
        raise TypeError(
            "nested_iters: takes memory, which a traced array does not have; loop over "
            "np.ndindex(x.shape), or over x.flat"
        )
    lent = [_lent(x) for x in operands]
    by_numpy: Function = np.nested_iters
    return by_numpy(lent if isinstance(op, (list, tuple)) else lent[0], *args, **kwargs)


def _lent(x: Any) -> Any:
    """Give the memory of a constant, which can be written to."""
    if not is_array(x) or x._rank != "array":
        return to_numpy(x)
    memory: Any = x
    return np.asarray(memoryview(memory))


def _asked(op_flags: _Asked, operands: Sequence[_Operand]) -> list[set[str]]:
    """Give what was asked for each operand: by default to read, or to write what is made here."""
    found: list[Any] = list(op_flags or ())
    if found and isinstance(found[0], str):
        found = [found] * len(operands)
    found += [()] * (len(operands) - len(found))
    pairs = zip(operands, found, strict=True)
    return [set(f) or ({"writeonly"} if x is None else set()) for x, f in pairs]


def _is_written(x: object, asked: set[str]) -> bool:
    return is_array(x) and bool(asked & {"readwrite", "writeonly"})


def _order(order: str, operands: Sequence[_Operand]) -> str:
    """Say what `"A"` means: columns first where all arrays lie in memory like that."""
    if order not in {"A", "a"}:
        return order
    arrays = [x for x in operands if isinstance(x, (np.ndarray, Array))]
    return "F" if all(x.flags.f_contiguous for x in arrays) else "C"


def _in_memory(value: NDArray, strides: Shape) -> NDArray:
    """Give an array with its elements in the order in memory that these strides have.

    NumPy's iterator goes by that order, so it does not go through every view row by row.
    """
    if all(s > 0 for s in strides) and list(strides) == sorted(strides, reverse=True):
        return value
    there = tuple(slice(None, None, -1) if s < 0 else slice(None) for s in strides)
    once = tuple(slice(0, 1) if s == 0 else slice(None) for s in strides)
    axes = sorted(range(value.ndim), key=lambda axis: -abs(strides[axis]))
    copied = value[once][there].transpose(axes).copy().transpose(np.argsort(axes))
    return np.broadcast_to(copied[there], value.shape)


class _Elements:
    """The elements of some arrays at the same place, one place after the other."""

    def __init__(
        self,
        operands: Sequence[_Operand],
        flags: tuple[str, ...],
        asked: list[set[str]],
        order: str,
        several: bool,
    ) -> None:
        given = [x if x is None or isinstance(x, Array) else np.asarray(x) for x in operands]
        known = [x for x in given if x is not None]
        shape = np.broadcast_shapes(*(x.shape for x in known))
        dtype = np.result_type(*(x.dtype for x in known))
        made = _core.buffer(np.zeros(shape, dtype), ())
        self.operands = tuple(made if x is None else x for x in given)
        for x, a in zip(self.operands, asked, strict=True):
            if a & {"readwrite", "writeonly"} and x.shape != shape:
                raise ValueError(
                    f"nditer: the array to write to has shape {x.shape}, but the others have shape "
                    f"{shape}"
                )
        self.shape, self.ndim, self.nop = shape, len(shape), len(self.operands)
        self.dtypes = tuple(x.dtype for x in self.operands)
        self.itersize = int(np.prod(shape, dtype=np.int64))
        if not self.itersize and "zerosize_ok" not in flags:
            raise ValueError("Iteration of zero-sized operands is not enabled")
        self._flags, self._asked, self._several = flags, asked, several
        # NumPy finds the order of the places. What is at them is not read.
        alike = [_in_memory(np.zeros(x.shape, np.bool_), x.strides) for x in known]
        by_numpy: Function = np.nditer
        self._places = by_numpy(alike, ["multi_index", "zerosize_ok"], order=_order(order, known))
        self.reset()

    def reset(self) -> None:
        self.iterindex, self._begun = 0, False

    @property
    def finished(self) -> bool:
        return self.iterindex >= self.itersize

    @property
    def _place(self) -> tuple[int, ...]:
        if self.finished:
            raise ValueError("Iterator is past the end")
        self._places.iterindex = self.iterindex
        place: tuple[int, ...] = self._places.multi_index
        return place

    @property
    def multi_index(self) -> tuple[int, ...]:
        self._expect("multi_index")
        return self._place

    @property
    def index(self) -> int:
        self._expect("c_index", "f_index")
        order: Literal["C", "F"] = "C" if "c_index" in self._flags else "F"
        return int(np.ravel_multi_index(self._place, self.shape, order=order))

    def _expect(self, *flags: str) -> None:
        if not set(flags) & set(self._flags):
            raise ValueError(f"Iterator does not have {' or '.join(flags)} in its flags")

    @overload
    def __getitem__(self, i: int) -> AnyArray: ...

    @overload
    def __getitem__(self, i: slice) -> tuple[AnyArray, ...]: ...

    def __getitem__(self, i: int | slice) -> AnyArray | tuple[AnyArray, ...]:
        if isinstance(i, slice):
            return tuple(self[k] for k in range(*i.indices(self.nop)))
        x = self.operands[i]
        # One that is longer than 1 has the length of all.
        place = self._place[self.ndim - x.ndim :]
        at = [0 if n == 1 else p for n, p in zip(x.shape, place, strict=True)]
        key: tuple[int | EllipsisType, ...] = (*at, ...)
        element: AnyArray = x[key]
        if not is_array(x) and not self._asked[i] & {"readwrite", "writeonly"}:
            element.flags.writeable = False
        return element

    def __setitem__(self, i: int | slice, value: Any) -> None:
        if isinstance(i, slice):
            for k, part in zip(range(*i.indices(self.nop)), value, strict=True):
                self[k] = part
            return
        if not self._asked[i] & {"readwrite", "writeonly"}:
            raise RuntimeError(f"Iterator operand {i} is not writeable")
        self[i][...] = value

    def __len__(self) -> int:
        return self.nop

    @property
    def value(self) -> AnyArray | tuple[AnyArray, ...]:
        return self[:] if self._several else self[0]

    def iternext(self) -> bool:
        self.iterindex += 1
        return not self.finished

    def __iter__(self) -> Iterator[AnyArray | tuple[AnyArray, ...]]:
        return self

    def __next__(self) -> AnyArray | tuple[AnyArray, ...]:
        if self._begun:
            self.iternext()
        self._begun = True
        if self.finished:
            raise StopIteration
        return self.value

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Do nothing: what was written is in the arrays."""


@override("numpy.broadcast")
class _Broadcast:
    """Scalars of some arrays at the same place of their common shape, one place after the other."""

    def __init__(self, *args: ArrayLike) -> None:
        if len(args) > _MOST_OPERANDS:
            raise ValueError(f"Need at least 0 and at most {_MOST_OPERANDS} array objects.")
        self.shape = np.broadcast_shapes(*(np.shape(x) for x in args))
        self.nd = self.ndim = len(self.shape)
        self.size = int(np.prod(self.shape, dtype=np.int64))
        self.numiter = len(args)
        self._operands = [np.broadcast_to(x, self.shape) for x in args]
        self.reset()

    @property
    def iters(self) -> tuple[Iterator[Scalar], ...]:
        return tuple(x.flat for x in self._operands)

    def reset(self) -> None:
        self.index = 0

    def __iter__(self) -> Iterator[tuple[Scalar, ...]]:
        return self

    def __next__(self) -> tuple[Scalar, ...]:
        if self.index >= self.size:
            raise StopIteration
        place = tuple(map(int, np.unravel_index(self.index, self.shape)))
        self.index += 1
        return tuple(x[place] for x in self._operands)
