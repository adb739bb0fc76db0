"""Gradients over batches by Ray."""

import os
import random
import signal

import numpy as np
import pytest

import cotan as ct

ray = pytest.importorskip("ray", reason="ray is not installed")

pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.timeout(300)]

rng = np.random.default_rng(0)
X, Y = rng.normal(size=(60, 4)), rng.normal(size=60)
BATCHES = [*zip(np.array_split(X, 7), np.array_split(Y, 7), strict=True)]
PARAMS = {"w": np.linspace(-1.0, 1.0, 4), "b": 0.25, "none": None}


@pytest.fixture(scope="module", autouse=True)
def cluster():
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def loss(p, x, y):
    return np.mean((np.tanh(x @ p["w"] + p["b"]) - y) ** 2)


def test_the_same_bits():
    mine = ct.parallel.value_and_gradient(loss, PARAMS, BATCHES)
    for _ in range(2):
        theirs = ct.parallel.value_and_gradient(loss, PARAMS, BATCHES, executor=ray)
        for one, other in zip(ct.tree_leaves(mine), ct.tree_leaves(theirs), strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_progress_bar_of_ray():
    from ray.experimental import tqdm_ray

    bar = tqdm_ray.tqdm(total=len(BATCHES))
    ct.parallel.gradient(loss, PARAMS, BATCHES, executor=ray, progress=bar.update)
    assert bar._x == len(BATCHES)
    bar.close()


def test_functions_that_are_no_programs_and_errors():
    def f(w, x):
        if len(x) == 3:
            raise ZeroDivisionError("no three")
        return w * np.mean(x) + 0.0 * random.random()

    assert ct.parallel.gradient(f, 1.0, [np.ones(2)] * 4, executor=ray) == 1.0
    with pytest.raises(ZeroDivisionError, match="no three") as caught:
        ct.parallel.gradient(f, 1.0, [np.ones(2), np.ones(3)], executor=ray)
    assert "raised by batch 1" in caught.value.__notes__[-1]


def test_a_worker_that_dies_is_replaced_and_nothing_counts_twice(tmp_path):
    path = str(tmp_path / "dead")

    def f(w, x):
        if len(x) == 3 and not os.path.exists(path):
            with open(path, "w"):
                pass
            os.kill(os.getpid(), signal.SIGKILL)
        return w * np.sum(x) + 0.0 * random.random()

    batches = [np.ones(2), np.ones(2), np.ones(3), np.ones(2), np.ones(4)]
    slope = ct.parallel.gradient(f, 1.0, batches, executor=ray, reduce="sum")
    assert os.path.exists(path) and slope == 13.0
