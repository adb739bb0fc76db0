"""Overrides of SciPy functions whose callback may capture active arrays: `probes_callback`.

Problem: in `solve_ivp(lambda t, y: -k * y, ...)` all arguments are constant, yet the result
depends on `k`. The original runs first, with a `CallbackProbe` in the place of the callback. If the
callback returned active values, its state is restored and the derivative rule runs instead.
"""

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from cotan import _core
from cotan._src.rebind.engine import locate
from cotan._src.runtime.constant_fallback import with_constant_fallback
from cotan._src.runtime.registry import ALWAYS, override
from cotan._src.state.callback_probe import CallbackProbe
from cotan._src.state.snapshot import StateSnapshot
from cotan._src.typing import Args

_F = TypeVar("_F", bound=Callable[..., Any])


def more_of(args: object) -> Args:
    """Give what `args=` of a solver says as a tuple, as SciPy takes it."""
    return args if isinstance(args, tuple) else (args,)


def probes_callback(name: str, parameter: str) -> Callable[[_F], _F]:
    """Enter a rule as `override` does, to be called for what a parameter closes over, too."""

    def enter(function: _F) -> _F:
        rule = with_constant_fallback(name, function)

        @override(name, when=ALWAYS)
        def entry(*args: Any, **kwargs: Any) -> Any:
            if _core.contains_array(args, kwargs):
                return rule(*args, **kwargs)
            original = locate(name)
            given = inspect.signature(original).bind(*args, **kwargs)
            callback = given.arguments.get(parameter)
            if not callable(callback):
                return original(*args, **kwargs)
            probed, snapshot = CallbackProbe(callback), StateSnapshot(callback)
            given.arguments[parameter] = probed
            result = original(*given.args, **given.kwargs)
            if not probed.captures_active:
                return result
            snapshot.restore()
            return rule(*args, **kwargs)

        return function

    return enter
