"""Functions of SciPy that are handed a function of the program's, in which an array may hide.

Where all else is constant SciPy's own code runs first. What is followed comes to light in what the
function gives; then the rule runs, and calls it with what it depends on.
"""

import inspect
from typing import Any

from cotan import _core
from cotan._src.rebind.engine import locate
from cotan._src.runtime.registry import ALWAYS, override, rule_of
from cotan._src.state.callback_probe import CallbackProbe
from cotan._src.state.snapshot import StateSnapshot


def probes_callback(name: str, parameter: str) -> None:
    """Let the rule of a function be called for what one of its parameters closes over, too."""
    rule = rule_of(name)

    @override(name, when=ALWAYS)
    def entry(*args: Any, **kwargs: Any) -> Any:
        if _core.contains_array(args, kwargs):
            return rule(*args, **kwargs)
        original = locate(name)
        given = inspect.signature(original).bind(*args, **kwargs)
        function = given.arguments.get(parameter)
        if not callable(function):
            return original(*args, **kwargs)
        probed, snapshot = CallbackProbe(function), StateSnapshot(function)
        given.arguments[parameter] = probed
        result = original(*given.args, **given.kwargs)
        if not probed.captures_active:
            return result
        snapshot.restore()
        return rule(*args, **kwargs)
