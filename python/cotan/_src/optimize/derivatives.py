"""Derivatives of a function in the forms that SciPy's solvers take: `Derivatives`.

Problem: solvers call `fun`, `jac=`, `hess=`, `hessp=` one after the other at the same point, each
with conventions of its own. A function that is recorded at every call costs more than the search,
and a gradient that computes the value again twice as much as it should.
"""

from typing import Any, TypeAlias

import numpy as np

from cotan import _core
from cotan._src.api.jacobian import jacobian
from cotan._src.api.operators import jacobian_operator
from cotan._src.api.second_order import hessian, hvp
from cotan._src.api.sparse_derivatives import RepeatedMatrix, Sparse
from cotan._src.api.vmap import vmap
from cotan._src.optimize.functions import Replayed, is_recording
from cotan._src.typing import Args, Function

#: Which positional arguments: one, several, or a slice of them.
Positions: TypeAlias = int | tuple[int, ...] | slice

_NAME = "optimize.Derivatives"


class Derivatives:
    """A function with its derivatives, as the solvers of `scipy.optimize` and others take them.

    The methods take the arguments of the function, and are what SciPy calls `fun`, `jac`, `hess`,
    `hessp`. Each is prepared at its first call (`ct.prepare`) where that is possible, so that
    further calls run without Python. A gradient is computed together with the value where the
    solver asks for both at one point.

    Parameters
    ----------
    fun
        The function: a number or an array of the vector that is varied, and of further arguments.
    wrt
        The position of the argument that derivatives are with respect to. A tuple of positions
        gives a tuple of Jacobians. A slice stands for arguments that are numbers, and together a
        vector: `slice(1, None)` for `f(xdata, *params)` of `curve_fit`.
    sparse
        True for Jacobians and Hessians as `scipy.sparse.csr_array`. The pattern is found at the
        first call, and anew where the function takes other branches; a `SparsityPattern` or a
        `Coloring` saves that.
    columns
        The function computes many cases at once, along the last axis: each element of `newton` with
        an array, each column of `fun(x, y)` of `solve_bvp`. Derivatives are those of each case
        alone. Arguments with fewer axes than the result belong to all cases.

    Attributes
    ----------
    how : str
        Whether value and derivatives were prepared, or why not.

    Raises
    ------
    TypeError
        When `fun` is not callable, or `wrt` or `sparse` are something else.
    ValueError
        When `columns` and `sparse` are combined; from a method that does not go with `wrt` or
        `columns`.

    Notes
    -----
    `fun` is assumed to be a function of its arguments between a call of `fun` and the following one
    of `jac` at the same point; what is closed over may change from one search to the next.

    >>> import cotan as ct
    >>> import numpy as np
    >>> from scipy.optimize import minimize
    >>> def valley(x):
    ...     return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)
    >>> d = ct.optimize.Derivatives(valley)
    >>> found = minimize(d.fun, np.zeros(5), jac=d.jac, hessp=d.hessp, method="trust-ncg")
    >>> np.round(found.x, 6)
    array([1., 1., 1., 1., 1.])
    >>> d.hess(np.zeros(2))
    array([[  2.,   0.],
           [  0., 200.]])
    """

    def __init__(
        self,
        fun: Function,
        wrt: Positions = 0,
        *,
        sparse: Sparse = False,
        columns: bool = False,
    ) -> None:
        if not callable(fun):
            raise TypeError(f"{_NAME}: fun must be callable, not {type(fun).__name__}")
        if sparse is not False and columns:
            raise ValueError(f"{_NAME}: sparse= and columns=True do not go together")
        self._fun, self._wrt, self._columns = fun, _checked(wrt), columns
        self._is_sparse = sparse is not False
        self._is_scalar: bool | None = None
        self._value = Replayed(self._call, "value", fun)
        self._both = Replayed(self._call, "value_and_gradient", fun)
        slopes = self._slopes if columns else self._dense
        self._jac = Replayed(slopes, "value", fun)
        curvature = self._curvatures if columns else self._dense_hessian
        self._hess = Replayed(curvature, "value", fun)
        self._weighted = Replayed(self._dense_weighted, "value", fun)
        self._product = Replayed(
            lambda x, v, *args: hvp(lambda x: self._call(x, *args), x, v), "value", fun
        )
        self._sparse_jac = RepeatedMatrix(_NAME, sparse)
        self._sparse_hess = RepeatedMatrix(_NAME, sparse, second=True)
        # A gradient that was computed with the last value, and where that was.
        self._kept: tuple[Any, Args, Any] | None = None
        self._place: tuple[Any, Args] | None = None
        self._wants_both = True

    @property
    def how(self) -> str:
        """Say how values and derivatives were computed."""
        parts = {
            "fun": self._value,
            "fun with jac": self._both,
            "jac": self._jac,
            "hess": self._hess,
            "weighted_hess": self._weighted,
            "hessp": self._product,
        }
        return "; ".join(f"{name}: {part.how}" for name, part in parts.items() if part.how)

    def fun(self, *args: Any) -> Any:
        """Give the value."""
        point, rest = self._split("fun", args)
        if self._is_scalar is None or not self._is_scalar or not self._can_keep(point):
            value = self._value(point, *rest)
            self._is_scalar = np.ndim(value) == 0
            return value
        # Solvers want the gradient at every point, or at few; what followed on the last value says
        # which. To compute both is cheaper than one after the other.
        if not self._wants_both:
            self._kept, self._place = None, (np.array(point), rest)
            self._wants_both = False
            return self._value(point, *rest)
        self._wants_both = False
        value, gradients = self._both(point, *rest)
        slope = gradients[0]
        slope = np.zeros(np.shape(point))[()] if slope is None else slope
        self._kept, self._place = (np.array(point), rest, slope), None
        return value

    def jac(self, *args: Any) -> Any:
        """Give the gradient of a number, or the Jacobian: a row for each result.

        A tuple of Jacobians with a tuple `wrt`. With `columns`, of the shape of the result without
        its last axis, that of the argument without it, and the number of columns.
        """
        point, rest = self._split("jac", args)
        kept, place = self._kept, self._place
        self._kept = self._place = None
        if kept is not None and _is_same(kept[:2], point, rest):
            self._wants_both = True
            return kept[2]
        if place is not None and _is_same(place, point, rest):
            self._wants_both = True
        if self._is_sparse and not self._is_known_scalar(point, rest):
            return self._sparse_jac(lambda x: self._call(x, *rest), point)
        return self._jac(point, *rest)

    def hess(self, *args: Any) -> Any:
        """Give the Hessian of a number; with `columns`, second derivatives of each case."""
        point, rest = self._split("hess", args)
        self._expect_one("hess")
        if self._is_sparse:
            return self._sparse_hess(lambda x: self._call(x, *rest), point)
        return self._hess(point, *rest)

    def hessp(self, x: Any, p: Any, *args: Any) -> Any:
        """Give the product of the Hessian of a number with a vector."""
        self._expect_first("hessp")
        point, rest = self._split("hessp", (x, *args))
        return self._product(point, np.asarray(p, np.result_type(point)), *rest)

    def weighted_hess(self, x: Any, v: Any, *args: Any) -> Any:
        """Give the Hessian of the inner product of the results and multipliers `v`.

        It is `hess=` of `scipy.optimize.NonlinearConstraint`.
        """
        self._expect_first("weighted_hess")
        point, rest = self._split("weighted_hess", (x, *args))
        if self._is_sparse:
            return self._sparse_hess(lambda x: self._inner(x, v, *rest), point)
        return self._weighted(point, np.asarray(v, float), *rest)

    def operator(self, *args: Any) -> Any:
        """Give the Jacobian as a `scipy.sparse.linalg.LinearOperator`; see `jacobian_operator`."""
        point, rest = self._split("operator", args)
        self._expect_one("operator")
        return jacobian_operator(lambda x: self._call(x, *rest), point)

    # ----------------------------------------------------------------------------------------------
    # Arguments

    def _split(self, method: str, args: Args) -> tuple[Any, Args]:
        """Give what is varied, and the other arguments."""
        wrt = self._wrt
        if isinstance(wrt, slice):
            inside = range(len(args))[wrt]
            rest = tuple(x for i, x in enumerate(args) if i not in inside)
            return np.array([float(args[i]) for i in inside]), rest
        several = wrt if isinstance(wrt, tuple) else (wrt,)
        if max(several) >= len(args):
            raise TypeError(f"{_NAME}.{method}: wrt={wrt!r}, and there are {len(args)} arguments")
        points = [_as_float(args[i]) for i in several]
        rest = tuple(x for i, x in enumerate(args) if i not in several)
        return (tuple(points) if isinstance(wrt, tuple) else points[0]), rest

    def _call(self, point: Any, *rest: object) -> Any:
        """Call the function with what is varied in its place."""
        wrt, args = self._wrt, list(rest)
        if isinstance(wrt, slice):
            numbers = [point[i] for i in range(len(point))]
            args[wrt.start : wrt.start] = numbers
        else:
            pairs = zip(wrt, point, strict=True) if isinstance(wrt, tuple) else [(wrt, point)]
            for i, x in sorted(pairs, key=lambda pair: pair[0]):
                args.insert(i, x)
        result = self._fun(*args)
        return np.stack(result) if type(result) in {list, tuple} else result

    def _can_keep(self, point: Any) -> bool:
        return isinstance(self._wrt, int) and not (is_recording() or np.iscomplexobj(point))

    def _is_known_scalar(self, point: Any, rest: Args) -> bool:
        if self._is_scalar is None:
            self._is_scalar = np.ndim(self._value(point, *rest)) == 0
        return self._is_scalar

    def _expect_one(self, method: str) -> None:
        if isinstance(self._wrt, tuple):
            raise ValueError(
                f"{_NAME}.{method}: wrt={self._wrt!r} are several arguments; give one position"
            )

    def _expect_first(self, method: str) -> None:
        if self._wrt != 0 or self._columns:
            raise ValueError(
                f"{_NAME}.{method}: the solvers that take it vary the first argument; leave out "
                "wrt= and columns=, or use ct.hvp"
            )

    # ----------------------------------------------------------------------------------------------
    # Derivatives of a point and further arguments

    def _dense(self, point: Any, *rest: object) -> Any:
        is_complex = any(map(np.iscomplexobj, point if isinstance(point, tuple) else (point,)))
        return jacobian(lambda x: self._call(x, *rest), point, holomorphic=is_complex)

    def _dense_hessian(self, point: Any, *rest: object) -> Any:
        return hessian(lambda x: self._call(x, *rest), point)

    def _inner(self, point: Any, v: Any, *rest: object) -> Any:
        return np.sum(np.reshape(self._call(point, *rest), -1) * np.reshape(v, -1))

    def _dense_weighted(self, point: Any, v: Any, *rest: object) -> Any:
        return hessian(lambda x: self._inner(x, v, *rest), point)

    def _slopes(self, point: Any, *rest: object) -> Any:
        def value(point: Any) -> Any:
            return self._call(point, *rest)

        return _by_case(value, point, None)

    def _curvatures(self, point: Any, *rest: object) -> Any:
        def value(point: Any) -> Any:
            return self._call(point, *rest)

        ndim = np.ndim(value(point))
        return _by_case(lambda x: _by_case(value, x, ndim), point, ndim)


def _by_case(function: Function, point: Any, ndim: int | None) -> Any:
    """Give derivatives of each column of what a function gives.

    `ndim` is the number of axes of the result of the user's function.
    """
    if isinstance(point, tuple):
        return tuple(
            _by_case(lambda x, i=i: function((*point[:i], x, *point[i + 1 :])), part, ndim)
            for i, part in enumerate(point)
        )
    value, push = _core.linearize(function, point)
    if not np.ndim(value):
        return push(np.ones_like(point))
    shape = np.shape(point)
    cases = np.shape(value)[-1:]
    own = shape[:-1] if len(shape) == (np.ndim(value) if ndim is None else ndim) else shape
    size = int(np.prod(own))
    basis = np.eye(size).reshape((size, *own))
    if own != shape:
        basis = np.repeat(basis[..., None], shape[-1], axis=-1)
    found = vmap(push)(basis)
    outer = np.shape(value)[:-1]
    return np.reshape(np.moveaxis(found, 0, -2), (*outer, *own, *cases))


def _checked(wrt: Any) -> Positions:
    several = wrt if isinstance(wrt, tuple) else (wrt,)
    if isinstance(wrt, slice):
        if isinstance(wrt.start, int) and wrt.start >= 0 and wrt.step in {None, 1}:
            return wrt
    elif several and all(type(i) is int and i >= 0 for i in several):
        found: Positions = wrt
        return found
    raise TypeError(
        f"{_NAME}: wrt must be a position, a tuple of positions, or a slice such as "
        f"slice(1, None), not {wrt!r}"
    )


def _as_float(x: Any) -> Any:
    """Give what a solver passes as floats: integers and lists, too."""
    if isinstance(x, (_core.Array, float, complex)):
        return x
    if isinstance(x, int):
        return float(x)
    array = np.asarray(x)
    return array.astype(float) if array.dtype.kind in "iub" else array


def _is_same(place: tuple[Any, Args], point: Any, rest: Args) -> bool:
    """Say whether arguments are those of another call."""
    if len(place[1]) != len(rest) or any(a is not b for a, b in zip(place[1], rest, strict=True)):
        return False
    return np.shape(place[0]) == np.shape(point) and bool(np.array_equal(place[0], point))
