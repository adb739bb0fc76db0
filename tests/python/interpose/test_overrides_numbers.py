"""Lists for ufuncs, numbers made of traced ones, texts, scalars, and arrays of objects."""

# ruff: noqa: UP031 - as programs have it

import logging
import math
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

THREE = np.linspace(0.0, 1.0, 3)
OBJECTS = np.empty(2, object)
OBJECTS[:] = [PLAIN, 3.0]


# --------------------------------------------------------------------------------------------------
# Ufuncs of lists


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sum(np.log([x, 2 * x])),
        lambda x: np.sum(np.exp((x, 1.0))),
        lambda x: np.sum(np.add([x, 1.0], [[1.0], [x]]) ** 2),
        lambda x: np.sum(PLAIN * [x, x**2]),
        lambda x: np.sum([x, x**2] * PLAIN),
        lambda x: np.sum(MATRIX @ [x, x**2]),
        lambda x: np.sum(PLAIN - (x, 1)),
        lambda x: np.sum(np.matmul([[x, 1.0], [2.0, x]], PLAIN)),
        lambda x: np.sum(np.hypot([x], np.arctan2([x, 1.0], [[2.0]]))),
        lambda x: np.sum(scipy.special.expit([x, 1.0]) * scipy.special.xlogy([x], [3.0])),
        lambda x: np.sum(np.sqrt([PLAIN * x, [x, 1.0]])),
    ],
)
def test_ufuncs_of_lists(f):
    slope_is_right(f)


def test_a_ufunc_stays_what_it_is():
    before = np.tanh, np.log

    def f(x):
        assert (np.tanh, np.log) == before
        assert np.tanh is before[0] and isinstance(np.log, np.ufunc)
        assert np.add([1, 2], 3).tolist() == [4, 5]
        return np.sum(np.tanh([x, x]))

    ct.gradient(f, 0.5)
    assert np.log([1.0, 1.0]).tolist() == [0.0, 0.0]


def test_errors_of_ufuncs_of_lists_are_raised():
    with pytest.raises(ValueError, match="shape"):
        ct.gradient(lambda x: np.sum(np.log([[x, x], [x]])), 1.0)
    with pytest.raises(ValueError, match="broadcast"):
        ct.gradient(lambda x: np.sum(np.add([x, x], [1.0, 2.0, 3.0])), 1.0)
    with pytest.raises(TypeError, match="dropgrad"), ct.lifting(False):
        ct.gradient(lambda x: np.sum(np.log([x, x])), 1.0)


# --------------------------------------------------------------------------------------------------
# Numbers and texts


NUMBERS = """
import numpy as np
def f(x): return float(x) * 2 + float("1.5")
def g(x): return abs(complex(x, 2 * x)) + np.float64(x) * np.complex128(x).real
def h(x): return sum(map(float, [x, x * x]))
def i(x): return np.sum(np.zeros(2, dtype=np.float64) + np.ones(2, float)) + np.float32(x)
def j(x):
    assert isinstance(x, float) and isinstance(1.0, (int, float)) and float is type(1.0)
    assert np.dtype(float) == np.float64 and type(float("2")) == float
    return x
class A:
    def __init__(self, x): self.x = float(x)
    @property
    def y(self): return complex(self.x)
def k(x): return abs(A(x).y)
def l(x): return x * np.int64(x)
"""


@pytest.mark.parametrize("knows_cotan", [False, True])
@pytest.mark.parametrize("name", "fghijkl")
def test_numbers_stay_active_in_any_program(name, knows_cotan):
    module = module_of("import cotan\n" * knows_cotan + NUMBERS)
    f = getattr(module, name)
    slope_is_right(f, tolerance=1e-6 if name != "i" else np.inf)
    assert "float" not in vars(module) and type(module.f(1)) is float
    if name in "fgk":
        with ct.strict(), pytest.raises(TypeError, match=r"dropgrad.*ct\.strict\(\)"):
            ct.gradient(f, 0.7)


CLASSES = """
import numpy as np
class Angle:
    def __init__(self, x): self.x = float(x)
    def __float__(self): return float(self.x)
def f(x): return float(Angle(x)) ** 2 + (1.0 if isinstance(x, float) else 5.0 * x)
def g(x): return np.sum(x) if isinstance(x, np.ndarray) else 0.0
class Wrong:
    def __float__(self): return "1"
def h(x): return x * float(Wrong())
"""


def test_the_class_of_a_traced_value_is_what_numpy_has():
    module = module_of(CLASSES)
    assert ct.gradient(module.f, 3.0) == (6.0,)
    np.testing.assert_array_equal(ct.gradient(module.g, np.ones(2))[0], np.ones(2))
    with pytest.raises(TypeError, match="returned non-float"):
        ct.gradient(module.h, 3.0)


def test_a_comparison_is_of_the_class_that_python_or_numpy_gives():
    def f(x, v):
        assert isinstance(x > 1.0, bool) and not isinstance(x > 1.0, float)
        assert isinstance(v[0] > x, np.bool_) and isinstance(x, float)
        return x * v[0]

    ct.gradient(f, 2.0, np.ones(2))


class Quaternion:
    """An object that NumPy asks for its array, with some operators of its own."""

    def __init__(self, w, x):
        self.parts = np.array([w, x])

    def __mul__(self, other):
        return Quaternion(self.parts[0] * other, self.parts[1] * other)

    def __array__(self, dtype=None, copy=None):
        return self.parts if dtype is None else self.parts.astype(dtype)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sum((Quaternion(x, x * x) - np.array([x, 2.0])) ** 2),
        lambda x: np.sum((np.array([x, 2.0]) + Quaternion(1.0, 3.0)) ** 2),
        lambda x: np.linalg.norm(Quaternion(x, x * x)),
        lambda x: np.sum(np.array(Quaternion(x, 1.0) * x) ** 2 + np.asarray(Quaternion(x, x))),
        lambda x: np.dot(Quaternion(x, 1.0), [x, x]) + np.mean(Quaternion(x, 2.0) * 2.0),
    ],
)
def test_objects_that_give_themselves_out_as_arrays(f):
    slope_is_right(f, tolerance=1e-6)


def test_digits_of_a_number_drop_the_gradient():
    """SymPy makes its numbers of them."""
    digits = types.ModuleType("mpmath.libmp")
    exec("import math\ndef whole(x): return int(math.frexp(x)[0] * 2**53)", vars(digits))
    assert ct.gradient(lambda x: x * digits.whole(ct.dropgrad(x)) / 2**53, 3.0) == (0.75,)
    with pytest.raises(TypeError, match="lambdify"):
        ct.gradient(lambda x: x * digits.whole(x), 3.0)
    assert ct.gradient(lambda x: math.frexp(x)[0], 3.0) == (0.25,)
    # Some versions of mpmath make NaN of whatever is raised where they ask.
    exec(
        "import math\ndef whole(x):\n try: m, e = math.frexp(x)\n except: return math.nan\n"
        " return int(m * (1 << 53)) * 2.0 ** (e - 53)",
        vars(digits),
    )
    assert ct.gradient(lambda x: x * digits.whole(ct.dropgrad(x)), 3.0) == (3.0,)
    with pytest.raises(TypeError, match="lambdify"):
        ct.gradient(lambda x: x * digits.whole(x), 3.0)


def test_digits_are_refused_where_any_error_stands_for_nan():
    """mpmath reads one from `frexp` so."""
    digits = types.ModuleType("mpmath.libmp")
    exec(
        """import math
def number(x):
    try:
        m, e = math.frexp(x)
    except:
        return float("nan")
    return int(m * (1 << 53)) * 2.0 ** (e - 53)""",
        vars(digits),
    )
    assert ct.gradient(lambda x: x * digits.number(ct.dropgrad(x)), 3.0) == (3.0,)
    with pytest.raises(TypeError, match="lambdify"):
        ct.gradient(lambda x: x * digits.number(x), 3.0)


LIBRARY = """
import numpy as np
def plot(x): return float(x)
def hist(x): return counted(x)
def counted(x): return float(x)
def call(f, x): return f(x)
"""


def test_what_is_drawn_is_looked_at():
    library = types.ModuleType("matplotlib.axes")
    exec(LIBRARY, vars(library))
    seen = []

    def f(x):
        seen.append(library.plot(x))
        return x * x

    assert ct.gradient(f, 3.0) == (6.0,)
    assert seen[0] == 3.0 and type(seen[0]) is float
    with pytest.raises(TypeError, match="dropgrad"):
        ct.gradient(lambda x: x * np.sum(library.hist(x)), 3.0)
    # What it calls of a program's is user code.
    assert ct.gradient(lambda x: x * library.call(lambda y: float(y), x), 3.0) == (6.0,)


def test_numpy_scalars_stay_active():
    assert ct.gradient(lambda x: np.float64(x) ** 2, 0.5) == (1.0,)
    with ct.strict(), pytest.raises(TypeError, match="dropgrad"):
        ct.gradient(lambda x: np.float64(x), 0.5)
    assert ct.gradient(lambda x: x * np.zeros(2, np.float64).size, 0.5) == (2.0,)


def test_items_and_lists_are_followed():
    def f(x):
        row = (x * PLAIN).tolist()
        cell = (x * MATRIX).item(1, 0) + (x * MATRIX).item(3) + (x * PLAIN[:1]).item()
        return sum(row) + cell + (x * MATRIX).item((0, 1))

    slope_is_right(f)
    with pytest.raises(ValueError, match="size 1"):
        ct.gradient(lambda x: (x * PLAIN).item(), 1.0)
    assert isinstance(ct.value_and_gradient(lambda x: x.item(), 1.0)[0], float)


def test_texts(caplog):
    seen = []

    def f(x):
        seen.append("%.2f %5.1e %s %d" % (x, x, x, x))
        text = "%g"
        text %= x
        seen.append(text)
        seen.append("%(a).1f" % {"a": x})
        seen.append(f"{x:.3f}|{x!r}|{np.array([x])}")
        logging.getLogger("cotan-test").warning("now %.1f", x)
        return x

    with caplog.at_level(logging.WARNING):
        assert ct.gradient(f, 2.5) == (1.0,)
    assert seen[:3] == ["2.50 2.5e+00 2.5 2", "2.5", "2.5"]
    assert seen[3].startswith("2.500|") and seen[3].endswith("[2.5]")
    assert caplog.messages == ["now 2.5"]


def test_remainders_are_no_texts():
    assert ct.gradient(lambda x: 7.0 % x, 2.5) == (-2.0,)
    assert ct.gradient(lambda x: x % 2.0, 2.5) == (1.0,)


def test_functions_of_scipy_that_were_imported_by_name():
    module = module_of(
        "from scipy.linalg import expm\nfrom scipy.signal import lfilter\nimport numpy as np\n"
        "def f(x): return np.sum(lfilter([1 - x], [1, -x], [1.0, 2.0]))"
    )
    slope_is_right(module.f)


def test_type_is_what_it_is():
    module = types.ModuleType("typed")
    exec(
        """
import numpy as np
class Kind(type): pass
class A(metaclass=Kind): pass
def f(a, x):
    y = a * 2 if isinstance(a, (int, float)) else a * 3
    if isinstance(a, float) and isinstance(x, np.ndarray) and isinstance(x[0], np.float64):
        y = y + x[0] + 1
    assert isinstance(A, type) and type(3) is int and type(A()) is A and type(A) is Kind
    class Other(type): pass
    assert type(Other("B", (), {})) is Other and type("C", (), {}).__name__ == "C"
    return y
""",
        vars(module),
    )
    expected = module.f(2.5, np.array([1.0, 2.0]))
    value, (slope, _) = ct.value_and_gradient(module.f, 2.5, np.array([1.0, 2.0]))
    assert value == expected == 7.0
    assert slope == 2.0
    assert module.f(2.5, np.array([1.0, 2.0])) == expected


def rows_of_objects(x):
    rows = np.zeros((3, 3), dtype=object)
    rows[0] = np.array([x, -x * x, 2.0])
    rows[1] = [x, 1.0, x]
    rows[:, 2] = x * np.arange(3.0)
    return rows


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.array([x, x * x], dtype=object).sum(),
        lambda x: np.dot(np.array([x, 2.0], object), np.array([x * x, x], object)),
        lambda x: np.array([[x, 1.0], [2, x]], object)[0, 0] * 3,
        lambda x: (np.array([x, 1.0], object) * x + x * np.array([2, x], object)).sum(),
        lambda x: np.dot(OBJECTS, np.array([x, x * x])).sum(),
        lambda x: np.inner(np.array([x, x * x]), OBJECTS).sum(),
        lambda x: np.dot(OBJECTS, [x, 2.0]).sum() + np.outer([x], OBJECTS)[0, 0].sum(),
        lambda x: (np.array([x, x * x]) @ OBJECTS).sum(),
        lambda x: np.sum((np.array([x, 3.0], object) - x * np.ones(2)) ** 2),
        lambda x: np.sum(x * np.ones(2) / np.array([x, x + 1], object)),
        lambda x: sum(d["v"] for d in np.array([{"v": x}, {"v": x * x}], object)),
        lambda x: np.asarray([x * np.ones(2), [1.0, x]], dtype=object)[0, 1] * x,
        lambda x: sum(c**2 for c in np.atleast_1d(np.asarray(x, dtype=object))),
        lambda x: np.array(x * np.arange(4.0).reshape(2, 2), object)[1, 1] * x,
        lambda x: (rows_of_objects(x) * x + np.eye(3))[1].sum(),
        lambda x: np.dot(rows_of_objects(x), np.ones(3)).sum(),
    ],
)
def test_arrays_of_objects_hold_traced_numbers(f):
    step = 1e-6
    y, g = ct.value_and_grad(f)(0.7)
    np.testing.assert_allclose(y, f(0.7))
    np.testing.assert_allclose(g, (f(0.7 + step) - f(0.7 - step)) / (2 * step), 1e-7)


def test_scalars_are_not_iterable():
    def f(x, a):
        for scalar in (x, a[0], np.sum(a)):
            assert not hasattr(scalar, "__iter__") and not np.iterable(scalar)
            with pytest.raises(TypeError, match="iteration over a 0-d array"):
                list(scalar)
            with pytest.raises(TypeError, match="iteration over a 0-d array"):
                for _ in scalar:
                    pass
        assert hasattr(a, "__iter__") and len(list(a.__iter__())) == len([*a]) == 2
        first, second = a
        return x * first * second

    assert ct.gradient(f, 3.0, PLAIN)[0] == 2.0


def test_numbers_have_no_elements():
    """Programs try an index to find out whether they were given a number or a sequence."""

    def first(x):
        try:
            return x[0]
        except TypeError:
            return 2 * x

    assert ct.gradient(lambda x: first(x) + first([x, 1.0]), 3.0) == (3.0,)
    with pytest.raises(TypeError, match="'float' object is not subscriptable"):
        ct.gradient(lambda x: x[:1], 3.0)
    with pytest.raises(TypeError, match="'complex' object is not subscriptable"):
        ct.gradient(lambda z: abs(z[0]), 3j)
    with pytest.raises(IndexError):
        ct.gradient(lambda x: np.sum(x[0][0]), np.ones(2))


def test_programs_that_ask_for_protocols():
    module = module_of(
        """
import collections.abc, numbers
from collections.abc import Iterable, Sized
import numpy as np
def kinds(x):
    a = np.array([x, 2.0])
    values = (x, a, a[0], a.sum(), [x], "x")
    arrays = [a, [x], "x"]
    classes = (Iterable, (Sized, dict), collections.abc.Container)
    return [
        [[isinstance(value, kind) for value in arrays] for kind in classes],
        [[isinstance(value, kind) for value in values] for kind in (numbers.Real, (float, int))],
    ]
"""
    )
    seen = []
    ct.gradient(lambda x: (seen.append(module.kinds(x)), x)[1], 1.5)
    assert seen == [module.kinds(1.5)]


def test_whole_numbers_of_other_dtypes():
    names = ["int8", "int16", "uint8", "uint16", "uint32", "uint64", "intc", "byte", "bool_"]
    lines = "".join(f"def {n}(x): return np.{n}(x)\n" for n in names)
    module = module_of(f"import numpy as np\n{lines}")
    for name in names:
        convert = getattr(module, name)
        for given in (np.array([1.4, 2.6]), 2.7, [1.5, 2.5]):
            seen = []

            def f(t, given=given, convert=convert, seen=seen):
                parts = [v * t for v in given] if isinstance(given, list) else given * t
                seen.append(convert(parts))
                return t

            ct.gradient(f, 1.0)
            wanted = convert(given)
            assert isinstance(seen[0], type(wanted)) and seen[0].dtype == wanted.dtype
            np.testing.assert_array_equal(ct.dropgrad(seen[0]), wanted)


def test_arrays_that_are_written_into_whole_numbers_are_cut_off():
    def f(x):
        counts = np.array([1, 2, 3])
        counts[:] = np.array([x, 2 * x, 3 * x])
        counts[[0, 1]] = counts[[0, 1]] + np.array([x, x])
        table = {"rows": np.zeros((2, 2), int)}
        table["rows"][1, :] = np.array(
            [x, -x],
        )
        return x * (np.sum(counts) + table["rows"][1, 0] + 2 * table["rows"][1, 1])

    value, (slope,) = ct.value_and_gradient(f, 2.7)
    assert value == f(2.7) == 2.7 * (4 + 7 + 8 + 2 - 4)
    assert slope == 17.0
    with pytest.raises(TypeError, match="would drop the gradient"):
        ct.gradient(lambda x: [PLAIN * 2][0].__setitem__(0, np.array([x])[0]) or x, 1.0)


def test_places_of_sparse_elements_have_no_derivative():
    def f(x):
        table = np.array([[0.0, 1.0], [1.0, 2.0], [2.0, x]])
        a = scipy.sparse.csr_matrix((range(3), (table[:, 0], np.zeros(3))), shape=(3, 1))
        return np.sum(a.toarray() * table[:, 1:])

    slope_is_right(f, 2.0)


def test_what_is_written_into_is_not_looked_up_twice():
    cells = np.zeros((3, 2), int)

    class Grid:
        looks = 0

        @property
        def cells(self):
            self.looks += 1
            return cells

    grid = Grid()

    def f(x):
        grid.cells[0] = np.full(2, 2.5) * x
        return x * x

    with pytest.raises(TypeError):
        ct.gradient(f, 3.0)
    assert grid.looks == 1


# Python 3.12 and later advise against the inverse of a truth value.
@pytest.mark.filterwarnings("ignore:Bitwise inversion:DeprecationWarning")
def test_truth_values_of_numbers_are_whole_numbers():
    """Those of Python's numbers count as 0 and 1, those of NumPy's scalars do not."""
    uses = [
        lambda x: ((x > 0) + (x > 1)) * x,
        lambda x: ((x > 0) - (x > 5)) * x,
        lambda x: True + (x > 0) * x,
        lambda x: -(x > 0) * x,
        lambda x: +(x > 0) * x,
        lambda x: ~(x > 0) * x,
        lambda x: abs(x > 0) * x,
        lambda x: ((x > 0) << 2) * x,
        lambda x: (x > 0) / 2 * x,
        lambda x: (x > 0) ** (x > 1) * x,
        lambda x: ((x > 0) // 1) * x,
        lambda x: divmod(x > 0, 2)[1] * x,
        lambda x: ((x > 0) & (x > 1)) * x,
        lambda x: ((x > 0) ^ (x > 9)) * x,
        lambda x: ((x > 0) == (x > 1)) * x,
        lambda x: [1.0, 2.0, 3.0][x > 0] * x,
        lambda x: sum([x > 0, x > 1, x > 9]) * x,
    ]
    for use in uses:
        value, (g,) = ct.value_and_gradient(use, 1.75)
        assert value == use(1.75)
        assert g == pytest.approx((use(1.75 + 1e-6) - use(1.75 - 1e-6)) / 2e-6)
    add = lambda x: ((x > 0) + (x > 1)) * x
    assert ct.value_and_gradient(add, np.float64(1.75)) == (add(np.float64(1.75)), (1.0,))
    for refused in (lambda x: ((x > 0) - (x > 1)) * x, lambda x: -(x > 0) * x):
        for f in (refused, ct.grad(refused)):
            with pytest.raises(TypeError):
                f(np.float64(1.75))


def test_objects_that_know_ufuncs_get_the_scalars_beside_them():
    class Asked:
        def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
            return [type(x) for x in inputs if x is not self]

    def ask():
        scalars = np.bool_(False), np.float32(1.0), np.int8(2)
        return [scalar + Asked() for scalar in scalars] + [np.add(Asked(), s) for s in scalars]

    found = []
    ct.gradient(lambda x: (found.extend(ask()), x)[1], 1.0)
    assert found == ask() == [[np.bool_], [np.float32], [np.int8]] * 2
