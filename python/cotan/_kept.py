"""What functions leave behind: variables that they assign to, lists that they append to.

A solver calls a program's function on values first, and it is called again with what is followed.
What the first calls left behind (the largest force so far, the control that a sampler holds, how
many entries a table has) is taken back in between, so that the second ones begin where these did.
"""

import dis
import sys
from collections import deque
from collections.abc import Iterator
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

from cotan._frames import FOREIGN
from cotan._lift_reach import PLAIN, parts

# So many objects are looked at; what a function keeps is not far from it.
_FAR = 100
# Longer collections are tables, not what a run has left behind.
_LONG = 10_000
_COLLECTIONS = (list, dict, set, deque)
_NOTHING = object()
_STORING = dis.opmap["STORE_GLOBAL"]
# Libraries whose objects are left alone; these hold what is a program's.
_OTHERS = (FOREIGN | sys.stdlib_module_names) - {"builtins", "collections", "functools", "types"}


class Kept:
    """What some functions, and what they reach, have kept by now."""

    def __init__(self, *functions: Any) -> None:
        self._places = list(_places(functions))
        self.hold()

    def hold(self) -> None:
        """Remember what is there by now."""
        self._held = [place.held() for place in self._places]
        self._noted = self._held

    def note(self) -> None:
        """Remember what a call has made of it."""
        self._noted = [place.held() for place in self._places]

    def has_changed(self) -> bool:
        """Say whether anything is not what it was."""
        pairs = zip(self._places, self._held, strict=True)
        return any(place.differ(held, place.held()) for place, held in pairs)

    def restore(self) -> bool:
        """Put everything back. Says whether anything had changed."""
        return self._put_back([place.held() for place in self._places])

    def undo(self) -> bool:
        """Put back what the call changed that was noted; what others keep stays."""
        return self._put_back(self._noted)

    def _put_back(self, made: list[Any]) -> bool:
        places = zip(self._places, self._held, made, strict=True)
        changed = [(p, held, now) for p, held, now in places if p.differ(held, now)]
        for place, held, now in changed:
            place.put_back(held, now)
        return bool(changed)


class _Variable:
    """A variable of an enclosing function."""

    def __init__(self, cell: CellType) -> None:
        self._cell = cell

    def held(self) -> Any:
        try:
            return self._cell.cell_contents
        except ValueError:
            return _NOTHING

    def differ(self, held: Any, now: Any) -> bool:
        return now is not held

    def put_back(self, held: Any, _now: Any) -> None:
        if held is _NOTHING:
            del self._cell.cell_contents
        else:
            self._cell.cell_contents = held


class _Global(_Variable):
    """A name of a module that a function assigns to."""

    def __init__(self, names: dict[str, Any], name: str) -> None:
        self._names, self._name = names, name

    def held(self) -> Any:
        return self._names.get(self._name, _NOTHING)

    def put_back(self, held: Any, _now: Any) -> None:
        if held is _NOTHING:
            self._names.pop(self._name, None)
        else:
            self._names[self._name] = held


class _Collection:
    """A list, a dictionary, the attributes of an object."""

    def __init__(self, items: Any) -> None:
        self._items = items
        # A program's own class may have other methods under these names.
        kinds = type(items).__mro__
        self._kind: Any = next(c for c in kinds if c.__module__ in {"builtins", "collections"})
        self._plain = dict if isinstance(items, dict) else set if isinstance(items, set) else list

    def held(self) -> Any:
        return self._plain(self._items)

    def differ(self, held: Any, now: Any) -> bool:
        if len(now) != len(held):
            return True
        if isinstance(now, set):
            return bool(now != held)
        if isinstance(now, dict):
            return any(now.get(k, _NOTHING) is not v for k, v in held.items())
        return any(a is not b for a, b in zip(now, held, strict=True))

    def put_back(self, held: Any, now: Any) -> None:
        if self._plain is not dict:
            self._kind.clear(self._items)
            add = self._kind.extend if self._plain is list else self._kind.update
            add(self._items, held)
            return
        # Others may have written to other keys.
        for key in [k for k in now if k not in held]:
            self._kind.pop(self._items, key, None)
        for key, value in held.items():
            if now.get(key, _NOTHING) is not value:
                self._kind.__setitem__(self._items, key, value)


def _places(functions: tuple[Any, ...]) -> Iterator[Any]:
    seen: set[int] = set()
    waiting: list[Any] = list(functions)
    while waiting and len(seen) < _FAR:
        value = waiting.pop()
        if isinstance(value, (*PLAIN, ModuleType, type)) or id(value) in seen:
            continue
        seen.add(id(value))
        if str(type(value).__module__).partition(".")[0] in _OTHERS:
            continue
        if isinstance(value, _COLLECTIONS):
            if len(value) > _LONG:
                continue
            yield _Collection(value)
        elif isinstance(value, FunctionType):
            yield from map(_Variable, value.__closure__ or ())
            yield from (_Global(value.__globals__, name) for name in _assigned(value.__code__))
        waiting += parts(value)
        try:
            # No code of the object's is run.
            members = object.__getattribute__(value, "__dict__")
        except AttributeError:
            continue
        # Functions have attributes of their own only where a program gives them some.
        if type(members) is dict and (members or not isinstance(value, FunctionType)):
            yield _Collection(members)
            waiting += members.values()


def _assigned(code: CodeType) -> set[str]:
    """Name the globals that some code assigns to."""
    names = set()
    # A look at the bytes is a thousand times faster than at the instructions.
    if _STORING in code.co_code[::2]:
        steps = dis.get_instructions(code)
        names = {str(step.argval) for step in steps if step.opcode == _STORING}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _assigned(constant)
    return names
