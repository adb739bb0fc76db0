"""What is sent once to each worker and kept there: programs, parameters, constants.

Problem: an executor does not say which worker takes a task, and every task would carry the
parameters. So a task names what it needs by a key. The first tasks bring the contents along; a
worker that misses something answers so, and the task is sent once more, with the contents.
"""

import hashlib
import os
import pickle
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from cotan import _core
from cotan._src.typing import NDArray

# Parcels that a worker keeps: those that were used last.
_KEPT = 32


class Parcel:
    """An object, pickled once, whose arrays travel beside the pickle (protocol 5)."""

    __slots__ = ("_buffers", "_head", "key")

    def __init__(self, key: str, head: bytes, buffers: Sequence[NDArray]) -> None:
        self.key, self._head, self._buffers = key, head, buffers

    @classmethod
    def of(
        cls, contents: object, key: str = "", dumps: Callable[..., bytes] = pickle.dumps
    ) -> Self:
        """Pack an object, under a key for its contents if none is given."""
        views: list[pickle.PickleBuffer] = []
        head = dumps(contents, 5, buffer_callback=views.append)
        buffers = [np.frombuffer(view.raw(), np.uint8) for view in views]
        if not key:
            digest = hashlib.blake2b(head, digest_size=16)
            for buffer in buffers:
                digest.update(buffer.data)
            key = digest.hexdigest()
        return cls(key, head, buffers)

    @property
    def nbytes(self) -> int:
        """How much is sent."""
        return len(self._head) + sum(buffer.nbytes for buffer in self._buffers)

    def open(self) -> Any:
        """Give the object."""
        return pickle.loads(self._head, buffers=self._buffers)  # noqa: S301

    def __reduce__(self) -> tuple[type["Parcel"], tuple[object, ...]]:
        # Arrays pickle themselves: out of band where the engine asks for that.
        return Parcel, (self.key, self._head, self._buffers)


class Given:
    """What is passed on as it is, to workers that are threads of this process."""

    __slots__ = ("contents", "key")

    def __init__(self, key: str, contents: object) -> None:
        self.key, self.contents = key, contents

    nbytes = 0

    def open(self) -> Any:
        """Give the object."""
        return self.contents


class Task(NamedTuple):
    """One batch, as a worker gets it."""

    keys: tuple[str, ...]
    """What computes it, the parameters, and the constants."""
    brought: tuple[Parcel | Given, ...]
    batch: Any
    """What remains of the arguments."""
    threads: int = 0
    """At most so many threads compute in the worker; 0 for as many as it has."""
    process: int = 0
    """The process that the task comes from."""


class Missing(NamedTuple):
    """The answer of a worker that was not given something."""

    keys: tuple[str, ...]


_kept: OrderedDict[str, Any] = OrderedDict()
_lock = threading.Lock()


def opened(task: Task) -> list[Any] | Missing:
    """Give what a task names: what it brings, or what the worker kept."""
    brought = {parcel.key: parcel for parcel in task.brought}
    found: list[Any] = []
    missing = []
    for key in task.keys:
        if key in brought and isinstance(brought[key], Given):
            found.append(brought[key].open())
            continue
        with _lock:
            known = key in _kept
            if known:
                _kept.move_to_end(key)
                found.append(_kept[key])
        if known:
            continue
        if key not in brought:
            missing.append(key)
            continue
        contents = brought[key].open()
        with _lock:
            found.append(_kept.setdefault(key, contents))
            while len(_kept) > _KEPT:
                _kept.popitem(last=False)
    return Missing(tuple(missing)) if missing else found


def run(task: Task) -> Any:
    """Compute a task in a worker: a `Result`, or `Missing`."""
    found = opened(task)
    if isinstance(found, Missing):
        return found
    if task.threads and _core.num_threads() > task.threads and os.getpid() != task.process:
        _core.set_num_threads(task.threads)
    compute, params, constants = found
    return compute(params, (*task.batch, *constants))
