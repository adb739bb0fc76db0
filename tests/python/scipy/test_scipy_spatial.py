"""Distances of `scipy.spatial` under a gradient."""

import numpy as np
import pytest
from scipy import spatial
from scipy.spatial import distance
from scipy_cases import check

import cotan as ct

RNG = np.random.default_rng(1)
A, B = RNG.normal(size=(4, 3)), RNG.normal(size=(5, 3))
U, V = A[0], B[0]
W = np.array([0.3, 1.2, 0.7])
METRICS = ["braycurtis", "canberra", "chebyshev", "cityblock", "correlation", "cosine", "euclidean",
           "mahalanobis", "minkowski", "seuclidean", "sqeuclidean"]  # fmt: skip
VI = np.array([[1.2, 0.1, 0.0], [0.1, 0.9, 0.2], [0.0, 0.2, 1.1]])
NEEDED = {"mahalanobis": {"VI": VI}, "seuclidean": {"V": W}}


@pytest.mark.parametrize("name", METRICS)
def test_metrics(name):
    needed = NEEDED.get(name, {})
    check(lambda u, v: getattr(distance, name)(u, v, **needed), U, V, second=name != "chebyshev")
    check(lambda a, b: distance.cdist(a, b, name), A, B, second=name == "euclidean")
    check(lambda a, b: distance.cdist(a, b, name, **needed), A, B)
    check(lambda a: distance.pdist(a, name), A)
    if not needed and name != "correlation":
        check(lambda u, v: getattr(distance, name)(u, v, w=W), U, V)
    if not needed and name not in {"correlation", "cosine"}:
        check(lambda a, b: distance.cdist(a, b, name, w=W), A, B)


def test_more_metrics():
    check(lambda u, v: distance.minkowski(u, v, 3), U, V)
    check(lambda a, b: distance.cdist(a, b, "minkowski", p=3), A, B)
    check(lambda a, b: distance.cdist(a, b, "minkowski", p=1.5, w=W), A, B)
    check(lambda u, v: distance.jensenshannon(np.abs(u), np.abs(v)), U, V)
    check(lambda a, b: distance.cdist(np.abs(a), np.abs(b), "jensenshannon"), A, B)
    check(lambda a, b: distance.cdist(a, b, lambda u, v: np.sum(u * v)), A, B)
    check(lambda a, b: distance.cdist(a, b, distance.euclidean), A, B)
    check(lambda a, b: distance.directed_hausdorff(a, b)[0], A, B)
    with pytest.raises(TypeError, match="hamming"):
        ct.gradient(lambda a: np.sum(distance.cdist(a, B, "hamming")), A)
    with pytest.raises(ValueError, match="Unknown"):
        ct.gradient(lambda a: np.sum(distance.cdist(a, B, "nothing")), A)
    with pytest.raises(ValueError, match="same number of columns"):
        ct.gradient(lambda a: np.sum(distance.cdist(a, B[:, :2])), A)


def test_a_distance_of_nothing_has_a_kink():
    (g,) = ct.gradient(lambda a: np.sum(distance.cdist(a, a)), A)
    assert np.all(np.isfinite(g))
    (g,) = ct.gradient(lambda u: distance.euclidean(u, u), U)
    assert g is None or np.all(g == 0)


def test_forms():
    check(lambda a: distance.squareform(distance.pdist(a)), A)
    check(lambda a: distance.squareform(distance.cdist(a, a), checks=False), A)
    assert np.all(distance.squareform(distance.squareform(np.arange(1.0, 7))) == np.arange(1.0, 7))


def test_neighbours():
    tree = spatial.KDTree(B)
    check(lambda a: tree.query(a)[0], A)
    check(lambda a: tree.query(a, k=2)[0], A)
    check(lambda u: tree.query(u)[0], U)


@pytest.mark.parametrize("box", [1.0, [1.0, 0.0, 1.2]])
def test_trees_of_points_in_a_box_that_is_repeated(box):
    rng = np.random.default_rng(4)
    points, at = rng.uniform(size=(12, 3)), rng.uniform(size=(4, 3))
    tree = spatial.KDTree(points, boxsize=box)
    check(lambda p, at: spatial.KDTree(p, boxsize=box).query(at, k=3)[0], points, at)
    check(lambda at: tree.query(at, p=1)[0], at)


def test_sums_over_near_points_that_have_no_rule():
    points = np.random.default_rng(4).uniform(size=(12, 3))
    tree = spatial.KDTree(points)
    assert ct.gradient(lambda x: x * tree.count_neighbors(tree, 0.5), 1.0)[0] > 12
    with pytest.raises(TypeError, match=r"count_neighbors.*weights=.*query_ball_tree"):
        ct.gradient(lambda w: tree.count_neighbors(tree, 0.5, weights=(w, w)), np.ones(12))
    with pytest.raises(TypeError, match=r"sparse_distance_matrix.*query_ball_tree"):
        ct.gradient(lambda p: spatial.KDTree(p).sparse_distance_matrix(tree, 0.5).sum(), points)


@pytest.mark.parametrize("name", ["cdist", "pdist"])
def test_metrics_that_capture_active_arrays(name):
    points = np.arange(6.0).reshape(3, 2)
    others = (points, points + 0.5) if name == "cdist" else (points,)
    asked = []

    def total(k, metric=None):
        def own(u, v):
            asked.append(1)
            return k * np.sum(np.abs(u - v) ** k)

        return np.sum(getattr(distance, name)(*others, metric=metric or own))

    value, (slope,) = ct.value_and_gradient(total, 1.5)
    assert value == pytest.approx(total(1.5), rel=1e-12)
    assert slope == pytest.approx((total(1.5 + 1e-6) - total(1.5 - 1e-6)) / 2e-6, rel=1e-7)
    expected = 1.0 + total(2.0)
    asked.clear()
    # What is constant is SciPy's, and is called once for each pair.
    assert ct.value_and_gradient(lambda x: x + total(2.0), 1.0) == (expected, (1.0,))
    assert len(asked) == (9 if name == "cdist" else 3)


def test_complex_vectors_are_refused():
    u, v = np.array([1 + 2j, 0.5 - 1j]), np.array([0.2 + 0.1j, 1j])
    for name in ("euclidean", "cityblock", "correlation"):
        with pytest.raises(TypeError, match="vectors must be real"):
            ct.pullback(lambda u, name=name: getattr(distance, name)(u, v), u)
    with pytest.raises(TypeError, match="vectors must be real"):
        ct.pullback(lambda u: distance.cdist(u[None], v[None]), u)


@pytest.mark.parametrize("p", [1, 1.5, 2, 3, np.inf])
def test_matrices_of_distances(p):
    check(lambda a, b: spatial.distance_matrix(a, b, p), A, B)
    check(lambda a, b: spatial.minkowski_distance(a[:, None], b[None, :], p), A, B)
    for power in (1, 2):
        (found,) = ct.gradient(lambda a, k=power: np.sum(spatial.distance_matrix(a, a, p) ** k), A)
        metric = ("chebyshev", {}) if p == np.inf else ("minkowski", {"p": p})
        (wanted,) = ct.gradient(
            lambda a, k=power, m=metric: np.sum(distance.cdist(a, a, m[0], **m[1]) ** k), A
        )
        np.testing.assert_allclose(found, wanted)
    with pytest.raises(ValueError, match="dimensional vectors"):
        ct.gradient(lambda a: np.sum(spatial.distance_matrix(a, B[:, :2], p)), A)


def test_prepared_trees_of_points_that_move():
    def f(a):
        tree = spatial.cKDTree(a)
        distances, index = tree.query(B, k=2)
        return np.sum(distances * a[index, 0])

    prepared = ct.prepare(f)
    for a in (A, 0.7 * A[::-1], A + 0.1 * B[:4]):
        np.testing.assert_allclose(prepared(a)[0], ct.gradient(f, a)[0])
    tree = spatial.KDTree(B)
    for g in (
        lambda a: np.sum(a) * len(spatial.KDTree(a).query_pairs(1.0)),
        lambda a: np.sum(a) * tree.count_neighbors(spatial.KDTree(a), 1.0),
        lambda a: np.sum(a) * spatial.KDTree(a).maxes[0],
    ):
        with pytest.raises(TypeError, match="prepare: .* of a KDTree is not known"):
            ct.prepare(g)(A)
