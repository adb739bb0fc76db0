"""Subclasses of ndarray: which are arrays like others, and what is refused."""

import copy
import operator
import pickle

import numpy as np
import pytest

import cotan as ct

X = np.array([[1.0, 2.0], [3.0, 4.0]])
MASKED = np.ma.masked_array(X, X > 3)
MATRIX = X.view(np.matrix)


class Labelled(np.ndarray):
    """Adds an attribute and nothing else."""

    label = "a"


class Unit(np.ndarray):
    """Answers ufuncs itself."""

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        return "unit"

    def __array_function__(self, func, types, args, kwargs):
        return "unit"


class Doubling(np.ndarray):
    """Means something of its own by an operator."""

    def __mul__(self, other):
        return 2 * np.asarray(self) * other


WHERE = lambda x, m: np.add(x, 1.0, where=m > 3)
WRITES = [
    lambda x, m: operator.setitem(x.copy(), slice(None), m),
    lambda x, m: operator.setitem(x.copy(), [0, 1], m),
]
USES = [
    lambda x, m: x * m,
    lambda x, m: x + m,
    lambda x, m: x / m,
    lambda x, m: x**m,
    lambda x, m: x @ m,
    lambda x, m: m @ x,
    lambda x, m: x == m,
    lambda x, m: operator.iadd(x.copy(), m),
    lambda x, m: np.multiply(x, m),
    lambda x, m: np.add(m, x, out=x.copy()),
    lambda x, m: np.add(x, 1.0, out=m.copy()),
    WHERE,
    lambda x, m: np.hypot.outer(x, m),
    lambda x, m: np.add.at(x.copy(), 0, m),
    lambda x, m: np.maximum(m, x),
    lambda x, m: np.concatenate([x, m]),
    lambda x, m: np.dot(x, m),
    lambda x, m: np.where(x > 2, x, m),
    lambda x, m: np.searchsorted(x[0], m),
    lambda x, m: np.multiply(x, 2, out=(m,)),
    lambda x, m: np.copyto(x.copy(), m),
    lambda x, m: np.clip(x, 0, m),
    *WRITES,
    lambda x, m: ct.array(m),
    lambda x, m: ct.asarray(m),
    lambda x, m: ct.add(x, m),
    lambda x, m: ct.where(x > 2, x, m),
    lambda x, m: ct.gradient(lambda a: np.sum(a * a), m),
    lambda x, m: ct.gradient(lambda a, c: np.sum(a * c), x, ct.const(m)),
    lambda x, m: ct.gradient(lambda tree: np.sum(tree["a"]), {"a": m}),
]


@pytest.mark.parametrize("use", USES)
def test_masked_arrays_are_refused_wherever_they_would_lose_their_mask(use):
    with pytest.raises(TypeError, match=r"mask.*filled"):
        use(ct.array(X), MASKED)


@pytest.mark.parametrize("use", [u for u in USES if u not in {WHERE, *WRITES}])
def test_matrices_are_refused_wherever_they_would_be_multiplied_elementwise(use):
    with pytest.raises(TypeError, match=r"np\.matrix.*np\.asarray"):
        use(ct.array(X), MATRIX)


MIXED = {
    "product": lambda x: MATRIX * x,
    "product from the right": lambda x: x * MATRIX,
    "product with a number": lambda x: MATRIX * x[0, 0] + x[1, 1] * MATRIX,
    "products in a row": lambda x: MATRIX.T * x * MATRIX * np.matrix(x).T,
    "product of matrices": lambda x: MATRIX * np.matrix(x) - np.matrix(x) * MATRIX,
    "in place": lambda x: in_place(x),
    "sum": lambda x: MATRIX + x,
    "difference": lambda x: (x - MATRIX) * MATRIX,
    "quotient": lambda x: (x / MATRIX) * MATRIX,
    "matmul": lambda x: (x @ MATRIX) * (MATRIX @ x),
    "power": lambda x: np.power(x, MATRIX),
    "dot": lambda x: np.dot(x, MATRIX) * np.dot(MATRIX, x),
    "multiply": lambda x: np.multiply(MATRIX, x) * MATRIX,
    "joined": lambda x: np.c_[np.matrix(x), MATRIX] * np.r_[np.eye(x.shape[1]), np.matrix(x).T],
    "functions": lambda x: np.linalg.solve(MATRIX, x) * np.matrix(x),
    "conversions": lambda x: np.asarray(np.matrix(x)) * np.array(np.matrix(x) * MATRIX),
    "elements": lambda x: (MATRIX * x)[0, 1] * (MATRIX * x)[1] * MATRIX.I,
    "sums": lambda x: np.sum(MATRIX * x, axis=1) * np.sum(MATRIX * x, axis=0),
}


def in_place(x):
    y = MATRIX.copy()
    y *= x
    y += x
    return y * MATRIX


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
@pytest.mark.parametrize("name", MIXED)
def test_matrices_of_numpy_meet_arrays_while_something_is_recorded(name):
    x, h, kinds = X + 0.25, 1e-6, []

    def f(x):
        y = MIXED[name](x)
        kinds.append((isinstance(y, np.matrix), y.shape))
        return np.sum(getattr(y, "A", y))

    value, (gradient,) = ct.value_and_gradient(f, x)
    assert value == pytest.approx(f(x))
    assert kinds[0] == kinds[1]
    for i in np.ndindex(2, 2):
        step = np.zeros((2, 2))
        step[i] = h
        slope = (f(x + step) - f(x - step)) / (2 * h)
        assert gradient[i] == pytest.approx(slope, rel=1e-6, abs=1e-6)


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_matrices_are_as_before_when_nothing_is_recorded():
    assert type(MATRIX * X) is np.matrix
    np.testing.assert_array_equal(MATRIX * X, X @ X)
    with pytest.raises(ValueError, match="not aligned"):
        MATRIX * np.ones(3)


def test_masked_arrays_compute_with_constants():
    product = MASKED * ct.array(X)
    assert product.mask.tolist() == MASKED.mask.tolist()
    assert product.sum() == 1 + 4 + 9


def test_subclasses_that_add_attributes_are_arrays(tmp_path):
    mapped = np.memmap(tmp_path / "x", float, "w+", shape=(2, 2))
    mapped[:] = X
    for plain in (X.view(Labelled), mapped):
        x = ct.array(X)
        for y in (x * plain, plain * x, np.multiply(x, plain), np.multiply(plain, x)):
            assert isinstance(y, ct.Array)
            np.testing.assert_array_equal(np.asarray(y), X * X)
        np.testing.assert_array_equal(np.asarray(np.concatenate([x, plain])), [*X, *X])
        (gradient,) = ct.gradient(lambda a: np.sum(a * a), plain)
        np.testing.assert_array_equal(gradient, 2 * X)


def test_subclasses_that_answer_themselves_are_asked():
    x, unit = ct.array(X), X.view(Unit)
    assert x * unit == "unit"
    assert unit * x == "unit"
    assert np.add(x, unit) == "unit"
    assert np.concatenate([x, unit]) == "unit"
    np.testing.assert_array_equal(np.asarray(X.view(Doubling) * 1.0), 2 * X)


@pytest.mark.parametrize("own", [X.view(Unit), X.view(Doubling)])
def test_subclasses_with_arithmetic_of_their_own_are_no_arguments(own):
    for use in (ct.array, lambda m: ct.gradient(lambda a: np.sum(a), m)):
        with pytest.raises(TypeError, match=r"its own arithmetic.*np\.asarray"):
            use(own)
    with pytest.raises(TypeError, match="arrays and numbers"):
        ct.array(X)[...] = own


KEYS = [
    lambda x, k: x[k],
    lambda x, k: x[:, k],
    lambda x, k: operator.setitem(x, k, 1.0),
    lambda x, k: np.add.at(x, k, 1.0),
    lambda x, k: np.take(x, k, axis=0),
    lambda x, k: np.put(x, k, 1.0),
]


@pytest.mark.parametrize("use", KEYS)
def test_masked_indices_are_refused(use):
    key = np.ma.masked_array([0, 1], [False, True])
    with pytest.raises(TypeError, match=r"mask.*filled"):
        use(ct.array(X), key)


@pytest.mark.parametrize("items", [[MASKED[0], MASKED[1]], ([1.0, np.ma.masked],), [[MASKED]]])
def test_lists_with_masked_arrays_are_refused(items):
    x = ct.array(X)
    for use in (ct.array, ct.asarray, lambda m: x[0] + m, lambda m: np.where(x > 2, x, m)):
        with pytest.raises(TypeError, match=r"mask.*filled"):
            use(items)


def test_matrices_are_indices_as_in_numpy():
    key = np.array([[1, 0]]).view(np.matrix)
    np.testing.assert_array_equal(np.asarray(ct.array(X)[key]), X[key])


class Quaternion(np.ndarray):
    """Made over the memory of an array, which it keeps besides."""

    def __new__(cls, q):
        q = np.array(q, dtype=float)
        if q.ndim != 1 or q.shape[-1] != 4:
            raise ValueError("a quaternion has 4 elements")
        q = q / np.linalg.norm(q)
        obj = super().__new__(cls, q.shape, float, q)
        obj.kept = q
        return obj

    @property
    def w(self):
        return self.kept[0]

    @property
    def conj(self):
        return self.kept * np.array([1.0, -1.0, -1.0, -1.0])

    def __mul__(self, other):
        other = np.array(other)
        a, b, c, d = self
        m = np.array([[a, -b, -c, -d], [b, a, -d, c], [c, d, a, -b], [d, -c, b, a]])
        return type(self)(m @ other)

    @classmethod
    def turned(cls, angle):
        return cls([np.cos(angle), np.sin(angle), 0.0, 0.0])


class Signal(np.ndarray):
    """Seen as a view, with an attribute that NumPy hands on."""

    def __new__(cls, samples, rate=1.0):
        obj = np.asarray(samples).view(cls)
        obj.rate = rate
        return obj

    def __array_finalize__(self, obj):
        if obj is None:
            return
        self.rate = getattr(obj, "rate", None)

    def energy(self):
        return np.sum(self**2) / self.rate


def of_signals(x):
    s = Signal([x, 2.0, x * x], rate=4.0)
    part = (s * 2 + 1)[:2]
    assert isinstance(part, Signal) and part.rate == 4.0 and type(part) is type(s)
    part /= x
    part[0] += 1.0
    assert isinstance(s.view(np.ndarray), np.ndarray) and not isinstance(s.view(np.ndarray), Signal)
    return part.energy() + s.T.rate * s.max() + float(np.sin(s).rate) * s.copy().energy()


HELD = {
    "made over memory": lambda x: Quaternion([x, 1.0, 2.0, x * x]).w,
    "property": lambda x: np.sum(Quaternion([x, 1.0, 2.0, 3.0]).conj * [1.0, 2.0, 3.0, 4.0]),
    "operator of its own": lambda x: (Quaternion([x, 1.0, 2.0, 3.0]) * [1.0, x, 0.0, 0.5])[2],
    "class method": lambda x: (Quaternion.turned(x) * Quaternion.turned(2 * x)).w,
    "written": lambda x: np.sum(written(Quaternion([x, 1.0, 2.0, 3.0]))[1] ** 3),
    "conversions": lambda x: (
        np.array([Quaternion([x, 1.0, 0.0, 3.0])])[0, 0]
        + np.sum(np.asarray(Quaternion.turned(x)) * np.copy(Quaternion.turned(x)))
    ),
    "functions": lambda x: functions_of(Signal([x, 2.0, 3.0])),
    "mixed": lambda x: np.sum(Signal([1.0, 2.0]) * Signal([x, 1.0]) + np.ones(2) @ Signal([x, 3])),
    "attributes": of_signals,
}


def written(q):
    rows = np.zeros((2, 4))
    rows[1] = q
    return rows


def functions_of(s):
    total = (
        np.dot(s, s) + np.sum(np.concatenate([s, s])) + np.linalg.norm(s) + np.cross(s, s + 1)[0]
    )
    return total + np.sum(np.where(s > 2.5, s, s**2)) + np.exp(s)[0] + np.mean(np.vstack([s, s]))


@pytest.mark.parametrize("f", HELD.values(), ids=HELD)
def test_objects_of_subclasses_hold_traced_values(f):
    value, (slope,) = ct.value_and_gradient(f, 0.7)
    assert value == pytest.approx(f(0.7))
    assert slope == pytest.approx((f(0.7 + 1e-6) - f(0.7 - 1e-6)) / 2e-6, rel=1e-6)


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_matrices_by_another_name():
    """As programs for older versions find them: `np.mat = np.asmatrix`."""
    mat, matrix = np.asmatrix, np.matrix

    def f(x):
        a, b = mat([[x, 1.0], [2.0, x]]), matrix([[x, x * x]])
        c, d = matrix(np.array([[x, 2.0], [1.0, 3.0]]).T), np.array([x, 1.0]).view(np.matrix)
        assert all(isinstance(m, np.matrix) for m in (a, b, c, d, mat(np.eye(2)) * x))
        return (b * a * c * b.T)[0, 0] + (d * d.T)[0, 0] + a.I[0, 1] + mat("1 2;3 4")[0, 1] * x

    value, (slope,) = ct.value_and_gradient(f, 1.3)
    assert value == pytest.approx(f(1.3))
    assert slope == pytest.approx((f(1.3 + 1e-6) - f(1.3 - 1e-6)) / 2e-6, rel=1e-6)


class Own(np.matrix):
    pass


class Reading(np.ndarray):
    """Goes on to ndarray by `super()`."""

    def __array_finalize__(self, obj):
        super().__array_finalize__(obj)
        self.factor = getattr(obj, "factor", 2)

    def __getitem__(self, key):
        return self.factor * super().__getitem__(key)

    def __mul__(self, other):
        return super().__mul__(other) + 1

    def sum(self, *args, **kwargs):
        return super().sum(*args, **kwargs) + super().shape[0] * self.factor

    @property
    def T(self):
        return 3 * super().T


def test_super_of_a_subclass_is_what_stands_in_for_ndarray():
    def f(x):
        r = np.asarray([x, x * x]).view(Reading)
        return r[1] * r.sum() + (r * x).sum() + (r.T * 2.0)[0]

    value, (slope,) = ct.value_and_gradient(f, 1.3)
    assert float(value) == pytest.approx(float(f(1.3)))
    assert slope == pytest.approx(float((f(1.3 + 1e-6) - f(1.3 - 1e-6)) / 2e-6), rel=1e-6)


class Asking(np.ndarray):
    def __getitem__(self, key):
        return 2 * np.ndarray.__getitem__(self, key)


def test_methods_of_ndarray_itself_name_what_to_write():
    f = lambda x: np.asarray([x, x]).view(Asking)[0]
    assert f(1.0) == 2.0
    with pytest.raises(TypeError, match=r"requires.*super\(\).*self\.view\(np\.ndarray\)"):
        ct.gradient(f, 1.0)


@pytest.mark.filterwarnings("ignore:the program caught an error")
def test_copies_of_held_values():
    def f(x):
        s = Signal([x, 2.0], rate=3.0)
        for again in (copy.copy(s), copy.deepcopy(s)):
            assert isinstance(again, Signal) and again.rate == 3.0
            again[0] = 0.0
        with pytest.raises(TypeError, match="gradient"):
            pickle.dumps(s)
        with pytest.raises(TypeError, match="0-dimensional"):
            float(s[:1])
        return s[0] + s[1]

    assert ct.gradient(f, 1.0) == (1.0,)


class Made(np.ndarray):
    def __init__(self, *_):
        self.label = "made"


@pytest.mark.parametrize("cls", [Unit, Made, Own])
def test_subclasses_that_decide_more_hold_none(cls):
    with pytest.raises(TypeError, match="cannot"):
        ct.gradient(lambda x: np.sum(np.asarray([x, x]).view(cls)), 1.0)
    with pytest.raises(TypeError, match="cannot hold traced values"):
        ct.gradient(lambda x: np.sum(np.ndarray.__new__(cls, (2,), float, np.array([x, x]))), 1.0)
    assert ct.gradient(lambda x: x * np.ones(2).view(Labelled)[0], 1.0) == (1.0,)


def test_texts_of_subclasses_are_those_of_numpy():
    class Signal(np.ndarray):
        pass

    texts = []

    def f(x):
        table = np.ones((2, 2)).view(Signal)
        shown = x.view(Signal), table, table[0]
        texts.extend((repr(one), str(one), f"{one}", f"{[one]}") for one in shown)
        return np.sum(x)

    f(np.ones(2))
    wanted = list(texts)
    texts.clear()
    ct.gradient(f, np.ones(2))
    assert texts == wanted
    assert wanted[1][0] == "Signal([[1., 1.],\n        [1., 1.]])"
