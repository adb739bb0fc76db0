"""Tasks for a cluster of Dask: `distributed.Client`.

Problem: parameters and constants that go to every worker should not pass through the scheduler with
every task, and batches that lie on workers already, as futures or chunks of a Dask array, should
stay there.
"""

import importlib
import uuid
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from typing import Any

from cotan._src.parallel.batches import arguments, num_examples
from cotan._src.parallel.engines import Engine, Future
from cotan._src.parallel.parcel import Given, Parcel, Task, run

# Larger parcels are put onto all workers beforehand.
_SMALL = 64 << 10
# Such parcels that are held on the workers.
_HELD = 8


class Dask(Engine):
    """A cluster of Dask. Tasks of a worker that dies are repeated by Dask, on another one."""

    shares_main = False
    remedy = "see the state of the cluster (client.dashboard_link), and repeat the call"

    def __init__(self, executor: Any) -> None:
        super().__init__(executor)
        distributed = importlib.import_module("distributed")
        client = importlib.import_module("distributed.client")
        comm = importlib.import_module("distributed.comm")
        self._future_class = distributed.Future
        self.lost = (
            distributed.KilledWorker,
            comm.CommClosedError,
            client.FutureCancelledError,
            CancelledError,
            # Where this version has it.
            getattr(client, "ClosedClientError", CancelledError),
        )
        self._held: OrderedDict[str, Any] = OrderedDict()

    @property
    def workers(self) -> int:
        """How many tasks run at once."""
        return sum(self.executor.nthreads().values()) or 1

    def is_remote(self, batch: Any) -> bool:
        """Whether a batch, or one of its arguments, lies on workers."""
        return any(self._is_remote(x) for x in arguments(batch))

    def _is_remote(self, x: Any) -> bool:
        return isinstance(x, self._future_class) or hasattr(x, "__dask_graph__")

    def placed(self, batch: Any) -> Any:
        """Give a batch whose parts on workers are futures."""
        found = tuple(
            self.executor.compute(x) if hasattr(x, "__dask_graph__") else x
            for x in arguments(batch)
        )
        return found if type(batch) is tuple else found[0]

    def examples(self, operation: str, batches: Sequence[Any]) -> list[float]:
        """Count the examples of batches where they lie."""
        numbers = [
            self.executor.submit(_counted, operation, i, arguments(batch), pure=False)
            for i, batch in enumerate(batches)
        ]
        return [float(n) for n in self.executor.gather(numbers)]

    def submit(self, task: Task, parcels: Sequence[Parcel | Given], *, with_all: bool) -> Future:
        """Hand over a task; large parcels are put onto all workers once."""
        large = [parcel for parcel in parcels if parcel.nbytes > _SMALL]
        small = tuple(parcel for parcel in parcels if parcel.nbytes <= _SMALL)
        del with_all
        found: Future = self.executor.submit(
            _run,
            task._replace(brought=small),
            *map(self._scattered, large),
            # What Dask's progress bars and its dashboard call the tasks.
            key=f"cotan_gradient-{uuid.uuid4().hex}",
        )
        return found

    def _scattered(self, parcel: Parcel | Given) -> Any:
        if parcel.key not in self._held:
            self._held[parcel.key] = self.executor.scatter(parcel, broadcast=True, hash=False)
        self._held.move_to_end(parcel.key)
        while len(self._held) > _HELD:
            self._held.popitem(last=False)
        return self._held[parcel.key]

    def on_one_worker(self, args: Sequence[Any]) -> Callable[..., Future]:
        """Give a function that submits to one worker, that which has the arguments."""
        held = [x for x in args if isinstance(x, self._future_class)]
        places = [place for found in self.executor.who_has(held).values() for place in found]
        known = places or list(self.executor.scheduler_info(-1)["workers"])
        # The one that has most of them.
        worker = max(dict.fromkeys(known), key=known.count)

        def submit(function: Any, /, *args: Any) -> Future:
            found: Future = self.executor.submit(
                function, *args, workers=[worker], allow_other_workers=False, pure=False, retries=0
            )
            return found

        return submit

    def is_alive(self) -> bool:
        """Whether the scheduler can be reached."""
        return bool(self.executor.status == "running")


def _run(task: Task, *large: Parcel) -> Any:
    return run(task._replace(brought=(*task.brought, *large)))


def _counted(operation: str, number: int, args: tuple[Any, ...]) -> float:
    return num_examples(operation, number, args)
