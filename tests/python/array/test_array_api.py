"""The namespace of the array API standard: what its public conformance suite does not look at.

The suite itself (array-api-tests) is run as CONTRIBUTING.md says, with `tests/array_api/skips.txt`.
"""

import numpy as np
import pytest

import cotan as ct
from cotan._src.array import array_api as xp

X = np.array([0.7, -1.3, 0.4, 2.1])


def test_an_array_gives_the_namespace():
    x = ct.array(X)
    for version in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
        assert x.__array_namespace__(api_version=version) is xp
    assert xp.__array_api_version__ == "2024.12"
    with pytest.raises(ValueError, match="__array_namespace__: .*2024.12, not '2019.10'"):
        x.__array_namespace__(api_version="2019.10")


def test_all_names_are_there():
    assert all(hasattr(xp, name) for name in xp.__all__)
    assert all(hasattr(xp.linalg, name) for name in xp.linalg.__all__)
    assert all(hasattr(xp.fft, name) for name in xp.fft.__all__)
    assert len(set(xp.__all__)) == len(xp.__all__)


def test_names_beyond_the_standard_are_those_of_numpy():
    x = ct.array(X)
    result = xp.einsum("i,i->", x, x)
    assert isinstance(result, ct.Array) and result == np.einsum("i,i->", X, X)
    assert xp.einsum is xp.einsum
    assert xp.dtype is np.dtype and xp.bool_ is np.bool_
    assert not {"einsum", "dtype"} & set(xp.__all__)
    (slope,) = ct.gradient(lambda v: v.__array_namespace__().einsum("i,i->", v, v), X)
    np.testing.assert_allclose(slope, 2 * X)
    for name in ("random", "no_such_name", "_core_of_numpy"):
        with pytest.raises(AttributeError, match=f"no attribute '{name}'"):
            getattr(xp, name)


def test_what_it_makes_takes_traced_values():
    def f(x):
        y = x.__array_namespace__().zeros(5)
        y[1:] = x * x
        y[0] = xp.asarray([x[0], 2.0])[0]
        z = xp.full((2,), x[1])
        return xp.sum(y) + xp.prod(z)

    _, (g,) = ct.value_and_gradient(f, X)
    np.testing.assert_allclose(g, 2 * X + [1, 2 * X[1], 0, 0])


def test_every_result_is_an_array_of_ours():
    x = ct.array(X)
    results = [
        xp.arange(3), xp.asarray(X), xp.asarray([1, 2]), xp.asarray(1.5), xp.empty((2, 3)),
        xp.empty_like(x), xp.eye(2), xp.full(3, 1.0), xp.full_like(x, 2), xp.linspace(0, 1, 3),
        xp.ones(2), xp.tril(xp.ones((2, 2))), xp.argsort(x), xp.argmax(x), xp.searchsorted(x, x),
        xp.count_nonzero(x), xp.nonzero(x)[0], xp.unique_all(x).indices, xp.isfinite(x),
        xp.from_dlpack(X), xp.fft.fftfreq(4), *xp.meshgrid(x, X), *xp.broadcast_arrays(x, 1.0),
        xp.sum(X), xp.linalg.trace(np.eye(2)), xp.unstack(x)[0],
    ]  # fmt: skip
    for result in results:
        assert isinstance(result, ct.Array)


def test_sorting_downwards():
    x = xp.asarray([[3.0, 1.0, 3.0], [2.0, 2.0, 5.0]])
    np.testing.assert_array_equal(np.asarray(xp.sort(x, descending=True)), [[3, 3, 1], [5, 2, 2]])
    np.testing.assert_array_equal(np.asarray(xp.sort(x, axis=0, descending=True))[0], [3, 2, 5])
    # What is equal keeps its order.
    order = xp.argsort(x, descending=True)
    np.testing.assert_array_equal(np.asarray(order), [[0, 2, 1], [2, 0, 1]])
    (g,) = ct.gradient(lambda x: xp.sum(xp.sort(x, descending=True) * [1.0, 2, 3, 4]), X)
    np.testing.assert_array_equal(g, [2, 4, 3, 1])


def test_asarray_copies_when_it_is_told_to():
    x = ct.array(X)
    assert xp.asarray(x) is x
    assert xp.asarray(x, copy=False) is x
    y = xp.asarray(x, copy=True)
    y[0] = 5.0
    assert float(x[0]) == 0.7
    assert xp.asarray(x, dtype=xp.float32).dtype == np.float32
    with pytest.raises(ValueError, match="asarray: .*copy=False"):
        xp.asarray(X, copy=False)
    with pytest.raises(ValueError, match="asarray: a cast from float64 to float32"):
        xp.asarray(x, dtype=xp.float32, copy=False)


def test_what_there_is_to_ask():
    info = xp.__array_namespace_info__()
    assert info.default_device() == "cpu"
    assert info.devices() == ct.devices()
    assert info.devices()[0] == "cpu"
    assert info.default_dtypes()["integral"] == np.int64
    assert info.capabilities()["boolean indexing"]
    whole = {f"{kind}{8 << i}" for kind in ("int", "uint") for i in range(4)}
    assert set(info.dtypes(kind="integral")) == whole
    assert set(info.dtypes(kind=("bool", "real floating"))) == {"bool", "float32", "float64"}
    for dtype in info.dtypes().values():
        assert xp.zeros(2, dtype=dtype).dtype == dtype
    with pytest.raises(ValueError, match="kind must be one of .*, not 'letters'"):
        info.dtypes(kind="letters")
    eps = xp.finfo(ct.array(X)).eps
    assert type(eps) is float
    assert eps == np.finfo(float).eps
    assert xp.iinfo(xp.uint8).max == 255


@pytest.mark.parametrize(
    "make",
    [
        lambda device: xp.asarray([1.0], device=device),
        lambda device: xp.full(2, 1.0, device=device),
        lambda device: xp.full_like(ct.array(X), 1.0, device=device),
        lambda device: xp.astype(ct.array(X), xp.float32, device=device),
        lambda device: xp.zeros(3, device=device),
        lambda device: xp.fft.rfftfreq(3, device=device),
        lambda device: xp.__array_namespace_info__().dtypes(device=device),
    ],
)
def test_devices_have_names(make):
    device = [d for d in ct.devices() if np.dtype(float) in d.dtypes][-1]
    made = make(device)
    assert isinstance(made, dict) or made.device == device
    make("cpu")
    with pytest.raises(ValueError, match='device "cuda": there is no such kind of device'):
        make("cuda")


def test_a_recorded_array_stays_where_it_is():
    (g,) = ct.gradient(lambda x: np.sum(xp.asarray(x, device="cpu") ** 2), X)
    np.testing.assert_array_equal(g, 2 * X)


def test_frequencies_are_floats():
    assert xp.fft.fftfreq(4, dtype=xp.float32).dtype == np.float32
    np.testing.assert_array_equal(np.asarray(xp.fft.rfftfreq(5, d=0.5)), np.fft.rfftfreq(5, 0.5))
    with pytest.raises(
        TypeError, match="fftfreq: frequencies must be of a real floating dtype, not int64"
    ):
        xp.fft.fftfreq(4, dtype=xp.int64)
