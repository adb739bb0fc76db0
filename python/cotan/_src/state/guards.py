"""Collects the guards of a prepared function: captured state that a replay takes as constant.

Problem: `prepare` records a function once and replays the program without running Python. A replay
is right as long as everything that the code reads besides its arguments is as it was: variables of
enclosing functions, globals, attributes, list items, files, random number generators.
`GuardCollector` finds these from the names in the code (there is no data flow: a name counts
wherever it stands), and the compiled module checks them before each replay. A *guard* is what must
hold; its *source* is where the value comes from: a global, a closure variable, an attribute of one
(terms of TorchDynamo). Entry points: `collect_guards` and `RECORDING_CHECKS`.
"""

import functools
import io
import os
import random
import sys
import weakref
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator
from contextvars import ContextVar
from types import (
    FunctionType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any, TypeVar

import numpy as np

from cotan import _core
from cotan._src.runtime.dtypes import DTYPES
from cotan._src.state.class_members import (
    LAYOUT,
    MISSING,
    filled_in,
    is_immutable,
    is_open,
    is_set,
    looked_up,
    lookups,
    members_of_class,
    replaces_attributes,
)
from cotan._src.state.code_facts import (
    attributes_assigned,
    globals_used,
    hides_errors,
    inspected,
    modules_imported,
)
from cotan._src.state.guard_store import GuardStore
from cotan._src.state.guarded_kinds import (
    BUILTIN,
    CACHE,
    CALLABLES,
    CONTAINERS,
    READ_ENVIRONMENT,
    VALUES,
    CacheClears,
    is_keeper,
    is_loaded,
    may_be_own,
    module_name,
    name_of,
    numbered,
    objects_in,
    place_in,
    stands_for,
    state_besides,
    state_of,
    unseen_containers,
)
from cotan._src.state.object_graph import (
    GUARDED_VALUES,
    Edge,
    EdgeKind,
    cell_edges,
    named_edges,
    reference_edges,
)
from cotan._src.state.random_states import (
    Generator,
    GlobalStates,
    random_numbers_error,
    random_state,
)
from cotan._src.state.reached_names import (
    ANY_ATTRIBUTE,
    ANY_MEMBER,
    BASES,
    CONSTRUCTORS,
    ENVIRONMENT,
    EXISTENCE_TESTS,
    IMPORTERS,
    NAMESPACES,
    Names,
    function_of,
    is_installed,
    is_library,
    mentioned,
    names_for,
    names_of_module,
    with_methods,
)


class GuardCollector(GuardStore):
    """Collects what a function, and the functions it calls, read besides their arguments.

    An object is visited with the names of the code that reaches it: code reads no other attributes
    of it. An object that is reached again with more names is visited again.

    Raises `TypeError` for iterators (a replay would not advance them), the system's random numbers,
    and more than `GUARDED_VALUES` values.
    """

    #: There are at most so many guards.
    bound = GUARDED_VALUES

    def __init__(self, function: object) -> None:
        super().__init__("argument" if isinstance(function, tuple) else name_of(function))
        self.call: tuple[Any, tuple[object, ...]] = function, ()
        #: Generators of random numbers, but for those of modules.
        self.generators: list[Generator] = []
        #: The functions, classes and objects that were visited.
        self.visited: list[object] = []
        # The names that each object was visited with, by identity.
        self._names_at: dict[int, Names] = {}
        # The classes of the program, and their objects.
        self._objects: list[object] = []
        self._class_names: dict[type, Names] = {}
        # The names in all code, for objects that functions hand on to each other.
        self._all_names: Names = frozenset()
        self._add(function, frozenset(), self._source)
        self._visit_all()
        is_arguments = isinstance(function, tuple)
        generators = [*([] if is_arguments else [np.random, random]), *self.generators]
        self._random_states = [(g, random_state(g)) for g in generators]

    def _visit_all(self) -> None:
        """Visit what is reached, and objects again with the names in all code.

        A function may give an object to another one, whose names are used then.
        """
        while True:
            self._visit_waiting()
            objects = [x for x in self._objects if not self._all_names <= self._names_at[id(x)]]
            if not objects:
                self._guard_absent_members()
                return
            for x in objects:
                is_named = self._names_at[id(x)] >= CONSTRUCTORS
                self._add(x, self._all_names, self._sources.get(id(x)), is_named)

    def _visit_waiting(self) -> None:
        while self._functions or self._others:
            if self._functions:
                value, names, self._reader = self._functions.pop()
            else:
                value, names, self._reader = self._others.popitem(last=False)[1]
            self._source = self._sources.get(id(value)) or name_of(value)
            self._visit(value, names)
            self._expect_few(len(self.found))

    def _expect_few(self, count: int) -> None:
        if count > self.bound:
            raise TypeError(
                f"prepare: the code of the function can reach more than {self.bound:,} "
                "objects that may change between calls; pass what it needs of them as arguments"
            )

    def visit_arguments(self, arguments: Iterable[object]) -> None:
        """Visit the code that comes with arguments: functions, classes, and methods of objects.

        What objects hold are arguments, too.
        """
        classes = dict[type, None]()
        for value in objects_in(arguments):
            if isinstance(value, (type, ModuleType, *BUILTIN, *CALLABLES)):
                self._add(value, self._all_names, f"argument {name_of(value)}")
            else:
                classes[type(value)] = None
                if isinstance(value, (str, bytes, BaseException)):
                    self._add(value, self._all_names, f"argument {name_of(value)}")
                elif isinstance(value, dict):
                    # Keys are no leaves.
                    self._add_all(value, self._all_names)
        for cls in classes:
            if not is_installed(cls.__module__):
                source = f"class {cls.__qualname__} of an argument"
                self._add(cls, self._all_names, source, is_named=False)
        self._visit_all()

    # ----------------------------------------------------------------------------------------------
    # Objects by their class

    def _visit(self, value: object, names: Names) -> None:
        known = self._names_at.get(id(value))
        if known is not None:
            if names <= known:
                return
            names |= known
        elif not is_installed((value if isinstance(value, type) else type(value)).__module__):
            self._objects.append(value)
        self._names_at[id(value)] = names
        self.visited.append(value)
        if isinstance(value, FunctionType):
            if known is None:
                self._visit_function(value)
            self._visit_function_attributes(value, names)
        elif isinstance(value, MethodType):
            self._add(value.__func__, names)
            self._add(value.__self__, names | mentioned(getattr(value.__func__, "__code__", None)))
        elif isinstance(value, functools.partial):
            self._add_all((e.value for e in reference_edges(value, functools.partial)), names)
            self._visit_function_attributes(value, names)
        else:
            self._visit_object(value, names)

    def _visit_object(self, value: object, names: Names) -> None:
        if issubclass(type(value), _core.Array):
            self._guard(value, "", None)
        elif isinstance(value, np.ndarray):
            self._visit_array(value, names)
        elif isinstance(value, (list, tuple, dict, MappingProxyType)):
            self._visit_items(value, names)
        elif isinstance(value, CONTAINERS):
            self._guard(value, "", list(value))
            self._add_all(value, names)
            if not is_library(type(value).__module__):
                self._visit_instance(value, names)
        elif isinstance(value, type):
            if not is_installed(value.__module__):
                self._visit_class(value, names)
        elif not self._visit_reference(value, names):
            self._visit_instance(value, names)

    def _visit_reference(self, value: object, names: Names) -> bool:
        """Visit what has a state of its own, or refers to something else; False for others."""
        if isinstance(value, ModuleType):
            self._visit_module(value, names)
        elif isinstance(value, ContextVar):
            self._guard_computed(value, f"the ContextVar {value.name}", lambda: value.get(None))
            self._add(value.get(None), names)
        elif (referents := stands_for(value)) is not None:
            self._add_all(referents, names)
        elif (state := state_of(value, self._source)) is not None:
            self._guard_computed(value, *state)
        elif value is os.environ:
            self._guard_environment()
        elif isinstance(value, random.SystemRandom):
            raise random_numbers_error("random.SystemRandom")
        elif isinstance(value, (np.random.Generator, np.random.RandomState, random.Random)):
            if all(g is not value for g in self.generators):
                self.generators.append(value)
        elif isinstance(value, io.IOBase):
            # A file may be read further; one that is written to, such as `sys.stdout`, may move.
            if not value.closed and value.readable() and value.seekable():
                self._guard_computed(value, "the place in a file", lambda: place_in(value))
        elif isinstance(value, Iterator) and not isinstance(value, weakref.ProxyTypes):
            raise TypeError(
                "prepare: the function uses an iterator from outside, which a replay would not "
                "advance; advance it outside and pass its items as arguments"
            )
        else:
            return False
        return True

    def _visit_module(self, module: ModuleType, names: Names) -> None:
        members = vars(module)
        if not is_library(module.__name__):
            # `__getattr__` provides names that the module does not have.
            self._visit_attributes(members, names - ANY_ATTRIBUTE | {"__getattr__"})
            if type(module) is not ModuleType:
                self._visit_members(module, with_methods(type(module), names), names)
            return
        # What user code has put there counts; what the library has itself is constant.
        for edge in named_edges(members, EdgeKind.GLOBAL, sorted(names & members.keys())):
            if isinstance(edge.value, ModuleType):
                self._add(edge.value, names)
            elif isinstance(edge.value, VALUES) and not is_library(module_name(edge.value)):
                self._follow((edge,), names)
        if names & EXISTENCE_TESTS:
            for name in sorted(names - names_of_module(module)):
                self._guard(members, name, None, f"{module.__name__}.{name}")

    def _visit_whole_module(self, module: ModuleType, names: Names) -> None:
        """Visit all variables of a module of the program's."""
        members = vars(module)
        if not is_installed(module.__name__):
            source, self._source = self._source, f"module {module.__name__}"
            self._guard(members, "", list(members))
            self._follow(named_edges(members, EdgeKind.ATTRIBUTE, list(members)), names)
            self._source = source

    def _visit_class(self, cls: type, names: Names) -> None:
        # What methods of its class read, `len(cls)` among them, is read of it.
        metaclass: type = type(cls)
        of_class = with_methods(metaclass, names)
        is_own = not is_installed(metaclass.__module__)
        # One hides the members of the other.
        asked = names if is_own or names & EXISTENCE_TESTS else frozenset()
        self._visit_members(cls, with_methods(cls, of_class), asked)
        if is_own:
            self._visit_members(metaclass, of_class, asked)

    def _visit_array(self, value: np.ndarray, names: Names) -> None:
        if value.dtype == object:
            self._guard_computed(
                value, "an array of objects", lambda: tuple(value.ravel().tolist())
            )
            self._add_all(value.ravel().tolist(), names)
        elif value.dtype.name in DTYPES:
            # The guard is on the memory, whatever the class makes of it.
            self._guard(value if type(value) is np.ndarray else value.view(np.ndarray), "", None)
        else:
            self._guard_computed(value, f"an array of dtype {value.dtype}", value.tobytes)
        if "flags" in names:
            self._guard_computed(value, "the flags of an array", lambda: value.flags.num)
        if type(value) is not np.ndarray:
            self._visit_instance(value, names)

    def _visit_instance(self, value: object, names: Names) -> None:
        """Visit the attributes that code names, and those that methods of these names use."""
        cls = type(value)
        names = with_methods(cls, names)
        members = getattr(value, "__dict__", None)
        possible = self._possible_attributes(cls, names)
        self._visit_attributes(members, names, possible, filled_in(cls, possible))
        if not is_installed(cls.__module__):
            self._guard_attribute(value, "__class__", value.__class__, f"class of {self._source}")
            if type(members) is dict and replaces_attributes(cls):
                self._guard_attribute(value, "__dict__", members, f"{self._source}.__dict__")
        # A property hides an attribute.
        own = names & members.keys() if type(members) is dict else frozenset()
        asked = {*names, "__getattr__"} if names & EXISTENCE_TESTS else own
        self._visit_members(value, names, {*asked, *looked_up(cls, names)})
        if isinstance(value, BaseException):
            self._follow((Edge(value, EdgeKind.SLOT, "args", value.args),), names)
        elif type(value) is CACHE and not is_installed(str(value.__module__)):
            self._guard_live(
                value, "cache_clear", CacheClears(value), f"{self._source}.cache_clear"
            )
        wrapped = members.get("__wrapped__") if type(members) is dict else None
        if wrapped is None and is_installed(cls.__module__):
            # A prepared function, say. Classes of the program's may answer with anything.
            wrapped = getattr(value, "__wrapped__", None)
        if isinstance(wrapped, CALLABLES):
            self._add(wrapped, names)
        if (state := state_besides(value, names, self._source)) is not None:
            self._guard_computed(value, *state)
        elif type(members) is dict and any(is_keeper(c) for c in cls.__mro__):
            # The names in a library's methods do not count.
            kept = (np.ndarray, list, tuple, dict, set, deque, bool)
            own = frozenset(k for k in members if isinstance(members[k], kept))
            self._guard(members.keys(), "", list(members))
            self._visit_attributes(members, own)
            # The code may ask for attributes of their items.
            self._add_all((members[name] for name in sorted(own)), names | own)

    def _possible_attributes(self, cls: type, names: Names) -> Names:
        """Give the names that an instance may come to have itself.

        Code that asks for others fails, unless it expects that.
        """
        if cls not in self._class_names:
            self._class_names[cls] = frozenset(name for c in cls.__mro__ for name in vars(c))
        own = self._class_names[cls]
        return names if names & EXISTENCE_TESTS or "__getattr__" in own else names & own

    def _visit_function_attributes(self, function: Any, names: Names) -> None:
        """Visit the attributes of a function, which code finds by the function's name."""
        members = function.__dict__
        self._visit_attributes(
            members, names if names & EXISTENCE_TESTS else names & members.keys()
        )

    def _visit_items(self, value: Iterable[object], names: Names) -> None:
        if value is sys.modules:
            # What is imported meanwhile changes nothing of what was read.
            for name, module in list(sys.modules.items()):
                if not is_installed(name):
                    self._add(module, names, f"module {name}")
            return
        if isinstance(value, list):
            self._guard(value, "", list(value))
        items: Iterable[object] = value
        if isinstance(value, (dict, MappingProxyType)):
            self._guard(value.keys(), "", list(value))
            self._guard(value.values(), "", list(value.values()))
            items = value.values()
            self._add_all(value, names)
        for key, item in numbered(value, items):
            self._add(item, names, f"{self._source}[{key!r}]")
        if isinstance(value, defaultdict) and "default_factory" in names:
            slot: MemberDescriptorType = vars(defaultdict)["default_factory"]
            self._visit_slot(value, "default_factory", slot, names)
        if not is_library(type(value).__module__) and type(value).__module__ != "builtins":
            self._visit_instance(value, names)

    def _visit_attributes(
        self,
        members: object,
        names: Names,
        possible: Names | None = None,
        filled: Names = frozenset(),
    ) -> None:
        """Guard named attributes in a `__dict__`, and that those that are possible are missing."""
        if type(members) is not dict:
            return
        known = names & members.keys()
        if names & ANY_ATTRIBUTE:
            known = frozenset(k for k in members if isinstance(k, str))
        self._follow(named_edges(members, EdgeKind.ATTRIBUTE, sorted(known)), names)
        missing = (names if possible is None else possible) - members.keys()
        for name in sorted(missing & filled):
            self._guard_filling(members, name, functools.partial(members.__contains__, name))
        if names & ANY_ATTRIBUTE:
            if missing & filled:
                self._guard_keys(members, f"attributes of {self._source}")
            else:
                self._guard(members, "", list(members))
            return
        for name in sorted(missing - filled):
            self._guard(members, name, None, f"{self._source}.{name}")

    def _visit_members(self, value: object, names: Names, asked: Collection[str]) -> None:
        """Visit what code finds on a class and its bases, or on the class of an object.

        That names in `asked` are missing there is guarded, too.
        """
        cls = value if isinstance(value, type) else type(value)
        if names & ANY_ATTRIBUTE:
            own = (vars(c) for c in cls.__mro__ if not is_installed(c.__module__))
            names |= {name for members in own for name in members if name[:2] != "__"}
        is_any = bool(names & ANY_MEMBER)
        goes_up = bool(names & BASES)
        first: dict[str, type] = {}
        for owner, name, member in lookups(cls, names, asked, goes_up):
            at = cls if first.setdefault(name, owner) is owner else owner
            if member is not MISSING:
                self._visit_member(value, owner, at, (name, member), names)
            elif not is_any:
                self._guard_absent_member(owner, name, f"{at.__qualname__}.{name}")
        for owner in filter(is_open, cls.__mro__ if is_any else ()):
            self._guard_keys(members_of_class(owner), f"members of {owner.__qualname__}")
        if any(map(is_open, cls.__mro__[1:])):
            source = f"base classes of {cls.__qualname__}"
            self._guard_attribute(cls, "__mro__", cls.__mro__, source)

    def _visit_member(
        self, value: object, owner: type, at: type, found: tuple[str, Any], names: Names
    ) -> None:
        name, member = found
        if isinstance(member, MemberDescriptorType):
            if not isinstance(value, type) and name not in LAYOUT:
                self._visit_slot(value, name, member, names)
            return
        if is_immutable(owner) or is_library(vars(owner).get("__module__")):
            return
        source = f"{at.__qualname__}.{name}"
        self._guard(members_of_class(owner), name, member, source)
        self._add(function_of(member), names, source)
        if isinstance(member, functools.partialmethod):
            members = vars(member)
            self._follow(named_edges(members, EdgeKind.ATTRIBUTE, ("args", "keywords")), names)
        elif hasattr(type(member), "__get__") and not is_installed(type(member).__module__):
            # A descriptor of the program's may keep something itself.
            self._add(member, names, source)

    def _visit_slot(
        self, value: object, name: str, slot: MemberDescriptorType, names: Names
    ) -> None:
        if is_set(slot, value):
            source = f"{self._source}.{name}"
            if isinstance(value, (dict, np.ndarray)):
                # A guard on it would be on its content.
                self._guard_computed(value, source, functools.partial(slot.__get__, value))
            else:
                self._guard(value, name, slot.__get__(value), source)
            self._add(slot.__get__(value), names, source)
        elif names & EXISTENCE_TESTS:
            self._guard_filling(value, name, functools.partial(is_set, slot, value))

    # ----------------------------------------------------------------------------------------------
    # The code of a function

    def _visit_function(self, function: FunctionType) -> None:
        self._reader = id(function)
        members = function.__globals__
        if is_library(members.get("__name__")):
            self._visit_wrapped(function)
            return
        cells = list(cell_edges(function))
        names = names_for(function, [edge.value for edge in cells])
        self._all_names |= names
        self._assigned |= attributes_assigned(function.__code__)
        if "setattr" in names:
            self._assigned |= names
        if function.__name__ == "__exit__" and hides_errors(function.__code__):
            self._all_names |= {"except"}
        self._follow(cells, names)
        # Attributes that are called like a global are none.
        read = names if names & NAMESPACES else names & globals_used(function.__code__)
        self._follow(named_edges(members, EdgeKind.GLOBAL, sorted(read & members.keys())), names)
        asked = inspected(function.__code__).variables
        for edge in (*cells, *named_edges(members, EdgeKind.GLOBAL, sorted(asked))):
            if edge.key in asked and isinstance(edge.value, ModuleType):
                self._visit_whole_module(edge.value, names)
        if not is_installed(str(members.get("__name__"))):
            self._guard_missing(function, names)
            self._visit_imports(function, names)
            self._guard_builtins(function, read)
        self._add_all(function.__defaults__ or (), names)
        self._guard(function, "__defaults__", function.__defaults__, f"defaults of {self._source}")
        self._guard(
            function,
            "__kwdefaults__",
            function.__kwdefaults__,
            f"defaults of keywords of {self._source}",
        )
        self._add(function.__kwdefaults__, names)
        # Reloading a module may put other code into the function.
        self._guard(function, "__code__", function.__code__, f"code of {self._source}")
        self._visit_function_attributes(function, names)

    def _visit_wrapped(self, function: FunctionType) -> None:
        """Visit the user's functions that a library's function wraps."""
        if function.__code__ in READ_ENVIRONMENT:
            self._guard_environment()
        wrapped = (edge.value for edge in cell_edges(function))
        self._add_all((value for value in wrapped if callable(value)), frozenset())
        registry = getattr(function, "registry", None)
        if isinstance(registry, MappingProxyType):
            self._add(registry, frozenset())

    def _visit_imports(self, function: FunctionType, names: Names) -> None:
        """Visit the modules that code imports when it runs, and guard the environment."""
        package = function.__globals__.get("__package__")
        imported = modules_imported(function.__code__)
        if names & IMPORTERS:
            imported = names
        for name in sorted(names):
            for full in (name, f"{package}.{name}") if package else (name,):
                module = sys.modules.get(full)
                if isinstance(module, ModuleType):
                    if not is_installed(full):
                        self._guard(sys.modules, full, module, f"module {full}")
                        self._add(module, names, full)
                elif name in imported and full not in sys.modules and may_be_own(full):
                    read = functools.partial(is_loaded, full)
                    self._guard_filling(sys.modules, f"module {full}", read)
        if names & ENVIRONMENT:
            self._guard_environment()

    # ----------------------------------------------------------------------------------------------
    # After the recording

    def expect_same_random(self, imports: list[tuple[GlobalStates, GlobalStates]]) -> None:
        """Raise `TypeError` if the recording drew random numbers, or a recording check fails.

        What a module drew while it was imported (its states before and after in `imports`) does
        not count: it is imported once.
        """
        for generator, state in self._random_states:
            expected = state
            for before, after in imports:
                if before.get(id(generator)) == expected:
                    expected = after[id(generator)]
            if random_state(generator) != expected:
                raise random_numbers_error(getattr(generator, "__name__", type(generator).__name__))
        for check in RECORDING_CHECKS:
            check(*self.call)


#: What else a recording must not have done: called with the function and its arguments after it was
#: recorded, and raises where a replay would be wrong. Entered by packages above this one.
RECORDING_CHECKS: list[Callable[[Callable[..., object], tuple[object, ...]], None]] = []


Collected = TypeVar("Collected", bound=GuardCollector)


def collect_guards(function: Callable[..., object], args: tuple[object, ...]) -> GuardCollector:
    """Collect the guards of a function; its generators and those in its arguments must not draw.

    Raises `TypeError` as `GuardCollector` does.
    """
    return collected(GuardCollector, function, args)


def collected(
    kind: type[Collected], function: Callable[..., object], args: tuple[object, ...]
) -> Collected:
    """Collect the guards of a function as `collect_guards` does, with a collector of a class."""
    guards = kind(function)
    bare = [arg.value if isinstance(arg, _core.Const) else arg for arg in args]
    guards.visit_arguments(bare)
    guards._random_states += GuardCollector(bare)._random_states
    guards.call = function, args
    for container in unseen_containers(bare):
        guards._guard_argument(container)
    return guards
