"""Says how far a step over batches has come: `progress=`, and one line of the log for each step."""

import logging
import sys
from collections.abc import Callable
from typing import TypeAlias

#: What `progress=` takes.
Watcher: TypeAlias = bool | Callable[[int], object]

LOGGER = logging.getLogger("cotan").getChild("parallel")


class Watch:
    """Tells the user's function that batches are done."""

    def __init__(self, progress: Watcher, total: int | None) -> None:
        self._progress, self._total = progress, total
        self._done = 0

    def done(self) -> None:
        """Count one batch."""
        self._done += 1
        if callable(self._progress):
            self._progress(1)
        elif self._progress:
            of = "" if self._total is None else f" of {self._total}"
            print(f"batch {self._done}{of}", file=sys.stderr)


def size(nbytes: float) -> str:
    """Give a number of bytes in words."""
    for unit in ("B", "kB", "MB"):
        if nbytes < 1000:
            return f"{nbytes:.3g} {unit}"
        nbytes /= 1000
    return f"{nbytes:.3g} GB"
