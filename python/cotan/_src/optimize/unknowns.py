"""The unknowns of a problem: a structure for the user, a vector of real numbers for SciPy.

Problem: SciPy's solvers move one vector of floats; the user's function takes a model. A complex
number is two unknowns, its real and its imaginary part, as minima need not be where a function is
holomorphic.
"""

from typing import Any

import numpy as np

from cotan import _core
from cotan._src.tree.ravel import ravel
from cotan._src.tree.structure import integers_as_floats, tree_leaves
from cotan._src.typing import AnyArray, NDArray


class Unknowns:
    """The structure of `x0`, to and from vectors of float64."""

    def __init__(self, operation: str, x0: object, name: str = "x0") -> None:
        tree = integers_as_floats(_with_floats(x0))
        vector, self.unravel = ravel(tree)
        if not self.unravel.size:
            raise TypeError(
                f"{operation}: {name} has no float or complex number or array that could be "
                f"varied, only {_described(tree)}; use astype(float) for arrays, 3.0 for 3"
            )
        self._tree = tree
        #: What the user calls the structure.
        self.name = name
        self._bare = self.unravel.without_constants()
        self._complex = self.unravel.dtype.kind == "c"
        #: The numbers of `x0`.
        self.start: AnyArray = self.to_vector(vector)

    @property
    def size(self) -> int:
        """The length of the vectors."""
        return self.unravel.size * (2 if self._complex else 1)

    def to_vector(self, numbers: AnyArray) -> Any:
        """Give real unknowns for the vector that `ravel` makes of a structure."""
        if self._complex:
            return np.concatenate([np.real(numbers), np.imag(numbers)]).astype(float)
        return numbers.astype(float)

    def _numbers(self, vector: Any) -> Any:
        if not self._complex:
            return vector
        half = self.unravel.size
        return vector[:half] + 1j * vector[half:]

    def argument(self, vector: AnyArray) -> Any:
        """Give the structure as the user's function receives it."""
        return self._bare(self._numbers(vector))

    def structure(self, vector: AnyArray) -> Any:
        """Give the structure as the user gets it: like `x0`, with `ct.const` where that had it."""
        return self.unravel(self._numbers(vector))

    def cotangent(self, vector: AnyArray) -> Any:
        """Give a gradient the form that `ct.gradient` gives it for `x0`."""
        numbers = _core.asarray(self._numbers(vector))

        def linear(x: object) -> Any:
            return np.real(np.vdot(numbers, self.unravel.vector(x)))

        # The gradient of a linear function has the numbers that are wanted.
        return _core.gradient(linear, self._tree)[0]

    def spread(self, operation: str, tree: object, default: float) -> NDArray:
        """Give a vector of what a structure like `x0` says: a number for each leaf, or an array.

        A number in place of the structure counts for all unknowns, None for `default`.
        """
        if tree is None or isinstance(tree, (int, float, np.number)):
            return np.full(self.size, default if tree is None else tree, float)
        self._expect_real(operation)
        parts = _core.structure(self._tree, declared=True, root=self.name)
        entries = parts.align(tree, operation)
        found = []
        for leaf, path, able, entry in zip(
            parts.leaves, parts.paths, parts.trainable, entries, strict=True
        ):
            if able:
                value = default if entry is None else entry
                found.append(_as_wide(operation, path, value, np.shape(leaf)))
        return np.concatenate(found)

    def entries(self, operation: str, tree: object) -> list[tuple[str, tuple[int, ...], Any]]:
        """Give for each leaf its path, its shape, and what a structure like `x0` says of it."""
        self._expect_real(operation)
        parts = _core.structure(self._tree, declared=True, root=self.name)
        columns = zip(
            parts.paths, parts.leaves, parts.align(tree, operation), parts.trainable, strict=True
        )
        return [(path, np.shape(leaf), entry) for path, leaf, entry, able in columns if able]

    def name_of(self, index: int) -> str:
        """Give the path of one of the real unknowns, such as `x0.w[1, 2]`."""
        parts = _core.structure(self._tree, declared=True, root=self.name)
        for leaf, path, able in zip(parts.leaves, parts.paths, parts.trainable, strict=True):
            shape = np.shape(leaf) if able else (0,)
            if index < np.prod(shape):
                at = ", ".join(str(i) for i in np.unravel_index(index, shape)) if shape else ""
                return f"{path}[{at}]" if at else path
            index -= int(np.prod(shape))
        raise IndexError(index)

    def _expect_real(self, operation: str) -> None:
        if self._complex:
            raise ValueError(
                f"{operation}: complex unknowns have no order, so bounds and scales for them are "
                "not defined; use two real unknowns"
            )


def _as_wide(operation: str, path: str, value: Any, shape: tuple[int, ...]) -> NDArray:
    """Give a value as a vector for a leaf of a shape."""
    try:
        return np.broadcast_to(np.asarray(value, float), shape).reshape(-1)
    except (ValueError, TypeError):
        raise ValueError(
            f"{operation}: {path} has shape {shape}, so a number or an array of that shape is "
            f"needed there, not {value!r}"
        ) from None


def _with_floats(tree: Any) -> Any:
    """Give a starting point with its integers as floats: alone, in an array, or in a list."""
    if type(tree) is int:
        return float(tree)
    if isinstance(tree, np.ndarray) and tree.dtype.kind in "iu":
        return tree.astype(float)
    if isinstance(tree, np.integer):
        return np.float64(tree)
    if type(tree) in {list, tuple}:
        return type(tree)(map(_with_floats, tree))
    return tree


def _described(tree: object) -> str:
    leaves = tree_leaves(tree)
    return f"leaves of dtype {leaves[0].dtype}" if leaves else f"{tree!r}"


def _is_table(x: object) -> bool:
    return type(x).__module__.partition(".")[0] == "pandas" and hasattr(x, "to_numpy")


def result_vector(operation: str, result: Any) -> tuple[Any, Any]:
    """Give what a function returned as a vector of real numbers, and the function that undoes it.

    Integers count as floats. Complex numbers are their real and then their imaginary parts. A table
    of pandas is the array of its values.
    """
    if _is_table(result):
        result = result.to_numpy()
    numbers, unravel = ravel(all_floats(result))
    if unravel.size == 0:
        raise ValueError(
            f"{operation}: the function returned no numbers, but {type(result).__name__}"
        )
    if unravel.dtype.kind != "c":
        return numbers.astype(float), unravel
    half = unravel.size
    parts = np.concatenate([np.real(numbers), np.imag(numbers)])
    return parts.astype(float), lambda v: unravel(v[:half] + 1j * v[half:])


def all_floats(tree: Any) -> Any:
    """Give a result with all of its integers as floats."""
    if isinstance(tree, (_core.Array, np.ndarray, np.generic)):
        return tree.astype(float) if tree.dtype.kind in "iub" else tree
    if isinstance(tree, int):
        return float(tree)
    if type(tree) in {list, tuple}:
        return type(tree)(map(all_floats, tree))
    if type(tree) is dict:
        return {key: all_floats(value) for key, value in tree.items()}
    return tree
