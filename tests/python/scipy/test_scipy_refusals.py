"""What SciPy computes in compiled code: constants pass, and refusals name the public function."""

import numpy as np
import pytest
from scipy import optimize, sparse, spatial, stats
from scipy.cluster import hierarchy, vq
from scipy.sparse import csgraph
from scipy_cases import check

import cotan as ct

GRAPH = np.array([[0, 1.0, 5.0], [1.0, 0, 2.0], [5.0, 2.0, 0]])
POINTS = np.array([[0.0, 1.0], [1.0, 0.5], [5.0, 4.0], [4.0, 4.5]])
V = np.array([1.3, 0.4, 2.2, 0.9, 1.7])


def test_constants_made_inside():
    def graphs(x):
        a = np.array([[0, 1.0, 5.0], [1.0, 0, 2.0], [5.0, 2.0, 0]])
        paths = csgraph.shortest_path(a).sum() + csgraph.dijkstra(sparse.csr_matrix(a)).sum()
        count, _ = csgraph.connected_components(csgraph=sparse.csr_matrix(a > 1.5))
        return x * (paths + count + csgraph.minimum_spanning_tree(a).toarray().sum())

    check(graphs, 1.5)

    def groups(x):
        points = np.array(POINTS)
        centres, _ = vq.kmeans2(points, 2, seed=1)
        return x * (centres.sum() + hierarchy.linkage(points)[:, 2].sum())

    check(groups, 1.5)


def test_lengths_along_a_path_that_is_constant():
    def f(w):
        _, before = csgraph.shortest_path(ct.dropgrad(w), return_predecessors=True)
        length, j = 0.0, 2
        while j != 0:
            i = before[0, j]
            length, j = length + w[i, j], i
        return length

    check(f, GRAPH)


@pytest.mark.parametrize(
    ("f", "named"),
    [
        (lambda v: csgraph.shortest_path(np.outer(v, v)).sum(), r"scipy\.sparse\.csgraph\.short"),
        (lambda v: csgraph.dijkstra(sparse.csr_matrix(GRAPH * v[0])).sum(), "csgraph.dijkstra"),
        (lambda v: vq.kmeans(v[:, None], 2)[1], r"scipy\.cluster\.vq\.kmeans has"),
        (lambda v: hierarchy.linkage(v[:, None])[0, 2], r"scipy\.cluster\.hierarchy\.linkage"),
        (lambda v: stats.weightedtau(v, V[::-1])[0], r"scipy\.stats\.weightedtau"),
        (lambda v: stats.siegelslopes(v)[0], r"scipy\.stats\.siegelslopes"),
        (lambda v: stats.shapiro(v)[0], r"scipy\.stats\.shapiro"),
        (
            lambda v: csgraph.csgraph_to_dense(sparse.csr_array(GRAPH * v[0])).sum(),
            "csgraph_to_dense",
        ),
        (lambda v: stats.qmc.discrepancy(v[:, None] / 3), r"scipy\.stats\.qmc\.discrepancy"),
        (
            lambda v: optimize.basinhopping(lambda x: ((x - v[0]) ** 2).sum(), [0.0], niter=2).fun,
            r"in scipy\.optimize\.basinhopping, .* use minimize",
        ),
    ],
)
def test_refusals(f, named):
    with pytest.raises(TypeError, match=named):
        ct.gradient(f, V)


def test_an_energy_distance_of_zero_has_a_kink():
    check(lambda u, v: stats.energy_distance(u, v), V, V + 0.3)
    assert np.all(ct.gradient(lambda u: stats.energy_distance(u, V[::-1]), V)[0] == 0)


def test_active_heights_and_bounds_where_they_only_choose():
    tree = hierarchy.linkage(POINTS)
    (slope,) = ct.gradient(lambda t: t * hierarchy.fcluster(tree, t, "distance").max(), 2.0)
    assert slope == hierarchy.fcluster(tree, 2.0, "distance").max()
    points = spatial.KDTree(POINTS)
    (slope,) = ct.gradient(lambda r: points.query([0.0, 0.0], distance_upper_bound=r)[0] + r, 2.0)
    assert slope == 1.0
