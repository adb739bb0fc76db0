"""Reads structures that begin like another one: an entry for all that is below its place.

Problem: `in_axes` and `out_axes` of `vmap` say something of each array in a structure, in as much
detail as the user likes: once for a model, or for each of its fields.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from cotan import _core
from cotan._src.tree.structure import children_of, layout_of
from cotan._src.typing import Axis

_SHOWN = 20


def is_axis(entry: object) -> bool:
    """Say whether something is an axis: an integer, and no bool."""
    return isinstance(entry, int | np.integer) and not isinstance(entry, bool)


def spread(what: str, prefix: object, tree: object, paths: Sequence[str], root: str) -> list[Axis]:
    """Give the axis, or None, that a prefix says for each leaf of a structure.

    Parameters
    ----------
    what
        What errors call the prefix.
    prefix
        An axis or None for all leaves, or lists, tuples, dictionaries and objects of these, which
        begin like `tree`. A dictionary may name the fields of an object.
    tree
        The structure, without `ct.const`.
    paths
        The paths of its leaves, which begin with `root`.

    Raises
    ------
    ValueError
        When the prefix does not fit the structure; it names the path.
    TypeError
        When something in the prefix is neither an axis nor None nor a container.
    """
    if prefix is None or is_axis(prefix):
        return [prefix] * len(paths)  # type: ignore[list-item]
    places = list(_places(what, prefix, tree, root))
    found, at = [], 0
    for path in paths:
        # Leaves come in the order of the places, so the search seldom goes on.
        for step in range(len(places)):
            place, axis = places[(at + step) % len(places)]
            if lies_in(path, place):
                at += step
                found.append(axis)
                break
        else:
            raise ValueError(
                f"{what} says nothing of {path}; give its axis, or None if it has none of examples"
            )
    return found


def _places(what: str, prefix: Any, tree: Any, path: str) -> Iterator[tuple[str, Axis]]:
    """Give the entries of a prefix, each with the path that it stands for."""
    if prefix is None or is_axis(prefix):
        yield path, prefix
        return
    entries = _parts(prefix)
    if entries is None:
        if not _core.structure(tree).leaves:  # of what has no arrays nothing has to be said
            return
        raise TypeError(
            f"{what} has {prefix!r} for {path}; an entry is an axis, None, or a structure of these "
            "that begins like it"
        )
    parts = _parts(tree)
    if parts is None:
        raise ValueError(
            f"{what} has {_described(prefix)} for {path}, which is {_described(tree)}; give one "
            "axis, or None"
        )
    is_list = bool(entries) and _is_numbered(entries)
    if (is_list and len(entries) != len(parts)) or not entries.keys() <= parts.keys():
        raise ValueError(
            f"{what} has {_described(prefix)} for {path}, which is {_described(tree)}; give one "
            "entry for each of its parts, or one axis or None for all of them"
        )
    for key, part in parts.items():
        if key in entries:
            yield from _places(what, entries[key], part, path + step_to(key))


def _parts(tree: Any) -> dict[object, Any] | None:
    """Give the parts of a container by key, index or name; None for what has none."""
    if isinstance(tree, Mapping) and not isinstance(tree, dict):
        return dict(tree)
    how = layout_of(tree)
    if how is None or how.is_whole:
        return None
    names = how.names
    pairs = children_of(tree, how)
    return {names[k] if names and k < len(names) else k: part for k, part in pairs}


def _is_numbered(parts: dict[object, Any]) -> bool:
    return all(key == i and is_axis(key) for i, key in enumerate(parts))


def _described(tree: Any) -> str:
    """Say what stands at a place, with its keys, its length or its shape."""
    if isinstance(tree, (np.ndarray, _core.Array)):
        return f"an array of shape {tuple(tree.shape)}"
    parts = _parts(tree)
    name = type(tree).__name__
    article = "an" if name[0] in "aeiouAEIOU" else "a"
    if parts is None:
        return f"{article} {name}"
    if isinstance(tree, (list, tuple)) and _is_numbered(parts):
        return f"{article} {name} of {len(parts)}"
    keys = ", ".join(str(key) if isinstance(key, str) else repr(key) for key in [*parts][:_SHOWN])
    keys += ", ..." if len(parts) > _SHOWN else ""
    return f"{article} {name} with {keys or 'nothing in it'}"


def step_to(key: object) -> str:
    """Write a key as paths do."""
    return f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{key!r}]"


def lies_in(path: str, place: str) -> bool:
    """Say whether a path is that of a place, or leads on from there; the root has none."""
    return not place or path == place or path.startswith((f"{place}.", f"{place}["))
