"""Memory and elements of arrays, functions of arrays, matrices, and what is refused by name."""

import fractions
import math
import multiprocessing
import types

import numpy as np
import pytest
import scipy.interpolate
import scipy.linalg
import scipy.ndimage
import scipy.signal
import scipy.sparse
import scipy.special
from override_cases import MATRIX, PLAIN, module_of, slope_is_right

import cotan as ct


def test_constants_give_their_memory():
    def f(x):
        made = np.linspace(0.0, 1.0, 3)
        assert made.tobytes() == np.linspace(0.0, 1.0, 3).tobytes() or not isinstance(
            made, ct.Array
        )
        seen = made.view(np.int64)
        with pytest.raises(ValueError, match="read-only"):
            seen[0] = 1
        return x * seen[2]

    assert ct.gradient(f, 1.0) == (float(np.ones(1).view(np.int64)[0]),)
    with pytest.raises(TypeError, match=r"x\.tobytes would drop the gradient.*dropgrad"):
        ct.gradient(lambda x: len((x * PLAIN).tobytes()) * x, 1.0)
    with pytest.raises(TypeError, match="view: an active Array"):
        ct.gradient(lambda x: np.sum((x * PLAIN).view(np.int64)) * x, 1.0)


def test_resize_in_place_keeps_the_size():
    def f(x):
        made = x * np.arange(6.0)
        made.resize(6)
        made.resize(2, 3)
        made.resize((3, 2))
        made.resize()
        made.resize(None)
        one = made[2:, 1] + 0.0
        one.resize(())
        assert one.shape == ()
        return made[2, 1]

    assert ct.gradient(f, 1.0) == (5.0,)
    with pytest.raises(TypeError, match=r"resize: .* from \(6,\) to \(\)"):
        ct.gradient(lambda x: (x * np.arange(6.0)).resize(()), 1.0)
    with pytest.raises(ValueError, match="negative dimensions"):
        ct.gradient(lambda x: (x * np.arange(6.0)).resize((-2, -3)), 1.0)
    with pytest.raises(TypeError, match=r"resize: .* from \(6,\) to \(4,\)"):
        ct.gradient(lambda x: (x * np.arange(6.0)).resize(4), 1.0)


@pytest.mark.parametrize("value", [[1.0], (1.0,), [[1.0]]])
def test_a_sequence_is_no_element(value):
    for made, key in [(ct.array(0.0), ()), (ct.array([0.0, 1.0]), 0), (ct.array([[1.0]]), (0, 0))]:
        with pytest.raises(ValueError, match="setting an array element with a sequence"):
            made[key] = value
        plain = np.asarray(made)
        with pytest.raises(ValueError, match="setting an array element with a sequence"):
            plain[key] = value


def test_dlpack_takes_the_standard_s_arguments():
    x = ct.array([1.0, 2.0])
    assert x.__dlpack__(stream=None, max_version=(1, 0), dl_device=(1, 0), copy=True) is not None
    with pytest.raises(TypeError, match="unexpected keyword"):
        x.__dlpack__(nonsense=1)
    np.testing.assert_array_equal(np.from_dlpack(x, copy=True), PLAIN)


@pytest.mark.parametrize("name", ["solve_discrete_are", "solve_continuous_are"])
@pytest.mark.parametrize("part", range(4))
def test_riccati(name, part):
    given = [MATRIX / 5, np.array([[0.0], [1.0]]), np.diag([1.0, 0.3]), np.array([[0.4]])]
    direction = [np.ones((2, 2)), np.array([[0.2], [0.1]]), np.diag([0.2, 1.0]), np.ones((1, 1))]

    def f(t):
        moved = [
            m + t * d * (i == part) for i, (m, d) in enumerate(zip(given, direction, strict=True))
        ]
        return np.sum(getattr(scipy.linalg, name)(*moved) * MATRIX)

    slope_is_right(f, 0.05)
    slope = ct.grad(f)
    slope_is_right(slope, 0.05, 1e-5, 1e-4)


def test_a_function_with_a_signature():
    def f(x):
        dot = np.vectorize(lambda v, w: np.sum(v) * w, signature="(n),()->()")
        outer = np.vectorize(np.outer, signature="(n),(m)->(n,m)")
        made = outer(x * np.arange(6.0).reshape(2, 3), [x, 1.0])
        return np.sum(dot(x * np.ones((2, 3)), x)) + np.sum(made)

    slope_is_right(f)
    with pytest.raises(TypeError, match="pass all arguments by position"):
        ct.gradient(lambda x: np.vectorize(np.sum, signature="(n)->()")(a=x * PLAIN), 1.0)


def in_processes(x):
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.map(abs, [x])[0]


@pytest.mark.parametrize(
    ("f", "remedy"),
    [
        (
            lambda x: scipy.ndimage.generic_filter1d(x * MATRIX, lambda a, b: None, 3),
            "sliding_window_view",
        ),
        (lambda x: scipy.interpolate.splprep([x * PLAIN, x * PLAIN]), "CubicSpline"),
        (lambda x: np.nditer(x * PLAIN, ["buffered"]), r"x\.flat"),
        (lambda x: np.rec.fromarrays([x * PLAIN], names="a"), "one array for each field"),
        (lambda x: in_processes(x), "another process is not followed.*pool of threads"),
    ],
)
def test_refusals_name_a_remedy(f, remedy):
    with pytest.raises(TypeError, match=remedy):
        ct.gradient(f, 1.0)


@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_matrices():
    def f(x):
        p, h, m = np.matrix(np.eye(2)), np.matrix([[1.0, 0.5]]), np.matrix([[1, x], [0, 1]])
        s = np.matrix(np.zeros((2, 1)))
        s[0, 0], s[1] = x, 2 * x
        p = m * p * m.T + np.diag([0.1, 0.2])
        k = p * h.T * np.linalg.inv(h * p * h.T + 0.3)
        s = s + k * (1.0 - h * s)
        p = (np.eye(2) - k * h) * p
        assert isinstance(p, np.matrix) and isinstance(p, np.ndarray)
        assert s[:, 0].shape == (2, 1) and p[0].shape == (1, 2) and p.ravel().shape == (1, 4)
        total = (s.T * p.I * s)[0, 0] + p.A1[2] + np.trace(p) + p.sum() + p.sum(axis=0)[0, 1]
        total += (p**2)[0, 0] + (2 * np.eye(2) * p)[1, 0] + np.multiply(p, p).sum()
        total += np.linalg.det(p) + np.sin(p)[0, 1] + (p.T @ p)[0, 0] + np.hstack([p, s])[1, 2]
        total += (MATRIX * p)[0, 1] + (p * MATRIX)[1, 0] + (h * p)[0, 1] + p.tolist()[0][1]
        for row in p:
            total += row[0, 1]
        p += 1
        p *= 2
        return total + p.mean() + (2 * p - p / 3)[0, 1] + abs(-p).max() + (p > 1).sum()

    slope_is_right(f)


@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_matrices_of_constants():
    def f(x):
        m = np.matrix([[1.0, 2.0], [3.0, 4.0]])
        assert isinstance(m * m, np.matrix) and not isinstance(m.A, np.matrix)
        return x * (m * m)[0, 0]

    assert ct.gradient(f, 1.0) == (7.0,)


@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_what_matrices_say_that_they_are():
    code = """
import numpy as np
def f(x):
    m, one = np.matrix([[x, 1.0], [2.0, x]]), np.matrix(np.eye(2))
    made = m, one, np.block([[m, one], [one, m]]), m[0:1], m * one, m.I, np.linalg.inv(m)
    assert all(isinstance(a, np.matrix) for a in made)
    assert isinstance(m.A, np.ndarray) and not isinstance(m.A, np.matrix)
    return m.sum()
"""
    module = module_of(code)
    assert ct.gradient(module.f, 3.0) == (2.0,)


def test_elements_of_a_plain_array():
    for f in (
        lambda x: np.sum(x * PLAIN - PLAIN.flat),
        lambda x: np.sum(PLAIN.flat * (x * PLAIN)),
        lambda x: (x * PLAIN) @ PLAIN.flat,
        lambda x: np.sum(np.add(x * PLAIN, PLAIN.flat)),
    ):
        slope_is_right(f)


def test_scalars_have_no_length():
    def f(x, a):
        assert not hasattr(x, "__len__")
        assert not hasattr(a[0], "__len__")
        assert not hasattr(np.sum(a), "__len__")
        assert hasattr(a, "__len__")
        assert hasattr(a[:1], "__len__")
        assert len(a) == 2
        for scalar in (x, a[0]):
            with pytest.raises(TypeError, match="len"):
                len(scalar)
        return x

    ct.gradient(f, 1.0, np.ones(2))


def test_what_is_made_of_nothing_is_a_plain_array():
    def f(x):
        kind = type(np.array([]))
        assert kind is type(np.zeros((0, 3))) is np.ndarray
        assert not isinstance(x, kind)
        return np.sum(np.append(np.array([]), x)) + np.sum(np.vstack((np.zeros((0, 1)), [[x]])))

    assert ct.gradient(f, 1.0) == (2.0,)


def test_distances_of_points_are_numbers_of_python():
    def f(x):
        apart = math.dist([np.float32(1.0) * x, 1.0], np.array([3.0, 4.0]))
        assert apart.__class__ is float
        return apart

    value, (slope,) = ct.value_and_gradient(f, 1.1)
    expected = math.hypot(float(np.float32(1.1)) - 3.0, 3.0)
    assert value == pytest.approx(expected, rel=1e-12)
    assert slope == pytest.approx((float(np.float32(1.1)) - 3.0) / expected, rel=1e-6)


def test_what_numpy_makes_a_number_of_is_written():
    def f(x):
        a = np.zeros(4)
        a[0], a[1], a[2] = None, fractions.Fraction(1, 4), "2.5"
        assert np.isnan(a[0])
        a[0] = x
        with pytest.raises((TypeError, ValueError)):
            a[3] = "five"
        return np.sum(a * a[1])

    assert ct.value_and_gradient(f, 1.0) == (3.75 / 4, (0.25,))


def test_dtypes_that_we_have_no_arrays_of():
    def f(x, a):
        assert np.zeros(3).astype(np.int8).dtype == np.int8
        assert (x * a > 1).astype("u2").tolist() == [0, 1]
        assert a.astype(np.int16).tolist() == [1, 2]
        assert np.ones(1).astype(str).tolist() == ["1.0"]
        assert np.ones(1).astype(object).dtype == object
        with pytest.raises(TypeError):
            a.astype(object)
        return x

    ct.gradient(f, 1.0, np.array([1.0, 2.5]))


def test_extended_precision_is_refused_by_name():
    module = types.ModuleType("program")
    text = (
        "import numpy as np\n"
        "def f(x): return np.longdouble(x) * 2\n"
        "def g(x): return np.float64(np.longdouble(2.0)) * x\n"
    )
    exec(text, vars(module))
    with pytest.raises(TypeError, match=r"np.longdouble\(x\): extended precision.*np.float64"):
        ct.gradient(module.f, 1.0)
    assert ct.gradient(module.g, 1.0) == (2.0,)
    with pytest.raises(TypeError, match="extended precision.*np.float64"):
        ct.gradient(lambda x: np.longdouble(x), 1.0)

    def written(x):
        z = np.zeros(2, np.longdouble)
        z[0] = x
        return z.sum()

    with pytest.raises(TypeError, match="not of np.longdouble"):
        ct.gradient(written, 1.0)
