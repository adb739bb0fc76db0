"""`np.matrix` of traced values: what NumPy's functions give for it, and writes of it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cotan as ct

pytestmark = pytest.mark.filterwarnings("ignore:the matrix subclass")
X = np.array([[1.0, 2.0], [3.0, 5.0]])
V = np.array([0.5, -2.0])
WEIGHTS = np.arange(9.0).reshape(3, 3)


def expect_gradient(f: Callable[[Any], Any]) -> None:
    """Compare value and gradient with NumPy and central differences."""
    value, (found,) = ct.value_and_gradient(f, X)
    np.testing.assert_allclose(value, f(X), rtol=1e-12)
    for index in np.ndindex(X.shape):
        step = np.zeros(X.shape)
        step[index] = 1e-6
        wanted = (f(X + step) - f(X - step)) / 2e-6
        np.testing.assert_allclose(found[index], wanted, rtol=1e-6, atol=1e-7)


def shown(made: Any) -> Any:
    """Say what kind of array something is, and how large."""
    return isinstance(made, np.matrix), np.shape(made)


@pytest.mark.parametrize(
    "text",
    [
        "np.dot(m, v)", "np.dot(v, m)", "np.inner(m, v)", "m.dot(v)", "m @ v", "v @ m",
        "np.matmul(m, v)", "np.cumsum(m)", "np.take(m, [0, 1])", "np.squeeze(m[0])",
        "m[0].squeeze()", "np.squeeze(m[:, 0])", "np.repeat(m, 2)", "np.median(m, axis=0)",
        "np.median(m, axis=1)", "np.average(m, axis=1)", "np.amax(m, axis=1)",
        "np.trapezoid(m, axis=0)", "np.trapezoid(m, axis=1)",
        "np.where(m > 2.5, m, 0)", "np.tril(m)", "np.outer(m, v)", "np.diag(m)", "np.ravel(m)",
        "np.einsum('ij,j', m, v)", "np.add.reduce(m)", "np.linalg.solve(m, v)",
        "np.linalg.svd(m)[1]", "np.linalg.inv(m)", "np.diagonal(m)", "m.diagonal()",
        "m.trace()", "m.trace(offset=1)", "np.trace(m)", "m.ptp()", "m.ptp(axis=0)",
        "m.ptp(axis=1)",
        "m.getA1()", "m.getH()", "m.getT()", "m.getI()",
        pytest.param(
            "np.percentile(m, 50, axis=0)",
            marks=pytest.mark.skipif(
                np.lib.NumpyVersion(np.__version__) < "2.4.0", reason="NumPy has it since 2.4"
            ),
        ),
        "np.nansum(m, axis=1)", "np.nanstd(m, axis=1)",
        "np.nanvar(m, axis=1)", "np.trapezoid(m)", "np.roll(m, 1)", "np.roll(m, 1, axis=1)",
        "np.polyval([1.0, 2.0, 3.0], m)", "np.polyval(m.A1, m)", "np.ediff1d(m)", "np.vdot(m, m)",
        "np.fft.fft(m).real",
    ],
)  # fmt: skip
def test_functions_give_matrices_where_numpy_does(text: str) -> None:
    seen: list[Any] = []

    def f(x: Any) -> Any:
        made = eval(text, {"np": np, "m": np.matrix(x), "v": V})
        seen.append(shown(made))
        return np.sum(np.multiply(made, made))

    expect_gradient(f)
    assert len(set(seen)) == 1


def test_products_of_what_where_gives_are_elementwise() -> None:
    def f(x: Any) -> Any:
        m = np.matrix(x)
        return np.sum(np.where(m > 2.5, m, 0) * np.asarray(m.T))

    expect_gradient(f)


def test_matrices_are_written_into_arrays() -> None:
    def assembled(x: Any) -> Any:
        k, places = np.zeros((3, 3)), np.ix_([0, 2], [0, 2])
        k[places] += np.matrix(x) * np.matrix(x)
        k[:2, :1] -= np.matrix(x)[:, 0]
        k[1] = x[0, 0]
        return np.sum(WEIGHTS * k)

    def in_place(x: Any) -> Any:
        k = np.ones((2, 2))
        k += np.matrix(x) * np.matrix(x)
        # Products in place are those of an array.
        k *= np.matrix(x)
        k *= np.matrix([[1.0, 2.0], [3.0, 4.0]])
        return np.sum(WEIGHTS[:2, :2] * k)

    expect_gradient(assembled)
    expect_gradient(in_place)


@pytest.mark.parametrize(
    "f",
    [
        np.copy,
        lambda m: np.pad(m, 1),
        lambda m: np.select([np.asarray(m) > 1.5], [m]),
        lambda m: np.broadcast_to(m, (2, 2)),
        lambda m: np.choose([[0, 1], [1, 0]], [m, 2 * m]),
        np.cov,
        np.sinc,
        np.unwrap,
        lambda m: np.flip(m, 0),
    ],
)
def test_what_is_multiplied_afterwards(f: Callable[[Any], Any]) -> None:
    def squared(x: Any) -> Any:
        m = f(np.matrix(x))
        return np.sum(np.asarray(m * m))

    expect_gradient(squared)


def test_a_scalar_times_a_matrix_is_a_matrix_in_place_too() -> None:
    def f(x: Any) -> Any:
        y = x[0, 0]
        y *= np.matrix([[1.0, 2.0], [3.0, 4.0]])
        return np.sum(np.asarray(y * y)) * x[1, 1]

    expect_gradient(f)


def test_sparse_matrices_times_matrices() -> None:
    sparse = pytest.importorskip("scipy.sparse")

    def f(x: Any) -> Any:
        made = sparse.diags([1.0, 2.0], 0) * np.matrix(x).T
        assert isinstance(made, np.matrix)
        return np.sum(np.asarray(made * made)) + np.sum(sparse.csc_matrix(X) @ np.matrix(x))

    expect_gradient(f)


@pytest.mark.parametrize("of_numpy", [True, False])
@pytest.mark.parametrize("axis", [0, 1, None])
def test_reductions_take_out_and_dtype_in_numpys_order(axis: int | None, of_numpy: bool) -> None:
    def f(x: Any) -> Any:
        m = np.matrix(X) if of_numpy else np.matrix(x)
        out = np.asmatrix(np.zeros({0: (1, 2), 1: (2, 1)}.get(axis, (1, 1))))
        named = m.sum(axis=axis, dtype=float, out=out)
        placed = m.mean(axis, float, None)
        assert (
            shown(named) == shown(placed) == (axis is not None, out.shape if axis in {0, 1} else ())
        )
        return (
            np.sum(np.asarray(out)) * np.sum(np.asarray(named) ** 2)
            + np.sum(np.asarray(placed)) * x[0, 0]
        )

    expect_gradient(f)
