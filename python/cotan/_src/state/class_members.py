"""Looks at classes as they store their members, without asking them for any."""

import functools
import gc
from collections.abc import Collection, Iterator
from types import CodeType, MappingProxyType, MemberDescriptorType
from typing import Any

from cotan._src.state.code_facts import attributes_assigned
from cotan._src.state.reached_names import Names, function_of, is_installed

# Classes of C whose members cannot be set have this bit in `__flags__`
# (`Py_TPFLAGS_IMMUTABLETYPE`).
_IMMUTABLE = 1 << 8
_MEMBERS: Any = vars(type)["__dict__"]
#: Stands for a member that a class does not have.
MISSING = object()


def is_immutable(cls: type) -> bool:
    """Say whether no member of a class can be set."""
    return bool(cls.__flags__ & _IMMUTABLE)


def is_open(cls: type) -> bool:
    """Say whether a class may come to have more members: it is the program's."""
    return not is_immutable(cls) and not is_installed(cls.__module__)


#: What classes of C code tell the interpreter of the memory of their instances. It is no state, and
#: every look gives another integer.
LAYOUT = frozenset({"__vectorcalloffset__", "__dictoffset__", "__weaklistoffset__"})


def members_of_class(cls: type) -> dict[str, object]:
    """Give the dictionary behind the `__dict__` of a class.

    A name is looked up in it several times as fast as by way of the class.
    """
    proxy: MappingProxyType[str, object] = _MEMBERS.__get__(cls)
    members: dict[str, object] = gc.get_referents(proxy)[0]
    return members


def lookups(
    cls: type, names: Names, asked: Collection[str], goes_up: bool
) -> Iterator[tuple[type, str, Any]]:
    """Give where names are looked up on a class and its bases: the class, the name, the member.

    What comes before a member is `MISSING`, and so is a name in `asked` that none of them has.
    With `goes_up`, members that others hide are found, too.
    """
    classes = [(c, vars(c), is_open(c)) for c in cls.__mro__]
    found = names.intersection(name for _, members, _ in classes for name in members)
    for name in sorted(found.union(asked)):
        left = sum(name in members for _, members, _ in classes) if goes_up else 1
        for owner, members, may_have_more in classes:
            if name in members:
                yield owner, name, members[name]
                left -= 1
                if not left:
                    break
            elif may_have_more:
                yield owner, name, MISSING


def filled_in(cls: type, names: Names) -> Names:
    """Give those names whose value an object keeps once it is asked for it."""
    found: dict[str, object] = {}
    for base in reversed(cls.__mro__):
        members = vars(base)
        found.update((name, members[name]) for name in names & members.keys())
    return frozenset(n for n, m in found.items() if isinstance(m, functools.cached_property))


def is_set(slot: MemberDescriptorType, value: object) -> bool:
    """Say whether an attribute in `__slots__` has a value."""
    try:
        slot.__get__(value)
    except AttributeError:
        return False
    return True


def replaces_attributes(cls: type) -> bool:
    """Say whether a method of a class assigns to `__dict__`."""
    members = (m for owner in filter(is_open, cls.__mro__) for m in vars(owner).values())
    codes = (getattr(function_of(member), "__code__", None) for member in members)
    return any(isinstance(c, CodeType) and "__dict__" in attributes_assigned(c) for c in codes)


def looked_up(cls: type, names: Names) -> Iterator[str]:
    """Give the methods that the interpreter looks up on a class, and does without."""
    yield from ("__bool__", "__eq__", "__getattribute__", "__len__")
    if issubclass(cls, dict):
        yield "__missing__"
    if hasattr(cls, "__getitem__"):
        yield from ("__contains__", "__iter__")
    if "callable" in names:
        yield "__call__"
