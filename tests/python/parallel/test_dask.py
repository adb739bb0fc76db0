"""Gradients over batches by a cluster of Dask: futures and chunks stay where they are."""

import contextlib
import os
import random
import signal
import threading
import time

import numpy as np
import pytest

import cotan as ct

distributed = pytest.importorskip("distributed", reason="distributed (Dask) is not installed")
dask = pytest.importorskip("dask")
dask_array = pytest.importorskip("dask.array", reason="dask is not installed")

# Libraries of the cluster leave sockets to the collector.
pytestmark = [
    pytest.mark.filterwarnings("default"),
    pytest.mark.timeout(300),
]


def cluster(**options):
    given = {
        "n_workers": 2,
        "threads_per_worker": 1,
        "dashboard_address": ":0",
        "silence_logs": 50,
        **options,
    }
    return distributed.LocalCluster(**given)


@pytest.fixture(scope="module")
def client():
    with cluster() as made, distributed.Client(made) as client:
        yield client


rng = np.random.default_rng(0)
X, Y = rng.normal(size=(60, 4)), rng.normal(size=60)
BATCHES = [*zip(np.array_split(X, 7), np.array_split(Y, 7), strict=True)]
PARAMS = {"w": np.linspace(-1.0, 1.0, 4), "b": 0.25, "none": None}


def loss(p, x, y):
    return np.mean((np.tanh(x @ p["w"] + p["b"]) - y) ** 2)


def assert_same(a, b):
    for one, other in zip(ct.tree_leaves(a), ct.tree_leaves(b), strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_same_bits(client):
    mine = ct.parallel.value_and_gradient(loss, PARAMS, BATCHES)
    for executor in (client, client.get_executor(), client):
        assert_same(mine, ct.parallel.value_and_gradient(loss, PARAMS, BATCHES, executor=executor))


def test_what_progress_bars_of_dask_show(client):
    with distributed.get_task_stream(client) as stream:
        ct.parallel.gradient(loss, PARAMS, BATCHES, executor=client)
    keys = [task["key"] for task in stream.data]
    assert sum(distributed.utils.key_split(key) == "cotan_gradient" for key in keys) == 7


def test_local_functions_that_are_no_programs(client):
    def f(w, x):
        return w * np.mean(x) + 0.0 * random.random()

    assert ct.parallel.gradient(f, 1.0, [np.ones(2)] * 4, executor=client) == 1.0


def test_large_parameters_and_constants(client):
    table = rng.normal(size=20_000)
    w = rng.normal(size=20_000)

    def f(w, x, table):
        return np.mean(x) * np.sum(w * table)

    for _ in range(2):
        slope = ct.parallel.gradient(
            f, w, [np.full(2, 2.0)] * 4, executor=client, constants=(table,)
        )
        np.testing.assert_array_equal(slope, 2.0 * table)


def test_futures_do_not_come_back(client, monkeypatch):
    batches = [tuple(client.scatter(list(batch), direct=True)) for batch in BATCHES]
    gathered = []

    def gather(futures, gather=client.gather):
        gathered.append(gather(futures))
        return gathered[-1]

    monkeypatch.setattr(client, "gather", gather)
    mine = ct.parallel.value_and_gradient(loss, PARAMS, BATCHES)
    theirs = ct.parallel.value_and_gradient(loss, PARAMS, batches, executor=client)
    np.testing.assert_allclose(mine[0], theirs[0], rtol=1e-14)
    np.testing.assert_allclose(mine[1]["w"], theirs[1]["w"], rtol=1e-14)
    # Nothing but how many examples they have.
    assert gathered == [[9.0, 9.0, 9.0, 9.0, 8.0, 8.0, 8.0]]


def test_chunks_of_arrays_are_batches(client):
    x = client.persist(dask_array.from_array(X, chunks=(25, 4)))
    y = client.persist(dask_array.from_array(Y, chunks=25))
    batches = [(x.blocks[i], y.blocks[i]) for i in range(x.numblocks[0])]
    theirs = ct.parallel.value_and_gradient(loss, PARAMS, batches, executor=client)
    mine = ct.parallel.value_and_gradient(
        loss, PARAMS, [(X[i : i + 25], Y[i : i + 25]) for i in (0, 25, 50)]
    )
    np.testing.assert_allclose(mine[0], theirs[0], rtol=1e-14)
    np.testing.assert_allclose(mine[1]["w"], theirs[1]["w"], rtol=1e-14)


def failing(w, x):
    if len(x) == 3:
        raise ZeroDivisionError("no three")
    return w * np.mean(x)


def test_errors_name_the_batch(client):
    with pytest.raises(ZeroDivisionError, match="no three") as caught:
        ct.parallel.gradient(failing, 1.0, [np.ones(2), np.ones(3)], executor=client)
    assert "raised by batch 1" in caught.value.__notes__[-1]


def test_a_deadline(client):
    def slow(w, x):
        time.sleep(2.0)
        return w * random.random()

    with pytest.raises(TimeoutError, match="0 batches were done after 0.5 s"):
        ct.parallel.gradient(slow, 1.0, [np.ones(1)] * 4, executor=client, timeout=0.5)


def dying_once(w, x, path):
    """Kill the worker, the first time only."""
    if len(x) == 3:
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            pass
        else:
            os.kill(os.getpid(), signal.SIGKILL)
    return w * np.sum(x) + 0.0 * random.random()


def test_a_worker_that_dies_is_replaced_and_nothing_counts_twice(tmp_path):
    batches = [np.ones(2), np.ones(2), np.ones(3), np.ones(2), np.ones(4)]
    with cluster() as made, distributed.Client(made) as client:
        slope = ct.parallel.gradient(
            dying_once,
            1.0,
            batches,
            executor=client,
            reduce="sum",
            constants=(str(tmp_path / "dead"),),
        )
        assert (tmp_path / "dead").exists()
        assert slope == 13.0


def dying(w, x):
    if len(x) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return w * np.sum(x) + 0.0 * random.random()


def test_a_batch_that_kills_every_worker():
    few = dask.config.set({"distributed.scheduler.allowed-failures": 1})
    with few, cluster() as made, distributed.Client(made) as client:
        with pytest.raises(ct.parallel.WorkerLostError, match="KilledWorker") as caught:
            ct.parallel.gradient(dying, 1.0, [np.ones(2), np.ones(3)], executor=client)
        assert 1 in caught.value.batches


def test_a_scheduler_that_goes_away():
    def slow(w, x):
        time.sleep(30.0 * float(ct.dropgrad(w)))  # is refused where it is recorded
        return w

    made = cluster(processes=False, n_workers=1)
    client = distributed.Client(made)
    try:
        closer = threading.Timer(1.0, client.close)
        closer.start()
        begin = time.monotonic()
        with pytest.raises(ct.parallel.WorkerLostError, match="lost"):
            ct.parallel.gradient(slow, 1.0, [np.ones(2)] * 3, executor=client)
        assert time.monotonic() - begin < 15
        closer.join()
    finally:
        client.close()
        with contextlib.suppress(TimeoutError):
            made.close(timeout=2)
