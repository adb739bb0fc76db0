"""Arrays that are made while something is recorded, numbers of `math`, elements and rows."""

import cmath
import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from override_cases import X, differences

import cotan as ct

# --------------------------------------------------------------------------------------------------
# Making arrays


@pytest.mark.parametrize(
    "make",
    [
        lambda x: np.array([x, 1.0, 2 * x]),
        lambda x: np.array([[x, 0], [1, x]]),
        lambda x: np.array((x, x), dtype=np.float32),
        lambda x: np.array([x * np.ones(2), [1.0, x]]),
        lambda x: np.asarray([x, x]),
        lambda x: np.asarray(x),
        lambda x: np.atleast_1d(x),
        lambda x: np.array(x, ndmin=2),
        lambda x: np.asfortranarray([[x, 1.0]]),
        lambda x: np.ascontiguousarray(x),
        lambda x: np.require([x, x], requirements="C"),
        lambda x: np.full((2, 3), x),
        lambda x: np.full(3, x, dtype=complex),
        lambda x: np.full_like(np.zeros(2), x),
        lambda x: np.arange(x, x + 3.0),
        lambda x: np.arange(3) * x,
        lambda x: np.linspace(0.0, x, 4),
        lambda x: np.logspace(0.0, x, 4),
        lambda x: np.fromiter((x * i for i in range(3)), float),
        lambda x: np.fromiter([x, x, x], float, count=2),
        lambda x: np.fromfunction(lambda i, j: i * x + j, (2, 3)),
        lambda x: np.r_[x, 1.0, [x, 2.0]],
        lambda x: np.c_[np.array([x, 1.0]), np.array([2.0, x])],
        lambda x: np.mgrid[-x:3, 0:2],
        lambda x: np.mgrid[0:x:3j, 1:2:2j],
        lambda x: np.mgrid[0:2:x, :2] - np.mgrid[x:9:4j][1],
        lambda x: sum(np.ogrid[0 : 2 * x, x:4:0.5]),
        lambda x: np.diag([x, 2.0]),
        lambda x: np.eye(2) * x,
        lambda x: np.vectorize(lambda a, b: math.sin(a) if b > 1 else a)([x, 2 * x], [1, 2]),
        lambda x: np.vectorize(lambda a: (a, a * a))(np.array([x, 1.0]))[1],
        lambda x: np.array([v for _, v in np.ndenumerate(np.array([[x, 1.0]]))]),
        lambda x: np.block([[np.eye(2) * x, np.zeros((2, 1))]]),
        lambda x: np.concatenate(([x], [1.0, x])),
        lambda x: np.array([np.float32(1.0), x]),
        lambda x: np.copy([x, 2 * x]),
        lambda x: np.full(np.broadcast(x, np.zeros((2, 3))).shape, x),
        lambda x: np.linspace(np.float32(0.0), x, 3),
        lambda x: np.hypot.reduce([-x]) + np.hypot.reduce(np.array([[-x], [2.0]]), axis=1),
    ],
)
def test_made_of_traced_values(make):
    def f(x):
        y = make(x)
        return np.sum(np.real(y) * np.arange(1.0, np.size(y) + 1).reshape(np.shape(y)))

    x = 1.25
    plain = make(x)
    seen = []

    def g(x):
        y = make(x)
        seen.append((np.shape(y), y.dtype))
        return f(x)

    value, (gradient,) = ct.value_and_gradient(g, x)
    assert seen == [(np.shape(plain), plain.dtype)]
    rough = plain.dtype == np.float32
    assert value == pytest.approx(f(x), rel=1e-6 if rough else 1e-13)
    expected = (f(x + 1e-2) - f(x - 1e-2)) / 2e-2
    assert gradient == pytest.approx(expected, rel=2e-3)


def test_a_vectorized_function_of_what_it_closes_over():
    plain = np.array([1.0, -2.0, 3.0])
    f = lambda x: np.sum(np.vectorize(lambda a: a * x if a > 0 else 0.0)(plain))
    assert ct.gradient(f, 2.5) == (4.0,)
    counts = ct.gradient(lambda x: x * np.vectorize(lambda a: int(a > 0))(plain).sum(), 1.0)
    assert counts == (2.0,)


def test_a_vectorized_function_is_called_as_numpy_calls_it():
    class Step:
        def __init__(self, height):
            self.height, self.called = height, 0

        def at(self, t):
            self.called += 1
            return self.height if t > 1.0 else 0.0

    def f(x, t):
        step = Step(x)
        y = np.vectorize(Step.at, otypes=[float])(step, t)
        assert step.called == np.size(t) and isinstance(y, np.ndarray) and y.shape == np.shape(t)
        return np.sum(y)

    assert ct.gradient(lambda x: f(x, 1.5), 3.0) == (1.0,)
    assert ct.gradient(lambda x: f(x, [0.5, 1.5, 2.0]), 3.0) == (2.0,)
    kinds = lambda x: np.vectorize(lambda a, b: b * (type(a) is int) * (type(b) is float))
    assert ct.gradient(lambda x: x * kinds(x)([1, 2], 1.5).sum(), 3.0) == (3.0,)
    # NumPy finds the dtype by a call with one of its scalars.
    with pytest.raises(ZeroDivisionError), np.errstate(divide="ignore"):
        ct.gradient(lambda x: x * np.vectorize(lambda a: 1.0 / a)([0.0]).sum(), 3.0)


class Measured(np.ndarray):
    pass


@pytest.mark.parametrize("cache", [False, True])
def test_a_vectorized_function_of_constants_gives_what_numpy_gives(cache):
    calls = []

    def noted(x, y=0):
        calls.append((type(x).__name__, x, y))
        return x + y

    def several(x):
        return x * 2, str(x)

    def run():
        calls.clear()
        add, pair = np.vectorize(noted, cache=cache), np.vectorize(several)
        grid = np.arange(6, dtype=np.int16).reshape(2, 3)
        made = [add(grid.T), add(grid, 1), add(np.float32([0.5, 1.0])), add(3), *pair(grid)]
        made.append(np.vectorize(lambda x: [x], otypes=[object])(grid))
        made.append(add(grid.view(Measured)))
        return made, list(calls)

    found = []
    ct.gradient(lambda x: (found.append(run()), x)[1], 1.0)
    (made, called), (expected, expected_calls) = found[0], run()
    assert sorted(called, key=str) == sorted(expected_calls, key=str)
    for one, other in zip(made, expected, strict=True):
        assert one.dtype == other.dtype and one.tolist() == other.tolist()
    assert type(made[-1]) is Measured


def test_compiled_code_that_takes_memory_is_told_what_has_it():
    vq = pytest.importorskip("scipy.cluster._vq")
    with pytest.raises(TypeError, match=r"got cotan\.Array.*np\.asarray\(x\).*ct\.dropgrad\(x\)"):
        ct.gradient(lambda x: np.sum(vq.vq(x, x[:2])[1]), np.arange(5.0)[:, None])


def test_what_is_broadcast_is_iterated_over():
    table = np.array([[1.0, 2.0], [3.0, 4.0]])

    def f(x):
        b = np.broadcast(np.array([x, 2 * x]), [[3.0], [4.0]])
        assert (b.shape, b.ndim, b.nd, b.size, b.numiter) == ((2, 2), 2, 2, 4, 2)
        first = next(b)
        assert isinstance(first[0], np.float64)
        assert b.index == 1
        total = sum(p * q for p, q in b)
        b.reset()
        total = total + sum(p * q for p, q in b) * x
        made = np.array([[1.0], [2.0]])
        total = total + sum(p * q for p, q in np.broadcast(made, table)) * x
        return total + sum(sum(p) for p in np.broadcast(x, table).iters)

    value, (slope,) = ct.value_and_gradient(f, 0.7)
    assert value == pytest.approx(f(0.7), rel=1e-12)
    assert slope == pytest.approx((f(0.7 + 1e-6) - f(0.7 - 1e-6)) / 2e-6, rel=1e-6)


def test_iterators_over_memory():
    made = []

    def f(x):
        made.extend(float(v) for v in np.nditer(np.array([1.0, 2.0])))
        with pytest.raises(TypeError, match=r"nditer: .* x\.flat, np\.ndenumerate"):
            np.nditer(np.array([x, x]), ["external_loop"])
        return x

    ct.gradient(f, 1.0)
    assert made == [1.0, 2.0]


def test_arrays_that_do_not_fit_together_are_elements_of_an_array_of_objects():
    """Weights of all layers, say."""
    layers = [np.ones((3, 2)), np.ones((1, 2)), np.ones((2, 4))]

    def f(x, kind):
        weights = np.array([kind(w, x) for w in layers], dtype=object)
        assert weights.shape == (3,) and weights[0].shape == (3, 2)
        weights = weights - 0.5 * weights**2
        weights += np.array([[x, 1.0], None, [x]], dtype=object)[2][0] * weights
        return np.sum(weights[0]) * np.sum(weights[2])

    for kind in (lambda w, x: w * x, lambda w, x: w * x if len(w) > 1 else w):
        value, (slope,) = ct.value_and_gradient(lambda x, kind=kind: f(x, kind), 1.25)
        assert value == pytest.approx(f(1.25, kind))
        wanted = (f(1.25 + 1e-6, kind) - f(1.25 - 1e-6, kind)) / 2e-6
        assert slope == pytest.approx(wanted, rel=1e-6)
    with pytest.raises(ValueError, match="could not broadcast"):
        ct.gradient(lambda x: np.array([x * np.ones((2, 3)), np.ones((2, 4))], object)[0], 1.0)


def test_what_cannot_be_made():
    with pytest.raises(ValueError, match="shapes"):
        ct.gradient(lambda x: np.sum(np.array([x, [x, x]])), 1.0)
    with pytest.raises(ValueError, match="too short"):
        ct.gradient(lambda x: np.sum(np.fromiter([x], float, count=3)), 1.0)
    with pytest.raises(TypeError, match="leave out dtype=object"):
        ct.gradient(lambda x: np.sum(np.sin(np.array([x, x], dtype=object))), 1.0)


# --------------------------------------------------------------------------------------------------
# math

UNARY = {
    **dict.fromkeys(["sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan"], 0.3),
    **dict.fromkeys(["asinh", "atanh", "exp", "expm1", "sqrt", "log", "log2", "log10"], 0.3),
    **dict.fromkeys(["log1p", "erf", "erfc", "degrees", "radians", "fabs", "acosh"], 1.3),
    **{name: 0.7 for name in ("cbrt", "exp2") if hasattr(math, name)},
}


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_number(name):
    x = UNARY[name]
    value, (gradient,) = ct.value_and_gradient(lambda x: getattr(math, name)(x), x)
    f = getattr(math, name)
    assert value == pytest.approx(f(x), rel=4e-16)
    assert gradient == pytest.approx((f(x + 1e-6) - f(x - 1e-6)) / 2e-6, rel=1e-7)
    second = ct.gradient(lambda x: ct.gradient(lambda y: getattr(math, name)(y), x)[0], x)[0]
    expected = (f(x + 1e-4) - 2 * f(x) + f(x - 1e-4)) / 1e-8
    assert (0.0 if second is None else second) == pytest.approx(expected, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: math.pow(x, 2.5),
        lambda x: math.pow(2.0, x),
        lambda x: math.atan2(x, 2.0) + math.atan2(0.5, x),
        lambda x: math.hypot(x, 2.0, x * x),
        lambda x: math.dist([x, 1.0], (0.0, x * x)),
        lambda x: math.fmod(5.0 * x, 1.5) + math.fmod(7.0, x),
        lambda x: math.remainder(5.0 * x, 1.5),
        lambda x: math.copysign(x, -2.0),
        lambda x: math.log(x, 3) + math.log(7.0, x + 2),
        lambda x: math.gamma(x) * math.lgamma(x + 1.5),
        lambda x: math.modf(3 * x)[0] + math.modf(3 * x)[1],
        lambda x: math.frexp(x)[0] * math.frexp(x)[1],
        lambda x: math.ldexp(x, 3),
        lambda x: math.fsum([x, x * x, 1.0]),
        lambda x: math.prod([x, x * x, 2.0], start=3),
        lambda x: x * math.floor(x) + math.ceil(x) + math.trunc(x),
        lambda x: x if math.isfinite(x) and not math.isnan(x) and math.isclose(x, x) else 0 * x,
        lambda x: abs(cmath.exp(1j * x) + cmath.sqrt(x) + cmath.log(x + 1j)) ** 2,
        lambda x: cmath.polar(x + 2j)[0] + cmath.phase(x + 2j) + cmath.rect(x, x).imag,
    ],
)
def test_other_functions_of_numbers(f):
    x = 1.3
    value, (gradient,) = ct.value_and_gradient(f, x)
    assert value == pytest.approx(f(x), rel=1e-14)
    assert gradient == pytest.approx((f(x + 1e-6) - f(x - 1e-6)) / 2e-6, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("f", [math.fmod, math.remainder])
def test_remainders_are_exact(f):
    numbers = [1.0, 0.1, 0.7, -4.2, 6.0, 7.5, 1e20, 3.0, 1e-300, 1e308, math.inf, math.nan, -0.0]
    for x, y in itertools.product(numbers, numbers):
        seen = []

        def g(x, y, seen=seen):
            z = f(x, y)
            seen.append(np.asarray(ct.dropgrad(z)))
            return z

        try:
            wanted = f(x, y)
        except ValueError:
            with pytest.raises(ValueError, match="math domain error"):
                ct.gradient(g, x, y)
            continue
        slopes = ct.gradient(g, x, y)
        np.testing.assert_array_equal(seen[0], wanted)
        assert math.isnan(wanted) or math.copysign(1.0, seen[0]) == math.copysign(1.0, wanted)
        assert math.isnan(wanted) or slopes[0] == 1.0
    assert ct.gradient(f, 7.5, 2.0) == (1.0, -3.0 if f is math.fmod else -4.0)


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (lambda x: math.sqrt(x), -1.0),
        (lambda x: math.log(x), 0.0),
        (lambda x: math.acos(x), 2.0),
        (lambda x: math.exp(x), 1000.0),
        (lambda x: math.pow(x, 0.5), -1.0),
        (lambda x: math.fmod(1.0, x), 0.0),
        (lambda x: math.sin(np.array([x, x])), 1.0),
        (lambda x: math.sin(1j * x), 1.0),
        (lambda x: math.dist([x], [x, x]), 1.0),
    ],
)
def test_values_that_math_refuses(f, x):
    with pytest.raises(Exception) as expected:  # noqa: PT011
        f(x)
    with pytest.raises(expected.type):
        ct.gradient(f, x)


# --------------------------------------------------------------------------------------------------
# Elements and rows


def fill(x):
    """Write every kind of element and row, in several orders, and read in between."""
    out, table = np.zeros(5), np.empty((4, 3))
    out[0] = 7.0
    for i in range(4):
        out[i + 1] = out[i] * x[i % 3]
    table[:] = 2.0
    for i in range(1, 4):
        table[i] = table[i - 1] * x + out[i]
    table[2, 1] = x[0]
    table[0, :2] = out[:2]
    row = table[3]
    row[0] += x[2]
    row *= 2.0
    out[-1] = 3.0
    out[1:3] += 1.0
    table.T[2][1] = out[2] * x[1]
    return np.sum(table * table) + np.sum(out * np.arange(5.0)) + out[4] * out[3]


def test_elements_and_rows():
    value, (gradient,) = ct.value_and_gradient(fill, X)
    assert value == pytest.approx(fill(X), rel=1e-14)
    np.testing.assert_allclose(gradient, differences(fill, X), rtol=1e-6)


def test_elements_that_nothing_was_written_into_are_numpys_scalars():
    def f(x):
        out = np.zeros(3)
        out[1] = x
        assert type(out[0]) is np.float64 and isinstance(out[1], ct.Array)
        out[1] = 4.0
        assert type(out[1]) is np.float64 and out[1] == 4.0
        single = np.ones(2, np.float32)
        single[0] = 0.1
        assert type(single[0]) is np.float32 and single[0] == np.float32(0.1)
        return x

    ct.gradient(f, 1.0)


def test_whole_numbers_stay_plain():
    def f(x):
        counts = np.zeros(3, int)
        counts[1] += 1
        assert type(counts) is np.ndarray
        counts[2] = int(x)
        mask = np.zeros(2, bool)
        mask[0] = x > 1
        assert type(mask) is np.ndarray and mask[0]
        return x * counts[1] * counts[2]

    assert ct.gradient(f, 2.5) == (2.0,)


def test_a_program_of_elements_has_one_equation_for_each():
    def f(x):
        out = np.zeros(50)
        for i in range(50):
            out[i] = x * i
        return np.sum(out)

    program = ct.trace(f, 1.0)
    names = [e.primitive for e in program.equations] if hasattr(program, "equations") else None
    text = str(program)
    assert text.count("stack") == 1 and "update" not in text and "scatter" not in text, names


INDEX = st.integers(-4, 3)
VALUE = st.sampled_from(
    ["x[0]", "x[1] * 2", "1.5", "a[1]", "t[2, 1]", "np.sin(x[2])", "np.float32(2)"]
)
ROW = st.sampled_from(["x * 1.5", "t[1]", "2.0", "t[:, 0][:3]", "a[:3]", "t[-1] + x"])
TARGET = st.sampled_from(["a", "b", "u"])
LINES = st.one_of(
    st.builds("{}[{}] = {}".format, TARGET, INDEX, VALUE),
    st.builds("{}[{}] += {}".format, TARGET, INDEX, VALUE),
    st.builds("t[{}] = {}".format, INDEX, ROW),
    st.builds("t[{}] *= {}".format, INDEX, ROW),
    st.builds("t[{}, {}] = {}".format, INDEX, st.integers(-3, 2), VALUE),
    st.builds("v[{}] = {}".format, st.integers(-3, 2), VALUE),
    st.builds("w[{}] -= {}".format, INDEX, VALUE),
    st.builds("a[{}:] = b[:{}]".format, st.just(1), st.just(3)),
    st.builds("keep.append({})".format, st.sampled_from(["a[0]", "t[2]", "v", "a * 2", "t[1:3]"])),
    st.sampled_from(
        [
            "a = a + b",
            "b = a",
            "v = t[2]",
            "w = t[:, 1]",
            "u = a[::-1]",
            "t = t.T.copy().T",
            "total = total + a[1] * t[1, 2]",
            "total = total + np.sum(t)",
            "a[:] = 1.0",
            "a.sort()",
            "np.add.at(a, [0, 0, 2], x)",
        ]
    ),
)


def run_lines(lines, x):
    env = {"np": np, "x": x, "total": 0.0, "keep": []}
    start = "a, b, t = np.zeros(4), np.ones(4), np.full((4, 3), 0.5)\n"
    text = start + "v, w, u = t[1], t[:, 0], a[::-1]\n" + "\n".join(lines)
    exec(compile(text, "<lines>", "exec"), env)
    parts = [env[n] for n in "abtvwu"] + env["keep"]
    return env["total"] + sum(np.sum(p * p) * (i + 1) for i, p in enumerate(parts))


@given(st.lists(LINES, min_size=1, max_size=14))
def test_random_writes_of_elements_and_rows(lines):
    f = lambda x: run_lines(lines, x)
    x = np.array([0.3, -0.7, 1.1])
    expected = f(x)
    value, (gradient,) = ct.value_and_gradient(f, x)
    assert value == pytest.approx(expected, rel=1e-10)
    gradient = np.zeros(3) if gradient is None else gradient
    np.testing.assert_allclose(gradient, differences(f, x), rtol=1e-4, atol=1e-4 * (1 + abs(value)))


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.ndarray((3,)),
        lambda: np.ndarray(3),
        lambda: np.ndarray(shape=(3,), dtype=float),
        lambda: np.ndarray([3], complex, order="F"),
        lambda: getattr(np, "ndarray")(3),  # noqa: B009
    ],
)
def test_a_call_of_the_class_makes_an_array(make):
    def loss(x):
        out = make()
        for i in range(3):
            out[i] = x * (i + 1)
        assert isinstance(out, np.ndarray)
        assert isinstance(out, getattr(np, "ndarray"))  # noqa: B009
        assert type(out) is np.ndarray or ct.isderiving()
        return np.sum(abs(out) ** 2)

    assert ct.gradient(loss, 0.5)[0] == pytest.approx(14.0)
    assert np.ndarray is type(np.zeros(2))
