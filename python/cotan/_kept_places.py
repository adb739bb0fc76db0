"""Places where programs keep what they have seen: how each is held, compared and put back.

A place gives what it `held`, says what a call has `changed` of that, part by part, and puts back. A
part is named by what it is in the place (a key, an index), with where it begins in a list that
grows. Where a place cannot be put back that is an error once it has to be.
"""

import warnings
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from itertools import islice
from operator import is_
from types import CellType, GeneratorType
from typing import Any

import numpy as np

from cotan import _core

NOTHING = object()
# Of longer collections only the ends are looked at where each call is.
_LONG = 10_000
# Parts of collections and arrays that are told apart.
_MANY = 64
# Memory of more bytes is not copied for each call.
_LARGE = 1 << 14
_GROWN = object()
Parts = list[tuple[Any, Any]]


class Place:
    """A place of one part."""

    name = "what it keeps"

    def held(self, _whole: bool) -> Any:
        raise NotImplementedError

    def differ(self, held: Any, now: Any) -> bool:
        return now is not held

    def put_back(self, held: Any, now: Any) -> None:
        raise NotImplementedError

    def changed(self, held: Any, now: Any) -> Parts:
        return [(None, None)] if self.differ(held, now) else []

    def take(self, _part: Any, _begin: Any) -> Any:
        return self.held(True)

    def give(self, _part: Any, _begin: Any, value: Any) -> None:
        self.put_back(value, self.held(True))

    def inside(self, _part: Any, value: Any) -> Any:
        """Give what a part holds that may keep something itself."""
        return [value]

    def lost(self) -> TypeError:
        return TypeError(
            f"a function that a solver calls keeps in {self.name} what cannot be put back for it "
            "to be called again with what a gradient follows; keep that in a variable, an "
            "attribute or a list that is short, or hold constant with ct.dropgrad what the "
            "function depends on"
        )


class Variable(Place):
    """A variable of an enclosing function."""

    def __init__(self, cell: CellType) -> None:
        self._cell = cell

    def held(self, _whole: bool) -> Any:
        try:
            return self._cell.cell_contents
        except ValueError:
            return NOTHING

    def put_back(self, held: Any, _now: Any) -> None:
        if held is NOTHING:
            del self._cell.cell_contents
        else:
            self._cell.cell_contents = held


class Context(Place):
    """A variable of a context; what it has by default is what it has."""

    name = "a context variable"

    def __init__(self, variable: ContextVar[Any]) -> None:
        self._variable = variable

    def held(self, _whole: bool) -> Any:
        try:
            return self._variable.get()
        except LookupError:
            return NOTHING

    def put_back(self, held: Any, _now: Any) -> None:
        if held is NOTHING:
            raise self.lost()
        self._variable.set(held)


class Global(Place):
    """A name of a module that a function assigns to."""

    def __init__(self, names: dict[str, Any], name: str) -> None:
        self._names, self._name = names, name

    def held(self, _whole: bool) -> Any:
        return self._names.get(self._name, NOTHING)

    def put_back(self, held: Any, _now: Any) -> None:
        if held is NOTHING:
            self._names.pop(self._name, None)
        else:
            self._names[self._name] = held


class Slot(Place):
    """An attribute of an object that has memory for it (`__slots__`); no code of its runs."""

    def __init__(self, descriptor: Any, owner: Any) -> None:
        self._descriptor, self._owner = descriptor, owner

    def held(self, _whole: bool) -> Any:
        try:
            return self._descriptor.__get__(self._owner)
        except AttributeError:
            return NOTHING

    def put_back(self, held: Any, _now: Any) -> None:
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


class Sequence(Place):
    """A list or a deque, by the methods of these, as a program's own class may have others."""

    def __init__(self, items: Any, kind: Any) -> None:
        self._items, self._kind = items, kind
        self.name = f"a {kind.__name__} of more than {_LONG} items"

    def held(self, whole: bool) -> Any:
        if whole or self._length() <= _LONG:
            if self._kind is list:
                return list.copy(self._items)
            return list(self._kind.__iter__(self._items))
        return _Ends(self._items, self._kind)

    def _length(self) -> int:
        return int(self._kind.__len__(self._items))

    def differ(self, held: Any, now: Any) -> bool:
        if len(held) != len(now):
            return True
        return not _is_beginning(held, now)

    def put_back(self, held: Any, now: Any) -> None:
        if not isinstance(held, _Ends):
            self._kind.clear(self._items)
            self._kind.extend(self._items, held)
            return
        if not _is_beginning(held, now) or not self._ends_with(held):
            raise self.lost()
        while self._length() > len(held):
            self._kind.pop(self._items)

    def _ends_with(self, held: _Ends) -> bool:
        """Say whether only what comes after what was there has changed."""
        at = len(held) - len(held.last)
        return all(self._at(at + i) is v for i, v in enumerate(reversed(held.last)))

    def _at(self, i: int) -> Any:
        return self._kind.__getitem__(self._items, i)

    def changed(self, held: Any, now: Any) -> Parts:
        if len(now) > len(held) and _has_grown(held, now):
            return [(_GROWN, len(held))]
        if not self.differ(held, now):
            return []
        if len(now) == len(held) and not isinstance(now, _Ends) and not isinstance(held, _Ends):
            places = [i for i, (a, b) in enumerate(zip(held, now, strict=True)) if a is not b]
            if len(places) <= _MANY and getattr(self._items, "maxlen", None) is None:
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
            self.put_back(value, None)
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
    if isinstance(held, _Ends) or isinstance(now, _Ends) or len(held) <= _MANY:
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


class Group(Place):
    """A set."""

    def __init__(self, items: Any, _kind: Any = set) -> None:
        self._items = items
        self.name = f"a set of more than {_LONG} items"

    def held(self, whole: bool) -> Any:
        if whole or set.__len__(self._items) <= _LONG:
            return set(set.__iter__(self._items))
        return _Ends(self._items, set)

    def differ(self, held: Any, now: Any) -> bool:
        if isinstance(held, _Ends) or isinstance(now, _Ends):
            return len(held) != len(now)
        return bool(held != now)

    def inside(self, _part: Any, value: Any) -> Any:
        return value

    def put_back(self, held: Any, _now: Any) -> None:
        if isinstance(held, _Ends):
            raise self.lost()
        set.clear(self._items)
        set.update(self._items, held)


class Mapping(Place):
    """A dictionary, the attributes of an object."""

    def __init__(self, items: Any, kind: Any = dict) -> None:
        self._items, self._kind = items, kind
        self.name = f"a dict of more than {_LONG} items"

    def held(self, whole: bool) -> Any:
        if whole or self._kind.__len__(self._items) <= _LONG:
            # A copy is faster, where nobody has changed the order of keys.
            if type(self._items).__iter__ is dict.__iter__:
                return dict.copy(self._items)
            return dict(self._kind.items(self._items))
        return _Ends(self._items, self._kind)

    def differ(self, held: Any, now: Any) -> bool:
        if len(held) != len(now):
            return True
        if isinstance(held, _Ends) or isinstance(now, _Ends):
            return not _is_beginning(held, now)
        return not _is_same_mapping(held, now)

    def put_back(self, held: Any, now: Any) -> None:
        if isinstance(held, _Ends):
            self._shorten(held, now)
            return
        if not isinstance(now, dict):
            now = dict(self._kind.items(self._items))
        in_order = [k for k in now if k in held] == list(held)
        for key in [k for k in now if k not in held or not in_order]:
            self._delete(key)
        for key, value in held.items():
            if not in_order or now.get(key, NOTHING) is not value:
                self._set(key, value)

    def _shorten(self, held: _Ends, now: Any) -> None:
        extra = len(now) - len(held)
        newest = list(islice(self._kind.__reversed__(self._items), max(extra, 0) + len(held.last)))
        if extra < 0 or not all(map(is_, held.last, newest[extra:])):
            raise self.lost()
        for key in newest[:extra]:
            self._delete(key)

    def _delete(self, key: Any) -> None:
        self._kind.pop(self._items, key, None)

    def _set(self, key: Any, value: Any) -> None:
        self._kind.__setitem__(self._items, key, value)

    def changed(self, held: Any, now: Any) -> Parts:
        if isinstance(now, _Ends):
            if not isinstance(held, _Ends) or len(now) <= len(held):
                return []
            grown = min(len(now) - len(held), _MANY)
            keys = list(islice(self._kind.__reversed__(self._items), grown))
        elif isinstance(held, _Ends):
            return []
        elif len(now) > len(held) > _MANY or (
            len(now) >= len(held) and _is_same_mapping(held, now)
        ):
            # Of many items those that are new.
            keys = list(islice(now, len(held), None))
        else:
            keys = [k for k, v in now.items() if held.get(k, NOTHING) is not v]
        return [(key, None) for key in keys[:_MANY]]

    def take(self, part: Any, _begin: Any) -> Any:
        return self._kind.get(self._items, part, NOTHING)

    def give(self, part: Any, _begin: Any, value: Any) -> None:
        if self.take(part, None) is not NOTHING and value is not NOTHING:
            self._set(part, value)


def _is_same_mapping(held: dict[Any, Any], now: dict[Any, Any]) -> bool:
    """Say whether the items of one begin those of the other."""
    return all(map(is_, held, now)) and all(map(is_, held.values(), now.values()))


class ClassNames(Mapping):
    """The attributes of a class."""

    def __init__(self, cls: type) -> None:
        super().__init__(vars(cls))
        self._cls = cls

    def held(self, _whole: bool) -> Any:
        return dict(self._items)

    def put_back(self, held: Any, now: Any) -> None:
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


class Memory(Place):
    """The elements of an array: of NumPy's in memory, of ours with what is followed in it.

    Memory of numbers holds nothing that is followed. Where it is large it is not held in each call:
    it is as at the end while one is done again.
    """

    def __init__(self, array: Any) -> None:
        self._array = array
        self._is_plain = isinstance(array, np.ndarray) and not array.dtype.hasobject

    def held(self, whole: bool) -> Any:
        if not whole and self._is_plain and self._array.nbytes > _LARGE:
            return NOTHING
        return self._array.copy()

    def differ(self, held: Any, now: Any) -> bool:
        return held is not NOTHING and now is not NOTHING and _bytes_differ(held, now)

    def put_back(self, held: Any, _now: Any) -> None:
        self._array[...] = held

    def changed(self, held: Any, now: Any) -> Parts:
        if self._is_plain or not self.differ(held, now):
            return []
        if held.size > _MANY or self._array.dtype.names is not None:
            return [(None, None)]
        a, b = _values(held), _values(now)
        return [(i, None) for i in np.ndindex(a.shape) if _bytes_differ(a[i, None], b[i, None])]

    def take(self, part: Any, _begin: Any) -> Any:
        return self.held(True) if part is None else self._array[part]

    def give(self, part: Any, _begin: Any, value: Any) -> None:
        self._array[... if part is None else part] = value

    def inside(self, _part: Any, value: Any) -> Any:
        holds = isinstance(value, np.ndarray) and value.dtype.hasobject
        if holds:
            return value.reshape(-1).tolist()
        return [] if isinstance(value, (np.ndarray, _core.Array)) else [value]


def is_large(value: Any) -> bool:
    """Say whether something is an array that is not copied for each call."""
    return isinstance(value, (np.ndarray, _core.Array)) and value.nbytes > _LARGE


def _values(array: Any) -> Any:
    return np.asarray(_core.value(array)) if isinstance(array, _core.Array) else array


def _bytes_differ(held: Any, now: Any) -> bool:
    a, b = _values(held), _values(now)
    if a.shape != b.shape:
        return True
    if a.dtype.hasobject:
        return not all(map(is_, a.reshape(-1).tolist(), b.reshape(-1).tolist()))
    if a.__array_interface__["data"] == b.__array_interface__["data"]:
        return False
    return not np.array_equal(np.ravel(a).view(np.uint8), np.ravel(b).view(np.uint8))


class Table(Memory):
    """An array that is too large to be held: some of its elements tell whether it has changed."""

    name = "an array of more than 64 MB"

    def held(self, _whole: bool) -> Any:
        # Whatever its layout, it is not copied.
        is_in_order = self._array.flags.c_contiguous
        flat: Any = self._array.reshape(-1) if is_in_order else self._array.flat
        step = max(1, self._array.size // 4096)
        return np.concatenate([flat[::step], flat[:64], flat[-64:]])

    def put_back(self, held: Any, now: Any) -> None:
        if _bytes_differ(held, now):
            raise self.lost()

    def changed(self, held: Any, now: Any) -> Parts:
        return [(None, None)] if self.differ(held, now) else []


class State(Place):
    """What functions give and take: the state of a generator of random numbers, bytes, text."""

    def __init__(self, get: Callable[[], Any], put: Callable[[Any], Any]) -> None:
        self._get, self._put = get, put

    def held(self, _whole: bool) -> Any:
        return self._get()

    def differ(self, held: Any, now: Any) -> bool:
        return _states_differ(held, now)

    def put_back(self, held: Any, _now: Any) -> None:
        self._put(held)

    def changed(self, _held: Any, _now: Any) -> Parts:
        return []  # None has a derivative.


def _states_differ(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return any(_states_differ(a[key], b[key]) for key in a)
    return not np.array_equal(a, b) if isinstance(a, np.ndarray) else bool(a != b)


class Turn(Place):
    """How far an iterator has come, which a part of another place holds."""

    name = "an iterator or a generator"

    def __init__(self, iterator: Any, place: Place | None = None, part: Any = None) -> None:
        self._first = self._now = iterator
        self._place, self._part = place, part

    def held(self, _whole: bool) -> Any:
        return _turn(self._now), _copied(self._now)

    def differ(self, held: Any, now: Any) -> bool:
        # What holds it may be holding the first one again.
        return self._now is not self._first or bool(held[0] != now[0])

    def put_back(self, held: Any, _now: Any) -> None:
        if held[1] is NOTHING or self._place is None:
            raise self.lost()
        there = self._place.take(self._part, None)
        if there is self._first or there is self._now:
            self._now = _copied(held[1])
            self._place.give(self._part, None, self._now)

    def changed(self, _held: Any, _now: Any) -> Parts:
        return []  # Nobody knows what it gave.


def is_iterator(value: Any) -> bool:
    """Say whether something is an iterator of the interpreter's own, or a generator."""
    kind = type(value)
    return kind.__module__ in {"builtins", "itertools"} and hasattr(kind, "__next__")


def _told(value: Any) -> Any:
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


def _turn(value: Any) -> Any:
    """Give what tells how far an iterator has come."""
    if isinstance(value, GeneratorType):
        frame = value.gi_frame
        if frame is None:
            return None
        return frame.f_lasti, [(k, v if type(v) is int else id(v))
                               for k, v in frame.f_locals.items()]  # fmt: skip
    if is_iterator(value):
        told = _told(value)
        return id(value) if told is None else [_turn(part) for part in told]
    if type(value) is tuple:
        return [_turn(part) for part in value]
    if type(value) is list:
        return len(value)
    return value if type(value) in (int, float, bool, range) else id(value)


def _copied(value: Any) -> Any:
    """Give an iterator that goes on from the same turn, `NOTHING` where there is none."""
    if not is_iterator(value):
        return value
    told = None if isinstance(value, GeneratorType) else _told(value)
    if told is None:
        return NOTHING
    made, *more = (_copied_parts(part) for part in told[1:])
    if made is NOTHING or any(part is NOTHING for part in more):
        return NOTHING
    result = told[0](*made)
    if more and more[0] is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            result.__setstate__(more[0])
    return result


def _copied_parts(part: Any) -> Any:
    if type(part) is not tuple:
        return _copied(part)
    parts = tuple(map(_copied_parts, part))
    return NOTHING if any(p is NOTHING for p in parts) else parts
