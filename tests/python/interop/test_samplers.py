"""Samplers of other libraries draw from a posterior that is written in NumPy."""

import numpy as np
import pytest

import cotan as ct

# A line through ten points with known noise: the posterior is normal, with mean and spread from the
# normal equations.
X = np.linspace(-1.0, 1.0, 10)
DESIGN = np.stack([np.ones(10), X], axis=1)
NOISE = 0.5
Y = 0.7 - 1.2 * X + NOISE * np.random.default_rng(0).standard_normal(10)
COVARIANCE = np.linalg.inv(DESIGN.T @ DESIGN / NOISE**2)
MEAN = COVARIANCE @ (DESIGN.T @ Y) / NOISE**2


def log_posterior(p):
    return -0.5 * np.sum(((p[0] + p[1] * X - Y) / NOISE) ** 2)


def expect_posterior(draws, number):
    """Compare with the exact posterior; `number` is that of independent draws, at least."""
    spread = np.sqrt(np.diag(COVARIANCE))
    assert np.all(np.abs(np.mean(draws, axis=0) - MEAN) < 5 * spread / np.sqrt(number))
    assert np.all(np.abs(np.std(draws, axis=0) / spread - 1) < 5 / np.sqrt(2 * number))


def test_emcee_calls_a_prepared_likelihood():
    emcee = pytest.importorskip("emcee", reason="emcee is not installed")
    prepared = ct.prepare(log_posterior, transform="value")
    sampler = emcee.EnsembleSampler(16, 2, prepared)
    sampler.random_state = np.random.RandomState(0).get_state()
    start = np.random.default_rng(1).normal(size=(16, 2))
    sampler.run_mcmc(start, 1000)
    draws = sampler.get_chain(discard=200, thin=10, flat=True)
    expect_posterior(draws, 300)
    assert len(prepared.programs) == 1
    at = sampler.get_log_prob(flat=True)[-1]
    assert at == pytest.approx(log_posterior(sampler.get_chain(flat=True)[-1]), rel=1e-14)


def test_nuts_of_blackjax_draws_from_a_wrapped_posterior():
    blackjax = pytest.importorskip("blackjax", reason="BlackJAX is not installed")
    import jax

    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    try:
        density = ct.jax.wrap(log_posterior)
        nuts = blackjax.nuts(density, step_size=0.3, inverse_mass_matrix=np.diag(COVARIANCE))

        def step(state, key):
            state, _ = nuts.step(key, state)
            return state, state.position

        state = nuts.init(jax.numpy.asarray(MEAN))
        keys = jax.random.split(jax.random.key(0), 500)
        _, draws = jax.jit(lambda s: jax.lax.scan(step, s, keys))(state)
        slope = jax.grad(density)(jax.numpy.asarray(MEAN + 0.1))
    finally:
        jax.config.update("jax_enable_x64", before)
    expect_posterior(np.asarray(draws), 150)
    exact = -np.linalg.solve(COVARIANCE, np.full(2, 0.1))
    np.testing.assert_allclose(slope, exact, rtol=1e-9)
