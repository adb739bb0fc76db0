"""The optimisers of the literature, made of the parts in `rules`."""

from cotan._src.optim.rules import (
    Rate,
    add_decayed_weights,
    scale_by_adam,
    scale_by_learning_rate,
    scale_by_rms,
    scale_by_rss,
    trace,
)
from cotan._src.optim.transformation import GradientTransformation, chain


def sgd(
    learning_rate: Rate,
    momentum: float = 0.0,
    nesterov: bool = False,
    weight_decay: float = 0.0,
) -> GradientTransformation:
    """Make gradient descent, with momentum if it is wanted.

    Parameters
    ----------
    learning_rate
        A number, or a schedule: a function of the number of steps so far.
    momentum
        By how much the sum of past gradients is multiplied in each step.
    nesterov
        Whether to use Nesterov's momentum, which looks one step ahead.
    weight_decay
        A multiple of the parameters that is added to the gradients.

    Notes
    -----
    `t = g + momentum * t; p = p - learning_rate * t`, as PyTorch's `SGD`. I. Sutskever and others,
    "On the importance of initialization and momentum in deep learning", 2013.

    >>> import cotan as ct
    >>> opt = ct.optim.sgd(0.1, momentum=0.9)
    >>> params = {"w": 1.0}
    >>> state = opt.init(params)
    >>> for _ in range(200):
    ...     grads = ct.gradient(lambda p: p["w"] ** 2, params)
    ...     params, state = opt.step(grads, state, params)
    >>> abs(params["w"]) < 1e-3
    True
    """
    parts = []
    if weight_decay:
        parts.append(add_decayed_weights(weight_decay))
    if momentum:
        parts.append(trace(momentum, nesterov))
    elif nesterov:
        raise ValueError("sgd: nesterov=True needs a momentum above 0")
    return chain(*parts, scale_by_learning_rate(learning_rate))


def adam(
    learning_rate: Rate,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    nesterov: bool = False,
) -> GradientTransformation:
    """Make Adam: steps of one size, whatever the size of the gradients.

    Parameters
    ----------
    learning_rate
        A number, or a schedule: a function of the number of steps so far.
    b1, b2
        Decay of the averages of gradients, and of their squares.
    eps
        Added to the root of the second average.
    nesterov
        Whether to use Nesterov's momentum (T. Dozat, "Incorporating Nesterov Momentum into Adam",
        2016, with a constant momentum).

    Notes
    -----
    D. P. Kingma and J. Ba, "Adam: A Method for Stochastic Optimization", 2015, algorithm 1.

    >>> import cotan as ct
    >>> opt = ct.optim.adam(0.1)
    >>> params = {"w": 1.0}
    >>> params, state = opt.step({"w": 1000.0}, opt.init(params), params)
    >>> round(params["w"], 6)
    0.9
    """
    return chain(scale_by_adam(b1, b2, eps, nesterov), scale_by_learning_rate(learning_rate))


def adamw(
    learning_rate: Rate,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 1e-2,
    mask: object = None,
    nesterov: bool = False,
) -> GradientTransformation:
    """Make AdamW: Adam, and beside it a decay of the parameters that is not scaled.

    Parameters
    ----------
    learning_rate, b1, b2, eps, nesterov
        As for `adam`.
    weight_decay
        In each step parameters shrink by `learning_rate * weight_decay`.
    mask
        Which parameters decay, as in `ct.update`: a predicate `mask(path, leaf)`, paths
        (`"layers[*].w"`), or a structure of bools. All, if it is None.

    Notes
    -----
    I. Loshchilov and F. Hutter, "Decoupled Weight Decay Regularization", 2019, algorithm 2, with
    the decay multiplied by the learning rate, as PyTorch and optax have it.

    >>> import cotan as ct
    >>> opt = ct.optim.adamw(0.1, weight_decay=0.5, mask=lambda path, leaf: path == "w")
    >>> params = {"w": 1.0, "b": 1.0}
    >>> params, state = opt.step({"w": 0.0, "b": 0.0}, opt.init(params), params)
    >>> params
    {'w': 0.95, 'b': 1.0}
    """
    return chain(
        scale_by_adam(b1, b2, eps, nesterov),
        add_decayed_weights(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
    )


def rmsprop(
    learning_rate: Rate,
    decay: float = 0.9,
    eps: float = 1e-8,
    centered: bool = False,
    momentum: float = 0.0,
    nesterov: bool = False,
) -> GradientTransformation:
    """Make RMSprop: gradients divided by the root of a decaying average of their squares.

    Parameters
    ----------
    learning_rate
        A number, or a schedule: a function of the number of steps so far.
    decay
        Of the average of squares.
    eps
        Added to the root.
    centered
        Whether to divide by an estimate of the standard deviation instead (A. Graves, "Generating
        Sequences With Recurrent Neural Networks", 2013).
    momentum, nesterov
        As for `sgd`, after the division.

    Notes
    -----
    T. Tieleman and G. Hinton, lecture 6.5 of "Neural Networks for Machine Learning", 2012; as
    PyTorch's `RMSprop`, whose `alpha` is `decay`.

    >>> import cotan as ct
    >>> opt = ct.optim.rmsprop(0.1, decay=0.75)
    >>> params, _ = opt.step({"w": 1000.0}, opt.init({"w": 1.0}), {"w": 1.0})
    >>> round(params["w"], 6)
    0.8
    """
    parts = [scale_by_rms(decay, eps, centered)]
    if momentum:
        parts.append(trace(momentum, nesterov))
    elif nesterov:
        raise ValueError("rmsprop: nesterov=True needs a momentum above 0")
    return chain(*parts, scale_by_learning_rate(learning_rate))


def adagrad(
    learning_rate: Rate, initial_accumulator_value: float = 0.0, eps: float = 1e-10
) -> GradientTransformation:
    """Make Adagrad: gradients divided by the root of the sum of their squares.

    Parameters
    ----------
    learning_rate
        A number, or a schedule: a function of the number of steps so far.
    initial_accumulator_value
        What the sum begins with.
    eps
        Added to the root.

    Notes
    -----
    J. Duchi, E. Hazan and Y. Singer, "Adaptive Subgradient Methods for Online Learning and
    Stochastic Optimization", 2011; as PyTorch's `Adagrad`.

    >>> import cotan as ct
    >>> opt = ct.optim.adagrad(0.5)
    >>> params, state = opt.step({"w": 3.0}, opt.init({"w": 1.0}), {"w": 1.0})
    >>> params, state = opt.step({"w": 4.0}, state, params)
    >>> round(params["w"], 6)
    0.1
    """
    return chain(
        scale_by_rss(initial_accumulator_value, eps), scale_by_learning_rate(learning_rate)
    )
