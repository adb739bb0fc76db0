# Written by tools/generate.py from tools/_core.pyi.template, the signatures in rust/py
# and the primitive table.
# ruff: noqa: N802, PYI034 - names as in Python; what acts as a scalar is bound anew by `+=`

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from os import PathLike
from types import CodeType, EllipsisType
from typing import (
    Any,
    ClassVar,
    Generic,
    Literal,
    NoReturn,
    ParamSpec,
    Self,
    SupportsIndex,
    TypeAlias,
    TypeVar,
    final,
    overload,
)

import numpy as np
from typing_extensions import disjoint_base

from cotan._src.array.methods import Flags
from cotan._src.inspect.prepared_report import PreparedReport
from cotan._src.inspect.report import Report
from cotan._src.rebind.numpy_substitutes import Flat
from cotan._src.typing import (
    AnyArray,
    Args,
    ArrayLike,
    Axes,
    Axis,
    Casting,
    Dtype,
    DTypeLike,
    Function,
    Kwargs,
    NDArray,
)

_P = ParamSpec("_P")
_R = TypeVar("_R")
_Values: TypeAlias = ArrayLike
_DTypeLike: TypeAlias = DTypeLike
_Index: TypeAlias = SupportsIndex | slice | EllipsisType | _Values | None
_Key: TypeAlias = _Index | tuple[_Index, ...]
_File: TypeAlias = str | bytes | PathLike[str] | PathLike[bytes]
_Axes: TypeAlias = int | tuple[int, ...] | None
_Shape: TypeAlias = int | Sequence[int]
_Wrt: TypeAlias = (
    int
    | str
    | Array
    | Sequence[object]
    | AbstractSet[object]
    | Mapping[str, object]
    | Callable[[str, Any], bool]
    | None
)
_Argnums: TypeAlias = int | Sequence[int] | None
# `Jacobians` or `StateProducts` of a right side.
_Derivatives: TypeAlias = (
    tuple[int, NDArray, tuple[NDArray, NDArray] | None] | tuple[int, int, Function, Function]
)

__version__: str
__features__: tuple[str, ...]

class ReplayMismatch(TypeError): ...  # noqa: N818

class NotDifferentiableError(TypeError):
    """What has no derivative was asked for one, or a gradient would be dropped silently."""

class UnknownValueError(ValueError):
    """A value was read that is not known while a rule is traced."""

@final
class Array:
    """A lazily computed array."""

    __array_priority__: ClassVar[float]
    @property
    def T(self) -> Array: ...
    @property
    def base(self) -> Array | None: ...
    @property
    def device(self) -> Device: ...
    @property
    def dtype(self) -> Dtype: ...
    @property
    def imag(self) -> Array: ...
    @imag.setter
    def imag(self, value: _Values) -> None: ...
    @property
    def is_forced(self) -> bool: ...
    @property
    def itemsize(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def ndim(self) -> int: ...
    @property
    def real(self) -> Array: ...
    @real.setter
    def real(self, value: _Values) -> None: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @shape.setter
    def shape(self, value: _Shape) -> None: ...
    @property
    def size(self) -> int: ...
    @property
    def _contiguous(self) -> bool: ...
    @property
    def _rank(self) -> str: ...
    @property
    def _writeable(self) -> bool: ...
    @property
    def _strides(self) -> tuple[int, ...]: ...
    @property
    def _overlaps(self) -> bool: ...
    def _assign(self, value: _Values, whole: bool = False) -> None: ...
    def _beneath(self) -> tuple[Array, NDArray]: ...
    def _broadcast(self, shape: Sequence[int]) -> Array: ...
    def _gathered(
        self,
        positions: _Values,
        shape: Sequence[int],
        strides: Sequence[int],
        writeable: bool,
        apart: Sequence[int] | None = None,
    ) -> Array: ...
    def copy(self, order: str = "C") -> Array: ...
    def force(self) -> Self: ...
    def item(self, *index: SupportsIndex | tuple[SupportsIndex, ...]) -> Any: ...
    def to_device(self, device: str | Device, /, *, stream: None = None) -> Array: ...
    def tolist(self) -> Any: ...
    def __abs__(self) -> Array: ...
    def __add__(self, value: Any, /) -> Array: ...
    def __and__(self, value: Any, /) -> Array: ...
    def __array__(self, dtype: DTypeLike | None = None, *, copy: bool | None = None) -> NDArray: ...
    @property
    def __array_interface__(self) -> dict[str, Any]: ...
    def __array_function__(
        self, func: Function, types: Iterable[type], args: Args, kwargs: Kwargs
    ) -> Any: ...
    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: object, **kwargs: object
    ) -> Any: ...
    def __bool__(self) -> bool: ...
    def __ceil__(self) -> int: ...
    def __complex__(self) -> complex: ...
    def __copy__(self) -> Array: ...
    def __deepcopy__(self, memo: dict[int, object] | None) -> Array: ...
    def __delitem__(self, key: _Key, /) -> None: ...
    def __divmod__(self, value: _Values, /) -> tuple[Array, Array]: ...
    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __eq__(self, value: _Values, /) -> Array: ...  # type: ignore[override]
    def __float__(self) -> float: ...
    def __floor__(self) -> int: ...
    def __floordiv__(self, value: Any, /) -> Array: ...
    def __format__(self, spec: str) -> str: ...
    def __ge__(self, value: _Values, /) -> Array: ...
    def __getitem__(self, key: _Key, /) -> Array: ...
    def __gt__(self, value: _Values, /) -> Array: ...
    def __hash__(self) -> int: ...
    def __index__(self) -> int: ...
    def __int__(self) -> int: ...
    def __invert__(self) -> Array: ...
    def __le__(self, value: _Values, /) -> Array: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __contains__(self, item: object, /) -> bool: ...
    def __len__(self) -> int: ...
    def __lshift__(self, value: Any, /) -> Array: ...
    def __lt__(self, value: _Values, /) -> Array: ...
    def __matmul__(self, value: Any, /) -> Array: ...
    def __mod__(self, value: Any, /) -> Array: ...
    def __mul__(self, value: Any, /) -> Array: ...
    def __ne__(self, value: _Values, /) -> Array: ...  # type: ignore[override]
    def __neg__(self) -> Array: ...
    def __or__(self, value: Any, /) -> Array: ...
    def __pos__(self) -> Array: ...
    def __pow__(self, value: _Values, mod: None = None, /) -> Array: ...
    def __radd__(self, value: object, /) -> Array: ...
    def __rand__(self, value: object, /) -> Array: ...
    def __rdivmod__(self, value: object, /) -> tuple[Array, Array]: ...
    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[object, ...]: ...
    def __rfloordiv__(self, value: object, /) -> Array: ...
    def __rlshift__(self, value: object, /) -> Array: ...
    def __rmatmul__(self, value: object, /) -> Array: ...
    def __rmod__(self, value: object, /) -> Array: ...
    def __rmul__(self, value: object, /) -> Array: ...
    def __ror__(self, value: object, /) -> Array: ...
    def __round__(self, ndigits: int | None = None) -> Array | int: ...
    def __rpow__(self, value: object, mod: None = None, /) -> Array: ...
    def __rrshift__(self, value: object, /) -> Array: ...
    def __rshift__(self, value: Any, /) -> Array: ...
    def __rsub__(self, value: object, /) -> Array: ...
    def __rtruediv__(self, value: object, /) -> Array: ...
    def __rxor__(self, value: object, /) -> Array: ...
    def __setitem__(self, key: _Key, value: _Values, /) -> None: ...
    def __sub__(self, value: Any, /) -> Array: ...
    def __truediv__(self, value: Any, /) -> Array: ...
    def __trunc__(self) -> int: ...
    def __xor__(self, value: Any, /) -> Array: ...
    # Attached in Python, each as the function of NumPy that it calls.
    @property
    def mT(self) -> Array: ...
    def all(
        self,
        axis: Axes = None,
        out: AnyArray | None = None,
        keepdims: bool = False,
        *,
        where: _Values = True,
    ) -> Array: ...
    def any(
        self,
        axis: Axes = None,
        out: AnyArray | None = None,
        keepdims: bool = False,
        *,
        where: _Values = True,
    ) -> Array: ...
    def argpartition(
        self, kth: _Values, axis: Axis = -1, kind: str = "introselect", order: None = None
    ) -> Array: ...
    def argsort(
        self,
        axis: Axis = -1,
        kind: str | None = None,
        order: None = None,
        *,
        stable: bool | None = None,
    ) -> Array: ...
    def cumprod(
        self, axis: Axis = None, dtype: DTypeLike | None = None, out: AnyArray | None = None
    ) -> Array: ...
    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array: ...
    def nonzero(self) -> tuple[NDArray, ...]: ...
    def ptp(
        self, axis: Axes = None, out: AnyArray | None = None, keepdims: bool = False
    ) -> Array: ...
    def put(self, ind: _Values, v: _Values, mode: str = "raise") -> None: ...
    def repeat(self, repeats: _Values, axis: Axis = None) -> Array: ...
    def round(self, decimals: int = 0, out: AnyArray | None = None) -> Array: ...
    def searchsorted(
        self, v: _Values, side: str = "left", sorter: _Values | None = None
    ) -> Array: ...
    def std(
        self,
        axis: Axes = None,
        dtype: DTypeLike | None = None,
        out: AnyArray | None = None,
        ddof: float = 0,
        keepdims: bool = False,
        *,
        where: _Values = True,
        mean: _Values = ...,
        correction: float = ...,
    ) -> Array: ...
    def take(
        self,
        indices: _Values,
        axis: Axis = None,
        out: AnyArray | None = None,
        mode: str = "raise",
    ) -> Array: ...
    def tobytes(self, order: str | None = "C") -> bytes: ...
    def tofile(self, fid: object, sep: str = "", format: str = "%s") -> None: ...
    def trace(
        self,
        offset: int = 0,
        axis1: int = 0,
        axis2: int = 1,
        dtype: DTypeLike | None = None,
        out: AnyArray | None = None,
    ) -> Array: ...
    def var(
        self,
        axis: Axes = None,
        dtype: DTypeLike | None = None,
        out: AnyArray | None = None,
        ddof: float = 0,
        keepdims: bool = False,
        *,
        where: _Values = True,
        mean: _Values = ...,
        correction: float = ...,
    ) -> Array: ...
    def __array_namespace__(self, *, api_version: str | None = None) -> Any: ...
    def __iadd__(self, other: Any) -> Array: ...
    def __iand__(self, other: Any) -> Array: ...
    def __ifloordiv__(self, other: Any) -> Array: ...
    def __ilshift__(self, other: Any) -> Array: ...
    def __imatmul__(self, other: Any) -> Array: ...
    def __imod__(self, other: Any) -> Array: ...
    def __imul__(self, other: Any) -> Array: ...
    def __ior__(self, other: Any) -> Array: ...
    def __ipow__(self, other: Any) -> Array: ...  # type: ignore[misc]
    def __irshift__(self, other: Any) -> Array: ...
    def __isub__(self, other: Any) -> Array: ...
    def __itruediv__(self, other: Any) -> Array: ...
    def __ixor__(self, other: Any) -> Array: ...
    def argmax(
        self,
        axis: Axes = None,
        out: AnyArray | None = None,
        keepdims: bool = False,
        **options: object,
    ) -> Array: ...
    def argmin(
        self,
        axis: Axes = None,
        out: AnyArray | None = None,
        keepdims: bool = False,
        **options: object,
    ) -> Array: ...
    @property
    def as_integer_ratio(self) -> Any: ...
    def astype(
        self,
        dtype: DTypeLike,
        order: str = "K",
        casting: Casting = "unsafe",
        subok: bool = True,
        copy: bool = True,
    ) -> Array: ...
    @property
    def bit_count(self) -> Any: ...
    def byteswap(self, inplace: bool = False) -> NDArray: ...
    def choose(
        self, *choices: ArrayLike, out: AnyArray | None = None, mode: str = "raise"
    ) -> Array: ...
    def clip(
        self,
        min: ArrayLike | None = None,
        max: ArrayLike | None = None,
        out: AnyArray | None = None,
        **kwargs: Any,
    ) -> Array: ...
    def compress(
        self, condition: ArrayLike, axis: Axis = None, out: AnyArray | None = None
    ) -> Array: ...
    def conj(self, out: AnyArray | None = None) -> Array: ...
    def conjugate(self, out: AnyArray | None = None) -> Array: ...
    @property
    def ctypes(self) -> object: ...
    def cumsum(
        self, axis: Axis = None, dtype: DTypeLike | None = None, out: AnyArray | None = None
    ) -> Array: ...
    @property
    def data(self) -> object: ...
    @data.setter
    def data(self, value: object) -> None: ...
    @property
    def denominator(self) -> Any: ...
    def dot(self, b: ArrayLike, out: AnyArray | None = None) -> Array: ...
    def dump(self, *args: object, **kwargs: object) -> object: ...
    def dumps(self, *args: object, **kwargs: object) -> object: ...
    def fill(self, value: ArrayLike) -> None: ...
    @property
    def flags(self) -> Flags: ...
    @property
    def flat(self) -> Flat: ...
    @flat.setter
    def flat(self, value: ArrayLike) -> None: ...
    def flatten(self, order: str = "C") -> Array: ...
    @property
    def from_bytes(self) -> Any: ...
    @property
    def fromhex(self) -> Any: ...
    def getfield(self, *args: object, **kwargs: object) -> NoReturn: ...
    @property
    def hex(self) -> Any: ...
    @property
    def is_integer(self) -> Any: ...
    def max(
        self,
        axis: Axes = None,
        out: AnyArray | None = None,
        keepdims: bool = False,
        **options: object,
    ) -> Array: ...
    def mean(
        self,
        axis: Axes = None,
        dtype: DTypeLike | None = None,
        out: AnyArray | None = None,
        keepdims: bool = False,
        **options: object,
    ) -> Array: ...
    def min(
        self,
        axis: Axes = None,
        out: AnyArray | None = None,
        keepdims: bool = False,
        **options: object,
    ) -> Array: ...
    @property
    def numerator(self) -> Any: ...
    def partition(
        self, kth: ArrayLike, axis: int = -1, kind: str | None = None, order: None = None
    ) -> None: ...
    def prod(
        self,
        axis: Axes = None,
        dtype: DTypeLike | None = None,
        out: AnyArray | None = None,
        keepdims: bool = False,
        **options: object,
    ) -> Array: ...
    def ravel(self, order: str = "C") -> Array: ...
    def reshape(
        self,
        *shape: SupportsIndex | Sequence[SupportsIndex],
        order: str = "C",
        copy: bool | None = None,
    ) -> Array: ...
    def resize(
        self, *new_shape: SupportsIndex | Sequence[SupportsIndex] | None, refcheck: bool = True
    ) -> None: ...
    def setfield(self, *args: object, **kwargs: object) -> NoReturn: ...
    def setflags(
        self, write: bool | None = None, align: bool | None = None, uic: bool | None = None
    ) -> None: ...
    def sort(
        self,
        axis: int = -1,
        kind: str | None = None,
        order: None = None,
        *,
        stable: bool | None = None,
    ) -> None: ...
    def squeeze(self, axis: int | tuple[int, ...] | None = None) -> Array: ...
    @property
    def strides(self) -> tuple[int, ...]: ...
    @strides.setter
    def strides(self, value: object) -> None: ...
    def sum(
        self,
        axis: Axes = None,
        dtype: DTypeLike | None = None,
        out: AnyArray | None = None,
        keepdims: bool = False,
        **options: object,
    ) -> Array: ...
    def swapaxes(self, axis1: int, axis2: int) -> Array: ...
    @property
    def to_bytes(self) -> Any: ...
    def transpose(self, *axes: SupportsIndex | Sequence[SupportsIndex] | None) -> Array: ...
    def view(self, dtype: DTypeLike | None = None, type: DTypeLike | None = None) -> Any: ...

@final
class Const:
    """A value to hold constant: made by `ct.const`."""

    def __new__(cls, value: object) -> Self: ...
    @property
    def value(self) -> Any: ...

@final
class Equation:
    """One equation of a program: a primitive applied to variables."""

    @property
    def dtype(self) -> Dtype: ...
    @property
    def inputs(self) -> tuple[int, ...]: ...
    @property
    def line(self) -> str | None: ...
    @property
    def output(self) -> int: ...
    @property
    def params(self) -> dict[str, Any]: ...
    @property
    def primitive(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...

@final
class Variable:
    """A variable of a program: an input, an output, or what an equation defines."""

    @property
    def dtype(self) -> Dtype: ...
    @property
    def index(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def value(self) -> NDArray | None: ...

@final
class Program:
    """A closed list of equations over primitives."""

    PASSES: ClassVar[tuple[str, ...]]
    @property
    def equations(self) -> tuple[Equation, ...]: ...
    @property
    def inputs(self) -> tuple[Variable, ...]: ...
    @property
    def outputs(self) -> tuple[Variable, ...]: ...
    def _argument_names(self, count: int) -> list[str]: ...
    def _pullback(self, wrt: Sequence[bool]) -> Program: ...
    def _vmap(self, batched: Sequence[bool], size: int) -> Program: ...
    def bind(self, values: Mapping[str, _Values] | None = None, /, **named: _Values) -> Program: ...
    def fusion_groups(self) -> list[int | None]: ...
    def optimize(self, passes: Sequence[str] | None = None) -> Program: ...
    @staticmethod
    def parse(text: str) -> Program: ...
    def prune(self, outputs: int | str | Sequence[int | str]) -> Program: ...
    def rolled(self) -> Program: ...
    def save(self, path: _File) -> None: ...
    def text(self, *, lines: bool = False) -> str: ...
    def to_onnx(self, path: _File) -> None: ...
    def variable(self, index: SupportsIndex) -> Variable: ...
    def __bool__(self) -> bool: ...
    def __call__(self, *args: object, **kwargs: object) -> Any: ...
    def __copy__(self) -> Program: ...
    def __deepcopy__(self, memo: dict[int, object] | None) -> Program: ...
    def __hash__(self) -> int: ...
    def __len__(self) -> int: ...
    def __rrshift__(self, value: Program, /) -> Program: ...
    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[object, ...]: ...
    def __rshift__(self, value: Program, /) -> Program: ...
    # Attached in Python
    def pullback(self, wrt: _Wrt = None) -> Program: ...
    def to_dot(self) -> str: ...
    def to_html(self) -> str: ...
    def to_mermaid(self) -> str: ...
    def to_svg(self, path: _File | None = None) -> str: ...

@final
class Pullback:
    """The linear map from cotangents of a function's value to cotangents of its arguments."""

    @property
    def nbytes(self) -> int: ...
    @property
    def program(self) -> Program: ...
    @property
    def forward(self) -> Program | None: ...
    def to_onnx(self, path: _File) -> None: ...
    def to_dot(self) -> str: ...
    def to_html(self) -> str: ...
    def to_mermaid(self) -> str: ...
    def to_svg(self, path: _File | None = None) -> str: ...
    def report(self) -> Report: ...
    def save(self, path: _File) -> None: ...
    def accumulate(self, dy: object, buffers: _R, /) -> _R: ...
    def wrt(self, arguments: _Wrt) -> Pullback: ...
    def __call__(self, dy: object) -> Any: ...
    def __copy__(self) -> Pullback: ...
    def __deepcopy__(self, memo: dict[int, object] | None) -> Pullback: ...
    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[object, ...]: ...

@final
class Pushforward:
    """The linear map from tangents of a function's arguments to the tangent of its value."""

    @property
    def nbytes(self) -> int: ...
    @property
    def program(self) -> Program: ...
    def __call__(self, *tangents: object) -> Any: ...

@final
class Prepared(Generic[_P, _R]):
    """A function that is recorded once and replayed without touching Python."""

    def __new__(
        cls,
        function: Function,
        transform: str,
        wrt: _Wrt,
        held: Sequence[bool],
        out: object,
        allow_int: bool,
    ) -> Self: ...
    @property
    def __wrapped__(self) -> Function: ...
    @property
    def num_recordings(self) -> int: ...
    @property
    def programs(self) -> list[Program]: ...
    @overload
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R: ...
    @overload
    def __call__(self, *args: Any, out: object) -> _R: ...
    def record(self, *args: object) -> None: ...
    def explain(self) -> PreparedReport: ...
    def __reduce__(self) -> tuple[object, ...]: ...
    def clear(self) -> None: ...

@final
class _Structure:
    @property
    def leaves(self) -> list[Any]: ...
    @property
    def paths(self) -> list[str]: ...
    @property
    def trainable(self) -> list[bool]: ...
    def align(self, other: object, operation: str) -> list[Any]: ...
    def build(self, leaves: Sequence[object]) -> Any: ...

@final
class Device:
    """A device that arrays lie on and programs run on: the processor, or a GPU."""

    @property
    def description(self) -> str: ...
    @property
    def dtypes(self) -> list[Dtype]: ...
    @property
    def kind(self) -> str: ...
    @property
    def memory(self) -> tuple[int, int]: ...
    @property
    def name(self) -> str: ...
    def _lose(self) -> None: ...
    def release(self) -> None: ...
    def set_memory_limit(self, bytes: int | None) -> None: ...
    def synchronize(self) -> None: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, tuple[str]]: ...

@final
class Collocation:
    """The linearised equation along the steps of a run."""

    @staticmethod
    def of(
        lengths: NDArray,
        a: NDArray,
        derivatives: _Derivatives,
        near: tuple[NDArray, NDArray] | None,
    ) -> tuple[Collocation, NDArray] | None: ...
    @property
    def num_steps(self) -> int: ...
    def joined(self, others: Collocation, numbers: NDArray) -> Collocation: ...
    def columns(
        self, steps: NDArray, weights: NDArray, slopes: NDArray, start: NDArray
    ) -> NDArray: ...
    def adjoint(self, steps: NDArray, weights: NDArray, cts: NDArray) -> NDArray: ...

@final
class FunctionKey:
    """What functions depend on, but for the values of `leaves`."""

    @property
    def key(self) -> bytes: ...
    @property
    def code(self) -> int: ...
    @property
    def leaves(self) -> list[Array]: ...
    @property
    def values(self) -> list[NDArray]: ...
    @property
    def kept(self) -> list[object]: ...
    @property
    def plain(self) -> tuple[Any, ...]: ...
    @property
    def captures(self) -> bool: ...
    @staticmethod
    def of(*given: object) -> FunctionKey | None: ...
    def has_changed(self) -> bool: ...
    def restore(self) -> bool: ...

@final
class NamesRead:
    """What code reads by name."""

    def __new__(
        cls,
        code: CodeType,
        near: list[tuple[str, object]],
        members: list[tuple[dict[str, object], str, object]],
        others: tuple[str, ...],
        is_computing: bool,
        absent: object,
    ) -> Self: ...
    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def others(self) -> tuple[str, ...]: ...
    @property
    def is_computing(self) -> bool: ...
    @property
    def key(self) -> bytes: ...

@final
class NotedCalls:
    """A right side as a solver calls it: of each call it notes time, state and slope."""

    def __new__(
        cls,
        function: Function,
        refusal: type[Exception],
        is_plain: Callable[[Any], bool] | None,
        state_first: bool,
        most: int | None,
        raises: bool,
    ) -> Self: ...
    @property
    def calls(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def refused(self) -> Exception | None: ...
    def called(self) -> NDArray: ...
    def noted(self) -> tuple[NDArray, NDArray, NDArray]: ...
    def again(self) -> RepeatedCalls: ...
    def __call__(self, *args: object) -> Any: ...

@final
class RepeatedCalls:
    """A right side as a solver calls it for the second time."""

    def __call__(self, *args: object) -> Any: ...

@final
class RungeKutta:
    """The linearised equation along the steps of an explicit run."""

    def __new__(
        cls,
        lengths: NDArray,
        a: NDArray,
        stage_of_end: int,
        points: NDArray,
        derivatives: _Derivatives,
    ) -> Self: ...
    def columns(
        self, steps: NDArray, weights: NDArray, slopes: NDArray, start: NDArray
    ) -> NDArray: ...
    def adjoint(self, steps: NDArray, weights: NDArray, cts: NDArray) -> NDArray: ...

@final
class RungeKuttaSteps:
    """Takes steps, with a right side whose calls are noted."""

    def __new__(
        cls,
        calls: NotedCalls,
        more: Args,
        slopes: NDArray,
        sums: Sequence[tuple[float, NDArray, NDArray]],
        end: tuple[float, NDArray, NDArray],
        error: tuple[float, NDArray, NDArray] | Function,
        polynomial: tuple[NDArray, NDArray, int] | None,
        exponent: float,
        relative: Sequence[float],
        absolute: Sequence[float],
    ) -> Self: ...
    def walk(
        self,
        t: float,
        length: float,
        direction: float,
        bound: float,
        longest: float,
        y: NDArray,
        slope: NDArray,
        most: int,
        times: NDArray | None,
    ) -> tuple[
        int,
        list[tuple[float, float, int, int]],
        list[NDArray],
        tuple[Any, NDArray, NDArray, Any, Any] | None,
        bool,
    ]: ...

@disjoint_base
class Profile:
    """What a thread computes while it is entered; `ct.profile` shows it."""

    def __new__(cls) -> Self: ...
    @property
    def bytes_copied(self) -> int: ...
    @property
    def equations(self) -> Counter[str]: ...
    @property
    def on_processor(self) -> Counter[str]: ...
    @property
    def runs(self) -> int: ...
    @property
    def skipped(self) -> Counter[str]: ...
    def _phases(self) -> tuple[float, float, float]: ...
    def _rows(
        self,
    ) -> list[tuple[str, tuple[str, int, str] | None, str | None, float, int]]: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_exception: object) -> None: ...

@final
class _Memory: ...

# Names on modules that know our arrays while something is recorded

@final
class Scope:
    @staticmethod
    def enter(lifts: bool | None, is_strict: bool | None) -> Scope: ...
    def leave(self) -> None: ...

@disjoint_base
class OverrideFunction:
    def __new__(
        cls,
        original: object,
        bypass: object,
        rule: object,
        dispatched: bool,
        creates: bool,
        when: str,
    ) -> Self: ...
    @property
    def __wrapped__(self) -> Function: ...
    def __call__(self, *args: object, **kwargs: object) -> Any: ...
    def __getattr__(self, name: str, /) -> Any: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[object, ...]: ...

# array/decisions.rs
def begin_decisions() -> None:
    """Begins to count, in this thread."""

def end_decisions() -> list[tuple[tuple[str, int, str], int]]:
    """Ends what was begun last; gives how often each line decided."""

# array/device.rs
def devices() -> list[Device]:
    """The devices of this machine: the processor first, then GPUs."""

def device(name: str | Device) -> Device:
    """The device of this name: `"cpu"`, `"gpu"` for the first GPU, `"gpu:1"` for the second."""

def used_device() -> str | None:
    """The name of the device that the running context uses, if it uses one."""

def use_device(name: str | None) -> None:
    """Makes the running context use a device."""

# array/escapes.rs
def force_all(arrays: list[Array]) -> None:
    """Computes arrays in one run, those that wait. While a function is prepared nothing is computed, and nothing needs it."""

def failed(error: BaseException, x: Array) -> None:
    """[`failed`] of code outside of this module."""

def check_at_end(check: Callable[[], object]) -> None:
    """Lets a function check, once what is prepared has run, that a replay will be right: it raises where that is not so."""

def guard_computed(owner: object, source: str) -> None:
    """Guards an attribute of an object that is computed when it is read; its name is the source."""

def is_replayed(x: object) -> bool:
    """Whether a function is being prepared and an array depends on its arguments, so that replays compute it."""

def is_differentiated(x: Array) -> bool:
    """Whether the function that is being prepared is differentiated with respect to an array."""

def differentiated_once() -> bool | None:
    """Whether replays of the function that is being prepared are asked for, where they give first derivatives of what is recorded; None where they give anything else, or may be differentiated themselves."""

def keep_computed(x: Array) -> None:
    """Lets each replay compute an array for the errors that this may lead to, whether or not a result depends on it."""

def is_preparing() -> bool:
    """Whether a function is being prepared in this thread."""

def num_met(x: object) -> int:
    """How often an ndarray was captured: so many references to it are the log's."""

def meet(x: object) -> None:
    """Notes an ndarray that code outside of this module has read as captured."""

# array/fancy_index.rs
def is_elementwise(x: Array) -> bool:
    """Whether an elementwise operation has just made an active array: elements of it may be infinite, or have an infinite slope."""

# array/index.rs
def index_update(x: _Values, key: _Key, value: _Values) -> Array:
    """`x` with `x[key]` replaced by `value`, as a new array."""

def index_add(x: _Values, key: _Key, value: _Values) -> Array:
    """`x` with `value` added to `x[key]`, as a new array; an index may occur several times."""

def fit(value: _Values, target: _Values, shape: Sequence[int]) -> Array:
    """A value brought to a dtype and shape, as NumPy does in an assignment."""

# array/lend.rs
def lend(x: Array, pin: bool) -> NDArray:
    """The memory of a constant array as an ndarray that shares it, or a copy of what cannot be written to. `pin` keeps it where it is as long as the array lives, for pointers."""

# array/matmul.rs
def matmul(x: _Values, y: _Values) -> Array:
    """The matrix product by NumPy's rules: vectors count as a row on the left and a column on the right."""

# array/scalar_classes.rs
def set_scalar_classes(
    array: type[Array], make: Callable[[type[Array]], tuple[dict[Any, type], dict[Any, type]]]
) -> None:
    """Takes the classes of scalars that a function makes of `Array`: dictionaries of Python's and of NumPy's, by dtype."""

# array/traced.rs
def is_traced(x: object) -> bool:
    """Whether a program is being traced and an object may be a variable of it."""

def is_mapped(x: Array) -> bool:
    """Whether a function is being mapped and an array may differ between examples, so that nobody knows its value."""

# functions/active.rs
def contains_active(tree: object) -> bool:
    """Whether something in nested arguments is active: an array, or what dictionaries, lists and tuples hold."""

def is_active(x: object) -> bool:
    """Whether `x` is active in a gradient that is being recorded."""

# functions/creation.rs
def array(
    object: object, dtype: _DTypeLike | None = None, *, device: str | Device | None = None
) -> Array:
    """An `Array` with a copy of some values: an ndarray, a number, nested lists of them. Arrays among them stay differentiable."""

def buffer(made: object, args: Args) -> Any:
    """What NumPy has made, as an `Array` into which traced values can be written; whatever is no new array of floats or complex numbers as it is."""

def number(x: _Values, dtype: _DTypeLike | None) -> Array:
    """An array of one element in place of a Python number, of another dtype if one is given."""

def asarray(object: object, dtype: _DTypeLike | None = None) -> Array:
    """An `Array` with these values; an `Array` is given back as it is."""

def from_dlpack(object: object) -> Array:
    """An `Array` with a copy of the values of another library's array that speaks DLPack."""

def num_threads() -> int:
    """How many threads large computations use."""

def set_num_threads(threads: int) -> None:
    """Changes how many threads large computations use, at most 1,024; 0 for the default."""

def simd_level() -> str:
    """The instruction set that kernels use: `"avx512"`, `"avx2"`, `"baseline"`."""

def clear_caches() -> None:
    """Forgets all plans and copies of captured arrays, and frees the memory that is kept for reuse."""

# functions/fft.rs
def usual_fourier(x: object, axis: object, half: bool) -> Array | None:
    """The transform along one axis that is met most: of all that is there, unscaled, the half spectrum of real numbers when `half`. `None` for what has to be looked at more closely."""

def fourier(x: _Values, axes: Sequence[int], inverse: bool = False, scale: float = 1.0) -> Array:
    """The transform along axes, with a positive exponent when `inverse`, times `scale`."""

def real_fourier(x: _Values, axis: int, scale: float = 1.0) -> Array:
    """The first half of the spectrum of real numbers along an axis, times `scale`."""

def fourier_real(x: _Values, axis: int, length: int, scale: float = 1.0) -> Array:
    """The `length` real numbers along an axis that have this half of a spectrum, times `scale`."""

# functions/primitives.rs
def sum(x: _Values, axis: _Axes = None, keepdims: bool = False) -> Array:
    """A reduction over `axis` (an integer, a tuple, or None for all)."""

def prod(x: _Values, axis: _Axes = None, keepdims: bool = False) -> Array:
    """A reduction over `axis` (an integer, a tuple, or None for all)."""

def max(x: _Values, axis: _Axes = None, keepdims: bool = False) -> Array:
    """A reduction over `axis` (an integer, a tuple, or None for all)."""

def min(x: _Values, axis: _Axes = None, keepdims: bool = False) -> Array:
    """A reduction over `axis` (an integer, a tuple, or None for all)."""

def mean(x: _Values, axis: _Axes = None, keepdims: bool = False) -> Array:
    """A reduction over `axis` (an integer, a tuple, or None for all)."""

def logsumexp(x: _Values, axis: _Axes = None, keepdims: bool = False) -> Array:
    """A reduction over `axis` (an integer, a tuple, or None for all)."""

def argmax(x: _Values, axis: int | None = None, keepdims: bool = False) -> Array:
    """The index of the first largest element along `axis`, or in the flattened array."""

def argmin(x: _Values, axis: int | None = None, keepdims: bool = False) -> Array:
    """The index of the first smallest element along `axis`, or in the flattened array."""

def argsort(x: _Values, axis: int = -1) -> Array:
    """The indices that sort along `axis`: stable, NaN last."""

def cumsum(x: _Values, axis: int | None = None, reverse: bool = False) -> Array:
    """The sums of all elements up to each one along `axis`; from its end when `reverse`."""

def cummax(x: _Values, axis: int | None = None, reverse: bool = False) -> Array:
    """The largest of all elements up to each one along `axis`; from its end when `reverse`."""

def cummin(x: _Values, axis: int | None = None, reverse: bool = False) -> Array:
    """The smallest of all elements up to each one along `axis`; from its end when `reverse`."""

def linear_recurrence(a: _Values, b: _Values, axis: int = -1, reverse: bool = False) -> Array:
    """The sequence `y[i] = a[i] * y[i - 1] + b[i]` along `axis`, which begins with `b`; from its end when `reverse`. Both broadcast."""

def reshape(x: _Values, shape: _Shape) -> Array:
    """The same elements in another shape; one length may be -1. A view where NumPy gives one."""

def transpose(x: _Values, axes: Sequence[int] | None = None) -> Array:
    """Axes in another order, reversed by default. A view."""

def broadcast_to(x: _Values, shape: _Shape) -> Array:
    """Repeated to a shape that it broadcasts to."""

def concatenate(arrays: Sequence[_Values], axis: int = 0) -> Array:
    """Arrays one after the other along `axis`."""

def stack(arrays: Sequence[_Values]) -> Array:
    """Arrays of one shape along a new first axis."""

def flip(x: _Values, axis: _Axes = None) -> Array:
    """The order of elements reversed along `axis`."""

def pad(x: _Values, shape: Sequence[int], start: Sequence[int], step: Sequence[int]) -> Array:
    """Zeros of `shape` with `x` as a strided region: along each axis `start`, `start + step`, ..."""

def cast(x: _Values, dtype: _DTypeLike) -> Array:
    """The same numbers in another dtype."""

def searchsorted(sorted: _Values, x: _Values, right: bool = False) -> Array:
    """For each element of `x` how many elements of a sorted array of one axis come before it, and with `right` those equal to it, too: int64, of the shape of `x`. NaN comes last. In an array that is not sorted the places are arbitrary."""

def gather(x: _Values, index: _Values) -> Array:
    """The rows of `x` at int64 indices."""

def scatter_add(x: _Values, index: _Values, updates: _Values) -> Array:
    """`x` with updates added to its rows at int64 indices."""

def scatter(x: _Values, index: _Values, updates: _Values) -> Array:
    """`x` with its rows at int64 indices replaced."""

def dropgrad(x: _R) -> _R:
    """The same values, held constant for every derivative."""

# functions/special_ufunc.rs
def call_special(
    name: str, compute: Function, rule: Function, args: Args, dtypes: tuple[_DTypeLike, ...]
) -> tuple[Array, ...]:
    """Calls an elementwise function that is computed with values, with arrays of the dtypes that it takes; gives a tuple of its results, of the dtypes that are said."""

# functions/table.rs
def ufuncs(module: str) -> dict[str, str]:
    """Names of the ufuncs of a module, `np` or `scipy.special`, and of the primitives that they are."""

def table() -> list[dict[str, Any]]:
    """One dictionary for each entry of the primitive table: what documentation and tests are made from."""

def apply(name: str, *args: object, **params: object) -> Array:
    """Applies any primitive of the table to arrays; parameters as they are printed."""

# functions/values.rs
def value(x: object) -> NDArray:
    """The plain ndarray value of anything array-like. Detaches: for integers, bools and indices."""

def peek(x: object) -> NDArray:
    """The value of anything array-like for the errors that it leads to: nothing that is recorded may depend on it."""

def function_of_numbers(
    original: Callable[..., object], compute: Callable[..., Any], args: tuple[object, ...]
) -> Array | None:
    """What a function of Python's numbers gives where some of them are float64 `Array`s: `compute` of them, once `original` has taken the values."""

# interpose/contains_array.rs
def contains_array(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether one of our arrays is among arguments, or in lists and tuples among them."""

# interpose/install.rs
def add_ufuncs(ufuncs: list[np.ufunc]) -> None:
    """Lets ufuncs take lists that hold an `Array`."""

def set_ufunc_ruled(ufunc: np.ufunc, is_ruled: bool) -> None:
    """Notes whether a rule of user code computes a ufunc, whose calls are not recorded as those of a primitive then."""

def after_fork_in_child() -> None:
    """Called in the child just after a fork: only this thread goes on."""

def disable_overrides() -> None:
    """Lets nothing be overridden in this process."""

# interpose/overrides.rs
def add_override(
    callable: Any,
    user: Callable[..., Any],
    library: Any,
    package: str,
    is_creator: bool = False,
    for_memory: bool = False,
    receiver: Any = None,
) -> None:
    """Overrides a callable, wherever it is kept: in contexts that record, `user` computes what user code calls. Libraries get the same (`"same"`), the original (`"original"`), or a rule for active arguments; the library of the callable itself gets the original. `None` is for functions that NumPy dispatches, by their arguments alone. With a receiver only the method of that object or class."""

def add_rule(callable: Any, rule: Callable[..., Any], when: str, receiver: Any = None) -> None:
    """Lets a rule compute a callable by its arguments: where an array is in a list among them (`"lists"`), or is one itself, too (`"arrays"`), or only so (`"numbers"`), from user code only (`"user numbers"`); where one is anywhere in them (`"contained"`); or `"always"`. It may give `NotImplemented` for the original."""

def add_call_rule(class_: type, rule: Callable[..., Any], when: str) -> None:
    """Lets a rule compute the calls of all objects of a class, which gets the object first. See [`add_rule`]."""

def keep_entries(class_: type) -> None:
    """Lets every call of a class, and of the classes that derive from it, run the entry of its `__init__`: the interpreter knows a way past that."""

def suspend_recordings_in(function: Any) -> None:
    """Lets nothing be recorded while a function imports a module."""

def has_entry(callable: Any) -> bool:
    """Whether a callable leads to overrides."""

def entries() -> list[Any]:
    """The callables that lead to overrides."""

def bypass(callable: Any) -> Callable[..., Any]:
    """A function that goes past the entry of a callable, which gets one."""

# prepare/repeated_functions.rs
def num_automatic_replays() -> int:
    """How often a derivative was replayed that nobody had prepared, in this process."""

def forget_repeated_functions() -> None:
    """Forgets the functions that were run again and again, and their recordings: what they hold is free. What is being recorded is not kept."""

# program/export.rs
def with_gradient(program: Program, wrt: Sequence[bool]) -> tuple[Program, list[int | None]]:
    """The program that also gives the gradients of its only output with respect to the marked inputs, and for each input which output that is (None without influence)."""

def plain(program: Program) -> dict[str, Any]:
    """A program as an exporter takes it: calls of rules are written out, and what is common or not needed is gone; long ones have loops where they repeat themselves. As plain data: `outputs` (variables by number), `names` of the inputs, `output_names`, `constants` (values of the last inputs), `types` (dtype and shape of every variable) and `equations` (primitive, arguments, result, parameters). The parameters of a loop have its `body`, as plain data too, without what no equation needs."""

# program/pyclass.rs
def restore_program(head: bytes, blobs: Sequence[object]) -> Program:
    """The program that was pickled."""

# program/serialize.rs
def restore_array(
    dtype: str, lanes: Sequence[tuple[int, int, bool]], scalar_kind: str, blob: object
) -> Array:
    """The array that was pickled."""

def write_file(path: _File, data: bytes) -> None:
    """Writes a file that is whole or, when something fails, not there; an old one stays whole then."""

# program/sparsity.rs
def dependence(program: Program, marked: list[bool]) -> tuple[NDArray, NDArray]:
    """Which elements of the outputs of a program depend on which elements of the marked inputs: where rows begin, and the columns of all rows, as in a CSR array. Values bound to the program count where they are indices."""

def color_columns(
    columns: int, starts: NDArray, indices: NDArray, symmetric: bool = False
) -> NDArray:
    """A color for each column of a pattern: columns of one color share no row; a star coloring where only one of two entries of a symmetric pattern has to be found."""

def color_both(columns: int, starts: NDArray, indices: NDArray) -> tuple[NDArray, NDArray]:
    """Colors for rows and for columns of a pattern, -1 for none: rows that have one are read off products from the left, the others off products from the right."""

# runtime/hooks.rs
def set_hooks(**objects: Any) -> None:
    """Sets all hooks, each by its name."""

# runtime/identity.rs
def same_items(a: list[Any], b: list[Any]) -> bool:
    """Whether two lists hold the same objects, in the same order. No code of theirs runs for that."""

# runtime/interpreter_exit.rs
def before_exit() -> None:
    """Called by `atexit`."""

# runtime/recording_state.rs
def call_outside(call: Callable[[], _R]) -> _R:
    """Calls something as if nothing were recorded or switched."""

def may_install() -> bool:
    """Whether overrides may be installed for the running context."""

def is_anything_recorded() -> bool:
    """Whether anything is recorded or switched anywhere in the process: entries ask this first."""

def is_lifting() -> bool:
    """Whether functions are overridden in this context."""

def is_strict() -> bool:
    """Whether `float(x)` is refused for an active `x`: under `ct.strict()`."""

def is_tracing() -> bool:
    """Whether a program is being traced in this thread: what can fail on values fails when it runs."""

def isderiving() -> bool:
    """Whether the running code is being differentiated."""

def nestlevel() -> int:
    """How deeply the running code is being differentiated: 0 outside any gradient."""

# runtime/source_line.rs
def is_library_file(path: str) -> bool:
    """Whether a source file is cotan's, NumPy's or SciPy's own: no line of the user's."""

# runtime/swallowed_errors.rs
def refused(message: str) -> None:
    """Notes that user code was refused something. Libraries try what they can do without."""

def granted(message: str) -> None:
    """Takes back what user code was refused, once another way was found."""

# solvers/names_read.rs
def names_read(function: Function) -> NamesRead | None:
    """What the code of a function reads by name; None where it may do more than compute."""

# solvers/solutions.rs
def regular_inverse(matrix: NDArray, most: float) -> NDArray | None:
    """The inverse of a matrix that is far from a singular one, whose condition is below `most`; None of another one."""

def slopes_of_solution(
    x: NDArray, rest: NDArray, inverse: NDArray, of_leaves: Sequence[NDArray], far: float
) -> NDArray | None:
    """How a solution moves with numbers that its equations depend on: a row for each of its own numbers, with the derivatives with respect to all leaves."""

def leaves_like(
    result: object, parts: tuple[Any, ...], ranks: tuple[str, ...], known: Sequence[Array]
) -> list[Any] | None:
    """The arrays and numbers in a result that is built like another one, whose layout is given (`kit/result_layout.py`): its parts, and of what kind its arrays and numbers are. None where it is built otherwise, and where that takes long to tell. An `Array` has to be one of those that are known."""

def are_outputs(
    values: Sequence[Any],
    outputs: Sequence[tuple[np.dtype[Any], tuple[int, ...]]],
    finite: Iterable[int],
) -> bool:
    """Whether numbers and arrays have these dtypes and shapes, and whether those with these numbers are finite."""

# transforms/automatic_replay.rs
def run_or_replay(f: Function, args: Args, options: tuple[object, ...], derived: Function) -> Any:
    """What `derived` gives for arguments: a function that runs `f`, and does nothing else that could be seen. `options` say what it is. Where both are called again and again, it is replayed."""

# transforms/checkpoint.rs
def call_checkpoint(
    function: Function, name: str, args: Args, kwargs: Kwargs, policy: object
) -> Any:
    """Calls a function whose intermediate values are not kept."""

def name_value(value: object, name: str) -> None:
    """Names the arrays of a value for the checkpoints around it."""

# transforms/collected_slopes.rs
def collect_slopes(
    function: Function,
    args: tuple[object, ...],
    kwargs: dict[str, object],
    tags: tuple[int, int],
    nodes: Sequence[Array],
    values: Sequence[Array],
    chosen: Sequence[bool],
    is_rule: bool,
) -> tuple[Any, list[tuple[Array, list[int], Any]], bool]:
    """Calls a function that reads these values in the place of recorded arrays, the chosen ones as arrays that are differentiated. Gives its result; for each part of it whose derivatives were collected that part, the numbers of the arrays that it depends on, and what `note_slopes` was given; and whether the function has read no other arrays. The rule of a solver is called as in a recording of its own; for other functions nothing is recorded, and nothing overridden."""

def collected_numbers(leaves: Sequence[Array]) -> list[int] | None:
    """The numbers that `collect_slopes` gives for arrays that a part of the result depends on; None where one is not such an array, or nothing is collected."""

def note_slopes(
    value: _Values, leaves: Sequence[Array], told: object, is_number: bool
) -> Array | None:
    """An array with a value whose derivatives are known, where these are collected; None where they have to be recorded."""

def is_collecting() -> bool:
    """Whether slopes are collected in this thread, and not something in between recorded."""

def was_recorded(x: Array) -> bool:
    """Whether an array depends on leaves of a recording, which may be over."""

# transforms/custom_rule.rs
def call_adjoint(
    rule: Function, name: str, names: list[str], args: object, kwargs: object, is_opaque: bool
) -> Any:
    """Calls a function that returns its result and its pullback."""

def call_jvp(
    function: Function, rule: Function, name: str, names: list[str], args: object, kwargs: object
) -> Any:
    """Calls a function that has a forward rule."""

# transforms/gradient.rs
def gradient(
    f: Function,
    /,
    *args: object,
    wrt: _Wrt = None,
    argnums: _Argnums = None,
    has_aux: bool = False,
    allow_int: bool = False,
    wrt_self: bool = False,
    **kwargs: object,
) -> Any:
    """The gradient of a function that returns a real scalar, with respect to all of its arguments."""

@overload
def value_and_gradient(
    f: Callable[..., _R],
    /,
    *args: object,
    wrt: _Wrt = None,
    argnums: _Argnums = None,
    has_aux: Literal[False] = False,
    allow_int: bool = False,
    wrt_self: bool = False,
    **kwargs: object,
) -> tuple[_R, Any]:
    """The value of a function that returns a real scalar, and its gradient as [`gradient`] gives it."""

@overload
def value_and_gradient(
    f: Callable[..., _R],
    /,
    *args: object,
    wrt: _Wrt = None,
    argnums: _Argnums = None,
    has_aux: bool,
    allow_int: bool = False,
    wrt_self: bool = False,
    **kwargs: object,
) -> Any: ...
def value_and_full_gradient(
    name: str,
    f: Function,
    args: Args,
    wrt: _Wrt,
    with_value: bool,
    has_aux: bool,
    allow_int: bool = False,
) -> tuple[Any, Any]:
    """`value_and_gradient` with zeros where a leaf has no influence: `grad` and its like are functions whose results have the structure of the argument. `name` is what errors call it. Without `with_value` the value is None."""

@overload
def pullback(
    f: Callable[..., _R],
    /,
    *args: object,
    wrt: _Wrt = None,
    argnums: _Argnums = None,
    has_aux: Literal[False] = False,
    allow_int: bool = False,
    wrt_self: bool = False,
    **kwargs: object,
) -> tuple[_R, Pullback]:
    """The value of a function and its pullback: the linear map from a cotangent of the value to cotangents of the arguments."""

@overload
def pullback(
    f: Callable[..., _R],
    /,
    *args: object,
    wrt: _Wrt = None,
    argnums: _Argnums = None,
    has_aux: bool,
    allow_int: bool = False,
    wrt_self: bool = False,
    **kwargs: object,
) -> Any: ...
def linear_transpose(
    f: Function, /, *primals: object, wrt: _Wrt = None, argnums: _Argnums = None, **kwargs: object
) -> Pullback:
    """The transpose of a linear function: the linear map from a cotangent of its value to cotangents of its arguments."""

# transforms/host_callback.rs
def hooked(function: Function, x: object, name: str) -> Any:
    """`x`, whose cotangent goes through `function` (arrays to a tuple of arrays) on its way back."""

def call_back(function: Function, pullback: Function, name: str, args: Sequence[Array]) -> Array:
    """What a function of plain values gives for arrays that are being differentiated: computed at once, and again when the program is run with other values. `function` and `pullback` return tuples of arrays; the pullback is differentiated in its turn."""

def find_inputs(
    function: Function, args: tuple[object, ...], kwargs: dict[str, object]
) -> tuple[Any, list[Array], tuple[int, int], bool]:
    """Calls a function as if nothing were prepared; gives its result, the recorded arrays that it has read, the tags of their recordings, and whether it can be repeated with other values of these arrays. It reads them as constants."""

def call_with_inputs(
    function: Function,
    args: tuple[object, ...],
    kwargs: dict[str, object],
    tags: tuple[int, int],
    nodes: Sequence[Array],
    values: Sequence[Array],
) -> tuple[Any, bool]:
    """Calls a function that reads these values in the place of recorded arrays; gives its result, and whether it has read no others and written to none."""

def call_back_again(
    function: Function,
    pullback: Function,
    name: str,
    inputs: Sequence[Array],
    outputs: Sequence[tuple[Array, str]],
    is_exact: bool = False,
) -> list[Array]:
    """The results of a function of plain values that has given these outputs for these inputs: replays call it with other values. `function` and `pullback` are as in `call_back`; the outputs may have any dtypes, and the pullback gets the cotangents of those that are inexact. `is_exact` says that the outputs are, bit by bit, what the recorded code gives, and the derivatives of that."""

# transforms/jacobian.rs
def jacobian_of(
    name: str,
    f: Function,
    args: Args,
    wrt: _Wrt,
    chosen: int | list[int] | None,
    mode: str,
    has_aux: bool,
    holomorphic: bool,
) -> tuple[Any, Any]:
    """The Jacobian of a function: for each array of its result a structure like the arguments, whose parts have the shape of the result and then that of the leaf. `chosen` says which arguments are in it: one position for that alone, several for a tuple of these, None for a tuple of all. With `has_aux` also what the function returned besides."""

# transforms/looped.rs
def record_loop(
    step: Function,
    carried: list[Any],
    scanned: list[Any],
    length: int,
    reverse: bool,
    counts: bool,
    conditional: bool,
    budget: int | None,
) -> tuple[list[Any], list[Any]] | None:
    """Records a loop as one equation for each result, if its step can be traced: it looks at no value, does the same each time, calls nothing back, and carries on what it is given. Gives the last carries and the stacked results; `None` if it cannot."""

# transforms/nonfinite.rs
def begin_detection(nan: bool, inf: bool) -> int:
    """Begins to look at what leaves a run of this thread. Gives the number with which to end it."""

def begin_lines() -> int:
    """Begins to record which lines operations come from. Gives the number with which to end it."""

def end_detection(id: int) -> None:
    """Ends it."""

# transforms/pushforward.rs
def jvp(
    f: Function,
    primals: Sequence[object],
    tangents: Sequence[object],
    /,
    *,
    wrt: _Wrt = None,
    argnums: _Argnums = None,
    has_aux: bool = False,
    **kwargs: object,
) -> Any:
    """The value of a function and its derivative along tangents of its arguments, in one run."""

def jvp_alone(f: Function, primals: Sequence[object], tangents: Sequence[object], /) -> Any:
    """The tangent that `jvp` gives, without the value: what only that needs is not computed."""

@overload
def linearize(
    f: Callable[..., _R],
    /,
    *primals: object,
    wrt: _Wrt = None,
    argnums: _Argnums = None,
    has_aux: Literal[False] = False,
    **kwargs: object,
) -> tuple[_R, Pushforward]:
    """The value of a function and its pushforward: the linear map from tangents of the arguments to the tangent of the value."""

@overload
def linearize(
    f: Callable[..., _R],
    /,
    *primals: object,
    wrt: _Wrt = None,
    argnums: _Argnums = None,
    has_aux: bool,
    **kwargs: object,
) -> Any: ...

# transforms/saved_pullback.rs
def restore_pullback(head: bytes, blobs: Sequence[object], outline: dict[str, Any]) -> Pullback:
    """The pullback that was pickled."""

def load_file(path: _File) -> Any:
    """What a file holds: a pullback or a program."""

def load_memory(memory: object) -> Any:
    """What the memory of a file holds. It is used as it is."""

# transforms/trace.rs
def trace(f: Function, /, *args: object, lines: bool = False, **kwargs: object) -> Program:
    """The program of a function: recorded on arguments like these, without computing anything."""

def record(
    f: Function, args: Args, replaced: Mapping[str, object]
) -> tuple[Program, list[str], list[bool], list[Any]]:
    """The program of a function of which every array among the arguments is an input: those that are held constant, and integers, too. With the paths of the results, and for each input whether it can be differentiated with respect to, and its value. `replaced` has other arrays for some of them, by path."""

# transforms/vmap.rs
def call_vmap(f: Function, args: Args, batched: list[bool], names: list[str]) -> Any:
    """Calls a function of one example with arguments of which those marked hold many along their first axes; its results have a first axis of examples. `names` are what errors call the arguments."""

def varying_results(f: Function, args: Args, batched: list[bool], names: list[str]) -> list[bool]:
    """For each array in the results of a function of one example whether it differs between examples."""

# tree/class_layout.rs
def forget_layouts() -> None:
    """Forgets all layouts: a class was registered."""

# tree/pyclass.rs
def structure(
    tree: object, declared: bool = False, root: str = "", integers: bool = False
) -> _Structure:
    """Takes a structure apart; with `declared`, `trainable` heeds `__trainable__`. Paths start with `root`. With `integers` those of Python are leaves where `gradient` takes them for numbers."""

def neg(x: _Values, /) -> Array:
    """The negative: `-x`."""

def abs(x: _Values, /) -> Array:
    """The absolute value; 0 has the derivative 0. Of a complex number: its modulus, a real number."""

def sign(x: _Values, /) -> Array:
    """The sign: -1, 0 or 1; `z / |z|` of a complex number (whose derivative is not taken)."""

def floor(x: _Values, /) -> Array:
    """The largest integer that is not above `x`. Its derivative is 0."""

def ceil(x: _Values, /) -> Array:
    """The smallest integer that is not below `x`. Its derivative is 0."""

def round(x: _Values, /) -> Array:
    """The nearest integer; halves are rounded to the even one. Its derivative is 0."""

def trunc(x: _Values, /) -> Array:
    """The integer next to `x`, towards zero. Its derivative is 0."""

def exp(x: _Values, /) -> Array:
    """The exponential function."""

def exp2(x: _Values, /) -> Array:
    """2 to the power `x`."""

def expm1(x: _Values, /) -> Array:
    """`exp(x) - 1`, accurate near 0."""

def log(x: _Values, /) -> Array:
    """The natural logarithm."""

def log2(x: _Values, /) -> Array:
    """The logarithm to base 2."""

def log10(x: _Values, /) -> Array:
    """The logarithm to base 10."""

def log1p(x: _Values, /) -> Array:
    """`log(1 + x)`, accurate near 0."""

def sqrt(x: _Values, /) -> Array:
    """The square root."""

def cbrt(x: _Values, /) -> Array:
    """The cube root, of negative numbers too."""

def reciprocal(x: _Values, /) -> Array:
    """`1 / x`."""

def square(x: _Values, /) -> Array:
    """`x * x`."""

def sin(x: _Values, /) -> Array:
    """The sine; `x` in radians."""

def cos(x: _Values, /) -> Array:
    """The cosine; `x` in radians."""

def tan(x: _Values, /) -> Array:
    """The tangent; `x` in radians."""

def asin(x: _Values, /) -> Array:
    """The inverse sine, in radians."""

def acos(x: _Values, /) -> Array:
    """The inverse cosine, in radians."""

def atan(x: _Values, /) -> Array:
    """The inverse tangent, in radians."""

def sinh(x: _Values, /) -> Array:
    """The hyperbolic sine."""

def cosh(x: _Values, /) -> Array:
    """The hyperbolic cosine."""

def tanh(x: _Values, /) -> Array:
    """The hyperbolic tangent."""

def asinh(x: _Values, /) -> Array:
    """The inverse hyperbolic sine."""

def acosh(x: _Values, /) -> Array:
    """The inverse hyperbolic cosine."""

def atanh(x: _Values, /) -> Array:
    """The inverse hyperbolic tangent."""

def sigmoid(x: _Values, /) -> Array:
    """The logistic function `1 / (1 + exp(-x))`."""

def softplus(x: _Values, /) -> Array:
    """`log(1 + exp(x))`, without overflow."""

def erf(x: _Values, /) -> Array:
    """The error function `2/sqrt(pi) * integral of exp(-t**2) from 0 to x`."""

def erfc(x: _Values, /) -> Array:
    """The complementary error function `1 - erf(x)`, accurate for large `x`."""

def erfinv(x: _Values, /) -> Array:
    """The inverse of the error function: infinite at -1 and 1, NaN beyond."""

def relu(x: _Values, /) -> Array:
    """The positive part: `x` where it is positive, 0 elsewhere; NaN of NaN. At 0 the derivative is 0."""

def logical_not(x: _Values, /) -> Array:
    """Whether `x` is zero."""

def invert(x: _Values, /) -> Array:
    """The bits of `x` inverted; the negation of a bool."""

def isnan(x: _Values, /) -> Array:
    """Whether `x` is not a number."""

def isinf(x: _Values, /) -> Array:
    """Whether `x` is infinite."""

def isfinite(x: _Values, /) -> Array:
    """Whether `x` is neither infinite nor NaN."""

def add(x: _Values, y: _Values, /) -> Array:
    """The sum `x + y`."""

def sub(x: _Values, y: _Values, /) -> Array:
    """The difference `x - y`."""

def mul(x: _Values, y: _Values, /) -> Array:
    """The product `x * y`."""

def div(x: _Values, y: _Values, /) -> Array:
    """The quotient `x / y`; integers give a float."""

def pow(x: _Values, y: _Values, /) -> Array:
    """`x` to the power `y`. The derivative with respect to `y` is 0 where `x` is 0 and `y` is not negative."""

def maximum(x: _Values, y: _Values, /) -> Array:
    """The larger of both; NaN when either is. Where they are equal each gets half of the cotangent, but none of it goes to `x` in `maximum(x, 0)` with a literal 0 at a tie (so `relu(0)` has the derivative 0)."""

def minimum(x: _Values, y: _Values, /) -> Array:
    """The smaller of both; NaN when either is. Where they are equal each gets half of the cotangent, but none of it goes to `x` in `minimum(x, 0)` with a literal 0 at a tie (so `relu(0)` has the derivative 0)."""

def fmax(x: _Values, y: _Values, /) -> Array:
    """The larger of both, ignoring NaN. Ties are shared."""

def fmin(x: _Values, y: _Values, /) -> Array:
    """The smaller of both, ignoring NaN. Ties are shared."""

def atan2(x: _Values, y: _Values, /) -> Array:
    """The angle of the point (`y`, `x`) in radians, in all four quadrants: NumPy's `arctan2(x, y)` with its argument order (ordinate first)."""

def hypot(x: _Values, y: _Values, /) -> Array:
    """`sqrt(x*x + y*y)` without overflow; the derivative at (0, 0) is 0."""

def logaddexp(x: _Values, y: _Values, /) -> Array:
    """`log(exp(x) + exp(y))` without overflow."""

def floor_divide(x: _Values, y: _Values, /) -> Array:
    """`x / y` rounded down. Its derivative is 0."""

def remainder(x: _Values, y: _Values, /) -> Array:
    """The remainder of `x / y`, with the sign of `y`."""

def fmod(x: _Values, y: _Values, /) -> Array:
    """The remainder of `x / y`, with the sign of `x`."""

def copysign(x: _Values, y: _Values, /) -> Array:
    """`x` with the sign of `y`."""

def eq(x: _Values, y: _Values, /) -> Array:
    """Whether both are equal."""

def ne(x: _Values, y: _Values, /) -> Array:
    """Whether they differ."""

def lt(x: _Values, y: _Values, /) -> Array:
    """Whether `x` is less than `y`."""

def le(x: _Values, y: _Values, /) -> Array:
    """Whether `x` is at most `y`."""

def gt(x: _Values, y: _Values, /) -> Array:
    """Whether `x` is greater than `y`."""

def ge(x: _Values, y: _Values, /) -> Array:
    """Whether `x` is at least `y`."""

def logical_and(x: _Values, y: _Values, /) -> Array:
    """Whether both are non-zero."""

def logical_or(x: _Values, y: _Values, /) -> Array:
    """Whether one of them is non-zero."""

def logical_xor(x: _Values, y: _Values, /) -> Array:
    """Whether exactly one of them is non-zero."""

def bitwise_and(x: _Values, y: _Values, /) -> Array:
    """The bits that both have."""

def bitwise_or(x: _Values, y: _Values, /) -> Array:
    """The bits that one of them has."""

def bitwise_xor(x: _Values, y: _Values, /) -> Array:
    """The bits that exactly one of them has."""

def left_shift(x: _Values, y: _Values, /) -> Array:
    """The bits of `x` moved up by `y` places."""

def right_shift(x: _Values, y: _Values, /) -> Array:
    """The bits of `x` moved down by `y` places."""

def where(cond: _Values, x: _Values, y: _Values, /) -> Array:
    """`x` where the condition holds, `y` elsewhere. The cotangent of the branch that was not taken is exactly 0, whatever its derivative."""
