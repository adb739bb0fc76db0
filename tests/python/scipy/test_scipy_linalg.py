"""The functions of `scipy.linalg`: values against SciPy, derivatives to second order."""

import inspect
import warnings

import numpy as np
import pytest
import scipy.linalg as sla
from scipy_cases import check
from test_linalg import check_gradient, close, ct_value, definite, hermitian, random, weigh

import cotan as ct
import cotan._src.scipy.linalg.solve  # enters the functions into the table
from cotan._src.runtime.registry import rule_of


class Lifted:
    """The functions of the table, by name."""

    def __getattr__(self, name):
        try:
            return rule_of(f"scipy.linalg.{name}")
        except KeyError:
            raise AttributeError(name) from None


L = Lifted()


def bands(x, lower, upper):
    """The diagonals of a matrix, in the form that SciPy wants."""
    n = x.shape[-1]
    ab = np.zeros((lower + upper + 1, n), x.dtype)
    for k in range(-lower, upper + 1):
        diagonal = np.diagonal(x, k)
        ab[upper - k, max(k, 0) : max(k, 0) + len(diagonal)] = diagonal
    return ab


def stable(x):
    return x / 8 - np.eye(x.shape[-1])


B = random(4, 2, seed=1)

# What is computed of a matrix (or of two), and the matrices.
CASES = {
    "solve": (lambda m, x: m.solve(x, B), (4, 4)),
    "solve transposed": (lambda m, x: m.solve(x, B[:, 0], transposed=True), (4, 4)),
    "solve pos": (lambda m, x: m.solve(definite(x), B, assume_a="pos"), (4, 4)),
    "solve sym": (lambda m, x: m.solve(x + x.T, B, assume_a="sym", lower=True), (4, 4)),
    "solve her": (lambda m, x: m.solve(hermitian(x), B, assume_a="her"), (4, 4)),
    "solve her, one triangle": (lambda m, x: m.solve(x, B, assume_a="her"), (4, 4)),
    "pinvh, one triangle": (lambda m, x: m.pinvh(x, lower=False), (4, 4)),
    "solveh_banded, real diagonal": (
        lambda m, x: m.solveh_banded(bands(x + 4 * np.eye(4), 0, 1)[:2], B),
        (4, 4),
    ),
    "toeplitz of a batch": (lambda m, x: m.toeplitz(x, x[:, ::-1]), (2, 3)),
    "block_diag of batches": (lambda m, x: m.block_diag(x, x[0]), (2, 2, 3)),
    "circulant of a number": (lambda m, x: m.circulant(x[0, 0]), (1, 1)),
    "solve upper": (lambda m, x: m.solve(x, B, assume_a="upper triangular"), (4, 4)),
    "solve diagonal": (lambda m, x: m.solve(x, B, assume_a="diagonal"), (4, 4)),
    "solve tridiagonal": (
        lambda m, x: m.solve(np.triu(np.tril(x, 1), -1), B, assume_a="tridiagonal"),
        (4, 4),
    ),
    "solve a batch": (lambda m, x: m.solve(x, B), (2, 4, 4)),
    "inv": (lambda m, x: m.inv(x), (2, 3, 3)),
    "det": (lambda m, x: m.det(x), (4, 4)),
    "cholesky": (lambda m, x: m.cholesky(definite(x)), (4, 4)),
    "cholesky lower": (lambda m, x: m.cholesky(definite(x), lower=True), (4, 4)),
    "solve_triangular": (lambda m, x: m.solve_triangular(x, B), (4, 4)),
    "solve_triangular T": (lambda m, x: m.solve_triangular(x, B, trans="T", lower=True), (4, 4)),
    "solve_triangular C": (lambda m, x: m.solve_triangular(x, x[:, 1], trans=2), (4, 4)),
    "solve_triangular unit": (
        lambda m, x: m.solve_triangular(x, B, lower=True, unit_diagonal=True),
        (4, 4),
    ),
    "lu": (lambda m, x: m.lu(x)[1:], (4, 4)),
    "lu tall": (lambda m, x: m.lu(x, permute_l=True), (5, 3)),
    "lu wide": (lambda m, x: m.lu(x, p_indices=True)[1:], (3, 5)),
    "lu of a batch": (lambda m, x: m.lu(x)[1:], (2, 3, 3)),
    "lu_factor": (lambda m, x: m.lu_factor(x)[0], (4, 4)),
    "lu_solve": (lambda m, x: m.lu_solve(m.lu_factor(x), B), (4, 4)),
    "lu_solve T": (lambda m, x: m.lu_solve(m.lu_factor(x), B, trans=1), (4, 4)),
    "lu_solve C": (lambda m, x: m.lu_solve(m.lu_factor(x), B[:, 0], trans=2), (4, 4)),
    "cho_solve": (lambda m, x: m.cho_solve(m.cho_factor(definite(x)), B), (4, 4)),
    "cho_solve lower": (
        lambda m, x: m.cho_solve(m.cho_factor(definite(x), lower=True), B[:, 0]),
        (4, 4),
    ),
    "qr economic": (lambda m, x: m.qr(x, mode="economic"), (5, 3)),
    "qr r": (lambda m, x: m.qr(x, mode="r")[0], (5, 3)),
    "qr pivoting": (lambda m, x: m.qr(x, mode="economic", pivoting=True)[:2], (4, 3)),
    "svdvals": (lambda m, x: m.svdvals(x), (4, 3)),
    "svd": (lambda m, x: m.svd(x, compute_uv=False), (3, 4)),
    "pinv": (lambda m, x: m.pinv(x), (4, 3)),
    "pinvh": (lambda m, x: m.pinvh(hermitian(x)), (3, 3)),
    "lstsq": (lambda m, x: m.lstsq(x, random(5, 2))[0], (5, 3)),
    "lstsq vector": (lambda m, x: m.lstsq(x, x[:, 0] ** 2)[:2], (5, 3)),
    "lstsq without residues": (
        lambda m, x: m.lstsq(x, x[:, 0] ** 2, lapack_driver="gelsy")[:2],
        (5, 3),
    ),
    "norm": (lambda m, x: m.norm(x, 2), (3, 3)),
    "eigvalsh": (lambda m, x: m.eigvalsh(hermitian(x)), (4, 4)),
    "eigvalsh upper": (lambda m, x: m.eigvalsh(hermitian(x), lower=False), (4, 4)),
    "eigvalsh subset": (
        lambda m, x: m.eigh(hermitian(x), eigvals_only=True, subset_by_index=[1, 2]),
        (4, 4),
    ),
    "generalized": (
        lambda m, x: m.eigvalsh(hermitian(x), definite(x) + np.eye(3)),
        (3, 3),
    ),
    "generalized 2": (lambda m, x: m.eigvalsh(hermitian(x), definite(x), type=2), (3, 3)),
    "eigvals": (lambda m, x: np.exp(m.eigvals(x) / 4), (4, 4)),
    "eigvals of two": (lambda m, x: m.eigvals(x, definite(x)), (3, 3)),
    "eig": (lambda m, x: abs(m.eig(x)[1]), (3, 3)),
    "left eig": (lambda m, x: abs(m.eig(x, left=True, right=False)[1]), (3, 3)),
    "expm": (lambda m, x: m.expm(x), (4, 4)),
    "expm small": (lambda m, x: m.expm(x / 50), (3, 3)),
    "expm of middle size": (lambda m, x: m.expm(x / 4), (3, 3)),
    "expm of a batch": (lambda m, x: m.expm(x), (2, 3, 3)),
    "sqrtm": (lambda m, x: m.sqrtm(definite(x)), (3, 3)),
    "complex sqrtm": (lambda m, x: m.sqrtm(x), (3, 3)),
    "logm": (lambda m, x: m.logm(definite(x)), (3, 3)),
    "solve_sylvester": (lambda m, x: m.solve_sylvester(x, x.T @ x, x), (3, 3)),
    "continuous lyapunov": (lambda m, x: m.solve_continuous_lyapunov(stable(x), x), (3, 3)),
    "discrete lyapunov": (lambda m, x: m.solve_discrete_lyapunov(x / 8, x), (3, 3)),
    "bilinear lyapunov": (
        lambda m, x: m.solve_discrete_lyapunov(x / 8, x, method="bilinear"),
        (3, 3),
    ),
    "solve_banded": (
        lambda m, x: m.solve_banded((2, 1), x + _dominant(4, 6, 1), x.T[:, :2]),
        (4, 6),
    ),
    "solve_banded vector": (
        lambda m, x: m.solve_banded((1, 1), x + _dominant(3, 5, 1), x[0]),
        (3, 5),
    ),
    "solve_banded upper": (
        lambda m, x: m.solve_banded((0, 1), x + _dominant(2, 5, 1), x[0]),
        (2, 5),
    ),
    "solveh_banded": (
        lambda m, x: m.solveh_banded(x + _dominant(3, 5), x[0]),
        (3, 5),
    ),
    "solveh_banded lower": (
        lambda m, x: m.solveh_banded(x + _dominant(3, 5)[::-1], x[0], lower=True),
        (3, 5),
    ),
    "cholesky_banded": (lambda m, x: m.cholesky_banded(_upper(x)), (3, 5)),
    "cholesky_banded lower": (
        lambda m, x: m.cholesky_banded(_upper(x)[::-1, ::-1], lower=True),
        (3, 5),
    ),
    "cho_solve_banded": (
        lambda m, x: m.cho_solve_banded((m.cholesky_banded(_upper(x)), False), x[0]),
        (3, 5),
    ),
    "toeplitz": (lambda m, x: m.toeplitz(x[:, 0], x[0]), (3, 4)),
    "toeplitz alone": (lambda m, x: m.toeplitz(x[:, 0]), (3, 4)),
    "hankel": (lambda m, x: m.hankel(x[:, 0], x[0]), (3, 4)),
    "circulant": (lambda m, x: m.circulant(x), (2, 4)),
    "block_diag": (lambda m, x: m.block_diag(x, x[0], 2 * x.T), (2, 3)),
}


def _dominant(rows, n, main=-1):
    x = np.zeros((rows, n))
    x[main] = 20.0
    return x


def _upper(x):
    """Upper bands, with zeros where SciPy leaves what it was given."""
    outside = np.add.outer(-np.arange(3), -np.arange(5)) > -2
    return np.where(outside, 0.0, x + _dominant(3, 5))


# Bands whose diagonal is complex are no Hermitian matrix.
REAL = {name for name in CASES if "banded" in name and "solve_banded" not in name} | {
    "cho_solve_banded", "qr pivoting", "solve transposed",
}  # fmt: skip


def comparable(name, x):
    """A result without what may differ: phases, the order of eigenvalues."""
    if "qr" in name and np.iscomplexobj(x):
        return np.abs(x)
    if "eigvals" in name and np.iscomplexobj(x):
        return np.sort_complex(x)
    return np.sort(x, -1) if "eig" in name and np.ndim(x) == 2 else x


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("name", CASES)
def test_values_and_derivatives(name, dtype):
    if dtype == "complex128" and name in REAL:
        pytest.skip("real only")
    f, shape = CASES[name]
    m, n = shape[-2:]
    x = random(*shape, dtype=dtype, seed=4) + np.eye(m, n) * np.arange(2.5, n + 2.5)

    expected, got = f(sla, x), f(L, ct.array(x))
    expected = expected if isinstance(expected, tuple) else (expected,)
    got = got if isinstance(got, tuple) else (got,)
    for a, b in zip(got, expected, strict=True):
        assert np.shape(a) == np.shape(b)
        assert np.asarray(ct_value(a)).dtype == np.asarray(b).dtype
        close(comparable(name, ct_value(a)), comparable(name, b), scale=10)

    def total(x):
        y = f(L, x)
        return sum(map(weigh, y)) if isinstance(y, tuple) else weigh(y)

    check_gradient(total, x, rtol=1e-6)


def test_errors():
    with pytest.raises(ValueError, match="infs or NaNs"):
        L.solve(ct.array(np.full((2, 2), np.nan)), np.ones(2))
    with pytest.raises(np.linalg.LinAlgError, match="[Ss]ingular"):
        L.solve(ct.array(np.zeros((2, 2))), np.ones(2))
    with pytest.raises(np.linalg.LinAlgError) as theirs:
        sla.solve_triangular(np.diag([1.0, 0.0]), np.ones(2))
    with pytest.raises(np.linalg.LinAlgError, match=f"^{theirs.value}$"):
        L.solve_triangular(ct.array(np.diag([1.0, 0.0])), np.ones(2))
    with pytest.raises(np.linalg.LinAlgError, match="positive definite"):
        L.cholesky(ct.array(-np.eye(2)))
    with pytest.raises(np.linalg.LinAlgError):
        L.solveh_banded(ct.array([[0.0, 1.0], [-1.0, -1.0]]), np.ones(2))
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        L.solve_banded((1, 1), ct.array(np.zeros((3, 4))), np.ones(4))
    with pytest.raises(ValueError, match="square"):
        L.inv(ct.array(np.ones((2, 3))))
    with pytest.raises(ValueError, match="incompatible"):
        L.solve(ct.array(np.eye(2)), np.ones(3))
    with pytest.raises(ValueError, match="structure"):
        L.solve(ct.array(np.eye(2)), np.ones(2), assume_a="odd")
    with pytest.raises(TypeError, match="orth"):
        ct.gradient(lambda x: np.sum(L.orth(x)), np.eye(2))
    assert isinstance(L.orth(ct.array(np.eye(2))), np.ndarray)


def test_permutations_are_those_of_scipy():
    for shape in ((5, 5), (6, 3), (3, 6), (2, 4, 4)):
        x = random(*shape)
        for a, b in zip(L.lu(ct.array(x)), sla.lu(x), strict=True):
            close(ct_value(a), b)
        for a, b in zip(L.lu(ct.array(x), p_indices=True), sla.lu(x, p_indices=True), strict=True):
            close(ct_value(a), b)
        for a, b in zip(L.lu_factor(ct.array(x)), sla.lu_factor(x), strict=True):
            assert ct_value(a).dtype == b.dtype
            close(ct_value(a), b)


@pytest.mark.parametrize("size", [1e-3, 0.1, 0.5, 1.5, 4.0, 40.0])
def test_exponentials_of_many_sizes(size):
    for dtype in ("float64", "complex128", "float32"):
        x = (size * random(5, 5, dtype=dtype) / 5).astype(dtype)
        got, expected = ct_value(L.expm(ct.array(x))), sla.expm(x)
        assert got.dtype == expected.dtype
        scale = np.abs(expected).max()
        close(got / scale, expected / scale, dtype)
    # Far from normal: the norms of the powers alone would choose too low a degree.
    x = np.array([[1.0, 1e6], [0.0, 1.0]]) * 1e-3
    close(ct_value(L.expm(ct.array(x))), sla.expm(x))


@pytest.mark.filterwarnings("ignore:Matrix is singular")
def test_logm_of_a_matrix_near_and_far():
    for x in (np.eye(3) + random(3, 3) / 100, definite(random(4, 4)) * 1e4):
        close(ct_value(L.logm(ct.array(x))), sla.logm(x), scale=100)
    x = np.diag([-1.0, 2.0])
    got, expected = ct_value(L.logm(ct.array(x))), sla.logm(x)
    assert got.dtype == expected.dtype
    close(got, expected)
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        L.logm(ct.array(np.zeros((2, 2))))


def test_wide_bands_and_large_systems():
    rng = np.random.default_rng(0)
    for lower, upper in ((1, 1), (3, 2), (0, 4), (5, 0)):
        for n in (1, 2, 50):
            ab, b = rng.normal(size=(lower + upper + 1, n)), rng.normal(size=(n, 3))
            if n < lower + upper + 1:
                continue
            # Without a heavy diagonal such a system is singular to all digits.
            ab[upper] += 3 * (lower + upper)
            expected = sla.solve_banded((lower, upper), ab, b)
            close(ct_value(L.solve_banded((lower, upper), ct.array(ab), b)), expected)


def test_constants_are_held():
    a = definite(random(3, 3))
    (g,) = ct.gradient(lambda b: np.sum(L.solve(a, b)), np.ones(3))
    close(g, np.linalg.solve(a.T, np.ones(3)))


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_dtypes_are_those_of_scipy(dtype):
    a = (random(4, 4, seed=3) + 4 * np.eye(4)).astype(dtype)
    for name, *rest in (("det",), ("fractional_matrix_power", 0.3), ("solve_toeplitz", a[0])):
        (arg,) = [a[0]] if name == "solve_toeplitz" else [a]
        value = ct.pullback(lambda x, n=name, r=rest: getattr(sla, n)(x, *r), arg)[0]
        wanted = getattr(sla, name)(arg, *rest)
        assert value.dtype == wanted.dtype, name
        np.testing.assert_allclose(value, wanted, rtol=2e-3, atol=2e-3)
    assert ct.pullback(lambda x: sla.pinv(x), np.zeros((0, 3), dtype))[0].dtype == dtype
    assert ct.pullback(lambda x: sla.polar(x)[0], np.zeros((0, 0), dtype))[0].shape == (0, 0)
    rest = ct.pullback(lambda x: sla.lstsq(x, B, lapack_driver="gelsy")[1], a[:, :2])[0]
    assert rest.shape == (0,)


def test_the_form_of_a_matrix_is_constant():
    def f(x):
        form = [sla.issymmetric(x), sla.ishermitian(x + x.T), sla.bandwidth(np.triu(x))]
        assert form == [False, True, (0, 2)]
        return np.sum(x) * sla.null_space(A=np.ones((1, 2)))[0, 0]

    (slope,) = ct.gradient(f, np.arange(1.0, 10.0).reshape(3, 3))
    np.testing.assert_allclose(np.abs(slope), np.sqrt(0.5))


def test_ill_conditioned_matrices_are_warned_of():
    near = np.array([[1.0, 2.0], [2.0, 4.0 + 1e-15]])

    def tried(x, solve):
        # As programs do that fall back on a matrix of lower rank.
        with warnings.catch_warnings():
            warnings.simplefilter("error", sla.LinAlgWarning)
            try:
                return np.sum(solve(near * x))
            except sla.LinAlgWarning:
                return 3.0 * x

    # Far from it, but not by much.
    well = np.vander(np.linspace(0.1, 1, 12))
    with warnings.catch_warnings():
        warnings.simplefilter("error", sla.LinAlgWarning)
        sla.inv(well)
        ct.gradient(lambda x: np.sum(sla.inv(well * x)), 1.0)
    for solve in (lambda a: sla.inv(a), lambda a: sla.solve(a, np.ones(2))):
        assert tried(1.0, solve) == 3.0
        assert ct.value_and_gradient(lambda x, solve=solve: tried(x, solve), 1.0) == (3.0, (3.0,))


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("name", ["solve_continuous_are", "solve_discrete_are"])
def test_riccati_equations_in_general(name, dtype):
    a, e = (random(3, 3, seed=s).astype(dtype) for s in (1, 2))
    b, s = (random(3, 2, seed=s).astype(dtype) for s in (3, 4))
    if dtype == np.complex128:
        a, s = a + 0.3j * e, s - 0.2j * b
    q, r = definite(random(3, 3, seed=5)), definite(random(2, 2, seed=6))
    e = e + 3 * np.eye(3)

    def f(a, b, q, r, e, s):
        q, r = ((x + x.conj().T) / 2 for x in (q, r))
        return getattr(sla, name)(a, b, q, r, e, 0.1 * s)

    check(f, a, b, q, r, e, s, value_rtol=1e-7, rtol=1e-4, atol=1e-5)
    without = getattr(sla, name)(a, b, q, r, np.eye(3), 0 * s)
    found = ct.pullback(lambda a: getattr(sla, name)(a, b, q, r, np.eye(3), 0 * s), a)[0]
    close(found, without)


def test_balanced_matrices():
    a = np.array(
        [[1.0, 0.0, 0.0, 0.0], [300.0, 2.0, 0.01, 0.0], [5.0, 4e3, 3.0, 0.0], [1, 2, 3, 4]]
    )
    order = sla.matrix_balance(a, separate=True)[1][1]
    assert not np.array_equal(order, np.arange(4))
    # What is 0 stays so: it says what is permuted.
    factors = random(4, 4) + 2
    check(lambda x: sla.matrix_balance(a * x), factors, rtol=1e-4)
    check(lambda x: sla.matrix_balance(a * x, permute=False, separate=True)[0], factors)
    # Of Hermitian ones.
    close(ct.pullback(lambda a: sla.matrix_balance(a)[0], a + 1j * a.T)[0],
          sla.matrix_balance(a + 1j * a.T)[0])  # fmt: skip


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("options", [{}, {"type": 1}, {"type": 2}, {"type": 3}])
def test_phases_of_eigenvectors_are_those_of_lapack(lower, options):
    """One component of what is computed on the way is real, the first one or the last one."""
    n = 4
    a, b = (random(n, n, dtype="complex128", seed=s) for s in (0, 1))
    a, b = hermitian(a), b @ np.conj(b.T) + 2 * np.eye(n)
    choice = {"lower": lower, "driver": "gvd" if options else "evd", **options}

    def f(*parts):
        given = [parts[i] + 1j * parts[i + 1] for i in range(0, len(parts), 2)]
        v = sla.eigh(*((x + np.conj(x.T)) / 2 for x in given), **choice)[1]
        return np.stack([np.real(v), np.imag(v)])

    check(f, a.real, a.imag, *((b.real, b.imag) if options else ()))


def test_logarithms_and_roots_tell_of_their_error():
    a = random(3, 3) @ np.diag([1.0, 2.0, 3.0]) + 4 * np.eye(3)
    # SciPy 1.18 has the option no more for logarithms.
    both = {"logm": sla.logm, "sqrtm": sla.sqrtm}
    names = [name for name, f in both.items() if "disp" in inspect.signature(f).parameters]
    if not names:
        pytest.skip("this version of SciPy tells of no error")
    for name in names:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            expected, error = getattr(sla, name)(a, disp=False)
            (y, told), _ = ct.pullback(lambda a, n=name: getattr(sla, n)(a, disp=False), a)
        np.testing.assert_allclose(y, expected, 1e-9)
        assert told == error


def test_precisions_of_balanced_matrices():
    for dtype in ("float32", "complex64", "float64"):
        a = np.array([[1.0, 1e3], [1e-3, 1.0]], dtype)
        for separate in (False, True):
            y, _ = ct.pullback(lambda a, s=separate: sla.matrix_balance(a, separate=s)[0], a)
            expected = sla.matrix_balance(a, separate=separate)[0]
            assert y.dtype == expected.dtype
            np.testing.assert_array_equal(y, expected)
    assert ct.pullback(sla.inv, np.zeros((0, 0)))[0].shape == (0, 0)


@pytest.mark.parametrize("driver", ["gelsd", "gelss"])
@pytest.mark.parametrize("cond", [0, 1, 2.0, -1, None])
def test_least_squares_by_what_is_left_out(driver, cond):
    import scipy.linalg as sla

    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(6, 3)), rng.normal(size=6)
    try:
        expected = sla.lstsq(a, b, cond, lapack_driver=driver)
    except ValueError:
        pytest.skip("this version of SciPy takes no negative cond")
    seen = []

    def solved(scale):
        found = sla.lstsq(a * scale, b, cond, lapack_driver=driver)
        seen.append((ct.dropgrad(found[0]).tolist(), found[2], np.shape(found[1])))
        return np.sum(found[0] ** 2)

    (slope,) = ct.gradient(solved, 1.0)
    np.testing.assert_allclose(seen[0][0], expected[0], rtol=1e-10)
    assert seen[0][1:] == (expected[2], np.shape(expected[1]))
    np.testing.assert_allclose(slope or 0.0, -2 * np.sum(expected[0] ** 2), rtol=1e-9)


def test_least_squares_by_pivots_are_refused_where_they_differ():
    import scipy.linalg as sla

    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(10, 3)), rng.normal(size=10)
    low = a @ np.array([[1.0, 0, 1], [0, 1, 1], [0, 0, 0]])

    def solved(a, cond):
        return lambda s: np.sum(sla.lstsq(a * s, b, cond, lapack_driver="gelsy")[0] ** 2)

    for matrix, cond in ((a, None), (a, 1e-8), (low, 1e-8)):
        value, (slope,) = ct.value_and_gradient(solved(matrix, cond), 1.0)
        np.testing.assert_allclose(value, solved(matrix, cond)(1.0))
        np.testing.assert_allclose(slope, -2 * value)
    with pytest.raises(TypeError, match="gelsy.*use 'gelsd'"):
        ct.gradient(solved(a, 0.5), 1.0)


@pytest.mark.parametrize("complex_values", [False, True])
def test_left_eigenvectors_are_turned_as_lapack_does(complex_values):
    rng = np.random.default_rng(7)
    for n in (2, 3, 5):
        a = rng.normal(size=(n, n)) + (1j * rng.normal(size=(n, n)) if complex_values else 0)
        for options in ({"left": True, "right": False}, {"left": True}):
            f = lambda t, a=a, options=options: sla.eig(a + t * np.eye(n)[::-1], **options)[1]
            check(lambda t, f=f: [f(t).real, f(t).imag], 0.3)


@pytest.mark.parametrize("name", ["solve_continuous_are", "solve_discrete_are"])
def test_riccatis_equation_takes_numbers_for_matrices(name):
    solve = getattr(sla, name)
    check(lambda r: solve([[4.0, 3.0], [-4.5, -3.5]], [[1.0], [-1.0]], [[9, 6], [6, 4.0]], r), 1.0)
    check(lambda a: solve(a, 1, 1, 1), 0.5)
