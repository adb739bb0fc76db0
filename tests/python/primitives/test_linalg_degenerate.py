"""Decompositions: errors, and matrices that are singular, degenerate, huge, tiny or not square."""

import numpy as np
import pytest
from test_linalg import LA, check_gradient, close, ct_value, definite, hermitian, random, weigh

import cotan as ct


def test_what_fails_on_values_fails_at_once():
    def f(x):
        for k in range(10):
            try:
                return np.sum(LA.cholesky(x + (0.0 if k == 0 else 10.0 ** (k - 4)) * np.eye(2)))
            except LA.LinAlgError:
                continue
        raise AssertionError

    x = np.array([[1.0, 1.0], [1.0, 1.0 - 1e-9]])
    (g,) = ct.gradient(f, x)
    assert np.all(np.isfinite(g))
    for function in (LA.inv, lambda a: LA.solve(a, np.ones(3))):
        with pytest.raises(LA.LinAlgError, match="Singular matrix"):
            ct.gradient(lambda a, function=function: np.sum(function(a)), np.zeros((3, 3)))
    singular = np.ones((20, 20))
    with pytest.raises(LA.LinAlgError, match="Singular"):
        LA.inv(ct.array(np.zeros((20, 20))))
    assert LA.det(ct.array(np.zeros((20, 20)))) == 0
    assert abs(LA.det(ct.array(singular))) < 1e-12
    sign, log = LA.slogdet(ct.array(np.zeros((3, 3))))
    assert sign == 0 and log == -np.inf


def test_errors_name_what_does_not_fit():
    a = ct.array(np.ones((2, 3)))
    for function in (LA.inv, LA.det, LA.cholesky, LA.eigh, LA.eig, LA.slogdet):
        with pytest.raises(LA.LinAlgError, match="square"):
            function(a)
    with pytest.raises(LA.LinAlgError, match="two-dimensional"):
        LA.svd(ct.array(np.ones(3)))
    with pytest.raises(ValueError, match="do not fit"):
        LA.solve(ct.array(np.eye(3)), np.ones(4))
    with pytest.raises(TypeError, match="float16"):
        LA.inv(ct.array(np.eye(2, dtype="float16")))
    with pytest.raises(LA.LinAlgError, match="converge"):
        LA.svd(ct.array(np.full((2, 2), np.nan)))
    with pytest.raises(LA.LinAlgError):
        LA.eigvals(ct.array(np.full((2, 2), np.inf)))
    with pytest.raises(ValueError, match="UPLO"):
        LA.eigh(ct.array(np.eye(2)), "X")
    with pytest.raises(ValueError, match="mode"):
        LA.qr(a, "q")


def test_integers_become_floats():
    x = np.array([[4, 1], [1, 3]])
    assert LA.inv(ct.array(x)).dtype == np.float64
    close(ct_value(LA.solve(ct.array(x), np.array([1, 2]))), LA.solve(x, [1, 2]))


def test_det_of_a_singular_matrix_has_cofactors():
    x = random(4, 2) @ random(2, 4, seed=1)  # rank 2: no cofactors at all
    (g,) = ct.gradient(LA.det, x)
    close(g, np.zeros((4, 4)))
    x = random(4, 3) @ random(3, 4, seed=1)  # rank 3
    (g,) = ct.gradient(LA.det, x)
    cofactors = [
        [(-1) ** (i + j) * LA.det(np.delete(np.delete(x, i, 0), j, 1)) for j in range(4)]
        for i in range(4)
    ]
    close(g, np.array(cofactors), scale=10)
    z = random(3, 2, dtype="complex128") @ random(2, 3, dtype="complex128", seed=1)
    (g,) = ct.gradient(lambda z: np.real(LA.det(z)), z)
    expected = [
        [(-1) ** (i + j) * LA.det(np.delete(np.delete(z, i, 0), j, 1)) for j in range(3)]
        for i in range(3)
    ]
    close(g, np.conj(expected), scale=10)


def test_equal_eigenvalues():
    # Eigenvalues alone: a symmetric function of them has a gradient.
    (g,) = ct.gradient(lambda x: np.sum(LA.eigvalsh(x) ** 2), 2 * np.eye(3))
    close(g, 4 * np.eye(3))
    (g,) = ct.gradient(lambda x: np.sum(LA.svd(x, compute_uv=False)), 2 * np.eye(3))
    close(g, np.eye(3))

    # What is made of vectors may have one, but the rule cannot know it: NaN and not a wrong number.
    def power(x):
        w, v = LA.eigh(x)
        return np.sum((v * w**2) @ v.T)

    read = np.tri(3, dtype=bool)
    assert np.all(np.isnan(ct.gradient(power, np.eye(3))[0][read]))
    q = LA.qr(random(3, 3))[0]
    assert np.all(np.isnan(ct.gradient(power, q @ np.diag([1.0, 1.0, 2.0]) @ q.T)[0][read]))


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 5), (2, 4, 3)])
@pytest.mark.parametrize("complex_too", [False, True])
def test_full_matrices_of_vectors(shape, complex_too):
    x = random(*shape)
    if complex_too:
        x = x + 1j * np.cos(9 * x)
    d = np.sin(7 * x)
    k, n = min(shape[-2:]), max(shape[-2:])
    weight = np.diag(np.arange(n)) + 0.1 * np.ones((n, n))

    def f(t):
        u, s, vh = LA.svd(x + t * d)
        # What does not depend on the choice of vectors: the space that the last ones span.
        last = vh[..., k:, :] if shape[-1] == n else np.swapaxes(u, -1, -2)[..., k:, :]
        space = np.swapaxes(last, -1, -2) @ last.conj()
        return np.sum(np.real(space) * weight) + np.sum(s[..., 0])

    slope = ct.grad(f)
    step = 1e-5
    first = (f(0.1 + step) - f(0.1 - step)) / (2 * step)
    second = (slope(0.1 + step) - slope(0.1 - step)) / (2 * step)
    assert slope(0.1) == pytest.approx(first, rel=1e-6)
    assert ct.grad(slope)(0.1) == pytest.approx(second, rel=1e-5)


def test_full_matrices_of_qr_have_no_derivative():
    x = random(4, 2)
    with pytest.raises(
        TypeError, match=r"qr: the last m - n columns .* have no derivative; use Q\[:, :n\]"
    ):
        ct.gradient(lambda x: np.sum(LA.qr(x, "complete")[0]), x)


def test_columns_of_a_full_q_that_belong_to_the_matrix():
    x, b = random(4, 2), random(4, seed=1)

    def used(mode):
        def f(x):
            q, r = LA.qr(x, mode)
            return np.sum((q.T @ b)[:2] ** 3) + np.sum(q[:, :2] * x) + np.sum(r**2)

        return ct.value_and_gradient(f, x)

    for found, expected in zip(used("complete"), used("reduced"), strict=True):
        np.testing.assert_allclose(found, expected)


def test_rank_deficient_pinv_is_differentiated_at_constant_rank():
    u, v = random(5, 2), random(2, 4, seed=1)

    def f(u):
        return weigh(LA.pinv(u @ v, rcond=1e-10))

    check_gradient(f, u, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4), (2, 3, 3)])
def test_singular_values_that_a_cutoff_leaves_out_turn_what_is_kept(shape, dtype):
    x, rhs = random(*shape, dtype=dtype), random(shape[-2], dtype=dtype, seed=1)
    s = LA.svd(x, compute_uv=False)
    share = float(np.mean(s[..., -1] / s[..., 0] + s[..., -2] / s[..., 0]) / 2)
    check_gradient(lambda x: weigh(LA.pinv(x, rcond=share)), x, rtol=1e-6)
    if x.ndim == 2:
        check_gradient(lambda x: weigh(LA.lstsq(x, rhs, rcond=share)[0]), x, rtol=1e-6)
    # Gaps among those that are kept, and among those that are not, do not matter.
    u, s, vh = LA.svd(random(4, 4, dtype=dtype))
    equal = u * np.array([2.0, 2.0, 0.5, 0.5]) @ vh
    check_gradient(lambda x: weigh(LA.pinv(x, rcond=0.5)), equal, rtol=1e-6)


def test_vectors_of_singular_values_that_are_zero():
    for a in (np.diag([3.0, -1.0, 0.0, 0.0]), np.zeros((2, 2)), np.array([[1.0, 2.0], [2.0, 4.0]])):
        got, _ = ct.pullback(lambda a: tuple(LA.svd(a, hermitian=True)), a)
        for x, expected in zip(got, LA.svd(a, hermitian=True), strict=True):
            close(x, expected)
        close(np.asarray(got[2]) @ np.asarray(got[2]).T, np.eye(len(a)))


def test_a_cutoff_counts_in_traced_programs():
    f = ct.vmap(ct.grad(lambda x: weigh(LA.pinv(x, rcond=0.4))))
    x = random(6, 4, 3)
    assert len(set(LA.matrix_rank(x, rtol=0.4))) > 1
    expected = [ct.gradient(lambda x: weigh(LA.pinv(x, rcond=0.4)), one)[0] for one in x]
    close(f(x), np.stack(expected))


def test_a_kink_of_the_norm():
    (g,) = ct.gradient(lambda x: LA.norm(x, "nuc"), np.zeros((2, 3)))
    close(g, np.zeros((2, 3)))


def test_a_decomposition_is_computed_once():
    x = random(6, 6) + 6 * np.eye(6)
    with ct.profile() as counts:
        ct.gradient(lambda x: np.sum(LA.solve(x, np.ones(6)) ** 2), x)
    executed = counts.equations
    assert executed["nonsingular_lu"] == 1 and "lu" not in executed


def test_pullbacks_of_several_parts():
    x = random(3, 3)
    _, back = ct.pullback(lambda x: tuple(LA.eigh(hermitian(x))), x)
    (g,) = back((np.ones(3), np.zeros((3, 3))))
    close(ct_value(g), np.eye(3))
    assert isinstance(LA.eigh(ct.array(x)), type(LA.eigh(x)))


@pytest.mark.parametrize(
    "name", ["cholesky", "svd_values", "eigh_values", "lu_solve", "triangular_solve"]
)
def test_programs_print_and_parse(name):
    x = definite(random(3, 3))

    def f(x):
        values = LA.cholesky(x) + LA.solve(x, x)
        return np.sum(values) + np.sum(LA.eigvalsh(x)) + np.sum(LA.svd(x, compute_uv=False))

    (_, back) = ct.pullback(lambda x: ct.gradient(f, x)[0], x)
    text = str(back.program) + str(ct.trace(f, x))
    if name in {"lu_solve", "triangular_solve"}:
        assert name in text
    program = ct.trace(f, x)
    # Bound values are no part of the text.
    read = ct.Program.parse(str(program))
    assert [*map(str, read.equations)] == [*map(str, program.equations)]


@pytest.mark.parametrize("scale", [2.0**1000, 2.0**-1000])
@pytest.mark.parametrize("dtype", [float, complex])
def test_matrices_whose_squares_overflow_or_vanish(scale, dtype):
    a = random(4, 3, seed=3).astype(dtype)
    square = random(4, 4, seed=4).astype(dtype)
    if dtype is complex:
        a, square = a * (1 + 0.5j), square + 1j * random(4, 4, seed=5)
    for f, x in [
        (lambda x: np.linalg.svd(x)[1], a),
        (lambda x: np.linalg.svd(x, compute_uv=False), a),
        (lambda x: np.linalg.qr(x)[1], a),
        (np.linalg.eigvalsh, square),
        (lambda x: np.linalg.eigh(x)[0], square),
        (lambda x: np.sort_complex(np.linalg.eigvals(x)), square),
        (lambda x: np.sort_complex(np.linalg.eig(x)[0]), square),
    ]:
        close(np.asarray(f(ct.array(x * scale))) / scale, f(x))
    for part in (a, a[:1, :1], square):
        q, r = np.linalg.qr(ct.array(part * scale))
        close(np.asarray(q) @ (np.asarray(r) / scale), part)
    close(np.asarray(np.linalg.pinv(ct.array(a * scale))) * scale, np.linalg.pinv(a))


def test_small_floats_and_huge_ones_have_singular_values():
    for a in (
        np.array([[1e-38, 2e-39], [3e-40, 1e-41]], np.float32),
        np.array([[1e38, -3e38], [2e38, 1e38]], np.float32),
        np.array([[5e-324, 0.0], [0.0, 1e-310]]),
    ):
        np.testing.assert_allclose(
            np.linalg.svdvals(ct.array(a)), np.linalg.svdvals(a), 1e-5, 5e-324
        )


def test_eigenvalues_of_badly_scaled_matrices():
    """The companion matrix of a polynomial with large roots has elements from 1 to 1e30."""

    def scaled(x):
        return np.array([1.0, 0.0, -4e7 * x[0], 0.0, 0.0, -2.4e19 * x[1], 0.0, 0.0, -9e30 * x[2]])

    def f(x):
        roots = np.roots(scaled(x))
        return np.sum(np.abs(roots) * np.arange(8.0)) / 1e4

    def g(x):
        a = np.array([[x[0], 1e12 * x[1]], [1e-9 * x[2], 2.0]])
        w, v = np.linalg.eig(a)
        return np.sum(w * [1, 2]).real + np.sum(np.abs(v) * [[1, 2], [3e6, 4e6]])

    x = np.array([1.0, 1.1, 0.9])
    for function in (f, g):
        value, (slope,) = ct.value_and_gradient(function, x)
        assert value == pytest.approx(function(x), rel=1e-9)
        steps = 1e-5 * np.eye(3)
        wanted = [(function(x + d) - function(x - d)) / 2e-5 for d in steps]
        np.testing.assert_allclose(slope, wanted, rtol=1e-5)


TABLE = np.array([[1.0, 2.0], [np.nan, np.nan], [3.0, np.nan], [-1.0, 0.5]])


def columns():
    table = np.zeros((4, 2), order="F")
    table[:, 0] = TABLE[:, 0]
    table[:, 1] = 2 * TABLE[:, 1]
    return table


GAPS = {
    "dot": lambda x: np.nansum(np.dot(TABLE, x) ** 2),
    "method": lambda x: np.nanmean(TABLE.dot(x)) * x[0],
    "matmul": lambda x: np.sum(np.nan_to_num(TABLE @ x) ** 3),
    "columns": lambda x: np.nansum((x @ TABLE.T) ** 2),
    "matrix": lambda x: np.nanstd(TABLE @ np.outer(x, [1.0, 2.0])),
    "matrix on the right": lambda x: np.nansum((np.outer([1.0, 2.0], x) @ TABLE.T) ** 2),
    "complex": lambda x: np.nansum(np.abs((TABLE * (1 + 2j)) @ x) ** 2),
    "made in the function": lambda x: np.nansum((columns() @ x) ** 2 + columns().T[0]),
    "mask": lambda x: np.sum((TABLE @ x)[~np.isnan(TABLE).any(axis=1)] ** 2),
    "stack": lambda x: np.nansum((np.stack([TABLE, 2 * TABLE]) @ x) ** 2),
}


@pytest.mark.parametrize("f", GAPS.values(), ids=GAPS)
def test_rows_of_nan_that_are_left_out_later_have_no_derivative(f):
    """A table of what is inside of a pupil, say: what is left has the derivative it has alone."""
    x = np.array([0.3, 0.7])
    value, (slope,) = ct.value_and_gradient(f, x)
    assert value == pytest.approx(f(x))
    wanted = [(f(x + d) - f(x - d)) / 2e-6 for d in 1e-6 * np.eye(2)]
    np.testing.assert_allclose(slope, wanted, rtol=1e-6)
    y, _ = ct.pullback(lambda x: TABLE @ x, x)
    np.testing.assert_array_equal(np.isnan(y), np.isnan(TABLE @ x))
