"""Pullbacks whose residuals stay in a worker."""

import multiprocessing
import os
import signal
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest

import cotan as ct

METHODS = [m for m in ("fork", "spawn") if m in multiprocessing.get_all_start_methods()]
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")


def pool(method="spawn", workers=1):
    return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context(method))


def simulate(p, x, gain=1.0):
    states = [x]
    for _ in range(20):
        states.append(np.tanh(states[-1] @ p["w"]))
    return {"end": gain * states[-1], "mean": np.mean(states[10])}


P = {"w": np.linspace(-0.5, 0.5, 16).reshape(4, 4), "none": None}
X = np.linspace(-1.0, 1.0, 400).reshape(100, 4)


@pytest.mark.parametrize("method", METHODS)
def test_the_same_as_here(method):
    value, back = ct.pullback(simulate, P, ct.const(X), gain=2.0)
    with pool(method) as executor:
        there, remote = ct.parallel.remote_pullback(executor, simulate, P, ct.const(X), gain=2.0)
        np.testing.assert_array_equal(there["end"], value["end"])
        assert remote.process != os.getpid()
        assert remote.nbytes == back.nbytes > 10 * X.nbytes
        for scale in (1.0, 3.0):
            dy = {"end": scale * X, "mean": scale}
            mine, theirs = back(dy), remote(dy)
            assert theirs[1] is None and theirs[0]["none"] is None
            assert theirs[0]["w"].is_forced
            np.testing.assert_array_equal(theirs[0]["w"], mine[0]["w"])
        assert remote.process == executor.submit(os.getpid).result()


def test_two_workers_and_two_pullbacks():
    with pool() as a, pool() as b:
        (_, first), (_, second) = (
            ct.parallel.remote_pullback(executor, np.sin, x)
            for executor, x in ((a, np.zeros(2)), (b, np.full(2, np.pi)))
        )
        assert first.process != second.process
        assert np.asarray(first(np.ones(2))[0]).tolist() == [1.0, 1.0]
        assert np.asarray(second(np.ones(2))[0]).tolist() == [-1.0, -1.0]


def test_several_workers_are_refused():
    refused = pytest.raises(TypeError, match="2 workers.*one executor for each pullback")
    with pool(workers=2) as executor, refused:
        ct.parallel.remote_pullback(executor, np.sin, 1.0)
    with ThreadPoolExecutor(3) as threads:
        _, back = ct.parallel.remote_pullback(threads, np.sin, 0.0)
        assert [float(back(1.0)[0]) for _ in range(4)] == [1.0] * 4


def held():
    from cotan._src.parallel import remote

    return len(remote._kept)


def test_what_is_closed_is_forgotten():
    with pool() as executor:
        _, back = ct.parallel.remote_pullback(executor, np.sin, 0.0)
        assert executor.submit(held).result() == 1
        with back:
            back(1.0)
        with pytest.raises(ValueError, match="has been closed"):
            back(1.0)
        assert executor.submit(held).result() == 0
        _, back = ct.parallel.remote_pullback(executor, np.sin, 0.0)
        del back
        assert executor.submit(held).result() == 0


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="the system has no SIGKILL")
def test_a_worker_that_dies():
    with pool() as executor:
        _, back = ct.parallel.remote_pullback(executor, np.sin, 0.0)
        os.kill(back.process, signal.SIGKILL)
        with pytest.raises(ct.parallel.WorkerLostError, match="make the pullback anew"):
            back(1.0)


def failing(x):
    raise ZeroDivisionError("here")


def slow(x):
    time.sleep(1.0)
    return x


def test_errors():
    with pool() as executor:
        with pytest.raises(ZeroDivisionError, match="here"):
            ct.parallel.remote_pullback(executor, failing, 1.0)
        _, back = ct.parallel.remote_pullback(executor, np.sin, np.zeros(3))
        with pytest.raises(ValueError, match="shape"):
            back(np.ones(2))
        with pytest.raises(TimeoutError):
            ct.parallel.remote_pullback(executor, slow, 1.0, timeout=0.2)
    with pytest.raises(TypeError, match="executor must be"):
        ct.parallel.remote_pullback(np.sin, 1.0)


def test_dask():
    distributed = pytest.importorskip("distributed", reason="distributed (Dask) is not installed")
    options = {"threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50}
    with (
        distributed.LocalCluster(n_workers=2, **options) as cluster,
        distributed.Client(cluster) as client,
    ):
        x = client.scatter(X)
        value, remote = ct.parallel.remote_pullback(client, simulate, P, x)
        assert str(client.who_has([x])).count("tcp://") == 1
        here, back = ct.pullback(simulate, P, X)
        dy = {"end": X, "mean": 1.0}
        for mine, theirs in zip(back(dy), remote(dy), strict=True):
            for a, b in zip(ct.tree_leaves(mine), ct.tree_leaves(theirs), strict=True):
                np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(value["end"], here["end"])
