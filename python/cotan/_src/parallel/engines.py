"""How tasks reach workers: threads, processes, ranks of MPI, and clusters of Dask and Ray.

Problem: all of these take a function and give a future, but they differ in what is copied, in how
often contents are sent, in what a dead worker looks like, and in how many tasks they can use.
"""

import concurrent.futures
import contextvars
import importlib
import itertools
import os
import pickle
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from cotan._src.parallel.parcel import Given, Parcel, Task, run


class WorkerLostError(RuntimeError):
    """A worker, or what gives it work, is gone: killed, out of memory, or not reachable.

    Nothing of the unfinished call is kept, so that nothing is counted twice. `batches` has the
    numbers of the batches that were not finished.

    >>> import cotan as ct
    >>> ct.parallel.WorkerLostError("gone", batches=[3]).batches
    [3]
    """

    def __init__(self, message: str, batches: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.batches = list(batches)


class Future(Protocol):
    """What all engines give for a task."""

    def add_done_callback(self, fn: Callable[[Any], object], /) -> object:
        """Have a function called at the end."""

    def result(self, timeout: float | None = None) -> Any:
        """Give the result, or raise the error."""

    def cancel(self) -> object:
        """Drop the task if it has not begun."""


class Engine:
    """An executor of `concurrent.futures`, or another one that works alike."""

    #: Whether workers share the memory of this process.
    is_local = False
    #: Errors that mean that a worker is gone.
    lost: tuple[type[BaseException], ...] = (concurrent.futures.BrokenExecutor,)
    #: What to do about it.
    remedy = "the executor cannot be used again; make a new one and repeat the call"
    #: Whether functions of the main module are found by name in a worker.
    shares_main = True

    def __init__(self, executor: Any) -> None:
        self.executor = executor
        self._brought: dict[str, int] = {}
        self._lock = threading.Lock()

    @property
    def workers(self) -> int:
        """How many tasks run at once."""
        for name in ("_max_workers", "num_workers"):
            count = getattr(self.executor, name, None)
            if isinstance(count, int) and count > 0:
                return count
        return os.cpu_count() or 1

    @property
    def threads(self) -> int:
        """How many threads each worker computes with; 0 for its own choice."""
        is_pool = isinstance(self.executor, concurrent.futures.ProcessPoolExecutor)
        if not is_pool or "COTAN_NUM_THREADS" in os.environ:
            return 0
        return max(1, _cores() // self.workers)

    def parcel(self, contents: object, key: str = "") -> Parcel | Given:
        """Pack what workers keep."""
        return Parcel.of(contents, key)

    def function_parcel(self, contents: object, f: object) -> Parcel | Given:
        """Pack what contains a function of the user's."""
        dumps = by_value()
        is_main = getattr(f, "__module__", None) == "__main__"
        if dumps is not None and is_main and not self.shares_main:
            return Parcel.of(contents, dumps=dumps)
        try:
            return Parcel.of(contents)
        except (pickle.PicklingError, AttributeError, TypeError):
            if dumps is None:
                raise
            return Parcel.of(contents, dumps=dumps)

    def submit(self, task: Task, parcels: Sequence[Parcel | Given], *, with_all: bool) -> Future:
        """Hand over a task; the first ones bring what they need."""
        workers = self.workers
        with self._lock:
            brought = []
            for parcel in parcels:
                count = self._brought.get(parcel.key, 0)
                if with_all or count < workers:
                    brought.append(parcel)
                    self._brought[parcel.key] = count + 1
            while len(self._brought) > 1000:
                self._brought.pop(next(iter(self._brought)))
        return self._start(task._replace(brought=tuple(brought)))

    def _start(self, task: Task) -> Future:
        found: Future = self.executor.submit(run, task)
        return found

    def is_alive(self) -> bool:
        """Whether the engine can still be reached."""
        return True

    def is_remote(self, batch: Any) -> bool:  # noqa: ARG002
        """Whether a batch lies on workers."""
        return False

    def placed(self, batch: Any) -> Any:
        """Give a batch as it is handed out."""
        return batch

    def examples(self, operation: str, batches: Sequence[Any]) -> list[float]:
        """Count the examples of batches that lie on workers, for which engines say how."""
        raise TypeError(f"{operation}: {len(batches)} batches of {self} do not lie on workers")


class Threads(Engine):
    """Threads of this process: nothing is copied."""

    is_local = True

    def parcel(self, contents: object, key: str = "") -> Parcel | Given:
        """Hand the object over as it is."""
        return Given(key or next(_names), contents)

    def function_parcel(self, contents: object, f: object) -> Parcel | Given:  # noqa: ARG002
        """Hand the object over as it is."""
        return Given(next(_names), contents)

    def submit(self, task: Task, parcels: Sequence[Parcel | Given], *, with_all: bool) -> Future:  # noqa: ARG002
        """Hand over a task; what `ct.detect` and the like have set holds in the thread, too."""
        task = task._replace(brought=tuple(parcels))
        found: Future = self.executor.submit(contextvars.copy_context().run, run, task)
        return found


class Here(concurrent.futures.Executor):
    """Computes each task when it is handed over."""

    _max_workers = 1

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Compute it."""
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001
            future.set_exception(error)
        return future


def by_value() -> Callable[..., bytes] | None:
    """Give cloudpickle's `dumps`, if it is installed."""
    try:
        found: Callable[..., bytes] = importlib.import_module("cloudpickle").dumps
    except ImportError:
        return None
    return found


_names = map("object {}".format, itertools.count())


def _cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1
