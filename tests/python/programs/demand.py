"""Econometrics: demand with random coefficients: shares, contraction, instruments, elasticities."""

import numpy as np

MARKETS, PRODUCTS, DRAWS = 3, 4, 25


def make_data(seed=20):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(MARKETS, PRODUCTS))
    cost = rng.uniform(0.5, 1.5, size=(MARKETS, PRODUCTS))
    price = 1 + cost + 0.2 * rng.normal(size=cost.shape)
    shares = rng.dirichlet(np.r_[np.ones(PRODUCTS) * 4, 8.0], size=MARKETS)[:, :-1]
    nu = rng.normal(size=(DRAWS, 2))
    return x, price, cost, shares, nu


def choice_probabilities(delta, x, price, sigma, nu):
    """(draws, products) of one market; the outside good has utility 0."""
    mu = sigma[0] * nu[:, :1] * x + sigma[1] * nu[:, 1:] * price
    utility = delta + mu
    top = np.maximum(utility.max(axis=1, keepdims=True), 0)
    e = np.exp(utility - top)
    return e / (np.exp(-top) + e.sum(axis=1, keepdims=True))


def invert_shares(shares, x, price, sigma, nu, tolerance=1e-12):
    """The contraction of Berry, Levinsohn and Pakes."""
    delta = np.log(shares) - np.log(1 - shares.sum())
    for iteration in range(400):
        predicted = choice_probabilities(delta, x, price, sigma, nu).mean(axis=0)
        change = np.log(shares) - np.log(predicted)
        delta = delta + change
        if np.abs(change).max() < tolerance:
            break
    return delta


def two_stage_least_squares(y, X, Z):
    ZX, ZZ = Z.T @ X, Z.T @ Z
    projected = ZX.T @ np.linalg.solve(ZZ, ZX)
    beta = np.linalg.solve(projected, ZX.T @ np.linalg.solve(ZZ, Z.T @ y))
    return beta, y - X @ beta


def elasticities(probabilities, price, shares, alpha):
    """(products, products): of the share of i with respect to the price of j."""
    jacobian = -np.einsum("ri,rj,r->ij", probabilities, probabilities, alpha) / len(alpha)
    jacobian[np.diag_indices(len(price))] += (alpha[:, None] * probabilities).mean(axis=0)
    return jacobian * price[None, :] / shares[:, None]


def main(sigma):
    x, price, cost, shares, nu = make_data()
    delta = np.array([invert_shares(s, a, p, sigma, nu) for s, a, p in zip(shares, x, price)])
    X = np.column_stack((np.ones(x.size), x.ravel(), price.ravel()))
    Z = np.column_stack((np.ones(x.size), x.ravel(), cost.ravel(), cost.ravel() ** 2))
    beta, xi = two_stage_least_squares(delta.reshape(-1), X, Z)
    moments = Z.T @ xi / len(xi)
    probabilities = choice_probabilities(delta[0], x[0], price[0], sigma, nu)
    own = np.diag(elasticities(probabilities, price[0], shares[0], beta[2] + sigma[1] * nu[:, 1]))
    return 100 * moments @ moments + 0.1 * np.mean(own)


ARGUMENTS = (np.array([0.6, 0.4]),)


def check():
    x, price, _, shares, nu = make_data()
    delta = invert_shares(shares[0], x[0], price[0], np.array([0.6, 0.4]), nu)
    again = choice_probabilities(delta, x[0], price[0], np.array([0.6, 0.4]), nu).mean(axis=0)
    np.testing.assert_allclose(again, shares[0], atol=1e-10)
    plain = invert_shares(shares[0], x[0], price[0], np.zeros(2), nu)
    np.testing.assert_allclose(plain, np.log(shares[0] / (1 - shares[0].sum())), atol=1e-12)
