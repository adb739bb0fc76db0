"""Runs a callback on plain values while a gradient is recorded: `PlainCallback`.

Problem: a solver calls the user's function a thousand times to find its way, and only what comes
after needs the derivative. As long as the function captures active arrays, each of these calls
records its equations. A copy of the function, with plain values in the place of the arrays that it
captures, runs as fast as without cotan, in a context that records nothing.
"""

import contextlib
import functools
import struct
from collections.abc import Callable, Mapping, Sequence
from types import (
    CellType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodType,
)
from typing import Any, TypeAlias, TypeVar

import numpy as np

from cotan import _core
from cotan._core import Array
from cotan._src.runtime.call_site import assigns_captured
from cotan._src.runtime.interrupts import raise_interrupt
from cotan._src.runtime.originals import rebound_from
from cotan._src.runtime.values import contains_active, to_numpy
from cotan._src.state.callback_probe import to_numpy_items
from cotan._src.state.quick_state import QuickState
from cotan._src.state.snapshot import StateSnapshot
from cotan._src.typing import AnyArray, Args, Function

_R = TypeVar("_R")
#: What reads and writes attributes that are in no dictionary.
Slots: TypeAlias = tuple[MemberDescriptorType, ...]
_POINTER = struct.calcsize("P")
# Instances whose attributes are looked through.
_INSTANCES = 60
_NUMBERS = frozenset({float, int, np.float64})
# What holds no array, and is met in long lists.
_ATOMS = _NUMBERS | {str, bytes, bool, complex, type(None), np.ndarray}


class NotPlainError(Exception):
    """A plain run cannot stand for the user's: it is active, writes to its argument, or fails."""


def is_one_gradient() -> bool:
    """Say whether a first derivative is recorded, and nothing else."""
    return bool(_core.isderiving() and not _core.is_tracing() and _core.nestlevel() == 1)


def is_gradient() -> bool:
    """Say whether derivatives are recorded, of any order, and no program."""
    return bool(_core.isderiving() and not _core.is_tracing())


def is_plain(y: Any) -> bool:
    """Say whether a result has nothing active in it."""
    kind = type(y)
    if kind is np.ndarray or kind in _NUMBERS:
        return True
    return (kind is list and _NUMBERS.issuperset(map(type, y))) or not contains_active(y)


class PlainCallback:
    """A user's function for a solver that runs on a plain copy of it.

    `run` gives None where the copy does not do: it gives active results (the function finds what is
    active in a global variable, say), it keeps state, or it fails. The state is restored then, and
    the caller goes another way, which raises what is the user's. `function` may be a tuple of
    functions.
    """

    plain: Any
    values: Args
    #: Copies of the others, where they hold functions.
    others: list[Any]
    _snapshot: _core.FunctionKey | QuickState | StateSnapshot

    def __init__(self, function: Any, args: Args = (), *others: object) -> None:
        self.function, self.args = function, args
        #: What says that programs of it are known, for a first derivative; found before any call.
        self.key = _core.FunctionKey.of(function, args) if is_one_gradient() else None
        #: Whether all that it depends on, and can change, is found with the key.
        self.is_formula = self.key is not None and all(type(other) in _ATOMS for other in others)
        self._is_checked = True
        if self.key is not None:
            self.plain, self.values = self.key.plain
            self.captures = self.key.captures
        else:
            made = _Plain()
            self.plain = made.of(function)
            self.captures = bool(made.arrays)
            # Arrays may lie in dictionaries and objects, too.
            self.values = to_numpy_items(made.of(args)) if args else args
        self.others = list(others)
        self._snapshot = (self.is_formula and self.key) or self._look_further()

    def _look_further(self) -> QuickState | StateSnapshot:
        """Make copies of further functions, and a snapshot of whatever all of them can change."""
        others = tuple(self.others)
        for i, other in enumerate(others):
            if _holds_functions(other):
                self.others[i], captures = plain_copy(other)
                self.captures = self.captures or captures
        roots = self.function, self.plain, self.args, self.values, others, self.others
        return QuickState.of(*roots) or StateSnapshot(*roots)

    def run(
        self, solve: Callable[[], _R], derived: Callable[[_R], Any], outside: bool = True
    ) -> Any:
        """Give what `derived` makes of the result of a plain run; None if it cannot."""
        found, reason = None, None
        try:
            result = _core.call_outside(solve) if outside else solve()
        except NotPlainError as refusal:
            reason = _behind(refusal)
        except Exception as error:
            if self._is_checked:
                raise
            # It may be the user's, which the other way raises.
            reason = error
        if reason is None and not self._snapshot.has_changed():
            try:
                found = derived(result)
            except NotPlainError as refusal:
                reason = _behind(refusal)
        try:
            if reason is not None:
                raise_interrupt(reason)
        finally:
            # Its traceback holds this frame.
            del reason
        if self._snapshot.has_changed():
            self._snapshot.restore()
            return None
        return found

    def checked(self, function: Function | None = None) -> Function:
        """Give the copy, or another one, as a solver calls it."""
        plain: Function = self.plain if function is None else function
        if function is None and self.key is not None:
            # It computes from plain values, and nothing else.
            self._is_checked = False
            return plain

        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                y = plain(*args, **kwargs)
            except Exception as error:
                raise NotPlainError from error
            if not is_plain(y):
                raise NotPlainError
            return y

        return call


def _behind(refusal: NotPlainError) -> BaseException:
    return refusal if refusal.__cause__ is None else refusal.__cause__


def _holds_functions(value: object) -> bool:
    """Say whether something is a function, or may be constraints, which have functions in them."""
    return callable(value) or isinstance(value, (dict, list, tuple)) or hasattr(value, "lb")


def plain_copy(function: Any) -> tuple[Any, bool]:
    """Give a function that has plain values where a function captures an `Array`; say if it does.

    Entered are closures, defaults, partials, lists, tuples, dictionaries, and the attributes of
    objects of user classes, methods with their object. An array elsewhere stays, so the results of
    the copy may still be active.
    """
    plain = _Plain()
    return plain.of(function), bool(plain.arrays)


def with_arrays(function: Any, arrays: Sequence[AnyArray], values: Sequence[Any]) -> Any:
    """Give a copy that has other values in the place of the arrays that `arrays_of` gives."""
    instead = {id(array): value for array, value in zip(arrays, values, strict=True)}
    return _Plain(instead).of(function)


def arrays_of(function: Any) -> list[AnyArray]:
    """Give the arrays that a plain copy finds, and ndarrays of floats."""
    plain = _Plain({})
    plain.of(function)
    return plain.arrays


class _WithAttributes:
    """What an instance looks like that has attributes in a dictionary and nothing else."""


@functools.lru_cache(maxsize=1024)
def _slots_of(kind: type) -> Slots | None:
    """Give the slots of a class; None if an instance is more than slots and a dictionary."""
    members = [member for base in kind.__mro__ for member in vars(base).values()]
    slots = tuple(member for member in members if type(member) is MemberDescriptorType)
    has_dictionary = any(
        type(member) is GetSetDescriptorType and member.__name__ == "__dict__" for member in members
    )
    size = _WithAttributes.__basicsize__ + len(slots) * _POINTER
    if not has_dictionary or kind.__basicsize__ != size or hasattr(kind, "__del__"):
        return None
    return slots


class _Plain:
    """Copies, each object once."""

    def __init__(self, instead: Mapping[int, Any] | None = None) -> None:
        self._made: dict[int, tuple[object, Any]] = {}
        # What stands for arrays, by their identities; None for their values.
        self._instead = instead
        self._atoms = _ATOMS if instead is None else _ATOMS - {np.ndarray}
        self.arrays: list[AnyArray] = []
        self._num_instances = 0

    def of(self, value: Any) -> Any:
        if type(value) in self._atoms:
            return value
        if id(value) not in self._made:
            # The object itself is kept, so that its identity is not reused.
            self._made[id(value)] = value, value
            self._made[id(value)] = value, self._copy(value)
        return self._made[id(value)][1]

    def _copy(self, value: Any) -> Any:
        kind = type(value)
        # Proxies are not asked for their class.
        if issubclass(kind, Array):
            return self._value(value)
        if kind is np.ndarray and self._instead is not None:
            if value.dtype != np.float64:
                return value
            self.arrays.append(value)
            return self._instead.get(id(value), value)
        if kind in {list, tuple}:
            if self._atoms.issuperset(map(type, value)):
                return value
            items = [self.of(item) for item in value]
            if all(a is b for a, b in zip(items, value, strict=True)):
                return value
            return items if kind is list else tuple(items)
        if kind is dict:
            pairs = {key: self.of(item) for key, item in value.items()}
            return value if all(pairs[k] is v for k, v in value.items()) else pairs
        if kind is functools.partial:
            return functools.partial(
                self.of(value.func), *self.of(value.args), **self.of(value.keywords)
            )
        if kind is MethodType:
            owner = self.of(value.__self__)
            return value if owner is value.__self__ else MethodType(value.__func__, owner)
        if kind is FunctionType:
            return self._function(value)
        slots = _slots_of(kind)  # type: ignore[arg-type]
        return value if slots is None else self._instance(value, slots)

    def _value(self, array: AnyArray) -> Any:
        self.arrays.append(array)
        if self._instead is not None:
            return self._instead.get(id(array), array)
        return to_numpy(array)

    def _instance(self, value: Any, slots: Slots) -> Any:
        self._num_instances += 1
        if self._num_instances > _INSTANCES:
            return value
        members = object.__getattribute__(value, "__dict__")
        copies = {name: self.of(item) for name, item in members.items()}
        in_slots = []
        for slot in slots:
            # A slot may be empty.
            with contextlib.suppress(AttributeError):
                item = slot.__get__(value)
                in_slots.append((slot, item, self.of(item)))
        is_same = all(copies[name] is item for name, item in members.items())
        if is_same and all(item is new for _, item, new in in_slots):
            return value
        # An object of a library that has values again needs none of our names.
        source = rebound_from(type(value)) if self._instead is None else None
        copy = object.__new__(source or type(value))
        object.__getattribute__(copy, "__dict__").update(copies)
        for slot, _, item in in_slots:
            slot.__set__(copy, item)
        return copy

    def _function(self, function: FunctionType) -> FunctionType:
        if self._instead is None and (source := rebound_from(function)) is not None:
            return source  # type: ignore[no-any-return]
        cells = function.__closure__ or ()
        if cells and assigns_captured(function.__code__):
            return function
        copy = FunctionType(
            function.__code__,
            function.__globals__,
            function.__name__,
            self.of(function.__defaults__),
            tuple(CellType() for _ in cells),
        )
        copy.__kwdefaults__ = self.of(function.__kwdefaults__)
        copy.__dict__.update(function.__dict__)
        copy.__qualname__, copy.__module__ = function.__qualname__, function.__module__
        # A function that calls itself finds the copy.
        self._made[id(function)] = function, copy
        for cell, old in zip(copy.__closure__ or (), cells, strict=True):
            try:
                content = old.cell_contents
            except ValueError:
                continue  # a variable without a value yet
            cell.cell_contents = self.of(content)
        return copy
