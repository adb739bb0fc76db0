"""`to_onnx`: writes a function and its gradient to an ONNX file, for runtimes without cotan."""

import os
from collections.abc import Mapping

from cotan._src.typing import Function


def to_onnx(
    f: Function,
    /,
    *args: object,
    path: str | os.PathLike[str],
    gradient: bool = False,
    dynamic: Mapping[str, Mapping[int, str]] | None = None,
) -> None:
    """Write a function to an ONNX file, with its gradient if asked for.

    The function is recorded on the arguments, so control flow takes the way that it takes for them.
    Every array among the arguments becomes an input, named by its path (`x`, `net.w1`), with the
    dtype and shape that it has here. Python floats are inputs too, float64 scalars; numbers in
    `ct.const` are a part of the graph, and so is what the function closes over.

    Parameters
    ----------
    f
        What to export; it may take gradients itself.
    args
        Arguments like those that the graph will be given.
    path
        Where to write. An old file there stays whole until the new one is complete.
    gradient
        Whether to export the gradient too, with respect to all that `ct.gradient` would
        differentiate with respect to: not what is in `ct.const`. Then `f` has to return a real
        scalar. Arguments without influence have no output.
    dynamic
        Axes whose size is left open, with a name for the size: `{"x": {0: "batch"}}`. The function
        is recorded several times at different sizes to find out what depends on them.

    The outputs are `y` (`y[0]`, `y.loss`, ... when the function returns a structure), then `dx` for
    each argument `x` that has a gradient. Where an argument has such a name, the output gets a `_`
    behind it.

    Raises `ValueError` for what ONNX cannot express, with the name of the operation and the reason,
    and for a file of more than 2 GB; `ImportError` without the package onnx (`pip install
    'cotan[onnx]'`).

    >>> import cotan as ct, numpy as np, onnxruntime, os, tempfile
    >>> file = os.path.join(tempfile.mkdtemp(), "f.onnx")
    >>> ct.to_onnx(lambda x: np.sum(x**2), np.ones(3), path=file, gradient=True)
    >>> session = onnxruntime.InferenceSession(file)
    >>> [o.name for o in session.get_outputs()]
    ['y', 'dx']
    >>> session.run(None, {"x": np.array([1.0, 2.0, 3.0])})
    [array(14.), array([2., 4., 6.])]
    """
    # Few programs export, and the translations of all primitives take time to import.
    from cotan._src.onnx.export import export_function

    export_function(f, args, path, gradient, dynamic)
