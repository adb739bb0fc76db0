"""Methods of libraries' classes that lead to a rule, wherever user code has bound them.

`N = norm.cdf` keeps the function that the class has then, not its name; so this very function gets
other code while its identity stays, and what it was lives on as a copy.
"""

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any

from cotan import _core

_PLACE = "where the method is"


def _patched(*args: Any, **kwargs: Any) -> Any:
    method: Any = "where the method is"
    return method(*args, **kwargs)


def wrapped(original: Any, rule: Callable[..., Any], always: bool) -> Any:
    """Make a method that calls a rule while something is recorded, and the original otherwise."""

    @functools.wraps(original)
    def method(*args: Any, **kwargs: Any) -> Any:
        if _core.is_lifting() and (always or _core.contains_array(args, kwargs)):
            return rule(*args, **kwargs)
        return original(*args, **kwargs)

    return method


def patch_method(
    owner: type, name: str, original: Any, rule: Callable[..., Any], always: bool
) -> None:
    """Let a class have a method that leads to a rule."""
    if is_patched(original):
        return
    if isinstance(original, classmethod):
        setattr(owner, name, classmethod(wrapped(original.__func__, rule, always)))
        return
    is_plain = name in vars(owner) and type(original) is FunctionType
    if not is_plain or original.__closure__ is not None:
        setattr(owner, name, wrapped(original, rule, always))
        return
    copy = FunctionType(original.__code__, original.__globals__, original.__name__)
    copy.__defaults__, copy.__kwdefaults__ = original.__defaults__, original.__kwdefaults__
    functools.update_wrapper(copy, original)
    copy.__dict__.pop("__wrapped__")
    method = wrapped(copy, rule, always)
    code = _patched.__code__
    constants = tuple(method if c == _PLACE else c for c in code.co_consts)
    # For `inspect.signature`, too, which would see arguments of any kind.
    original.__wrapped__ = copy
    original.__code__ = code.replace(co_consts=constants, co_name=original.__name__)


def is_patched(method: Any) -> bool:
    code = getattr(method, "__code__", None)
    return code is not None and code.co_filename == __file__


def original_of(method: Any) -> Any:
    """Give a method of a class as the library has it."""
    return method.__wrapped__ if is_patched(method) else method
