"""Public transforms on top of `gradient`: `grad`, `value_and_grad`, `hvp`, `hessian`, `const`."""

import functools
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from cotan import _core
from cotan._core import Array
from cotan._src.tree.tangent import leaves_of, map_leaves
from cotan._src.typing import AnyArray, Args, ArrayLike, Function, Kwargs, NDArray, P, R, Scalar, T


def const(value: T) -> T:
    """Hold an argument of a gradient call, or a part of one, constant.

    Nothing is computed or kept for its cotangent; its place in the result is None. What the
    function sees is the value itself, of any kind: an array, a structure, an object.

    >>> import cotan as ct
    >>> ct.gradient(lambda x, c: x * c, 2.0, ct.const(3.0))
    (3.0, None)
    """
    return cast("T", _core.Const(value))


def nograd(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function whose results are constants to every gradient.

    It takes what the function takes and gives what it gives, with the same shapes and dtypes; what
    the function raises arrives as it is.

    >>> import cotan as ct
    >>> frozen = ct.nograd(lambda x: x * x)
    >>> ct.gradient(lambda x: frozen(x) * x, 3.0)
    (9.0,)
    """

    @functools.wraps(function)
    def constant(*args: P.args, **kwargs: P.kwargs) -> R:
        result = function(*args, **kwargs)
        # What holds no `Array` is handed on as it is.
        if any(isinstance(leaf, _core.Array) for leaf in leaves_of(result)):
            detached: R = map_leaves(_constant, result)
            return detached
        return result

    return constant


def _constant(leaf: object) -> object:
    return _core.dropgrad(leaf) if isinstance(leaf, _core.Array) else leaf


def _at(
    function: Function, args: Args, argnum: int, kwargs: Kwargs
) -> tuple[Function, list[object], int]:
    """Give `function` of the argument at a position, and the arguments with the others constant."""
    if not -len(args) <= argnum < len(args):
        raise ValueError(f"argnum {argnum}: the function was called with {len(args)} arguments")
    argnum %= len(args)
    arguments = [a if i == argnum else const(a) for i, a in enumerate(args)]
    called = functools.partial(function, **kwargs) if kwargs else function
    return called, arguments, argnum


def grad(function: Callable[P, Any], argnum: int = 0) -> Callable[P, Any]:
    """Make the function that gives the gradient with respect to one argument.

    Parameters
    ----------
    function
        Returns a real scalar.
    argnum
        Position of the argument; the others, and keyword arguments, are held constant.

    Returns
    -------
    callable
        Takes the arguments of `function`, and gives one gradient as `gradient` does: an array of
        the shape and dtype of the argument, a float for a float. Zeros where the argument has no
        influence.

    Raises
    ------
    ValueError
        From the call, when there is no argument of this position, or the function does not return
        a real scalar.
    NotDifferentiableError
        From the call, when something on the way has no derivative.

    >>> import cotan as ct
    >>> ct.grad(ct.grad(lambda x: x**3))(2.0)
    12.0
    """

    @functools.wraps(function)
    def gradient(*args: P.args, **kwargs: P.kwargs) -> Any:
        called, arguments, at = _at(function, args, argnum, kwargs)
        return _zero_if_none(_core.gradient(called, *arguments)[at], args[at])

    return gradient


def value_and_grad(function: Callable[P, R], argnum: int = 0) -> Callable[P, tuple[R, Any]]:
    """Make the function that gives the value and the gradient with respect to one argument.

    Parameters, gradient and errors are those of `grad`; the value is what the function returns.

    >>> import cotan as ct
    >>> ct.value_and_grad(lambda x, y: x * y)(2.0, 3.0)
    (6.0, 3.0)
    """

    @functools.wraps(function)
    def value_and_gradient(*args: P.args, **kwargs: P.kwargs) -> tuple[R, Any]:
        called, arguments, at = _at(function, args, argnum, kwargs)
        value, gradients = _core.value_and_gradient(called, *arguments)
        return value, _zero_if_none(gradients[at], args[at])

    return value_and_gradient


def _zero_if_none(gradient: T | None, argument: object) -> T | AnyArray | complex | None:
    """Give zeros where an argument has no influence: a derivative as a function needs a value."""
    if gradient is not None:
        return gradient
    if isinstance(argument, (int, float)):
        return 0.0
    if isinstance(argument, complex):
        return 0j
    if isinstance(argument, (np.ndarray, np.generic)) and argument.dtype.kind in "fc":
        return np.zeros_like(argument)
    if isinstance(argument, _core.Array):
        return _core.mul(_core.dropgrad(argument), 0)
    return None


def hvp(function: Function, x: AnyArray | Scalar, v: ArrayLike) -> Any:
    """Multiply the Hessian of a scalar function of one array with a vector.

    It is the gradient of the product of the gradient and the vector; the Hessian is not formed.

    Parameters
    ----------
    function
        Of one array, returns a real scalar.
    x, v
        The point and the vector, of one shape.

    Returns
    -------
    An array of the shape and dtype of `x`.

    Raises
    ------
    ValueError
        When the shapes do not fit, or the function does not return a real scalar.
    NotDifferentiableError
        When something on the way has no second derivative.

    >>> import cotan as ct
    >>> import numpy as np
    >>> ct.hvp(lambda x: np.sum(x**3), np.array([1.0, 2.0]), np.array([1.0, 1.0]))
    array([ 6., 12.])
    """

    def along(x: Array) -> Array | float:
        (gradient,) = _core.gradient(function, x)
        # A gradient that does not depend on x is a plain array, or nothing at all.
        return 0.0 if gradient is None else _core.sum(_core.mul(gradient, _core.asarray(v)))

    return _zero_if_none(_core.gradient(along, x)[0], x)


def hessian(function: Function, x: ArrayLike) -> NDArray:
    """Compute the Hessian of a scalar function of one array.

    The pullback of the gradient is applied to one unit vector after the other.

    Returns
    -------
    An array of shape `x.shape + x.shape` and of the dtype of `x`.

    Raises
    ------
    ValueError
        When the function does not return a real scalar.
    NotDifferentiableError
        When something on the way has no second derivative.

    >>> import cotan as ct
    >>> import numpy as np
    >>> ct.hessian(lambda x: x[0] ** 2 * x[1], np.array([1.0, 3.0]))
    array([[6., 2.],
           [2., 0.]])
    """
    x = np.asarray(x)
    rows = np.eye(x.size, dtype=x.dtype).reshape(x.size, *x.shape)

    def gradient(x: Array) -> Array:
        (g,) = _core.gradient(function, x)
        return _core.mul(x, 0) if g is None else g

    _, back = _core.pullback(gradient, x)
    columns = [back(row)[0] for row in rows]
    zero = np.zeros_like(x)
    dense = [zero if c is None else np.asarray(c) for c in columns]
    return np.reshape(dense, x.shape + x.shape)
