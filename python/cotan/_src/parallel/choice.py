"""Finds the engine for what the user calls an executor."""

import concurrent.futures
import weakref
from typing import Any

from cotan._src.parallel.dask import Dask
from cotan._src.parallel.engines import Engine, Here, Threads
from cotan._src.parallel.ray import Ray

_engines: "weakref.WeakKeyDictionary[Any, Engine]" = weakref.WeakKeyDictionary()


def engine_of(operation: str, executor: Any) -> Engine:
    """Give the engine for an executor, the same one for the same executor.

    Raises `TypeError` if it is none.
    """
    if executor is None:
        return Threads(Here())
    package = type(executor).__module__.partition(".")[0]
    if package == "distributed":
        # What `client.get_executor()` gives.
        executor = getattr(executor, "_client", executor)
    try:
        known = _engines.get(executor)
    except TypeError:
        known = None
    if known is not None:
        return known
    made: Engine
    if isinstance(executor, (concurrent.futures.ThreadPoolExecutor, Here)):
        made = Threads(executor)
    elif isinstance(executor, concurrent.futures.Executor):
        made = Engine(executor)
    elif package == "distributed" and hasattr(executor, "scatter"):
        made = Dask(executor)
    elif getattr(executor, "__name__", "") == "ray" and hasattr(executor, "cluster_resources"):
        made = Ray(executor)
    else:
        raise TypeError(
            f"{operation}: executor must be an executor of concurrent.futures "
            "(ThreadPoolExecutor(), ProcessPoolExecutor(), mpi4py.futures.MPIPoolExecutor()), a "
            f"distributed.Client, the module ray, or None, not {type(executor).__name__}"
        )
    _engines[executor] = made
    return made
