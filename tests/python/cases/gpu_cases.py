"""The GPU of tests, if there is one, and the mark of tests that need it."""

import pytest

import cotan as ct


def _gpu():
    try:
        return ct.device("gpu")
    except RuntimeError:
        return None


GPU = _gpu()
needs_gpu = pytest.mark.skipif(GPU is None, reason="no GPU, or cotan was built without support")
