"""Bad input: the exception names operation and operands."""

import numpy as np
import pytest
from ids import same_everywhere
from scipy import integrate, interpolate, linalg

import cotan as ct

X = np.array([0.5, 1.0, 1.5])


def gradient(f, *args):
    return ct.gradient(lambda *a: np.sum(f(*a)), *args)


# --------------------------------------------------------------------------------------------------
# Shapes


SHAPES = [
    # name, function, shapes of the arguments, what the message must say
    ("add", lambda x, y: x + y, [(3,), (4,)], r"add.*\(3,\).*\(4,\)"),
    ("subtract", lambda x, y: x - y, [(2, 3), (3, 2)], r"sub.*\(2, 3\).*\(3, 2\)"),
    ("multiply", lambda x, y: np.multiply(x, y), [(2, 3), (2,)], r"mul.*\(2, 3\).*\(2,\)"),
    ("divide", lambda x, y: x / y, [(5,), (2, 3)], r"div.*\(5,\).*\(2, 3\)"),
    ("power", lambda x, y: x**y, [(3,), (4,)], r"pow.*\(3,\).*\(4,\)"),
    ("maximum", np.maximum, [(3,), (4,)], r"max.*\(3,\).*\(4,\)"),
    ("arctan2", np.arctan2, [(3,), (4,)], r"(atan2|arctan2).*\(3,\).*\(4,\)"),
    ("where", lambda x, y: np.where(x > 0, x, y), [(3,), (4,)], r"where.*\(3,\).*\(4,\)"),
    ("clip", lambda x, y: np.clip(x, y, 9.0), [(3,), (4,)], r"clip: shapes \(3,\) and \(4,\)"),
    ("matmul", lambda x, y: x @ y, [(2, 3), (2, 3)], r"matmul.*\(2, 3\).*\(2, 3\)"),
    ("matmul 1-d", np.matmul, [(3,), (4,)], r"matmul.*\(3,\).*\(4,\)"),
    ("matmul batch", np.matmul, [(2, 3, 4), (5, 4, 3)], r"matmul.*\(2, 3, 4\).*\(5, 4, 3\)"),
    ("matmul 0-d", lambda x, y: x @ np.sum(y), [(3,), (3,)], r"matmul.*\(3,\).*\(\)"),
    ("concatenate", lambda x, y: np.concatenate([x, y]), [(2, 3), (2, 4)], r"concat.*3.*4"),
    ("reshape", lambda x, y: x.reshape(2, 2) + y, [(3,), (1,)], r"reshape.*\(3,\).*\(2, 2\)"),
    (
        "broadcast_to",
        lambda x, y: np.broadcast_to(x, (4,)),
        [(3,), (1,)],
        r"broadcast.*\(3,\).*\(4,\)",
    ),
    ("in place", lambda x, y: x.__iadd__(y), [(3,), (2, 3)], r"add.*\(3,\).*\(2, 3\)"),
]


@pytest.mark.parametrize(
    ("f", "shapes", "message"), [s[1:] for s in SHAPES], ids=[s[0] for s in SHAPES]
)
def test_shapes_that_do_not_fit(f, shapes, message):
    args = [np.ones(shape) for shape in shapes]
    with pytest.raises(ValueError):  # noqa: PT011 - that NumPy refuses it too is all that matters
        f(*[a.copy() for a in args])
    with pytest.raises(ValueError, match=message):
        gradient(f, *args)
    assert not ct.isderiving()


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (lambda x: np.sum(x, axis=2), "axis.*2"),
        (lambda x: x.sum(axis=(0, 0)), "axis"),
        (lambda x: np.max(x, axis=-3), "axis.*-3"),
        (lambda x: np.cumsum(x, axis=5), "axis.*5"),
        (lambda x: np.transpose(x, (0, 0)), "axes|axis"),
        (lambda x: np.transpose(x, (0, 1, 2)), "axes|axis"),
        (lambda x: np.concatenate([x, x], axis=4), "axis.*4"),
        (lambda x: np.flip(x, 3), "axis.*3"),
        (lambda x: np.squeeze(x, 1), r"\(2, 3\)|size"),
    ],
)
def test_axes_that_do_not_exist(f, message):
    x = np.ones((2, 3))
    with pytest.raises(ValueError) as numpys:  # noqa: PT011 - whatever NumPy says
        f(x)
    with pytest.raises(type(numpys.value), match=message):
        gradient(f, x)


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (lambda x: x[3], "3.*size 3"),
        (lambda x: x[-4], "-4.*size 3"),
        (lambda x: x[0, 0], "too many"),
        (lambda x: x[np.array([0, 3])], "3.*size 3"),
        (lambda x: x[np.array([0, -4])], "-4.*size 3"),
        (lambda x: x[np.array([True, False])], "3.*2"),
        (lambda x: x[1.0], "integer"),
        (lambda x: x["a"], "integer"),
        (lambda x: x[np.array([0.0, 1.0])], "integer"),
        (lambda x: x[..., ...], "ellipsis"),
    ],
)
def test_indices_that_do_not_exist(f, message):
    with pytest.raises(IndexError, match=message):
        f(X)
    with pytest.raises(IndexError, match=message):
        gradient(f, X)


def test_slices_beyond_the_end_are_empty_as_in_numpy():
    (g,) = gradient(lambda x: x[5:] + x[:0], X)
    assert g is None or not g.any()
    with pytest.raises(ValueError, match="step"):
        gradient(lambda x: x[::0], X)


def test_a_write_that_does_not_fit():
    def f(x):
        y = x * 1.0
        y[:2] = x
        return y

    with pytest.raises(ValueError, match=r"\(3,\).*\(2,\)"):
        gradient(f, X)


@pytest.mark.parametrize("f", [np.max, np.min, np.argmax])
def test_reductions_without_an_identity_of_nothing(f):
    with pytest.raises(ValueError, match=r"max|min"):
        gradient(lambda x: f(x) * 1.0, np.ones(0))
    with pytest.raises(ValueError, match=r"max|min"):
        gradient(lambda x: f(x, axis=1) * 1.0, np.ones((3, 0)))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.broadcast_to(x[:1], (2**62,)) * 2.0,
        lambda x: np.broadcast_to(x[:1], (2**40, 2**40)) * 2.0,
        lambda x: np.broadcast_to(x[:1, None, None], (2**21, 2**21, 2**21)) + x[0],
        lambda x: x.reshape(2**40, 2**40),
        lambda x: x[:, None] @ np.broadcast_to(x[:1], (1, 2**61)),
        lambda x: np.pad(x, (0, 2**61)),
        lambda x: np.sum(np.tile(x, 4 * 10**12)),
        lambda x: np.sum(np.repeat(x, 4 * 10**12)),
        lambda x: np.sum(np.repeat(x[None], 4 * 10**12, axis=0)),
    ],
)
def test_huge_shapes_are_refused(f):
    with pytest.raises((ValueError, MemoryError)):
        ct.pullback(f, X)
    np.testing.assert_array_equal(gradient(lambda x: 2 * x, X)[0], [2.0, 2.0, 2.0])


def test_more_dimensions_than_numpy_has():
    deep = np.ones((1,) * 64)
    (g,) = gradient(lambda x: np.sin(x) * 2.0, deep)
    np.testing.assert_allclose(g, 2 * np.cos(deep))
    with pytest.raises((ValueError, IndexError), match="dimension|64"):
        gradient(lambda x: x[None], deep)


# --------------------------------------------------------------------------------------------------
# Types


@pytest.mark.parametrize(
    "other", ["text", None, object(), {"a": 1.0}, b"bytes"], ids=same_everywhere
)
@pytest.mark.parametrize(
    ("name", "f"),
    [
        ("mul", lambda x, o: x * o),
        ("add", lambda x, o: o + x),
        ("add", np.add),
        ("matmul", lambda x, o: x @ o),
        ("max", np.maximum),
    ],
    ids=["operator", "reflected", "ufunc", "matmul", "maximum"],
)
def test_operands_of_no_use(name, f, other):
    with pytest.raises(TypeError, match=rf"{name}|unsupported operand"):
        gradient(lambda x: f(x, other), X)
    assert not ct.isderiving()


class Grumpy:
    """Takes part in no NumPy operation, and says so."""

    __array_ufunc__ = None

    def __rmul__(self, other):
        return "mine"


def test_foreign_types_get_their_turn():
    seen = []
    gradient(lambda x: (seen.append(x * Grumpy()), x)[1], X)
    assert seen == ["mine"]


@pytest.mark.parametrize(
    "array",
    [
        np.array([1.0, "a"], dtype=object),
        np.array(["a", "b", "c"]),
        np.array([b"a", b"b", b"c"]),
        np.zeros(3, dtype=[("a", "f8"), ("b", "f4")]),
        np.array(["2020-01-01"] * 3, dtype="datetime64[D]"),
        np.array([1, 2, 3], dtype="timedelta64[s]"),
    ],
    ids=lambda a: str(a.dtype),
)
def test_dtypes_that_are_not_numbers_are_refused_by_name(array):
    kind = {"O": "object", "U": "U", "S": "S", "V": "a|void", "M": "datetime", "m": "timedelta"}
    with pytest.raises(TypeError, match=kind[array.dtype.kind]):
        ct.array(array)
    with pytest.raises(TypeError, match=kind[array.dtype.kind]):
        gradient(lambda x: x * array, np.ones(array.shape))


def test_long_double_is_no_double():
    """Works in full or is refused by name; it never loses bits in silence."""
    x = np.ones(3, np.longdouble)
    if x.dtype == np.float64:
        return
    with pytest.raises(TypeError, match=str(x.dtype)):
        ct.array(x)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.uint16, np.uint32, np.uint64])
def test_other_integers_are_exact_or_refused_by_name(dtype):
    info = np.iinfo(dtype)
    values = np.array([info.min, info.max, 3], dtype)
    try:
        held = ct.array(values)
    except TypeError as error:
        assert np.dtype(dtype).name in str(error)
        return
    back = np.asarray(held)
    assert [int(v) for v in back] == [int(v) for v in values]


@pytest.mark.parametrize("result", ["text", None, object(), np.array(["a"])], ids=same_everywhere)
def test_results_that_are_not_numbers(result):
    with pytest.raises(TypeError, match="scalar|result|return"):
        ct.gradient(lambda x: result, X)


@pytest.mark.parametrize("kind", [tuple, list])
def test_several_results(kind):
    with pytest.raises(TypeError, match=f"not a {kind.__name__} of 2; .*has_aux=True"):
        ct.gradient(lambda x: kind([np.sum(x), 1]), X)


def test_a_result_that_is_no_scalar():
    with pytest.raises(ValueError, match=r"scalar.*\(3,\)|\(3,\).*scalar"):
        ct.gradient(lambda x: x * 2, X)
    with pytest.raises(ValueError, match=r"scalar.*\(1,\)|\(1,\).*scalar"):
        ct.gradient(lambda x: x[:1], X)


def test_not_callable():
    for call in (ct.gradient, ct.value_and_gradient, ct.pullback, ct.trace):
        with pytest.raises(TypeError, match="callable"):
            call(3.0, X)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ct.grad(3), "grad: function must be a function, not int"),
        (lambda: ct.value_and_grad(None), "value_and_grad: function must be a function"),
        (lambda: ct.jacfwd("f"), "jacfwd: function must be a function, not str"),
        (lambda: ct.nograd(3), "nograd: function must be a function"),
        (lambda: ct.vmap(3), "vmap: function must be a function"),
        (lambda: ct.scan(3, 0.0, X), "scan: f must be a function"),
        (lambda: ct.fori_loop(0, 3, 3, 0.0), "fori_loop: body_fun must be a function"),
        (lambda: ct.fori_loop(0, 3.5, max, 0.0), "fori_loop: upper must be an integer, not 3.5"),
        (lambda: ct.while_loop(3, abs, 0.0), "while_loop: cond_fun must be a function"),
        (lambda: ct.while_loop(abs, abs, 0.0, max_steps="9"), "while_loop: max_steps must be an"),
        (lambda: ct.cond(True, 3, abs, 1.0), "cond: true_fn must be a function"),
        (lambda: ct.cond("no", abs, abs, 1.0), "cond: pred must be a bool or a number, not str"),
        (lambda: ct.update([1.0], [1.0], 3), "update: function must be a function"),
        (lambda: ct.tree_map(3, X), "tree_map: function must be a function"),
        (
            lambda: ct.tree_unflatten(ct.tree_structure([1.0]), 3),
            "tree_unflatten: leaves must be a list, not int",
        ),
        (lambda: ct.check_grads(3, (X,)), "check_grads: f must be a function"),
        (lambda: ct.clip_gradient(X, low="a"), "clip_gradient: low must be a number, not 'a'"),
        (lambda: ct.clip_gradient(X, norm="a"), "clip_gradient: norm must be a number, not 'a'"),
    ],
)
def test_arguments_of_another_kind_are_named(call, message):
    with pytest.raises(TypeError, match=message):
        call()


def test_cotangents_that_do_not_fit():
    _, back = ct.pullback(np.sin, X)
    for dy, error, message in (
        (np.ones(4), ValueError, r"\(4,\).*\(3,\)|\(3,\).*\(4,\)"),
        (np.ones((3, 1)), ValueError, r"\(3, 1\)"),
        ("text", TypeError, "str"),
        (np.array(["a", "b", "c"]), TypeError, "U1|str"),
        (np.ones(3) * 1j, TypeError, "complex"),
    ):
        with pytest.raises(error, match=message):
            [np.asarray(d) for d in back(dy)]


@pytest.mark.parametrize(
    "f",
    [
        lambda x: float(x[0]) * x[0],
        lambda x: complex(x[0]).real,
        lambda x: np.float64(x[0]),
    ],
    ids=["float", "complex", "float64"],
)
def test_nothing_detaches_in_silence(f):
    with ct.strict(), pytest.raises(TypeError, match="dropgrad"):
        ct.gradient(f, X)
    (gradient,) = ct.gradient(f, X)
    assert gradient[0] != 0 and not gradient[1:].any()


@pytest.mark.parametrize("f", [memoryview, np.frombuffer, bytes])
def test_memory_is_not_handed_out(f):
    with pytest.raises(TypeError):
        ct.gradient(lambda x: f(x), X)


@pytest.mark.parametrize(
    "f", [lambda z: memoryview(z).nbytes, lambda z: z.ctypes.data, lambda z: z.data.nbytes]
)
def test_constants_have_memory_and_active_arrays_have_not(f):
    assert ct.gradient(lambda x: (f(np.zeros(3)) > 0) * x, 1.0) == (1.0,)
    with pytest.raises((TypeError, AttributeError), match=r"has no memory.*ct\.dropgrad\(x\)"):
        ct.gradient(lambda x: f(np.zeros(3) * x) * x, 1.0)


def test_functions_without_a_rule_are_refused_by_name():
    special = pytest.importorskip("scipy.special")
    with pytest.raises(TypeError, match="zetac.* has no derivative rule"):
        gradient(lambda x: special.zetac(x), X)


def test_keywords_that_a_ufunc_does_not_have():
    with pytest.raises(TypeError, match="colour"):
        gradient(lambda x: np.sin(x, colour="red"), X)


def test_lists_that_contain_themselves_are_no_arrays():
    cycle = [1.0]
    cycle.append(cycle)
    for call in (
        lambda: ct.array(cycle),
        lambda: ct.array([1.0]) + cycle,
        lambda: ct.gradient(lambda x: ct.hook(lambda g: cycle, x), 2.0),
        lambda: ct.gradient(ct.adjoint(lambda x: (x, lambda d: cycle)), 2.0),
    ):
        with pytest.raises((ValueError, TypeError)):
            call()


@pytest.mark.parametrize(
    ("array", "remedy"),
    [
        (np.array([1.0, None], dtype=object), "astype"),
        (np.array(["a", "b"]), "astype"),
        (np.array([b"a", b"b"]), "astype"),
        (np.zeros(2, dtype=[("a", "f8")]), r"x\['name'\]"),
        (np.zeros(2, dtype="V4"), "view"),
        (np.array(["2020-01-01"] * 2, dtype="datetime64[D]"), "np.timedelta64"),
        (np.array([1, 2], dtype="timedelta64[s]"), "np.timedelta64"),
        (np.ones(2, dtype=np.longdouble), "astype"),
    ],
    ids=lambda a: str(a.dtype) if isinstance(a, np.ndarray) else "",
)
def test_each_dtype_that_is_not_ours_has_its_own_remedy(array, remedy):
    with pytest.raises(TypeError, match=f"dtype.*{remedy}"):
        ct.array(array)
    if array.dtype != np.longdouble:
        with pytest.raises(TypeError, match=f"dtype.*{remedy}"):
            gradient(lambda x: x * array, np.ones(array.shape))


def test_an_element_that_is_no_number_is_named_with_its_dtype():
    objects = np.array([1.0, "a"], dtype=object)
    for f in (lambda x: x * objects, lambda x: objects * x, lambda x: np.multiply(x, objects)):
        with pytest.raises(TypeError, match="dtype object.*'str'.*astype"):
            gradient(f, np.ones(2))


@pytest.mark.parametrize(
    "f",
    [
        lambda objects, out: np.sin(objects, out),
        lambda objects, out: np.add(objects, 1.0, out=out),
        lambda objects, out: np.add.accumulate(objects, out=out),
        lambda objects, out: np.modf(objects, None, out),
        lambda objects, out: np.dot(objects, np.ones((2, 2)), out=out),
        lambda objects, out: np.dot(objects, np.ones((2, 2)), out),
    ],
)
def test_arrays_of_objects_have_no_result_in_an_array_of_numbers(f):
    with pytest.raises(TypeError, match=r"result for arrays of dtype object .* out=; .* astype"):
        f(np.array([1.0, 2.0], dtype=object), ct.array(np.zeros(2)))


def test_arrays_with_fields_are_named():
    def field(x):
        table = np.zeros(3, dtype=[("x", "f8"), ("y", "f8")])
        table["x"] = x
        return table["x"].sum()

    def row(x):
        table = np.zeros(3, dtype=[("x", "f8"), ("y", "f8")])
        table[0] = (x, 2.0)
        return table["x"].sum()

    def record(x):
        table = np.recarray((3,), dtype=[("x", "f8"), ("y", "f8")])
        table.x = x
        return table.x.sum()

    for f in (field, row, record):
        with pytest.raises(TypeError, match="one array for each field"):
            ct.gradient(f, 1.0)


@pytest.mark.parametrize(
    ("call", "remedy"),
    [
        (lambda k: _stepped(k), r"in scipy\.integrate\.OdeSolver.*use scipy\.integrate\.solve_ivp"),
        (lambda k: interpolate.BPoly([[1.0], [k]], [0, 1])(0.3), "BPoly .*use CubicSpline"),
        (lambda k: interpolate.AAA(np.arange(5.0), k * np.arange(5.0)), "AAA .*use Floater"),
        (
            lambda k: interpolate.BPoly.from_derivatives([0, 1], [[0, k], [1, 2]]),
            r"in scipy\.interpolate.*use CubicSpline",
        ),
        (lambda k: linalg.qz(np.eye(2) * k, np.eye(2)), r"linalg\.qz .*use np\.linalg\.eig"),
        (lambda k: linalg.funm(np.eye(2), lambda z: z * k), "compiled code takes memory"),
    ],
)
def test_what_of_scipy_has_no_rule_names_what_has(call, remedy):
    with pytest.raises(TypeError, match=remedy):
        ct.gradient(call, 1.3)


def _stepped(k):
    solver = integrate.RK45(lambda t, y: -k * y, 0.0, np.array([2.0]), 1.0)
    solver.step()
    return solver.y[0]


def test_an_error_that_compiled_code_went_on_after_arrives_itself():
    def f(x):
        error = SystemError("<ufunc 'isnan'> returned a result with an exception set")
        raise error from ct.NotDifferentiableError("use another function")

    with pytest.raises(ct.NotDifferentiableError, match="use another function"):
        ct.gradient(f, 1.0)


def test_a_solver_that_is_a_default_argument():
    from scipy.optimize import brentq

    def root(p, solver=brentq):
        return solver(lambda x: x**3 + x - p, 0, 5)

    np.testing.assert_allclose(ct.gradient(root, 2.0)[0], 0.25)


@pytest.mark.parametrize(
    "labels", [np.array(["a", "b"]), np.array(["2024-01-01"] * 2, "M8[D]"), np.array([None, None])]
)
def test_arrays_of_other_things_beside_what_is_differentiated(labels):
    def f(x, labels):
        return x * len(labels)

    assert ct.gradient(f, 1.0, labels, wrt="x")[0] == 2.0
    assert ct.prepare(f, wrt="x")(1.0, labels)[0] == 2.0
    with pytest.raises(ct.NotDifferentiableError, match=r"labels is an array of dtype.*const\("):
        ct.gradient(f, 1.0, labels)
    with pytest.raises(TypeError, match="vmap: labels is an array.*in_axes"):
        ct.vmap(f)(np.ones(2), labels)


# --------------------------------------------------------------------------------------------------
# Blocks


@pytest.mark.parametrize(
    "block",
    [ct.strict, ct.lifting, ct.detect, ct.profile, lambda: ct.use("cpu")],
    ids=["strict", "lifting", "detect", "profile", "use"],
)
def test_a_block_that_is_not_entered_is_not_left(block):
    made = block()
    for _ in range(2):
        with pytest.raises(RuntimeError, match=rf"^{type(made).__name__}: it is not entered"):
            made.__exit__(None, None, None)
        with made, made:
            pass
    assert ct.gradient(lambda x: float(x) ** 2, 3.0) == (6.0,)
