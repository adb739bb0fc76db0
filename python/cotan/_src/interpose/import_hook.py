"""Modules that are imported for the first time while something is recorded.

Those that have functions in the table of lifted ones are made ready as soon as they are loaded, so
that an `import scipy.linalg` inside of the function counts at once. A finder in `sys.meta_path`
looks at these names only; it is asked for modules only that have not been loaded yet.
"""

import contextlib
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from cotan import _core


class _Loading:
    """Load a module, and have it made ready when none of the table is being loaded around it."""

    depth = 0

    def __init__(self, loader: Any, ready: Callable[[str], Any]) -> None:
        self._loader, self._ready = loader, ready

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self._loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        # The module shall not know of this.
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        _Loading.depth += 1
        try:
            self._loader.exec_module(module)
        finally:
            _Loading.depth -= 1
        if _Loading.depth == 0 and _core.nestlevel() > 0:
            # The import would do so next; what is made ready asks for `np.random` before.
            parent, _, child = module.__name__.rpartition(".")
            if parent in sys.modules:
                setattr(sys.modules[parent], child, module)
            # An import does not fail for what is wrong here; the next recording says that.
            with contextlib.suppress(Exception):
                self._ready(module.__name__)


class _Finder:
    def __init__(self, names: Callable[[], Sequence[str]], ready: Callable[[str], Any]) -> None:
        self._names, self._ready = names, ready

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._names():
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            # By what it does: the classes of `importlib.abc` take a fifth of our import to load.
            loader: Any = _Loading(spec.loader, self._ready)
            spec.loader = loader
        return spec


def watch(names: Callable[[], Sequence[str]], ready: Callable[[str], Any]) -> None:
    """Call `ready` when one of the named modules has been loaded while something is recorded.

    It gets the name of the module, whose import ends only afterwards.
    """
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder(names, ready))
