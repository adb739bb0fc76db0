"""Gives a derivative rule of user code to a function of another library: `ct.adjoint(f, rule)`.

Where the function has an override, its rules are asked before that; a function without one gets an
entry. Neither is undone when a rule is taken back: `users_rules` has what is in force.
"""

import numbers
from types import (
    BuiltinFunctionType,
    FunctionType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

import numpy as np

from cotan import _core
from cotan._src.interpose import install
from cotan._src.interpose.prologue import as_called
from cotan._src.interpose.users_rules import AdjointRule, asked, asked_of_ufunc, forget, over
from cotan._src.runtime.registry import Kind, Override, When, rows_of
from cotan._src.runtime.values import DISPATCHER
from cotan._src.typing import Function

_HAVE_ENTRIES = BuiltinFunctionType, FunctionType, MethodType, type, DISPATCHER
_OF_COMPILED_CLASSES = MethodDescriptorType, MethodWrapperType, WrapperDescriptorType

# Compiled classes whose objects are asked for their rules.
_classes: set[type] = set()


def add_adjoint(target: Any, rule: Function, opaque: bool) -> AdjointRule:
    """Let a rule compute a function, until it is taken back.

    Raises `TypeError` for what cannot be given a rule.
    """
    if isinstance(target, np.ufunc):
        _expect_no_operator(target)
        _core.add_ufuncs([target])
        return AdjointRule(asked_of_ufunc(target), rule, opaque)
    if isinstance(target, _OF_COMPILED_CLASSES):
        raise _method_refusal(target)
    if isinstance(target, type) and issubclass(target, (numbers.Number, np.generic)):
        raise TypeError(
            f"adjoint: {target!r} makes numbers, which a gradient passes through as they are, and "
            "takes no rule; give the rule to a function"
        )
    if not _core.may_install():
        raise TypeError(
            f"adjoint: no rule can be given to {target!r} while nothing is overridden "
            "(COTAN_LIFTING=0, ct.lifting(False)); decorate a function of yours instead"
        )
    with install.lock():
        install.install()
        callee, receiver = install.entry_of(target)
        rules, are_new = asked(target, callee, receiver)
        if are_new:
            try:
                if not install.install_again(target):
                    _give_entry(target, callee, receiver)
            except TypeError as error:
                forget(callee, receiver)
                if str(error).startswith("adjoint:"):
                    raise
                raise TypeError(
                    f"adjoint: {error}; give the rule to a function of yours that calls it"
                ) from error
    return AdjointRule(rules, rule, opaque)


# What Python's operators compute with arrays. They are computed here, and ask no ufunc.
_OF_OPERATORS = [
    "absolute",
    "add",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "divide",
    "divmod",
    "equal",
    "floor_divide",
    "greater",
    "greater_equal",
    "invert",
    "left_shift",
    "less",
    "less_equal",
    "matmul",
    "multiply",
    "negative",
    "not_equal",
    "positive",
    "power",
    "remainder",
    "right_shift",
    "subtract",
]


def _expect_no_operator(ufunc: np.ufunc) -> None:
    if any(ufunc is getattr(np, name) for name in _OF_OPERATORS):
        raise TypeError(
            f"adjoint: numpy.{ufunc.__name__} is what an operator computes, which asks no rule; "
            "give the rule to a function of yours that calls it"
        )


def _method_refusal(target: object) -> TypeError:
    return TypeError(
        f"adjoint: {target!r} is a method of a compiled class and takes no rule; give the rule to "
        "a function that calls it"
    )


def _give_entry(target: Any, callee: Any, receiver: Any) -> None:
    """Let the rules of a function that has no override be asked."""
    if isinstance(target, BuiltinFunctionType) and not isinstance(target.__self__, ModuleType):
        raise _method_refusal(target)  # it is made anew wherever it is looked up
    if isinstance(target, type):
        _core.keep_entries(target)
    elif isinstance(callee, FunctionType) and callee.__name__ == "__init__":
        for owner in _classes_with(callee):
            _core.keep_entries(owner)
    if receiver is None and not isinstance(target, _HAVE_ENTRIES):
        _ask_objects(type(target))
        return
    is_object = receiver is not None and not isinstance(target, MethodType)
    row = _row_of_calls(type(target)) if is_object else None
    otherwise: Any = _declined
    if row is not None and row.rule is not None:
        rule = as_called(callee, row.rule)
        otherwise = rule if row.when is When.ALWAYS else _where_arrays_are(rule)
    if isinstance(receiver, type) or (receiver is None and isinstance(callee, FunctionType)):
        # The entry tells objects from each other, not the classes of class methods.
        if receiver is not None and install.install_again(callee):
            raise TypeError(f"{target!r} has an override that depends on the class")
        _core.add_rule(callee, _for_classes(callee), "always")
        return
    if receiver is not None:
        otherwise = _for_all(callee, receiver, otherwise)
    # An `Array` may be anywhere in a structure: the rules look for it.
    _core.add_rule(callee, over(callee, receiver, otherwise), "always", receiver)


def _classes_with(init: FunctionType) -> list[type]:
    """Find the classes that have this `__init__`: calls that have run often go past its entry."""
    found: list[type] = []
    waiting: list[type] = [object]
    # By address: a metaclass may say how its classes are compared.
    seen: set[int] = set()
    while waiting:
        cls = waiting.pop()
        if id(cls) not in seen:
            seen.add(id(cls))
            waiting += type.__subclasses__(cls)
            if type.__dict__["__dict__"].__get__(cls).get("__init__") is init:
                found.append(cls)
    return found


def _where_arrays_are(rule: Function) -> Function:
    """Let a rule compute the calls with an `Array` among the arguments, or in a list there."""

    def compute(*args: Any, **kwargs: Any) -> Any:
        return rule(*args, **kwargs) if _core.contains_array(args, kwargs) else NotImplemented

    return compute


def _for_all(callee: Any, receiver: Any, otherwise: Function) -> Function:
    """Let the rules of a method compute what those of one object's leave."""
    return lambda *args, **kwargs: over(callee, None, otherwise)(receiver, *args, **kwargs)


def _for_classes(callee: Any) -> Function:
    """Let the rules of a function be asked, and those that it has as a class method of a class."""

    def compute(*args: Any, **kwargs: Any) -> Any:
        if args and isinstance(args[0], type):
            cls = args[0]
            return over(callee, cls, _for_all(callee, cls, _declined))(*args[1:], **kwargs)
        return over(callee, None, _declined)(*args, **kwargs)

    return compute


def _ask_objects(cls: type) -> None:
    """Let the objects of a compiled class, which are called through it, be asked for rules."""
    if cls in _classes:
        return
    row = _row_of_calls(cls)
    otherwise: Any = _declined if row is None or row.rule is None else row.rule

    def compute(self: Any, *args: Any, **kwargs: Any) -> Any:
        return over(self, None, lambda *a, **k: otherwise(self, *a, **k))(*args, **kwargs)

    _core.add_call_rule(cls, compute, "always")
    _classes.add(cls)


def _row_of_calls(cls: type) -> Override | None:
    """Give the row of what calls the objects of a class, if there is one."""
    for base in cls.__mro__:
        row = rows_of(f"{base.__module__}.{base.__qualname__}", Kind.METHOD).get("__call__")
        if row is not None or "__call__" in vars(base):
            return row
    return None


def _declined(*args: Any, **kwargs: Any) -> Any:
    return NotImplemented
