#!/usr/bin/env python3
"""Runs the test suite of another library with each test inside of a gradient.

    python tools/suite_inside_gradient.py RESULTS [pytest's arguments]

`--sample N` runs at most N parameter sets of each test function, `--part K/N` every N-th function
from the K-th on.

Each test function is called by a function that a gradient records. Its code is not handed an
active value, so it has to pass where it passes without. `RESULTS` is a file with a line of JSON for
each test, with the error where it failed. A process that a test ends by a crash is started again
behind that test, and a run whose file is there already goes on from its end.

The tests that fail inside of a gradient run once more without one, and those that pass then are
listed: they are the differences. Exits with 1 where there are some.

    python tools/suite_inside_gradient.py out.jsonl --pyargs numpy._core.tests

Needs pytest, and what the tests of the library need (hypothesis). docs/contributing/suites.md has
the last results, and the reason of each difference.
"""

import functools
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Generator
from typing import Any

import pytest

import cotan as ct

RESULTS = "COTAN_SUITE_RESULTS"
PLAINLY = "COTAN_SUITE_PLAINLY"
GOOD = {"passed", "skipped", "xfailed"}


class Plugin:
    """Calls each test inside of a gradient, and writes down how it ended."""

    def __init__(self, results: pathlib.Path, plainly: bool) -> None:
        self._results, self._plainly = results, plainly
        self._written = plain(results) if plainly else results
        self._outcome = self._error = ""

    def _write(self, test: str, outcome: str, error: str = "") -> None:
        line = {"test": test, "outcome": outcome} | ({"error": error} if error else {})
        with self._written.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def pytest_addoption(self, parser: pytest.Parser) -> None:
        """Add the options `--sample` and `--part`."""
        parser.addoption("--sample", type=int, default=0, help="parameter sets for each function")
        parser.addoption("--part", default="1/1", help="K/N: every N-th function from the K-th on")

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Leave out what has run, and what is not in the sample."""
        first, step = map(int, config.getoption("--part").split("/"))
        items[:] = sample(items, config.getoption("--sample"), first, step)
        known = read(self._written)
        items[:] = [item for item in items if item.nodeid not in known]
        if self._plainly:
            failed = {t for t, outcome in read(self._results).items() if outcome not in GOOD}
            items[:] = [item for item in items if item.nodeid in failed]

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Put a gradient around the test function, inside of what other plugins put there."""
        function = getattr(item, "obj", None)
        if self._plainly or not isinstance(item, pytest.Function):
            return (yield)
        item.obj = inside_gradient(function)
        try:
            return (yield)
        finally:
            item.obj = function

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Take down that a test began: it may end the process."""
        self._outcome, self._error = "passed", ""
        self._write(nodeid, "crashed")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take down how it went."""
        if report.outcome == "failed":
            self._outcome = "failed"
            crash = getattr(report.longrepr, "reprcrash", None)
            self._error = f"{crash.path}:{crash.lineno}: {crash.message}" if crash else ""
        elif report.outcome == "skipped" and self._outcome == "passed":
            self._outcome = "xfailed" if hasattr(report, "wasxfail") else "skipped"

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Take down how it ended."""
        self._write(nodeid, self._outcome, self._error)


def inside_gradient(function: Any) -> Any:
    """Give a function that calls another one while a gradient is recorded."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> None:
        def recorded(x: Any) -> Any:
            function(*args, **kwargs)
            return x

        ct.gradient(recorded, 1.0)

    return call


def sample(items: list[pytest.Item], count: int, first: int, step: int) -> list[pytest.Item]:
    """Give so many parameter sets of every step-th function, spread over all of them; 0 is all."""
    functions: dict[str, list[pytest.Item]] = {}
    for item in items:
        functions.setdefault(item.nodeid.partition("[")[0], []).append(item)
    chosen = set()
    for found in list(functions.values())[first - 1 :: step]:
        every = -(-len(found) // count) if count else 1
        chosen |= {id(item) for item in found[::every]}
    return [item for item in items if id(item) in chosen]


def plain(results: pathlib.Path) -> pathlib.Path:
    """Name the file for what runs without a gradient."""
    return results.with_suffix(".plain" + results.suffix)


def read(results: pathlib.Path) -> dict[str, str]:
    """Give the last outcome of each test."""
    if not results.exists():
        return {}
    lines = map(json.loads, results.read_text().splitlines())
    return {line["test"]: line["outcome"] for line in lines}


def run(results: pathlib.Path, arguments: list[str], plainly: bool) -> None:
    """Run pytest in processes of its own until one reaches the end."""
    written = plain(results) if plainly else results
    options = ["-p", "no:cacheprovider", "-q", "--no-header"]
    environment = os.environ | {RESULTS: str(results), PLAINLY: str(int(plainly))}
    while True:
        before = len(read(written))
        command = [sys.executable, __file__, "--pytest", *options, *arguments]
        code = subprocess.run(command, env=environment, check=False).returncode
        if code in range(6) or len(read(written)) == before:
            return
        print(f"the process ended with {code}; going on", file=sys.stderr)


def main() -> int:
    """Run a suite inside of gradients, and what failed there once more without."""
    if sys.argv[1] == "--pytest":
        plugin = Plugin(pathlib.Path(os.environ[RESULTS]), os.environ[PLAINLY] == "1")
        return int(pytest.main(sys.argv[2:], plugins=[plugin]))
    results, arguments = pathlib.Path(sys.argv[1]).absolute(), sys.argv[2:]
    run(results, arguments, plainly=False)
    run(results, arguments, plainly=True)
    inside, alone = read(results), read(plain(results))
    differences = [t for t, o in inside.items() if o not in GOOD and alone.get(t) in GOOD]
    for test in differences:
        print(f"{inside[test]}: {test}")
    print(f"{len(inside)} tests, {len(differences)} that pass without a gradient alone")
    return int(bool(differences))


if __name__ == "__main__":
    sys.exit(main())
