"""`to_c`: writes a function and its derivatives as a function of C, for programs without Python."""

import os

from cotan._src.typing import Function


def to_c(
    f: Function,
    /,
    *args: object,
    path: str | os.PathLike[str],
    name: str = "f",
    gradient: bool = False,
) -> None:
    r"""Write a function, with its gradient if asked for, as one function of C99.

    The function is recorded on the arguments, so control flow takes the way that it takes for them,
    and shapes and dtypes are theirs. Every array and number among the arguments becomes an input,
    named by its path (`x`, `net_w1`); what is in `ct.const` is an input without gradient, numbers
    in it and what the function closes over are constants of the file. The function of C takes a
    pointer to each input, to each output, and to a workspace, of a type that the file declares; it
    allocates nothing. Elementwise operations share loops.

    Parameters
    ----------
    f
        What to write; it may take gradients itself (`lambda x: ct.hessian(f, x)`). Or a `Program`
        or a `Pullback`, without arguments.
    args
        Arguments like those that the C will be given.
    path
        Where to write. An old file there stays whole until the new one is complete.
    name
        The name of the function of C.
    gradient
        Whether to compute the gradient too, with respect to all that `ct.gradient` would
        differentiate with respect to. Then `f` has to return a real scalar.

    The outputs are `y` (`y_0`, `y_loss`, ... when the function returns a structure), then `dx` for
    each argument `x` that has a gradient. The comment at the head of the file lists names, dtypes
    and shapes.

    Raises
    ------
    ValueError
        For what has no C: complex numbers, decompositions of matrices, Fourier transforms,
        callbacks. The message has the operation, its types and its line. Also for a name that is
        none in C.
    TypeError
        When a `Program` is given with arguments.

    >>> import cotan as ct
    >>> import numpy as np
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp(), "loss.c")
    >>> ct.to_c(lambda x: np.sum(np.sin(x) ** 2), np.ones(3), path=file, name="loss", gradient=True)
    >>> print(file.read_text().partition("(void)work;\n")[2].partition("\n}")[0])
        double v4 = 0.0;
        for (ptrdiff_t i0 = 0; i0 < 3; i0++) {
            const double v1 = sin(x[i0]);
            const double v3 = (v1 * v1);
            const double v5 = (v1 * 2.0);
            const double v6 = cos(x[i0]);
            const double v7 = (v5 * v6);
            dx[i0] = v7;
            v4 += v3;
        }
        y[0] = v4;
    """
    # Few programs are exported.
    from cotan._src.c_code.export import write_function

    write_function(f, args, path, name, gradient)
