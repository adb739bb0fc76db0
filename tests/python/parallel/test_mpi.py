"""Ranks of MPI that train together; each test runs `ranks.py` under `mpiexec`."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

RANKS = Path(__file__).with_name("ranks.py")
# Wheels of MPI put it beside Python.
MPIEXEC = shutil.which("mpiexec", path=os.pathsep.join(
    [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
))  # fmt: skip

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("mpi4py") is None, reason="mpi4py is not installed"
    ),
    pytest.mark.skipif(MPIEXEC is None, reason="there is no mpiexec"),
]


def run(name, ranks, fails=False):
    """Let ranks run a function of `ranks.py`; give what they print."""
    command = [MPIEXEC, "-n", str(ranks), sys.executable, str(RANKS), name]
    done = subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "COTAN_NUM_THREADS": "1"},
    )
    assert (done.returncode != 0) == fails, done.stderr[-4000:]
    return done.stdout


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("name", ["structures", "gradients"])
def test_ranks(name, ranks):
    run(name, ranks)


@pytest.mark.parametrize("name", ["uneven", "training", "overlap", "faults"])
def test_two_ranks(name):
    run(name, 2)


def test_a_rank_that_is_killed():
    assert "went on" not in run("killed", 3, fails=True)


def test_three_ranks_with_uneven_shares():
    run("uneven", 3)


def test_runs_give_the_same_bits():
    first = run("bits", 2)
    assert len(first) > 100
    assert run("bits", 2) == first


def test_a_pool_of_ranks(tmp_path):
    """`mpi4py.futures`, with a function that no module has."""
    script = tmp_path / "script.py"
    script.write_text(
        "import numpy as np, cotan as ct\n"
        "from mpi4py.futures import MPIPoolExecutor\n"
        "def main():\n"
        "    table = np.arange(3.0)\n"
        "    loss = lambda w, x: np.mean(w * table * x)\n"
        "    xs = [np.full(3, float(i)) for i in range(10)]\n"
        "    with MPIPoolExecutor() as pool:\n"
        "        mine = ct.parallel.value_and_gradient(loss, np.ones(3), xs)\n"
        "        for _ in range(2):\n"
        "            given = ct.parallel.value_and_gradient(loss, np.ones(3), xs, executor=pool)\n"
        "            assert mine[0] == given[0] and np.array_equal(mine[1], given[1])\n"
        "    print('the same')\n"
        "if __name__ == '__main__':\n"
        "    main()\n"
    )
    command = [MPIEXEC, "-n", "3", sys.executable, "-m", "mpi4py.futures", str(script)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout == "the same\n"
