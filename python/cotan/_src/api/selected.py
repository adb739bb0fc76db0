"""Reads `wrt` and `argnums` of functions whose result has the form of what was asked for.

One argument that is asked for, by its position or name, comes bare; a tuple of positions or names
comes as a tuple; anything else (a mask, a path, a predicate) comes as `gradient` gives it: a tuple
with an entry for each argument.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from cotan import _core
from cotan._src.tree.selection import argument_names, expect_arguments
from cotan._src.typing import Args, Function, Kwargs

#: A position of an argument, or several.
Argnums: TypeAlias = int | Sequence[int]


class Selected(NamedTuple):
    """What a call differentiates."""

    #: A function of the positional arguments alone.
    function: Function
    #: The arguments, those that are not asked for held constant.
    arguments: Args
    #: What is left of `wrt`, for the arguments.
    wrt: Any
    #: Which arguments the result consists of; None for all.
    chosen: int | list[int] | None

    def picked(self, gradients: Any) -> Any:
        """Give the entries that were asked for of a tuple with one for each argument."""
        if self.chosen is None:
            return gradients
        if isinstance(self.chosen, int):
            return gradients[self.chosen]
        return tuple(gradients[i] for i in self.chosen)

    def with_integers(self, operation: str) -> "Selected":
        """Hold arguments of integers and booleans constant that are asked for: they get None.

        The gradient of a constant function says which leaves can have none.
        """

        @functools.wraps(self.function, (), ())
        def nothing(*_: object, **__: object) -> float:
            return 0.0

        _, gradients = _core.value_and_full_gradient(
            operation, nothing, self.arguments, self.wrt, False, False, True
        )
        held = tuple(
            _core.Const(x) if ct is None and not isinstance(x, _core.Const) else x
            for x, ct in zip(self.arguments, gradients, strict=True)
        )
        return self._replace(arguments=held)

    def again(self, *values: object) -> Args:
        """Give other values of the arguments, of which the same are held constant."""
        return tuple(
            _core.Const(value) if isinstance(argument, _core.Const) else value
            for argument, value in zip(self.arguments, values, strict=True)
        )


def selected(
    operation: str,
    function: Function,
    args: Args,
    kwargs: Kwargs,
    *,
    wrt: object = None,
    argnums: object = None,
    default: int | None = None,
) -> Selected:
    """Read the keywords of a call.

    `default` is the position that is asked for when nothing is said; None asks for all arguments,
    which come bare if there is only one.
    """
    if wrt is not None and argnums is not None:
        raise TypeError(f"{operation}: give wrt or argnums, not both")
    called = with_keywords(function, kwargs)
    chosen: int | list[int] | None
    if argnums is not None:
        chosen = _positions(operation, argnums, len(args))
    elif wrt is not None:
        chosen = _named(operation, function, wrt, len(args))
    elif not args:
        expect_arguments(operation, called)
        return Selected(called, args, None, None)
    elif default is not None:
        chosen = _position(operation, default, len(args))
    else:
        return Selected(called, args, None, 0 if len(args) == 1 else None)
    if chosen is None:
        return Selected(called, args, wrt, None)
    asked = [chosen] if isinstance(chosen, int) else chosen
    held = tuple(
        arg if i in asked or isinstance(arg, _core.Const) else _core.Const(arg)
        for i, arg in enumerate(args)
    )
    return Selected(called, held, None, chosen)


def with_keywords(function: Function, kwargs: Kwargs) -> Function:
    """Give the function of the positional arguments alone."""
    return functools.partial(function, **kwargs) if kwargs else function


def _is_position(x: object) -> bool:
    return isinstance(x, int | np.integer) and not isinstance(x, bool)


def _position(operation: str, position: Any, count: int) -> int:
    if not -count <= position < count:
        arguments = "1 argument" if count == 1 else f"{count} arguments"
        raise ValueError(
            f"{operation}: argnums={position}: the function was called with {arguments}"
        )
    return int(position) % count


def _positions(operation: str, argnums: Any, count: int) -> int | list[int]:
    expect_positions(operation, argnums)
    if _is_position(argnums):
        return _position(operation, argnums, count)
    return [_position(operation, i, count) for i in argnums]


def expect_positions(operation: str, argnums: object) -> None:
    """Refuse what is neither a position nor several."""
    several = isinstance(argnums, list | tuple) and all(map(_is_position, argnums))
    if not several and not _is_position(argnums):
        raise TypeError(
            f"{operation}: argnums is a position of an argument or a tuple of positions, not "
            f"{argnums!r}; names, paths and masks go to wrt"
        )


def _named(operation: str, function: Function, wrt: Any, count: int) -> int | list[int] | None:
    """Give the arguments that `wrt` names, if it names arguments."""
    if not count:
        return None
    is_list = isinstance(wrt, list | tuple)
    items = list(wrt) if is_list else [wrt]
    names = argument_names(function, count) if any(isinstance(i, str) for i in items) else []
    found = []
    for item in items:
        if _is_position(item):
            found.append(_position(operation, item, count))
        elif isinstance(item, str) and item in names:
            found.append(names.index(item))
        else:
            return None
    return found if is_list else found[0]
