"""Leaves out what only imports with a library that is missing: docstrings, scripts of tests.

With `--no-skips` nothing may be left out: a run in which a test skips fails.
"""

import importlib.util

import pytest

_FILES = {
    "jax": ("python/cotan/jax.py", "python/cotan/_src/interop/jax_*.py"),
    "torch": ("python/cotan/torch.py", "python/cotan/_src/interop/torch_*.py"),
    "pytensor": ("python/cotan/pytensor.py", "python/cotan/_src/pytensor/operation.py"),
    "mpi4py": ("tests/python/parallel/ranks.py", "python/cotan/_src/parallel/communicator.py"),
}
collect_ignore_glob = [
    pattern
    for library, patterns in _FILES.items()
    if importlib.util.find_spec(library) is None
    for pattern in patterns
]


def pytest_addoption(parser):
    """Add `--no-skips`."""
    parser.addoption("--no-skips", action="store_true", help="a test that skips fails the run")


def pytest_sessionfinish(session):
    """Fail for tests that were skipped."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter is not None else []
    if skipped and session.config.option.no_skips and session.exitstatus == 0:
        reporter.write_line(f"--no-skips: {len(skipped)} skipped", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
