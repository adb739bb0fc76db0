"""Jacobian matrices: `jacobian`, `jacfwd`, `jacrev`."""

import functools
from collections.abc import Callable
from typing import Any

from cotan import _core
from cotan._src.api.selected import Argnums, selected
from cotan._src.api.sparse_derivatives import Sparse, expect_real_call, sparse_jacobian
from cotan._src.tree.argument_refusal import expect_function
from cotan._src.typing import Args, Function, Kwargs, P


def jacobian(
    function: Function,
    /,
    *args: object,
    wrt: "_core._Wrt" = None,
    argnums: Argnums | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
    sparse: Sparse = False,
    check: bool = False,
    allow_int: bool = False,
    **kwargs: object,
) -> Any:
    """Compute the Jacobian of a function: how elements of its result change with the arguments.

    The function is recorded once. Its pushforward is applied to the unit vectors of the arguments,
    all at once, or its pullback to those of the result, whichever are fewer.

    Parameters
    ----------
    function
        Returns arrays, numbers, structures of them; with `has_aux`, a pair of that and anything
        else.
    args
        Its arguments: arrays, numbers, structures of them. What is `ct.const` is held constant.
    wrt, argnums
        With respect to what: a position or a name for one argument, a tuple of these for several;
        `wrt` takes whatever else it takes for `gradient`. All arguments by default.
    has_aux
        The function returns `(value, aux)`, and the result is `(jacobian, aux)`.
    holomorphic
        The arguments are complex, and the function is complex differentiable.
    sparse
        Compute the entries that may differ from zero alone, from few products. True finds them; a
        `SparsityPattern` or a `Coloring` of an earlier call saves that.
    check
        With `sparse`, compare the result with one product, which finds a pattern that does not
        cover the Jacobian.
    allow_int
        Arguments of integers and booleans may be asked for, and have the Jacobian None.
    kwargs
        Keyword arguments of the function, held constant.

    Returns
    -------
    For a result of shape `m` and an argument of shape `n` an array of shape `m + n`, of the dtype
    of the argument. For a result that is a structure, such a structure of Jacobians; inside of it,
    for an argument that is a structure, a structure like the argument. With several arguments, a
    tuple with one entry for each of them (None for a constant), inside the structure of the result.
    Zeros where nothing has influence. With `sparse`, a `scipy.sparse.csr_array` in the place of
    each array, of shape (elements of the result, elements of the argument).

    Raises
    ------
    TypeError
        When an argument is of an integer dtype without `allow_int`, or is complex without
        `holomorphic`; when one is complex with `sparse`.
    ValueError
        When a pattern has another shape than the Jacobian, or, with `check`, does not cover it.
    NotDifferentiableError
        When something on the way has no derivative.

    >>> import cotan as ct
    >>> import numpy as np
    >>> ct.jacobian(lambda x: x**2 * x[::-1], np.array([1.0, 2.0]))
    array([[4., 1.],
           [4., 4.]])
    >>> ct.jacobian(lambda x, a: {"y": a * x}, np.array([1.0, 2.0]), 3.0)
    {'y': (array([[3., 0.],
           [0., 3.]]), array([1., 2.]))}
    >>> ct.jacobian(np.diff, np.ones(100_000), sparse=True).nnz
    199998
    """
    if sparse is not False:
        expect_real_call("jacobian", has_aux=has_aux, holomorphic=holomorphic)
        call = selected("jacobian", function, args, kwargs, wrt=wrt, argnums=argnums)
        if allow_int:
            call = call.with_integers("jacobian")
        return sparse_jacobian(call, sparse, check)
    return _jacobian(
        "jacobian",
        function,
        args,
        kwargs,
        mode="auto",
        wrt=wrt,
        argnums=argnums,
        has_aux=has_aux,
        holomorphic=holomorphic,
        allow_int=allow_int,
    )


def jacfwd(
    function: Callable[P, Any],
    argnums: Argnums | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
    *,
    wrt: "_core._Wrt" = None,
    allow_int: bool = False,
) -> Callable[P, Any]:
    """Make the function that gives the Jacobian, computed in forward mode.

    The pushforward is applied to all unit vectors of the argument at once: one pass per column.
    Best for results that are longer than the argument.

    Parameters are those of `jacobian`, but that by default the Jacobian is with respect to the
    first argument alone.

    Returns
    -------
    callable
        Takes the arguments of `function`, and gives what `jacobian` gives.

    Raises
    ------
    NotDifferentiableError
        From the call, when something on the way has no forward derivative: an opaque rule.

    >>> import cotan as ct
    >>> import numpy as np
    >>> ct.jacfwd(lambda x, t: np.exp(-x * t))(0.0, np.array([1.0, 2.0]))
    array([-1., -2.])
    """
    return _maker("jacfwd", function, "forward", argnums, wrt, has_aux, holomorphic, allow_int)


def jacrev(
    function: Callable[P, Any],
    argnums: Argnums | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
    *,
    wrt: "_core._Wrt" = None,
    allow_int: bool = False,
) -> Callable[P, Any]:
    """Make the function that gives the Jacobian, computed in reverse mode.

    The pullback is applied to all unit vectors of the result at once (one after the other, where
    hooks or opaque rules are called back): one pass per row. Best for results that are shorter than
    the argument.

    Parameters are those of `jacobian`, but that by default the Jacobian is with respect to the
    first argument alone.

    Returns
    -------
    callable
        Takes the arguments of `function`, and gives what `jacobian` gives.

    Raises
    ------
    TypeError
        From the call, when the result is complex and the argument is real: see `jacfwd`.
    NotDifferentiableError
        From the call, when something on the way has no derivative.

    >>> import cotan as ct
    >>> import numpy as np
    >>> ct.jacrev(lambda x: np.array([np.sum(x), np.prod(x)]))(np.array([2.0, 3.0]))
    array([[1., 1.],
           [3., 2.]])
    """
    return _maker("jacrev", function, "reverse", argnums, wrt, has_aux, holomorphic, allow_int)


def _maker(
    operation: str,
    function: Callable[P, Any],
    mode: str,
    argnums: Argnums | None,
    wrt: object,
    has_aux: bool,
    holomorphic: bool,
    allow_int: bool,
) -> Callable[P, Any]:
    expect_function(operation, "function", function)

    @functools.wraps(function)
    def jacobian(*args: P.args, **kwargs: P.kwargs) -> Any:
        return _jacobian(
            operation,
            function,
            args,
            kwargs,
            mode=mode,
            wrt=wrt,
            argnums=argnums,
            has_aux=has_aux,
            holomorphic=holomorphic,
            allow_int=allow_int,
            default=0,
        )

    return jacobian


def _jacobian(
    operation: str,
    function: Function,
    args: Args,
    kwargs: Kwargs,
    *,
    mode: str,
    wrt: object,
    argnums: object,
    has_aux: bool,
    holomorphic: bool,
    allow_int: bool,
    default: int | None = None,
) -> Any:
    def computed(*args: object) -> Any:
        call = selected(
            operation, function, args, kwargs, wrt=wrt, argnums=argnums, default=default
        )
        if allow_int:
            call = call.with_integers(operation)
        matrix, aux = _core.jacobian_of(
            operation,
            call.function,
            call.arguments,
            call.wrt,
            call.chosen,
            mode,
            has_aux,
            holomorphic,
        )
        return (matrix, aux) if has_aux else matrix

    if kwargs or has_aux:
        return computed(*args)
    kind = f"{operation} {mode} {holomorphic} {allow_int}"
    options = kind, wrt, argnums, default
    return _core.run_or_replay(function, args, options, computed)
