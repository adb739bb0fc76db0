"""What is subtracted for the sake of range has no influence: no derivative is computed of it."""

import numpy as np
import pytest
from scipy_cases import differences

import cotan as ct

rng = np.random.default_rng(0)
X, W = rng.normal(size=(2, 4, 5))


def rows(f, x, **axes):
    return f(x, axis=1, keepdims=True, **axes)


def softmax(x):
    e = np.exp(x - rows(np.max, x))
    return np.sum(e / rows(np.sum, e) * W)


def logsumexp(x):
    m = x.max(1)
    return np.sum((m + np.log(np.sum(np.exp(x - m[:, None]), 1))) ** 2)


def logsumexp_of_columns(x):
    m = x.max(0)
    return np.sum((m + np.log(np.sum(np.exp(x - m), 0))) ** 2)


def logsumexp_of_all(x):
    m = np.max(x)
    return (m + np.log(np.sum(np.exp(x - m)))) ** 2


def logsumexp_of_one_row(x):
    m = np.max(x[0])
    return m + np.log(np.sum(np.exp(x[0] - m)))


def log_softmax(x):
    z = x - rows(np.max, x)
    return np.sum(W * (z - np.log(rows(np.sum, np.exp(z)))))


def guarded(x):
    m = rows(np.max, x)
    m = np.where(np.isfinite(m), m, 0.0)
    return np.sum((m + np.log(rows(np.sum, np.exp(x - m)))) ** 2)


def masked(x):
    e = np.where(W > 0, np.exp(x - rows(np.max, x)), 0.0)
    return np.sum(W * e / rows(np.sum, e))


def over_the_mean(x):
    e = np.exp(x - rows(np.max, x))
    return np.sum(W * e / rows(np.mean, e))


def from_the_smallest(x):
    e = np.exp(-(x - rows(np.min, x)))
    return np.sum(W * e / rows(np.sum, e))


def over_the_largest(x):
    """Without influence too, but the second search for the largest has some."""
    e = np.exp(x - rows(np.max, x))
    return np.sum(W * np.sqrt(np.square(e) / rows(np.max, e) / e))


WITHOUT = [
    softmax,
    logsumexp,
    logsumexp_of_columns,
    logsumexp_of_all,
    logsumexp_of_one_row,
    log_softmax,
    guarded,
    masked,
    over_the_mean,
    from_the_smallest,
]


def not_divided(x):
    return np.sum(np.exp(x - rows(np.max, x)) * W)


def with_a_small_number(x):
    e = np.exp(x - rows(np.max, x))
    return np.sum(W * e / (rows(np.sum, e) + 0.1))


def over_other_sums(x):
    e = np.exp(x - rows(np.max, x))
    return np.sum(W * e / np.sum(e, axis=0))


def of_columns_and_rows(x):
    """Square, so that rows of shifts broadcast along the wrong axis."""
    y = x[:, :4]
    e = np.exp(y - y.max(1))
    return np.sum(W[:, :4] * e / rows(np.sum, e))


def used_besides(x):
    m = rows(np.max, x)
    e = np.exp(x - m)
    return np.sum(W * e / rows(np.sum, e)) + np.sum(m**2)


def returned_besides(x):
    m = rows(np.max, x)
    e = np.exp(x - m)
    return np.sum(W * e / rows(np.sum, e)), np.sum(e)


def of_something_else(x):
    e = np.exp(2 * x - rows(np.max, x))
    return np.sum(W * np.log(e) + rows(np.sum, e))


WITH = [
    over_the_largest,
    not_divided,
    with_a_small_number,
    over_other_sums,
    of_columns_and_rows,
    used_besides,
    of_something_else,
]


def searches(f):
    """How often the program of the gradient looks for where the largest elements are."""
    prepared = ct.prepare(f, X, transform="value_and_gradient")
    prepared(X)
    return sum(str(p).count(" eq(") for p in prepared.programs)


@pytest.mark.parametrize("f", WITHOUT + WITH, ids=lambda f: f.__name__)
def test_derivatives(f):
    np.testing.assert_allclose(ct.gradient(f, X)[0], differences(f, (X,), 0), rtol=1e-6, atol=1e-7)

    def slope(x):
        return np.sum(ct.gradient(f, x)[0] * W)

    np.testing.assert_allclose(
        ct.gradient(slope, X)[0], differences(slope, (X,), 0, 1e-5), rtol=1e-5, atol=1e-7
    )
    assert searches(f) == (f in WITH)


def test_one_result_of_two():
    """Which of them is differentiated is not known before."""
    value, back = ct.pullback(returned_besides, X)
    for k, cotangents in enumerate([(1.0, 0.0), (0.0, 1.0)]):
        want = differences(lambda x, k=k: returned_besides(x)[k], (X,), 0)
        np.testing.assert_allclose(back(cotangents)[0], want, rtol=1e-6, atol=1e-7)
    assert np.isclose(value[1], returned_besides(X)[1])


def test_what_is_held_constant_behind_the_shift():
    def held(x):
        e = np.exp(x - rows(np.max, x))
        return np.sum(e / ct.dropgrad(rows(np.sum, e)) * W)

    total = rows(np.sum, np.exp(X - rows(np.max, X)))
    want = differences(lambda x: np.sum(np.exp(x - rows(np.max, x)) / total * W), (X,), 0)
    np.testing.assert_allclose(ct.gradient(held, X)[0], want, rtol=1e-6, atol=1e-7)


def test_elements_that_tie_and_infinite_ones():
    x = np.array([[1.0, 1.0, 0.0], [-np.inf, 2.0, 2.0], [3.0, -np.inf, -np.inf]])

    def f(x):
        m = rows(np.max, x)
        return np.sum(m + np.log(rows(np.sum, np.exp(x - m))))

    e = np.exp(x - rows(np.max, x))
    np.testing.assert_allclose(ct.gradient(f, x)[0], e / rows(np.sum, e), rtol=1e-12)
    assert np.isnan(ct.gradient(f, np.array([[np.nan, 1.0]]))[0]).all()


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_real_parts_behind_a_complex_shift():
    """The real part of what is turned is not a multiple of what it was."""

    def f(re, im):
        x = re + 1j * im
        e = np.exp(x - np.max(x)).real
        return np.sum(W * e / np.sum(e))

    def cast(z):
        e = np.exp(z - np.max(z)).astype(float)
        return np.sum(W * e / np.sum(e))

    g = ct.gradient(cast, X + 1j * W)[0]
    np.testing.assert_allclose(g.real, differences(lambda re: f(re, W), (X,), 0), atol=1e-7)
    np.testing.assert_allclose(g.imag, differences(lambda im: f(X, im), (W,), 0), atol=1e-7)


def test_what_has_influence_by_a_shift_only_keeps_its_gradient():
    """It is zero, or the rounding of zero, as where nobody chooses."""

    def f(x, shift):
        m = np.where(W[:, :1] > 0, shift, rows(np.max, x))
        e = np.exp(x - m)
        return np.sum(W * e / rows(np.sum, e))

    g = ct.gradient(f, X, np.zeros((4, 1)))[1]
    assert g is not None
    np.testing.assert_allclose(g, np.zeros((4, 1)), atol=1e-12)
