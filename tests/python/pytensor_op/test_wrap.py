"""`pytensor.wrap`: values, derivatives of any order, and a posterior that PyMC samples."""

import pickle

import numpy as np
import pytest

import cotan as ct

pytensor = pytest.importorskip("pytensor", reason="PyTensor is not installed")
pt = pytest.importorskip("pytensor.tensor")

X = np.linspace(-1.0, 1.0, 12)
Y = 1.5 * X - 0.5 + 0.1 * np.sin(40.0 * X)


def loglik(intercept, slope, scale):
    residuals = (Y - intercept - slope * X) / scale
    return -0.5 * np.sum(residuals**2) - len(X) * np.log(scale)


def curve(a, x):
    return np.tanh(a[0] * x) + a[1] ** 2, np.sum(a)


def test_values_and_gradients():
    a, b, c = pt.dscalars("abc")
    y = ct.pytensor.wrap(loglik)(a, b, c)
    assert y.ndim == 0 and y.dtype == "float64"
    f = pytensor.function([a, b, c], [y, *pytensor.grad(y, [a, b, c])])
    value, *slopes = f(0.1, 0.2, 0.3)
    np.testing.assert_allclose(value, loglik(0.1, 0.2, 0.3))
    np.testing.assert_allclose(slopes, ct.gradient(loglik, 0.1, 0.2, 0.3))


def test_verify_grad():
    a, x = np.array([0.5, -0.3]), np.array([0.1, 0.7, -0.4])
    first, second = (
        lambda a, x: ct.pytensor.wrap(curve)(a, x)[0],
        lambda a, x: ct.pytensor.wrap(curve)(a, x)[1],
    )
    rng = np.random.default_rng(0)
    pytensor.gradient.verify_grad(first, [a, x], rng=rng)
    pytensor.gradient.verify_grad(second, [a, x], rng=rng)


def test_second_derivatives_and_pushforward():
    a = pt.vector("a", shape=(2,))
    f = ct.pytensor.wrap(lambda a: np.exp(a[0]) * a[1] ** 2)
    v = pt.vector("v", shape=(2,))
    hessian = pytensor.gradient.hessian(f(a), a)
    product = pytensor.gradient.Rop(f(a), a, v)
    run = pytensor.function([a, v], [hessian, product])
    found, along = run([0.5, 2.0], [1.0, -1.0])
    np.testing.assert_allclose(found, np.exp(0.5) * np.array([[4.0, 4.0], [4.0, 2.0]]))
    np.testing.assert_allclose(along, np.exp(0.5) * (4.0 - 4.0))


def test_integers_have_no_gradient():
    a, i = pt.vector("a", shape=(3,)), pt.lvector("i")
    f = ct.pytensor.wrap(lambda a, i: np.sum(a[i] ** 2), result=("float64", ()))
    run = pytensor.function([a, i], pytensor.grad(f(a, i), a))
    np.testing.assert_allclose(run([1.0, 2.0, 3.0], [2, 0, 2]), [2.0, 0.0, 12.0])


def test_float32():
    a = pt.vector("a", dtype="float32", shape=(3,))
    y = ct.pytensor.wrap(lambda a: np.sum(np.sin(a)))(a)
    assert y.dtype == "float32"
    slope = pytensor.function([a], pytensor.grad(y, a))(np.ones(3, np.float32))
    assert slope.dtype == np.float32
    np.testing.assert_allclose(slope, np.cos(np.ones(3)), rtol=1e-6)


def test_pickle():
    a = pt.vector("a", shape=(2,))
    y = ct.pytensor.wrap(np.prod)(a)
    again = pickle.loads(pickle.dumps(y.owner.op))
    assert again == y.owner.op and hash(again) == hash(y.owner.op)
    assert float(again(pt.as_tensor_variable([2.0, 3.0])).eval()) == 6.0


def test_errors():
    with pytest.raises(TypeError, match=r"argument 0 has the shape \(None,\).*result="):
        ct.pytensor.wrap(np.sum)(pt.vector("a"))
    y = ct.pytensor.wrap(np.sin, result=("float64", (3,)))(pt.vector("a"))
    with pytest.raises(TypeError, match=r"gave shape \(2,\), and shape \(3,\) was expected"):
        y.eval({next(iter(y.owner.inputs)): np.ones(2)})


def test_a_posterior_of_pymc():
    pm = pytest.importorskip("pymc", reason="PyMC is not installed")
    wrapped = ct.pytensor.wrap(loglik)

    def sampled(likelihood):
        with pm.Model():
            intercept = pm.Normal("intercept", 0.0, 2.0)
            slope = pm.Normal("slope", 0.0, 2.0)
            scale = pm.HalfNormal("scale", 1.0)
            likelihood(intercept, slope, scale)
            return pm.sample(
                400,
                tune=400,
                chains=2,
                cores=1,
                random_seed=1,
                progressbar=False,
                return_inferencedata=False,
                compute_convergence_checks=False,
            )

    ours = sampled(lambda *p: pm.Potential("y", wrapped(*p)))
    theirs = sampled(lambda a, b, s: pm.Normal("y", a + b * X, s, observed=Y))
    for name in ("intercept", "slope", "scale"):
        mine, other = ours.get_values(name), theirs.get_values(name)
        error = 5.0 * np.hypot(mine.std(), other.std()) / np.sqrt(200.0)
        assert abs(mine.mean() - other.mean()) < error
        assert 0.7 < mine.std() / other.std() < 1.4
