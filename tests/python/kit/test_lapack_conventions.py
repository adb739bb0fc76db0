"""Signs, phases and orders of decompositions are those that NumPy and SciPy give."""

import numpy as np
import pytest

import cotan as ct
from cotan._src.kit import lapack_conventions

scipy_linalg = pytest.importorskip("scipy.linalg")


def square(rng, n, kind):
    x = rng.normal(size=(n, n))
    return x if kind == "real" else x + 1j * rng.normal(size=(n, n))


def hermitian(rng, n, kind):
    x = square(rng, n, kind)
    return x + x.conj().T


def parts(result):
    return list(result) if isinstance(result, tuple) else [result]


def seen(f, x):
    """Give what a function gives while its argument is differentiated."""
    found = []

    def g(x):
        found.extend(parts(f(x)))
        return 0.0 * np.sum(np.abs(x))

    ct.gradient(g, x)
    return [np.asarray(ct.dropgrad(part)) for part in found]


FUNCTIONS = {
    "eigh": (hermitian, np.linalg.eigh),
    "eigh of the upper triangle": (hermitian, lambda x: np.linalg.eigh(x, "U")),
    "scipy eigh": (hermitian, lambda x: scipy_linalg.eigh(x)),
    "scipy eigh of the upper triangle": (hermitian, lambda x: scipy_linalg.eigh(x, lower=False)),
    "scipy eigh of some": (hermitian, lambda x: scipy_linalg.eigh(x, subset_by_index=[1, 2])),
    "scipy eigh of two": (
        hermitian,
        lambda x: scipy_linalg.eigh(x, np.diag(np.arange(1.0, 1 + len(x)))),
    ),
    "eig": (square, np.linalg.eig),
    "eig of a Hermitian matrix": (hermitian, np.linalg.eig),
    "eigvals": (square, np.linalg.eigvals),
    "scipy eig": (square, lambda x: scipy_linalg.eig(x)),
    "scipy eigvals": (square, lambda x: scipy_linalg.eigvals(x)),
    "svd": (square, np.linalg.svd),
    "svd of a tall matrix": (square, lambda x: np.linalg.svd(x[:, :3], full_matrices=False)),
    "svd of a wide matrix": (square, lambda x: np.linalg.svd(x[:2], full_matrices=False)),
    "full svd of a tall matrix": (square, lambda x: np.linalg.svd(x[:, :3])),
    "full svd of a wide matrix": (square, lambda x: np.linalg.svd(x[:2])),
    "svd of a Hermitian matrix": (hermitian, lambda x: np.linalg.svd(x, hermitian=True)),
    "scipy svd": (square, lambda x: scipy_linalg.svd(x)),
    "qr": (square, np.linalg.qr),
    "complete qr": (square, lambda x: np.linalg.qr(x[:, :3], "complete")),
    "r": (square, lambda x: np.linalg.qr(x, "r")),
    "scipy qr": (square, lambda x: scipy_linalg.qr(x)),
}


@pytest.mark.parametrize("kind", ["real", "complex"])
@pytest.mark.parametrize("n", [4, 7, 31])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_are_those_of_the_original(name, n, kind, rng):
    make, f = FUNCTIONS[name]
    for _ in range(4):
        x = make(rng, n, kind)
        for ours, theirs in zip(seen(f, x), parts(f(x)), strict=True):
            assert ours.dtype == theirs.dtype
            np.testing.assert_allclose(ours, theirs, atol=1e-9)


def test_batches_choose_for_each_matrix(rng):
    x = rng.normal(size=(2, 5, 6, 4))
    for f in (
        np.linalg.svd,
        lambda x: np.linalg.eigh(x[..., :4, :]),
        lambda x: np.linalg.eig(x[..., :4, :]),
    ):
        for ours, theirs in zip(seen(f, x), parts(f(x)), strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-9)


@pytest.mark.parametrize("values", [[1.0, 1.0, 1.0], [2.0, 1.0, 2.0], [0.0, 0.0, 3.0]])
def test_vectors_of_equal_values(values, rng):
    q = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    turned = q @ np.diag(values) @ q.T
    for x in (np.diag(values), (turned + turned.T) / 2):
        for f in (np.linalg.eigh, np.linalg.svd):
            for ours, theirs in zip(seen(f, x), parts(f(x)), strict=True):
                np.testing.assert_allclose(ours, theirs, atol=1e-7)


WEIGHTS = np.cos(np.arange(16.0)).reshape(4, 4)
# SciPy's own driver for `eigh` gives other signs to matrices that are near.
LOSSES = {
    "eigh": lambda x: np.linalg.eigh(x + x.conj().T)[1],
    "eigh of the upper triangle": lambda x: np.linalg.eigh(x + x.conj().T, UPLO="U")[1],
    "left singular vectors": lambda x: np.linalg.svd(x)[0],
    "right singular vectors": lambda x: np.linalg.svd(x)[2],
    "of a wide matrix": lambda x: np.linalg.svd(x[:3], full_matrices=False)[2],
    "q": lambda x: np.linalg.qr(x)[0],
    "r": lambda x: np.linalg.qr(x)[1],
    "eig": lambda x: np.linalg.eig(x)[1],
    "eigvals": lambda x: np.linalg.eigvals(x),
}


@pytest.mark.parametrize("kind", ["real", "complex"])
@pytest.mark.parametrize(
    ("m", "n", "rank"), [(4, 3, 2), (6, 4, 2), (3, 6, 2), (5, 5, 3), (8, 3, 1), (3, 8, 1)]
)
def test_factors_of_matrices_that_lack_rank_belong_together(m, n, rank, kind, rng):
    """The vectors of values that vanish are free, and leave the others as they were chosen."""
    x = square(rng, 8, kind)[:m, :rank] @ square(rng, 8, kind)[:rank, :n]
    x = np.stack([x, square(rng, 8, kind)[:m, :n]])
    k = min(m, n)
    for svd in (np.linalg.svd, lambda x: np.linalg.svd(x, full_matrices=False)):
        u, s, vh = seen(svd, x)
        np.testing.assert_allclose((u[..., :k] * s[:, None]) @ vh[:, :k], x, atol=1e-12)
        chosen = svd(x)
        np.testing.assert_allclose(u[0, :, :rank], chosen[0][0, :, :rank], atol=1e-9)
        np.testing.assert_allclose(vh[0, :rank], chosen[2][0, :rank], atol=1e-9)
    for full in (True, False):
        u, s, vh = seen(lambda x, full=full: scipy_linalg.svd(x, full_matrices=full), x[0])
        np.testing.assert_allclose((u[:, :k] * s) @ vh[:k], x[0], atol=1e-12)


def test_groups_of_equal_values_are_turned_apart(rng):
    """A pair of equal values, and a value that vanishes."""
    q, r = (np.linalg.qr(rng.normal(size=(n, n)))[0] for n in (5, 4))
    x = (q[:, :4] * [3.0, 2.0, 2.0, 0.0]) @ r
    for svd in (np.linalg.svd, lambda x: np.linalg.svd(x, full_matrices=False)):
        u, s, vh = seen(svd, x)
        np.testing.assert_allclose((u[:, :4] * s) @ vh, x, atol=1e-12)
        np.testing.assert_allclose(u[:, :3], svd(x)[0][:, :3], atol=1e-9)
        np.testing.assert_allclose(vh[:3], svd(x)[2][:3], atol=1e-9)


def test_gradients_of_components_of_centred_data(rng):
    x, step = rng.normal(size=(2, 4, 6))
    weights = rng.normal(size=4)

    def f(x):
        u, s, vh = np.linalg.svd(x - x.mean(0), full_matrices=False)
        return np.sum(weights * (u[:, :2] @ (s[:2] * vh[:2, 0])))

    value, (gradient,) = ct.value_and_gradient(f, x)
    h = 1e-6
    np.testing.assert_allclose(value, f(x), rtol=1e-12)
    slope = (f(x + h * step) - f(x - h * step)) / (2 * h)
    np.testing.assert_allclose(np.sum(gradient * step), slope, rtol=1e-6)


@pytest.mark.parametrize("kind", ["real", "complex"])
@pytest.mark.parametrize("name", LOSSES)
def test_gradients_of_what_depends_on_the_choice(name, kind, rng):
    x, direction = square(rng, 4, kind), square(rng, 4, kind)

    def loss(x):
        y = LOSSES[name](x)
        weights = WEIGHTS.ravel()[: y.size].reshape(y.shape)
        return np.sum(np.real(y) * weights) + np.sum(np.imag(y) * weights[::-1])

    value, (slope,) = ct.value_and_gradient(loss, x)
    assert value == pytest.approx(loss(x))
    h = 1e-6
    quotient = (loss(x + h * direction) - loss(x - h * direction)) / (2 * h)
    assert np.sum(np.real(np.conj(slope) * direction)) == pytest.approx(
        quotient, rel=1e-5, abs=1e-7
    )


def test_large_matrices_keep_our_own_choice(monkeypatch, rng):
    x = hermitian(rng, 6, "real")
    monkeypatch.setattr(lapack_conventions, "LARGEST", 5)
    w, v = seen(np.linalg.eigh, x)
    np.testing.assert_allclose(v @ np.diag(w) @ v.T, x, atol=1e-9)


def test_prepared_and_mapped_functions_go_on(rng):
    x = np.stack([hermitian(rng, 4, "real") for _ in range(3)])

    def energy(x):
        w, v = np.linalg.eigh(x)
        return np.sum(w[0] * v[:, 0] ** 2 * np.arange(4.0))

    expected = [ct.grad(energy)(one) for one in x]
    prepared = ct.prepare(energy, x[0])
    for one, slope in zip(x, expected, strict=True):
        np.testing.assert_allclose(prepared(one)[0], slope, atol=1e-9)
    np.testing.assert_allclose(ct.vmap(ct.grad(energy))(x), expected, atol=1e-9)


def low_rank(x):
    """Give a matrix of rank 2, whose other singular values are zero, from any."""
    return x[:, :2] @ x[:2, :]


UNUSED = {
    "leading eigenvectors": lambda x: np.linalg.eigh(low_rank(x) @ low_rank(x).T)[1][:, -2:],
    "an eigenvector beside equal ones": lambda x: np.linalg.eigh(np.outer(x[0], x[0]))[1][:, -1],
    "leading singular vectors": lambda x: np.linalg.svd(low_rank(x))[0][:, :2],
    "leading right singular vectors": lambda x: np.linalg.svd(low_rank(x)[:, :3])[2][:2],
    "of a tall matrix": lambda x: np.linalg.svd(low_rank(x)[:, :3], full_matrices=False)[0][:, :2],
    "a truncated product": lambda x: truncated(low_rank(x), 2),
}


def truncated(x, k):
    u, s, vh = np.linalg.svd(x, full_matrices=False)
    return (u[:, :k] * s[:k]) @ vh[:k]


@pytest.mark.parametrize("name", UNUSED)
def test_vectors_that_nobody_asks_about_do_not_matter(name, rng):
    """They belong to equal values, so that it is not known how they move."""
    x, direction = rng.normal(size=(2, 4, 4))

    def loss(x):
        y = UNUSED[name](x)
        # Rounding decides on the signs.
        return np.sum(y**2 * np.cos(np.arange(y.size)).reshape(y.shape))

    (slope,) = ct.gradient(loss, x)
    h = 1e-6
    quotient = (loss(x + h * direction) - loss(x - h * direction)) / (2 * h)
    assert np.sum(slope * direction) == pytest.approx(quotient, rel=1e-5)


def test_vectors_of_equal_values_that_are_asked_about_say_so():
    slope = ct.grad(lambda x: np.sum(np.linalg.eigh(x)[1][:, 0] ** 3))(np.eye(3))
    assert np.all(np.isnan(slope[np.tril_indices(3)]))


DEPENDS = {
    "signs of eigenvectors": lambda x: np.sum(np.linalg.eigh(x + x.T)[1][:, -1]),
    "signs of singular vectors": lambda x: np.linalg.svd(x)[2][1, 0],
    "the order of eigenvalues": lambda x: np.abs(np.linalg.eigvals(x)[0]),
}


def squared(x):
    w, v = np.linalg.eigh(x + x.T)
    return np.sum(((v * w**2) @ v.T)[0])


def with_own_signs(x):
    v = np.linalg.eigh(x + x.T)[1]
    return np.sum(v[1] * np.sign(v[0]))


def test_choices_that_undo_each_other_are_seen(rng):
    x, other = rng.random((2, 3, 3)) + 1j * rng.random((2, 3, 3))
    with pytest.raises(TypeError, match="LAPACK chooses"):
        ct.prepare(lambda x: np.abs(x + np.linalg.qr(np.linalg.qr(x)[1])[1]), x, transform="value")

    def product(x):
        q, r = np.linalg.qr(x)
        return np.abs(q @ r)

    prepared = ct.prepare(product, x, transform="value")
    np.testing.assert_allclose(prepared(other), product(other))


def test_prepared_functions_are_refused_where_they_depend_on_choices(rng):
    x, other = rng.random((2, 4, 4))
    for f in DEPENDS.values():
        with pytest.raises(TypeError, match="LAPACK chooses"):
            ct.prepare(f, x)
    for f in (squared, with_own_signs, lambda x: np.sum(np.abs(np.linalg.eigvals(x)) ** 2)):
        prepared = ct.prepare(f, x, transform="value_and_gradient")
        assert prepared(other)[0] == pytest.approx(f(other))
