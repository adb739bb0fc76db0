"""The data of a fit: a structure for the user, a vector of real numbers for SciPy.

Problem: SciPy subtracts one vector from another. A model that gives arrays of other shapes than the
data, or a dictionary in another order, would be compared with the wrong numbers, or fail with an
error that names neither.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from cotan import _core
from cotan._src.optimize.unknowns import all_floats, result_vector
from cotan._src.runtime.values import is_array, of_table, to_numpy
from cotan._src.typing import NDArray


class Data:
    """The numbers of `ydata`, and how results of the function and `sigma` fit them.

    `omit` says whether numbers that are NaN, in `ydata` or in `xdata` beside them, are left out.
    """

    def __init__(self, operation: str, ydata: object, xdata: object, omit: bool) -> None:
        tree = all_floats(_as_array(ydata))
        parts = _core.structure(tree, root="ydata")
        self._operation = operation
        self._parts = parts
        self._leaves = list(zip(parts.paths, map(np.shape, parts.leaves), strict=True))
        self._is_complex = any(_is_complex(leaf) for leaf in parts.leaves)
        if not parts.leaves:
            raise ValueError(
                f"{operation}: ydata has no numbers, it is of the class {type(ydata).__name__}"
            )
        numbers, _ = result_vector(operation, list(parts.leaves))
        self._num_given = int(numbers.shape[0])
        self._kept: NDArray | None = None
        if omit:
            self._kept = ~(np.isnan(to_numpy(numbers)) | self._beside_nan(xdata))
        #: The data, without those that are left out.
        self.vector = self._without_nan(numbers)

    def _beside_nan(self, xdata: object) -> NDArray:
        """Say for each number if an element of `xdata` in the same column is NaN."""
        if isinstance(xdata, np.ndarray) and xdata.dtype.kind == "f" and xdata.ndim:
            is_nan: NDArray = np.any(np.isnan(xdata), axis=tuple(range(xdata.ndim - 1)))
            if is_nan.shape == (self._num_given,):
                return is_nan
        return np.zeros(self._num_given, bool)

    def _without_nan(self, numbers: Any) -> Any:
        return numbers if self._kept is None else numbers[self._kept]

    def vector_of(self, result: object) -> Any:
        """Give the numbers of what the function returned, in the order of the data.

        Raises `ValueError` where it is no structure like `ydata`.
        """
        found = []
        for (path, shape), entry in zip(self._leaves, self._aligned(result, "f"), strict=True):
            given = _shape_of(entry)
            if given != shape:
                raise ValueError(
                    f"{self._operation}: {path} has {_counted(shape)}, and f returned "
                    f"{_described(entry, given)} there; {_remedy(shape, given)}"
                )
            if _is_complex(entry) and not self._is_complex:
                raise ValueError(
                    f"{self._operation}: f returned complex numbers and {path} is real; use "
                    "ydata.astype(complex), or let f return a real and an imaginary part"
                )
            found.append(entry)
        numbers, _ = result_vector(self._operation, [self._as_kind(x, 0) for x in found])
        return self._without_nan(numbers)

    def _as_kind(self, numbers: Any, imaginary: float) -> Any:
        """Give complex numbers where the data are complex; `imaginary` times what is real."""
        if not self._is_complex or _is_complex(numbers):
            return numbers
        return _as_array(numbers) * complex(1, imaginary)

    def _aligned(self, other: Any, what: str) -> list[Any]:
        try:
            return self._parts.align(_as_array(other), self._operation)
        except ValueError as error:
            said = str(error).removeprefix(f"{self._operation}: ")
            raise ValueError(f"{self._operation}: {what} does not fit ydata: {said}") from None

    def deviations(self, sigma: Any) -> Any:
        """Give what SciPy takes for `sigma`: a vector, or the matrix of covariances.

        Raises `ValueError` where it does not fit `ydata`, or has numbers that are not positive.
        """
        n, sigma = self._num_given, _as_array(sigma)
        if sigma is None:
            return None
        if _shape_of(sigma) == (n, n) and n > 1:
            return sigma if self._kept is None else sigma[np.ix_(self._kept, self._kept)]
        found = []
        whole = _shape_of(sigma) == ()
        entries = [sigma] * len(self._leaves) if whole else self._aligned(sigma, "sigma")
        for (path, shape), entry in zip(self._leaves, entries, strict=True):
            given = _shape_of(entry)
            if given not in {shape, ()}:
                raise ValueError(
                    f"{self._operation}: {path} has {_counted(shape)}, and sigma "
                    f"{_described(entry, given)} there; sigma is a number, or standard deviations "
                    f"like ydata, or the covariances of all numbers, of shape {(n, n)}"
                )
            if self._kept is None:
                _expect_positive(self._operation, path.replace("ydata", "sigma", 1), entry)
            spread = np.ones(shape) * _as_array(all_floats(entry))
            found.append(self._as_kind(spread, 1))
        numbers, _ = result_vector(self._operation, found)
        numbers = self._without_nan(numbers)
        if self._kept is not None:
            _expect_positive(self._operation, "sigma without what is left out", numbers)
        return numbers

    def expect_finite(self) -> None:
        """Raise `ValueError` where a number of the data is NaN or infinite."""
        for path, leaf in zip(self._parts.paths, self._parts.leaves, strict=True):
            expect_finite(self._operation, path, leaf)


def expect_finite(operation: str, path: str, values: object) -> None:
    """Raise `ValueError` where a number is NaN or infinite; arrays that are recorded pass."""
    if is_array(values) or not isinstance(values, (np.ndarray, float, complex)):
        return
    numbers = np.asarray(values)
    if numbers.dtype.kind in "fc" and not np.all(np.isfinite(numbers)):
        where, value = _first(path, numbers, ~np.isfinite(numbers))
        raise ValueError(
            f"{operation}: {where} is {value}; leave it out of xdata and ydata, or pass "
            "nan_policy='omit' if it is NaN"
        )


def _expect_positive(operation: str, path: str, sigma: Any) -> None:
    if not _core.contains_array((sigma,), {}) and not _is_complex(sigma):
        values = np.asarray(sigma)
        if not np.all(values > 0):
            where, value = _first(path, values, ~(values > 0))
            raise ValueError(
                f"{operation}: {where} is {value}; standard deviations must be positive"
            )


def _first(path: str, values: Any, wrong: Any) -> tuple[str, Any]:
    """Give the name of the first number that is wrong, and the number."""
    index = tuple(int(i) for i in np.argwhere(wrong)[0]) if np.ndim(wrong) else ()
    at = f"[{', '.join(map(str, index))}]" if index else ""
    return f"{path}{at}", np.asarray(values)[index]


def _as_array(x: Any) -> Any:
    """Give an array for a list of numbers, also a nested one, and for a column of a table."""
    x = of_table(x)
    if not is_array(x) and not isinstance(x, (np.ndarray, np.generic)) and hasattr(x, "__array__"):
        return np.asarray(x)
    if type(x) not in {list, tuple} or not x or _shape_of(x) is None:
        return x
    return _core.array(x) if _core.contains_array((x,), {}) else np.asarray(x)


def _shape_of(x: Any) -> tuple[int, ...] | None:
    """Give the shape of an array, a number, or a list of such; None for other structures."""
    if isinstance(x, (np.ndarray, np.generic, _core.Array, int, float, complex)):
        return tuple(np.shape(x))
    if type(x) in {list, tuple}:
        shapes = {_shape_of(item) for item in x}
        if len(shapes) == 1 and None not in shapes:
            return (len(x), *(shapes.pop() or ()))
    return None


def _is_complex(x: Any) -> bool:
    if isinstance(x, (list, tuple)):
        return any(map(_is_complex, x))
    dtype = getattr(x, "dtype", None)
    return isinstance(x, complex) if dtype is None else dtype.kind == "c"


def _counted(shape: Iterable[int]) -> str:
    return f"shape {shape}" if shape else "one number"


def _described(entry: object, shape: tuple[int, ...] | None) -> str:
    if shape is None:
        return "nothing" if entry is None else f"{type(entry).__name__}"
    return f"shape {shape}" if shape else "one number"


def _remedy(shape: tuple[int, ...], given: tuple[int, ...] | None) -> str:
    if given is not None and np.prod(given) == np.prod(shape):
        return f"use ydata.reshape{given}, or reshape what f returns"
    return "f is called once with all of xdata, and must return as many numbers as there are data"
