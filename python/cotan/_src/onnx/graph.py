"""An ONNX graph under construction: nodes, constants, open sizes, values of variables."""

import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from cotan._src.onnx.symbolic_sizes import (
    Factor,
    Length,
    MisfitError,
    Size,
    Symbols,
    fit_factor,
    fit_length,
)
from cotan._src.program.recorded import Entry, VariableType
from cotan._src.typing import NDArray

# The version of the operators, and of the file format that goes with it: old enough for runtimes of
# the last years, new enough for every operator of the primitive table.
OPSET = 18
IR_VERSION = 8

# ONNX has 2 GB for a file.
LARGEST = 2**31 - 2**20


def need_onnx() -> ModuleType:
    """Import the optional package."""
    try:
        return importlib.import_module("onnx")
    except ImportError as error:
        raise ImportError("to_onnx needs the package onnx: pip install 'cotan[onnx]'") from error


class Equation:
    """An equation with names in place of variables."""

    def __init__(
        self,
        name: str,
        x: list[str],
        types: list[tuple[str, list[Length]]],
        out: tuple[str, list[Length]],
        params: dict[str, Any],
    ) -> None:
        self.name = name
        self.x = x
        self.types = types
        self.dtype, self.shape = out
        self.params = params

    @property
    def source(self) -> str:
        """Give the dtype of the first argument; of a literal that of the result."""
        return self.types[0][0] if self.types else self.dtype

    def of(self, dtypes: dict[str, str], x: list[str]) -> "Equation":
        """Give the same equation on other dtypes."""
        types = [(dtypes.get(d, d), s) for d, s in self.types]
        out = (dtypes.get(self.dtype, self.dtype), self.shape)
        return Equation(self.name, x, types, out, self.params)

    def refuse(self, reason: str) -> NoReturn:
        """Refuse the equation by name."""
        shapes = ", ".join(f"{d}[{','.join(map(str, s))}]" for d, s in self.types)
        # What is called back has the name that its user gave it.
        name = self.params.get("name", self.name)
        raise ValueError(f"to_onnx: {name}({shapes}) has no ONNX form: {reason}")


class Graph:
    """Nodes and initializers, added one by one."""

    def __init__(self, symbols: Symbols | None = None) -> None:
        self.onnx = need_onnx()
        self.symbols = symbols or {}
        self.nodes: list[object] = []
        self.initializers: list[object] = []
        self.nbytes = 0
        self.taken: set[str] = set()
        # Where a symbol is read: an input and its axis.
        self.where: dict[str, tuple[str, int]] = {}
        # Values that are known while the graph is written.
        self.known: dict[str, NDArray] = {}
        # Translates an equation; gives the name of its result.
        self.translate: Callable[[Equation], str]
        # Loops of the graph that is being written, by number: the names of their outputs.
        self.loops: dict[int, dict[Any, str]] = {}
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._sizes: dict[str | tuple[int, ...], str] = {}
        self._count = 0

    def name(self, wanted: str) -> str:
        """Give a name that nothing else has."""
        while wanted in self.taken:
            wanted += "_"
        self.taken.add(wanted)
        return wanted

    def op(self, operator: str, *inputs: str, outputs: int = 1, **attributes: object) -> Any:
        """Add a node; gives the name of its result, or of each of several."""
        names = self.ops(operator, *inputs, outputs=outputs, **attributes)
        return names[0] if outputs == 1 else names

    def ops(self, operator: str, *inputs: str, outputs: int, **attributes: object) -> list[str]:
        """Add a node; gives the names of its results."""
        names = [self.name(f"_{self._count + i}") for i in range(outputs)]
        self._count += outputs
        self.nodes.append(self.onnx.helper.make_node(operator, list(inputs), names, **attributes))
        return names

    @contextmanager
    def inside(self) -> Iterator[list[object]]:
        """Write nodes into a graph inside of this one, which reads all that there is so far."""
        outer = self.nodes, self.loops, self._sizes
        self.nodes, self.loops, self._sizes = [], {}, dict(self._sizes)
        try:
            yield self.nodes
        finally:
            self.nodes, self.loops, self._sizes = outer

    def write(
        self, equations: Sequence[Entry], types: Sequence[VariableType], variables: dict[int, str]
    ) -> None:
        """Add the nodes of equations; `variables` has names of what they read, and gets theirs."""
        for name, args, out, params in equations:
            x = [variables[a] for a in args]
            e = Equation(name, x, [types[a] for a in args], types[out], params)
            try:
                variables[out] = self.translate(e)
            except MisfitError as error:
                symbols = ", ".join(self.symbols)
                e.refuse(f"no formula was found for its {error} in {symbols}; leave the size fixed")

    def info(self, name: str, type: VariableType) -> object:
        """Give what a graph says of an input or an output."""
        dtype, shape = type
        if dtype.startswith("complex"):
            raise ValueError(
                f"to_onnx: {name} is of dtype {dtype}, and ONNX has no complex numbers; write real "
                "and imaginary parts as two real arrays"
            )
        symbol = {sizes: name for name, sizes in self.symbols.items()}
        dims = [symbol.get(n.values) if isinstance(n, Size) else n for n in shape]
        number = tensor_type(self.onnx, dtype)
        return self.onnx.helper.make_tensor_value_info(name, number, dims)

    # Constants

    def const(self, value: npt.ArrayLike, dtype: str | None = None) -> str:
        """Give a known array; equal small ones are one."""
        array = np.asarray(value) if dtype is None else _of_dtype(value, dtype)
        small = array.nbytes <= 256
        key = (array.dtype.name, array.shape, array.tobytes() if small else b"")
        if small and key in self._constants:
            return self._constants[key]
        name = self.initializer(self.name(f"_c{len(self.initializers)}"), array)
        if small:
            self._constants[key] = name
        return name

    def initializer(self, name: str, array: NDArray) -> str:
        """Put an array into the file under a name."""
        self.nbytes += array.nbytes
        if self.nbytes > LARGEST:
            raise ValueError(
                f"to_onnx: with {name} ({array.nbytes / 1e9:.1f} GB) the file would have "
                f"{self.nbytes / 1e9:.1f} GB, and the limit of ONNX files is 2 GB; export a "
                "function that takes its largest arrays as arguments, or narrow the pullback "
                "(back.wrt)"
            )
        self.initializers.append(tensor(self.onnx, array, name))
        self.known[name] = array
        return name

    def number(self, value: npt.ArrayLike, dtype: str) -> str:
        """Give a scalar of a dtype."""
        return self.const(value, dtype)

    # Sizes

    def length(self, value: Length | str) -> str:
        """Give a length as an int64 array of one element; it may be one already."""
        if isinstance(value, str):
            return value
        if not isinstance(value, Size):
            return self.const(np.asarray([value], np.int64))
        if value.values not in self._sizes:
            self._sizes[value.values] = self._formula(value)
        return self._sizes[value.values]

    def _symbol(self, name: str) -> str:
        if name not in self._sizes:
            source, axis = self.where[name]
            self._sizes[name] = self.op("Shape", source, start=axis, end=axis + 1)
        return self._sizes[name]

    def _formula(self, value: Size) -> str:
        terms, divisor, factor, offset = fit_length(value.values, self.symbols)
        total = ""
        for term, coefficient in terms.items():
            part = self.length(coefficient) if coefficient != 1 or not term else ""
            for symbol in term:
                part = self.op("Mul", part, self._symbol(symbol)) if part else self._symbol(symbol)
            total = self.op("Add", total, part) if total else part
        if divisor != 1:
            # What is divided may be negative, and integers are divided towards zero.
            remainder = self.op("Mod", total, self.length(divisor))
            total = self.op("Div", self.op("Sub", total, remainder), self.length(divisor))
        if factor != 1:
            total = self.op("Mul", total, self.length(factor))
        if offset != 0:
            total = self.op("Add", total, self.length(offset))
        return total

    def lengths(self, values: Sequence[Length | str]) -> str:
        """Give several lengths as one array."""
        if not any(isinstance(v, (Size, str)) for v in values):
            return self.const(np.asarray(values, np.int64).reshape(len(values)))
        return str(self.op("Concat", *(self.length(v) for v in values), axis=0))

    def factor(self, value: Factor, dtype: str) -> str:
        """Give a number that depends on sizes, as a scalar."""
        eps = float(np.finfo(dtype).eps) if dtype in {"float32", "float64"} else 1e-3
        scale, parts = fit_factor(value.values, self.symbols, eps)
        out = self.const(scale, "float64")
        for symbol, shift, k in parts:
            n = self.cast(self.scalar(self._symbol(symbol)), "float64")
            if shift:
                n = self.op("Add", n, self.const(float(shift), "float64"))
            if abs(k) != 1:
                n = self.op("Pow", n, self.const(abs(k), "float64"))
            out = self.op("Mul" if k > 0 else "Div", out, n)
        return self.cast(out, dtype)

    def scalar(self, name: str) -> str:
        """Take the axis away from an array of one element."""
        return str(self.op("Squeeze", name, self.const(np.asarray([0], np.int64))))

    # What recipes are made of

    def cast(self, x: str, dtype: str) -> str:
        """Convert to a dtype."""
        known = self.known.get(x)
        # Not of a float to an integer: what is out of range is for the runtime.
        exact = known is not None and (known.dtype.kind in "biu" or dtype.startswith("float"))
        if known is not None and exact and known.size <= 16 and known.dtype.kind in "biuf":
            return self.const(known, dtype)
        return str(self.op("Cast", x, to=tensor_type(self.onnx, dtype)))

    def where_(self, cond: str, x: str, y: str) -> str:
        """Choose element by element."""
        return str(self.op("Where", cond, x, y))

    def reshape(self, x: str, shape: Sequence[Length | str]) -> str:
        """Bring into a shape."""
        return str(self.op("Reshape", x, self.lengths(shape), allowzero=1))

    def expand(self, x: str, shape: Sequence[Length | str]) -> str:
        """Repeat to a shape."""
        return str(self.op("Expand", x, self.lengths(shape)))

    def slice(
        self, x: str, start: Sequence[Length], len: Sequence[Length], step: Sequence[int]
    ) -> str:
        """Take a strided region."""
        ends = []
        for a, n, s in zip(start, len, step, strict=True):
            end = a + n * s
            # A negative end counts from the end of the axis; this one is before its beginning.
            below = s < 0 and (min(end.values) if isinstance(end, Size) else end) < 0
            ends.append(-(2**31) if below else end)
        axes = self.const(np.arange(_len(start), dtype=np.int64))
        return str(
            self.op("Slice", x, self.lengths(start), self.lengths(ends), axes, self.lengths(step))
        )


_len = len


def _of_dtype(value: npt.ArrayLike, dtype: str) -> NDArray:
    if dtype == "bfloat16":
        return np.asarray(value).astype(importlib.import_module("ml_dtypes").bfloat16)
    return np.asarray(value).astype(dtype)


def tensor_type(onnx: ModuleType, dtype: str) -> int:
    """Give ONNX's number of a dtype."""
    names = {"float32": "FLOAT", "float64": "DOUBLE"}
    return int(getattr(onnx.TensorProto, names.get(dtype, dtype.upper())))


def tensor(onnx: ModuleType, array: NDArray, name: str) -> object:
    """Give an array as ONNX has it, for every dtype."""
    array = np.asarray(array, order="C")
    data = array if array.dtype.byteorder != ">" else array.astype(array.dtype.newbyteorder("<"))
    return onnx.helper.make_tensor(
        name, tensor_type(onnx, array.dtype.name), array.shape, data.tobytes(), raw=True
    )


# --------------------------------------------------------------------------------------------------
# Equations

Recipe = Callable[[Graph, Equation], str]

# Primitives that only move elements, whatever they are.
