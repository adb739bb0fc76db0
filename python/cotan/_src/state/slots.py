"""Where a callback can keep state, and how each such slot is saved, compared and restored.

A `Slot` is a captured variable, a global, an attribute in `__slots__`, a collection, a `__dict__`,
an iterator, or a buffer (`state.buffers`). `read` gives what it holds, `matches` compares with that
later, `restore` writes it back.

For replayed calls (`state.solver_replay`) a slot has parts: an index, a key, the items by which a
list has grown. `changes` names those that a call has changed, as pairs of the part and the index
where it begins; `read_part` and `write_part` access one. A slot that can be compared but not
restored raises `TypeError` when it would have to be.
"""

import gc
import warnings
from collections.abc import Callable, Collection, Iterable
from contextvars import ContextVar
from functools import partial
from itertools import islice
from operator import is_
from types import CellType, GeneratorType, MappingProxyType, MemberDescriptorType
from typing import Any, TypeAlias

from cotan import _core
from cotan._src.runtime.call_site import position
from cotan._src.runtime.interrupts import raise_interrupt
from cotan._src.state.object_graph import is_iterator
from cotan._src.typing import Args

# What a slot holds that holds nothing: an unbound variable, a part that is gone.
ABSENT = object()
# Of longer collections only the ends are saved before each call.
_LONG = 10_000
# In at most so many items of a collection or array, changes are told apart.
MAX_PARTS = 64
# The part of a list that has grown: its new items.
_GROWN = object()
# What a slot gave when it was read; each kind of slot knows its own form.
Saved: TypeAlias = Any
# A part of a slot: a key, an index, `_GROWN`, or None for the whole.
Part: TypeAlias = Any
# Parts that have changed, each with the index where it begins if it is the end of a list.
Parts = list[tuple[Part, int | None]]
# A class whose methods read a collection, whatever a user's subclass makes of them.
Methods: TypeAlias = Any


class NotRestorableError(TypeError):
    """A slot has to be restored and cannot. `name` says what it is."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"a callback of a solver keeps state in {name}, which cannot be restored to call "
            "it again with active arrays; keep the state in a variable, an attribute or a short "
            "list, or hold the inputs of the callback constant with ct.dropgrad"
        )
        self.name = name


class Slot:
    """A place that user code may write to. This base has one part, the whole."""

    #: For the error of slots that cannot be restored.
    name = "what it keeps"
    #: Whether what it holds may carry a derivative.
    has_parts = True

    def read(self, whole: bool) -> Saved:
        """Give a copy of what it holds; where it `is_long`, less than that unless `whole`."""
        raise NotImplementedError

    def matches(self, saved: Saved) -> bool:
        """Say whether it still holds what was read."""
        return bool(self.read(True) is saved)

    def is_long(self) -> bool:
        """Say whether it is too long to be read in full before each call."""
        return False

    def restore(self, saved: Saved) -> None:
        """Write back what was read. Raises `TypeError` where that is not possible."""
        raise NotImplementedError

    def changes(self, saved: Saved) -> Parts:
        """Give the parts that differ from what was read."""
        return [] if self.matches(saved) else [(None, None)]

    def read_part(self, _part: Part, _begin: int | None) -> object:
        """Give what a part holds, `ABSENT` if it is gone."""
        return self.read(True)

    def write_part(self, _part: Part, _begin: int | None, value: object) -> None:
        """Write to a part that is still there."""
        self.restore(value)

    def values_in(self, _part: Part, value: Any) -> Iterable[object]:
        """Give objects in the value of a part that may hold state themselves."""
        return [value]

    def live_items(self) -> tuple[Collection[object], ...] | None:
        """Give live collections of all that it holds, None if there are none or they are long.

        Keys and values count as two, of one length. No method of a user's class is behind them.
        """
        return None


class ObjectSlot(Slot):
    """A place for one object, which is compared by identity; reading it calls `get`."""

    def __init__(self, get: Callable[[], object]) -> None:
        self.get = get

    def read(self, _whole: bool) -> Saved:
        try:
            return self.get()
        except (ValueError, AttributeError, LookupError) as error:
            # Most are of `get`, and are not looked into.
            inner = error.__traceback__ and error.__traceback__.tb_next
            code = getattr(self.get, "__code__", None)
            if inner is not None and (inner.tb_next is not None or inner.tb_frame.f_code != code):
                raise_interrupt(error)
            return ABSENT


class CellSlot(ObjectSlot):
    """A variable of an enclosing function."""

    def __init__(self, cell: CellType) -> None:
        super().__init__(partial(_CONTENTS, cell))
        self._cell = cell

    def restore(self, saved: Saved) -> None:
        if saved is ABSENT:
            del self._cell.cell_contents
        else:
            self._cell.cell_contents = saved


_CONTENTS: Callable[[CellType], object] = vars(CellType)["cell_contents"].__get__


class ContextSlot(ObjectSlot):
    """A context variable. A default counts as its value."""

    name = "a context variable"

    def __init__(self, variable: ContextVar[object]) -> None:
        super().__init__(variable.get)
        self._variable = variable

    def restore(self, saved: Saved) -> None:
        if saved is ABSENT:
            raise NotRestorableError(self.name)
        self._variable.set(saved)


class GlobalSlot(ObjectSlot):
    """A global that a function assigns to, or that holds an iterator."""

    def __init__(self, names: dict[str, object], name: str) -> None:
        super().__init__(partial(names.get, name, ABSENT))
        self._names, self._name = names, name

    def restore(self, saved: Saved) -> None:
        if saved is ABSENT:
            self._names.pop(self._name, None)
        else:
            self._names[self._name] = saved


class DescriptorSlot(ObjectSlot):
    """An attribute in `__slots__`, accessed by its descriptor: no code of the class runs."""

    def __init__(self, descriptor: MemberDescriptorType, owner: object) -> None:
        super().__init__(partial(descriptor.__get__, owner))
        self._descriptor, self._owner = descriptor, owner

    def restore(self, saved: Saved) -> None:
        if saved is ABSENT:
            self._descriptor.__delete__(self._owner)
        else:
            self._descriptor.__set__(self._owner, saved)


class _Ends:
    """What is saved of a long collection: its length, the first four items and the last four."""

    def __init__(self, items: Collection[object], kind: Methods) -> None:
        self.length: int = kind.__len__(items)
        self.first = list(islice(kind.__iter__(items), 4))
        backwards: Iterable[object] = () if kind is set else kind.__reversed__(items)
        self.last = list(islice(backwards, 4))

    def __len__(self) -> int:
        return self.length


class SequenceSlot(Slot):
    """The items of a list or a deque."""

    def __init__(self, items: Any, kind: Methods) -> None:
        self._items, self._kind = items, kind
        self.name = f"a {kind.__name__} of more than {_LONG} items"

    def is_long(self) -> bool:
        return self._length() > _LONG

    def read(self, whole: bool) -> Saved:
        if whole or not self.is_long():
            if self._kind is list:
                return list.copy(self._items)
            return list(self._kind.__iter__(self._items))
        return _Ends(self._items, self._kind)

    def _length(self) -> int:
        return int(self._kind.__len__(self._items))

    def matches(self, saved: Saved) -> bool:
        if len(saved) != self._length():
            return False
        if isinstance(saved, _Ends):
            return _is_beginning(saved, _Ends(self._items, self._kind))
        return _core.same_items(saved, self.read(True))

    def live_items(self) -> tuple[Collection[object], ...] | None:
        kind = type(self._items)
        is_plain = kind.__iter__ is self._kind.__iter__ and kind.__len__ is self._kind.__len__
        return (self._items,) if is_plain and not self.is_long() else None

    def restore(self, saved: Saved) -> None:
        if not isinstance(saved, _Ends):
            self._kind.clear(self._items)
            self._kind.extend(self._items, saved)
            return
        if not _is_beginning(saved, self.read(True)) or not self._ends_with(saved):
            raise NotRestorableError(self.name)
        while self._length() > len(saved):
            self._kind.pop(self._items)

    def _ends_with(self, saved: _Ends) -> bool:
        """Say whether the old items are unchanged, so that new ones can be cut off."""
        at = len(saved) - len(saved.last)
        return all(self._at(at + i) is v for i, v in enumerate(reversed(saved.last)))

    def _at(self, i: int) -> object:
        return self._kind.__getitem__(self._items, i)

    def changes(self, saved: Saved) -> Parts:
        now = self.read(False)
        if len(now) > len(saved) and _has_grown(saved, now):
            return [(_GROWN, len(saved))]
        are_whole = not isinstance(now, _Ends) and not isinstance(saved, _Ends)
        if _core.same_items(saved, now) if are_whole else self.matches(saved):
            return []
        if len(now) == len(saved) and are_whole:
            indices = [i for i, (a, b) in enumerate(zip(saved, now, strict=True)) if a is not b]
            if len(indices) <= MAX_PARTS and getattr(self._items, "maxlen", None) is None:
                return [(i, None) for i in indices]
        return [(None, None)]

    def read_part(self, part: Part, begin: Any) -> object:
        if part is None:
            return self.read(True)
        if part is _GROWN:
            return [self._at(i) for i in range(begin, self._length())]
        return self._at(part) if part < self._length() else ABSENT

    def values_in(self, part: Part, value: Any) -> Iterable[object]:
        return value if part is None or part is _GROWN else [value]

    def write_part(self, part: Part, begin: Any, value: Any) -> None:
        if part is None:
            self.restore(value)
            return
        values, first = (value, begin) if part is _GROWN else ([value], part)
        for i, v in enumerate(values, first):
            if i < self._length() and v is not ABSENT:
                self._kind.__setitem__(self._items, i, v)


def _alike(saved: Saved, now: Saved) -> tuple[Saved, Saved]:
    """Give both as ends if one of them is."""
    if isinstance(saved, _Ends) or isinstance(now, _Ends):
        saved, now = (x if isinstance(x, _Ends) else _Ends(x, type(x)) for x in (saved, now))
    return saved, now


def _has_grown(saved: Saved, now: Saved) -> bool:
    """Say whether a longer list seems to begin with the old items; derivatives need no more."""
    if isinstance(saved, _Ends) or isinstance(now, _Ends) or len(saved) <= MAX_PARTS:
        return _is_beginning(saved, now)
    ends = (*range(4), *range(len(saved) - 4, len(saved)))
    return all(saved[i] is now[i] for i in ends)


def _is_beginning(saved: Saved, now: Saved) -> bool:
    """Say whether a collection is the same as another or its beginning, as far as is saved."""
    saved, now = _alike(saved, now)
    if not isinstance(saved, _Ends):
        return len(saved) <= len(now) and all(map(is_, saved, now))
    ends = len(saved) == len(now)
    return all(map(is_, saved.first, now.first)) and (
        all(map(is_, saved.last, now.last)) if ends else len(saved) < len(now)
    )


class SetSlot(Slot):
    """The items of a set, compared by identity: nothing is hashed, except to restore it."""

    def __init__(self, items: set[object], _kind: Methods = set) -> None:
        self._items = items
        self.name = f"a set of more than {_LONG} items"

    def is_long(self) -> bool:
        return set.__len__(self._items) > _LONG

    def read(self, whole: bool) -> Saved:
        # A list, since a set would hash the items.
        if whole or not self.is_long():
            return list(set.__iter__(self._items))
        return _Ends(self._items, set)

    def matches(self, saved: Saved) -> bool:
        if len(saved) != set.__len__(self._items):
            return False
        if isinstance(saved, _Ends):
            return True
        now = self.read(True)
        # The order depends on the capacity of the set.
        return _core.same_items(saved, now) or set(map(id, saved)) == set(map(id, now))

    def live_items(self) -> tuple[Collection[object], ...] | None:
        kind = type(self._items)
        is_plain = kind.__iter__ is set.__iter__ and kind.__len__ is set.__len__
        return (self._items,) if is_plain and not self.is_long() else None

    def values_in(self, _part: Part, value: Any) -> Iterable[object]:
        items: Iterable[object] = value
        return items

    def restore(self, saved: Saved) -> None:
        if isinstance(saved, _Ends):
            raise NotRestorableError(self.name)
        set.clear(self._items)
        set.update(self._items, saved)


class DictSlot(Slot):
    """The items of a dictionary, in their order; also the attributes of an object or module."""

    def __init__(self, items: Any, kind: Methods = dict) -> None:
        self._items, self._kind = items, kind
        self.name = f"a dict of more than {_LONG} items"

    def is_long(self) -> bool:
        return bool(self._kind.__len__(self._items) > _LONG)

    def read(self, whole: bool) -> Saved:
        if whole or not self.is_long():
            # Copying is faster, but an `OrderedDict` has an order of its own.
            if type(self._items).__iter__ is dict.__iter__:
                return dict.copy(self._items)
            return dict(self._kind.items(self._items))
        return _Ends(self._items, self._kind)

    def matches(self, saved: Saved) -> bool:
        if len(saved) != self._kind.__len__(self._items):
            return False
        if isinstance(saved, _Ends):
            return _is_beginning(saved, _Ends(self._items, self._kind))
        keys, values = self._live_items()
        if len(saved) < MAX_PARTS:
            return all(map(is_, saved, keys)) and all(map(is_, saved.values(), values))
        return (_core.same_items(list(saved), list(keys))
                and _core.same_items(list(saved.values()), list(values)))  # fmt: skip

    def _live_items(self) -> tuple[Collection[object], Collection[object]]:
        return self._kind.keys(self._items), self._kind.values(self._items)

    def live_items(self) -> tuple[Collection[object], ...] | None:
        return None if self.is_long() else self._live_items()

    def restore(self, saved: Saved) -> None:
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
            raise NotRestorableError(self.name)
        for key in newest[:extra]:
            self._delete(key)

    def _delete(self, key: Part) -> None:
        self._kind.pop(self._items, key, None)

    def _set(self, key: Part, value: object) -> None:
        self._kind.__setitem__(self._items, key, value)

    def changes(self, saved: Saved) -> Parts:
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
            # Of many items, the new ones.
            keys = list(islice(now, len(saved), None))
        else:
            keys = [k for k, v in now.items() if saved.get(k, ABSENT) is not v]
        return [(key, None) for key in keys[:MAX_PARTS]]

    def read_part(self, part: Part, _begin: int | None) -> object:
        return self._kind.get(self._items, part, ABSENT)

    def write_part(self, part: Part, _begin: int | None, value: object) -> None:
        if self.read_part(part, None) is not ABSENT and value is not ABSENT:
            self._set(part, value)


def _is_same_mapping(saved: dict[object, object], now: dict[object, object]) -> bool:
    """Say whether the items of one mapping are the beginning of those of the other."""
    return all(map(is_, saved, now)) and all(map(is_, saved.values(), now.values()))


class ClassSlot(DictSlot):
    """The names in a class body, which change by `setattr` on the class only."""

    def __init__(self, cls: type) -> None:
        super().__init__(vars(cls), MappingProxyType)
        self._cls = cls

    def read(self, _whole: bool) -> Saved:
        return dict(self._items)

    def restore(self, saved: Saved) -> None:
        now = self.read(True)
        for key in [k for k in now if k not in saved]:
            self._delete(key)
        for key, value in saved.items():
            if now.get(key, ABSENT) is not value:
                self._set(key, value)

    def _delete(self, key: Part) -> None:
        type.__delattr__(self._cls, key)

    def _set(self, key: Part, value: object) -> None:
        type.__setattr__(self._cls, key, value)

    def read_part(self, part: Part, _begin: int | None) -> object:
        return self._items.get(part, ABSENT)


class IteratorSlot(Slot):
    """The position of an iterator or a generator.

    It is restored by putting a copy into the part of the slot that holds the iterator.
    """

    name = "an iterator or a generator"
    has_parts = False  # What it gave is not known.

    def __init__(self, iterator: object, slot: Slot | None = None, part: Part = None) -> None:
        self._first = self._now = iterator
        self._place, self._part = slot, part

    def read(self, _whole: bool) -> Saved:
        return _position(self._now), _copy_iterator(self._now)

    def matches(self, saved: Saved) -> bool:
        # The slot that holds it may have been restored to the first iterator.
        return self._now is self._first and bool(saved[0] == _position(self._now))

    def restore(self, saved: Saved) -> None:
        if saved[1] is ABSENT or self._place is None:
            raise NotRestorableError(self.name)
        there = self._place.read_part(self._part, None)
        if there is self._first or there is self._now:
            self._now = _copy_iterator(saved[1])
            self._place.write_part(self._part, None, self._now)

    def changes(self, _saved: Saved) -> Parts:
        return []


def _reduced(value: Any) -> Args | None:
    """Give what `__reduce__` tells of an iterator, None if it tells nothing."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            told: Args = value.__reduce__()
            return told
    except RuntimeError:
        return None  # The collection has changed meanwhile.
    except TypeError:
        # Python 3.14 has no such method for `itertools`.
        words = repr(value).partition("(")
        numbers = words[2].rstrip(")").split(", ")
        is_count = words[0] == "count" and all(n.lstrip("-").isdigit() for n in numbers)
        return (type(value), tuple(map(int, numbers))) if is_count else None


def _position(value: object, within: tuple[object, ...] = ()) -> object:
    """Give something that is equal for two iterators, or one at two times, at one position."""
    if any(value is outer for outer in within):
        return None
    if isinstance(value, GeneratorType):
        frame = value.gi_frame
        if frame is None:
            return None
        # It may advance iterators in its variables and of its loops.
        inner = [x for x in gc.get_referents(value) if is_iterator(x)]
        values = [(k, v if type(v) is int else id(v)) for k, v in frame.f_locals.items()]
        return position(frame), values, [_position(x, (*within, value)) for x in inner]
    if is_iterator(value):
        told = _reduced(value)
        if told is None:
            # One that tells nothing may have advanced.
            return object() if type(value).__module__ == "itertools" else id(value)
        return [_position(part, (*within, value)) for part in told]
    if type(value) is tuple:
        return [_position(part, within) for part in value]
    if type(value) is list:
        return len(value)
    return value if type(value) in {int, float, bool, range} else id(value)


def _copy_iterator(value: object) -> object:
    """Copy an iterator at its position, `ABSENT` if it cannot be copied; others are given back."""
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


def _copy_parts(part: object) -> Any:
    if type(part) is not tuple:
        return _copy_iterator(part)
    parts = tuple(map(_copy_parts, part))
    return ABSENT if any(p is ABSENT for p in parts) else parts
