"""Objects of pandas, xarray, scikit-learn, statsmodels and matplotlib in a function that is
recorded."""

import numpy as np
import pytest

import cotan as ct

X = np.array([0.5, 1.5, 2.5])
TABLE = np.array([[1.0, 0.5, 0.0], [0.0, 2.0, 1.0], [1.0, 1.0, 3.0], [2.0, 0.0, 1.0]])


def differences(f, x, step=1e-6):
    slopes = np.zeros(x.shape)
    for i in np.ndindex(*x.shape):
        ends = []
        for sign in (1, -1):
            moved = x.copy()
            moved[i] += sign * step
            ends.append(f(moved))
        slopes[i] = (ends[0] - ends[1]) / (2 * step)
    return slopes


def test_columns_of_pandas_are_constants():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [4, 5, 6]})
    for weights in (frame["a"], frame["a"].values, frame["a"].to_numpy(), frame.to_numpy()[:, 0]):
        (slope,) = ct.gradient(lambda x, w=weights: np.sum(x * w), X)
        np.testing.assert_array_equal(slope, [1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("function", "remedy"),
    [
        (lambda x, s: np.sum(np.where(s > 1, x, 0)), r"s\.to_numpy\(\) of pandas"),
        (lambda x, s: np.sum(np.concatenate([s, x])), r"s\.to_numpy\(\) of pandas"),
        (lambda x, s: np.sum(np.diff(s * x)), r"s\.to_numpy\(\) of pandas"),
        (lambda x, s: np.sum(np.maximum(s, x[0])), r"s\.to_numpy\(\) of pandas"),
        (lambda x, s: (s * x).groupby([1, 0, 1]).sum()[0], r"np\.bincount\(codes, weights=x\)"),
    ],
    ids=["where", "concatenate", "diff", "maximum", "groupby"],
)
def test_what_takes_no_column_names_the_array_in_it(function, remedy):
    pd = pytest.importorskip("pandas")
    with pytest.raises((TypeError, ValueError), match=remedy):
        ct.gradient(lambda x: function(x, pd.Series([1.0, 2.0, 3.0])), X)


def test_columns_hold_active_values():
    pd = pytest.importorskip("pandas")
    column = pd.Series([1.0, 2.0, 3.0])
    (slope,) = ct.gradient(lambda x: np.sum(np.diff((column * x).to_numpy())), X)
    np.testing.assert_array_equal(slope, [-1.0, 0.0, 3.0])


def test_values_of_xarray_are_constants():
    xr = pytest.importorskip("xarray")
    array = xr.DataArray([1.0, 2.0, 3.0], dims="t")
    (slope,) = ct.gradient(lambda x: np.sum(x * array.values), X)
    np.testing.assert_array_equal(slope, [1.0, 2.0, 3.0])


def test_xarray_of_an_active_array_is_refused():
    xr = pytest.importorskip("xarray")
    with pytest.raises(TypeError, match="xarray keeps values in memory of its own"):
        ct.gradient(lambda x: float(xr.DataArray(x).sum()), X)


def test_estimators_fit_constants():
    linear_model = pytest.importorskip("sklearn.linear_model")
    y = TABLE @ X
    (slope,) = ct.gradient(lambda x: np.sum(x * linear_model.Ridge().fit(TABLE, y).coef_), X)
    np.testing.assert_allclose(slope, linear_model.Ridge().fit(TABLE, y).coef_)


def test_ridge_regression_is_differentiated_as_it_is_installed():
    linear_model = pytest.importorskip("sklearn.linear_model")

    def coefficients(table):
        return np.sum(linear_model.Ridge().fit(table, TABLE @ X).coef_ ** 2)

    (slope,) = ct.gradient(coefficients, TABLE)
    np.testing.assert_allclose(slope, differences(coefficients, TABLE), atol=1e-7)


def test_models_of_statsmodels_fit_constants_and_refuse_active_arrays():
    api = pytest.importorskip("statsmodels.api")
    y = TABLE @ X
    (slope,) = ct.gradient(lambda x: np.sum(x * api.OLS(y, TABLE).fit().params), X)
    np.testing.assert_allclose(slope, X)
    with pytest.raises(ct.NotDifferentiableError, match="statsmodels keeps values in memory"):
        ct.gradient(lambda y: np.sum(api.OLS(y, TABLE).fit().params), y)


def test_drawing_drops_no_gradient():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    plt = pytest.importorskip("matplotlib.pyplot")

    def loss(x):
        figure, axes = plt.subplots()
        (line,) = axes.plot(x)
        axes.scatter(x, x)
        np.testing.assert_array_equal(line.get_ydata(), X)
        plt.close(figure)
        return np.sum(x**2)

    np.testing.assert_array_equal(ct.gradient(loss, X)[0], 2 * X)
