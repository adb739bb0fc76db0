"""Names that SciPy has moved: `scipy.ndimage.filters.sobel`, `scipy.integrate.quadpack.quad`.

Such modules have no names of their own; a function of theirs gets them from where they are now. The
modules are given another class once and for all: a gradient pays nothing for them.
"""

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from cotan import _core
from cotan._src.runtime.call_site import is_user_code


class _Moved:
    """A name of a module that gets it from elsewhere."""

    def __init__(self, name: str, known: Callable[[Any], Any]) -> None:
        self._name, self._known = name, known

    def __get__(self, module: Any, owner: Any = None) -> Any:
        if module is None:
            return self
        if _core.is_lifting() and is_user_code(sys._getframe(1)):
            stand_in = self._known(vars(module)["__getattr__"](self._name))
            if stand_in is not None:
                return stand_in
        # The module is asked itself, then.
        raise AttributeError(self._name)


def enter_moved(package: str, known: Callable[[Any], Any]) -> None:
    """Let a package's older modules give what stands in for a function; `known` tells that."""
    for name, module in list(sys.modules.items()):
        if name.rpartition(".")[0] != package or type(module) is not ModuleType:
            continue
        own = vars(module)
        if "_sub_module_deprecation" in own and "__getattr__" in own:
            names: dict[str, Any] = {
                n: _Moved(n, known) for n in own.get("__all__", ()) if n not in own
            }
            module.__class__ = type("module", (ModuleType,), {**names, "__module__": "builtins"})
