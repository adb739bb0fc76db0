"""Decides how the objects of a class are flattened, once per class.

The compiled module keeps what `layout` returns as long as the class lives, and asks for
`__trainable__` each time. The layout does not refer to the class, so keeping it keeps no class
alive.
"""

import enum
import functools
import sys
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import combinations
from typing import Any, NamedTuple, TypeVar, overload

import numpy as np

from cotan import _core
from cotan._src.tree.annotations import annotated_numbers
from cotan._src.typing import Function

_Class = TypeVar("_Class", bound=type)
_Flatten = Callable[[Any], tuple[object, ...]]
_Unflatten = Callable[[Any, tuple[Any, ...]], object]
# Children, their names or indices, and what else there is.
_Parts = tuple[tuple[object, ...], tuple[object, ...], object]
_Take = Callable[[Any], _Parts]
_Project = Callable[[Any, Any], object]


class Layout(NamedTuple):
    """How objects of a class are taken apart and made again."""

    kind: str
    """`tuple`, `list`, `dict`, `object`, `registered`, or `foreign`: not taken apart."""
    make: Function | None = None
    """Makes an empty object of a class that it is given: the `__new__` of the built-in base."""
    slots: tuple[str, ...] = ()
    """Names of slots, as `getattr` takes them."""
    has_dict: bool = False
    hidden: bool = False
    """Whether there are slots that attribute access does not reach."""
    skipped: frozenset[str] | None = None
    """Entries of `__dict__` that are computed again from the others: cached properties."""
    names: tuple[str, ...] | None = None
    """Names of the entries of a named tuple."""
    items: Function | None = None
    """Gives the items of a dictionary in their order."""
    put: Function | None = None
    """Sets an item of a dictionary, or appends to a list."""
    flatten: _Take | None = None
    """Of a registered class: gives children, their names or indices, and what else there is."""
    unflatten: _Unflatten | None = None
    project: _Project | None = None
    numbers: dict[str, bool] | None = None
    """Whether the numbers in a field are floats, as its annotation says; fields of others lack."""
    is_data: bool = False
    """Whether integers in other fields are data, whatever there is besides."""
    is_foreign: bool = False
    """Whether objects are arrays of another library."""

    @property
    def is_whole(self) -> bool:
        """Whether objects have no parts for those who look for arrays of NumPy's and of cotan."""
        return self.is_foreign or self.kind == "foreign"


# Built-in classes whose subclasses are taken apart, with what tells them from each other.
_BASES: dict[type, str] = {
    OrderedDict: "dict",
    defaultdict: "dict",
    dict: "dict",
    list: "list",
    tuple: "tuple",
    types.SimpleNamespace: "object",
    object: "object",
}
# What classes of Python's own making have set in `__flags__`, and static ones of C have not.
_HEAP_TYPE = 1 << 9
# By these an object is an array to others.
_ARRAY_PROTOCOLS = ("__array__", "__dlpack__", "__array_interface__", "__cuda_array_interface__")
_REGISTERED: dict[type, tuple[_Take, _Unflatten]] = {}
_PROJECTIONS: dict[type, _Project] = {}


def layout(cls: type, sample: object) -> Layout | None:
    """Say how objects of a class are taken apart, given one of them; None when they are not."""
    project = next((_PROJECTIONS[c] for c in cls.__mro__ if c in _PROJECTIONS), None)
    registered = _REGISTERED.get(cls) or _of_optree(cls) or _of_jax(cls, sample)
    if cls is deque and registered is None:
        return Layout("registered", flatten=_items, unflatten=_deque, project=project or _as_deque)
    if registered:
        flatten, unflatten = registered
        numbers = annotated_numbers(cls)
        return Layout(
            "registered", flatten=flatten, unflatten=unflatten, project=project, numbers=numbers
        )
    if issubclass(cls, (Fraction, Decimal, set, frozenset)):
        return Layout("foreign")
    is_foreign = any(hasattr(cls, name) for name in _ARRAY_PROTOCOLS)
    if is_foreign and any(c.__module__.partition(".")[0] == "pandas" for c in cls.__mro__):
        # Compiled objects keep its values. What a walk finds beside them is no data, such as the
        # NaN that stands for missing strings.
        return Layout("registered", flatten=_of_pandas, unflatten=_as_it_was, is_foreign=True)
    if issubclass(cls, (type, enum.Enum)):
        return None
    base = next(c for c in cls.__mro__ if c in _BASES)
    kind = _BASES[base]
    slots, count, hidden = _slots(cls, base)
    if not _made_in_python(cls, base, count):
        return Layout("foreign") if is_foreign else None
    if issubclass(cls, defaultdict):
        slots = (*slots, "default_factory")
    has_dict = cls.__dictoffset__ != 0
    if kind == "object" and not slots and not has_dict:
        return Layout("foreign") if is_foreign else None
    skipped = frozenset(
        name
        for c in cls.__mro__
        for name, value in vars(c).items()
        if type(value) is functools.cached_property
    )
    names = getattr(cls, "_fields", None) if kind == "tuple" else None
    return Layout(
        kind,
        make=base.__new__,
        slots=slots,
        has_dict=has_dict,
        hidden=hidden,
        skipped=skipped or None,
        names=tuple(names) if names else None,
        items=getattr(base, "items", None),
        put=getattr(base, "__setitem__" if kind == "dict" else "append", None),
        project=project,
        numbers=annotated_numbers(cls),
        is_data=is_foreign or _of_standard_library(cls),
        is_foreign=is_foreign,
    )


def _of_pandas(table: Any) -> _Parts:
    """Take nothing out of a Series or DataFrame; refuse one that hides what is differentiated."""
    blocks = getattr(getattr(table, "_mgr", None), "blocks", ())
    if any(isinstance(x := block.values, _core.Array) and _core.is_active(x) for block in blocks):
        kind = type(table).__name__
        raise _core.NotDifferentiableError(
            f"a pandas.{kind} holds values that are differentiated, and is not taken apart: return "
            f"its to_numpy(), and make the {kind} of what the derivative's call gives"
        )
    return (), (), table


def _as_it_was(table: Any, _: tuple[Any, ...]) -> object:
    return table


def _items(items: deque[object]) -> _Parts:
    """Take a deque apart as a list is."""
    return tuple(items), tuple(range(len(items))), items.maxlen


def _deque(maxlen: int | None, items: tuple[object, ...]) -> deque[object]:
    return deque(items, maxlen)


def _as_deque(primal: deque[object], tangent: Any) -> deque[object]:
    """Give the gradient of a deque, which a list has as a list, as a deque."""
    return deque((tangent[i] for i in range(len(primal))), primal.maxlen)


def _of_standard_library(cls: type) -> bool:
    """Whether a class is of the standard library, where integers are never parameters.

    `SimpleNamespace` and what `make_dataclass` makes say that they are of `types`.
    """
    module = cls.__module__.partition(".")[0]
    return module in sys.stdlib_module_names and module not in {"builtins", "collections", "types"}


def _descriptors(cls: type, base: type) -> Iterator[tuple[str, types.MemberDescriptorType]]:
    """Give the slots of a class and of those it is derived from, the oldest first."""
    for owner in reversed(cls.__mro__[: cls.__mro__.index(base)]):
        found = {
            name: value
            for name, value in vars(owner).items()
            if type(value) is types.MemberDescriptorType
        }
        # A class lists its slots in order of their names; `__slots__` has that of the author.
        declared = vars(owner).get("__slots__", ())
        declared = [declared] if isinstance(declared, str) else list(declared)
        prefix = f"_{owner.__name__.lstrip('_')}"
        order = [n if n in found else prefix + n for n in map(str, declared)]
        for name in dict.fromkeys([n for n in order if n in found] + list(found)):
            yield name, found[name]


def _slots(cls: type, base: type) -> tuple[tuple[str, ...], int, bool]:
    """Give the slots that attribute access reaches, how many there are, and if some are hidden."""
    names: list[str] = []
    count = 0
    for name, descriptor in _descriptors(cls, base):
        count += 1
        owner = next(c for c in cls.__mro__ if name in vars(c))
        if vars(owner)[name] is descriptor:
            names.append(name)
    return tuple(names), count, len(names) < count


@functools.cache
def _sizes(base: type) -> dict[tuple[bool, bool], int]:
    """Give the sizes of objects of subclasses, by having a dictionary and weak references."""
    sizes = {}
    for n in range(3):
        for slots in combinations(("__dict__", "__weakref__"), n):
            try:
                probe = type("probe", (base,), {"__slots__": slots})
            except TypeError:  # the base has it already, or can have none
                continue
            sizes[_extras(probe)] = probe.__basicsize__
    probe = type("probe", (base,), {})
    sizes[_extras(probe)] = probe.__basicsize__
    return sizes


def _extras(cls: type) -> tuple[bool, bool]:
    return cls.__dictoffset__ != 0, cls.__weakrefoffset__ != 0


def _made_in_python(cls: type, base: type, slots: int) -> bool:
    """Whether objects of a class hold nothing but slots, a dictionary and what the base holds.

    What C code keeps in an object besides cannot be seen, and would be lost by making it again.
    """
    if cls is base:
        return base is not object
    if not all(c.__flags__ & _HEAP_TYPE for c in cls.__mro__[: cls.__mro__.index(base)]):
        return False
    own = _sizes(base).get(_extras(cls))
    pointer = object.__basicsize__ // 2
    new = next(
        c for c in cls.__mro__ if isinstance(vars(c).get("__new__"), types.BuiltinMethodType)
    )
    return own is not None and cls.__basicsize__ <= own + pointer * slots and new is _maker(base)


def _maker(base: type) -> type:
    return next(c for c in base.__mro__ if "__new__" in vars(c))


def copy_hidden(original: object, new: object) -> None:
    """Copy the slots of an object that attribute access does not reach."""
    cls = type(original)
    base = next(c for c in cls.__mro__ if c in _BASES)
    for name, descriptor in _descriptors(cls, base):
        owner = next(c for c in cls.__mro__ if name in vars(c))
        if vars(owner)[name] is not descriptor:
            try:
                value = descriptor.__get__(original, cls)
            except AttributeError:
                continue
            descriptor.__set__(new, value)


# --------------------------------------------------------------------------------------------------
# Registered classes


@overload
def register(cls: _Class) -> _Class: ...
@overload
def register(
    cls: _Class,
    flatten: _Flatten,
    unflatten: _Unflatten,
    names: Sequence[str] | None = None,
) -> _Class: ...
def register(
    cls: _Class,
    flatten: _Flatten | None = None,
    unflatten: _Unflatten | None = None,
    names: Sequence[str] | None = None,
) -> _Class:
    """Say how objects of a class are taken apart into children and made again from them.

    Containers, dataclasses, attrs classes, named tuples, and objects with `__dict__` or `__slots__`
    need no registration; classes made in C do, and those that keep their arrays elsewhere. A class
    that is registered with optree or JAX is known already.

    Parameters
    ----------
    cls
        The class; its subclasses are not meant.
    flatten
        `flatten(obj)` gives `(children, aux)`: a sequence of parts, and whatever else `unflatten`
        needs. Without it the method `tree_flatten` of the class is used.
    unflatten
        `unflatten(aux, children)` makes an object, with a tuple of children that may be anything.
        Without it the class method `tree_unflatten` is used.
    names
        Names of the children, in paths and in the `Tangent`. Without them they have indices.

    Returns
    -------
    The class, so that `@ct.register` can stand above one that has the two methods.

    Raises
    ------
    TypeError
        When `cls` is not a class, is a leaf or a built-in container, or has no such methods.
    ValueError
        When the class is registered already.

    >>> import cotan as ct
    >>> import math
    >>> class Ring:
    ...     def __init__(self, *parts):
    ...         self.get = lambda: parts  # out of sight
    >>> _ = ct.register(Ring, lambda r: (r.get(), None), lambda aux, parts: Ring(*parts))
    >>> (g,) = ct.gradient(lambda r: math.prod(r.get()), Ring(2.0, 3.0))
    >>> g
    Tangent[Ring]([0]=3.0, [1]=2.0)
    """
    _refuse_leaf("register", cls)
    if (flatten is None) != (unflatten is None):
        raise TypeError(
            "register: give both flatten and unflatten, or neither and a class that has the methods"
        )
    if flatten is None or unflatten is None:
        flatten, unflatten = (getattr(cls, n, None) for n in ("tree_flatten", "tree_unflatten"))
        if not (callable(flatten) and callable(unflatten)):
            raise TypeError(
                f"register: {cls.__name__} has no methods tree_flatten and tree_unflatten; write "
                "them, or give register(cls, flatten, unflatten)"
            )
    if cls in _REGISTERED:
        raise ValueError(f"register: {cls.__module__}.{cls.__qualname__} is already registered")
    _REGISTERED[cls] = _normal(cls, flatten, None if names is None else tuple(names)), unflatten
    _core.forget_layouts()
    return cls


def _normal(cls: type, flatten: _Flatten, names: tuple[str, ...] | None) -> _Take:
    """Make a function that gives children, their names and the rest, and says what is wrong."""
    owner = cls.__name__

    def parts(obj: object) -> _Parts:
        result: object = flatten(obj)
        if not (isinstance(result, tuple) and len(result) in {2, 3}):
            raise TypeError(
                f"register: flatten of {owner} must return (children, aux), not {result!r}"
            )
        children = tuple(result[0])
        keys = names
        if len(result) == 3 and names is None and result[2] is not None:
            keys = tuple(result[2])
        if keys is None:
            keys = tuple(range(len(children)))  # type: ignore[arg-type]
        if len(keys) != len(children) or len(set(keys)) != len(keys):
            raise ValueError(
                f"register: {owner} has {len(children)} children and the names {list(keys)}; there "
                "must be one for each, all different"
            )
        return children, keys, result[1]

    return parts


def project_to(cls: type) -> Callable[[_Project], _Project]:
    """Register what becomes of gradients of objects of a class before they are handed out.

    The decorated function is called as `function(primal, tangent)` for every object of the class,
    or of a subclass, that has a gradient, inner objects first; what it returns takes the place of
    the tangent. The projection of the nearest class counts, and a later one replaces an earlier
    one.

    Raises
    ------
    TypeError
        When `cls` is not a class, or is a leaf or a built-in container.

    >>> import cotan as ct
    >>> class Rotation:
    ...     def __init__(self, angle, radius):
    ...         self.angle, self.radius = angle, radius
    >>> @ct.project_to(Rotation)
    ... def _(primal, tangent):
    ...     return tangent.replace(radius=None)
    >>> ct.gradient(lambda r: r.angle * r.radius, Rotation(2.0, 3.0))
    (Tangent[Rotation](angle=3.0),)
    """
    _refuse_leaf("project_to", cls)

    def decorate(function: _Project) -> _Project:
        if not callable(function):
            raise TypeError(
                f"project_to: the argument must be a function (primal, tangent), not {function!r}"
            )
        _PROJECTIONS[cls] = function
        _core.forget_layouts()
        return function

    return decorate


def _refuse_leaf(operation: str, cls: object) -> None:
    if not isinstance(cls, type):
        raise TypeError(f"{operation}: takes a class, not {cls!r}")
    leaves = (
        np.ndarray,
        np.generic,
        float,
        complex,
        int,
        str,
        type(None),
        _core.Array,
        _core.Const,
    )
    if cls in {object, list, tuple, dict, type} or issubclass(cls, leaves):
        raise TypeError(f"{operation}: {cls.__name__} is a leaf or a built-in container")


def _of_optree(cls: type) -> tuple[_Take, _Unflatten] | None:
    """Give what optree knows about a class, if optree is there: globally, or in one namespace."""
    optree = sys.modules.get("optree")
    # Containers of the standard library are in that registry too.
    if optree is None or cls.__module__.partition(".")[0] in {"builtins", "collections"}:
        return None
    entry = optree.register_pytree_node.get(cls)
    if entry is None:
        # Which namespaces there are cannot be asked in public.
        known = getattr(optree.registry, "_NODETYPE_REGISTRY", {})
        spaces = [key[0] for key in known if isinstance(key, tuple) and key[1] is cls]
        if len(spaces) > 1:
            raise TypeError(
                f"{cls.__qualname__} is registered in several namespaces of optree "
                f"({', '.join(spaces)}); register it with ct.register"
            )
        if spaces:
            entry = optree.register_pytree_node.get(cls, namespace=spaces[0])
    # For any named tuple optree gives an entry of its own making, which nobody registered.
    if entry is None or entry.type is not cls:
        return None
    return _normal(cls, entry.flatten_func, None), entry.unflatten_func


def _of_jax(cls: type, sample: object) -> tuple[_Take, _Unflatten] | None:
    """Give what JAX knows about a class, if JAX is there: one level of its own flattening."""
    tree = sys.modules.get("jax.tree_util")
    if tree is None or cls.__module__.partition(".")[0] in {"builtins", "collections", "numpy"}:
        return None
    # JAX flattens named tuples by itself, and knows no other subclasses of containers.
    if issubclass(cls, (tuple, list, dict)) or tree.all_leaves([sample]):
        return None

    def parts(obj: object) -> _Parts:
        pairs, treedef = tree.tree_flatten_with_path(obj, is_leaf=lambda part: part is not obj)
        keys = [getattr(path[0], "name", None) for path, _ in pairs]
        named = None not in keys and len(set(keys)) == len(keys)
        children = tuple(child for _, child in pairs)
        return children, tuple(keys if named else range(len(children))), treedef

    return parts, lambda treedef, children: treedef.unflatten(children)
