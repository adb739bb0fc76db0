"""Random numbers from keys: bits, distributions, derivatives, mapped and prepared draws."""

import copy
import pickle

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

import cotan as ct
from cotan import random as cr

KEY = cr.key(7)
SEEDS = st.integers(0, 2**128 - 1)
# Continuous distributions without further arguments, and the same of SciPy's.
STANDARD = {
    "uniform": scipy.stats.uniform,
    "normal": scipy.stats.norm,
    "exponential": scipy.stats.expon,
    "gumbel": scipy.stats.gumbel_r,
    "laplace": scipy.stats.laplace,
    "logistic": scipy.stats.logistic,
}
# A draw of every kind, as a function of a key.
DRAWS = {
    **{name: (lambda key, name=name: getattr(cr, name)(key, (3, 2))) for name in STANDARD},
    "float32": lambda key: cr.normal(key, 5, np.float32),
    "truncated_normal": lambda key: cr.truncated_normal(key, -1.0, 2.0, (4,)),
    "multivariate_normal": lambda key: cr.multivariate_normal(key, np.ones(2), 2 * np.eye(2), 3),
    "bernoulli": lambda key: cr.bernoulli(key, 0.3, (7,)),
    "randint": lambda key: cr.randint(key, (6,), -5, 1000),
    "permutation": lambda key: cr.permutation(key, np.arange(6.0)),
    "choice": lambda key: cr.choice(key, np.arange(6.0), (2, 2)),
    "choice with p": lambda key: cr.choice(key, 3, (4,), p=np.array([0.2, 0.5, 0.3])),
    "choice without replacement": lambda key: cr.choice(key, 9, (4,), replace=False),
    "categorical": lambda key: cr.categorical(key, np.log([0.2, 0.8]), shape=(5,)),
    "split": lambda key: cr.normal(cr.split(key, 3)[1], 2),
    "fold_in": lambda key: cr.normal(cr.fold_in(key, 7), 2),
}


@pytest.mark.parametrize("name", DRAWS)
def test_a_mapped_key_draws_what_a_loop_draws(name):
    keys = cr.split(KEY, 3)
    mapped = ct.vmap(DRAWS[name])(keys)
    np.testing.assert_array_equal(mapped, np.stack([DRAWS[name](key) for key in keys]))


@pytest.mark.parametrize("name", DRAWS)
def test_a_prepared_function_draws_from_the_key_that_it_gets(name):
    prepared = ct.prepare(DRAWS[name], transform="value")
    for key in cr.split(KEY, 3):
        np.testing.assert_array_equal(prepared(key), DRAWS[name](key))
    assert prepared.num_recordings == 1


@pytest.mark.parametrize("name", DRAWS)
def test_a_traced_function_draws_what_it_draws_by_itself(name):
    program = ct.trace(DRAWS[name], KEY)
    np.testing.assert_array_equal(program(KEY.words), DRAWS[name](KEY))


def test_a_prepared_function_repeats_what_a_key_gives_that_it_closes_over():
    prepared = ct.prepare(lambda x: np.sum(x * cr.normal(KEY, 3)))
    for _ in range(2):
        np.testing.assert_array_equal(prepared(np.ones(3))[0], cr.normal(KEY, 3))


@settings(max_examples=30, deadline=None)
@given(SEEDS, st.integers(0, 40))
def test_the_words_are_those_of_numpy(seed, count):
    drawn = cr.randint(cr.key(seed), (count,), 0, 2**64, np.uint64)
    halves = np.array([seed & (2**64 - 1), seed >> 64], np.uint64)
    np.testing.assert_array_equal(drawn, np.random.Philox(key=halves).random_raw(count))


@settings(max_examples=30, deadline=None)
@given(SEEDS, st.integers(0, 2**63 - 1))
def test_an_integer_is_folded_into_a_key_alike_where_it_has_a_value_and_where_not(seed, data):
    key = cr.key(seed)
    wanted = cr.fold_in(key, data)
    (mapped,) = ct.vmap(lambda i: cr.fold_in(key, i))(np.array([data]))
    assert mapped == wanted == cr.fold_in(key, np.int64(data))


def test_no_two_keys_of_a_tree_are_equal():
    parts = [KEY, *cr.split(KEY, 5), *cr.split(KEY, 6)[5:]]
    parts += [cr.fold_in(KEY, i) for i in range(5)]
    parts += [key for part in parts[:3] for key in cr.split(part)]
    # The first keys of a split do not depend on how many there are.
    assert len(set(parts)) == len(parts) - 2
    assert cr.split(KEY, 5)[0] == cr.split(KEY)[0]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("name", STANDARD)
def test_distributions(name, dtype):
    drawn = getattr(cr, name)(KEY, (20000,), dtype)
    assert drawn.dtype == dtype
    assert np.all(np.isfinite(drawn))
    assert scipy.stats.kstest(drawn.astype(float), STANDARD[name].cdf).pvalue > 0.001


def test_distribution_of_a_truncated_normal():
    drawn = cr.truncated_normal(KEY, -0.5, 3.0, (20000,))
    assert scipy.stats.kstest(drawn, scipy.stats.truncnorm(-0.5, 3.0).cdf).pvalue > 0.001
    assert drawn.min() >= -0.5 and drawn.max() <= 3.0


def test_distribution_of_a_multivariate_normal():
    cov = np.array([[2.0, 0.5], [0.5, 1.0]])
    drawn = cr.multivariate_normal(KEY, np.array([1.0, -1.0]), cov, 20000)
    np.testing.assert_allclose(drawn.mean(axis=0), [1.0, -1.0], atol=0.05)
    np.testing.assert_allclose(np.cov(drawn.T), cov, atol=0.08)


P = np.array([0.1, 0.2, 0.3, 0.4])


@pytest.mark.parametrize(
    ("draw", "chances"),
    [
        (lambda: cr.randint(KEY, 20000, 5, 9) - 5, np.full(4, 0.25)),
        (lambda: cr.choice(KEY, 4, 20000), np.full(4, 0.25)),
        (lambda: cr.choice(KEY, 4, 20000, p=3 * P), P),
        (lambda: cr.categorical(KEY, np.log(P) + 5, shape=(20000,)), P),
        (lambda: cr.bernoulli(KEY, 0.3, (20000,)).astype(int), np.array([0.7, 0.3])),
        (
            lambda: [cr.choice(k, 4, 2, replace=False, p=P)[0] for k in cr.split(KEY, 3000)],
            P,
        ),
        (lambda: [cr.permutation(k, 4)[2] for k in cr.split(KEY, 3000)], np.full(4, 0.25)),
    ],
)
def test_frequencies(draw, chances):
    counts = np.bincount(draw(), minlength=len(chances))
    assert scipy.stats.chisquare(counts, chances * counts.sum()).pvalue > 0.001


def test_without_replacement_nothing_is_drawn_twice():
    assert sorted(cr.choice(KEY, 8, 8, replace=False)) == list(range(8))
    assert sorted(cr.permutation(KEY, 8)) == list(range(8))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64, np.uint64])
def test_integers_of_the_whole_range(dtype):
    info = np.iinfo(dtype)
    drawn = cr.randint(KEY, 1000, info.min, info.max + 1, dtype)
    assert drawn.dtype == dtype
    middle = (int(info.min) + int(info.max)) / 2
    assert 400 < np.sum(drawn < middle) < 600


def test_permutation_and_choice_along_an_axis():
    x = np.arange(12.0).reshape(3, 4)
    moved = cr.permutation(KEY, x, axis=1)
    np.testing.assert_array_equal(np.sort(moved, 1), x)
    np.testing.assert_array_equal(moved, x[:, cr.permutation(KEY, 4)])
    assert cr.choice(KEY, x, (2, 5), axis=1).shape == (3, 2, 5)


@pytest.mark.parametrize("name", ["normal", "gumbel", "laplace", "logistic"])
def test_derivatives_of_location_and_scale(name):
    draw = getattr(cr, name)
    standard = draw(KEY, 3)
    loc, scale = np.array([1.0, 2.0, 3.0]), np.float64(0.5)
    drawn = draw(KEY, 3, loc=loc, scale=scale)
    np.testing.assert_allclose(drawn, loc + scale * standard)
    d_loc, d_scale = ct.gradient(
        lambda loc, scale: np.sum(draw(KEY, 3, loc=loc, scale=scale) ** 2), loc, scale
    )
    np.testing.assert_allclose(d_loc, 2 * drawn)
    np.testing.assert_allclose(d_scale, np.sum(2 * drawn * standard))


def test_derivatives_of_other_parameters():
    low, high = ct.gradient(lambda a, b: cr.uniform(KEY, minval=a, maxval=b), -1.0, 2.0)
    unit = cr.uniform(KEY)
    np.testing.assert_allclose((low, high), (1 - unit, unit))
    draw = lambda a, b: cr.truncated_normal(KEY, a, b)
    for i, slope in enumerate(ct.gradient(draw, -0.5, 1.5)):
        bounds, step = np.array([-0.5, 1.5]), 1e-6 * np.eye(2)[i]
        difference = draw(*(bounds + step)) - draw(*(bounds - step))
        np.testing.assert_allclose(slope, difference / 2e-6, rtol=1e-7)
    cov = np.array([[2.0, 0.5], [0.5, 1.0]])
    (d_cov,) = ct.gradient(lambda c: np.sum(cr.multivariate_normal(KEY, np.zeros(2), c) ** 2), cov)
    standard = cr.normal(KEY, 2)
    # Along the identity: the norm of L z for the factor of cov + t.
    moved = [
        np.sum((np.linalg.cholesky(cov + t * np.eye(2)) @ standard) ** 2) for t in (-1e-6, 1e-6)
    ]
    np.testing.assert_allclose(np.trace(d_cov), (moved[1] - moved[0]) / 2e-6, rtol=1e-6)


def test_elements_that_are_drawn_get_the_gradient():
    x = np.arange(4.0)
    (gradient,) = ct.gradient(lambda x: np.sum(cr.choice(KEY, x, 6)), x)
    np.testing.assert_array_equal(gradient, np.bincount(cr.choice(KEY, 4, 6), minlength=4))
    (gradient,) = ct.gradient(lambda x: np.sum(cr.permutation(KEY, x) * x), x)
    order = cr.permutation(KEY, 4)
    np.testing.assert_array_equal(gradient, x[order] + x[np.argsort(order)])


def test_a_key_as_an_argument_of_what_is_differentiated():
    value, (gradient, none) = ct.value_and_gradient(
        lambda x, key: np.sum(x * cr.normal(key, 3)), np.ones(3), KEY
    )
    np.testing.assert_array_equal(gradient, cr.normal(KEY, 3))
    assert not ct.trainable_leaves({"key": KEY})
    del value, none


def test_a_prepared_function_folds_in_the_number_of_a_step():
    draw = lambda step: cr.normal(cr.fold_in(KEY, step), 2)
    prepared = ct.prepare(draw, transform="value")
    for step in range(3):
        np.testing.assert_array_equal(prepared(np.asarray(step)), draw(step))
    assert prepared.num_recordings == 1
    with pytest.raises(TypeError, match=r"counts as a float there: pass np\.asarray"):
        prepared(3)


def test_draws_are_the_same_on_any_number_of_threads():
    before = ct.num_threads()
    drawn = []
    try:
        for threads in (1, 2):
            ct.set_num_threads(threads)
            drawn.append(cr.normal(KEY, 300_000))
    finally:
        ct.set_num_threads(before)
    np.testing.assert_array_equal(*drawn)


def test_keys_are_values():
    keys = cr.split(KEY, 4)
    assert keys.shape == (4,) and len(keys) == 4
    assert keys[1] == list(keys)[1] != keys[2]
    assert keys[1:3].shape == (2,)
    for made in (pickle.loads(pickle.dumps(keys)), copy.deepcopy(keys)):
        assert made == keys and hash(made) == hash(keys)
    assert repr(cr.key(1)) == "Key(0x0000000000000001, 0x0000000000000000)"
    assert repr(keys) == "Key(shape=(4,))"
    assert cr.split(KEY, 0).shape == (0,)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: cr.normal(0), TypeError, r"normal: the first argument must be a key, not int"),
        (lambda: cr.normal(cr.split(KEY)), ValueError, r"normal: one key .* shape \(2,\)"),
        (lambda: cr.key(-1), ValueError, "key: the seed must be a non-negative integer"),
        (lambda: cr.key(1.5), TypeError, "integer"),
        (lambda: cr.fold_in(KEY, -1), ValueError, "fold_in: data must be a non-negative"),
        (lambda: cr.fold_in(KEY, ct.array([1, 2])), TypeError, r"fold_in: .* not int64\(2,\)"),
        (lambda: cr.uniform(KEY, dtype=int), TypeError, "uniform: dtype must be float16"),
        (lambda: cr.normal(KEY, 2, loc=np.ones(3)), ValueError, r"loc of shape \(3,\) .*\(2,\)"),
        (lambda: cr.truncated_normal(KEY, 9, 10), ValueError, "probability"),
        (lambda: cr.truncated_normal(KEY, 1, 0), ValueError, "lower must be less"),
        (lambda: cr.randint(KEY, 2, 3, 3), ValueError, "no integer from 3 to less than 3"),
        (lambda: cr.randint(KEY, 2, 0, 300, np.uint8), ValueError, "uint8 does not hold"),
        (lambda: cr.randint(KEY, 2, 0, 3, float), TypeError, "dtype must be one of integers"),
        (lambda: cr.choice(KEY, 3, 4, replace=False), ValueError, "4 elements .* from 3 without"),
        (lambda: cr.choice(KEY, 3, 4, p=np.ones(2)), ValueError, r"p must have shape \(3,\)"),
        (lambda: cr.permutation(KEY, np.ones(3), 1), ValueError, "has no axis 1"),
        (lambda: cr.categorical(KEY, np.ones((2, 3)), shape=(3,)), ValueError, "broadcast"),
        (lambda: KEY[0], TypeError, "a single key cannot be indexed"),
        (lambda: len(KEY), TypeError, "a single key has no len"),
        (lambda: cr.Key(np.ones(2)), TypeError, "words must have dtype uint64"),
        (lambda: cr.split(KEY, -1), ValueError, "num must not be negative"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()
