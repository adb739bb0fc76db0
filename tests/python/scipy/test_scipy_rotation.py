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
    "EULER ZXZ": lambda t: R.from_euler("ZXZ", t * ANGLES * 50, degrees=True).as_quat(),
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
    "inverse power": lambda t: (R.from_rotvec(t * ANGLES) ** -1).as_rotvec(),
    "inverses": lambda t: R.from_rotvec(t * VECTORS).inv().as_rotvec(degrees=True),
    "loop": lambda t: sum(r.apply(ANGLES) for r in R.from_rotvec(t * VECTORS)),
    "mean": lambda t: R.from_rotvec(t * VECTORS).mean().as_rotvec(),
    "weighted mean": lambda t: R.from_rotvec(t * VECTORS).mean([1.0, t]).as_matrix(),
    "mean of one": lambda t: R.from_rotvec(t * VECTORS[[1, 1]]).mean().as_matrix(),
    "davenport": lambda t: R.from_davenport(MATRIX, "e", t * ANGLES).as_matrix(),
    "intrinsic davenport": lambda t: (
        R.from_davenport(2 * MATRIX[:2], "i", t * VECTORS[:, :2]).inv()[1].as_matrix()
    ),
    "concatenated": lambda t: R.concatenate(
        [R.from_rotvec(t * VECTORS), R.from_rotvec(ANGLES), R.from_rotvec(t * ANGLES)]
    ).as_rotvec(),
    "aligned": lambda t: R.align_vectors(VECTORS + t * ANGLES, VECTORS)[0].as_rotvec(),
    "aligned with weights": lambda t: R.align_vectors(
        np.vstack([VECTORS + t * ANGLES, ANGLES]), MATRIX, weights=[1.0, t, 2.0]
    )[1],
    "aligned axes": lambda t: R.align_vectors(R.from_rotvec(t * ANGLES).as_matrix(), MATRIX)[
        0
    ].as_rotvec(),
    "slerp": lambda t: transform.Slerp([0, 1], R.from_rotvec(t * VECTORS))([0.3, t]).as_rotvec(),
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


def weighted(name):
    def f(t):
        result = PROGRAMS[name](t)
        return np.sum(result * np.cos(np.arange(np.size(result))).reshape(np.shape(result)))

    return f


@pytest.mark.parametrize("name", PROGRAMS)
def test_prepared_and_mapped(name):
    f = weighted(name)
    prepared, value = ct.prepare(f), ct.prepare(f, transform="value")
    points = [0.7, 0.75, 0.65]
    for t in points:
        assert prepared(t)[0] == pytest.approx(ct.gradient(f, t)[0], rel=1e-9)
        assert value(t) == pytest.approx(f(t), rel=1e-9)
    assert prepared.num_recordings == 1
    found = ct.vmap(ct.grad(f))(np.array(points))
    np.testing.assert_allclose(found, [ct.grad(f)(t) for t in points], rtol=1e-8)


def test_the_class_stays():
    def f(x):
        r = R.from_euler("z", x)
        assert isinstance(r, R) and r.single
        assert len(R.from_rotvec(x * VECTORS)) == 2
        assert type(R.identity()) is R
        with pytest.raises(ValueError, match="zero norm"):
            R.from_quat(x * np.zeros(4))
        with pytest.raises(ValueError, match="non-negative"):
            R.from_rotvec(x * VECTORS).mean([1.0, -1.0])
        with pytest.raises(TypeError, match="has a derivative rule for two vectors or more"):
            R.align_vectors(x * VECTORS[:1], VECTORS[:1])
        with pytest.raises(AttributeError, match="as_davenport has no derivative rule"):
            r.as_davenport(MATRIX, "e")
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


def test_whether_rotations_are_nearly_equal():
    own, its = R.from_quat([0, 0, 0, 1]), R.from_quat(np.eye(4))

    def f(t):
        made = R.from_quat(np.eye(4))
        turned = R.from_rotvec([0.0, 0.0, t])
        answers.append([own.approx_equal(made[3]), own.approx_equal(made[0])])
        answers.append([turned.approx_equal(own, 1e-3), turned.approx_equal(own, 0.2)])
        return t

    answers = []
    ct.gradient(f, 0.1)
    wanted = [own.approx_equal(its[3]), own.approx_equal(its[0])]
    assert [list(map(bool, np.ravel(a))) for a in answers] == [[True, False], [False, True]]
    assert np.shape(answers[0]) == np.shape(wanted)


has_rigid = pytest.mark.skipif(not hasattr(transform, "RigidTransform"), reason="newer")


@has_rigid
@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("from_translation", [1.0, 2.0, 3.0]),
        ("from_exp_coords", [0.1, 0.2, 0.3, 1.0, 2.0, 3.0]),
        ("from_dual_quat", [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]),
        ("from_matrix", np.eye(4).tolist()),
    ],
)
def test_rigid_transforms_are_for_constants(name, given):
    make = getattr(transform.RigidTransform, name)
    moved = []
    ct.gradient(lambda t: [moved.append(make(np.array(given)).apply(VECTORS)), t][1], 1.0)
    np.testing.assert_allclose(np.asarray(moved[0]), make(given).apply(VECTORS))
    with pytest.raises(ct.NotDifferentiableError, match=f"RigidTransform.{name} has no"):
        ct.gradient(lambda t: make(np.array(given) * t).apply(VECTORS).sum(), 1.0)


@has_rigid
def test_rigid_transforms_of_active_rotations_are_refused():
    rigid = transform.RigidTransform
    with pytest.raises(ct.NotDifferentiableError, match="from_rotation has no"):
        ct.gradient(lambda t: rigid.from_rotation(R.from_rotvec([t, 0.0, 0.0])).as_matrix(), 1.0)
