"""The programs of docs/how_to/scaling.md for engines that `make test` does not install."""

import doctest
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

PAGE = Path(__file__).parents[3] / "docs/how_to/scaling.md"
BLOCKS = re.findall(r"^```py\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
# Wheels of MPI put it beside Python.
BESIDE = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
MPIEXEC = shutil.which("mpiexec", path=BESIDE)


def expect(module):
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed")
    if module == "mpi4py" and MPIEXEC is None:
        pytest.skip("there is no mpiexec")


def program(word):
    (block,) = [block for block in BLOCKS if word in block]
    return block


def setting():
    """Give the page's first session, in which the names of its programs are made, as code."""
    text = PAGE.read_text().partition("```pycon\n")[2].partition("```")[0]
    examples = doctest.DocTestParser().get_examples(text)
    return "".join(example.source for example in examples)


def run(command, tmp_path, text):
    path = tmp_path / "program.py"
    path.write_text(text)
    done = subprocess.run(
        [*command, str(path)],
        check=False,
        capture_output=True,
        text=True,
        timeout=200,
        cwd=tmp_path,
        env={**os.environ, "COTAN_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


CHECK = "\n{indent}assert np.allclose(slope, expected), slope\n{indent}print('the same')\n"


@pytest.mark.parametrize("engine", ["distributed", "ray"])
def test_engines(engine, tmp_path):
    expect(engine)
    text = setting() + program(f"import {engine}") + CHECK.format(indent="")
    assert "the same" in run([sys.executable], tmp_path, text)


def test_a_pool_of_ranks(tmp_path):
    expect("mpi4py")
    # All ranks import the program, one runs it.
    text = setting() + program("MPIPoolExecutor")
    indented = "".join(f"    {line}\n" if line else "\n" for line in text.split("\n"))
    text = f"if __name__ == '__main__':\n{indented}" + CHECK.format(indent="    ")
    command = [MPIEXEC, "-n", "3", sys.executable, "-m", "mpi4py.futures"]
    assert "the same" in run(command, tmp_path, text)


def test_a_program_for_ranks(tmp_path):
    expect("mpi4py")
    command = [MPIEXEC, "-n", "2", sys.executable]
    printed = run(command, tmp_path, program("Communicator"))
    numbers = [float(number) for number in re.findall(r"-?\d+\.\d*", printed)]
    np.testing.assert_allclose(numbers, [1.0, -2.0, 0.5, 0.3], atol=0.05)


def test_each_program_is_run():
    assert len(BLOCKS) == 4
