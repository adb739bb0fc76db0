"""Second derivatives: `hessian`, and products that do not form it: `hvp`, `vhp`, `ggnvp`."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from cotan import _core
from cotan._src.api.selected import Argnums, Selected, selected
from cotan._src.api.sparse_derivatives import Sparse, expect_real_call, sparse_hessian
from cotan._src.tree.selection import argument_names
from cotan._src.typing import Args, Function, Kwargs


def hessian(
    function: Function,
    /,
    *args: object,
    wrt: "_core._Wrt" = None,
    argnums: Argnums | None = None,
    has_aux: bool = False,
    sparse: Sparse = False,
    check: bool = False,
    allow_int: bool = False,
    **kwargs: object,
) -> Any:
    """Compute the Hessian of a function that returns a real scalar.

    It is the Jacobian of the gradient, in forward mode over reverse mode; in reverse mode alone
    where something on the way has no forward derivative.

    Parameters are those of `jacobian`; the function returns a real scalar.

    Returns
    -------
    For an argument of shape `n` an array of shape `n + n`, of its dtype; for a structure a
    structure like it of structures like it; for several arguments a tuple of tuples. With `sparse`,
    a `scipy.sparse.csr_array` in the place of each array.

    Raises
    ------
    ValueError
        When the function does not return a real scalar; when a pattern has another shape than the
        Hessian, or, with `check`, does not cover it.
    TypeError
        When an argument is of an integer dtype without `allow_int`, or complex.
    NotDifferentiableError
        When something on the way has no second derivative.

    >>> import cotan as ct
    >>> import numpy as np
    >>> ct.hessian(lambda x: x[0] ** 2 * x[1], np.array([1.0, 3.0]))
    array([[6., 2.],
           [2., 0.]])
    >>> ct.hessian(lambda x, y: x**2 * y, 1.0, 3.0)
    ((6.0, 2.0), (2.0, 0.0))
    >>> ct.hessian(lambda x: np.sum(np.diff(x) ** 2), np.ones(100_000), sparse=True).nnz
    299998
    """

    def chosen(args: Args) -> Selected:
        call = selected("hessian", function, args, kwargs, wrt=wrt, argnums=argnums)
        return call.with_integers("hessian") if allow_int else call

    if sparse is not False:
        expect_real_call("hessian", has_aux=has_aux)
        return sparse_hessian(chosen(args), sparse, check)

    def computed(*args: object) -> Any:
        call = chosen(args)
        matrix, aux = _core.jacobian_of(
            "hessian",
            _gradient_of("hessian", call, has_aux=has_aux),
            call.arguments,
            call.wrt,
            call.chosen,
            "auto",
            has_aux,
            False,
        )
        return (matrix, aux) if has_aux else matrix

    if kwargs or has_aux:
        return computed(*args)
    options = f"hessian {allow_int}", wrt, argnums
    return _core.run_or_replay(function, args, options, computed)


def _gradient_of(operation: str, call: Selected, *, has_aux: bool = False) -> Function:
    """Give the gradient as a function of the arguments; what was not asked for is held constant."""
    wrt = _not_constant(call) if call.wrt is None else call.wrt

    @functools.wraps(call.function, (), ())  # for the names of arguments in messages
    def gradient(*values: object) -> Any:
        value, gradients = _core.value_and_full_gradient(
            operation, call.function, call.again(*values), wrt, False, has_aux
        )
        gradients = call.picked(gradients)
        return (gradients, value[1]) if has_aux else gradients

    return gradient


def _not_constant(call: Selected) -> Callable[[str, object], bool] | None:
    """Give the mask of what is not held constant inside of the arguments; None where nothing is.

    What a differentiated function receives does not show any more what `const` was.
    """
    names = argument_names(call.function, len(call.arguments))
    held: set[str] = set()
    for argument, name in zip(call.arguments, names, strict=True):
        if isinstance(argument, _core.Const | _core.Array | np.ndarray | float):
            continue
        parts = _core.structure(argument, declared=True, root=name)
        held.update(p for p, free in zip(parts.paths, parts.trainable, strict=True) if not free)
    return (lambda path, _leaf: path not in held) if held else None


def hvp(function: Function, x: Any, v: Any, /, **kwargs: object) -> Any:
    """Multiply the Hessian of a function that returns a real scalar with a vector.

    It is the derivative of the gradient along the vector, in forward mode over reverse mode; the
    Hessian is not formed.

    Parameters
    ----------
    function
        Returns a real scalar.
    x
        Its argument, any structure of arrays and numbers; a tuple holds several arguments, as for
        PyTorch's `hvp`.
    v
        The vector: of the structure, shapes and dtypes of `x`; None for zero.
    kwargs
        Keyword arguments of the function, held constant.

    Returns
    -------
    A structure like `x`.

    Raises
    ------
    ValueError
        When the shapes of `x` and `v` differ, or the function does not return a real scalar.
    NotDifferentiableError
        When something on the way has no second derivative.

    >>> import cotan as ct
    >>> import numpy as np
    >>> ct.hvp(lambda x: np.sum(x**3), np.array([1.0, 2.0]), np.array([1.0, 1.0]))
    array([ 6., 12.])
    >>> ct.hvp(lambda x, y: x**2 * y, (1.0, 3.0), (1.0, 0.0))
    (6.0, 2.0)
    """

    def computed(x: Any, v: Any) -> Any:
        call, along = _point("hvp", function, x, v, kwargs)
        try:
            return _core.jvp_alone(_gradient_of("hvp", call), call.arguments, along)
        except _core.NotDifferentiableError:
            # A rule on the way has a reverse direction only.
            return _transposed("hvp", call, along)

    return _product("hvp", function, x, v, kwargs, computed)


def vhp(function: Function, x: Any, v: Any, /, **kwargs: object) -> Any:
    """Multiply a vector with the Hessian of a function, from the left, in reverse mode alone.

    The gradient of the inner product of the gradient and the vector. The Hessian being symmetric,
    this is what `hvp` gives, which is the faster of the two where everything has a forward
    derivative. Parameters, results and errors are those of `hvp`.

    >>> import cotan as ct
    >>> import numpy as np
    >>> ct.vhp(lambda x: x[0] ** 2 * x[1], np.array([1.0, 3.0]), np.array([0.0, 1.0]))
    array([2., 0.])
    """

    def computed(x: Any, v: Any) -> Any:
        call, along = _point("vhp", function, x, v, kwargs)
        return _transposed("vhp", call, along)

    return _product("vhp", function, x, v, kwargs, computed)


def ggnvp(
    function: Function, x: Any, v: Any, /, loss: Function | None = None, **kwargs: object
) -> Any:
    """Multiply the generalised Gauss-Newton matrix of `loss(function(x))` with a vector.

    The matrix is `J.T @ H @ J`, with the Jacobian of the function and the Hessian of the loss at
    the function's value. It is positive semi-definite where the loss is convex, and is not formed.

    Parameters
    ----------
    function
        Returns arrays or structures of them: predictions, residuals.
    x, v
        The point and the vector, as for `hvp`.
    loss
        A function of what `function` returns, which gives a real scalar; half the sum of squares by
        default, so that the product is `J.T @ J @ v`.
    kwargs
        Keyword arguments of `function`, held constant.

    Returns
    -------
    A structure like `x`.

    Raises
    ------
    ValueError
        When the shapes of `x` and `v` differ, or the loss does not give a real scalar.
    NotDifferentiableError
        When something on the way has no derivative, or the function no forward derivative.

    Source: Schraudolph, Fast curvature matrix-vector products for second-order gradient descent,
    Neural Computation 14 (2002).

    >>> import cotan as ct
    >>> import numpy as np
    >>> a = np.array([[1.0, 2.0], [0.0, 1.0]])
    >>> ct.ggnvp(lambda x: a @ x, np.zeros(2), np.array([1.0, 0.0]))
    array([1., 2.])
    >>> ct.ggnvp(lambda x: a @ x, np.zeros(2), np.array([1.0, 0.0]), lambda y: np.sum(y**4))
    array([0., 0.])
    """
    call, along = _point("ggnvp", function, x, v, kwargs)
    y, curved = _core.jvp(call.function, call.arguments, along)
    if loss is not None:
        curved = hvp(loss, (y,), (curved,))[0]
    return _pulled("ggnvp", call.function, call, curved)


def _product(
    operation: str, function: Function, x: Any, v: Any, kwargs: Kwargs, computed: Function
) -> Any:
    """Compute a product at a point and a vector, or replay it where that is called again."""
    if kwargs:
        return computed(x, v)
    if type(x) is not tuple or type(v) is not tuple:
        return _core.run_or_replay(function, (x, v), (operation,), computed)
    count = len(x)
    of_all = lambda *all_of: computed(all_of[:count], all_of[count:])  # noqa: E731
    return _core.run_or_replay(function, (*x, *v), (operation, count), of_all)


def _point(
    operation: str, function: Function, x: Any, v: Any, kwargs: Kwargs
) -> tuple[Selected, Args]:
    """Give the call at a point, and the vector as a tuple with an entry for each argument."""
    if not isinstance(x, tuple) or hasattr(x, "_fields"):
        return selected(operation, function, (x,), kwargs), (v,)
    if not isinstance(v, tuple) or len(v) != len(x):
        raise ValueError(
            f"{operation}: x is a tuple of {len(x)} arguments, so v must be one of {len(x)} "
            f"vectors, not {type(v).__name__}; for a function of one tuple pass ((a, b),)"
        )
    call = selected(operation, function, x, kwargs)
    return call._replace(chosen=None), v


def _transposed(operation: str, call: Selected, along: Args) -> Any:
    """Multiply the transposed Jacobian of the gradient with a vector."""
    vector = along if call.chosen is None else along[0]
    return _pulled(operation, _gradient_of(operation, call), call, vector)


def _pulled(operation: str, function: Function, call: Selected, cotangent: object) -> Any:
    """Give the gradient of the inner product of a function's value and a cotangent."""

    @functools.wraps(function, (), ())
    def product(*values: object) -> Any:
        return _inner(operation, function(*values), cotangent)

    _, gradients = _core.value_and_full_gradient(
        operation, product, call.arguments, call.wrt, False, False
    )
    return call.picked(gradients)


def _inner(operation: str, y: object, cotangent: object) -> Any:
    """Give the real inner product of two structures of arrays."""
    structure = _core.structure(y)
    beside = structure.align(cotangent, operation)
    total: Any = 0.0
    for leaf, path, ct in zip(structure.leaves, structure.paths, beside, strict=True):
        if ct is None:
            continue
        array, factor = _core.asarray(leaf), _core.asarray(ct)
        if array.shape != factor.shape:
            place = path or "x"
            raise ValueError(
                f"{operation}: {place} has shape {array.shape}, so the vector must have it too, "
                f"not {factor.shape}"
            )
        total = total + _core.sum((array * factor.conj()).real)
    return total
