"""Sparse Jacobians and Hessians: no entry is missing, and the entries are those of dense ones."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import cotan as ct

PARTITIONS = ("auto", "column", "row", "bidirectional")


def dense_jacobian(function, x):
    """Give the Jacobian row by row, from pullbacks."""
    y, back = ct.pullback(function, x)
    rows = []
    for unit in np.eye(np.size(y)):
        (row,) = back(unit.reshape(np.shape(y)))
        rows.append(np.zeros(x.size) if row is None else np.ravel(np.asarray(row)))
    return np.reshape(rows, (np.size(y), x.size))


def check(function, x, entries=None):
    """Compare all partitions with the dense Jacobian; perhaps the number of entries, too."""
    expected = dense_jacobian(function, x)
    pattern = ct.jacobian_sparsity(function, x)
    assert pattern.shape == expected.shape
    covered = pattern.to_scipy().toarray()
    assert not np.any(expected[~covered])
    if entries is not None:
        assert pattern.nnz == entries
    for partition in PARTITIONS:
        found = ct.jacobian(function, x, sparse=pattern.color(partition), check=True)
        assert isinstance(found, sparse.csr_array)
        assert found.dtype == x.dtype
        np.testing.assert_allclose(found.toarray(), expected, rtol=1e-12, atol=1e-12)


X = np.linspace(0.3, 1.7, 12)
INDEX = np.array([3, 0, 3, 7, 11, -1])
BAND = sparse.diags_array([1.0, -2.0, 1.0], offsets=[-1, 0, 1], shape=(12, 12)).tocsr()


@pytest.mark.parametrize(
    ("function", "entries"),
    [
        (lambda x: np.sin(x) * x, 12),
        (lambda x: x[1:] * x[:-1], 22),
        (np.diff, 22),
        (lambda x: np.roll(x, 3) - x, 24),
        (lambda x: x[INDEX] ** 2, 6),
        (lambda x: x.reshape(3, 4).T @ np.ones(3), 12),
        (lambda x: x.reshape(3, 4) @ np.ones((4, 2)), 24),
        (lambda x: np.sum(x.reshape(3, 4) ** 2, axis=0), 12),
        (lambda x: np.max(x.reshape(3, 4), axis=1), 12),
        (lambda x: np.mean(x.reshape(2, 6), axis=0), 12),
        (lambda x: np.cumsum(x), 78),
        (lambda x: np.cumsum(x.reshape(3, 4)[:, ::-1], axis=0), 24),
        (lambda x: np.concatenate([x[:2], np.ones(3), x[5:] * x[5]]), 2 + 13),
        (lambda x: np.where(X > 1, x, x[::-1]), 24),
        (lambda x: np.convolve(x, [1.0, 2.0, 3.0]), 36),
        (lambda x: np.outer(x[:3], x[3:5]), 12),
        (lambda x: np.pad(x, 2, mode="edge") ** 2, 16),
        (lambda x: np.add.at(z := ct.asarray(np.zeros(5)), INDEX[:5] % 5, x[:5]) or z, 5),
        (lambda x: np.stack([x, 2 * x[::-1]])[:, ::2], 12),
        (lambda x: np.tile(x[:3], 2) * np.repeat(x[:3], 2), None),
        (lambda x: BAND @ x, 34),
        (lambda x: x @ BAND.tocoo() @ x, 12),
        (lambda x: BAND @ np.stack([x, x * x], axis=1), 68),
        (lambda x: x * (BAND.todia() @ x), 34),
        (lambda x: np.sort(x) * x, None),
        (lambda x: np.fft.rfft(x).real, None),
        (lambda x: np.linalg.solve(np.diag(x[:3]), x[:3]), None),
        (lambda x: np.prod(x.reshape(3, 4), axis=1), 12),
        (lambda x: np.floor(x), 0),
        (lambda x: np.sum(x), 12),
        (lambda x: np.ones(3), 0),
        (lambda x: np.zeros((0, 2)), 0),
        (lambda x: np.interp(x, X, X**2), None),
        (lambda x: np.trapezoid(x.reshape(3, 4)), 12),
        (lambda x: np.einsum("ij,j->i", x.reshape(3, 4), np.arange(4.0)), 12),
        (lambda x: ct.checkpoint(lambda y: y[1:] * y[:-1])(x), 22),
        (lambda x: ct.hook(lambda d: d, x) ** 2, None),
    ],
)
def test_functions_of_numpy(function, entries):
    check(function, X, entries)


def in_place(x):
    u = x.copy()
    for _ in range(3):
        u[1:-1] += 0.1 * (u[:-2] - 2 * u[1:-1] + u[2:])
    return u


def by_element(x):
    out = np.zeros(12)
    for i in range(1, 11):
        out[i] = x[i - 1] * x[i + 1]
    return out


def test_writes_in_place():
    check(in_place, X, 2 + 6 * 7 + 2 * (5 + 6))
    check(by_element, X, 20)


STEPS = {
    "diff": lambda x: np.diff(x),
    "sine": lambda x: np.sin(x),
    "square": lambda x: x * x,
    "reverse": lambda x: x * x[::-1],
    "shift": lambda x: np.roll(x, 2) + x,
    "stride": lambda x: np.concatenate([x[::2], x[1::2] ** 2]),
    "index": lambda x: x[np.arange(len(x)) // 2],
    "mean": lambda x: x - x[: len(x) // 2 + 1].mean(),
    "where": lambda x: np.where(x > 0.8, x, 3.0),
    "sort": lambda x: np.sort(x),
    "maximum": lambda x: np.maximum(x, x[::-1]),
    "cumsum": lambda x: np.cumsum(x) / len(x),
    "outer": lambda x: np.outer(x[:2], x).ravel(),
    "matrix": lambda x: np.vander(np.arange(3.0), len(x)) @ x,
    "update": lambda x: np.concatenate([x[:1] * x[-1], x[1:]]),
    "constant": lambda x: np.concatenate([x, ct.dropgrad(x[:1])]),
}


@settings(max_examples=40)
@given(st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=5), st.integers(3, 8))
def test_no_entry_is_missing(names, size):
    def function(x):
        for name in names:
            x = STEPS[name](x)[:30]
        return x

    check(function, np.linspace(0.2, 1.9, size))


@settings(max_examples=40)
@given(st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=3), st.integers(3, 6))
def test_no_second_derivative_is_missing(names, size):
    def function(x):
        for name in names:
            x = STEPS[name](x)[:20]
        return np.sum(x**3)

    x = np.linspace(0.2, 1.9, size)
    expected = ct.hessian(function, x)
    pattern = ct.hessian_sparsity(function, x)
    assert not np.any(expected[~pattern.to_scipy().toarray()])
    found = ct.hessian(function, x, sparse=pattern, check=True)
    np.testing.assert_allclose(found.toarray(), expected, rtol=1e-9, atol=1e-9)
    columns = ct.hessian(function, x, sparse=pattern.color("column"))
    np.testing.assert_allclose(columns.toarray(), expected, rtol=1e-9, atol=1e-9)


def rosenbrock(x):
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def test_the_hessian_of_a_chain_has_three_colors():
    coloring = ct.hessian_sparsity(rosenbrock, X).color()
    assert coloring.pattern.symmetric
    assert (coloring.num_column_colors, coloring.num_row_colors) == (3, 0)
    found = ct.hessian(rosenbrock, X, sparse=coloring)
    np.testing.assert_allclose(found.toarray(), ct.hessian(rosenbrock, X), rtol=1e-12)


def test_an_arrow_needs_few_products():
    def arrow(x):
        return np.sum(x) ** 2 / 2 + np.sum(x**3) - np.sum(x[1:]) ** 2 / 2

    # The square of the sum of all but the first cancels in value, not in the pattern.
    assert ct.hessian_sparsity(arrow, X).nnz == 144

    def star(x):
        return x[0] * np.sum(x) + np.sum(x**3)

    coloring = ct.hessian_sparsity(star, X).color()
    assert coloring.num_colors == 2
    found = ct.hessian(star, X, sparse=coloring, check=True)
    np.testing.assert_allclose(found.toarray(), ct.hessian(star, X), rtol=1e-12)


def test_many_colors_are_computed_in_pieces():
    check(lambda x: np.cumsum(np.sin(x)), np.linspace(0, 1, 70), 70 * 71 // 2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtypes(dtype):
    found = ct.jacobian(lambda x: x[1:] * x[:-1], X.astype(dtype), sparse=True)
    assert found.dtype == dtype
    assert found.indices.dtype == np.int32


def test_opaque_functions_depend_on_everything():
    def forward(x):
        x = np.asarray(x)
        return np.sin(x), lambda d: (np.cos(x) * d,)

    opaque = ct.adjoint(forward, opaque=True)

    def function(x):
        return opaque(x[:4]) * x[:4]

    # Products from the right are not known: the rule has no forward direction.
    assert ct.jacobian_sparsity(function, X).nnz == 16
    found = ct.jacobian(function, X, sparse=True, check=True)
    np.testing.assert_allclose(found.toarray(), dense_jacobian(function, X))
    with pytest.raises(ct.NotDifferentiableError, match="opaque"):
        ct.jacobian(function, X, sparse=ct.jacobian_sparsity(function, X).color("column"))


def test_structures_give_blocks():
    def function(p, a):
        return {"y": p["x"][1:] * p["s"], "n": 3, "total": np.sum(p["x"]) * a}

    p = {"x": X, "s": 2.0, "label": "p"}
    blocks = ct.jacobian(function, p, 0.5, sparse=True)
    assert blocks["n"] == 3
    by_p, by_a = blocks["y"]
    assert by_p["label"] == "p"
    np.testing.assert_array_equal(by_p["x"].toarray(), 2 * np.eye(12)[1:])
    np.testing.assert_array_equal(by_p["s"].toarray()[:, 0], X[1:])
    assert by_a.shape == (11, 1)
    assert by_a.nnz == 0
    by_p, by_a = blocks["total"]
    np.testing.assert_array_equal(by_p["x"].toarray(), np.full((1, 12), 0.5))
    np.testing.assert_allclose(by_a.toarray(), [[X.sum()]])


def test_positions_choose_arguments():
    def function(x, y):
        return x[:3] * y

    y = np.array([1.0, 2.0, 3.0])
    both = ct.jacobian(function, X, y, sparse=True)
    assert [block.shape for block in both] == [(3, 12), (3, 3)]
    by_y = ct.jacobian(function, X, y, argnums=1, sparse=True)
    np.testing.assert_array_equal(by_y.toarray(), both[1].toarray())
    (by_x,) = ct.jacobian(function, X, y, argnums=(0,), sparse=True)
    np.testing.assert_array_equal(by_x.toarray(), both[0].toarray())
    by_x, nothing = ct.jacobian(function, X, ct.const(y), sparse=True)
    np.testing.assert_array_equal(by_x.toarray(), both[0].toarray())
    assert nothing is None


def test_hessians_of_several_arguments_are_blocks():
    def function(x, y):
        return np.sum(x[:3] ** 2 * y["a"]) + y["b"] ** 3

    y = {"a": np.array([1.0, 2.0, 3.0]), "b": 2.0}
    (xx, xy), by_y = ct.hessian(function, X, y, sparse=True)
    assert xx.nnz == 3
    np.testing.assert_array_equal(xy["a"].toarray(), 2 * np.eye(12, 3) * X[:, None])
    assert xy["b"].nnz == 0
    ax, ay = by_y["a"]
    np.testing.assert_array_equal(ax.toarray(), xy["a"].toarray().T)
    assert ay["a"].nnz == ay["b"].nnz == 0
    assert by_y["b"][1]["b"].toarray() == [[12.0]]
    inner = ct.hessian(function, X, y, argnums=1, sparse=True)
    assert inner["b"]["b"].toarray() == [[12.0]]


def test_constants_have_no_columns():
    found, nothing = ct.jacobian(lambda x, c: x * c, X, ct.const(X), sparse=True)
    assert nothing is None
    assert found.shape == (12, 12)
    np.testing.assert_array_equal(found.toarray(), np.diag(X))


def test_indices_among_the_arguments_select():
    pattern = ct.jacobian_sparsity(lambda x, i: x[i], X, INDEX)
    assert pattern.shape == (6, 12)
    assert pattern.nnz == 6


def test_branches_are_taken_as_at_the_point():
    def function(x):
        return x[1:] * x[:-1] if x[0] > 0 else x[1:] ** 2

    assert ct.jacobian_sparsity(function, X).nnz == 22
    assert ct.jacobian_sparsity(function, -X).nnz == 11


def test_a_sparse_jacobian_is_differentiated():
    direction = np.arange(12.0)

    def along(x):
        return np.sum(ct.jacobian(lambda y: y[1:] * y[:-1] ** 2, x, sparse=True) @ direction)

    def dense(x):
        (gradient,) = ct.gradient(lambda y: np.sum(y[1:] * y[:-1] ** 2 * direction[1:]), x)
        del gradient
        return np.sum(x[:-1] ** 2 * direction[1:] + 2 * x[1:] * x[:-1] * direction[:-1])

    (found,) = ct.gradient(along, X)
    (expected,) = ct.gradient(dense, X)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_patterns_and_colorings_pickle():
    pattern = ct.jacobian_sparsity(in_place, X)
    again = pickle.loads(pickle.dumps(pattern))
    assert again == pattern
    assert hash(again) == hash(pattern)
    assert again != ct.SparsityPattern.from_scipy(np.eye(12))
    coloring = pickle.loads(pickle.dumps(pattern.color()))
    found = ct.jacobian(in_place, X, sparse=coloring)
    np.testing.assert_allclose(found.toarray(), dense_jacobian(in_place, X))


def test_a_pattern_from_scipy():
    matrix = sparse.coo_array(([0.0, 2.0, 3.0], ([1, 0, 0], [1, 0, 0])), shape=(2, 3))
    pattern = ct.SparsityPattern.from_scipy(matrix)
    assert pattern.nnz == 2
    assert pattern.to_scipy().toarray().tolist() == [[True, False, False], [False, True, False]]
    with pytest.raises(ValueError, match="read-only"):
        pattern.indices[0] = 1


def test_a_pattern_that_does_not_cover_is_found():
    eye = ct.SparsityPattern.from_scipy(np.eye(12))
    with pytest.raises(ValueError, match="does not cover.*12 columns"):
        ct.jacobian(lambda x: np.cumsum(x), X, sparse=eye, check=True)
    symmetric = ct.SparsityPattern.from_scipy(np.eye(12), symmetric=True)
    with pytest.raises(ValueError, match="hessian: the pattern does not cover"):
        ct.hessian(rosenbrock, X, sparse=symmetric, check=True)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda f, p: ct.jacobian(f, X, sparse=p),
            ValueError,
            r"\(3, 3\), the derivative",
        ),
        (lambda f, p: ct.jacobian(f, X, sparse="yes"), TypeError, "not str"),
        (lambda f, p: ct.jacobian(f, X * 1j, sparse=True), TypeError, "complex"),
        (lambda f, p: ct.jacobian(f, np.arange(3), sparse=True), TypeError, "no argument has"),
        (lambda f, p: ct.jacobian_sparsity(lambda x: x * 1j, X), TypeError, "among the results"),
        (lambda f, p: p.color("rows"), ValueError, "partition"),
        (lambda f, p: p.color("symmetric"), ValueError, "hessian_sparsity"),
        (lambda f, p: ct.hessian(f, X, sparse=True), ValueError, "scalar"),
        (
            lambda f, p: ct.SparsityPattern.from_scipy(np.tri(3), symmetric=True),
            ValueError,
            "not symmetric",
        ),
        (lambda f, p: ct.SparsityPattern((2, 2), [0, 1], [0]), ValueError, "2 rows need 3"),
        (
            lambda f, p: ct.jacobian_sparsity(lambda x: x - x.mean(), np.ones(30_000)),
            ValueError,
            "dense",
        ),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call(lambda x: x**2, ct.SparsityPattern.from_scipy(np.eye(3)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ct.jacobian(lambda x: (x, 1), X, has_aux=True, sparse=True), "has_aux"),
        (lambda: ct.jacobian(lambda x: x, X, holomorphic=True, sparse=True), "holomorphic"),
        (lambda: ct.jacobian(lambda p: p["x"], {"x": X}, wrt="p.x", sparse=True), "ct.const"),
    ],
)
def test_keywords_that_do_not_go_together(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_symmetric_pattern_is_not_taken_for_a_jacobian():
    pattern = ct.SparsityPattern.from_scipy(np.eye(12), symmetric=True)
    with pytest.raises(ValueError, match="symmetric=False"):
        ct.jacobian(lambda x: x**2, X, sparse=pattern)


def test_integers_count_as_in_dense_derivatives():
    def f(p, q):
        return p[0] ** 2 * p[1] + q**3

    args = [1.0, 2], 3
    (a, b), c = ct.jacobian(f, *args, sparse=True)
    assert [m.toarray().item() for m in (a, b, c)] == [4.0, 1.0, 27.0]
    assert ct.jacobian(f, *args) == ([4.0, 1.0], 27.0)
    rows = ct.hessian(f, *args, sparse=True)
    assert [m.toarray().item() for row in (*rows[0], rows[1]) for m in (*row[0], row[1])] == [
        *(4.0, 2.0, 0.0),
        *(2.0, 0.0, 0.0),
        *(0.0, 0.0, 18.0),
    ]
    assert ct.jacobian_sparsity(f, *args).shape == (1, 3)
