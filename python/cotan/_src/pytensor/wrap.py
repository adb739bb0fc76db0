"""Operations of PyTensor that run a NumPy function, with derivatives by cotan: `wrap`.

Problem: a likelihood that is written in NumPy has no gradient in PyTensor, so PyMC cannot sample it
with NUTS. An operation needs the dtype and the shape of its results before any value is known: they
are found by tracing the function.
"""

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from cotan import _core
from cotan._src.typing import Function, NDArray

#: A dtype and a shape; a size that is not known is None.
Spec: TypeAlias = tuple[str, tuple[int | None, ...]]


def wrap(f: Function, /, *, result: Any = None) -> Callable[..., Any]:
    """Make a function of PyTensor variables of a NumPy function.

    The function is called with ndarrays when the graph runs, and cotan differentiates it: to any
    order, forwards (`pytensor.gradient.Rop`) and in reverse. It is prepared at its first call, as
    by `ct.prepare`, where that is possible.

    Parameters
    ----------
    f
        A function of arrays: gives an array or a number, or a tuple or list of them. It must be
        pure; data that it closes over is read when it runs.
    result
        Dtype and shape of what it gives, `("float64", (10, None))`, or a list of such pairs; None
        for a size that is not known. Needed only where an argument has a shape that is not known
        when the graph is built; otherwise it is found by tracing `f`.

    Returns
    -------
    callable
        Takes PyTensor variables, arrays and numbers, gives a variable, or a list of them.
        Arguments of integers and bools have no gradient.

    Raises
    ------
    ImportError
        Without PyTensor.
    TypeError
        From the call, when a shape is not known and there is no `result`; when `f` gives something
        else than arrays. When the graph runs, where dtype or shape are not those of `result`.

    In a model of PyMC::

        loglik = ct.pytensor.wrap(lambda mu, x: -0.5 * np.sum((x - mu) ** 2))
        with pm.Model():
            mu = pm.Normal("mu", 0.0, 10.0)
            pm.Potential("data", loglik(mu, np.array([1.0, 2.0, 3.0])))
            draws = pm.sample()
    """
    import_pytensor()

    @functools.wraps(f, updated=())
    def wrapped(*args: Any) -> Any:
        tensor: Any = import_pytensor()
        variables = [tensor.as_tensor_variable(x) for x in args]
        specs, is_several = _traced(f, variables) if result is None else _given(result)
        operation: Any = importlib.import_module("cotan._src.pytensor.operation")
        found = operation.CotanOp(f, specs)(*variables, return_list=True)
        return found if is_several else found[0]

    return wrapped


def import_pytensor() -> Any:
    """Import `pytensor.tensor`."""
    try:
        return importlib.import_module("pytensor.tensor")
    except ImportError as error:
        raise ImportError(
            f"cotan.pytensor needs PyTensor, which cannot be imported: {error}. Install it with "
            "pip install pytensor, or with PyMC"
        ) from error


def _given(result: Any) -> tuple[list[Spec], bool]:
    is_several = isinstance(result, list)
    specs = result if is_several else [result]
    return [(np.dtype(dtype).name, tuple(shape)) for dtype, shape in specs], is_several


def _traced(f: Function, variables: Sequence[Any]) -> tuple[list[Spec], bool]:
    """Find dtypes and shapes of what a function gives."""
    for i, variable in enumerate(variables):
        if None in variable.type.shape:
            raise TypeError(
                f"pytensor.wrap: argument {i} has the shape {variable.type.shape}; give it sizes "
                "(pytensor.tensor.specify_shape, shape= in PyMC), or say what the function gives: "
                'ct.pytensor.wrap(f, result=("float64", ()))'
            )
    several: list[bool] = []

    def noted(*args: Any) -> Any:
        found = f(*args)
        several.append(isinstance(found, (tuple, list)))
        return found

    like = [_example(v) for v in variables]
    outputs = _core.trace(noted, *like).outputs
    if not outputs:
        raise TypeError("pytensor.wrap: the function must give arrays or numbers, and gives none")
    return [(np.dtype(v.dtype).name, tuple(v.shape)) for v in outputs], several[0]


def _example(variable: Any) -> NDArray:
    data = getattr(variable, "data", None)  # that of a constant
    return np.asarray(np.ones(variable.type.shape, variable.dtype) if data is None else data)
