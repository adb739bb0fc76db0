"""Names of lifted modules, asked for by compiled code, by `getattr`, and by Python code."""

import numpy as np
import pytest

import cotan as ct


def test_compiled_code_gets_what_the_module_has():
    """Cython takes for granted that `np.empty` gives an ndarray."""

    def f(x):
        rng = np.random.default_rng(3)
        noise = rng.uniform(0.5, 1.5, (3,))
        assert type(noise) is np.ndarray
        assert type(getattr(rng, "normal")(size=(3,))) is np.ndarray  # noqa: B009
        return np.sum(noise * x) + np.sum(np.random.normal(size=3)) * 0.0

    (g,) = ct.gradient(f, np.ones(3))
    np.testing.assert_array_equal(g, np.random.default_rng(3).uniform(0.5, 1.5, (3,)))


@pytest.mark.parametrize("name", ["array", "asarray"])
def test_getattr_reads_a_name_as_well(name):
    assert ct.gradient(lambda x: np.sum(getattr(np, name)([x, x * x])), 3.0) == (7.0,)

    def inside(x, missing=None):
        make = getattr(np, name, missing)
        return np.sum(make([x, getattr(np, name)([x, x * x])[1]]))

    assert ct.gradient(inside, 3.0) == (7.0,)
