"""Tells fields of a class that hold floats from those that hold integers, by their annotations.

Annotations are read as text: nothing that they name is looked up, so one that cannot be evaluated
says what it says.
"""

import ast
import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import ForwardRef, TypeVar, get_args, get_origin

_Part = TypeVar("_Part")

_FLOATS = frozenset({"float", "complex", "floating", "inexact", "Float", "Real", "Complex"})
_INTEGERS = frozenset({"int", "integer", "Int", "Integral", "SupportsIndex"})
# What stands in brackets behind these is no type of a part.
_OPAQUE = frozenset({"Literal", "Callable", "ClassVar", "type", "Type"})
_MAPPINGS = frozenset({"dict", "Dict", "Mapping", "MutableMapping", "defaultdict", "OrderedDict"})


def annotated_numbers(cls: type) -> dict[str, bool] | None:
    """Say whether the numbers in a field are floats; fields annotated otherwise are left out.

    >>> class Circle:
    ...     radius: float
    ...     center: "tuple[float, float]"
    ...     segments: int | None
    ...     name: str
    >>> annotated_numbers(Circle)
    {'radius': True, 'center': True, 'segments': False}
    """
    found: dict[str, bool] = {}
    for owner in reversed(cls.__mro__):
        for name, annotation in _annotations(owner).items():
            names = set(_type_names(annotation))
            found.pop(name, None)
            if any(n in _FLOATS or n.startswith(("float", "complex")) for n in names):
                found[name] = True
            elif any(n in _INTEGERS or n.startswith(("int", "uint")) for n in names):
                found[name] = False
    return found or None


def _annotations(cls: type) -> Mapping[str, object]:
    try:
        return inspect.get_annotations(cls)
    except Exception:  # noqa: BLE001, any code may stand in an annotation
        return {}


def _type_names(annotation: object) -> Iterator[str]:
    """Give the last parts of the names of types in an annotation: of its parts, too."""
    if isinstance(annotation, str):
        try:
            yield from _names_in(ast.parse(annotation.strip(), mode="eval").body)
        except (SyntaxError, ValueError):
            return
    elif isinstance(annotation, ForwardRef):
        yield from _type_names(annotation.__forward_arg__)
    elif (outer := get_origin(annotation)) is not None:
        name = getattr(outer, "__name__", getattr(outer, "_name", ""))
        for part in _parts(name, get_args(annotation)):
            yield from _type_names(part)
    else:
        yield getattr(annotation, "__name__", "")


def _names_in(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            yield from _type_names(node.value)
    elif isinstance(node, ast.Subscript):
        name = next(_names_in(node.value), "")
        inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        for part in _parts(name, inner):
            yield from _names_in(part)
    elif isinstance(node, (ast.BinOp, ast.Tuple, ast.List)):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                yield from _names_in(child)


def _parts(outer: str, inner: Sequence[_Part]) -> Sequence[_Part]:
    """Give what stands in brackets behind a type, as far as it says what the parts are."""
    if outer in _OPAQUE:
        return ()
    if outer == "Annotated":  # behind the type stands whatever else is said of it
        return inner[:1]
    if outer in _MAPPINGS:  # keys are no parts
        return inner[1:]
    return inner
