"""What `ct.torch` offers; PyTorch is imported by the first call."""

from collections.abc import Callable
from typing import Any

from cotan._src.typing import Function, NDArray


def wrap(function: Function, /, *, prepare: bool = True) -> Callable[..., Any]:
    """Make a function of tensors out of a function of NumPy, with derivatives by cotan.

    Parameters
    ----------
    function
        Takes and gives ndarrays, in any structure. It must be one that `ct.gradient` can
        differentiate.
    prepare
        Whether it is recorded once for each structure, shape, dtype and branch, and replayed, as by
        `ct.prepare`. A function that cannot be replayed (it draws random numbers) is recorded in
        each call all the same.

    Returns
    -------
    A function that takes tensors wherever `function` takes arrays, and gives tensors wherever that
    gives arrays or floats, of the same dtypes, on the CPU. It takes part in `backward`,
    `torch.autograd.grad` with `create_graph=True`, forward mode, and `grad`, `vjp`, `jvp`,
    `jacrev`, `jacfwd`, `hessian` and `vmap` of `torch.func`, nested in any order. Tensors are
    passed on without a copy, and `function` must not write to them. Tensors that do not require a
    gradient, ndarrays, and numbers are constants. Each other value of a number is recorded anew:
    pass what changes as a tensor.

    Raises
    ------
    TypeError
        When called with a tensor on another device, of a sparse layout, or of a dtype that NumPy
        has not; and what `ct.gradient` raises.

    Notes
    -----
    The pullback of the call is kept for one backward pass of first order; a number that takes a few
    operations on small arrays has its gradient computed with it, and kept instead. With
    `create_graph=True` and in `torch.func` the backward calls the pullback as a function, which
    computes the value again. `torch.compile` calls the function as it is, and breaks its graph
    there.

    >>> import cotan as ct
    >>> import numpy as np
    >>> import torch
    >>> norm = ct.torch.wrap(lambda x: np.sqrt(np.sum(x * x)))
    >>> x = torch.tensor([3.0, 4.0], requires_grad=True)
    >>> norm(x).backward()
    >>> x.grad
    tensor([0.6000, 0.8000])
    >>> torch.func.vmap(norm)(torch.tensor([[3.0, 4.0], [6.0, 8.0]]))
    tensor([ 5., 10.])
    """
    from cotan._src.interop.torch_wrap import Wrapped

    return Wrapped(_callable("wrap", function), prepare)


def lift(function: Callable[..., Any], /) -> Callable[..., Any]:
    """Make a function of arrays out of a function or a module of PyTorch, with its derivatives.

    Parameters
    ----------
    function
        Takes tensors and gives tensors, in any structure: a function, or a `torch.nn.Module`. It
        runs on the CPU.

    Returns
    -------
    A function that takes ndarrays wherever `function` takes tensors, and gives ndarrays wherever
    that gives tensors, of the same dtypes. In a gradient of cotan the call is one operation whose
    pullback PyTorch computes, from the graph of that very call; derivatives of higher order are
    those of PyTorch. Of a module it also takes `parameters=`, a dictionary by name as
    `ct.torch.parameters` gives it, which is differentiated with the rest; without it the
    parameters are constants.

    Raises
    ------
    ct.NotDifferentiableError
        When PyTorch has no derivative, or none of that order: a `TypeError`.
    ValueError
        Inside `ct.vmap`: a lifted function takes the batch itself.

    >>> import cotan as ct
    >>> import numpy as np
    >>> import torch
    >>> f = ct.torch.lift(lambda x: torch.logsumexp(x, 0))
    >>> ct.gradient(lambda x: f(2 * x), np.zeros(4))
    (array([0.5, 0.5, 0.5, 0.5]),)

    >>> linear = torch.nn.Linear(2, 1)
    >>> params = ct.torch.parameters(linear)
    >>> model = ct.torch.lift(linear)
    >>> x = np.array([[1.0, 2.0]], np.float32)
    >>> grads, _ = ct.gradient(lambda p, x: np.sum(model(x, parameters=p)), params, ct.const(x))
    >>> grads
    {'weight': array([[1., 2.]], dtype=float32), 'bias': array([1.], dtype=float32)}
    """
    from cotan._src.interop.torch_lift import Lifted

    return Lifted(_callable("lift", function))


def parameters(module: Any, /) -> dict[str, NDArray]:
    """Give the parameters of a module of PyTorch, for a function that `lift` makes of it.

    Parameters
    ----------
    module
        A `torch.nn.Module`.

    Returns
    -------
    Copies of the parameters, as ndarrays by their names. `module.load_state_dict` takes them back,
    as tensors and with `strict=False` for a module with buffers.

    Raises
    ------
    TypeError
        When `module` has no parameters by name.

    >>> import cotan as ct
    >>> import torch
    >>> {name: p.shape for name, p in ct.torch.parameters(torch.nn.Linear(2, 3)).items()}
    {'weight': (3, 2), 'bias': (3,)}
    """
    from cotan._src.interop import torch_lift

    if not hasattr(module, "named_parameters"):
        raise TypeError(f"parameters: takes a torch.nn.Module, not {type(module).__name__}")
    return torch_lift.parameters(module)


def _callable(what: str, function: Any) -> Any:
    if not callable(function):
        raise TypeError(f"{what}: takes a function, not {type(function).__name__}")
    return function
