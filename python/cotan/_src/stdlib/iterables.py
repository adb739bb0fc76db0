"""Functions that consume iterables, of which generators show their items only when they run."""

import functools
import importlib
from typing import Any

import numpy as np

from cotan import _core
from cotan._src.runtime.registry import ALWAYS, override
from cotan._src.typing import Decorator, Function


def of_items(name: str) -> Decorator:
    """Enter a function, by its dotted name, for iterables that yield `Array`s.

    It is always asked. Its rule gets lists in the place of iterables that are no lists, and is
    called where there is an `Array` among their items.
    """
    module, _, function = name.rpartition(".")
    original: Function | None = getattr(importlib.import_module(module), function, None)

    def listed(given: Any) -> object:
        return given if isinstance(given, (list, tuple)) or not np.iterable(given) else list(given)

    def enter(compute: Function) -> Function:
        if original is None:
            return compute

        @functools.wraps(original)
        def declining(*args: object, **kwargs: object) -> object:
            given = [listed(a) for a in args]
            named = {key: listed(value) for key, value in kwargs.items()}
            if _core.contains_array(tuple(given), named):
                return compute(*given, **named)
            before, after = (*args, *kwargs.values()), (*given, *named.values())
            is_as_it_was = all(a is b for a, b in zip(before, after, strict=True))
            return NotImplemented if is_as_it_was else original(*given, **named)

        @functools.wraps(original)
        def rule(*args: object, **kwargs: object) -> object:
            found = declining(*args, **kwargs)
            return original(*args, **kwargs) if found is NotImplemented else found

        rule.declining = declining  # type: ignore[attr-defined]
        return override(name, when=ALWAYS)(rule)

    return enter
