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
        (lambda x, s: np.sum(np.diff(s * x)), r"s\.to_numpy\(\) of pandas"),
        (lambda x, s: np.sum(np.maximum(s, x[0])), r"s\.to_numpy\(\) of pandas"),
        (lambda x, s: (s * x).groupby([1, 0, 1]).sum()[0], r"np\.bincount\(codes, weights=x\)"),
    ],
    ids=["diff", "maximum", "groupby"],
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


def _dot_without_opt_einsum(xr, *arrays):
    with xr.set_options(use_opt_einsum=False):
        return xr.dot(*arrays).item()


LABELLED = {
    "operator": lambda xr, d, x: (d * x - d).sum().item(),
    "reflected": lambda xr, d, x: (x * d).sum().data,
    "ufunc": lambda xr, d, x: np.exp(d * x / 4).sum("t").item(),
    "made": lambda xr, d, x: (xr.DataArray(x**2, dims="t") * d).sum().item(),
    "replaced": lambda xr, d, x: d.copy(data=x**2).sum().item(),
    "missing": lambda xr, d, x: (d.where(d > 1.5) * x).mean().item(),
    "selected": lambda xr, d, x: (d * x).sel(t=[10, 30]).sum().item(),
    "product": lambda xr, d, x: xr.dot(d, d * x).item(),
    "product by the namespace": lambda xr, d, x: _dot_without_opt_einsum(xr, d, d * x),
    "groups": lambda xr, d, x: (d * x).groupby(d.group).mean()[1].item(),
    "table": lambda xr, d, x: xr.Dataset({"a": d * x, "b": d}).sum()["a"].item(),
}


@pytest.mark.parametrize("name", LABELLED)
@pytest.mark.parametrize("is_prepared", [False, True])
def test_labelled_arrays_hold_active_values(name, is_prepared):
    xr = pytest.importorskip("xarray")
    d = xr.DataArray(
        [1.0, 2.0, 3.0], dims="t", coords={"t": [10, 20, 30], "group": ("t", [0, 1, 1])}
    )

    def f(x):
        return LABELLED[name](xr, d, x)

    gradient = ct.prepare(f) if is_prepared else lambda x: ct.gradient(f, x)
    np.testing.assert_allclose(gradient(X)[0], differences(f, X), rtol=1e-6, atol=1e-8)


def test_prepared_functions_notice_that_a_labelled_array_changed():
    xr = pytest.importorskip("xarray")
    d = xr.DataArray([1.0, 2.0, 3.0], dims="t", coords={"t": [0.1, 0.2, 0.3]})
    table = xr.Dataset({"d": d.copy()})
    g = ct.prepare(lambda x: (d * x * d.t).sum().item() + (table["d"] * x).sum().item())
    np.testing.assert_allclose(g(X)[0], [0.1 + 1.0, 0.4 + 2.0, 0.9 + 3.0])
    d[0] = 5.0
    np.testing.assert_allclose(g(X)[0], [0.5 + 1.0, 0.4 + 2.0, 0.9 + 3.0])
    table["d"][1] = 0.0
    np.testing.assert_allclose(g(X)[0], [0.5 + 1.0, 0.4, 0.9 + 3.0])
    d["t"] = [1.0, 2.0, 3.0]
    np.testing.assert_allclose(g(X)[0], [5.0 + 1.0, 4.0, 9.0 + 3.0])
    assert g.num_recordings == 4
    g(X)
    assert g.num_recordings == 4


def test_labelled_results_keep_their_labels():
    xr = pytest.importorskip("xarray")
    d = xr.DataArray([1.0, 2.0, 3.0], dims="t", coords={"t": [10, 20, 30]}, name="d")
    value, back = ct.pullback(lambda x: x * d, X)
    xr.testing.assert_identical(value, d.copy(data=X * d.to_numpy()))
    np.testing.assert_array_equal(back(d)[0], d.to_numpy() ** 2)
    with pytest.raises(ValueError, match="cotangent"):
        back(np.ones(3))
    value, tangent = ct.jvp(lambda x: x * d, (X,), (np.ones(3),))
    np.testing.assert_array_equal(tangent["_variable"]["_data"], d)
    table = xr.Dataset({"a": d, "b": 2 * d})
    value, back = ct.pullback(lambda x: table * x[0], X)
    assert sorted(value) == ["a", "b"] and list(value.t) == [10, 20, 30]
    assert back(xr.ones_like(value))[0].tolist() == [18.0, 0.0, 0.0]
    (value, same), _ = ct.value_and_gradient(lambda x: (x @ x, d), X, has_aux=True)
    xr.testing.assert_identical(same, d)


def test_labelled_arrays_where_arrays_are_meant():
    xr = pytest.importorskip("xarray")
    d = xr.DataArray([1.0, 2.0, 3.0], dims="t", coords={"t": [0.1, 0.2, 0.3]})
    with pytest.raises(TypeError, match=r"is not mapped; pass d\.to_numpy\(\)"):
        ct.vmap(lambda d: 2 * d)(d)
    with pytest.raises(TypeError, match=r"s\.to_numpy\(\) of pandas and xarray"):
        ct.gradient(lambda x: np.sum(np.where(d > 1.5, x, 0.0)), X)
    # Labels are no parameters.
    (g,) = ct.gradient(lambda d: (d**2).sum().item(), d)
    assert g["_variable"]["_data"].tolist() == [2.0, 4.0, 6.0]
    assert ct.gradient(lambda x, d: (d * x).sum().item(), X, ct.const(d))[1] is None


def test_a_labelled_number_says_where_its_array_is():
    xr = pytest.importorskip("xarray")
    d = xr.DataArray([1.0, 2.0, 3.0], dims="t")
    with pytest.raises(
        TypeError, match=r"must return a real scalar, not .*DataArray.*; return its .data"
    ):
        ct.gradient(lambda x: (d * x).sum(), X)
    (slope,) = ct.gradient(lambda x: (d * x).sum().data, X)
    np.testing.assert_array_equal(slope, d.values)


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
