"""Gradients beyond one process: batches over threads, processes, clusters, and ranks of MPI.

>>> import cotan as ct
>>> import numpy as np
>>> from concurrent.futures import ThreadPoolExecutor
>>> with ThreadPoolExecutor(2) as pool:
...     value, slope = ct.parallel.value_and_gradient(
...         lambda w, x: np.mean((w * x) ** 2), 3.0, [np.ones(4), np.zeros(4)], executor=pool
...     )
>>> float(value), slope
(4.5, 3.0)
"""

from cotan._src.parallel.communicator import Communicator
from cotan._src.parallel.engines import WorkerLostError
from cotan._src.parallel.gradients import gradient, value_and_gradient
from cotan._src.parallel.remote import RemotePullback, remote_pullback
from cotan._src.parallel.sharding import ShardedOptimizer

__all__ = [
    "Communicator",
    "RemotePullback",
    "ShardedOptimizer",
    "WorkerLostError",
    "gradient",
    "remote_pullback",
    "value_and_gradient",
]
