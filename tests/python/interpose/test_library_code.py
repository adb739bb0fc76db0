"""Code of libraries, run in a recording without anything active, gets what it gets without one."""

import os

import numpy as np
import pytest
import scipy.interpolate
import scipy.optimize

import cotan as ct


def recorded(function):
    """Give what a function gives inside of a gradient."""
    found = []
    ct.gradient(lambda x: (found.append(function()), x)[1], 1.0)
    return found[0]


def code_of(library, text, **names):
    """Run a text as code of a library, and give its names."""
    names |= {"__name__": f"{library}.code", "np": np}
    exec(text, names)
    return names


def test_code_in_the_folder_of_a_library_is_that_library_s(tmp_path):
    text = "def make(): return type(np.zeros(2)), type(np.ones(2))"

    def made_in(path):
        names = {"__name__": "test_of_numpy", "np": np}
        exec(compile(text, path, "exec"), names)
        return recorded(names["make"])

    folder = os.path.dirname(np.__file__)
    assert made_in(os.path.join(folder, "tests", "test_of_numpy.py")) == (np.ndarray, np.ndarray)
    assert made_in(str(tmp_path / "numpy" / "test_of_numpy.py")) == (ct.Array, ct.Array)


@pytest.mark.parametrize("library", ["scipy", "numpy", "sklearn"])
@pytest.mark.parametrize(
    "text",
    ["np.r_[(0.0,) * 3, np.arange(3.0), 5]", "np.c_[np.ones(2), np.zeros(2)]", "np.r_[0:1:3j]"],
)
def test_what_brackets_make_for_a_library_is_memory(library, text):
    make = code_of(library, f"def make(): return {text}")["make"]
    made = recorded(make)
    assert type(made) is np.ndarray and np.array_equal(made, make())


def test_brackets_of_a_library_take_active_items():
    join = code_of("scipy", "def join(x): return np.r_[x, 1.0, x * x]")["join"]
    assert ct.gradient(lambda x: np.sum(join(x) * np.arange(3.0)), 3.0) == (12.0,)


def test_splines_that_a_library_makes_of_constants_are_scipy_s():
    text = """def make(interpolate):
    x = np.linspace(0.0, 1.0, 20)
    return interpolate.make_splrep(x, np.sin(6 * x), s=0.1)
    """
    make = code_of("scipy", text)["make"]
    spline, expected = recorded(lambda: make(scipy.interpolate)), make(scipy.interpolate)
    assert np.array_equal(spline.t, expected.t) and np.array_equal(spline.c, expected.c)


def test_surfaces_whose_class_calls_that_of_its_base_class():
    theta, phi = np.linspace(0.1, 3.0, 8), np.linspace(0.1, 6.0, 9)
    heights = np.outer(np.sin(theta), np.cos(phi))

    def at():
        surface = scipy.interpolate.RectSphereBivariateSpline(theta, phi, heights)
        plane = scipy.interpolate.RectBivariateSpline(theta, phi, heights)
        return surface(1.0, 2.0), surface.ev(1.0, 2.0), plane.integral(0.5, 1.0, 1.0, 2.0)

    for one, other in zip(recorded(at), at(), strict=True):
        assert np.array_equal(one, other)


def test_curve_fit_of_a_function_without_parameters_is_refused_as_by_scipy():
    def fit():
        with pytest.raises(ValueError, match="number of fit parameters"):
            scipy.optimize.curve_fit(lambda x: x, [1, 2], [3, 4])

    fit()
    recorded(fit)


def test_what_joblib_loads_are_ndarrays(tmp_path):
    joblib = pytest.importorskip("joblib")
    kept = np.arange(3.0)
    joblib.dump({"a": kept}, tmp_path / "kept")
    loaded = recorded(lambda: joblib.load(tmp_path / "kept"))["a"]
    assert type(loaded) is np.ndarray and np.array_equal(loaded, kept)
