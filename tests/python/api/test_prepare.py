"""Prepared functions: the same results, whatever changes between calls."""

import contextlib
import math
import pickle
import subprocess
import sys
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest

import cotan as ct

TABLE = np.array([0.0, 1.0, 4.0, 9.0])
X = np.linspace(-1.0, 2.0, 12)
C = np.linspace(0.5, 1.5, 12)


def seed(x, c):
    return np.sum(np.sin(x) * np.cos(c))


def flat(value):
    """Leaves of a result, with None, in order."""
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in flat(item)]
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in flat(item)]
    return [value]


def expect_same(got, wanted):
    got, wanted = flat(got), flat(wanted)
    assert len(got) == len(wanted)
    for a, b in zip(got, wanted, strict=True):
        assert type(a) is type(b)
        if b is not None and not isinstance(b, ct.Tangent):
            assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
            assert np.asarray(a).dtype == np.asarray(b).dtype


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("n", [1, 10, 1000, 100_000])
def test_results_are_the_same_bits(dtype, n):
    rng = np.random.default_rng(n)
    x, c = rng.standard_normal((2, n)).astype(dtype)
    f = seed if dtype != "complex128" else lambda x, c: np.sum(np.abs(x * c))
    g = ct.prepare(f, x, ct.const(c))
    v = ct.prepare(f, x, c, transform="value_and_gradient")
    for _ in range(3):
        expect_same(g(x, c), ct.gradient(f, x, ct.const(c)))
        expect_same(v(x, c), ct.value_and_gradient(f, x, c))
        x = x + c
    assert g.num_recordings == v.num_recordings == 1


def test_the_code_does_not_run_again():
    runs = SimpleNamespace(count=0)

    def f(x):
        runs.count += 1
        return np.sum(x**2)

    with pytest.raises(TypeError, match="changes closure variable runs.count"):
        ct.prepare(f, X)

    def counted(x):
        seen[0] += 1
        return np.sum(x * x)

    seen = np.zeros(1)
    with pytest.raises(TypeError, match="changes"):
        ct.prepare(counted, X)


PYTHON_IS_NOT_RUN_AGAIN = """
import sys

import numpy as np

import cotan as ct


def f(x):
    sys.audit("cotan.test")
    return np.sum(x**2)


runs = []
# A hook that nobody can remove again: the process is for this alone.
sys.addaudithook(lambda event, _: runs.append(event) if event == "cotan.test" else None)
x = np.arange(3.0)
g = ct.prepare(f, x)
for i in range(3):
    np.testing.assert_array_equal(g(x + i)[0], 2 * (x + i))
assert len(runs) == 1, runs
"""


def test_python_is_not_run_again():
    subprocess.run([sys.executable, "-c", PYTHON_IS_NOT_RUN_AGAIN], check=True)


def test_records_for_shapes_dtypes_and_structures():
    g = ct.prepare(lambda x, p=None: np.sum(x * x) if p is None else np.sum(x * p["w"]))
    for n in (3, 4, 3):
        expect_same(g(np.arange(float(n))), (2 * np.arange(float(n)),))
    assert g.num_recordings == 2
    g(np.arange(3, dtype="f4"))
    assert g.num_recordings == 3
    got = g(X, {"w": C, "name": "a"})
    expect_same(got[0], C)
    expect_same(got[1]["w"], X)
    assert got[1]["name"] is None
    g(X, {"w": C, "name": "a"})
    assert g.num_recordings == 4
    g(X, {"w": C, "name": "b"})
    assert g.num_recordings == 5


def test_kinds_of_results():
    def f(a, b, c, d):
        return a * b * np.sum(c) * ct.sum(d)

    args = (2.0, np.float32(3.0), np.ones(2), ct.array([1.0, 2.0]))
    g = ct.prepare(f, *args)
    got, wanted = g(*args), ct.gradient(f, *args)
    for a, b in zip(got, wanted, strict=True):
        assert type(a) is type(b)
        assert np.array_equal(np.asarray(a), np.asarray(b))
    assert ct.prepare(lambda x: x**2)(3) == (6.0,)


@dataclass
class Layer:
    w: np.ndarray
    b: np.ndarray
    name: str = "layer"


def test_structures():
    def loss(layers, x):
        for layer in layers:
            x = np.tanh(x @ layer.w + layer.b)
        return np.sum(x)

    layers = [Layer(np.eye(3) * s, np.ones(3) * s) for s in (0.5, 0.25)]
    x = np.arange(6.0).reshape(2, 3)
    g = ct.prepare(loss, layers, ct.const(x))
    for s in (1.0, 2.0):
        layers = [Layer(layer.w * s, layer.b + s) for layer in layers]
        got, wanted = g(layers, x)[0], ct.gradient(loss, layers, ct.const(x))[0]
        for a, b in zip(got, wanted, strict=True):
            assert type(a) is type(b)
            expect_same([a.w, a.b], [b.w, b.b])
    assert g.num_recordings == 1
    g = ct.prepare(loss, wrt=["layers[*].b"])
    expect_same(g(layers, x)[0][0].b, ct.gradient(loss, layers, x, wrt=["layers[*].b"])[0][0].b)
    assert g(layers, x)[1] is None


def test_branches_are_guards():
    def f(x):
        y = np.sum(x)
        if y > 1:
            return y * y
        if y > 0:
            return 3 * y
        return np.sum(x**3)

    g = ct.prepare(f, X)
    rng = np.random.default_rng(0)
    for _ in range(40):
        x = rng.standard_normal(3)
        expect_same(g(x), ct.gradient(f, x))
    assert g.num_recordings == 4


def test_loops_that_look_at_values():
    def root(a):
        x = a
        while abs(x * x - a) > 1e-12:
            x = 0.5 * (x + a / x)
        return x

    g = ct.prepare(root, 2.0)
    for a in (2.0, 3.0, 100.0, 2.5, 1e6, 2.0):
        assert g(a) == ct.gradient(root, a)


def test_whole_numbers_that_leave_are_guards():
    def f(x):
        return x ** int(x) + round(x) * x + math.floor(x) * x

    g = ct.prepare(f, 2.3)
    for x in (2.3, 2.4, 3.6, 2.3, -1.0):
        assert g(x) == ct.gradient(f, x)


def test_an_index_by_value_is_a_guard():
    table = np.array([1.0, 10.0, 100.0])

    def f(x, i):
        return np.sum(x[i] * table) + np.sum(x[x > 0])

    g = ct.prepare(f)
    for i in (np.array([0, 1, 1]), np.array([2, 2, 0])):
        for x in (X, -X):
            expect_same(g(x, ct.const(i)), ct.gradient(f, x, ct.const(i)))


@pytest.mark.parametrize(
    "leak",
    [
        lambda x: ct.dropgrad(x).__array__() @ x,
        lambda x: print(x) or np.sum(x),
        lambda x: np.sum(x) * len(f"{x[0]}"),
    ],
)
def test_values_that_leave_are_refused(leak):
    with pytest.raises(TypeError, match=r"prepare: .*test_prepare.py:\d+: .*(hook|is recorded)"):
        ct.prepare(leak, X)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: ct.dropgrad(x).tolist()[0] * np.sum(x),
        lambda x: float(ct.dropgrad(x)[0]) * np.sum(x),
    ],
    ids=["list", "float"],
)
def test_lists_and_numbers_of_values_are_traced(f):
    g = ct.prepare(f)
    for x in (X, 2 * X):
        expect_same(g(x), ct.gradient(f, x))
    assert g.num_recordings == 1


def test_numbers_that_leave_are_refused_under_strict():
    with ct.strict(), pytest.raises(TypeError, match=r"prepare: .*test_prepare.py:\d+: float"):
        ct.prepare(lambda x: float(ct.dropgrad(x)[0]) * np.sum(x), X)


def test_a_refusal_cannot_be_caught():
    def f(x):
        with contextlib.suppress(TypeError):
            ct.dropgrad(x).__array__()
        return np.sum(x)

    with pytest.raises(TypeError, match="prepare: "):
        ct.prepare(f, X)


@pytest.mark.parametrize(
    "write",
    [
        "K[[0, 2]] = 3.0; K * x",
        "K[[0, 2]] += x[:2]; K * x",
        "np.put(K, [0, 2], x[:2]); K * x",
        "K[np.array([True, False, True])] = 3.0; K * x",
        "np.add.at(K, [0, 0, 2], 1.0); K * x",
        "v = M[1]; v[[0, 1]] = 2.0; w = M.T[0]; w[[1, 2]] += x[0]; M @ x",
        "M[np.ix_([0, 1], [0, 1])] += np.outer(x[:2], x[:2]); M",
        "np.fill_diagonal(M, 2.0); M @ x",
        "L = [K, M[0], M[1]]; [k.__setitem__([0, 2], 1.0) for k in L]; sum(k * x for k in L)",
    ],
)
def test_arrays_that_the_function_makes_and_writes_are_not_watched(write):
    *steps, result = write.split("; ")
    lines = ["def f(x):", "K = np.zeros(3)", "M = np.zeros((3, 3))", *steps]
    names = {"np": np}
    exec("\n    ".join([*lines, f"return np.sum({result})"]), names)
    f, x = names["f"], np.array([0.5, 1.5, -2.0])
    prepared = ct.prepare(f, x)
    for k in range(4):
        expect_same(prepared(k * x), ct.gradient(f, k * x))
    assert prepared.num_recordings == 1


def test_comparisons_of_lists_are_watched():
    def f(x):
        return np.sum(x) if np.isclose([x[0], x[1]], [1.0, 1.0]).all() else 2.0 * np.sum(x)

    prepared = ct.prepare(f, np.ones(3))
    for x in (np.ones(3), np.arange(3.0), np.ones(3)):
        expect_same(prepared(x), ct.gradient(f, x))


def test_random_numbers_are_refused():
    with pytest.raises(TypeError, match=r"default_rng\(\) without a seed"):
        ct.prepare(lambda x: np.sum(x * np.random.default_rng().standard_normal(12)), X)
    with pytest.raises(TypeError, match=r"RandomState\(\) without a seed"):
        ct.prepare(lambda x: np.sum(x * np.random.RandomState().standard_normal(12)), X)
    rng = np.random.default_rng(0)
    with pytest.raises(TypeError, match="random numbers"):
        ct.prepare(lambda x: np.sum(x * np.random.standard_normal(12)), X)  # noqa: NPY002
    with pytest.raises(TypeError, match="random numbers"):
        ct.prepare(lambda x: np.sum(x * rng.standard_normal(12)), X)
    with pytest.raises(TypeError, match="random numbers"):
        ct.prepare(lambda x, r: np.sum(x * r.standard_normal(12)), X, ct.const(rng))


def test_what_it_closes_over_counts_with_its_present_value():
    w = C.copy()
    scale = 2.0

    def f(x):
        return np.sum(x * w * scale) + np.sum((w + 1) * x)

    g = ct.prepare(f, X)
    expect_same(g(X), ct.gradient(f, X))
    w[3] = 7.0
    expect_same(g(X), ct.gradient(f, X))
    w *= 2
    expect_same(g(X), ct.gradient(f, X))
    scale = 5.0
    expect_same(g(X), ct.gradient(f, X))
    assert g.num_recordings >= 2


SCALE = 3.0


def helper(x):
    return x * SCALE


def test_names_of_modules_and_attributes(monkeypatch):
    state = SimpleNamespace(rate=0.5, w=C.copy(), items=[1.0, 2.0], buffer=ct.array(C))

    def f(x):
        y = helper(x) * state.rate + np.sum(state.w) * x
        return np.sum(y * state.items[1] * state.buffer)

    g = ct.prepare(f, X)
    expect_same(g(X), ct.gradient(f, X))
    monkeypatch.setitem(globals(), "SCALE", 4.0)
    expect_same(g(X), ct.gradient(f, X))
    state.rate = 0.25
    expect_same(g(X), ct.gradient(f, X))
    state.w[0] = 100.0
    expect_same(g(X), ct.gradient(f, X))
    state.items[1] = 9.0
    expect_same(g(X), ct.gradient(f, X))
    state.buffer[2] = 5.0
    expect_same(g(X), ct.gradient(f, X))


class Model:
    def __init__(self):
        self.w = C.copy()
        self.power = 2

    def loss(self, x):
        return np.sum(self.w * x**self.power)


def test_methods():
    model = Model()
    g = ct.prepare(model.loss, X)
    expect_same(g(X), ct.gradient(model.loss, X))
    model.power = 3
    expect_same(g(X), ct.gradient(model.loss, X))
    model.w = model.w + 1
    expect_same(g(X), ct.gradient(model.loss, X))


def test_writes_to_the_outside_are_refused():
    log, total, buffer = [], np.zeros(12), ct.array(np.zeros(3))

    def lists(x):
        log.append(1)
        return np.sum(x)

    def arrays(x):
        y = np.sum(x * total)
        total[0] += 1
        return y

    def handles(x):
        buffer[0] = x[0]
        return np.sum(x)

    for f in (lists, arrays, handles):
        with pytest.raises(TypeError, match="prepare: .*replay"):
            ct.prepare(f, X)


def test_constants_are_never_stale():
    c = C.copy()
    g = ct.prepare(seed, X, ct.const(c))
    for _ in range(3):
        expect_same(g(X, c), ct.gradient(seed, X, ct.const(c)))
        c += 0.125
    frozen = C.copy()
    frozen.flags.writeable = False
    expect_same(g(X, frozen), ct.gradient(seed, X, ct.const(frozen)))
    expect_same(g(X, frozen), ct.gradient(seed, X, ct.const(frozen)))
    frozen.flags.writeable = True
    frozen[0] = 9.0
    expect_same(g(X, frozen), ct.gradient(seed, X, ct.const(frozen)))
    large = np.linspace(0, 1, 200_000)
    x = large + 1
    g = ct.prepare(seed, x, ct.const(large))
    for _ in range(3):
        expect_same(g(x, large), ct.gradient(seed, x, ct.const(large)))
        large *= 0.5
    handle = ct.array(C)
    g = ct.prepare(seed, X, ct.const(handle))
    for i in range(3):
        expect_same(g(X, handle), ct.gradient(seed, X, ct.const(handle)))
        handle[i] = 4.0


def test_what_follows_from_constants_is_computed_once():
    g = ct.prepare(seed, X, ct.const(C))
    g(X, C)
    with ct.profile() as p:
        g(X, C)
    assert "cos" in p.equations
    assert p.equations["cos"] == 1  # that of x; the one of the constant is known


def test_scalars_that_are_constant_are_fixed():
    f = lambda x, n, s: np.sum(x**n) * s
    g = ct.prepare(f, X, ct.const(2), ct.const(0.5))
    for n, s in ((2, 0.5), (3, 0.5), (3, 0.25)):
        expect_same(g(X, n, s), ct.gradient(f, X, ct.const(n), ct.const(s)))
    assert g.num_recordings == 3


def test_errors_that_depend_on_values():
    def f(a):
        return np.sum(np.linalg.cholesky(a))

    good, bad = np.eye(3) * 2, -np.eye(3)
    g = ct.prepare(f, good)
    expect_same(g(good), ct.gradient(f, good))
    with pytest.raises(np.linalg.LinAlgError):
        g(bad)
    expect_same(g(good), ct.gradient(f, good))

    def safe(a):
        try:
            return np.sum(np.linalg.cholesky(a))
        except np.linalg.LinAlgError:
            return np.sum(a)

    g = ct.prepare(safe, good)
    expect_same(g(bad), ct.gradient(safe, bad))
    with pytest.raises(TypeError, match="caught"):
        ct.prepare(safe, bad)


def test_exceptions_of_the_function_arrive():
    def f(x):
        if np.sum(x) > 0:
            raise KeyError("no")
        return np.sum(x * x)

    g = ct.prepare(f)
    with pytest.raises(KeyError, match="no"):
        g(np.ones(3))
    expect_same(g(-np.ones(3)), (-2 * np.ones(3),))
    with pytest.raises(KeyError, match="no"):
        g(np.ones(3))
    with pytest.raises(ValueError, match="real scalar"):
        ct.prepare(lambda x: x, X)


def test_decorators():
    @ct.prepared
    def cube(x):
        return x**3

    assert cube(2.0) == (12.0,)
    assert cube(3.0) == (27.0,)
    assert cube.num_recordings == 1
    assert cube.__wrapped__(2.0) == 8.0


def cube(x):
    return np.sum(x**3)


@ct.prepared
def decorated(x):
    return x**3


def test_pickles_by_its_name_where_it_is_a_decorator():
    assert pickle.loads(pickle.dumps(decorated)) is decorated
    assert pickle.loads(pickle.dumps([decorated, 2.0]))[0](2.0) == (12.0,)


def test_pickles_by_its_function():
    g = ct.prepare(cube, X, transform="value_and_gradient")
    again = pickle.loads(pickle.dumps(g))
    expect_same(again(X), g(X))
    hvp = pickle.loads(pickle.dumps(ct.prepare(cube, X, C, transform="hvp")))
    expect_same(hvp(X, C), ct.hvp(cube, X, C))
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(ct.prepare(lambda x: x, 1.0))


def test_out():
    out = np.zeros(12)
    g = ct.prepare(seed, X, ct.const(C), out=(out, None))
    got = g(X, C)
    assert got[0] is out
    expect_same(got, ct.gradient(seed, X, ct.const(C)))
    other = np.zeros(12)
    assert g(X, C, out=(other, None))[0] is other
    np.testing.assert_array_equal(other, out)
    # Memory that is read and written.
    x = X.copy()
    g(x, C, out=(x, None))
    np.testing.assert_array_equal(x, out)
    c = C.copy()
    g(X, c, out=(c, None))
    np.testing.assert_array_equal(c, out)
    g = ct.prepare(lambda a, b: np.sum(a * b), X, C)
    a, b = X.copy(), C.copy()
    g(a, b, out=(b, a))
    np.testing.assert_array_equal(a, X)
    np.testing.assert_array_equal(b, C)
    g(a[::-1], b, out=(b, None))
    np.testing.assert_array_equal(b, C)
    value = np.zeros(())
    v = ct.prepare(seed, X, ct.const(C), transform="value_and_gradient")
    got = v(X, C, out=(value, (out, None)))
    assert got[0] is value
    assert float(value) == v(X, C)[0]


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ((np.zeros(11), None), r"out\[0\] has shape \(11,\), the result has \(12,\)"),
        ((np.zeros(12, "f4"), None), r"out\[0\] is float32, the result is float64"),
        ((np.broadcast_to(0.0, 12), None), r"out\[0\] is read-only"),
        ((np.zeros(12), np.zeros(12)), r"out\[1\]"),
        ((np.zeros(12),), "2"),
        ((3.0, None), r"out\[0\]"),
    ],
)
def test_out_is_checked(out, message):
    g = ct.prepare(seed, X, ct.const(C))
    with pytest.raises((TypeError, ValueError), match=message):
        g(X, C, out=out)


def test_conditions_of_scipy_are_asked_again():
    """Densities inside of their supports, and matrices that are finite, are what a replay finds."""
    from scipy import linalg, stats

    a = np.eye(3) * 3 + np.arange(9.0).reshape(3, 3) * 0.1
    programs = {
        "cdf": (lambda x: np.sum(stats.norm.cdf(x, 0.1, 1.0 + x**2)), X),
        "logpdf": (lambda x: np.sum(stats.norm.logpdf(x) + stats.expon.pdf(x**2)), X),
        "ppf": (lambda x: np.sum(stats.norm.ppf(x**2 / 20)), np.arange(1.0, 4.0)),
        "solve": (lambda a: np.sum(linalg.solve(a, np.ones(3))), a),
        "triangular": (lambda a: np.sum(linalg.solve_triangular(a, np.ones(3))), a),
        "cho_solve": (lambda a: np.sum(linalg.cho_solve(linalg.cho_factor(a @ a.T), a[0])), a),
    }
    for name, (f, x) in programs.items():
        g = ct.prepare(f, x, transform="value_and_gradient")
        for other in (x, 1.1 * x):
            value, (slope,) = ct.value_and_gradient(f, other)
            got, (found,) = g(other)
            np.testing.assert_allclose(got, value, rtol=1e-12, err_msg=name)
            np.testing.assert_allclose(found, slope, rtol=1e-9, err_msg=name)
    g = ct.prepare(lambda x: np.sum(stats.expon.pdf(x)), np.ones(2), transform="value_and_gradient")
    value, (slope,) = g(-np.ones(2))
    assert value == 0.0 and (slope is None or not np.any(slope))
    with pytest.raises(ValueError, match="infs or NaNs"):
        ct.prepare(lambda a: np.sum(linalg.solve(a, np.ones(3))), a)(a * np.nan)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: TABLE[x.astype(int)].sum() * x[0],
        lambda x: TABLE[np.argsort(x)] @ x,
        lambda x: TABLE[np.searchsorted(TABLE, x / 4)] @ x,
        lambda x: TABLE[x > 2].sum() * x[1],
        lambda x: (np.arange(8)[x.astype(int)] * x).sum(),
    ],
)
def test_plain_arrays_are_indexed_by_what_was_computed(f):
    x = np.array([1.2, 2.3, 0.1, 3.3])
    g = ct.prepare(f, x)
    for y in (x, x[::-1].copy(), x * 0.5, x + 0.01):
        np.testing.assert_allclose(g(y)[0], ct.gradient(f, y)[0])
