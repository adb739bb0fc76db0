"""Functions of SciPy that compute in double precision give that for float32, too."""

import numpy as np
import pytest
from scipy import linalg, signal
from scipy.linalg import blas
from scipy.spatial import distance

import cotan as ct

RNG = np.random.default_rng(4)
MATRIX = (np.eye(3) * 4 + RNG.standard_normal((3, 3))).astype(np.float32)
ONE = np.eye(3, dtype=np.float32)
PAIR = np.abs(RNG.standard_normal((2, 4))).astype(np.float32)
WEIGHTS = np.full(4, 0.5, np.float32)
WAVE = np.sin(np.arange(40, dtype=np.float32)) * np.arange(40, dtype=np.float32)

CASES = {
    **{
        name: (lambda x, name=name: getattr(distance, name)(x[0], x[1]), PAIR)
        for name in ("braycurtis", "canberra", "cityblock", "cosine", "euclidean", "minkowski")
    },
    **{
        f"{name} with weights": (
            lambda x, name=name: getattr(distance, name)(x[0], x[1], w=WEIGHTS),
            PAIR,
        )
        for name in ("cityblock", "correlation", "cosine", "euclidean", "sqeuclidean")
    },
    "directed_hausdorff": (lambda x: distance.directed_hausdorff(x, x + 1)[0], PAIR),
    "find_peaks": (lambda x: signal.find_peaks(x, height=0)[1]["peak_heights"], WAVE),
    "peak_widths": (lambda x: signal.peak_widths(x, signal.find_peaks(x)[0])[0], WAVE),
    "solve_continuous_are": (lambda a: linalg.solve_continuous_are(a, ONE, ONE, ONE), MATRIX),
    "solve_discrete_are": (lambda a: linalg.solve_discrete_are(a, ONE, ONE, ONE), MATRIX),
    "dtrsm": (lambda a: blas.dtrsm(1.0, a, ONE), MATRIX),
    "strsm": (lambda a: blas.strsm(1.0, a, ONE), MATRIX),
}


@pytest.mark.parametrize("name", CASES)
def test_results_have_the_type_that_scipy_gives(name):
    f, x = CASES[name]
    value = f(x)
    found, (slope,) = ct.value_and_gradient(lambda x: np.sum(f(x)), x)
    got = ct.pullback(f, x)[0]
    assert (np.result_type(got), np.shape(got)) == (np.result_type(value), np.shape(value))
    assert type(got) is type(value) or np.ndim(value)
    np.testing.assert_allclose(found, np.sum(value), rtol=1e-4)
    wanted = ct.gradient(lambda x: np.sum(f(x)), x.astype(float))[0]
    assert slope.dtype == np.float32
    np.testing.assert_allclose(slope, wanted, rtol=2e-3, atol=1e-3)
