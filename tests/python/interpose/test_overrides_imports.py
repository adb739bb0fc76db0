"""Functions under names that modules imported or kept before something was recorded."""

import array
import contextvars
import math
import struct
import subprocess
import sys
import threading
import types

import numpy as np
import pytest
import scipy.interpolate
import scipy.linalg
import scipy.optimize
import scipy.special

import cotan as ct


def test_an_import_inside_of_the_function_counts_at_once():
    code = (
        "import sys, numpy as np, cotan as ct\n"
        "def f(x):\n"
        "    import scipy.linalg\n"
        "    from scipy import integrate\n"
        "    a = scipy.linalg.expm(x * np.eye(2)) + scipy.linalg.toeplitz([x, 1.0])\n"
        "    return np.sum(a) + integrate.quad(lambda t: t * x, 0, 1)[0]\n"
        "(g,) = ct.gradient(f, 0.5)\n"
        "assert abs(g - (2 * np.exp(0.5) + 2 + 0.5)) < 1e-9, g\n"
        "import scipy.linalg, scipy.stats\n"
        "for name, module in list(sys.modules.items()):\n"
        "    if name.startswith('scipy') and module is not None:\n"
        "        assert 'cotan' not in type(getattr(module, '__loader__', None)).__module__\n"
        "        for value in list(vars(module).values()):\n"
        "            assert not type(value).__module__.startswith('cotan'), (name, value)\n"
        "assert ct.debug.verify_process() == []\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def _module(name: str, code: str) -> types.ModuleType:
    module = types.ModuleType(name)
    exec(code, vars(module))
    return module


BY_NAME = """
from math import sin
from numpy import zeros, ones, r_, c_
from numpy.linalg import norm
def f(x):
    out = zeros(3)
    out[0], out[1] = sin(x), x * x
    table = ones((2, 3))
    table[0] = out
    joined = r_[x, 2.0:4.0] * c_[[x], [1.0], [2.0]][0]
    return norm([x, 2.0]) + table.sum() + joined.sum()
"""


@pytest.mark.parametrize("is_imported", [False, True])
def test_names_that_modules_imported_before(is_imported, monkeypatch):
    module = _module("imported_by_name", BY_NAME)
    if is_imported:
        monkeypatch.setitem(sys.modules, "imported_by_name", module)
    before = dict(vars(module))
    slope = math.cos(0.5) + 1.0 + 0.5 / math.hypot(0.5, 2.0) + 2 * 0.5
    hidden = frozenset({module.f})
    for f in (module.f, lambda x: next(iter(hidden))(x)):
        assert ct.gradient(f, 0.5) == (pytest.approx(slope),)
    assert all(vars(module)[name] is value for name, value in before.items())
    assert module.zeros is np.zeros
    with ct.lifting(False), pytest.raises(TypeError):
        ct.gradient(module.f, 0.5)


def test_imported_names_leave_no_trace_of_an_exception(monkeypatch):
    module = _module("imported_by_name", BY_NAME + "def g(x):\n    zeros(2)[0] = x\n    1 / 0\n")
    monkeypatch.setitem(sys.modules, "imported_by_name", module)
    with pytest.raises(ZeroDivisionError):
        ct.gradient(module.g, 0.5)
    assert module.zeros is np.zeros
    assert module.sin is math.sin
    assert type(module.zeros(2)) is np.ndarray
    # What somebody puts in the place of a name stays.
    exec("def h(x):\n    global zeros\n    zeros = list\n    return x", vars(module))
    assert ct.gradient(module.h, 0.5) == (1.0,)
    assert module.zeros is list


def test_other_threads_find_imported_names_as_they_were(monkeypatch):
    module = _module("imported_by_name", BY_NAME)
    monkeypatch.setitem(sys.modules, "imported_by_name", module)
    seen = []

    def other():
        seen.append((type(module.zeros(2)), module.sin(0.5)))

    def f(x):
        thread = threading.Thread(target=contextvars.Context().run, args=(other,))
        thread.start()
        thread.join()
        return module.f(x)

    ct.gradient(f, 0.5)
    assert seen == [(np.ndarray, math.sin(0.5))]


class Backend:
    """A module behind a class: code that can be run with several libraries."""

    def __init__(self, module):
        self.module = module

    def __getattr__(self, name):
        return getattr(self.module, name)


def test_names_that_are_asked_for_by_getattr():
    xp = Backend(np)
    for _ in range(100):
        xp.zeros(2)  # until the interpreter knows what is called there

    def f(x):
        out = xp.zeros(2)
        out[1] = x
        return xp.sum(xp.array([x, 1.0]) * out) + getattr(math, "exp")(x)  # noqa: B009

    assert ct.gradient(f, 0.5) == (pytest.approx(math.exp(0.5) + 1.0),)
    g = ct.gradient(lambda x: xp.sum(xp.asarray([1.0, x]) * xp.array([3.0, 2.0])), 0.5)
    assert g == (2.0,)


def test_classes_of_numbers_that_are_asked_for_by_getattr():
    """They are dtypes more often than calls."""

    def f(x, *names):
        kinds = [getattr(np, name, None) for name in names]
        assert kinds[0] is np.float64
        total = np.zeros(2, dtype=kinds[0])
        total[0] = x[0]
        return np.cumsum(x, dtype=kinds[0])[-1] + np.sum(total) + x.astype(kinds[1])[1]

    (slope,) = ct.gradient(lambda x: f(x, "float64", "float32"), np.ones(3))
    np.testing.assert_array_equal(slope, [2.0, 2.0, 1.0])


def test_functions_of_scipy_that_are_differentiated_themselves():
    a = np.array([[2.0, 1.0], [0.5, 3.0]])
    for module, name in ((scipy.linalg, "det"), (scipy.special, "logsumexp")):
        f = getattr(module, name)
        expected = ct.gradient(lambda a, m=module, n=name: getattr(m, n)(a), a)
        np.testing.assert_array_equal(ct.gradient(f, a)[0], expected[0])
        np.testing.assert_allclose(ct.pullback(f, a)[0], f(a))


def test_names_that_a_program_has_given_to_functions_of_numpy(tmp_path):
    """As programs do that were written for versions of NumPy that had these names."""
    (tmp_path / "program.py").write_text(
        "import numpy as np\n"
        "def f(x):\n"
        "    made = np.nils(2)\n"
        "    made[0] = np.float(x) * np.float_(x)\n"
        "    return (np.mat([[x, 1.0]]) * np.mat([[x], [2.0]]))[0, 0] + made.sum()\n"
    )
    code = (
        "import numpy as np, cotan as ct\n"
        "np.mat, np.float, np.float_, np.nils = np.asmatrix, float, np.float64, np.zeros\n"
        "import program\n"
        "assert ct.value_and_gradient(program.f, 3.0) == (20.0, (12.0,))\n"
        "assert np.float is float and np.nils is np.zeros\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120, cwd=tmp_path)


def test_numbers_in_memory_of_their_own_name_what_holds_traced_ones():
    def appended(x):
        kept = array.array("d")
        kept.append(x)
        return kept[0]

    def written(x):
        kept = array.array("d", [1.0])
        kept[0] *= x
        return kept[0]

    for f in (appended, written, lambda x: array.array("d", [x])[0]):
        with pytest.raises(TypeError, match=r"array\.array cannot hold traced values: .* a list"):
            ct.gradient(f, 2.0)
    with pytest.raises(struct.error, match="ct.dropgrad"):
        ct.gradient(lambda x: len(struct.pack("d", x)) * x, 2.0)


def test_numpy_random_is_loaded_inside():
    code = (
        "import sys, numpy as np, cotan as ct\n"
        "assert 'numpy.random' not in sys.modules\n"
        "def f(x):\n    np.random.seed(0)\n    return x * np.random.normal(x, 2.0)\n"
        "slope, = ct.gradient(f, 3.0)\n"
        "assert abs(slope - (f(3.001) - f(2.999)) / 0.002) < 1e-6, slope\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_code_that_has_run_often_is_met_all_the_same():
    module = types.ModuleType("warm")
    code = "def f(x):\n    y = zeros(2)\n    y[0] = float(x) * sin(x)\n    return y[0]"
    exec("from numpy import zeros\nfrom math import sin\n" + code, vars(module))
    for _ in range(100):
        module.f(2.0)
    slope = math.sin(2.0) + 2.0 * math.cos(2.0)
    for _ in range(100):
        assert ct.gradient(module.f, 2.0) == (pytest.approx(slope),)
    with (
        ct.strict(),
        pytest.raises(TypeError, match=r"ct\.strict\(\), float\(x\) stays"),
    ):
        ct.gradient(module.f, 2.0)


def test_lists_beside_scalars_of_numpy():
    """What NumPy hands out as a scalar answers for no array of ours."""

    def f(x):
        y = x * np.arange(4.0)
        return np.interp(np.float64(1.5), [np.float64(1.0), 2.0], [y[1], y[2]])

    assert ct.gradient(f, 3.0) == (1.5,)


def test_functions_of_submodules_that_were_imported_by_name():
    module = types.ModuleType("frames")
    exec("from numpy.lib.stride_tricks import as_strided", vars(module))
    exec("def f(x): return as_strided(x * 1.0, (2, 2), (8, 8)).sum()", vars(module))
    np.testing.assert_array_equal(ct.gradient(module.f, np.arange(3.0))[0], [1.0, 2.0, 1.0])


def test_a_library_under_another_name_keeps_its_names(monkeypatch):
    monkeypatch.setitem(sys.modules, "borrowed.numpy", np)

    def f(x):
        assert vars(np)["asarray"] is before
        return np.sum(np.asarray([x, 1.0]) / np.sqrt(4))

    before = vars(np)["asarray"]
    assert ct.gradient(f, 3.0) == (0.5,)


def test_steps_by_keywords():
    def f(x):
        y = np.arange(start=x, stop=3.0) + np.arange(stop=2.5 * x, step=x)[:2]
        return np.sum(y) + np.sum(np.arange(3, step=x)) + np.arange(x, 4.0, dtype=np.float64)[1]

    value, (slope,) = ct.value_and_gradient(f, 1.25)
    assert value == pytest.approx(f(1.25))
    assert slope == pytest.approx((f(1.25 + 1e-6) - f(1.25 - 1e-6)) / 2e-6)


@pytest.mark.parametrize(
    ("start", "stop", "step"),
    [(4.9, 10.0, 0.1), (-0.7, 20.0, 0.3), (1e3, 1e3 + 2, 1e-3), (0.0, 1.0, 0.1)],
)
def test_steps_in_the_last_digits(start, stop, step):
    """What goes on from the last step counts the steps that follow by these digits."""
    seen = ct.pullback(lambda a, b, c: np.arange(a, b, c), start, stop, step)[0]
    np.testing.assert_array_equal(np.asarray(seen), np.arange(start, stop, step))
    slopes = ct.gradient(lambda a, b, c: np.arange(a, b, c)[7], start, stop, step)
    assert slopes == (1.0, None, 7.0)


def test_gradients_inside_say_a_remedy_once():
    def f(x):
        return ct.gradient(lambda y: ct.gradient(lambda z: eval(repr(z), {}), y)[0], x)[0]

    with pytest.raises(NameError) as caught:
        ct.gradient(f, 2.0)
    assert str(caught.value).count("hand the value itself") == 1


def test_texts_of_constants_are_those_of_numpy():
    """Programs evaluate them; what is followed has a text that cannot be evaluated in silence."""

    def f(x):
        made = np.zeros(2)
        made[0] = 1.5
        assert repr(made) == "array([1.5, 0. ])" and f"{[made.max()]}" == "[np.float64(1.5)]"
        assert np.all(eval("np." + repr(made)) == made)
        return x * made[0]

    assert ct.gradient(f, 2.0) == (1.5,)
    with pytest.raises(NameError, match="would drop the gradient"):
        ct.gradient(lambda x: eval(f"sum({[x, x]})"), 2.0)


def test_libraries_that_keep_numbers_are_named():
    neighbours = pytest.importorskip("sklearn.neighbors")
    model = neighbours.KNeighborsRegressor(2).fit(np.eye(3), np.ones(3))
    with pytest.raises(TypeError, match="sklearn keeps values in memory of its own"):
        ct.gradient(lambda x: np.sum(model.predict(x)), np.eye(3))


def test_libraries_in_python_are_followed():
    process = pytest.importorskip("sklearn.gaussian_process")
    model = process.GaussianProcessRegressor(alpha=0.1, optimizer=None).fit(np.eye(3), np.ones(3))
    x, step = np.eye(3) + 0.1 * np.arange(9.0).reshape(3, 3), np.zeros((3, 3))

    def f(x):
        return np.sum(model.predict(x))

    step[0, 1] = 1e-6
    expected = (f(x + step) - f(x - step)) / 2e-6
    assert ct.gradient(f, x)[0][0, 1] == pytest.approx(expected, rel=1e-6)


MOVED = """
import numpy as np
import scipy.ndimage.filters
import scipy.optimize.minpack as minpack
from scipy.integrate import quadpack
from scipy.linalg import basic

def f(x):
    from scipy.ndimage.filters import sobel

    table = np.outer(x, x)
    smooth = scipy.ndimage.filters.gaussian_filter(table, 1.0)
    area = quadpack.quad(lambda t: t * x[0] ** 2, 0, 1)[0]
    root = minpack.fsolve(lambda z: z**3 - x[1], 1.0)[0]
    return np.sum(smooth + sobel(table)) + area + root + np.sum(basic.solve(np.eye(2) + table, x))
"""


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_names_that_scipy_has_moved():
    program = types.ModuleType("program")
    exec(MOVED, vars(program))
    x, h = np.array([1.0, 2.0]), 1e-6
    value, (slope,) = ct.value_and_gradient(program.f, x)
    assert value == pytest.approx(program.f(x))
    steps = [(program.f(x + d) - program.f(x - d)) / (2 * h) for d in h * np.eye(2)]
    np.testing.assert_allclose(slope, steps, 1e-6)
    # Afterwards they say where they are now, as they did.
    with pytest.warns(DeprecationWarning, match="namespace"):
        found = program.basic.solve
    assert found is scipy.linalg.solve
    with pytest.raises(AttributeError, match="no attribute `nothing`"):
        _ = program.basic.nothing
