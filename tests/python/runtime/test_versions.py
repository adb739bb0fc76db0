"""Versions of Python and NumPy that are not supported are refused by `import cotan`."""

import os
import re
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest

from cotan._src.runtime import versions

FREE_THREADED = "sys.version = '3.14.2 free-threading build (main) [GCC 14.2.0]'"
PROJECT = Path(__file__).parents[3] / "pyproject.toml"


@pytest.mark.parametrize(
    ("pretend", "message"),
    [
        ("sys.version_info = (3, 10, 4, 'final', 0)", "cotan needs Python 3.11 to 3.14"),
        ("sys.version_info = (3, 15, 0, 'final', 0)", "this is Python 3.15"),
        (
            f"{FREE_THREADED}; sys.version_info = (3, 13, 5, 'final', 0)",
            "cotan needs free-threaded Python 3.14 or the usual build, and this is",
        ),
        pytest.param(
            f"{FREE_THREADED}; sys.version_info = (3, 14, 2, 'final', 0)",
            "install the wheel whose name has cp314t",
            marks=pytest.mark.skipif(
                "free-threading" in sys.version, reason="the module here is a free-threaded one"
            ),
        ),
        ("numpy.__version__ = '2.0.2'", "cotan needs NumPy 2.1 or later, and NumPy 2.0.2"),
        ("numpy.__version__ = '1.26.4'", 'pip install --upgrade "numpy>=2.1"'),
    ],
)
def test_what_is_out_of_range_is_refused(pretend, message):
    code = f"""
        import sys, numpy
        {pretend}
        try:
            import cotan
        except ImportError as error:
            print(error)
        else:
            raise AssertionError("imported")
        assert "cotan._core" not in sys.modules
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ,
    )
    assert done.returncode == 0, done.stderr
    assert message in done.stdout


@pytest.mark.skipif("free-threading" not in sys.version, reason="this Python has only its lock")
@pytest.mark.parametrize("setting", [None, "0"])
def test_a_free_threaded_python_gets_its_lock_back(setting):
    code = "import sys, cotan; print(sys._is_gil_enabled())"
    settings = {"PYTHON_GIL", "PYTHONWARNINGS"}
    environment = {name: value for name, value in os.environ.items() if name not in settings}
    if setting is not None:
        environment["PYTHON_GIL"] = setting
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env=environment,
    )
    assert done.stdout.split() == [str(setting is None)]
    assert ("has been enabled to load module 'cotan._core'" in done.stderr) == (setting is None)


@pytest.mark.parametrize("version", ["2.1.0", "2.10.1", "2.4.0rc1", "3.0.0.dev0+git"])
def test_versions_of_numpy_in_range_are_taken(monkeypatch, version):
    monkeypatch.setattr("numpy.__version__", version)
    versions.check_versions()


def test_the_project_names_the_same_bounds():
    project = tomllib.loads(PROJECT.read_text())["project"]
    bounds = [tuple(map(int, b)) for b in re.findall(r"(\d+)\.(\d+)", project["requires-python"])]
    assert tuple(bounds) == versions.PYTHON
    (numpy,) = (d for d in project["dependencies"] if d.startswith("numpy"))
    assert numpy == "numpy>={}.{}".format(*versions.NUMPY)
