"""Random numbers of lifted programs: draws that are followed, shuffles, what is refused."""

# ruff: noqa: NPY002 - as programs have it

import numpy as np
import pytest
from override_cases import MATRIX, PLAIN, slope_is_right

import cotan as ct

LEGACY = {
    "normal": lambda r, x: r.normal(x, x * x, 3),
    "lognormal": lambda r, x: r.lognormal(x, 0.2, (2, 2)),
    "uniform": lambda r, x: r.uniform(-x, high=2 * x, size=2),
    "exponential": lambda r, x: r.exponential(np.array([x, 1.0])),
    "laplace": lambda r, x: r.laplace(x, 1.0, 2),
    "logistic": lambda r, x: r.logistic(1.0, x, 2),
    "gumbel": lambda r, x: r.gumbel(x, x),
    "rayleigh": lambda r, x: r.rayleigh(x, 2),
    "weibull": lambda r, x: r.weibull(x, 2),
    "pareto": lambda r, x: r.pareto(x, 2),
    "gamma": lambda r, x: r.gamma(2.5, x, 3),
    "mean": lambda r, x: r.multivariate_normal([x, 1.0], MATRIX @ MATRIX.T, 2),
    "choice": lambda r, x: r.choice(x * np.arange(5.0), 3),
    "permutation": lambda r, x: r.permutation(x * np.arange(8.0).reshape(4, 2))[:2],
    "poisson": lambda r, x: x * r.poisson(5 * x, 2),
    "draws": lambda r, x: x * r.standard_normal(3),
}


@pytest.mark.parametrize("name", LEGACY)
@pytest.mark.parametrize("make", ["new", "legacy", "shared"])
def test_random_numbers(name, make):
    def f(x):
        if make == "shared":
            np.random.seed(3)
            rng = np.random
        else:
            rng = np.random.default_rng(3) if make == "new" else np.random.RandomState(3)
            assert isinstance(rng, (np.random.Generator, np.random.RandomState))
        drawn = LEGACY[name](rng, x)
        return np.sum(drawn * np.cos(np.arange(np.size(drawn)).reshape(np.shape(drawn))))

    slope_is_right(f)


@pytest.mark.parametrize(
    "draw",
    [
        lambda r, x: r.exponential(x),
        lambda r, x: r.normal(1.0, x),
        lambda r, x: r.weibull(x),
        lambda r, x: r.choice(x, 2),
    ],
)
@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
def test_generators_of_a_prepared_function_take_traced_scales(make, draw):
    def f(x):
        return np.sum(draw(make(5), x) ** 2)

    x = np.array([0.5, 1.5, 2.0])
    prepared = ct.prepare(f, x)
    for factor in (1.0, 2.0):
        np.testing.assert_array_equal(prepared(factor * x)[0], ct.gradient(f, factor * x)[0])
    assert prepared.num_recordings == 1


def test_a_replay_refuses_a_negative_scale():
    prepared = ct.prepare(lambda x: np.random.default_rng(5).normal(0.0, x), 1.0)
    with pytest.raises(ValueError, match="scale < 0"):
        prepared(-1.0)


@pytest.mark.parametrize("make", ["new", "legacy"])
def test_a_traced_covariance(make):
    def f(x):
        rng = np.random.default_rng(3) if make == "new" else np.random.RandomState(3)
        drawn = rng.multivariate_normal(x * PLAIN, np.diag([x, 2.0]) + 0.1, 4)
        return np.sum(drawn * np.arange(8.0).reshape(4, 2))

    slope_is_right(f, tolerance=1e-5)


@pytest.mark.filterwarnings("ignore:you are shuffling")
def test_generators_that_were_made_before_shuffle_rows():
    for rng in (np.random.default_rng(0), np.random.RandomState(0)):

        def f(x, rng=rng):
            made = x * np.ones((5, 3))
            rng.shuffle(made)
            return np.sum(made)

        with pytest.raises(TypeError, match=r"shuffle: .*x\[rng.permutation\(len\(x\)\)\]"):
            ct.gradient(f, 2.0)

        def g(x, rng=rng):
            made, items, line = x * np.ones((5, 3)), [1.0, x], x * np.arange(4.0)
            rng.shuffle(items), rng.shuffle(line), rng.shuffle(np.arange(len(made)))
            return np.sum(made[rng.permutation(len(made))]) + np.sum(line) + sum(items)

        assert ct.gradient(g, 2.0) == (22.0,)


@pytest.mark.parametrize("shape", [(6,), (5, 3)])
@pytest.mark.parametrize("how", ["shared", "generator", "constant"])
def test_shuffle(shape, how):
    weight = np.arange(np.prod(shape)).reshape(shape) ** 2

    def f(x):
        if how == "constant":
            made = np.zeros(shape) + weight
            np.random.default_rng(1).shuffle(made)
            return x * np.sum(made * weight)
        made = x * np.sqrt(np.arange(1.0, np.prod(shape) + 1)).reshape(shape)
        if how == "shared":
            np.random.seed(1)
            np.random.shuffle(made)
        else:
            np.random.default_rng(1).shuffle(made)
        return np.sum(made * weight)

    if how == "constant":
        # Made outside, the array is an ndarray; the draws have to be the same.
        assert ct.value_and_gradient(f, 0.7)[0] == pytest.approx(f(0.7))
    else:
        slope_is_right(f)


def test_draws_that_have_no_derivative_are_refused_by_name():
    with pytest.raises(TypeError, match=r"numpy\.random\.beta has no derivative rule"):
        ct.gradient(lambda x: np.random.default_rng(0).beta(x, 1.0), 0.5)
    with pytest.raises(ValueError, match="scale < 0"):
        ct.gradient(lambda x: np.random.default_rng(0).normal(0.0, -x), 0.5)
    rng = np.random.default_rng(0)
    with pytest.raises(TypeError, match=r"make that in the function, or write loc \+ scale"):
        ct.gradient(lambda x: rng.normal(x, 1.0), 0.5)


def test_generators_write_into_arrays_that_were_made():
    def f(x):
        made = np.empty(3)
        np.random.default_rng(0).random(out=made)
        return x * np.sum(made)

    slope_is_right(f)


def test_draws_that_are_written_into_an_array_that_was_made():
    def f(x):
        rng, drawn, order = np.random.default_rng(3), np.zeros(4), np.zeros(6)
        assert rng.standard_gamma(2.0, out=drawn) is drawn
        rng.permuted(np.arange(6.0), out=order)
        rng.permuted(order, out=order)
        return x * np.sum(drawn) + x * np.sum(order * np.arange(6.0))

    assert ct.value_and_gradient(f, 2.0) == (pytest.approx(f(2.0)), (pytest.approx(f(1.0)),))


@pytest.mark.parametrize(
    "cov",
    [
        lambda q: q * np.eye(3),
        lambda q: [[q, 0.0, 0.0], [0.0, q, 0.0], [0.0, 0.0, 2 * q]],
        lambda q: np.array([[q, 0.0, 0.0], [0.0, 2 * q, 0.1 * q], [0.0, 0.1 * q, 1.0]]),
        lambda q: np.diag([q, 3.0, 3.0 * q]) + 0.1 * np.ones((3, 3)),
    ],
)
def test_draws_of_vectors_whose_variances_may_be_equal(cov):
    def old(q):
        np.random.seed(3)
        drawn = np.random.multivariate_normal([0.0, q, 2.0], cov(q), 4)
        return np.sum(drawn * np.arange(12.0).reshape(4, 3))

    def new(q):
        drawn = np.random.default_rng(3).multivariate_normal(np.array([0.0, q, 2.0]), cov(q))
        return np.sum(drawn * np.arange(3.0))

    for f in (old, new):
        slope_is_right(f, 1.3)


def test_draws_of_vectors_that_do_not_vary_in_all_directions():
    # The covariance of white noise, of rank 1: nothing is drawn beside its direction.
    g = np.array([[0.5], [1.0], [0.2]])
    z = np.random.default_rng(3).standard_normal(3)[0]

    def f(q):
        drawn = np.random.default_rng(3).multivariate_normal(np.zeros(3), q * (g @ g.T))
        return drawn[0] / 0.5

    value, (slope,) = ct.value_and_gradient(f, 1.3)
    assert value == pytest.approx(f(1.3), rel=1e-12)
    assert abs(value) == pytest.approx(np.sqrt(1.3) * abs(z), rel=1e-6)
    assert slope == pytest.approx(value / (2 * 1.3), rel=1e-6)


SIZED = {
    "normal": lambda rng, n, shape: rng.normal(size=n),
    "normal of a shape": lambda rng, n, shape: rng.normal(1.0, 2.0, shape),
    "lognormal": lambda rng, n, shape: rng.lognormal(0.0, 1.0, (n, shape[0])),
    "uniform": lambda rng, n, shape: rng.uniform(0.0, 1.0, shape),
    "exponential": lambda rng, n, shape: rng.exponential(1.0, n),
    "gamma": lambda rng, n, shape: rng.gamma(2.0, 1.0, shape),
    "weibull": lambda rng, n, shape: rng.weibull(2.0, n),
    "standard_normal": lambda rng, n, shape: rng.standard_normal(size=n),
    "multivariate_normal": lambda rng, n, shape: rng.multivariate_normal([0, 1], np.eye(2), n),
    "permutation": lambda rng, n, shape: rng.permutation(n),
    "choice": lambda rng, n, shape: rng.choice(np.arange(9.0), shape),
}


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
@pytest.mark.parametrize("name", SIZED)
def test_a_size_may_be_computed(name, make):
    def drawn():
        sizes = np.linspace(2, 3, 2).astype(int)
        return np.array(SIZED[name](make(0), sizes[1], sizes))

    seen = []

    def recorded(x):
        seen.append(drawn())
        return x

    ct.gradient(recorded, 1.0)
    np.testing.assert_allclose(seen[0], drawn(), rtol=1e-15)


def test_functions_of_the_shared_generator_take_a_computed_size():
    def drawn(x):
        np.random.seed(0)
        return np.sum(np.random.normal(size=np.linspace(2, 3, 2).astype(int)) * x)

    value = drawn(1.0)
    assert ct.gradient(drawn, 1.0) == pytest.approx(value)
