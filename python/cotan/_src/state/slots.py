"""Slots where programs keep what they have seen: how each is saved, compared and put back.

A slot gives what it `saved`, says whether it `is_as` that, and what a call has `changed` of it,
part by part, and puts back. A part is named by what it is in the slot (a key, an index), with
where it begins in a list that grows. Where a slot cannot be put back that is an error once it has
to be.
"""

import gc
import warnings
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from functools import partial
from itertools import islice
from operator import is_
from types import CellType, GeneratorType, MappingProxyType
from typing import Any, TypeAlias

from cotan import _core
from cotan._src.state.object_graph import is_iterator

ABSENT = object()
# Of longer collections only the ends are looked at where each call is.
_LONG = 10_000
# Parts of collections and arrays that are told apart.
MAX_PARTS = 64
_GROWN = object()
# What a slot gave when it was read; each kind of slot knows its own form.
Saved: TypeAlias = Any
Parts = list[tuple[Any, Any]]


class Slot:
    """A slot of one part."""

    name = "what it keeps"
    # Whether something in it may have a derivative.
    has_parts = True

    def read(self, _whole: bool) -> Any:
        raise NotImplementedError

    def matches(self, saved: Any) -> bool:
        """Say whether it is still as it was saved."""
        return self.read(True) is saved

    def is_long(self) -> bool:
        """Say whether less of it than the whole is saved for each call."""
        return False

    def restore(self, saved: Any) -> None:
        raise NotImplementedError

    def changes(self, saved: Any) -> Parts:
        return [] if self.matches(saved) else [(None, None)]

    def read_part(self, _part: Any, _begin: Any) -> Any:
        return self.read(True)

    def write_part(self, _part: Any, _begin: Any, value: Any) -> None:
        self.restore(value)

    def values_in(self, _part: Any, value: Any) -> Any:
        """Give what a part holds that may keep something itself."""
        return [value]

    def live_items(self) -> tuple[Any, ...] | None:
        """Give collections whose items are all that it holds, now and later; `None` if none are.

        They have the methods of the interpreter's own.
        """
        return None

    def not_restorable(self) -> TypeError:
        return TypeError(
            f"a function that a solver calls keeps in {self.name} what cannot be put back for it "
            "to be called again with what a gradient follows; keep that in a variable, an "
            "attribute or a list that is short, or hold constant with ct.dropgrad what the "
            "function depends on"
        )


class ObjectSlot(Slot):
    """What holds one object, or nothing."""

    def __init__(self, get: Callable[[], Any]) -> None:
        self.get = get

    def read(self, _whole: bool) -> Any:
        try:
            return self.get()
        except (ValueError, AttributeError, LookupError):
            return ABSENT


class CellSlot(ObjectSlot):
    """A variable of an enclosing function."""

    def __init__(self, cell: CellType) -> None:
        super().__init__(partial(_CONTENTS, cell))
        self._cell = cell

    def restore(self, saved: Any) -> None:
        if saved is ABSENT:
            del self._cell.cell_contents
        else:
            self._cell.cell_contents = saved


_CONTENTS: Any = vars(CellType)["cell_contents"].__get__


class ContextSlot(ObjectSlot):
    """A variable of a context; what it has by default is what it has."""

    name = "a context variable"

    def __init__(self, variable: ContextVar[Any]) -> None:
        super().__init__(variable.get)
        self._variable = variable

    def restore(self, saved: Any) -> None:
        if saved is ABSENT:
            raise self.not_restorable()
        self._variable.set(saved)


class GlobalSlot(ObjectSlot):
    """A name of a module that a function assigns to."""

    def __init__(self, names: dict[str, Any], name: str) -> None:
        super().__init__(partial(names.get, name, ABSENT))
        self._names, self._name = names, name

    def restore(self, saved: Any) -> None:
        if saved is ABSENT:
            self._names.pop(self._name, None)
        else:
            self._names[self._name] = saved


class DescriptorSlot(ObjectSlot):
    """An attribute of an object that has memory for it (`__slots__`); no code of its runs."""

    def __init__(self, descriptor: Any, owner: Any) -> None:
        super().__init__(partial(descriptor.__get__, owner))
        self._descriptor, self._owner = descriptor, owner

    def restore(self, saved: Any) -> None:
        if saved is ABSENT:
            self._descriptor.__delete__(self._owner)
        else:
            self._descriptor.__set__(self._owner, saved)


class _Ends:
    """What is looked at of a long collection: its length, the first items and the last ones."""

    def __init__(self, items: Any, kind: Any) -> None:
        self.length: int = kind.__len__(items)
        self.first = list(islice(kind.__iter__(items), 4))
        backwards: Iterable[Any] = () if kind is set else kind.__reversed__(items)
        self.last = list(islice(backwards, 4))

    def __len__(self) -> int:
        return self.length


class SequenceSlot(Slot):
    """A list or a deque, by the methods of these, as a program's own class may have others."""

    def __init__(self, items: Any, kind: Any) -> None:
        self._items, self._kind = items, kind
        self.name = f"a {kind.__name__} of more than {_LONG} items"

    def is_long(self) -> bool:
        return self._length() > _LONG

    def read(self, whole: bool) -> Any:
        if whole or not self.is_long():
            if self._kind is list:
                return list.copy(self._items)
            return list(self._kind.__iter__(self._items))
        return _Ends(self._items, self._kind)

    def _length(self) -> int:
        return int(self._kind.__len__(self._items))

    def matches(self, saved: Any) -> bool:
        if len(saved) != self._length():
            return False
        if isinstance(saved, _Ends):
            return _is_beginning(saved, _Ends(self._items, self._kind))
        return _core.same_items(saved, self.read(True))

    def live_items(self) -> tuple[Any, ...] | None:
        kind = type(self._items)
        is_plain = kind.__iter__ is self._kind.__iter__ and kind.__len__ is self._kind.__len__
        return (self._items,) if is_plain and not self.is_long() else None

    def restore(self, saved: Any) -> None:
        if not isinstance(saved, _Ends):
            self._kind.clear(self._items)
            self._kind.extend(self._items, saved)
            return
        if not _is_beginning(saved, self.read(True)) or not self._ends_with(saved):
            raise self.not_restorable()
        while self._length() > len(saved):
            self._kind.pop(self._items)

    def _ends_with(self, saved: _Ends) -> bool:
        """Say whether only what comes after what was there has changed."""
        at = len(saved) - len(saved.last)
        return all(self._at(at + i) is v for i, v in enumerate(reversed(saved.last)))

    def _at(self, i: int) -> Any:
        return self._kind.__getitem__(self._items, i)

    def changes(self, saved: Any) -> Parts:
        now = self.read(False)
        if len(now) > len(saved) and _has_grown(saved, now):
            return [(_GROWN, len(saved))]
        are_whole = not isinstance(now, _Ends) and not isinstance(saved, _Ends)
        if _core.same_items(saved, now) if are_whole else self.matches(saved):
            return []
        if len(now) == len(saved) and are_whole:
            slots = [i for i, (a, b) in enumerate(zip(saved, now, strict=True)) if a is not b]
            if len(slots) <= MAX_PARTS and getattr(self._items, "maxlen", None) is None:
                return [(i, None) for i in slots]
        return [(None, None)]

    def read_part(self, part: Any, begin: Any) -> Any:
        if part is None:
            return self.read(True)
        if part is _GROWN:
            return [self._at(i) for i in range(begin, self._length())]
        return self._at(part) if part < self._length() else ABSENT

    def values_in(self, part: Any, value: Any) -> Any:
        return value if part is None or part is _GROWN else [value]

    def write_part(self, part: Any, begin: Any, value: Any) -> None:
        if part is None:
            self.restore(value)
            return
        values, first = (value, begin) if part is _GROWN else ([value], part)
        for i, v in enumerate(values, first):
            if i < self._length() and v is not ABSENT:
                self._kind.__setitem__(self._items, i, v)


def _alike(saved: Any, now: Any) -> tuple[Any, Any]:
    """Give both as ends where one is so."""
    if isinstance(saved, _Ends) or isinstance(now, _Ends):
        saved, now = (x if isinstance(x, _Ends) else _Ends(x, type(x)) for x in (saved, now))
    return saved, now


def _has_grown(saved: Any, now: Any) -> bool:
    """Say whether a longer list seems to begin as it was; for derivatives that is enough."""
    if isinstance(saved, _Ends) or isinstance(now, _Ends) or len(saved) <= MAX_PARTS:
        return _is_beginning(saved, now)
    slots = (*range(4), *range(len(saved) - 4, len(saved)))
    return all(saved[i] is now[i] for i in slots)


def _is_beginning(saved: Any, now: Any) -> bool:
    """Say whether one collection begins another one, or is the same."""
    saved, now = _alike(saved, now)
    if not isinstance(saved, _Ends):
        return len(saved) <= len(now) and all(map(is_, saved, now))
    ends = len(saved) == len(now)
    return all(map(is_, saved.first, now.first)) and (
        all(map(is_, saved.last, now.last)) if ends else len(saved) < len(now)
    )


class SetSlot(Slot):
    """A set."""

    def __init__(self, items: Any, _kind: Any = set) -> None:
        self._items = items
        self.name = f"a set of more than {_LONG} items"

    def is_long(self) -> bool:
        return set.__len__(self._items) > _LONG

    def read(self, whole: bool) -> Any:
        # As a list, so that nothing is hashed.
        if whole or not self.is_long():
            return list(set.__iter__(self._items))
        return _Ends(self._items, set)

    def matches(self, saved: Any) -> bool:
        if len(saved) != set.__len__(self._items):
            return False
        if isinstance(saved, _Ends):
            return True
        now = self.read(True)
        # The order changes with the room that there is.
        return _core.same_items(saved, now) or set(map(id, saved)) == set(map(id, now))

    def live_items(self) -> tuple[Any, ...] | None:
        kind = type(self._items)
        is_plain = kind.__iter__ is set.__iter__ and kind.__len__ is set.__len__
        return (self._items,) if is_plain and not self.is_long() else None

    def values_in(self, _part: Any, value: Any) -> Any:
        return value

    def restore(self, saved: Any) -> None:
        if isinstance(saved, _Ends):
            raise self.not_restorable()
        set.clear(self._items)
        set.update(self._items, saved)


class DictSlot(Slot):
    """A dictionary, the attributes of an object."""

    def __init__(self, items: Any, kind: Any = dict) -> None:
        self._items, self._kind = items, kind
        self.name = f"a dict of more than {_LONG} items"

    def is_long(self) -> bool:
        return bool(self._kind.__len__(self._items) > _LONG)

    def read(self, whole: bool) -> Any:
        if whole or not self.is_long():
            # A copy is faster, where nobody has changed the order of keys.
            if type(self._items).__iter__ is dict.__iter__:
                return dict.copy(self._items)
            return dict(self._kind.items(self._items))
        return _Ends(self._items, self._kind)

    def matches(self, saved: Any) -> bool:
        if len(saved) != self._kind.__len__(self._items):
            return False
        if isinstance(saved, _Ends):
            return _is_beginning(saved, _Ends(self._items, self._kind))
        keys, values = self._live_items()
        if len(saved) < MAX_PARTS:
            return all(map(is_, saved, keys)) and all(map(is_, saved.values(), values))
        return (_core.same_items(list(saved), list(keys))
                and _core.same_items(list(saved.values()), list(values)))  # fmt: skip

    def _live_items(self) -> tuple[Any, Any]:
        return self._kind.keys(self._items), self._kind.values(self._items)

    def live_items(self) -> tuple[Any, ...] | None:
        return None if self.is_long() else self._live_items()

    def restore(self, saved: Any) -> None:
        if isinstance(saved, _Ends):
            self._shorten(saved, self._kind.__len__(self._items))
            return
        now = dict(self._kind.items(self._items))
        in_order = _core.same_items([k for k in now if k in saved], list(saved))
        for key in [k for k in now if k not in saved or not in_order]:
            self._delete(key)
        for key, value in saved.items():
            if not in_order or now.get(key, ABSENT) is not value:
                self._set(key, value)

    def _shorten(self, saved: _Ends, length: int) -> None:
        extra = length - len(saved)
        newest = list(islice(self._kind.__reversed__(self._items), max(extra, 0) + len(saved.last)))
        if extra < 0 or not all(map(is_, saved.last, newest[extra:])):
            raise self.not_restorable()
        for key in newest[:extra]:
            self._delete(key)

    def _delete(self, key: Any) -> None:
        self._kind.pop(self._items, key, None)

    def _set(self, key: Any, value: Any) -> None:
        self._kind.__setitem__(self._items, key, value)

    def changes(self, saved: Any) -> Parts:
        now = self.read(False)
        if isinstance(now, _Ends):
            if not isinstance(saved, _Ends) or len(now) <= len(saved):
                return []
            grown = min(len(now) - len(saved), MAX_PARTS)
            keys = list(islice(self._kind.__reversed__(self._items), grown))
        elif isinstance(saved, _Ends):
            return []
        elif len(now) > len(saved) > MAX_PARTS or (
            len(now) >= len(saved) and _is_same_mapping(saved, now)
        ):
            # Of many items those that are new.
            keys = list(islice(now, len(saved), None))
        else:
            keys = [k for k, v in now.items() if saved.get(k, ABSENT) is not v]
        return [(key, None) for key in keys[:MAX_PARTS]]

    def read_part(self, part: Any, _begin: Any) -> Any:
        return self._kind.get(self._items, part, ABSENT)

    def write_part(self, part: Any, _begin: Any, value: Any) -> None:
        if self.read_part(part, None) is not ABSENT and value is not ABSENT:
            self._set(part, value)


def _is_same_mapping(saved: dict[Any, Any], now: dict[Any, Any]) -> bool:
    """Say whether the items of one begin those of the other."""
    return all(map(is_, saved, now)) and all(map(is_, saved.values(), now.values()))


class ClassSlot(DictSlot):
    """The attributes of a class."""

    def __init__(self, cls: type) -> None:
        super().__init__(vars(cls), MappingProxyType)
        self._cls = cls

    def read(self, _whole: bool) -> Any:
        return dict(self._items)

    def restore(self, saved: Any) -> None:
        now = self.read(True)
        for key in [k for k in now if k not in saved]:
            self._delete(key)
        for key, value in saved.items():
            if now.get(key, ABSENT) is not value:
                self._set(key, value)

    def _delete(self, key: Any) -> None:
        type.__delattr__(self._cls, key)

    def _set(self, key: Any, value: Any) -> None:
        type.__setattr__(self._cls, key, value)

    def read_part(self, part: Any, _begin: Any) -> Any:
        return self._items.get(part, ABSENT)


class IteratorSlot(Slot):
    """How far an iterator has come, which a part of another slot holds."""

    name = "an iterator or a generator"
    has_parts = False  # Nobody knows what it gave.

    def __init__(self, iterator: Any, slot: Slot | None = None, part: Any = None) -> None:
        self._first = self._now = iterator
        self._place, self._part = slot, part

    def read(self, _whole: bool) -> Any:
        return _position(self._now), _copy_iterator(self._now)

    def matches(self, saved: Any) -> bool:
        # What holds it may be holding the first one again.
        return self._now is self._first and bool(saved[0] == _position(self._now))

    def restore(self, saved: Any) -> None:
        if saved[1] is ABSENT or self._place is None:
            raise self.not_restorable()
        there = self._place.read_part(self._part, None)
        if there is self._first or there is self._now:
            self._now = _copy_iterator(saved[1])
            self._place.write_part(self._part, None, self._now)

    def changes(self, _held: Any) -> Parts:
        return []


def _reduced(value: Any) -> Any:
    """Give how an iterator could be made again, `None` where it does not tell."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            return value.__reduce__()
    except RuntimeError:
        return None  # What it goes through has changed.
    except TypeError:
        # Python 3.14 has no such method for `itertools`.
        words = repr(value).partition("(")
        numbers = words[2].rstrip(")").split(", ")
        is_count = words[0] == "count" and all(n.lstrip("-").isdigit() for n in numbers)
        return (type(value), tuple(map(int, numbers))) if is_count else None


def _position(value: Any, within: tuple[Any, ...] = ()) -> Any:
    """Give what tells how far an iterator has come."""
    if any(value is outer for outer in within):
        return None
    if isinstance(value, GeneratorType):
        frame = value.gi_frame
        if frame is None:
            return None
        # It may go on in others, of its variables and of its loops.
        inner = [x for x in gc.get_referents(value) if is_iterator(x)]
        return (frame.f_lasti, [(k, v if type(v) is int else id(v))
                                for k, v in frame.f_locals.items()],
                [_position(x, (*within, value)) for x in inner])  # fmt: skip
    if is_iterator(value):
        told = _reduced(value)
        if told is None:
            # What tells nothing may have gone on.
            return object() if type(value).__module__ == "itertools" else id(value)
        return [_position(part, (*within, value)) for part in told]
    if type(value) is tuple:
        return [_position(part, within) for part in value]
    if type(value) is list:
        return len(value)
    return value if type(value) in (int, float, bool, range) else id(value)


def _copy_iterator(value: Any) -> Any:
    """Give an iterator that goes on from the same turn, `ABSENT` where there is none."""
    if not is_iterator(value):
        return value
    told = None if isinstance(value, GeneratorType) else _reduced(value)
    if told is None:
        return ABSENT
    made, *more = (_copy_parts(part) for part in told[1:])
    if made is ABSENT or any(part is ABSENT for part in more):
        return ABSENT
    result = told[0](*made)
    if more and more[0] is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            result.__setstate__(more[0])
    return result


def _copy_parts(part: Any) -> Any:
    if type(part) is not tuple:
        return _copy_iterator(part)
    parts = tuple(map(_copy_parts, part))
    return ABSENT if any(p is ABSENT for p in parts) else parts
