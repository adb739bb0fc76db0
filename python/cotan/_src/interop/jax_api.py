"""What `ct.jax` offers; JAX is imported by the first call."""

from collections.abc import Callable
from typing import Any

from cotan._src.typing import Function


def wrap(
    function: Function, /, *, result_shape: Any = None, prepare: bool = True
) -> Callable[..., Any]:
    """Make a function of arrays of JAX out of a function of NumPy, with derivatives by cotan.

    Parameters
    ----------
    function
        Takes and gives ndarrays, in any structure. It must be one that `ct.gradient` can
        differentiate, and the shapes of its results must follow from those of its arguments.
    result_shape
        A structure like the result with a `jax.ShapeDtypeStruct` for each array, which holds for
        all calls. Without it the function is recorded with zeros as arguments, once for each
        structure and shapes, where JAX traces it.
    prepare
        Whether it is recorded once for each structure, shape, dtype and branch, and replayed, as by
        `ct.prepare`. A function that cannot be replayed is recorded in each call all the same.

    Returns
    -------
    A function of arrays of JAX. It takes part in `jit`, `grad`, `vjp`, `jvp`, `linearize`,
    `jacrev`, `jacfwd`, `hessian` and `vmap`, nested in any order. Compiled code calls Python back,
    as by `jax.pure_callback`: the function may be called more often than it is written, or not at
    all. Strings, numbers and other constants among its arguments are static.

    Raises
    ------
    ValueError
        When a compiled call gives results of other shapes than those that JAX was told.
    TypeError
        When an argument that is no array cannot be compared with that of other calls; and what
        `ct.gradient` raises.

    Notes
    -----
    It is a primitive whose tangents are linear and transposed, not a `custom_vjp`, which has no
    forward mode. The pullback computes the value again: what it would keep lives in Python.
    Results have the dtypes that JAX has, float32 unless `jax_enable_x64` is set.

    >>> import cotan as ct
    >>> import jax
    >>> import numpy as np
    >>> norm = ct.jax.wrap(lambda x: np.sqrt(np.sum(x * x)))
    >>> x = jax.numpy.array([3.0, 4.0])
    >>> print(jax.jit(jax.grad(norm))(x))
    [0.6 0.8]
    >>> print(jax.vmap(norm)(jax.numpy.stack([x, 2 * x])))
    [ 5. 10.]
    """
    from cotan._src.interop.jax_wrap import Wrapped

    return Wrapped(_callable("wrap", function), result_shape, prepare)


def lift(function: Callable[..., Any], /) -> Callable[..., Any]:
    """Make a function of ndarrays out of a function of JAX, with its derivatives.

    Parameters
    ----------
    function
        Takes and gives arrays of JAX, in any structure, and can be compiled by `jax.jit`.

    Returns
    -------
    A function of ndarrays. In a gradient of cotan the call is one operation whose pullback JAX
    computes, compiled once for each structure and shapes of arguments; derivatives of higher order
    are those of JAX. Numbers and strings among its arguments are static: each other value is
    compiled anew, so pass what changes as an array. Results have the dtypes that JAX has, float32
    unless `jax_enable_x64` is set.

    Raises
    ------
    ValueError
        Inside `ct.vmap`: give the batch to a function that `jax.vmap` has made.

    >>> import cotan as ct
    >>> import jax
    >>> import numpy as np
    >>> f = ct.jax.lift(jax.nn.softplus)
    >>> ct.gradient(lambda x: np.sum(f(2 * x)), np.zeros(2, np.float32))
    (array([1., 1.], dtype=float32),)
    """
    from cotan._src.interop.jax_lift import Lifted

    return Lifted(_callable("lift", function))


def _callable(what: str, function: Any) -> Any:
    if not callable(function):
        raise TypeError(f"{what}: takes a function, not {type(function).__name__}")
    return function
