"""`scipy.spatial.transform.Rotation` of traced arguments, against SciPy's and differences."""

import numpy as np
import pytest

import cotan as ct

transform = pytest.importorskip("scipy.spatial.transform")
R = transform.Rotation
pytestmark = pytest.mark.skipif(
    bool(R.__flags__ & 1 << 8), reason="compiled in this SciPy: refused by name"
)

ANGLES = np.array([0.3, -0.4, 1.2])
VECTORS = np.array([[1.0, 2.0, 3.0], [-1.0, 0.5, 0.2]])
MATRIX = R.from_euler("xyz", [2.8, 0.3, -0.7]).as_matrix()

PROGRAMS = {
    "euler": lambda t: R.from_euler("zyx", t * ANGLES).as_matrix(),
    "intrinsic": lambda t: R.from_euler("ZXZ", t * ANGLES * 50, degrees=True).as_quat(),
    "one": lambda t: R.from_euler("y", t).apply(VECTORS),
    "several": lambda t: R.from_euler("xy", t * VECTORS[:, :2]).as_matrix(),
    "rotvec": lambda t: R.from_rotvec(t * VECTORS).as_quat(),
    "rotvec back": lambda t: R.from_rotvec([t, 0.3, 0.1]).as_rotvec(),
    "small": lambda t: R.from_rotvec((t - 0.7) * ANGLES + 1e-5).as_rotvec(),
    "mrp": lambda t: R.from_mrp(t * VECTORS).as_quat(),
    "mrp back": lambda t: (R.from_rotvec(9 * t * VECTORS) * R.from_euler("x", 0.3)).as_mrp(),
    "matrix": lambda t: R.from_matrix(MATRIX @ R.from_rotvec([t, 0, 0]).as_matrix()).as_quat(True),
    "quat": lambda t: R.from_quat([t, 0.5, -0.3, 1.0]).as_euler("xyz"),
    "scalar first": lambda t: R.from_quat([t, 0.5, -0.3, 1.0], scalar_first=True).as_matrix(),
    "symmetric": lambda t: R.from_quat([t, 0.5, -0.3, 1.0]).as_euler("zxz", degrees=True),
    "EULER": lambda t: R.from_rotvec(t * ANGLES).as_euler("ZYX"),
    "inverse": lambda t: R.from_rotvec(t * ANGLES).inv().apply(VECTORS[0]),
    "other way": lambda t: R.from_rotvec(t * ANGLES).apply(VECTORS, inverse=True),
    "composed": lambda t: (R.from_rotvec(t * ANGLES) * R.from_euler("x", 0.3)).as_matrix(),
    "composed on the left": lambda t: (
        R.from_euler("x", 0.3) * R.from_rotvec(t * ANGLES)
    ).as_quat(),
    "vectors": lambda t: R.from_euler("z", 0.3).apply(t * VECTORS),
    "power": lambda t: (R.from_rotvec(t * ANGLES) ** 0.5).as_matrix(),
    "magnitude": lambda t: R.from_euler("zyx", t * ANGLES).magnitude(),
    "items": lambda t: R.from_rotvec(t * VECTORS)[1].as_matrix(),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_rotations(name):
    def f(t):
        result = np.asarray(PROGRAMS[name](t))
        weight = np.cos(np.arange(result.size)).reshape(result.shape)
        return np.sum(result * weight)

    value, (slope,) = ct.value_and_gradient(f, 0.7)
    assert value == pytest.approx(f(0.7), rel=1e-12)
    step = 1e-5
    assert slope == pytest.approx((f(0.7 + step) - f(0.7 - step)) / (2 * step), rel=1e-6)
    second = ct.grad(ct.grad(f))(0.7)
    first = ct.grad(f)
    expected = (first(0.7 + step) - first(0.7 - step)) / (2 * step)
    assert second == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_the_class_stays():
    def f(x):
        r = R.from_euler("z", x)
        assert isinstance(r, R) and r.single
        assert len(R.from_rotvec(x * VECTORS)) == 2
        assert type(R.identity()) is R
        with pytest.raises(ValueError, match="zero norm"):
            R.from_quat(x * np.zeros(4))
        with pytest.raises(TypeError, match="use np.linalg.eigh"):
            R.from_rotvec(x * VECTORS).mean()
        return r.as_matrix()[0, 1]

    assert ct.gradient(f, 0.0) == (-1.0,)
    assert type(R.from_euler("z", 0.1)) is R


def test_the_identity_has_a_derivative():
    (g,) = ct.gradient(lambda v: np.sum(R.from_rotvec(v).as_matrix() * MATRIX), np.zeros(3))
    expected = [
        MATRIX[2, 1] - MATRIX[1, 2],
        MATRIX[0, 2] - MATRIX[2, 0],
        MATRIX[1, 0] - MATRIX[0, 1],
    ]
    np.testing.assert_allclose(g, expected)
