import gc
import os
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

import cotan as ct

if "free-threading" in sys.version:
    # Processes that tests start need not say that the interpreter lock is switched on.
    os.environ.setdefault("PYTHONWARNINGS", "ignore:The global interpreter lock:RuntimeWarning")

# The same examples in every run; `pytest --hypothesis-profile explore` looks further.
settings.register_profile(
    "default",
    max_examples=300,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "explore", settings.get_profile("default"), max_examples=10_000, derandomize=False
)
settings.load_profile("default")


@pytest.fixture(autouse=True)
def _no_repeated_functions():
    """Count the runs of functions in each test by itself: after some of them, they are replayed."""
    ct._core.forget_repeated_functions()


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def pytest_addoption(parser):
    parser.addoption(
        "--update-snapshots", action="store_true", help="write tests/snapshots/ as it is now"
    )
    parser.addoption("--device", help="run each test in a block of ct.use with this device")


class _OnDevice:
    """Runs tests in a block of `ct.use`; what a device has no dtype for is skipped."""

    def __init__(self, name):
        self.name = name

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self):
        try:
            with ct.use(self.name):
                return (yield)
        except RuntimeError as error:
            if ": the device has no " not in str(error):
                raise
            pytest.skip(str(error))


def pytest_configure(config):
    """Enter `--device`."""
    if config.option.device is not None:
        config.pluginmanager.register(_OnDevice(config.option.device))


def pytest_collection_finish():
    """Spare the garbage collector what was imported and collected, which stays to the end."""
    gc.collect()
    gc.freeze()
