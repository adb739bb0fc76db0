import gc

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

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


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def pytest_addoption(parser):
    parser.addoption(
        "--update-snapshots", action="store_true", help="write tests/snapshots/ as it is now"
    )


def pytest_collection_finish():
    """Spare the garbage collector what was imported and collected, which stays to the end."""
    gc.collect()
    gc.freeze()
