"""Derivative rules of users for functions that are not theirs: `ct.adjoint(function, rule)`.

A library's function cannot be decorated. Its entry asks the rules here before anything else, in
contexts that record and where an `Array` is among the arguments. A rule that is taken back leaves
the question: with no rule in force, what computed the function before computes it again.
"""

import contextlib
import functools
import inspect
import sys
from contextvars import ContextVar
from types import FrameType, FunctionType, TracebackType
from typing import Any, Self

import numpy as np

from cotan import _core
from cotan._src.interpose.prologue import as_called
from cotan._src.runtime.by_example import expect_values
from cotan._src.runtime.ufunc_dtypes import name_of_ufunc
from cotan._src.tree.selection import argument_names
from cotan._src.tree.structure import tree_leaves
from cotan._src.typing import Args, Function, Kwargs

# The rules that run in this context: the functions that they call are what they were before.
_RUNNING: ContextVar[tuple["AdjointRule", ...]] = ContextVar("cotan_running_rules", default=())


class AdjointRule:
    """A rule that is in force until it is taken back, by `remove()` or at the end of a `with`."""

    def __init__(self, asked: "Asked", rule: Function, opaque: bool) -> None:
        self._asked, self._rule, self._opaque = asked, rule, opaque
        self._signature = _signature(rule)
        self._names = functools.cache(functools.partial(argument_names, rule))
        asked.add(self)

    def remove(self) -> None:
        """Take the rule back: what computed the function before computes it. May be repeated."""
        self._asked.discard(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.remove()

    def __repr__(self) -> str:
        removed = "" if self in self._asked.rules else ", removed"
        return f"<adjoint rule of {self._asked.name}{removed}>"

    def _called(self, args: Args, kwargs: Kwargs) -> Any:
        name = self._asked.name
        args, kwargs = self._fitted(args, kwargs)
        if self._opaque:
            expect_values(f"the opaque rule of {name}", tree_leaves(args))
        token = _RUNNING.set((*_RUNNING.get(), self))
        try:
            names = self._names(len(args))
            return _core.call_adjoint(self._rule, name, names, args, kwargs, self._opaque)
        finally:
            _RUNNING.reset(token)

    def _fitted(self, args: Args, kwargs: Kwargs) -> tuple[Args, Kwargs]:
        """Give the arguments as the rule names them, all that it takes by position there."""
        signature = self._signature
        if signature is None:
            return args, kwargs
        try:
            try:
                given = signature.bind(*args, **kwargs)
            except TypeError:
                # It may call them otherwise than the function does.
                args, kwargs = self._asked.by_position(args, kwargs)
                given = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(
                f"adjoint {self._asked.name}: the rule does not take what this call gives: "
                f"{error}; give the rule the parameters of the function"
            ) from error
        given.apply_defaults()
        return given.args, given.kwargs


def _signature(function: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


class Asked:
    """The rules of one function, the last of which computes it."""

    def __init__(self, target: Any, callee: Any, is_bound: bool) -> None:
        self.target = target  # kept alive, since it is found by its identity
        self.name = _name(target)
        # Other threads read it: it is appended to and removed from, and copied before a walk.
        self.rules: list[AdjointRule] = []
        self._callee, self._is_bound = callee, is_bound

    def add(self, rule: AdjointRule) -> None:
        """Put a rule in force, before those that there are."""
        self.rules.append(rule)
        self._note_change()

    def discard(self, rule: AdjointRule) -> None:
        """Take a rule back, if it is in force."""
        with contextlib.suppress(ValueError):
            self.rules.remove(rule)
        self._note_change()

    def _note_change(self) -> None:
        # What is replayed without being asked for follows the rules that were in force.
        _core.forget_repeated_functions()
        if isinstance(self.target, np.ufunc):
            _core.set_ufunc_ruled(self.target, bool(self.rules))

    def over(self, otherwise: Function) -> Function:
        """Give what computes the function: its rules, or what did so before there were any."""

        def compute(*args: Any, **kwargs: Any) -> Any:
            if self.rules and _holds_array(args, kwargs) and not _is_called_inside():
                found = self.rule()
                if found is not None:
                    return self._with_given(found)(*args, **kwargs)
            return otherwise(*args, **kwargs)

        return compute

    def rule(self) -> AdjointRule | None:
        """Give the last rule that does not run itself, if there is one."""
        running = _RUNNING.get()
        return next((rule for rule in reversed([*self.rules]) if rule not in running), None)

    def by_position(self, args: Args, kwargs: Kwargs) -> tuple[Args, Kwargs]:
        """Give arguments by position as far as the function takes by position what is named."""
        signature = _signature(self.target)
        if signature is None:
            return args, kwargs
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        by_name = {inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD}
        names = [p.name for p in signature.parameters.values() if p.kind not in by_name]
        last = max((i for i, name in enumerate(names) if name in kwargs), default=-1)
        moved = names[len(args) : last + 1]
        rest = {name: value for name, value in kwargs.items() if name not in moved}
        return (*args, *(given.arguments[name] for name in moved)), rest

    def _with_given(self, rule: AdjointRule) -> Function:
        """Let a rule get the arguments that the call gave."""

        def call(*args: Any, **kwargs: Any) -> Any:
            return rule._called(args, kwargs)

        callee = self._callee
        return as_called(callee, call, self._is_bound) if type(callee) is FunctionType else call


def _holds_array(args: Args, kwargs: Kwargs) -> bool:
    """Say whether an `Array` is among arguments, or in a structure there."""
    if _core.contains_array(args, kwargs):
        return True
    leaves = tree_leaves([*args, *kwargs.values()])
    return any(isinstance(leaf, _core.Array) for leaf in leaves)


# Packages of cotan whose code calls no functions of users: `x.dot(y)` is no call of `np.dot`.
_INSIDE = tuple(f"cotan._src.{name}." for name in ("array", "nn", "random", "special"))
_HERE = __name__.removesuffix("users_rules")


def _is_called_inside() -> bool:
    """Say whether cotan itself calls a function."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and str(frame.f_globals.get("__name__")).startswith(_HERE):
        frame = frame.f_back
    return frame is not None and str(frame.f_globals.get("__name__")).startswith(_INSIDE)


def _name(target: Any) -> str:
    """Give the dotted name of a function, and that of the class of another object."""
    if not hasattr(target, "__name__"):
        return f"{type(target).__module__}.{type(target).__qualname__} object"
    if isinstance(target, np.ufunc):
        return name_of_ufunc(target)
    module = getattr(target, "__module__", None)
    name = str(getattr(target, "__qualname__", target.__name__))
    return f"{module}.{name}" if module else name


# By the identity of the callable that has the entry, and of its receiver, if only that is meant.
_ASKED: dict[tuple[int, int], Asked] = {}
_UFUNCS: dict[int, Asked] = {}


def asked(target: Any, callee: Any, receiver: Any) -> tuple[Asked, bool]:
    """Give the rules of a function, and whether they are new."""
    key = id(callee), id(receiver)
    found = _ASKED.get(key)
    if found is not None:
        return found, False
    made = Asked(target, callee, receiver is not None)
    return _ASKED.setdefault(key, made), True


def has_users_rules(callee: Any, receiver: Any) -> bool:
    """Say whether a function has had a rule of user code."""
    return (id(callee), id(receiver)) in _ASKED


def over(callee: Any, receiver: Any, otherwise: Function) -> Function:
    """Give what computes a function where its rules, if it ever had one, are asked first."""
    found = _ASKED.get((id(callee), id(receiver)))
    return otherwise if found is None else found.over(otherwise)


def forget(callee: Any, receiver: Any) -> None:
    """Forget a function that turned out to have no entry."""
    _ASKED.pop((id(callee), id(receiver)), None)


def asked_of_ufunc(ufunc: np.ufunc) -> Asked:
    """Give the rules of a ufunc."""
    return _UFUNCS.setdefault(id(ufunc), Asked(ufunc, ufunc, False))


def rule_of_ufunc(ufunc: np.ufunc) -> Function | None:
    """Give the rule of user code that computes a ufunc, if there is one."""
    found = _UFUNCS.get(id(ufunc))
    rule = None if found is None or _is_called_inside() else found.rule()
    return None if rule is None else lambda *args, **kwargs: rule._called(args, kwargs)
