"""SciPy's page names every public function and class of the subpackages that have rows, once."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import cotan as ct
from cotan._src.runtime.registry import Kind, owners

TOP = Path(__file__).parents[3]
PAGE = TOP / "docs" / "reference" / "scipy.md"
sys.path.append(str(TOP / "tools"))

import coverage_page as coverage  # noqa: E402
import generate  # noqa: E402
import scipy_table  # noqa: E402

ABOUT = generate.COVERAGE.read_text(encoding="utf-8")
its_versions = pytest.mark.skipif(
    coverage.versions() not in ABOUT, reason=f"the page is not about {coverage.versions()}"
)


def rows_of_page():
    """Give the rows of the table as (module, way, names)."""
    table = PAGE.read_text(encoding="utf-8").partition(scipy_table.BEGIN)[2]
    module = ""
    for line in table.partition(scipy_table.END)[0].splitlines()[2:]:
        _, head, way, names, _ = (cell.strip() for cell in line.split("|"))
        module = head.strip("`") or module
        yield module, way, re.findall(r"`(.+?)`", names)


@its_versions
@pytest.mark.parametrize("short", scipy_table.MODULES)
def test_each_public_name_is_classified_once(short):
    module = importlib.import_module(f"scipy.{short}")
    errors = {
        name
        for name in module.__all__
        if isinstance(value := getattr(module, name), type) and issubclass(value, BaseException)
    }
    public = {name for name in module.__all__ if callable(getattr(module, name))} - errors
    listed = [name for of, _, names in rows_of_page() if of == short for name in names]
    assert sorted(listed) == sorted(public)


@its_versions
def test_the_page_is_current():
    page = PAGE.read_text(encoding="utf-8")
    assert page == scipy_table.filled(page), "run `make generate`"


def test_the_ways_are_those_that_the_page_explains():
    explained = PAGE.read_text(encoding="utf-8").partition(scipy_table.BEGIN)[0]
    assert {way for _, way, _ in rows_of_page()} <= set(scipy_table.WAYS)
    for way in scipy_table.WAYS:
        assert f"\n| {way} | " in explained


def test_every_public_module_with_rows_is_on_the_page():
    for short in scipy_table.MODULES:
        importlib.import_module(f"scipy.{short}")
    ct.gradient(lambda x: x * x, 1.0)
    modules = {name for name in owners(Kind.FUNCTION) if re.fullmatch(r"scipy(\.[a-z]+)+", name)}
    assert modules - {f"scipy.{short}" for short in scipy_table.MODULES} == set()


@pytest.mark.parametrize(
    ("short", "name", "way"),
    [
        ("linalg", "expm", "a rule"),
        ("signal", "welch", "the library's own code"),
        ("special", "round", "piecewise constant: on values"),
        ("special", "jv", "a rule"),
        ("special", "smirnov", "refused by name"),
        ("integrate", "solve_bvp", "a rule"),
        ("interpolate", "griddata", "refused by name"),
        ("sparse.csgraph", "dijkstra", "refused by name"),
        ("sparse.csgraph", "laplacian", "no override"),
    ],
)
def test_ways_of_names(short, name, way):
    assert scipy_table.classified(short)[name] == way


def test_a_stale_page_fails_the_check(tmp_path):
    code = (
        "import sys, generate, scipy_table\n"
        "page = generate.SCIPY.read_text(encoding='utf-8').replace('`welch`', '`wench`')\n"
        f"generate.TOP = generate.Path({str(tmp_path)!r})\n"
        "generate.SCIPY = generate.TOP / 'scipy.md'\n"
        "generate.SCIPY.write_text(page, encoding='utf-8')\n"
        "generate.outputs = lambda: {generate.SCIPY: generate.scipy_page}\n"
        "sys.argv[1:] = ['--check']\n"
        "generate.main()\n"
    )
    if coverage.versions() not in ABOUT:
        pytest.skip(f"the page is not about {coverage.versions()}")
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, cwd=TOP / "tools", capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "scipy.md is not what the table gives" in done.stderr
