"""Columns of pandas as data of fits and as residuals, and traced numbers beside them."""

import numpy as np
import pytest
import scipy.optimize

import cotan as ct
from cotan import optimize

pd = pytest.importorskip("pandas")

T = np.linspace(0.0, 3.0, 20)
Y = 2.0 * np.exp(-1.3 * T) + 0.1 * np.cos(7 * T)
TABLE = pd.DataFrame({"t": T, "y": Y, "w": np.linspace(1.0, 2.0, 20)}, index=np.arange(5, 25))
START = np.array([1.0, 1.0])


def model(t, a, b):
    return a * np.exp(-b * t)


def residuals(p, table=None):
    table = TABLE if table is None else table
    return model(table["t"], p[0], p[1]) - table["y"]


EXPECTED = scipy.optimize.curve_fit(model, T, Y, p0=START)[0]

FITS = {
    "curve_fit": lambda: optimize.curve_fit(model, TABLE["t"], TABLE["y"], p0=START)[0],
    "curve_fit of a table": lambda: optimize.curve_fit(
        lambda table, a, b: model(table["t"], a, b), TABLE, TABLE["y"], p0=START
    )[0],
    "least_squares": lambda: optimize.least_squares(residuals, START).x,
    "least_squares with a table": lambda: optimize.least_squares(residuals, START, args=(TABLE,)).x,
    "minimize": lambda: optimize.minimize(lambda p: (residuals(p) ** 2).sum(), START).x,
    "minimize of a mean": lambda: (
        optimize.minimize(
            lambda p, table: np.mean(residuals(p, table) ** 2), START, args=(TABLE,)
        ).x
    ),
}


@pytest.mark.parametrize("name", FITS)
def test_fits(name):
    np.testing.assert_allclose(FITS[name](), EXPECTED, rtol=1e-4)


def test_deviations():
    found, _ = optimize.curve_fit(model, TABLE["t"], TABLE["y"], p0=START, sigma=TABLE["w"])
    expected, _ = scipy.optimize.curve_fit(model, T, Y, p0=START, sigma=TABLE["w"].to_numpy())
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_rows_in_another_order_are_refused():
    # To match their labels, pandas moves values about in memory.
    shuffled = TABLE["y"].sample(frac=1.0, random_state=0)
    with pytest.raises(ct.NotDifferentiableError, match="pandas keeps values in memory of its own"):
        optimize.least_squares(lambda p: model(TABLE["t"], p[0], p[1]) - shuffled, START)


def energy(p, table=None):
    return (residuals(p, table) ** 2).sum()


def energy_of_columns(p, t, y):
    return ((model(t, p[0], p[1]) - y) ** 2).sum()


def test_gradients():
    p = np.array([1.5, 0.8])
    h = np.array([1e-6, -2e-6])
    slope = (energy(p + h) - energy(p - h)) / 2
    for gradient in (
        ct.grad(energy)(p),
        ct.prepare(energy_of_columns)(p, ct.const(T), ct.const(Y))[0],
        ct.gradient(energy, p, ct.const(TABLE))[0],
        ct.gradient(energy, p, table=TABLE)[0],
    ):
        assert gradient @ h == pytest.approx(slope, rel=1e-6)
    prepared = ct.prepare(lambda p: energy(p, TABLE))
    for _ in range(2):
        assert prepared(p)[0] @ h == pytest.approx((energy(p + h) - energy(p - h)) / 2, rel=1e-6)
    assert prepared.num_recordings == 1
    # Numbers of NumPy's on either side of each operator.
    column = TABLE["w"]
    for f in (
        lambda x: (x[0] * column - x[1]).sum(),
        lambda x: (column / x[0] + x[1] ** column).mean(),
        lambda x: (x[0] - column * x[1]).to_numpy() @ column.to_numpy(),
        lambda x: (np.float64(2.0) * column + x[0] + x[1]).std() * x[0],
    ):
        slope = (f(p + h) - f(p - h)) / 2
        assert ct.grad(f)(p) @ h == pytest.approx(slope, rel=1e-5, abs=1e-12)


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.__setitem__("x", [7.0, 8.0, 9.0]),
        lambda table: table.loc.__setitem__((1, "x"), 5.0),
        lambda table: table.iloc.__setitem__((0, 0), 5.0),
        lambda table: table.__setitem__("name", ["a", "a", "b"]),
        lambda table: setattr(table, "columns", ["z", "x", "name"]),
    ],
)
def test_a_table_that_changes_is_noticed(change):
    table = pd.DataFrame({"x": [1.0, 2.0, 3.0], "z": [4.0, 5.0, 7.0], "name": ["a", "b", "b"]})

    def f(p):
        chosen = (table["name"] == "a").to_numpy()
        return np.sum(p * np.where(chosen, table["x"].to_numpy(), 0.0))

    prepared = ct.prepare(f)
    assert prepared(2.0) == (1.0,)
    assert prepared(3.0) == (1.0,)
    assert prepared.num_recordings == 1
    change(table)
    assert prepared(2.0) == ct.gradient(f, 2.0)
    assert prepared.num_recordings == 2


@pytest.mark.parametrize(
    "fit",
    [
        lambda s: scipy.optimize.curve_fit(model, TABLE["t"], s * TABLE["y"], p0=START)[0],
        lambda s: (
            scipy.optimize.least_squares(
                lambda p: model(TABLE["t"], p[0], p[1]) - s * TABLE["y"], START, xtol=1e-12
            ).x
        ),
        lambda s: (
            scipy.optimize.minimize(
                lambda p: ((model(TABLE["t"], p[0], p[1]) - s * TABLE["y"]) ** 2).sum(),
                START,
                tol=1e-12,
            ).x
        ),
    ],
    ids=["curve_fit", "least_squares", "minimize"],
)
def test_derivatives_of_fits_of_scipy(fit):
    # The height is proportional to the data, the rate does not change.
    assert ct.grad(lambda s: fit(s)[0])(1.0) == pytest.approx(EXPECTED[0], rel=1e-5)
    assert ct.grad(lambda s: fit(s)[1])(1.0) == pytest.approx(0.0, abs=1e-5)
