"""Prepared functions that call NumPy and SciPy give the gradients of unprepared ones."""

import numpy as np
import pytest

import cotan as ct

pytest.importorskip("scipy")

from prepared_cases import CASES, arguments

# Catches an error that depends on values, so some calls run as if they were not prepared.
UNPREPARED = {"numpy.histogram"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_unprepared_calls(name):
    f = CASES[name]
    first, *others = arguments()
    g = ct.prepare(f, first)
    for x in (first, *others, first):
        (wanted,) = ct.gradient(f, x)
        np.testing.assert_allclose(g(x)[0], wanted, rtol=1e-9, atol=1e-11)
    assert name in UNPREPARED or g.explain().unprepared == {}
