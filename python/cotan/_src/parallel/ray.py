"""Tasks for Ray: the module itself stands for the executor, as `ray.remote` is its interface."""

import importlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from cotan._src.parallel.engines import Engine, Future
from cotan._src.parallel.parcel import Given, Parcel, Task, run

# Parcels that are held in the object store.
_HELD = 8


class Ray(Engine):
    """A cluster of Ray. Tasks of a worker that dies are repeated by Ray, three times at most."""

    shares_main = False
    remedy = "see the state of the cluster (`ray status`), and repeat the call"

    def __init__(self, executor: Any) -> None:
        super().__init__(executor)
        errors = importlib.import_module("ray.exceptions")
        self.lost = (
            errors.WorkerCrashedError,
            errors.NodeDiedError,
            errors.ObjectLostError,
            errors.RaySystemError,
            errors.OutOfMemoryError,
        )
        # What Ray's dashboard and `ray summary tasks` call the tasks.
        self._run = executor.remote(_run).options(name="cotan_gradient")
        self._held: OrderedDict[str, Any] = OrderedDict()

    @property
    def workers(self) -> int:
        """How many tasks run at once."""
        return int(self.executor.cluster_resources().get("CPU", 1)) or 1

    def submit(self, task: Task, parcels: Sequence[Parcel | Given], *, with_all: bool) -> Future:
        """Hand over a task; what workers keep lies in the object store, once on each node."""
        del with_all
        held = [self._stored(parcel) for parcel in parcels]
        found: Future = self._run.remote(task, *held).future()
        return found

    def _stored(self, parcel: Parcel | Given) -> Any:
        if parcel.key not in self._held:
            self._held[parcel.key] = self.executor.put(parcel)
        self._held.move_to_end(parcel.key)
        while len(self._held) > _HELD:
            self._held.popitem(last=False)
        return self._held[parcel.key]

    def is_alive(self) -> bool:
        """Whether Ray runs."""
        return bool(self.executor.is_initialized())


def _run(task: Task, *parcels: Parcel) -> Any:
    return run(task._replace(brought=parcels))
