"""Finds other versions of Python that the tests should run on: one of each that is installed.

A change is tested with the Python of the virtual environment. What cotan relies on differs between
versions: bytecode, layouts of objects, what is counted as a reference. Prints the path of the
newest interpreter of each other supported version, on the path or among pyenv's, one per line.
"""

import json
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

TOP = Path(__file__).parents[1]
_TELL = "import json, sys, ensurepip; print(json.dumps([sys.version_info[:3], sys.version]))"


def supported() -> list[tuple[int, int]]:
    """Give the versions that `pyproject.toml` names."""
    project = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
    words = [c.rpartition(" ")[2] for c in project["classifiers"] if ":: Python :: 3." in c]
    return [(3, int(word.partition(".")[2])) for word in words]


def candidates() -> Iterator[str]:
    """Give interpreters, whatever their version is and whether they run."""
    for major, minor in supported():
        found = shutil.which(f"python{major}.{minor}")
        if found:
            yield found
    pyenv = shutil.which("pyenv")
    if pyenv:
        root = subprocess.run([pyenv, "root"], capture_output=True, text=True, check=False)
        if root.returncode == 0:
            yield from map(str, sorted(Path(root.stdout.strip()).glob("versions/*/bin/python")))


def version(python: str) -> tuple[int, ...] | None:
    """Give the version of an interpreter that can make a virtual environment, None of others."""
    done = subprocess.run(
        [python, "-c", _TELL], capture_output=True, text=True, check=False, timeout=60
    )
    if done.returncode:
        return None  # a shim of a version that is not chosen, an installation without pip
    numbers, text = json.loads(done.stdout)
    # Free-threaded ones do not load the module of that wheel: `make test-free-threaded`.
    return None if "free-threading" in text else tuple(numbers)


def main() -> None:
    """Print them."""
    best: dict[tuple[int, ...], tuple[tuple[int, ...], str]] = {}
    for python in candidates():
        numbers = version(python)
        if numbers and numbers[:2] in supported() and numbers[:2] != sys.version_info[:2]:
            best[numbers[:2]] = max(best.get(numbers[:2], ((), "")), (numbers, python))
    for _, python in sorted(best.values()):
        print(python)


if __name__ == "__main__":
    main()
