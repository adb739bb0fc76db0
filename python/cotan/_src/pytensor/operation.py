"""The operation of PyTensor that runs a NumPy function; imported where PyTensor is there."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from pytensor import tensor
from pytensor.gradient import DisconnectedType
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.tensor.exceptions import ShapeError

from cotan import _core
from cotan._src.optimize.functions import Replayed
from cotan._src.typing import Function

#: A dtype and a shape; a size that is not known is None.
Spec: TypeAlias = tuple[str, tuple[int | None, ...]]


class CotanOp(Op):  # type: ignore[misc]
    """A NumPy function of arrays that gives arrays of known dtypes and numbers of axes."""

    def __init__(self, f: Function, specs: list[Spec]) -> None:
        self.f, self.specs = f, specs
        self._run = Replayed(f, "value", f)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[object, ...]:
        return self.f, tuple(self.specs)

    def __str__(self) -> str:
        return f"cotan({getattr(self.f, '__name__', self.f)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return CotanOp, (self.f, self.specs)

    def make_node(self, *inputs: Any) -> Any:
        variables = [tensor.as_tensor_variable(x) for x in inputs]
        types = [tensor.TensorType(dtype, shape=shape) for dtype, shape in self.specs]
        return Apply(self, variables, [t() for t in types])

    def perform(self, node: Any, inputs: Any, output_storage: Any) -> None:  # noqa: ARG002
        found = self._run(*inputs)
        several = found if isinstance(found, (tuple, list)) else [found]
        if len(several) != len(self.specs):
            raise TypeError(
                f"{self}: the function gave {len(several)} results, not {len(self.specs)}"
            )
        for storage, value, (dtype, shape) in zip(output_storage, several, self.specs, strict=True):
            array = np.asarray(value)
            if len(shape) != array.ndim or any(
                n not in {None, m} for n, m in zip(shape, array.shape, strict=True)
            ):
                raise TypeError(
                    f"{self}: the function gave shape {array.shape}, and shape {shape} was "
                    "expected; pytensor.wrap traces it with ones, and takes result="
                )
            storage[0] = array.astype(dtype, copy=False)

    def infer_shape(self, fgraph: Any, node: Any, shapes: Any) -> Any:  # noqa: ARG002
        if any(None in shape for _, shape in self.specs):
            raise ShapeError
        return [tuple(map(tensor.as_tensor_variable, shape)) for _, shape in self.specs]

    def L_op(self, inputs: Any, outputs: Any, output_grads: Any) -> Any:  # noqa: N802
        """Give the pullback, an operation of this kind itself."""
        places = [i for i, x in enumerate(inputs) if x.dtype.startswith("float")]
        cotangents = [
            tensor.zeros_like(y) if isinstance(ct.type, DisconnectedType) else ct
            for y, ct in zip(outputs, output_grads, strict=True)
        ]
        cotangents = [ct.astype(y.dtype) for y, ct in zip(outputs, cotangents, strict=True)]
        kinds = [dtype.startswith("float") for dtype, _ in self.specs]
        pull = _Pull(self.f, len(inputs), tuple(places), tuple(kinds))
        specs = [(inputs[i].dtype, inputs[i].type.shape) for i in places]
        found: list[Any] = [DisconnectedType()() for _ in inputs]
        if places:
            slopes = CotanOp(pull, specs)(*inputs, *cotangents, return_list=True)
            for i, slope in zip(places, slopes, strict=True):
                found[i] = slope
        return found

    def R_op(self, inputs: Any, eval_points: Any) -> Any:  # noqa: N802
        """Give the pushforward, an operation of this kind itself."""
        places = [
            i
            for i, (x, t) in enumerate(zip(inputs, eval_points, strict=True))
            if t is not None and x.dtype.startswith("float")
        ]
        if not places:
            return [None for _ in self.specs]
        push = _Push(self.f, len(inputs), tuple(places))
        tangents = [eval_points[i].astype(inputs[i].dtype) for i in places]
        return CotanOp(push, self.specs)(*inputs, *tangents, return_list=True)

    def connection_pattern(self, node: Any) -> Any:
        """Say which result has a derivative with respect to which argument."""
        able = [dtype.startswith("float") for dtype, _ in self.specs]
        return [[x.dtype.startswith("float") and y for y in able] for x in node.inputs]

    # What later versions of PyTensor call them.
    pullback = L_op
    pushforward = R_op


class _Pull:
    """The pullback of a function, as one of its arguments and cotangents of its results."""

    def __init__(
        self, f: Function, count: int, places: tuple[int, ...], kinds: tuple[bool, ...]
    ) -> None:
        self.f, self.count, self.places, self.kinds = f, count, places, kinds
        self.__name__ = f"pullback of {getattr(f, '__name__', f)}"

    def _key(self) -> tuple[object, ...]:
        return self.f, self.count, self.places, self.kinds

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Pull) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __call__(self, *args: Any) -> list[Any]:
        inputs, cotangents = args[: self.count], args[self.count :]
        points = [inputs[i] for i in self.places]

        def inner(*points: Any) -> Any:
            found = self.f(*_filled(inputs, self.places, points))
            several = found if isinstance(found, (tuple, list)) else [found]
            terms = [
                np.sum(y * ct)
                for y, ct, kind in zip(several, cotangents, self.kinds, strict=True)
                if kind
            ]
            return sum(terms, np.zeros(()))

        slopes = _core.gradient(inner, *points)
        return [
            np.zeros(np.shape(x), x.dtype) if slope is None else slope
            for x, slope in zip(points, slopes, strict=True)
        ]


class _Push:
    """The pushforward of a function, as one of its arguments and tangents of some of them."""

    def __init__(self, f: Function, count: int, places: tuple[int, ...]) -> None:
        self.f, self.count, self.places = f, count, places
        self.__name__ = f"pushforward of {getattr(f, '__name__', f)}"

    def _key(self) -> tuple[object, ...]:
        return self.f, self.count, self.places

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Push) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __call__(self, *args: Any) -> Any:
        inputs, tangents = args[: self.count], args[self.count :]
        points = tuple(inputs[i] for i in self.places)
        return _core.jvp_alone(
            lambda *points: self.f(*_filled(inputs, self.places, points)), points, tangents
        )


def _filled(inputs: Sequence[Any], places: Sequence[int], points: Sequence[Any]) -> list[Any]:
    filled = list(inputs)
    for i, x in zip(places, points, strict=True):
        filled[i] = x
    return filled
