"""Random numbers with traced parameters, by reparametrization, and shuffles of `Array`s.

A draw is constant; location and scale are not: `rng.normal(mean, spread)` is `mean` plus `spread`
times what NumPy draws. Integers that are drawn are piecewise constant in their parameters. The
functions of `numpy.random` are overridden; generators are compiled classes, so those that are
made during a recording are instances of subclasses.
"""

import functools
import sys
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.random import mtrand

from cotan import _core
from cotan._core import NotDifferentiableError
from cotan._src.rebind.numpy_substitutes import asarray
from cotan._src.runtime.call_site import package_of
from cotan._src.runtime.libraries import NATIVE_LIBRARIES
from cotan._src.runtime.registry import (
    ALWAYS,
    CREATOR,
    DERIVED_METHOD,
    Way,
    override,
    rules_of,
)
from cotan._src.runtime.values import contains_active, is_array, refuse, to_numpy
from cotan._src.typing import (
    AnyArray,
    Args,
    ArrayLike,
    Function,
    Kwargs,
    NDArray,
    Scalar,
    Shape,
)

#: What draws: NumPy's generators, of both kinds.
_Draws: TypeAlias = np.random.Generator | np.random.RandomState
#: A parameter of a distribution.
_Parameter: TypeAlias = AnyArray | Scalar
#: How many are drawn: None for as many as the parameters have elements.
_Size: TypeAlias = int | Shape | None

# The generator behind the functions of `numpy.random`.
_shared: np.random.RandomState = mtrand._rand


def _enter(name: str, rule: Function, way: Way = Way.RULE) -> None:
    """Enter a rule of what draws, for generators of both kinds and for the function of the name."""
    for cls in (np.random.Generator, np.random.RandomState):
        if hasattr(cls, name):
            override(f"numpy.random.{cls.__name__}.{name}", kind=DERIVED_METHOD, way=way)(rule)
    if not hasattr(np.random, name):
        return

    def of_shared(*args: object, **kwargs: object) -> AnyArray:
        result: AnyArray = rule(_shared, *args, **kwargs)
        return result

    override(f"numpy.random.{name}", way=way)(of_shared)


def _rule(rule: Function) -> Function:
    _enter(rule.__name__, rule)
    return rule


def _shape(size: _Size, *parameters: _Parameter) -> _Size:
    shape = np.broadcast_shapes(*map(np.shape, parameters)) if size is None else _plain(size)
    return None if isinstance(shape, tuple) and not shape else shape


def _plain(size: _Size) -> _Size:
    """Give a size that may be, or hold, an `Array` as one of plain numbers."""
    known: Any = to_numpy(size)
    return tuple(known) if np.ndim(known) else known


def _nonnegative(name: str, x: _Parameter) -> None:
    # A replay asks again, as of a branch; `vmap` has no values to branch by.
    negative = x < 0 if is_array(x) and _core.is_preparing() else np.asarray(to_numpy(x)) < 0
    if np.any(negative):
        raise ValueError(f"{name} < 0")


def _standard(draws: Any, name: str, size: _Size) -> NDArray:
    """Draw without parameters: legacy generators and new ones call them differently."""
    if name == "uniform":
        draw = draws.random_sample if hasattr(draws, "random_sample") else draws.random
        result: NDArray = draw(size)
    elif name in {"normal", "exponential"}:
        result = getattr(draws, f"standard_{name}")(size)
    else:
        result = getattr(draws, name)(size=size)
    return result


def _scaled(name: str, first: float, second: float, of: str = "") -> None:
    """Enter a distribution that a location and a scale make of a standard one."""

    def rule(
        draws: _Draws,
        loc: _Parameter = first,
        scale: _Parameter = second,
        size: _Size = None,
        **names: _Parameter,
    ) -> AnyArray:
        loc, scale = names.get("mean", loc), names.get("sigma", scale)
        _nonnegative("scale", scale)
        result = loc + scale * _standard(draws, of or name, _shape(size, loc, scale))
        return np.exp(result) if name == "lognormal" else result

    _enter(name, rule)


_scaled("normal", 0.0, 1.0)
_scaled("lognormal", 0.0, 1.0, "normal")
for _name in ("laplace", "logistic", "gumbel"):
    _scaled(_name, 0.0, 1.0)


@_rule
def uniform(
    draws: _Draws, low: _Parameter = 0.0, high: _Parameter = 1.0, size: _Size = None
) -> AnyArray:
    return low + (high - low) * _standard(draws, "uniform", _shape(size, low, high))


@_rule
def exponential(draws: _Draws, scale: _Parameter = 1.0, size: _Size = None) -> AnyArray:
    _nonnegative("scale", scale)
    return scale * _standard(draws, "exponential", _shape(size, scale))


@_rule
def rayleigh(draws: _Draws, scale: _Parameter = 1.0, size: _Size = None) -> AnyArray:
    _nonnegative("scale", scale)
    return scale * _standard(draws, "rayleigh", _shape(size, scale))


@_rule
def weibull(draws: _Draws, a: _Parameter, size: _Size = None) -> AnyArray:
    _nonnegative("a", a)
    return _standard(draws, "exponential", _shape(size, a)) ** (1.0 / a)


@_rule
def pareto(draws: _Draws, a: _Parameter, size: _Size = None) -> AnyArray:
    return np.expm1(_standard(draws, "exponential", _shape(size, a)) / a)


@_rule
def gamma(
    draws: _Draws, shape: _Parameter, scale: _Parameter = 1.0, size: _Size = None
) -> AnyArray:
    if contains_active(shape):
        raise refuse("random.gamma with respect to its shape")
    constant = to_numpy(shape)
    return scale * draws.standard_gamma(constant, _shape(size, constant, scale))


@_rule
def multivariate_normal(
    draws: _Draws,
    mean: AnyArray,
    cov: ArrayLike,
    size: _Size = None,
    *args: Any,
    **options: Any,
) -> AnyArray:
    if contains_active(cov) and (options.get("method", "svd") != "svd" or len(args) > 2):
        raise NotDifferentiableError(
            "multivariate_normal: with a traced covariance write "
            "mean + rng.standard_normal(size) @ np.linalg.cholesky(cov).T"
        )
    if not contains_active(cov):
        center = np.zeros(np.shape(mean))
        return mean + draws.multivariate_normal(
            center, to_numpy(cov), _plain(size), *args, **options
        )
    size = _plain(size)
    shape = (size,) if isinstance(size, (int, np.integer)) else tuple(size or ())
    z = draws.standard_normal((*shape, len(mean)))
    return mean + z @ _root(asarray(cov), isinstance(draws, _generator)).T


def _root(cov: AnyArray, first: bool) -> AnyArray:
    """Give the square root of a covariance that NumPy's generators take: older ones another."""
    value = to_numpy(cov)
    left, s, right = np.linalg.svd(value)
    vectors: AnyArray = left if first else right.T
    if _core.nestlevel() > 1 or not np.allclose((vectors * s) @ vectors.T, value):
        # Which of two opposite vectors is meant is NumPy's choice.
        u, values, v = np.linalg.svd(cov)
        active = u if first else v.T
        signs = np.sign(np.sum(to_numpy(active) * vectors, axis=0))
        turned: AnyArray = active * signs * np.sqrt(values)
        return turned
    # Vectors of equal variances do not turn, and what does not vary goes on not to.
    largest = np.max(s, initial=0.0)
    gaps, size = s - s[:, None], np.sqrt(s)
    apart, varies = np.abs(gaps) > 1e-12 * largest, s > 1e-13 * largest
    turn = np.where(apart, size / np.where(apart, gaps, 1.0), 0.0)
    growth = np.diag(np.where(varies, 0.5 / np.where(varies, size, 1.0), 0.0))
    change = vectors.T @ (cov - value) @ vectors
    root: AnyArray = vectors * size + vectors @ ((turn + growth) * change)
    return root


@_rule
def shuffle(draws: _Draws, x: Any, axis: int = 0) -> None:
    if not is_array(x):
        items = list(x)
        draws.shuffle(items)
        x[:] = items
        return
    order = np.arange(x.shape[axis])
    draws.shuffle(order)
    x._assign(np.take(x, order, axis))


@_rule
def permutation(draws: _Draws, x: ArrayLike, axis: int = 0) -> AnyArray:
    array = asarray(x)
    if array.ndim == 0:
        count: NDArray = draws.permutation(to_numpy(x))
        return count
    return np.take(array, draws.permutation(np.arange(array.shape[axis])), axis)


@_rule
def choice(
    draws: _Draws,
    a: ArrayLike,
    size: _Size = None,
    replace: bool = True,
    p: ArrayLike | None = None,
    axis: int = 0,
    shuffle: bool | None = None,
) -> AnyArray:
    if np.ndim(a) or not isinstance(a := to_numpy(a), (int, np.integer)):
        a = asarray(a)
    count = np.shape(a)[axis] if np.ndim(a) else a
    options = {} if shuffle is None else {"shuffle": shuffle}
    picked = draws.choice(count, _plain(size), replace, to_numpy(p), **options)
    return np.take(a, picked, axis) if np.ndim(a) else picked


def _of_values(name: str) -> None:
    """Enter a distribution of integers, which are piecewise constant."""

    def rule(draws: _Draws, *args: object, **kwargs: object) -> NDArray:
        values = {key: to_numpy(value) for key, value in kwargs.items()}
        result: NDArray = getattr(draws, name)(*map(to_numpy, args), **values)
        return result

    _enter(name, rule, Way.VALUES)


for _name in (
    *("poisson", "binomial", "geometric", "negative_binomial", "hypergeometric", "multinomial"),
    *("integers", "randint", "zipf", "logseries"),
):
    _of_values(_name)


def _filled(name: str) -> None:
    """Enter a function that can write what it draws into an array."""

    def rule(
        draws: _Draws, *args: object, out: AnyArray | None = None, **kwargs: object
    ) -> AnyArray:
        if out is None:
            values = {key: to_numpy(value) for key, value in kwargs.items()}
            result: NDArray = getattr(draws, name)(*map(to_numpy, args), **values)
            return result
        out[...] = getattr(draws, name)(np.shape(out), dtype=out.dtype)
        return out

    _enter(name, rule)


for _name in ("random", "standard_normal", "standard_exponential"):
    _filled(_name)


def _refused(name: str) -> None:
    def rule(
        draws: _Draws, *args: object, out: AnyArray | None = None, **kwargs: object
    ) -> AnyArray:
        if contains_active(args) or contains_active(kwargs):
            raise refuse(f"numpy.random.{name}")
        values = {key: to_numpy(value) for key, value in kwargs.items()}
        if out is None:
            result: NDArray = getattr(draws, name)(*map(to_numpy, args), **values)
            return result
        # Drawn into memory of NumPy's, in the order in which that is filled.
        drawn = np.array(
            to_numpy(out) if not contains_active(out) else np.zeros(out.shape, out.dtype)
        )
        getattr(draws, name)(*map(to_numpy, args), out=drawn, **values)
        out[...] = drawn
        return out

    _enter(name, rule, Way.REFUSED)


for _name in (
    *("beta", "chisquare", "dirichlet", "f", "noncentral_chisquare", "noncentral_f", "permuted"),
    *("power", "standard_gamma", "standard_t", "triangular", "vonmises", "wald"),
):
    _refused(_name)

# What makes arrays that may be written to later.
_CREATORS = (
    *("exponential", "gamma", "lognormal", "multivariate_normal", "normal", "rand", "randn"),
    *("random", "random_sample", "sample", "ranf", "standard_normal", "uniform", "laplace"),
    *("logistic", "gumbel", "rayleigh", "permutation", "choice"),
)
override(*(f"numpy.random.{name}" for name in _CREATORS), kind=CREATOR)(None)


class _DerivedGenerator(Protocol):
    """A generator of a derived class: it draws from the stream of a plain one."""

    _plain: _Draws


def _derived(base: type[_Draws]) -> Function:
    """Derive a class of generators whose methods accept `Array`s."""
    rules = rules_of(f"numpy.random.{base.__name__}", DERIVED_METHOD)

    def method(name: str) -> Function:
        original, rule = getattr(base, name), rules.get(name)
        makes = name in _CREATORS

        @functools.wraps(original)  # its signature, too, which SciPy looks at
        def draw(self: _DerivedGenerator, *args: Any, **kwargs: Any) -> AnyArray:
            if rule is not None and _core.contains_array(args, kwargs):
                drawn: AnyArray = rule(self._plain, *args, **kwargs)
                return drawn
            result: AnyArray = original(self, *args, **kwargs)
            # A library hands what it draws to compiled code.
            as_buffer = (
                makes
                and _core.is_lifting()
                and package_of(sys._getframe(1)) not in NATIVE_LIBRARIES
            )
            if as_buffer:
                result = _core.buffer(result, args)
            return result

        return draw

    names = {*rules, *(name for name in _CREATORS if hasattr(base, name))}
    members: dict[str, object] = {name: method(name) for name in names}
    members.update(__module__=base.__module__, __doc__=base.__doc__, __slots__=("_plain",))
    return type(base.__name__, (base,), members)


_Generator = _derived(np.random.Generator)
_RandomState = _derived(np.random.RandomState)


_default_rng: Any = np.random.default_rng
_generator: Any = np.random.Generator
_random_state: Any = np.random.RandomState


def _derived_from(made: Any) -> _Draws:
    """Give a generator that accepts `Array`s and draws from the same stream of bits."""
    if type(made) is _generator:
        result: Any = _Generator(made.bit_generator)
    elif type(made) is _random_state:
        result = _RandomState(made._bit_generator)
    else:
        plain: _Draws = made
        return plain
    result._plain = made
    derived: _Draws = result
    return derived


def _expect_seed(name: str, args: Args, kwargs: Kwargs) -> None:
    """Refuse, in a prepared function, a generator that would begin elsewhere in each call."""
    if _core.is_preparing() and all(seed is None for seed in (*args, *kwargs.values())):
        from cotan._src.state import random_states  # noqa: PLC0415

        if not random_states.is_kept():
            raise random_states.random_numbers_error(f"{name}() without a seed")


@override("numpy.random.default_rng", when=ALWAYS)
def default_rng(*args: object, **kwargs: object) -> _Draws:
    _expect_seed("numpy.random.default_rng", args, kwargs)
    return _derived_from(_default_rng(*args, **kwargs))


@override("numpy.random.Generator", when=ALWAYS)
def generator(*args: object, **kwargs: object) -> _Draws:
    return _derived_from(_generator(*args, **kwargs))


@override("numpy.random.RandomState", when=ALWAYS)
def random_state(*args: object, **kwargs: object) -> _Draws:
    _expect_seed("numpy.random.RandomState", args, kwargs)
    return _derived_from(_random_state(*args, **kwargs))
