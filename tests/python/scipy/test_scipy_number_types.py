"""Where SciPy gives a number of Python's, code under a gradient gets one, too, and not NumPy's."""

import numpy as np
import pytest
from scipy import integrate, interpolate, linalg, optimize, stats
from scipy.spatial import KDTree, distance

import cotan as ct

V = np.array([0.4, 0.7, 1.1, 1.6, 2.2, 2.9])
PLACES = np.arange(6.0)


def equation(v):
    return lambda t: t**2 - v[0]


def surface(v):
    return interpolate.RectBivariateSpline(PLACES, PLACES, np.outer(v, v))


CASES = {
    "quad": lambda v: integrate.quad(lambda t: np.exp(-v[0] * t), 0, 1)[0],
    "quad to infinity": lambda v: integrate.quad(lambda t: np.exp(-v[0] * t), 0, np.inf)[0],
    "an end of quad": lambda v: integrate.quad(lambda t: t, 0, v[0])[0],
    "complex quad": lambda v: integrate.quad(
        lambda t: np.exp(1j * v[0] * t), 0, 1, complex_func=True
    )[0],
    "dblquad": lambda v: integrate.dblquad(lambda y, x: v[0] * x * y, 0, 1, 0, 1)[0],
    **{
        name: lambda v, name=name: getattr(optimize, name)(equation(v), 0, 5)
        for name in ("bisect", "brenth", "brentq", "ridder", "toms748")
    },
    "newton": lambda v: optimize.newton(equation(v), 1.0),
    "root_scalar": lambda v: optimize.root_scalar(equation(v), bracket=(0, 5)).root,
    "nnls": lambda v: optimize.nnls(np.eye(3) + 0.1, v[:3] - 1)[1],
    "integral of a spline": lambda v: interpolate.UnivariateSpline(PLACES, v, s=0).integral(0, 3),
    "integral of a surface": lambda v: surface(v).integral(0, 1, 0, 1),
    "fit": lambda v: stats.halfcauchy.fit(v)[1],
    "query": lambda v: KDTree(np.stack([v, v], 1)).query([0.0, 0.0])[0],
    "seuclidean": lambda v: distance.seuclidean(v[:3], v[3:], np.ones(3)),
    "norm": linalg.norm,
    "norm of a matrix": lambda v: linalg.norm(np.outer(v, v)),
    "another norm": lambda v: linalg.norm(v, 3),
}


@pytest.mark.parametrize("name", CASES)
def test_the_type_is_that_of_scipy(name):
    kinds, f = [], CASES[name]

    def of_real(v):
        kinds.append(f(v))
        return np.real(kinds[-1])

    value = ct.pullback(f, V)[0]
    assert type(value) is type(f(V))
    assert value == pytest.approx(f(V), rel=1e-9)
    ct.gradient(of_real, V)
    assert type(kinds[0]) == type(f(V))  # noqa: E721 - classes of active scalars equal those
