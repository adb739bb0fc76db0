"""Overrides of `scipy.odr`, whose compiled code takes memory alone: it is for constants."""

import copy
from typing import Any

from cotan._core import NotDifferentiableError
from cotan._src.rebind.engine import locate
from cotan._src.runtime.originals import original_of
from cotan._src.runtime.registry import ALWAYS, METHOD, Way, override
from cotan._src.runtime.values import contains_active
from cotan._src.state.callback_probe import CallbackProbe, probed, to_numpy_items
from cotan._src.state.snapshot import StateSnapshot

_NAME = "scipy.odr.ODR"


def _constants(part: Any) -> Any:
    """Copy the data or the model of a fit; its functions are watched."""
    part = copy.copy(part)
    for name, value in vars(part).items():
        setattr(part, name, probed(value) if callable(value) else to_numpy_items(value))
    return part


def _try(function: Any, *args: Any) -> None:
    """Call the model once as the fit will: an error in the compiled code ends the process."""
    state = StateSnapshot(function)
    try:
        function(*args[:-1], *(args[-1] or ()))
    finally:
        state.restore()


def _runs(name: str) -> None:
    @override(f"{_NAME}.{name}", kind=METHOD, when=ALWAYS, way=Way.REFUSED, versions="scipy<1.19")
    def run(self: Any, *args: object, **options: object) -> object:
        held = dict(vars(self))
        plain = {n: to_numpy_items(x) for n, x in held.items()}
        plain |= {n: _constants(held[n]) for n in ("data", "model")}
        given = [held, vars(self.data)]
        vars(self).update(plain)
        try:
            _try(plain["model"].fcn, self.beta0, self.data.x, plain["model"].extra_args)
            result: object = original_of(vars(locate(_NAME))[name])(self, *args, **options)
        finally:
            vars(self).update(data=held["data"], model=held["model"])
        functions = vars(plain["model"]).values()
        if contains_active(given) or any(
            isinstance(f, CallbackProbe) and f.captures_active for f in functions
        ):
            raise NotDifferentiableError(
                f"{_NAME}.{name} has no derivative rule in cotan; use scipy.optimize.curve_fit or "
                "least_squares, or hold its data and what its model uses constant with ct.dropgrad"
            )
        return result


_runs("run")
_runs("restart")
