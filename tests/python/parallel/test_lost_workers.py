"""Workers that die, and schedulers that go away: a clear error, and nothing counted twice."""

import multiprocessing
import os
import random
import signal
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import numpy as np
import pytest

import cotan as ct

METHODS = [m for m in ("fork", "spawn") if m in multiprocessing.get_all_start_methods()]
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning"),
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="the system has no SIGKILL"),
]


def dying(w, x):
    """Kill the worker at the batch of three."""
    if len(x) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return w * np.mean(x) + 0.0 * random.random()


def sleeping(w, x):
    time.sleep(0.2)
    return w * np.mean(x) + 0.0 * random.random()


def fine(w, x):
    return w * np.mean(x)


@pytest.mark.parametrize("method", METHODS)
def test_a_worker_kills_itself(method):
    context = multiprocessing.get_context(method)
    batches = [np.ones(2)] * 3 + [np.ones(3)] + [np.ones(2)] * 3
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        with pytest.raises(ct.parallel.WorkerLostError, match="a worker was lost") as caught:
            # The main process would be killed if it recorded the function on this batch.
            ct.parallel.gradient(dying, 1.0, iter_of(batches), executor=pool)
        assert isinstance(caught.value.__cause__, BrokenProcessPool)
        assert 3 in caught.value.batches
        assert "make a new one" in str(caught.value)
        with pytest.raises(ct.parallel.WorkerLostError, match="make a new one"):
            ct.parallel.gradient(fine, 1.0, batches, executor=pool)
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        assert ct.parallel.gradient(fine, 1.0, batches, executor=pool) == 1.0


def iter_of(batches):
    """Give batches; the first one makes it known that the function is no program."""
    yield from batches


@pytest.mark.parametrize("method", METHODS)
def test_a_worker_is_killed_from_outside(method):
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        assert ct.parallel.gradient(sleeping, 1.0, [np.ones(2)] * 2, executor=pool) == 1.0
        killer = threading.Timer(0.3, lambda: os.kill(next(iter(pool._processes)), signal.SIGKILL))
        killer.start()
        done = []
        with pytest.raises(ct.parallel.WorkerLostError) as caught:
            ct.parallel.gradient(
                sleeping, 1.0, [np.ones(2)] * 40, executor=pool, progress=done.append
            )
        killer.join()
        assert 0 < len(done) < 40
        assert min(caught.value.batches) >= len(done) - 4


def test_an_executor_that_was_shut_down():
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    with pytest.raises(RuntimeError, match="cannot schedule new futures after shutdown"):
        ct.parallel.gradient(fine, 1.0, [np.ones(2)], executor=pool)


def test_what_is_pending_is_dropped_after_an_error():
    ran = []

    def f(w, x):
        ran.append(len(x))
        if len(ran) == 1:
            raise ZeroDivisionError
        time.sleep(0.05)
        return w * random.random()

    with ThreadPoolExecutor(1) as pool, pytest.raises(ZeroDivisionError):
        ct.parallel.gradient(f, 1.0, [np.ones(2)] * 50, executor=pool, max_pending=20)
    # One may have begun.
    assert len(ran) <= 3


def test_a_batch_that_cannot_be_made():
    def batches():
        yield np.ones(2)
        raise OSError("the disk is gone")

    with ThreadPoolExecutor(2) as pool, pytest.raises(OSError, match="the disk is gone"):
        ct.parallel.gradient(fine, 1.0, batches(), executor=pool)
