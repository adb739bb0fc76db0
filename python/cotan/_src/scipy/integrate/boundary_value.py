"""Override of `scipy.integrate.solve_bvp`: boundary value problems.

SciPy finds mesh and solution, on values. On that mesh the solution, and unknown parameters with it,
solve the equations of collocation and the boundary conditions (Kierzenka, Shampine, A BVP Solver
Based on Residual Control and the Matlab PSE, 2001). Their derivative is given by the implicit
function theorem, with the mesh held constant.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from cotan import _core
from cotan._core import NotDifferentiableError
from cotan._src.kit.host_call import linear
from cotan._src.kit.implicit_diff import expect_solution, stacked, without_rule
from cotan._src.rebind.engine import locate, locate_original
from cotan._src.runtime.registry import ALWAYS, override
from cotan._src.runtime.values import attach_derivative, contains_active, is_active, to_numpy
from cotan._src.state.callback_probe import (
    CallbackProbe,
    any_captures_active,
    probed,
    to_numpy_items,
)
from cotan._src.state.plain_copy import PlainCallback, is_one_gradient
from cotan._src.state.snapshot import StateSnapshot
from cotan._src.typing import AnyArray, ArrayLike, Function, NDArray

_NAME = "solve_bvp"
#: From residuals to a step of Newton's method.
_Newton = Callable[[ArrayLike], AnyArray]


@override("scipy.integrate.solve_bvp", when=ALWAYS)
def solve_bvp(fun: Function, bc: Function, x: ArrayLike, y: ArrayLike, p: ArrayLike | None = None,
              S: ArrayLike | None = None, fun_jac: Function | None = None,  # noqa: N803
              bc_jac: Function | None = None, *rest: object,
              **options: object) -> Any:  # fmt: skip
    solve = locate_original("scipy.integrate.solve_bvp")
    if contains_active((x, S, rest, options)):
        raise NotDifferentiableError(
            f"{_NAME}: an active mesh, S, or tolerance has no derivative rule in cotan; map the "
            "interval to constant ends and let the right side have its length as a factor, or hold "
            "them constant with ct.dropgrad"
        )
    guess = to_numpy_items(x), to_numpy_items(y), to_numpy_items(p), S
    if is_one_gradient():
        both = PlainCallback((fun, bc), (), fun_jac, bc_jac)
        if both.captures:
            plain: tuple[Function, Function] = both.plain
            given = [both.checked(f) if callable(f) else f for f in both.others]
            found = both.run(
                lambda: solve(*map(both.checked, plain), *guess, *given, *rest, **options),
                lambda result: _derived(_Equations(fun, bc, result, S), plain, result),
            )
            if found is not None:
                return found
    function, ends = CallbackProbe(fun), CallbackProbe(bc)
    snapshot = StateSnapshot(fun, bc, fun_jac, bc_jac)
    begin = snapshot.state()
    jacs = [probed(fun_jac), probed(bc_jac)]
    result = solve(function, ends, *guess, *jacs, *rest, **options)
    if not any_captures_active(function, ends):
        return result
    end = snapshot.state()
    if contains_active([saved for slot, saved in end.items() if begin.get(slot) is not saved]):
        raise NotDifferentiableError(
            f"{_NAME}: the right side or the boundary conditions keep values that are "
            "differentiated from one call to the next; compute them from the solution, or keep "
            "ct.dropgrad of them"
        )
    snapshot.restore()
    try:
        return _derived(_Equations(fun, bc, result, S), (fun, bc), result)
    finally:
        snapshot.restore_to(end)


class _Slopes(NamedTuple):
    """Derivatives of a right side in each column: by the state, and by the parameters."""

    of_state: NDArray
    of_parameters: NDArray


class _Equations:
    """The equations of collocation on the mesh of a solution, and the boundary conditions."""

    def __init__(self, fun: Function, bc: Function, result: Any, singular: Any) -> None:
        self._fun, self._bc = fun, bc
        self.x, self.h = result.x, np.diff(result.x)
        self.n, self.m = result.y.shape
        self.k = 0 if result.p is None else len(result.p)
        self._singular = None if singular is None else np.asarray(singular, np.float64)

    def with_functions(self, fun: Function, bc: Function) -> "_Equations":
        """Give the same for other functions."""
        made = object.__new__(_Equations)
        made.__dict__.update(self.__dict__)
        made._fun, made._bc = fun, bc
        return made

    def slope(self, x: NDArray, y: AnyArray, p: AnyArray) -> AnyArray:
        """Give the right side in each column, with the singular term."""
        given = self._fun(x, y, p) if self.k else self._fun(x, y)
        f = _core.cast(stacked(given), np.float64)
        if self._singular is None:
            return f
        distance = x - self.x[0]
        if distance[0]:
            moved: AnyArray = f + _core.matmul(self._singular, y) / distance
            return moved
        first = np.linalg.pinv(np.eye(self.n) - self._singular)
        rest = f[:, 1:] + _core.matmul(self._singular, y[:, 1:]) / distance[1:]
        return _core.concatenate([_core.matmul(first, f[:, :1]), rest], 1)

    def ends(self, begin: AnyArray, end: AnyArray, p: AnyArray) -> AnyArray:
        """Give the residuals of the boundary conditions."""
        given = self._bc(begin, end, p) if self.k else self._bc(begin, end)
        return _core.cast(stacked(given), np.float64).reshape(-1)

    def middle(self, y: AnyArray, f: AnyArray) -> tuple[NDArray, AnyArray]:
        """Give places and states of the spline in the middle of the intervals."""
        between = 0.5 * (y[:, 1:] + y[:, :-1]) - 0.125 * self.h * (f[:, 1:] - f[:, :-1])
        return self.x[:-1] + 0.5 * self.h, between

    def residual(self, y: AnyArray, p: AnyArray) -> AnyArray:
        """Give residuals as a vector: interval after interval, and the boundary conditions."""
        f = self.slope(self.x, y, p)
        inside = self.slope(*self.middle(y, f), p)
        change = self.h / 6 * (f[:, :-1] + f[:, 1:] + 4.0 * inside)
        rest = y[:, 1:] - y[:, :-1] - change
        return _core.concatenate(
            [_core.reshape(rest.T, (-1,)), self.ends(y[:, 0], y[:, self.m - 1], p)]
        )

    def joined(self, y: AnyArray, p: AnyArray) -> AnyArray:
        """Give all unknowns as a vector: node after node, and the parameters."""
        return _core.concatenate([_core.reshape(y.T, (-1,)), p])

    def parts(self, z: AnyArray) -> tuple[AnyArray, AnyArray]:
        """Give states and parameters of such a vector."""
        size = self.n * self.m
        return _core.reshape(z[:size], (self.m, self.n)).T, z[size:]

    # ----------------------------------------------------------------------------------------------
    # The linear system

    def newton(self, y: NDArray, p: NDArray) -> _Newton:
        """Give the product with the inverse of the derivative of the residuals."""
        scale, factors = _factored(*self._elements(y, p), self.n * self.m + self.k)

        def solve(rhs: NDArray) -> NDArray:
            found: NDArray = factors.solve(to_numpy(rhs) * scale)
            return found

        def adjoint(ct: NDArray) -> NDArray:
            found: NDArray = factors.solve(to_numpy(ct), "T") * scale
            return found

        return linear(_NAME, solve, adjoint)

    def _elements(self, y: NDArray, p: NDArray) -> tuple[NDArray, NDArray, NDArray]:
        """Give the derivative of the residuals as elements, rows and columns."""
        n, m, k = self.n, self.m, self.k
        f = to_numpy(self.slope(self.x, y, p))
        at, between = self.middle(y, f)
        nodes, middles = self._slopes(self.x, y, p), self._slopes(at, to_numpy(between), p)
        h = self.h[:, None, None]
        unit = np.eye(n)
        left, right = nodes.of_state[:-1], nodes.of_state[1:]
        inside = middles.of_state
        low = -unit - h / 6 * (left + 4 * inside @ (0.5 * unit + 0.125 * h * left))
        high = unit - h / 6 * (right + 4 * inside @ (0.5 * unit - 0.125 * h * right))
        one, other = nodes.of_parameters[:-1], nodes.of_parameters[1:]
        last = -h / 6 * (one + other + 4 * middles.of_parameters)
        last -= h / 6 * 4 * inside @ (0.125 * h * (one - other))
        blocks = np.concatenate([low, high, last], 2)
        rows = np.arange(n * (m - 1)).reshape(m - 1, n, 1)
        starts = n * np.arange(m - 1)[:, None, None]
        near = starts + np.arange(2 * n)
        far = np.broadcast_to(n * m + np.arange(k), (m - 1, 1, k))
        columns = np.concatenate([near, far], 2)
        ends = self._of_ends(y[:, 0], y[:, -1], p)
        places = np.concatenate([np.arange(n), n * (m - 1) + np.arange(n), n * m + np.arange(k)])
        lowest = n * (m - 1) + np.arange(n + k)[:, None]
        return (
            np.concatenate([blocks.reshape(-1), ends.reshape(-1)]),
            np.concatenate([_filled(rows, blocks), _filled(lowest, ends)]),
            np.concatenate([_filled(columns, blocks), _filled(places[None, :], ends)]),
        )

    def _slopes(self, x: NDArray, y: NDArray, p: NDArray) -> _Slopes:
        """Give derivatives of the right side; those by a column are in the same column."""
        n, k = self.n, self.k
        joined = np.concatenate([y.reshape(-1), p])

        def slope(v: AnyArray) -> AnyArray:
            return self.slope(x, _core.reshape(v[: y.size], y.shape), v[y.size :])

        # A component of the state moves in all columns.
        tangents = np.zeros((n + k, joined.size))
        tangents[:n, : y.size] = np.repeat(np.eye(n), y.shape[1], axis=1)
        tangents[n:, y.size :] = np.eye(k)
        found = _pushed(slope, joined, tangents).transpose(2, 1, 0)
        return _Slopes(found[:, :, :n], found[:, :, n:])

    def _of_ends(self, begin: NDArray, end: NDArray, p: NDArray) -> NDArray:
        n = self.n
        joined = np.concatenate([begin, end, p])
        ends = lambda v: self.ends(v[:n], v[n : 2 * n], v[2 * n :])  # noqa: E731
        return _pushed(ends, joined, np.eye(joined.size)).T


def _pushed(function: Callable[[AnyArray], AnyArray], x: NDArray, tangents: NDArray) -> NDArray:
    """Give what becomes of each of some tangents."""
    y, push = _core.linearize(function, x)
    moved = _core.call_vmap(push, (tangents,), [True], ["tangent"])
    # What does not depend on x is the same for all.
    return np.broadcast_to(to_numpy(_core.value(moved)), (len(tangents), *np.shape(y)))


def _filled(index: NDArray, like: NDArray) -> NDArray:
    return np.broadcast_to(index, like.shape).reshape(-1)


def _factored(elements: NDArray, rows: NDArray, columns: NDArray, size: int) -> tuple[NDArray, Any]:
    """Give factors for the rows, and the sparse matrix with its rows scaled, factored."""
    largest = np.zeros(size)
    np.maximum.at(largest, rows, np.abs(elements))
    message = (
        f"{_NAME}: the derivative of the equations is singular at the solution, so the solution "
        "has no derivative; look at status and message of the result, or hold it constant with "
        "ct.dropgrad"
    )
    if not np.all(np.isfinite(largest)) or not np.all(largest):
        raise ValueError(message)
    scale = 1.0 / largest
    matrix = locate("scipy.sparse.csc_array")(
        (elements * scale[rows], (rows, columns)), shape=(size, size)
    )
    try:
        factors = locate_original("scipy.sparse.linalg.splu")(matrix)
    except RuntimeError as error:
        # What SuperLU says of a matrix that is exactly singular.
        raise ValueError(message) from error
    pivots = np.abs(factors.U.diagonal())
    if np.min(pivots) <= 4 * np.finfo(float).eps * np.max(pivots):
        raise ValueError(message)
    return scale, factors


# --------------------------------------------------------------------------------------------------
# Results


def _derived(equations: _Equations, plain: tuple[Function, Function], result: Any) -> Any:
    """Give a result of SciPy's with its derivatives.

    `plain` are the two functions with values in the place of what is active.
    """
    if result.y.dtype != np.float64:
        raise NotDifferentiableError(
            f"{_NAME}: complex unknowns have no derivative rule in cotan; write real and imaginary "
            "parts as two rows"
        )
    at = result.y, np.zeros(0) if result.p is None else result.p
    residual = equations.residual(*at)
    if not is_active(residual):
        return result
    newton = equations.with_functions(*plain).newton(*at)
    start = to_numpy(equations.joined(*at))
    step = newton(residual)
    expect_solution(_NAME, start, to_numpy(_core.value(step)))
    moved: AnyArray = _core.asarray(start) - step
    for _ in range(_core.nestlevel() - 1):
        moved = moved - newton(equations.residual(*equations.parts(moved)))
    states, p = equations.parts(attach_derivative(start, moved))
    result.y = states
    if result.p is not None:
        result.p = p
    result.yp = attach_derivative(result.yp, equations.slope(equations.x, states, p))
    result.sol = _spline(result.sol, states, result.yp, equations.h)
    result.rms_residuals = without_rule(f"rms_residuals of {_NAME}", result.rms_residuals, states)
    return result


def _spline(sol: Any, y: AnyArray, slopes: AnyArray, h: NDArray) -> Any:
    """Give the spline of Hermite through states with their slopes."""
    mean = (y[:, 1:] - y[:, :-1]) / h
    bend = (slopes[:, :-1] + slopes[:, 1:] - 2.0 * mean) / h
    parts = [bend / h, (mean - slopes[:, :-1]) / h - bend, slopes[:, :-1], y[:, :-1]]
    # Of the coefficients SciPy has the axes of powers and intervals first.
    values = np.moveaxis(to_numpy(sol.c), 2, 0)
    c = attach_derivative(values, np.moveaxis(np.stack(parts), 1, 0))
    return locate("scipy.interpolate.PPoly")(c, sol.x, extrapolate=True, axis=1)
