"""Custom rules: users declare the derivative of a function, or hook into a cotangent."""

import ast
import functools
import inspect
import pickle
import sys
import threading
from collections.abc import Callable
from types import BuiltinFunctionType, FrameType, FunctionType, MethodType
from typing import Any, overload

import numpy as np

from cotan import _core
from cotan._core import Array
from cotan._src.interpose.adjoint_rules import add_adjoint
from cotan._src.interpose.users_rules import AdjointRule
from cotan._src.runtime import call_site
from cotan._src.runtime.by_example import expect_values
from cotan._src.runtime.values import is_array
from cotan._src.tree.argument_refusal import expect_function
from cotan._src.tree.pickle_by_name import by_name
from cotan._src.tree.selection import argument_names
from cotan._src.tree.tangent import leaves_of, map_leaves
from cotan._src.typing import AnyArray, Args, Function, P, R, T


def _name(function: object) -> str:
    return getattr(function, "__name__", None) or type(function).__name__


def _names(function: Function) -> Callable[[int], list[str]]:
    """Give the function from the number of positional arguments to their names."""
    return functools.cache(functools.partial(argument_names, function))


@overload
def adjoint(
    target: Callable[P, tuple[R, Function]], /, *, opaque: bool = False
) -> Callable[P, R]: ...


@overload
def adjoint(
    target: None = None, /, *, opaque: bool = False
) -> Callable[[Callable[P, tuple[R, Function]]], Callable[P, R]]: ...


@overload
def adjoint(target: Function, rule: Function, /, *, opaque: bool = False) -> AdjointRule: ...


def adjoint(target: Any = None, rule: Function | None = None, /, *, opaque: bool = False) -> Any:
    """Make a function out of its result and its pullback, or give that rule to another's function.

    `@adjoint` decorates a rule, whose name then stands for the function. `adjoint(function, rule)`
    is for functions that are not yours: in contexts that record, the rule computes the calls of
    `function` with an `Array` among their arguments, by whatever name and in whichever code.

    Parameters
    ----------
    target
        The function to give a rule to: one of another library, a ufunc, a class, a method, an
        object that can be called. Without it, the rule itself, as of a decorator.
    rule
        Returns `(y, back)`: the result, and a function from the cotangent of the result to a tuple
        of cotangents, one for each positional argument, None for those without one. (With a single
        argument the cotangent may come alone.) Cotangents have the structure and shape of what they
        belong to, and are cast to its dtype (of a complex one for a real argument the real part
        counts); the number 0 is zero of any shape. That of an object may be a `Tangent`, a dict of
        fields, or an instance of the object's own class, which makes that class its own natural
        cotangent in the gradient call that is going on. Keyword arguments are constants. A pullback
        with a parameter `wanted` gets a tuple of bools: which arguments are being differentiated.
    opaque
        The rule calls code that cannot be traced. It gets plain values (ndarrays, floats), and so
        does its pullback, which is called when a cotangent is computed. Inside of `vmap` it gets
        those of one example after the other.

    Without `opaque` both are traced into primitives, once for each call: they run fused, take part
    in programs, and are differentiated again. Where nothing is differentiated a decorated rule just
    runs, and its pullback is never called.

    With a function, this returns an `AdjointRule`, which is in force until its `remove()` is called
    or to the end of a `with` block. The rule takes the parameters of the function; each that it
    takes by position has a cotangent, whether the call gave it by position, by name or not at all.
    The last of several rules counts. Inside a rule, its function is what it was without that rule.

    Raises `TypeError` or `ValueError` that names the rule and the argument when a cotangent does
    not fit; `TypeError` when an opaque rule is differentiated twice; and `TypeError` for what takes
    no rule: a ufunc behind an operator, a method of a compiled class, a class of numbers.

    >>> import cotan as ct
    >>> import numpy as np
    >>> @ct.adjoint
    ... def norm(x):
    ...     r = np.sqrt(np.sum(x * x))
    ...     return r, lambda dr: dr * x / r
    >>> ct.gradient(norm, np.array([3.0, 4.0]))
    (array([0.6, 0.8]),)
    >>> def zero_at_zero(x):
    ...     r = np.linalg.norm(x)
    ...     return r, lambda dr: dr * x / np.where(r > 0, r, 1.0)
    >>> with ct.adjoint(np.linalg.norm, zero_at_zero):
    ...     ct.gradient(lambda x: np.linalg.norm(x), np.array([3.0, 4.0]))
    (array([0.6, 0.8]),)
    """
    if rule is not None:
        for what, given in (("function", target), ("rule", rule)):
            if not callable(given):
                raise TypeError(
                    f"adjoint: the {what} must be callable, not {type(given)}; "
                    "adjoint(function, rule)"
                )
        return add_adjoint(target, rule, opaque)
    if target is None:
        return functools.partial(adjoint, opaque=opaque)
    rule = target
    if not callable(rule):
        raise TypeError(f"adjoint: the rule must be callable, not {type(rule)}")
    name, names = _name(rule), _names(rule)

    @functools.wraps(rule)
    def function(*args: object, **kwargs: object) -> Any:
        if opaque:
            expect_values(f"{name}, an opaque rule,", leaves_of(args))
        return _core.call_adjoint(rule, name, names(len(args)), args, kwargs, opaque)

    return function


class custom_jvp:  # noqa: N801 - a decorator, as in JAX
    """Give a function a forward rule: its derivative along a direction.

    The rule, added with `defjvp`, gets the arguments and their tangents, as tuples, and returns the
    result and its tangent, of the same shape and linear in the tangents. Gradients use the
    transpose of that map.

    Raises `ValueError` that names the function when a tangent is not linear or of another shape,
    and `TypeError` when it is complex and the result real.

    >>> import cotan as ct
    >>> import numpy as np
    >>> @ct.custom_jvp
    ... def log1pexp(x):
    ...     return np.log(1 + np.exp(x))
    >>> @log1pexp.defjvp
    ... def rule(primals, tangents):
    ...     (x,), (t,) = primals, tangents
    ...     return log1pexp(x), t / (1 + np.exp(-x))
    >>> ct.gradient(log1pexp, 1000.0)
    (1.0,)
    """

    def __init__(self, function: Function) -> None:
        expect_function("custom_jvp", "the argument", function)
        functools.update_wrapper(self, function)
        self._function = function
        self._rule: Function | None = None
        self._name = _name(function)
        self._names = _names(function)
        self._running = threading.local()

    def defjvp(self, rule: Function) -> Function:
        """Set the rule; gives it back, so that this is a decorator."""
        self._rule = rule
        return rule

    def __reduce__(self) -> tuple[Callable[[str, str], object], tuple[str, str]]:
        found = by_name(self, self._function)
        if found is None:
            raise pickle.PicklingError(
                f"{self._name}: a custom_jvp function is pickled by its qualified name, which does "
                "not lead to it; use custom_jvp as a decorator, or bind its result to that name"
            )
        return found

    def __copy__(self) -> "custom_jvp":
        return self

    def __deepcopy__(self, memo: object) -> "custom_jvp":
        return self  # As functions are.

    def __get__(self, instance: object, owner: type | None = None) -> Function:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: object, **kwargs: object) -> Any:
        rule = self._rule
        if rule is None:
            message = (
                f"custom_jvp {self._name}: no rule has been defined; define one with "
                f"@{self._name}.defjvp"
            )
            raise TypeError(message)
        if getattr(self._running, "rule", False):
            return self._function(*args, **kwargs)
        names = self._names(len(args))
        return _core.call_jvp(self._function, self._guarded(rule), self._name, names, args, kwargs)

    def _guarded(self, rule: Function) -> Function:
        """Let a rule use the function itself, which is then what it is made of."""

        def guarded(primals: Args, tangents: Args, **kwargs: object) -> object:
            self._running.rule = True
            try:
                return rule(primals, tangents, **kwargs)
            finally:
                self._running.rule = False

        return guarded


def takes_wanted(back: Any) -> bool:
    """Say whether a pullback can be called with `wanted=...`."""
    if isinstance(back, functools.partial):
        return takes_wanted(back.func)
    if isinstance(back, MethodType):
        back = back.__func__
    elif not isinstance(back, (FunctionType, BuiltinFunctionType, type, np.ufunc)):
        # An object that can be called.
        back = type(back).__call__
    if isinstance(back, FunctionType):
        code = back.__code__
        named = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        if "wanted" not in named and not code.co_flags & inspect.CO_VARKEYWORDS:
            return False
        if not hasattr(back, "__wrapped__"):
            return True
        # What a decorator hands on to has to take it, too.
        return takes_wanted(back.__wrapped__)
    try:
        return "wanted" in inspect.signature(back).parameters
    except (TypeError, ValueError):
        return False


def pulled(function: Function, count: int) -> Function:
    """Give the pullback of a function of `count` arrays as a function of arrays, too."""

    def back(*args: AnyArray) -> tuple[AnyArray, ...]:
        x, dy = args[:count], args[count:]
        _, pull = _core.pullback(function, *x)
        pairs = zip(pull(dy), x, strict=True)
        # The kind of bfloat16 is that of no number.
        return tuple(
            np.zeros(a.shape, a.dtype) if ct is None else ct
            for ct, a in pairs
            if a.dtype.kind in "fcV"
        )

    return back


def zero(value: T) -> T | AnyArray:
    """Give zero for a number, zeros for an array, and anything else as it is."""
    if isinstance(value, (float, complex)):
        return type(value)(0)
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "fc":
        return np.zeros_like(value)
    if isinstance(value, _core.Array) and value.dtype.kind in "fc":
        return np.zeros(value.shape, value.dtype)
    return value


def hook(function: Function, x: T) -> T:
    """Give `x` back, and call a function with its cotangent when that is computed.

    Parameters
    ----------
    function
        Gets the cotangent, an `Array` that has its value, of the shape and dtype of `x`. What it
        returns takes the cotangent's place; None leaves it as it is.
    x
        An array or a number. For a structure the function is called with the cotangent of each
        array in it. What is not being differentiated passes untouched.

    A hook runs on the thread that asked for the cotangent, in the order of the reverse pass, once;
    it does not run when nobody asks. What it raises arrives at the gradient call. Under a second
    gradient the function is differentiated, which calls it again with that cotangent.

    Raises `TypeError` or `ValueError` that names the hook when what it returns does not fit.

    >>> import cotan as ct
    >>> ct.gradient(lambda a, b: ct.hook(lambda g: -g, a) * b, 2.0, 3.0)
    (-3.0, 2.0)
    """
    if not callable(function):
        raise TypeError(
            f"hook: the first argument must be callable, not {type(function)}; hook(f, x)"
        )

    def replaced(ct: Array) -> tuple[object]:
        new = function(ct)
        return (ct if new is None else new,)

    hooked: T = _core.hooked(replaced, x, _name(function))
    return hooked


def showgrad(x: T, label: str | None = None) -> T:
    """Give `x` back, and print its cotangent when that is computed.

    The line reads `∂(expression) = value`, with the expression as it is written in the source, or
    `label`. Where there is none (`map(ct.showgrad, xs)`, no source), it reads `∂(x)`. `x` is what
    `hook` takes: an array, a number, or a structure, each array of which prints a line.

    >>> import cotan as ct
    >>> ct.gradient(lambda a: ct.showgrad(a, label="a") * 3, 2.0)
    ∂(a) = 3.0
    (3.0,)
    """
    text = label if label is not None else _argument_text(sys._getframe(1))

    def showgrad(ct: Array) -> None:
        print(f"∂({text}) = {ct}")

    return hook(showgrad, x)


def _argument_text(frame: FrameType) -> str:
    """Give the source of the first argument of the call that a frame is in, `x` if unknown."""
    call = call_site.expression(frame)
    # A call from C, as by `map`, is that of another function.
    if isinstance(call, ast.Call) and _value(call.func, frame) is showgrad:
        given = [*call.args[:1], *(k.value for k in call.keywords if k.arg == "x")]
        if given and not isinstance(given[0], ast.Starred):
            return " ".join(ast.unparse(given[0]).split())
    return "x"


def _value(name: ast.expr, frame: FrameType) -> object:
    """Give the value of a name, or of an attribute of one, in a frame; None for anything else."""
    if isinstance(name, ast.Attribute):
        return getattr(_value(name.value, frame), name.attr, None)
    if isinstance(name, ast.Name):
        found = frame.f_locals.get(name.id, frame.f_globals.get(name.id))
        return frame.f_builtins.get(name.id) if found is None else found
    return None


def clip_gradient(
    x: T, low: float | None = None, high: float | None = None, *, norm: float | None = None
) -> T:
    """Give `x` back, with its cotangent clipped on the way back.

    Parameters
    ----------
    x
        An array, a number, or a structure of them.
    low, high
        Bounds of every element of the cotangent; -1 and 1 unless one of them or `norm` is given.
    norm
        Instead: the largest Euclidean norm of the cotangent, of all arrays of a structure together.
        Computed in at least float32 and without overflow. With infinity or NaN anywhere in it, all
        of it becomes NaN: there is no direction to keep.

    Its derivative rule is made of primitives, so it is fused, pickled and differentiated again.

    Raises `ValueError` for bounds that leave nothing, and `TypeError` for bounds of both kinds.

    >>> import cotan as ct
    >>> import numpy as np
    >>> ct.gradient(lambda x: np.sum(3 * ct.clip_gradient(x)), np.array([1.0, 2.0]))
    (array([1., 1.]),)
    >>> ct.gradient(lambda x: np.sum(3 * ct.clip_gradient(x, norm=1.0)), np.array([1.0, 2.0]))
    (array([0.70710678, 0.70710678]),)
    """
    for name, bound in (("low", low), ("high", high), ("norm", norm)):
        given: Any = bound
        dtype = given.dtype if is_array(given) else np.asarray(given).dtype
        if bound is not None and dtype.kind not in "biuf":
            raise TypeError(f"clip_gradient: {name} must be a number, not {bound!r}")
    if norm is not None:
        if low is not None or high is not None:
            raise TypeError("clip_gradient: give low and high, or norm, not both")
        if not norm > 0:
            raise ValueError(f"clip_gradient: norm must be positive, not {norm}")
        return _clip_norm(x, norm=norm)
    if low is None and high is None:
        low, high = -1.0, 1.0
    if low is not None and high is not None and low > high:
        raise ValueError(f"clip_gradient: low={low} is above high={high}")
    return _clip(x, low=low, high=high)


@adjoint
def _clip(x: T, *, low: float | None, high: float | None) -> tuple[T, Function]:
    def clipped(ct: Array) -> Array:
        ct = ct if low is None else _core.maximum(ct, low)
        return ct if high is None else _core.minimum(ct, high)

    return x, lambda dx: (map_leaves(clipped, dx),)


@adjoint
def _clip_norm(x: T, *, norm: float) -> tuple[T, Function]:
    def back(dx: object) -> tuple[object]:
        leaves = [_at_least_single(ct) for ct in leaves_of(dx) if ct.size]
        if not leaves:
            return (dx,)
        # Squares of huge elements overflow, so the norm is that of the elements divided by the
        # largest of them. That cancels, so nothing is differentiated through it.
        largest = functools.reduce(_core.maximum, [_core.max(_core.abs(ct)) for ct in leaves])
        largest = _core.dropgrad(_core.where(largest > 0, largest, 1.0))
        squares = [_core.sum(_core.square(_core.abs(ct / largest))) for ct in leaves]
        relative = _core.sqrt(functools.reduce(_core.add, squares))
        small = relative * largest <= norm

        def clipped(ct: Array) -> Array:
            # With infinity or NaN there is no direction: the comparison is false, and this is NaN.
            scaled = _at_least_single(ct) / largest * (norm / relative)
            return _core.where(small, ct, scaled).astype(ct.dtype)

        return (map_leaves(clipped, dx),)

    return x, back


def _at_least_single(ct: Array) -> Array:
    """Give an array as one of at least single precision."""
    return ct.astype(np.float32) if ct.dtype.itemsize < 4 else ct
