"""Conventions where derivatives could be something else, and what is refused."""

import numpy as np
import pytest

import cotan as ct

X = np.array([0.5, 1.0, 1.5])


# --------------------------------------------------------------------------------------------------
# Conventions


def test_complex_convention():
    """The gradient of `abs(z)**2` is `2 * z`, and `back` applies the adjoint."""
    z = np.array([1 + 2j, -3 + 1j])
    (g,) = ct.gradient(lambda z: ct.sum(ct.abs(z) ** 2), z)
    np.testing.assert_allclose(g, 2 * z)
    (g,) = ct.gradient(lambda z: ct.sum((z * z.conj()).real), z)
    np.testing.assert_allclose(g, 2 * z)
    m = np.array([[1 + 1j, 2], [0, 3j]])
    _, back = ct.pullback(lambda z: ct.matmul(m, z), z)
    dy = np.array([1.0, 1j])
    np.testing.assert_allclose(np.asarray(back(dy)[0]), m.conj().T @ dy)
    (g,) = ct.gradient(lambda x: ct.sum(ct.abs(x * 1j + 1) ** 2), X)
    assert g.dtype == np.float64
    np.testing.assert_allclose(g, 2 * X)


@pytest.mark.parametrize(
    ("f", "x", "expected"),
    [
        (ct.abs, 0.0, 0.0),
        (lambda x: ct.abs(x) ** 2, 0j, 0j),
        (lambda x: ct.maximum(x, 0), 0.0, 0.0),
        (lambda x: ct.maximum(x, 0.0), 0.0, 0.0),
        (lambda x: ct.hypot(x, 0.0), 0.0, 0.0),
        (lambda x: x**2, 0.0, 0.0),
        (lambda x: x**1, 0.0, 1.0),
        (lambda x: ct.maximum(x, x), 1.0, 1.0),
        (lambda x: ct.where(x > 0, ct.log(x), 0.0), 0.0, 0.0),
        (lambda x: ct.where(x > 0, ct.sqrt(x), x), 0.0, 1.0),
        (lambda x: ct.sigmoid(x), 1000.0, 0.0),
        (lambda x: ct.softplus(x), -1000.0, 0.0),
        (lambda x: ct.logaddexp(x, -np.inf), 1.0, 1.0),
        (lambda x: ct.prod(x), np.array([0.0, 2.0, 3.0]), [6.0, 0.0, 0.0]),
        (lambda x: ct.prod(x), np.array([0.0, 0.0, 3.0]), [0.0, 0.0, 0.0]),
        (lambda x: ct.max(x), np.array([2.0, 2.0, 1.0]), [0.5, 0.5, 0.0]),
        (lambda x: ct.min(x), np.array([2.0, 2.0, 1.0]), [0.0, 0.0, 1.0]),
        (lambda x: ct.sum(ct.where(x > 0, ct.log(x), 0.0)), np.array([0.0, 2.0]), [0.0, 0.5]),
    ],
)
def test_kinks(f, x, expected):
    (g,) = ct.gradient(f, x)
    np.testing.assert_array_equal(np.zeros_like(x) if g is None else g, expected)


def test_ties_are_shared():
    assert ct.gradient(ct.maximum, 1.0, 1.0) == (0.5, 0.5)
    assert ct.gradient(ct.minimum, 1.0, 1.0) == (0.5, 0.5)


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (lambda x: 1 / (1 + np.exp(-x)), -1000.0),
        (lambda x: 3 / (np.exp(x) - 1) / x**5, 1000.0),
        (lambda x: np.tanh(np.expm1(x)), 1000.0),
        (lambda x: 1 / (1 + np.exp2(x)), 2000.0),
        (lambda x: 1 / (1 + 10.0**x), 500.0),
        (lambda x: 1 / (1 + 0.1**x), -500.0),
        (lambda x: 1 / np.cosh(x), -1000.0),
        (lambda x: 1 / np.cosh(x), 1000.0),
        (lambda x: 1 / np.sinh(x), -1000.0),
    ],
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_what_is_too_large_for_a_number_has_no_influence_behind_a_division(f, x, dtype):
    x = np.array([x, 0.5], dtype)
    (g,) = ct.gradient(lambda x: np.sum(f(x)), x)
    (wanted,) = ct.gradient(lambda x: np.sum(f(x)), x[1:])
    assert g.dtype == dtype
    np.testing.assert_array_equal(g, [0.0, wanted[0]])


def test_second_derivatives_of_what_is_too_large_for_a_number():
    h = ct.hessian(lambda x: np.sum(1 / (1 + np.exp(-x))), np.array([-1000.0, 0.0, 1000.0]))
    np.testing.assert_array_equal(h, np.zeros((3, 3)))
    value, (g,) = ct.value_and_gradient(np.exp, 1000.0)
    assert value == np.inf and g == np.finfo(float).max


def test_powers_of_zero():
    assert ct.gradient(lambda x, y: x**y, 0.0, 2.0) == (0.0, 0.0)
    assert ct.gradient(lambda x, y: x**y, 0.0, 1.0) == (1.0, 0.0)
    assert ct.gradient(lambda x, y: x**y, 0.0, 0.0)[0] == 0.0


# --------------------------------------------------------------------------------------------------
# Errors


@pytest.mark.parametrize(
    ("f", "error", "message"),
    [
        (lambda x: ct.add(x, np.ones(2)), ValueError, r"add.*\(3,\).*\(2,\)"),
        (lambda x: ct.matmul(x, np.ones((2, 2))), ValueError, r"matmul.*\(3,\).*\(2, 2\)"),
        (lambda x: ct.matmul(x, 2.0), ValueError, r"matmul.*\(3,\).*\(\)"),
        (lambda x: ct.reshape(x, (2, 2)), ValueError, r"reshape.*\(3,\).*\(2, 2\)"),
        (lambda x: ct.reshape(x, (-1, -1)), ValueError, "reshape.*unknown"),
        (lambda x: ct.broadcast_to(x, (2,)), ValueError, r"broadcast.*\(3,\).*\(2,\)"),
        (lambda x: ct.transpose(x, (0, 1)), ValueError, r"transpose.*\(3,\)"),
        (lambda x: ct.sum(x, axis=1), ValueError, "sum.*axis 1"),
        (lambda x: ct.sum(x, axis=1.0), TypeError, "sum.*axis.*integer"),
        (lambda x: ct.concatenate([x, np.ones((2, 2))]), ValueError, r"concat.*\(3,\).*\(2, 2\)"),
        (lambda x: ct.concatenate([]), ValueError, "concatenate"),
        (lambda x: ct.gather(x, np.array([0.0])), TypeError, "gather.*int64.*f"),
        (lambda x: ct.sin("a"), TypeError, "sin.*str"),
        (lambda x: ct.sin(None), TypeError, "sin.*NoneType"),
        (lambda x: ct.add(x, object()), TypeError, "add.*object"),
        (lambda x: ct.bitwise_and(x, 1), TypeError, "bitwise_and.*float64"),
        (lambda x: ct.floor(x * 1j), TypeError, "floor.*complex128"),
        (lambda x: ct.max(x[:0]), ValueError, r"max.*no element.*\(0,\)"),
        (lambda x: ct.pad(x, (5,), (0, 0), (1,)), ValueError, "pad"),
        (
            lambda x: ct.scatter(x, np.array([0]), np.ones(2)),
            ValueError,
            r"scatter.*\(2,\).*\(1,\)",
        ),
    ],
)
def test_errors_name_the_operation_and_the_operands(f, error, message):
    with pytest.raises(error, match=message):
        f(ct.array(X))
    with pytest.raises(error, match=message):
        ct.gradient(lambda x: ct.sum(f(x)), X)
    assert not ct.isderiving()


def test_results_that_are_no_real_scalars():
    with pytest.raises(ValueError, match=r"gradient.*\(3,\).*np.sum"):
        ct.gradient(lambda x: x, X)
    with pytest.raises(ValueError, match="complex128"):
        ct.gradient(lambda x: x * 1j, 1.0)
    with pytest.raises(TypeError, match="NoneType"):
        ct.gradient(lambda x: None, 1.0)
    with pytest.raises(TypeError, match="callable"):
        ct.gradient(3, 1.0)
