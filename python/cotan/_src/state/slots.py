"""Places where programs keep what they have seen: how each is held, compared and put back.

A place gives what it `held`, says whether it `is_as` that, and what a call has `changed` of it,
part by part, and puts back. A part is named by what it is in the place (a key, an index), with
where it begins in a list that grows. Where a place cannot be put back that is an error once it has
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
from typing import Any

from cotan import _core

NOTHING = object()
# Of longer collections only the ends are looked at where each call is.
_LONG = 10_000
# Parts of collections and arrays that are told apart.
MANY = 64
_GROWN = object()
Parts = list[tuple[Any, Any]]


class Slot:
    """A place of one part."""

    name = "what it keeps"
    # Whether something in it may have a derivative.
    has_parts = True

    def held(self, _whole: bool) -> Any:
        raise NotImplementedError

    def is_as(self, held: Any) -> bool:
        """Say whether it is still as it was held."""
        return self.held(True) is held

    def is_long(self) -> bool:
        """Say whether less of it than the whole is held for each call."""
        return False

    def put_back(self, held: Any) -> None:
        raise NotImplementedError

    def changed(self, held: Any) -> Parts:
        return [] if self.is_as(held) else [(None, None)]

    def take(self, _part: Any, _begin: Any) -> Any:
        return self.held(True)

    def give(self, _part: Any, _begin: Any, value: Any) -> None:
        self.put_back(value)

    def inside(self, _part: Any, value: Any) -> Any:
        """Give what a part holds that may keep something itself."""
        return [value]

    def looks(self) -> tuple[Any, ...] | None:
        """Give collections whose items are all that it holds, now and later; `None` if none are.

        They have the methods of the interpreter's own.
        """
        return None

    def lost(self) -> TypeError:
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

    def held(self, _whole: bool) -> Any:
        try:
            return self.get()
        except (ValueError, AttributeError, LookupError):
            return NOTHING


class CellSlot(ObjectSlot):
    """A variable of an enclosing function."""

    def __init__(self, cell: CellType) -> None:
        super().__init__(partial(_CONTENTS, cell))
        self._cell = cell

    def put_back(self, held: Any) -> None:
        if held is NOTHING:
            del self._cell.cell_contents
        else:
            self._cell.cell_contents = held


_CONTENTS: Any = vars(CellType)["cell_contents"].__get__


class ContextSlot(ObjectSlot):
    """A variable of a context; what it has by default is what it has."""

    name = "a context variable"

    def __init__(self, variable: ContextVar[Any]) -> None:
        super().__init__(variable.get)
        self._variable = variable

    def put_back(self, held: Any) -> None:
        if held is NOTHING:
            raise self.lost()
        self._variable.set(held)


class GlobalSlot(ObjectSlot):
    """A name of a module that a function assigns to."""

    def __init__(self, names: dict[str, Any], name: str) -> None:
        super().__init__(partial(names.get, name, NOTHING))
        self._names, self._name = names, name

    def put_back(self, held: Any) -> None:
        if held is NOTHING:
            self._names.pop(self._name, None)
        else:
            self._names[self._name] = held


class DescriptorSlot(ObjectSlot):
    """An attribute of an object that has memory for it (`__slots__`); no code of its runs."""

    def __init__(self, descriptor: Any, owner: Any) -> None:
        super().__init__(partial(descriptor.__get__, owner))
        self._descriptor, self._owner = descriptor, owner

    def put_back(self, held: Any) -> None:
        if held is NOTHING:
            self._descriptor.__delete__(self._owner)
        else:
            self._descriptor.__set__(self._owner, held)


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

    def held(self, whole: bool) -> Any:
        if whole or not self.is_long():
            if self._kind is list:
                return list.copy(self._items)
            return list(self._kind.__iter__(self._items))
        return _Ends(self._items, self._kind)

    def _length(self) -> int:
        return int(self._kind.__len__(self._items))

    def is_as(self, held: Any) -> bool:
        if len(held) != self._length():
            return False
        if isinstance(held, _Ends):
            return _is_beginning(held, _Ends(self._items, self._kind))
        return _core.same_items(held, self.held(True))

    def looks(self) -> tuple[Any, ...] | None:
        kind = type(self._items)
        is_plain = kind.__iter__ is self._kind.__iter__ and kind.__len__ is self._kind.__len__
        return (self._items,) if is_plain and not self.is_long() else None

    def put_back(self, held: Any) -> None:
        if not isinstance(held, _Ends):
            self._kind.clear(self._items)
            self._kind.extend(self._items, held)
            return
        if not _is_beginning(held, self.held(True)) or not self._ends_with(held):
            raise self.lost()
        while self._length() > len(held):
            self._kind.pop(self._items)

    def _ends_with(self, held: _Ends) -> bool:
        """Say whether only what comes after what was there has changed."""
        at = len(held) - len(held.last)
        return all(self._at(at + i) is v for i, v in enumerate(reversed(held.last)))

    def _at(self, i: int) -> Any:
        return self._kind.__getitem__(self._items, i)

    def changed(self, held: Any) -> Parts:
        now = self.held(False)
        if len(now) > len(held) and _has_grown(held, now):
            return [(_GROWN, len(held))]
        are_whole = not isinstance(now, _Ends) and not isinstance(held, _Ends)
        if _core.same_items(held, now) if are_whole else self.is_as(held):
            return []
        if len(now) == len(held) and are_whole:
            places = [i for i, (a, b) in enumerate(zip(held, now, strict=True)) if a is not b]
            if len(places) <= MANY and getattr(self._items, "maxlen", None) is None:
                return [(i, None) for i in places]
        return [(None, None)]

    def take(self, part: Any, begin: Any) -> Any:
        if part is None:
            return self.held(True)
        if part is _GROWN:
            return [self._at(i) for i in range(begin, self._length())]
        return self._at(part) if part < self._length() else NOTHING

    def inside(self, part: Any, value: Any) -> Any:
        return value if part is None or part is _GROWN else [value]

    def give(self, part: Any, begin: Any, value: Any) -> None:
        if part is None:
            self.put_back(value)
            return
        values, first = (value, begin) if part is _GROWN else ([value], part)
        for i, v in enumerate(values, first):
            if i < self._length() and v is not NOTHING:
                self._kind.__setitem__(self._items, i, v)


def _alike(held: Any, now: Any) -> tuple[Any, Any]:
    """Give both as ends where one is so."""
    if isinstance(held, _Ends) or isinstance(now, _Ends):
        held, now = (x if isinstance(x, _Ends) else _Ends(x, type(x)) for x in (held, now))
    return held, now


def _has_grown(held: Any, now: Any) -> bool:
    """Say whether a longer list seems to begin as it was; for derivatives that is enough."""
    if isinstance(held, _Ends) or isinstance(now, _Ends) or len(held) <= MANY:
        return _is_beginning(held, now)
    places = (*range(4), *range(len(held) - 4, len(held)))
    return all(held[i] is now[i] for i in places)


def _is_beginning(held: Any, now: Any) -> bool:
    """Say whether one collection begins another one, or is the same."""
    held, now = _alike(held, now)
    if not isinstance(held, _Ends):
        return len(held) <= len(now) and all(map(is_, held, now))
    ends = len(held) == len(now)
    return all(map(is_, held.first, now.first)) and (
        all(map(is_, held.last, now.last)) if ends else len(held) < len(now)
    )


class SetSlot(Slot):
    """A set."""

    def __init__(self, items: Any, _kind: Any = set) -> None:
        self._items = items
        self.name = f"a set of more than {_LONG} items"

    def is_long(self) -> bool:
        return set.__len__(self._items) > _LONG

    def held(self, whole: bool) -> Any:
        # As a list, so that nothing is hashed.
        if whole or not self.is_long():
            return list(set.__iter__(self._items))
        return _Ends(self._items, set)

    def is_as(self, held: Any) -> bool:
        if len(held) != set.__len__(self._items):
            return False
        if isinstance(held, _Ends):
            return True
        now = self.held(True)
        # The order changes with the room that there is.
        return _core.same_items(held, now) or set(map(id, held)) == set(map(id, now))

    def looks(self) -> tuple[Any, ...] | None:
        kind = type(self._items)
        is_plain = kind.__iter__ is set.__iter__ and kind.__len__ is set.__len__
        return (self._items,) if is_plain and not self.is_long() else None

    def inside(self, _part: Any, value: Any) -> Any:
        return value

    def put_back(self, held: Any) -> None:
        if isinstance(held, _Ends):
            raise self.lost()
        set.clear(self._items)
        set.update(self._items, held)


class DictSlot(Slot):
    """A dictionary, the attributes of an object."""

    def __init__(self, items: Any, kind: Any = dict) -> None:
        self._items, self._kind = items, kind
        self.name = f"a dict of more than {_LONG} items"

    def is_long(self) -> bool:
        return bool(self._kind.__len__(self._items) > _LONG)

    def held(self, whole: bool) -> Any:
        if whole or not self.is_long():
            # A copy is faster, where nobody has changed the order of keys.
            if type(self._items).__iter__ is dict.__iter__:
                return dict.copy(self._items)
            return dict(self._kind.items(self._items))
        return _Ends(self._items, self._kind)

    def is_as(self, held: Any) -> bool:
        if len(held) != self._kind.__len__(self._items):
            return False
        if isinstance(held, _Ends):
            return _is_beginning(held, _Ends(self._items, self._kind))
        keys, values = self._looks()
        if len(held) < MANY:
            return all(map(is_, held, keys)) and all(map(is_, held.values(), values))
        return (_core.same_items(list(held), list(keys))
                and _core.same_items(list(held.values()), list(values)))  # fmt: skip

    def _looks(self) -> tuple[Any, Any]:
        return self._kind.keys(self._items), self._kind.values(self._items)

    def looks(self) -> tuple[Any, ...] | None:
        return None if self.is_long() else self._looks()

    def put_back(self, held: Any) -> None:
        if isinstance(held, _Ends):
            self._shorten(held, self._kind.__len__(self._items))
            return
        now = dict(self._kind.items(self._items))
        in_order = _core.same_items([k for k in now if k in held], list(held))
        for key in [k for k in now if k not in held or not in_order]:
            self._delete(key)
        for key, value in held.items():
            if not in_order or now.get(key, NOTHING) is not value:
                self._set(key, value)

    def _shorten(self, held: _Ends, length: int) -> None:
        extra = length - len(held)
        newest = list(islice(self._kind.__reversed__(self._items), max(extra, 0) + len(held.last)))
        if extra < 0 or not all(map(is_, held.last, newest[extra:])):
            raise self.lost()
        for key in newest[:extra]:
            self._delete(key)

    def _delete(self, key: Any) -> None:
        self._kind.pop(self._items, key, None)

    def _set(self, key: Any, value: Any) -> None:
        self._kind.__setitem__(self._items, key, value)

    def changed(self, held: Any) -> Parts:
        now = self.held(False)
        if isinstance(now, _Ends):
            if not isinstance(held, _Ends) or len(now) <= len(held):
                return []
            grown = min(len(now) - len(held), MANY)
            keys = list(islice(self._kind.__reversed__(self._items), grown))
        elif isinstance(held, _Ends):
            return []
        elif len(now) > len(held) > MANY or (len(now) >= len(held) and _is_same_mapping(held, now)):
            # Of many items those that are new.
            keys = list(islice(now, len(held), None))
        else:
            keys = [k for k, v in now.items() if held.get(k, NOTHING) is not v]
        return [(key, None) for key in keys[:MANY]]

    def take(self, part: Any, _begin: Any) -> Any:
        return self._kind.get(self._items, part, NOTHING)

    def give(self, part: Any, _begin: Any, value: Any) -> None:
        if self.take(part, None) is not NOTHING and value is not NOTHING:
            self._set(part, value)


def _is_same_mapping(held: dict[Any, Any], now: dict[Any, Any]) -> bool:
    """Say whether the items of one begin those of the other."""
    return all(map(is_, held, now)) and all(map(is_, held.values(), now.values()))


class ClassSlot(DictSlot):
    """The attributes of a class."""

    def __init__(self, cls: type) -> None:
        super().__init__(vars(cls), MappingProxyType)
        self._cls = cls

    def held(self, _whole: bool) -> Any:
        return dict(self._items)

    def put_back(self, held: Any) -> None:
        now = self.held(True)
        for key in [k for k in now if k not in held]:
            self._delete(key)
        for key, value in held.items():
            if now.get(key, NOTHING) is not value:
                self._set(key, value)

    def _delete(self, key: Any) -> None:
        type.__delattr__(self._cls, key)

    def _set(self, key: Any, value: Any) -> None:
        type.__setattr__(self._cls, key, value)

    def take(self, part: Any, _begin: Any) -> Any:
        return self._items.get(part, NOTHING)


class IteratorSlot(Slot):
    """How far an iterator has come, which a part of another place holds."""

    name = "an iterator or a generator"
    has_parts = False  # Nobody knows what it gave.

    def __init__(self, iterator: Any, place: Slot | None = None, part: Any = None) -> None:
        self._first = self._now = iterator
        self._place, self._part = place, part

    def held(self, _whole: bool) -> Any:
        return _position(self._now), _copy_iterator(self._now)

    def is_as(self, held: Any) -> bool:
        # What holds it may be holding the first one again.
        return self._now is self._first and bool(held[0] == _position(self._now))

    def put_back(self, held: Any) -> None:
        if held[1] is NOTHING or self._place is None:
            raise self.lost()
        there = self._place.take(self._part, None)
        if there is self._first or there is self._now:
            self._now = _copy_iterator(held[1])
            self._place.give(self._part, None, self._now)

    def changed(self, _held: Any) -> Parts:
        return []


def is_iterator(value: Any) -> bool:
    """Say whether something is an iterator of the interpreter's own, or a generator."""
    kind = type(value)
    return kind.__module__ in {"builtins", "itertools"} and hasattr(kind, "__next__")


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
    """Give an iterator that goes on from the same turn, `NOTHING` where there is none."""
    if not is_iterator(value):
        return value
    told = None if isinstance(value, GeneratorType) else _reduced(value)
    if told is None:
        return NOTHING
    made, *more = (_copy_parts(part) for part in told[1:])
    if made is NOTHING or any(part is NOTHING for part in more):
        return NOTHING
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
    return NOTHING if any(p is NOTHING for p in parts) else parts
