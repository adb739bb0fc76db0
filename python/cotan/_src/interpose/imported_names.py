"""Names that modules imported before anything was recorded: `from numpy import zeros`.

While something is recorded they stand for what knows our arrays, in the modules of `sys.modules`
that are no library's, and in namespaces that a function reaches otherwise
(`interpose.reachable_namespaces`);
afterwards they are what they were. Each costs some time with every gradient, so of modules that
import all names of another one only those count that their code uses.

In modules that do not know of cotan so do `float`, `complex` and `type`, which nobody imports:
there `float(x)` can mean nothing but `x` as a number. Afterwards the builtin stands under the name.
"""

import builtins
import sys
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, NamedTuple

from cotan import _core
from cotan._src.interpose.number_classes import classes_of, codes, unaware
from cotan._src.interpose.reachable_namespaces import Namespace, apart
from cotan._src.runtime.values import DISPATCHER

# More names than these are not imported one by one.
_MANY = 24
# Modules of Python's own that make numbers of what they compute with: `x * Fraction(1, 3)`.
_COMPUTING = {"fractions"}
# Of longer tables the functions are not looked for.
_LONG = 64
# So many namespaces that no module has are followed.
_MOST = 16


class ImportedName(NamedTuple):
    """A name of a module, what it means, and what stands in for that."""

    names: dict[str, Any]
    name: str
    original: Any
    stand_in: Any


# What was found in modules, by their names; with the module, which may be another one meanwhile.
_found: dict[str, tuple[ModuleType, list[ImportedName]]] = {}
# The same for namespaces that no module has, by identity, with how many names they had; the newest.
_adopted: dict[int, tuple[Namespace, int, list[ImportedName]]] = {}
# The modules and namespaces of programs that do not know of cotan, by name or identity.
_unaware: dict[str | int, Any] = {}
# The modules of programs, with their names in `sys.modules`: others may come in their places.
_programs: list[tuple[str, ModuleType]] = []


def is_initializing(module: Any) -> bool:
    """Say whether a module is being loaded, and some of its names are missing still."""
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


# Modules that were being loaded when they were looked at, so that they get more names.
_growing: set[str] = set()


def follow(libraries: Collection[str], stand_in: Callable[[Any], Any]) -> bool:
    """Look for names in modules that are new, and let them take part in lifting.

    Says whether that is all: what another thread is loading has to be looked at again.
    """
    modules = {n: m for n, m in list(sys.modules.items()) if type(m) is ModuleType}
    gone = [n for n, (m, _) in _found.items() if modules.get(n) is not m]
    for name in gone:
        del _found[name]
        _unaware.pop(name, None)
    new = [n for n in modules if n == "__main__" or n not in _found or n in _growing]
    if not new and not gone:
        return True
    _growing.clear()
    _growing.update(n for n in new if n != "__main__" and is_initializing(modules[n]))
    apart = {*libraries, *sys.stdlib_module_names} - {"__main__", *_COMPUTING}

    def is_own(name: str, module: ModuleType) -> bool:
        # A library may stand under another name, too.
        names = name, str(vars(module).get("__name__", name))
        return not any(n.partition(".")[0] in apart for n in names)

    own = {n: m for n, m in modules.items() if is_own(n, m)}
    for name in new:
        module = modules[name]
        before = _by_place(_found[name][1]) if name in _found else {}
        _found[name] = module, _imported(module, stand_in, before) if name in own else []
        if name in own:
            _found[name][1].extend(_classes(name, module, stand_in))
    _programs[:] = [(n, m) for n, m in own.items() if not _is_installed(m)]
    _tell()
    elsewhere = [n for n in _growing if n in own and not _runs_here(modules[n])]
    return not elsewhere


def adopt(function: Any, libraries: Collection[str], stand_in: Callable[[Any], Any]) -> bool:
    """Let names take part in namespaces that a function reaches and that no module has.

    Says whether there are such: the next function of the same code may reach others.
    """
    found = apart(function, {*libraries, *sys.stdlib_module_names} - {"__main__"}, _adopted)
    found = [names for names in found if id(names) in _adopted or _is_program(names, stand_in)]
    new = [names for names in found if _adopted.get(id(names), (None, 0))[1] != len(names)]
    for names in new:
        namespace = Namespace(names)
        _, _, entries = _adopted.pop(id(names), (None, 0, []))
        entries = _imported(namespace, stand_in, _by_place(entries))
        entries.extend(_classes(id(names), namespace, stand_in))
        _adopted[id(names)] = namespace, len(names), entries
    for key in list(_adopted)[:-_MOST]:
        del _adopted[key]
        _unaware.pop(key, None)
    if new:
        _tell()
    return bool(found)


def _is_program(names: dict[str, Any], stand_in: Callable[[Any], Any]) -> bool:
    """Say whether a namespace is that of a file which computes.

    Text that somebody executes is his own business, and so he has to say that it takes part. The
    methods of named tuples, say, have namespaces of their own, too.
    """
    values = list(names.values())
    if not any(_computes(v, stand_in) for v in values):
        return False
    own = (v for v in values if isinstance(v, FunctionType) and v.__globals__ is names)
    return "__file__" in names or any(Path(v.__code__.co_filename).is_file() for v in own)


def _tell() -> None:
    """Say which names are lifted from now on."""
    unaware(_unaware.values())
    imported = [entry for _, entries in _found.values() for entry in entries]
    imported += [entry for _, _, entries in _adopted.values() for entry in entries]
    _core.set_imported(imported, _programs)


def _runs_here(module: ModuleType) -> bool:
    """Say whether this thread is loading a module: a program may run while it is imported."""
    frame: Any = sys._getframe()
    while frame is not None:
        if frame.f_globals is vars(module):
            return True
        frame = frame.f_back
    return False


def _is_installed(module: Any) -> bool:
    """Say whether a module is a package's: another one will not come in its place."""
    # A module's own `__getattr__` is not asked, which may raise anything.
    file = vars(module).get("__file__")
    return isinstance(file, str) and bool({"site-packages", "dist-packages"} & {*Path(file).parts})


def _classes(
    name: str | int, module: Any, stand_in: Callable[[Any], Any]
) -> Iterator[ImportedName]:
    """Give the classes of numbers that a module calls which does not know of cotan."""
    _unaware.pop(name, None)
    names = vars(module)
    # Of packages there are many that compute nothing.
    if _is_installed(module) and not any(_computes(v, stand_in) for v in list(names.values())):
        return
    found = classes_of(module)
    if found is None:
        return
    _unaware[name] = module
    for own, other in found.items():
        builtin = vars(builtins)[own]
        value = names.setdefault(own, builtin)
        if value is builtin or value is other:
            yield ImportedName(names, own, builtin, other)


def _computes(value: Any, stand_in: Callable[[Any], Any]) -> bool:
    if isinstance(value, ModuleType):
        return vars(value).get("__name__") in ("math", "numpy")
    if isinstance(value, BuiltinFunctionType) and value.__module__ in ("math", "cmath"):
        return True
    return callable(value) and stand_in(value) is not None


# A name in a dictionary, which is known by its identity.
_Place = tuple[int, str]


def _by_place(entries: list[ImportedName]) -> dict[_Place, ImportedName]:
    return {(id(e.names), e.name): e for e in entries}


def _imported(
    module: Any, stand_in: Callable[[Any], Any], before: dict[_Place, ImportedName]
) -> list[ImportedName]:
    """Give the names of a module, and the keys of its tables (`SOLVERS = {"lu": solve}`)."""
    names = vars(module)
    found = _in_names(names, stand_in, before)
    if len(found) > _MANY:
        used = {name for code in codes(module) for name in code.co_names}
        found = [entry for entry in found if entry.name in used]
    for name, value in list(names.items()):
        if type(value) is dict and value is not names and name[:2] != "__" and len(value) <= _LONG:
            entries = _in_names(value, stand_in, before)
            # Functions that NumPy dispatches lead to what stands in for them by themselves.
            found += [e for e in entries if not isinstance(e.original, DISPATCHER)]
    return found


def _in_names(
    names: dict[str, Any], stand_in: Callable[[Any], Any], before: dict[_Place, ImportedName]
) -> list[ImportedName]:
    found = []
    for name, value in list(names.items()):
        known = before.get((id(names), name))
        if known is not None and value is known.stand_in:
            # It is lifted now, by a recording that goes on.
            found.append(known)
        elif type(name) is str and (other := stand_in(value)) is not None:
            found.append(ImportedName(names, name, value, other))
    return found
