"""Finds the names that code may use: which attributes a guard is needed for.

Problem: there is no data flow. What a function reads of an object that it reaches is known by the
names in its code, in the methods that have these names, and in those that operators and loops call.
"""

import functools
import operator
import pkgutil
import sys
from collections.abc import Iterable
from types import CodeType, FunctionType, ModuleType
from typing import TypeAlias

from cotan._src.runtime import call_site
from cotan._src.runtime.libraries import UNGUARDED_LIBRARIES
from cotan._src.state.object_graph import CodeNames

# Names that code refers to.
Names: TypeAlias = frozenset[str]
# Methods that run when an object is made.
CONSTRUCTORS = frozenset(["__init__", "__new__", "__post_init__"])
#: With these, code reaches attributes that it does not name.
ANY_ATTRIBUTE = {
    *("__dict__", "__slots__", "asdict", "astuple", "attrgetter", "copy", "deepcopy", "dir"),
    *("fields", "getattr", "getmembers", "methodcaller", "replace", "vars"),
}
#: With these, code reaches all members of a class.
ANY_MEMBER = {"__dict__", "dir", "getattr", "getmembers", "vars"}
#: With these, code can tell whether an attribute or a global exists.
EXISTENCE_TESTS = {
    *("__getattribute__", "dir", "except", "getattr", "getattr_static", "globals", "hasattr"),
    *("setattr", "vars"),
}
#: With these, code reaches members of base classes that others hide.
BASES = {"__base__", "__bases__", "__mro__", "getmro", "mro", "super"}
#: With these, code imports modules that it names as texts.
IMPORTERS = {"__import__", "find_spec", "import_module"}
#: With these, code reaches globals that it names as texts.
NAMESPACES = {
    *("__globals__", "__import__", "eval", "exec", "f_globals", "getmodule", "globals"),
    *("import_module", "modules", "vars"),
}
#: With these, code reads the environment.
ENVIRONMENT = {"environ", "expandvars", "expanduser", "getenv"}
# Members of every class, and methods that code does not call while it computes.
_NOT_CALLED = {
    *("__annotations__", "__dict__", "__doc__", "__module__", "__qualname__", "__slots__"),
    *("__weakref__", "__repr__", "__str__", "__del__", "__getstate__", "__setstate__"),
    *("__reduce__", "__reduce_ex__", "__init_subclass__"),
    *("__dataclass_fields__", "__dataclass_params__", "__match_args__", "__firstlineno__"),
    *("__static_attributes__", "__abstractmethods__", "__parameters__", "__orig_bases__"),
}
# Functions that call methods of these names.
_TEXTS = frozenset(["format", "repr", "str"])
_TEXT_METHODS = frozenset(["__format__", "__repr__", "__str__"])

# How code learns of what class a value is, or which object.
_CLASSES = frozenset(["__class__", "id", "type"])


def tells_numbers_apart(codes: Iterable[object]) -> bool:
    """Say whether code may tell a number from an array of its value, by class or identity."""
    for code in codes:
        if not isinstance(code, CodeType):
            continue
        if not _CLASSES.isdisjoint(code.co_names) or tells_numbers_apart(code.co_consts):
            return True
        before: object = ...
        for instruction in call_site.instructions(code):
            name = instruction.opname
            if name == "MATCH_CLASS" or (name == "IS_OP" and before is not None):
                return True
            before = instruction.argval if name == "LOAD_CONST" else ...
    return False


# Workloads are written as users write programs, and looked at as such.
_WORKLOADS = "_src.bench.workloads"


def is_library(name: object) -> bool:
    """Say whether a module is of a library whose state is not guarded."""
    text = str(name or "")
    return text.partition(".")[0] in UNGUARDED_LIBRARIES and not text.endswith(_WORKLOADS)


@functools.cache
def is_installed(name: str) -> bool:
    """Say whether a module is of an installed package, whose own state is its own affair."""
    if name.endswith(_WORKLOADS):
        return False
    top = getattr(sys.modules.get(name.partition(".")[0]), "__dict__", {})
    places = [top.get("__file__") or "", *map(str, top.get("__path__", ()))]
    return is_library(name) or any(
        f"{kind}-packages" in p for p in places for kind in ("site", "dist")
    )


def mentioned(code: object) -> Names:
    """Give the names in some code and in code inside of it, with strings that may be names."""
    return CodeNames.of(code).mentioned if isinstance(code, CodeType) else frozenset()


def names_for(function: FunctionType, captured: Iterable[object]) -> Names:
    """Give the names in the code of a function, and in getters that it calls."""
    members = function.__globals__
    # Names with "@" are those of tools that rewrite code.
    names = frozenset(n for n in mentioned(function.__code__) if n[:1] != "@")
    for value in (*captured, *(members[n] for n in names & members.keys())):
        names |= _names_of_getter(value)
    return names


def _names_of_getter(value: object) -> Names:
    if not isinstance(value, (operator.attrgetter, operator.methodcaller)):
        return frozenset()
    return frozenset(_strings_in(value.__reduce__()))


def _strings_in(reduced: object) -> list[str]:
    """Give the names that an `attrgetter` or a `methodcaller` was made with."""
    if isinstance(reduced, str):
        return reduced.split(".")
    return [n for item in reduced for n in _strings_in(item)] if type(reduced) is tuple else []


def names_of_module(module: ModuleType) -> Names:
    """Give the names that a library's module has, or gets by an import of a module below it."""
    below = (m.name for m in pkgutil.iter_modules(getattr(module, "__path__", ())))
    return frozenset((*vars(module), *dir(module), *below))


def function_of(member: object) -> object:
    """Give the function behind a member of a class, if it is a method or a property."""
    if isinstance(member, property):
        return member.fget
    if isinstance(member, functools.cached_property):
        return member.func
    if isinstance(member, functools.singledispatchmethod):
        return member.dispatcher
    if isinstance(member, functools.partialmethod):
        return function_of(member.func)
    get = getattr(type(member), "__get__", None)
    if isinstance(get, FunctionType):
        return get
    return getattr(member, "__func__", member)


def with_methods(owner: type, names: Names) -> Names:
    """Add the names in methods with these names, and in the methods that those name.

    Methods between double underscores are called by operators, loops and the like.
    """
    classes = [vars(c) for c in owner.__mro__ if not is_library(c.__module__)]
    own = [vars(c) for c in owner.__mro__ if not is_installed(c.__module__)]
    unnamed = {name for members in own for name in members if name[:2] == name[-2:] == "__"}
    if not _TEXTS.isdisjoint(names):
        names |= _TEXT_METHODS
    elif "f-string" in names:
        names |= {"__str__"}
    if "__match_args__" in names:
        found = (n for members in own for n in members.get("__match_args__", ()))
        names |= {n for n in found if isinstance(n, str)}
    waiting, done = set(names) | (unnamed - _NOT_CALLED - CONSTRUCTORS), set[str]()
    while waiting:
        name = waiting.pop()
        done.add(name)
        for members in classes:
            function = function_of(members.get(name))
            # What a library's method reads is the library's affair, in whatever class it stands.
            home = getattr(function, "__globals__", {}).get("__name__")
            code = None if is_library(home) else getattr(function, "__code__", None)
            waiting |= (mentioned(code) | _names_of_getter(function)) - done
    return frozenset(done)
