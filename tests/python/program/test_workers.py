"""Pullbacks are applied in other processes."""

import multiprocessing
import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import cotan as ct

EXAMPLE = Path(__file__).parents[3] / "examples" / "workers.py"
METHODS = [
    m for m in ("fork", "spawn", "forkserver") if m in multiprocessing.get_all_start_methods()
]
# Python warns of forking a process with threads; ours are started again in the child.
forks = pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")


def applied(back, dy):
    """Apply a pullback; say in which process."""
    return os.getpid(), back(dy)


@forks
@pytest.mark.parametrize("method", METHODS)
def test_a_pullback_is_applied_elsewhere(method):
    x = np.linspace(-1.0, 1.0, 50_000)
    _, back = ct.pullback(lambda x, w: {"y": np.tanh(x * w["a"]), "s": np.sum(x)}, x, {"a": 2.0})
    cotangents = [{"y": x * i, "s": float(i)} for i in range(4)]
    # The threads of this process are running when it forks.
    expected = [[np.asarray(dx), float(dw["a"])] for dx, dw in map(back, cotangents)]
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        results = list(pool.map(applied, [back] * 4, cotangents))
    for (process, (dx, dw)), (mine, a) in zip(results, expected, strict=True):
        assert process != os.getpid()
        # What comes back is computed.
        assert dx.is_forced
        np.testing.assert_array_equal(dx, mine)
        assert float(dw["a"]) == a


@forks
@pytest.mark.parametrize("method", METHODS)
def test_the_example(method, tmp_path):
    done = subprocess.run(
        [sys.executable, EXAMPLE, "--method", method],
        check=True,
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert "was found at 17" in done.stdout
    assert "Traceback" not in done.stderr
