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


def run(name, ranks):
    """Let ranks run a function of `ranks.py`; give what they print."""
    command = [MPIEXEC, "-n", str(ranks), sys.executable, str(RANKS), name]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=90,
        env={**os.environ, "COTAN_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("name", ["structures", "gradients"])
def test_ranks(name, ranks):
    run(name, ranks)


@pytest.mark.parametrize("name", ["uneven", "training", "faults"])
def test_two_ranks(name):
    run(name, 2)


def test_three_ranks_with_uneven_shares():
    run("uneven", 3)


def test_runs_give_the_same_bits():
    first = run("bits", 2)
    assert len(first) > 100
    assert run("bits", 2) == first
