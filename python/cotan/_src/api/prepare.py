"""Prepared functions: record a function once and replay it without running Python."""

import functools
import sys
from collections.abc import Callable
from types import BuiltinFunctionType, FrameType, FunctionType
from typing import Any, Literal, NoReturn, overload

import numpy as np

from cotan import _core
from cotan._src.api.second_order import hvp
from cotan._src.api.selected import expect_positions
from cotan._src.runtime.call_site import package_of
from cotan._src.runtime.libraries import LIBRARIES_WITHOUT_USER_CODE
from cotan._src.typing import Function, P, R

_SINGLE = (float, int, str, bool, complex, bytes, np.generic, type, BuiltinFunctionType)
_TRANSFORMS = ("gradient", "value_and_gradient", "value", "pullback", "hvp")

# What to write for a transform that has no name here: the function that it makes is prepared.
_OTHER_TRANSFORMS = {
    "vjp": "transform='pullback'",
    **{
        name: f"prepare(ct.{name}(f), transform='value')"
        for name in ("grad", "value_and_grad", "jacfwd", "jacrev", "vmap")
    },
    **{
        name: f"prepare(lambda *args: ct.{name}(f, *args), transform='value')"
        for name in ("jacobian", "hessian", "vhp", "ggnvp", "jvp")
    },
}


@overload
def prepare(
    f: Callable[P, R],
    /,
    *example: object,
    transform: Literal["value"],
    wrt: "_core._Wrt" = None,
    argnums: "_core._Argnums" = None,
    allow_int: bool = False,
    out: object = None,
) -> "_core.Prepared[P, R]": ...


@overload
def prepare(
    f: Callable[P, R],
    /,
    *example: object,
    transform: Literal["value_and_gradient"],
    wrt: "_core._Wrt" = None,
    argnums: "_core._Argnums" = None,
    allow_int: bool = False,
    out: object = None,
) -> "_core.Prepared[P, tuple[R, Any]]": ...


@overload
def prepare(
    f: Callable[P, R],
    /,
    *example: object,
    transform: Literal["pullback"],
    wrt: "_core._Wrt" = None,
    argnums: "_core._Argnums" = None,
    allow_int: bool = False,
    out: object = None,
) -> "_core.Prepared[P, tuple[R, _core.Pullback]]": ...


@overload
def prepare(
    f: Callable[P, Any],
    /,
    *example: object,
    transform: str = "gradient",
    wrt: "_core._Wrt" = None,
    argnums: "_core._Argnums" = None,
    allow_int: bool = False,
    out: object = None,
) -> "_core.Prepared[P, Any]": ...


def prepare(
    f: Function,
    /,
    *example: object,
    transform: str = "gradient",
    wrt: "_core._Wrt" = None,
    argnums: "_core._Argnums" = None,
    allow_int: bool = False,
    out: object = None,
    **others: object,
) -> "_core.Prepared[..., Any]":
    """Record a function once, and replay it without touching Python.

    Parameters
    ----------
    f
        The function. For the transforms that differentiate it returns a real scalar, except for
        `"pullback"`.
    example
        Arguments to record with, if any are given; else the first call records. What is `ct.const`
        among them stays constant in every call.
    transform
        What the prepared function gives: `"gradient"`, `"value_and_gradient"`, `"pullback"` (as
        the functions of these names), `"value"` (what `f` returns), or `"hvp"` (as
        `ct.hvp(f, x, v)`, called with `x, v`).
    wrt, argnums, allow_int
        As for `gradient`.
    out
        Buffers that every call writes its results to: a structure like that of the result, with
        None for what is to be a fresh array.

    Returns a function of the same arguments, with the same results: numbers among the arguments
    count as floats, also for `"value"`, divisions by zero give infinities, and the caller does not
    see what the function writes to its arguments. Another shape, dtype, structure or way that the
    code takes is recorded anew. What is given by keyword is constant; each of its numbers and
    strings has a recording of its own.

    Raises `TypeError` where the function does what a replay could not repeat: it takes a value out
    of what is recorded (`float(ct.dropgrad(x))`, `print(x)`), writes to what it closes over, draws
    random numbers.

    >>> import cotan as ct
    >>> import numpy as np
    >>> x, c = np.array([0.0, 1.0]), np.array([2.0, 3.0])
    >>> g = ct.prepare(lambda x, c: np.sum(x * x * c), x, ct.const(c))
    >>> g(x, c)
    (array([0., 6.]), None)
    """
    if transform not in _TRANSFORMS:
        instead = _OTHER_TRANSFORMS.get(str(transform))
        raise ValueError(
            f"prepare: transform must be one of {', '.join(_TRANSFORMS)}, not {transform!r}"
            + (f"; write {instead}" if instead else "")
        )
    if not callable(f):
        raise TypeError(f"prepare: the first argument must be callable, not {type(f)}")
    if others:
        _refuse(next(iter(others)), transform)
    if argnums is not None:
        if wrt is not None:
            raise TypeError("prepare: give wrt or argnums, not both")
        expect_positions("prepare", argnums)
        wrt = argnums
    if transform == "hvp":
        if wrt is not None or allow_int:
            raise TypeError(
                "prepare: wrt, argnums and allow_int cannot be combined with transform='hvp'"
            )
        f, transform = functools.partial(hvp, f), "value"
    constants = [isinstance(x, _core.Const) for x in example]
    prepared: _core.Prepared[..., Any] = _core.Prepared(
        f, transform, wrt, constants, out, allow_int
    )
    if example:
        prepared.record(*example)
    return prepared


@overload
def prepared(
    f: Callable[P, Any],
    /,
    *,
    wrt: "_core._Wrt" = None,
    argnums: "_core._Argnums" = None,
    allow_int: bool = False,
    out: object = None,
) -> "_core.Prepared[P, Any]": ...


@overload
def prepared(
    f: None = None,
    /,
    *,
    transform: Literal["value"],
    wrt: "_core._Wrt" = None,
    argnums: "_core._Argnums" = None,
    allow_int: bool = False,
    out: object = None,
) -> "Callable[[Callable[P, R]], _core.Prepared[P, R]]": ...


@overload
def prepared(
    f: None = None,
    /,
    *,
    transform: Literal["value_and_gradient"],
    wrt: "_core._Wrt" = None,
    argnums: "_core._Argnums" = None,
    allow_int: bool = False,
    out: object = None,
) -> "Callable[[Callable[P, R]], _core.Prepared[P, tuple[R, Any]]]": ...


@overload
def prepared(
    f: None = None,
    /,
    *,
    transform: str = "gradient",
    wrt: "_core._Wrt" = None,
    argnums: "_core._Argnums" = None,
    allow_int: bool = False,
    out: object = None,
) -> "Callable[[Callable[P, Any]], _core.Prepared[P, Any]]": ...


def prepared(f: Function | None = None, /, **keywords: Any) -> Any:
    """Prepare a function where it is defined; it is recorded at its first call.

    Keywords and errors are those of `prepare`.

    >>> import cotan as ct
    >>> @ct.prepared(transform="value_and_gradient")
    ... def cube(x):
    ...     return x**3
    >>> cube(2.0)
    (8.0, (12.0,))
    """
    if f is None:
        return functools.partial(prepared, **keywords)
    made = prepare(f, **keywords)
    around = f.__qualname__.rpartition(".")[0] if isinstance(f, FunctionType) else ""
    return made if not around or around.endswith("<locals>") else _InClass(made, f.__name__)


class _InClass:
    """A prepared function in the body of a class; objects do not bind it."""

    def __init__(self, made: "_core.Prepared[..., Any]", name: str) -> None:
        self._made, self._name = made, name

    def __call__(self, *args: object, **kwargs: object) -> Any:  # of a static method
        return self._made(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._made, name)

    def __get__(self, instance: object, owner: type | None = None) -> "_core.Prepared[..., Any]":
        if instance is None:
            return self._made
        name = self._name
        raise TypeError(
            f"prepared: {name} is a method, and each object has a prepared function of its own; "
            f"leave out the decorator, and write self.{name} = ct.prepare(self.{name}) in __init__"
        )


def _refuse(keyword: str, transform: str) -> NoReturn:
    """Say for a keyword that `prepare` has not got what to write instead."""
    if keyword != "has_aux":
        raise TypeError(f"prepare: there is no keyword {keyword!r}")
    made = {"gradient": "grad", "value_and_gradient": "value_and_grad"}.get(transform)
    if made is None:
        raise TypeError(
            f"prepare: transform={transform!r} has no has_aux; return what else there is as a part "
            "of the value"
        )
    raise TypeError(
        "prepare: has_aux is a keyword of what differentiates: write "
        f"prepare(ct.{made}(f, has_aux=True), transform='value'), with argnums= of ct.{made} for "
        "several arguments"
    )


def place() -> str:
    """Give the line of the user's code that is running, as the beginning of a message."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if package_of(frame) not in LIBRARIES_WITHOUT_USER_CODE:
            return f"{frame.f_code.co_filename}:{frame.f_lineno}: "
        frame = frame.f_back
    return ""


def by_keyword(function: Function) -> Function:
    """Give a function that takes a dictionary of what is given by keyword as its last argument."""

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        *positional, keywords = args
        return function(*positional, **keywords)

    return call


# --------------------------------------------------------------------------------------------------
# Buffers for results


class Result:
    """Marks the place of a result in a structure."""

    def __init__(self, index: int) -> None:
        self.index = index


def pairs(template: object, out: Any, path: str = "out") -> list[tuple[int, object, str]]:
    """Give for each buffer in `out` the number of its result, which `template` has in its place."""
    if out is None:
        return []
    if isinstance(template, Result):
        return [(template.index, out, path)]
    if template is None or isinstance(template, _SINGLE):
        raise ValueError(
            f"prepared: {path} corresponds to no array of the result, but to {template!r}; put "
            "None there"
        )
    if isinstance(template, dict):
        if not isinstance(out, dict) or out.keys() != template.keys():
            raise ValueError(f"prepared: {path} must be a dictionary with keys {list(template)}")
        parts = [(f"{path}[{key!r}]", template[key], out[key]) for key in template]
    elif isinstance(template, (tuple, list)):
        if not isinstance(out, (tuple, list)) or len(out) != len(template):
            raise ValueError(
                f"prepared: {path} must be a tuple of {len(template)}, like the result"
            )
        parts = [(f"{path}[{i}]", t, out[i]) for i, t in enumerate(template)]
    else:
        names = vars(template)
        parts = [(f"{path}.{name}", names[name], getattr(out, name, None)) for name in names]
    return [pair for where, t, o in parts for pair in pairs(t, o, where)]


def copied(result: object, out: Any) -> object:
    """Copy a result that was computed elsewhere into buffers; give the result with these in it."""
    if out is None:
        return result
    if isinstance(result, tuple):
        return tuple(map(copied, result, out))
    if isinstance(result, list):
        return list(map(copied, result, out))
    if isinstance(result, dict):
        return {key: copied(value, out[key]) for key, value in result.items()}
    value = np.asarray(result)
    if not isinstance(out, np.ndarray) or (out.shape, out.dtype) != (value.shape, value.dtype):
        raise ValueError(
            f"prepared: a buffer in out must be an ndarray of shape {value.shape} and dtype "
            f"{value.dtype}, like the result"
        )
    np.copyto(out, value)
    return out
