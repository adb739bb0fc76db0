"""Reloads modules as if nothing were recorded: what a module makes outlives the recording.

An import of a module that is not there yet goes through the interpreter (`interpose/install.py`).
`importlib.reload` runs the code of the module itself.
"""

import importlib
from types import ModuleType

from cotan import _core
from cotan._src.runtime.originals import original_of
from cotan._src.runtime.registry import ALWAYS, override


@override("importlib.reload", when=ALWAYS)
def reload(module: ModuleType) -> ModuleType:
    scope = _core.Scope.enter(False, None)
    try:
        return original_of(importlib.reload)(module)
    finally:
        scope.leave()
