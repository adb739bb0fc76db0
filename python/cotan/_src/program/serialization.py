"""Saves programs and pullbacks to files, with the structure of their arguments, and loads them.

A pullback gives its structure as an outline: nested tuples of plain objects. In a file it is JSON.
That holds names in place of classes, and nothing that would be run; classes of the same names and
without any code stand in for them when it is read.
"""

import functools
import json
import operator
import os
import stat
import sys
from collections.abc import Iterable, Sequence
from pickle import PicklingError
from typing import Any, TypeAlias

import numpy as np

from cotan import _core
from cotan._src.tree import class_registry

# As deep as structures may be nested that are taken apart.
_MAX_DEPTH = 1000

#: What JSON holds.
_Json: TypeAlias = bool | int | str | Sequence["_Json"] | None
#: Classes that replace others, by what they are made from.
_Made: TypeAlias = dict[tuple[object, ...], type]


def load(path: str | bytes | os.PathLike[str] | os.PathLike[bytes], *, mmap: bool = False) -> Any:
    """Load what `save` wrote to a file: a pullback or a program.

    Nothing in the file is run, and it may be anything: what does not have the right format, is of a
    later version of it, or was damaged, is refused. No class is imported; cotangents of objects are
    `Tangent`s.

    Parameters
    ----------
    path
        A regular file.
    mmap
        Use the arrays where they are in the file, instead of reading them: processes that load the
        same file share the memory. They are checked once, now. Whoever writes to the file while it
        is in use changes numbers, and whoever makes it shorter ends the process (`SIGBUS`):
        `save` does neither, it replaces a file.

    Returns
    -------
    A `Pullback` or a `Program`.

    Raises
    ------
    OSError
        When the file cannot be read.
    ValueError
        When it is not a regular file, or its contents are not valid. The message says why.

    >>> import cotan as ct, os, tempfile
    >>> _, back = ct.pullback(lambda x: x**2, 3.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     back.save(os.path.join(folder, "square.cotan"))
    ...     again = ct.load(os.path.join(folder, "square.cotan"), mmap=True)
    >>> float(again(1.0)[0])
    6.0
    """
    if mmap:
        try:
            found = os.stat(os.fspath(path))
        except (TypeError, ValueError):
            return _core.load_file(path)  # which says what is no path
        # What is no file, or is empty, the other way has an error for.
        if stat.S_ISREG(found.st_mode) and found.st_size > 0:
            return _core.load_memory(np.memmap(os.fsdecode(path), dtype=np.uint8, mode="r"))
    return _core.load_file(path)


def portable(outline: dict[str, Any]) -> bytes:
    """Give the JSON of an outline."""
    if outline["arrays"] is not None:
        raise PicklingError(
            "the cotangents of this pullback are looked up by the captured arrays themselves "
            "(wrt=[a.w]), which a file cannot refer to; pass them as arguments, or pickle the "
            "pullback together with the object that has the arrays"
        )
    plain = ("avals", "leaves", "active", "asked", "names", "bare", "held")
    out = {key: outline[key] for key in plain}
    try:
        out["results"] = _portable(outline["results"])
        out["arguments"] = [_portable(tree) for tree in outline["arguments"]]
        text = json.dumps(out, separators=(",", ":"), allow_nan=False)
    except RecursionError as error:
        raise PicklingError(
            "the arguments or results are nested too deeply for a file (Python's recursion limit "
            f"is {sys.getrecursionlimit()}); use flatter structures, such as lists of arrays"
        ) from error
    return text.encode("utf-8", "surrogatepass")


def _portable(tree: Any) -> _Json:
    if tree is None or isinstance(tree, int):
        return tree
    tag, *rest = tree
    if tag == "back":
        return [tag, *rest]
    items = [_portable(item) for item in rest[-1]]
    if tag == "tuple":
        return [tag, _class_name(rest[0]), items]
    if tag == "list":
        return [tag, items]
    if tag == "dict":
        return [tag, [_key(key) for key in rest[0]], items]
    if tag == "object":
        what = rest[0] if isinstance(rest[0], type) else type(rest[0])
        return [tag, _class_name(what), list(rest[1]), items]
    form, original, keys, _ = rest
    if form == "const":
        return ["other", form, None, [], items]
    # A subclass of list or dict is the plain thing in a file; attributes are no cotangents.
    _refuse_projection(type(original))
    if form == "list":
        return ["list", items]
    keys = [_key(key) for key in keys]
    if form == "dict":
        return ["dict", keys, items]
    if form == "tuple":
        return ["tuple", _class_name(type(original)), items]
    return ["other", form, _class_name(type(original)), keys, items]


def _class_name(cls: type | None) -> _Json:
    """Give the name of a class, with the names of the entries of a named tuple."""
    if cls is None:
        return None
    _refuse_projection(cls)
    name = [cls.__module__, cls.__qualname__]
    fields = getattr(cls, "_fields", None) if issubclass(cls, tuple) else None
    return [*name, list(map(str, fields))] if fields is not None else name


def _refuse_projection(cls: type) -> None:
    if any(c in class_registry._PROJECTIONS for c in cls.__mro__):
        raise PicklingError(
            f"cotangents of {cls.__qualname__} are projected by Python code (ct.project_to), which "
            "a file cannot contain; pickle the pullback instead"
        )


def _key(key: object) -> _Json:
    """Give the key of a dictionary in a form that JSON has."""
    if isinstance(key, str):
        return str(key)
    if key is None or type(key) is bool:
        return ["constant", key]
    if type(key) is int:
        return ["int", str(key)]
    if type(key) is float:
        return ["float", key.hex()]
    if type(key) is bytes:
        return ["bytes", key.hex()]
    if type(key) is tuple:
        return ["tuple", [_key(part) for part in key]]
    raise PicklingError(
        f"a file cannot contain {key!r}, a key of a dictionary among the arguments or results; use "
        "strings, numbers or tuples of these as keys, or pickle the pullback instead"
    )


def outline(section: bytes) -> dict[str, Any]:
    """Give the outline that the JSON is of; it may be anything.

    Raises `ValueError` when it is no outline at all. What is in it is looked at later.
    """
    try:
        told = json.loads(section.decode("utf-8", "surrogatepass"))
        made: _Made = {}
        told["results"] = _restored(told["results"], made, 0)
        told["arguments"] = [_restored(tree, made, 0) for tree in told["arguments"]]
        told["arrays"] = told["natural"] = None
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise ValueError(
            "not a valid pullback: its description of arguments and results cannot be read "
            f"({error})"
        ) from error
    return told  # type: ignore[no-any-return]


def _restored(tree: Any, made: _Made, depth: int) -> object:
    if tree is None or isinstance(tree, int):
        return tree
    if depth > _MAX_DEPTH:
        raise ValueError("it is nested too deeply")
    tag, *rest = tree
    if tag == "back":
        return (tag, *rest)
    items = [_restored(item, made, depth + 1) for item in rest[-1]]
    if tag == "list":
        (_,) = rest
        return tag, items
    name, *more, _ = rest
    if tag == "tuple":
        () = more
        return tag, None if name is None else _stand_in(name, tuple, made), items
    if tag == "dict":
        () = more
        return tag, [_restored_key(key, 0) for key in name], items
    if tag == "object":
        (names,) = more
        return tag, _stand_in(name, object, made), list(map(str, names)), items
    original, keys = more
    if name == "const":
        return "other", name, None, [], items
    if name != "registered":
        raise ValueError(f"there is no structure of the kind {name!r}")
    keys = [_restored_key(key, 0) for key in keys]
    return "other", name, _stand_in(original, object, made)(), keys, items


def _restored_key(key: Any, depth: int) -> object:
    if isinstance(key, str):
        return key
    kind, value = key
    if kind == "constant" and (value is None or isinstance(value, bool)):
        return value
    if kind == "int":
        return int(value)
    if kind == "float":
        return float.fromhex(value)
    if kind == "bytes":
        return bytes.fromhex(value)
    if kind == "tuple" and depth < _MAX_DEPTH:
        return tuple(_restored_key(part, depth + 1) for part in value)
    raise ValueError(f"there is no key of the kind {kind!r}")


def _stand_in(name: Iterable[object], base: type, made: _Made) -> type:
    """Give a class of this name without any code, the same one for the same name."""
    module, qualname, *fields = map(_text, name)
    key = (base, module, qualname, *fields)
    if key not in made:
        contents: dict[str, object] = {"__module__": module, "__qualname__": qualname}
        if base is tuple:
            (names,) = fields or [()]
            contents["__slots__"] = ()
            if fields:
                contents["_fields"] = names
                contents["__repr__"] = functools.partialmethod(_repr)
            for i, field in enumerate(names):
                contents.setdefault(field, property(operator.itemgetter(i)))
        made[key] = type(qualname.rpartition(".")[2], (base,), contents)
    return made[key]


def _text(part: object) -> Any:
    if isinstance(part, str):
        return part
    if isinstance(part, list) and all(isinstance(field, str) for field in part):
        return tuple(part)
    raise ValueError("a class has no name")


def _repr(self: Any) -> str:
    entries = ", ".join(f"{n}={v!r}" for n, v in zip(self._fields, self, strict=False))
    return f"{type(self).__name__}({entries})"


def empty(cls: type) -> Any:
    """Make an object of a class without contents; no code of the class runs."""
    base: Any = next(c for c in cls.__mro__ if c in class_registry._BASES)
    return base.__new__(cls)
