"""What a traced program computes from its arguments, although the code met values of others."""

import numpy as np
import pytest

import cotan as ct

A = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 2.0]])
OTHER = np.array([[5.0, -1.0, 0.3], [-1.0, 2.0, 0.4], [0.3, 0.4, 7.0]])
WIDE, TALL = A[:2], A[:, :2]

LINALG = {
    "solve": lambda a: np.linalg.solve(a, a + 1),
    "inv": np.linalg.inv,
    "det": np.linalg.det,
    "slogdet": np.linalg.slogdet,
    "cholesky": np.linalg.cholesky,
    "qr": np.linalg.qr,
    "complete qr": lambda a: np.linalg.qr(a[:, :2], mode="complete"),
    "svd": np.linalg.svd,
    "svd of a wide matrix": lambda a: np.linalg.svd(a[:2]),
    "hermitian svd": lambda a: np.linalg.svd(a, hermitian=True),
    "svdvals": np.linalg.svdvals,
    "eigh": np.linalg.eigh,
    "eigvalsh": np.linalg.eigvalsh,
    "pinv": np.linalg.pinv,
    "pinv with a cutoff": lambda a: np.linalg.pinv(a * np.array([1.0, 1e-3, 1.0]), rcond=1e-2),
    "lstsq": lambda a: np.linalg.lstsq(a[:2], a[:2, 0]),
    "cond": np.linalg.cond,
    "cond by norms": lambda a: np.linalg.cond(a, 1),
    "norm": lambda a: np.linalg.norm(a, 2),
    "matrix_power": lambda a: np.linalg.matrix_power(a, -2),
    "rank": lambda a: np.count_nonzero(np.linalg.svdvals(a) > 1.0),
    "fft": lambda a: np.fft.irfft(np.fft.rfft(a) * 2),
    "gradient": lambda a: ct.gradient(lambda b: np.sum(np.linalg.inv(b) ** 2), a),
}


def flat(y):
    return [np.asarray(part) for part in (y if isinstance(y, tuple) else (y,))]


@pytest.mark.parametrize("name", LINALG)
def test_a_trace_decomposes_nothing_and_its_program_each_argument(name):
    f = LINALG[name]
    with ct.profile() as work:
        program = ct.trace(f, A)
    assert sum(work.equations.values()) == 0
    assert all(v.value is None or v.value.shape for v in program.inputs)  # numbers are literals
    for a in (OTHER, A):
        for got, expected in zip(flat(program(a)), flat(f(a)), strict=True):
            # The signs of vectors are a matter of taste.
            has_vectors = name.endswith(("svd", "svd of a wide matrix", "eigh"))
            both = map(np.abs, (got, expected)) if has_vectors else (got, expected)
            np.testing.assert_allclose(*both, rtol=1e-9, atol=1e-9)


SCIPY = {
    "cho_solve": lambda s, a: s.cho_solve(s.cho_factor(a), a[0]),
    "solve": lambda s, a: s.solve(a, a[0], assume_a="pos"),
    "solve_triangular": lambda s, a: s.solve_triangular(a, a[0]),
    "pinv": lambda s, a: s.pinv(a),
    "sylvester": lambda s, a: s.solve_sylvester(a, a + 1, a - 1),
    "lyapunov": lambda s, a: s.solve_continuous_lyapunov(a, a),
    "banded": lambda s, a: s.solve_banded((1, 1), a, a[0]),
    "banded and positive": lambda s, a: s.solveh_banded(
        a[1:] + np.array([[0], [9]]), a[0], lower=False
    ),
}


@pytest.mark.parametrize("name", SCIPY)
def test_scipys_decompositions(name):
    module = pytest.importorskip("scipy.linalg")
    f = SCIPY[name]
    with ct.profile() as work:
        program = ct.trace(lambda a: f(module, a), A)
    assert sum(work.equations.values()) == 0
    for a in (OTHER, A):
        np.testing.assert_allclose(program(a), f(module, a), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "f",
    [
        lambda s, a: s.lu_solve(s.lu_factor(a), a[0]),
        lambda s, a: s.expm(a),
        lambda s, a: s.qr(a, pivoting=True)[1],
    ],
)
def test_what_is_chosen_by_values_is_refused(f):
    module = pytest.importorskip("scipy.linalg")
    with pytest.raises(TypeError, match=r"trace: .* looks at the values of an array \(.*ct.const"):
        ct.trace(lambda a: f(module, a), A)
    ct.trace(lambda a: f(module, a), ct.const(A))


def test_what_numpy_decides_by_values_is_decided_when_the_program_runs():
    median = ct.trace(lambda x: np.median(x, axis=1), np.ones((2, 3)))
    x = np.array([[1.0, np.nan, 2.0], [5.0, 3.0, 4.0]])
    np.testing.assert_array_equal(median(x), [np.nan, 4])
    values = ct.trace(np.linalg.eigvals, np.diag([1.0, 2.0]))
    pairs = ct.trace(np.linalg.eig, np.diag([1.0, 2.0]))
    turn = np.array([[0.0, 1.0], [-1.0, 0.0]])
    # From NumPy 2.5 on, they are complex whatever the values are.
    is_decided = np.linalg.eigvals(np.eye(2)).dtype == float
    for found in (values(turn), *pairs(turn)):
        assert found.dtype == (float if is_decided else complex)
        assert np.isnan(found).all() == is_decided
    np.testing.assert_allclose(np.sort(values(np.diag([5.0, 3.0]))), [3, 5])


def test_functions_of_numpy_that_look_at_values_are_refused():
    for f, x in ((np.unique, XP), (np.bincount, np.array([0, 2, 2])), (np.roots, XP)):
        with pytest.raises(TypeError, match="trace: .* looks at the values"):
            ct.trace(f, x)
    program = ct.trace(lambda x, w: np.bincount(x, w), ct.const(np.array([0, 2, 2])), XP[:3])
    np.testing.assert_array_equal(program(np.ones(3)), [1, 0, 2])


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.take_along_axis(x, np.argmax(x, axis=1)[:, None], 1),
        lambda x: np.take(x, np.argmax(x, axis=0)),
        lambda x: np.sort(x, axis=0),
        lambda x: np.repeat(x, 2, axis=1),
        lambda x: np.repeat(x, [3]),
    ],
)
def test_computed_positions_are_computed_again(f):
    with ct.profile() as work:
        program = ct.trace(f, A)
    assert sum(work.equations.values()) == 0
    for x in (OTHER, -A[::-1]):
        np.testing.assert_array_equal(program(x), f(x))


@pytest.mark.parametrize(
    ("f", "bad", "message"),
    [
        (np.linalg.inv, np.zeros((2, 2)), "Singular matrix"),
        (lambda a: np.linalg.solve(a, a), np.ones((2, 2)), "Singular matrix"),
        (np.linalg.cholesky, -np.eye(2), "not positive definite"),
    ],
)
def test_errors_come_when_the_program_runs(f, bad, message):
    program = ct.trace(f, bad)  # nothing is computed, so nothing fails
    np.testing.assert_allclose(program(2 * np.eye(2)), f(2 * np.eye(2)))
    with pytest.raises(np.linalg.LinAlgError, match=message):
        program(bad)
    with pytest.raises(np.linalg.LinAlgError, match=message):
        program(ct.array(bad)).force()
    with pytest.raises(np.linalg.LinAlgError, match=message):
        ct.gradient(lambda a: np.sum(program(a)), bad)
    with pytest.raises(np.linalg.LinAlgError, match=message):
        f(ct.array(bad))  # outside of a trace at once, as before


def test_constants_are_decomposed_by_the_program_too():
    with ct.profile() as work:
        program = ct.trace(lambda a, b: np.linalg.solve(a, b), ct.const(A), A[0])
    assert sum(work.equations.values()) == 0
    np.testing.assert_allclose(program(OTHER[0]), np.linalg.solve(A, OTHER[0]))


# --------------------------------------------------------------------------------------------------
# What is detached


def test_what_is_detached_is_computed_from_the_arguments():
    program = ct.trace(lambda x: ct.dropgrad(np.sin(x)) * x, 1.0)
    assert program(2.0) == pytest.approx(np.sin(2.0) * 2)
    assert ct.gradient(program, 2.0)[0] == pytest.approx(np.sin(2.0))


def test_looking_at_a_value_does_not_keep_it():
    def f(x):
        y = ct.dropgrad(np.sin(x))
        str(y)  # as print does
        float(y)
        np.asarray(y)
        return y * x

    program = ct.trace(f, 1.0)
    assert [v.value for v in program.inputs] == [None]
    assert program(2.0) == pytest.approx(np.sin(2.0) * 2)


def test_what_was_read_is_a_constant():
    program = ct.trace(lambda x: float(ct.dropgrad(x)) * x, 3.0)
    assert program(2.0) == 6.0
    with ct.strict(), pytest.raises(TypeError, match="would drop the gradient"):
        ct.trace(lambda x: float(x) * x, 3.0)


def test_a_number_made_of_an_active_one_is_traced():
    program = ct.trace(lambda x: float(x) * x, 3.0)
    assert program(2.0) == 4.0
    assert ct.gradient(program, 2.0) == (4.0,)


def test_a_trace_inside_a_trace_and_a_gradient():
    def f(x):
        inner = ct.trace(lambda y: ct.dropgrad(np.exp(y)) * y, x)
        return inner(x) + ct.dropgrad(x) * x

    program = ct.trace(f, 1.0)
    assert program(2.0) == pytest.approx(2 * np.exp(2.0) + 4)
    assert ct.gradient(f, 2.0)[0] == pytest.approx(np.exp(2.0) + 2)
    assert ct.gradient(program, 2.0)[0] == pytest.approx(np.exp(2.0) + 2)


def test_a_prepared_function_inside_a_trace_is_a_part_of_it():
    prepared = ct.prepare(lambda x: np.sin(x) * 2, transform="value")
    for f in (lambda x: prepared(x), lambda x: prepared(ct.dropgrad(x))):
        assert ct.trace(f, 1.0)(2.0) == pytest.approx(np.sin(2.0) * 2)


def test_a_rule_inside_a_trace():
    @ct.adjoint
    def root(a):
        y = np.linalg.cholesky(a)
        return y, lambda ct_: (np.linalg.solve(y, ct_),)

    program = ct.trace(lambda a: np.sum(root(a)), A)
    assert program(OTHER) == pytest.approx(np.sum(np.linalg.cholesky(OTHER)))
    np.testing.assert_allclose(
        ct.gradient(program, OTHER)[0],
        np.linalg.solve(np.linalg.cholesky(OTHER), np.ones((3, 3))),
        atol=1e-12,
    )


# --------------------------------------------------------------------------------------------------
# Functions that look for places and truth


XP = np.array([0.0, 1.0, 2.5, 4.0])
POINTS = np.array([0.5, 3.0, -1.0, np.nan, 5.0, 2.5])


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.searchsorted(XP, x),
        lambda x: np.searchsorted(XP, x, side="right"),
        lambda x: np.searchsorted(np.append(XP, np.nan), x),
        lambda x: np.searchsorted(np.append(XP, np.nan), x, side="right"),
        lambda x: np.searchsorted(XP[::-1], x, sorter=np.arange(3, -1, -1)),
        lambda x: np.searchsorted(np.array([0, 1, 2]), np.argsort(x)),
        lambda x: np.digitize(x, XP),
        lambda x: np.digitize(x, XP, right=True),
        lambda x: np.digitize(x, XP[::-1]),
        lambda x: np.digitize(x, XP[::-1], right=True),
        lambda x: np.isclose(x, np.array([0.5, 3, np.inf, np.nan, 5 + 1e-9, 0])),
        lambda x: np.isclose(x, np.nan, equal_nan=True),
        lambda x: np.interp(x, XP, XP**2),
        lambda x: np.interp(x, XP, XP**2, left=-7.0, right=9.0),
        lambda x: np.interp(x, XP[:3], XP[:3] ** 2, period=3.0),
        lambda x: np.interp(XP, x[:3], x[3:]),
        lambda x: np.nanmean(x, where=np.arange(6) > 1),
        lambda x: np.nanmedian(x + 1j),
        lambda x: np.count_nonzero(x > 1),
    ],
)
def test_places_are_looked_for_anew(f):
    program = ct.trace(f, POINTS)
    for x in (POINTS, POINTS[::-1].copy(), np.sort(POINTS) * 0.7):
        expected = f(x)
        np.testing.assert_allclose(program(x), expected)
        assert np.asarray(program(x)).dtype == np.asarray(expected).dtype


def test_an_interpolation_has_the_gradient_of_its_piece():
    program = ct.trace(lambda x: np.sum(np.interp(x, XP, XP**2)), POINTS[:2])
    np.testing.assert_allclose(ct.gradient(program, np.array([3.9, 1.5]))[0], [6.5, 3.5])


def test_questions_about_arrays_are_control_flow():
    def f(x):
        if np.allclose(x, 1.0) or np.array_equal(x, XP) or 7.0 in x:
            return x * 2
        assert np.array_repr(x).startswith("array([")
        return x * 3

    assert ct.trace(f, np.ones(2))(XP[:2]).tolist() == [0.0, 2.0]
    assert ct.trace(f, np.array([7.0, 2.0]))(XP[:2]).tolist() == [0.0, 2.0]
    assert ct.trace(f, np.zeros(2))(XP[:2]).tolist() == [0.0, 3.0]


def test_without_a_trace_places_are_values():
    for x in (POINTS, ct.array(POINTS)):
        assert type(np.searchsorted(XP, x)) is np.ndarray
        assert type(np.isclose(x, 1.0)) is np.ndarray
    with pytest.raises(ValueError, match="monoton"):
        ct.trace(lambda x: np.digitize(x, np.array([0.0, 2.0, 1.0])), POINTS)
