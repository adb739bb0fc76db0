"""Constants (`const`, `nograd`), and gradients as functions: `grad`, `value_and_grad`."""

import functools
from collections.abc import Callable
from typing import Any, cast

from cotan import _core
from cotan._src.api.selected import Argnums, selected
from cotan._src.tree.argument_refusal import expect_function
from cotan._src.tree.tangent import leaves_of, map_leaves
from cotan._src.typing import P, R, T


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
    expect_function("nograd", "function", function)

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


def grad(
    function: Callable[P, Any],
    argnums: Argnums | None = None,
    has_aux: bool = False,
    *,
    wrt: "_core._Wrt" = None,
    allow_int: bool = False,
) -> Callable[P, Any]:
    """Make the function that gives the gradient with respect to one argument, or several.

    Parameters
    ----------
    function
        Returns a real scalar; with `has_aux`, a pair of it and anything else.
    argnums
        Position of the argument, the first by default, or a tuple of positions. Other arguments,
        and keyword arguments, are held constant.
    has_aux
        The function returns `(value, aux)`.
    wrt
        In place of `argnums`: a position or name, or a tuple of these; or whatever else `wrt` of
        `gradient` takes.
    allow_int
        Arguments of integers and booleans may be asked for, and have the gradient None.

    Returns
    -------
    callable
        Takes the arguments of `function`, and gives one gradient: of the structure of the argument,
        an array of its shape and dtype for each array, a float for a float. Zeros where there is no
        influence. For a tuple a tuple of gradients, for a mask a tuple with one for each argument.
        With `has_aux` a pair of that and `aux`.

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
    >>> ct.grad(lambda x, y: x * y**2, argnums=(0, 1))(2.0, 3.0)
    (9.0, 12.0)
    >>> ct.grad(lambda x: (x * x, {"x": x}), has_aux=True)(3.0)
    (6.0, {'x': 3.0})
    """
    expect_function("grad", "function", function)

    @functools.wraps(function)
    def gradient(*args: P.args, **kwargs: P.kwargs) -> Any:
        call = selected("grad", function, args, kwargs, wrt=wrt, argnums=argnums, default=0)
        value, gradients = _core.value_and_full_gradient(
            "grad", call.function, call.arguments, call.wrt, False, has_aux, allow_int
        )
        gradients = call.picked(gradients)
        return (gradients, value[1]) if has_aux else gradients

    return gradient


def value_and_grad(
    function: Callable[P, R],
    argnums: Argnums | None = None,
    has_aux: bool = False,
    *,
    wrt: "_core._Wrt" = None,
    allow_int: bool = False,
) -> Callable[P, tuple[R, Any]]:
    """Make the function that gives the value and the gradient with respect to one argument.

    Parameters, gradient and errors are those of `grad`; the value is what the function returns,
    with `has_aux` the pair `(value, aux)`.

    >>> import cotan as ct
    >>> ct.value_and_grad(lambda x, y: x * y)(2.0, 3.0)
    (6.0, 3.0)
    """
    expect_function("value_and_grad", "function", function)

    @functools.wraps(function)
    def value_and_gradient(*args: P.args, **kwargs: P.kwargs) -> tuple[R, Any]:
        name = "value_and_grad"
        call = selected(name, function, args, kwargs, wrt=wrt, argnums=argnums, default=0)
        value, gradients = _core.value_and_full_gradient(
            name, call.function, call.arguments, call.wrt, True, has_aux, allow_int
        )
        return value, call.picked(gradients)

    return value_and_gradient
