"""Every primitive from its table entry: values, derivatives, text.

A new entry is tested without a line here, if it says what it is in NumPy. Otherwise its reference
goes into `REFERENCES` of `table_cases`.
"""

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.special
from table_cases import (
    DTYPES,
    FLOATING,
    INTEGER,
    REAL_ONLY,
    REFERENCES,
    SHORT,
    TABLE,
    apply,
    arguments,
    assert_same,
    cases,
    plain,
    reference,
    samples,
    values,
)

import cotan as ct
from cotan import _core

TOP = Path(__file__).parents[3]
# --------------------------------------------------------------------------------------------------
# The table itself, and what is generated from it


def test_every_entry_says_what_it_is():
    assert len(TABLE) == len(_core.table())
    for name, entry in TABLE.items():
        assert entry["doc"].endswith("."), name
        assert entry["class"] in {"elementwise", "linear", "general"}
        assert (entry["types"] is not None) == (entry["class"] == "elementwise")
        assert (entry["onnx"] is None) != (entry["onnx_reason"] is None), name
        assert (entry["wgsl"] is None) != (entry["wgsl_reason"] is None), name
        assert bool(samples(entry)) != bool(entry["samples_reason"]), name
        if samples(entry):
            assert bool(entry["numpy"]) != (name in REFERENCES), name


def test_elementwise_entries_are_public_functions_with_their_docstring():
    for name, entry in TABLE.items():
        if entry["class"] == "elementwise":
            function = getattr(ct, name)
            assert name in ct.__all__
            assert function.__doc__.split() == entry["doc"].split()
            with pytest.raises(TypeError):
                function(*[1.0] * (len(entry["args"]) + 1))


def test_unknown_primitives_and_missing_parameters_are_refused_by_name():
    with pytest.raises(ValueError, match="tangens"):
        _core.apply("tangens", 1.0)
    with pytest.raises(ValueError, match="transpose"):
        _core.apply("transpose", np.ones((2, 3)))


def test_ufuncs_are_named_once():
    for module, text in ((np, "np"), (scipy.special, "scipy.special")):
        for name, primitive in _core.ufuncs(text).items():
            assert hasattr(module, name)
            assert TABLE[primitive]["numpy"].startswith(f"{text}.{name}(")
    assert _core.ufuncs("np")["maximum"] == "maximum"
    assert _core.ufuncs("scipy.special").keys() == {"erf", "erfc", "erfinv"}


def stub_names(path):
    names = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names[node.name] = node
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names[node.target.id] = node
    return names


def test_the_stub_has_what_the_module_has():
    names = stub_names(Path(ct.__file__).with_name("_core.pyi"))
    types = {n for n, node in names.items() if isinstance(node, ast.AnnAssign)} - {"__version__"}
    private = {n for n in vars(_core) if n.startswith("__")} - {"__version__"}
    assert set(names) - types == set(vars(_core)) - private
    for name, node in names.items():
        if isinstance(node, ast.ClassDef):
            cls = getattr(_core, name)
            members = {n.name for n in node.body if isinstance(n, ast.FunctionDef)}
            members |= {n.target.id for n in node.body if isinstance(n, ast.AnnAssign)}
            # Names that are looked up one by one are no member.
            assert members - {"__getattr__"} <= set(dir(cls)), name
            public = {n for n in vars(cls) if not n.startswith("_")}
            assert public <= members, name


def test_generated_files_are_current():
    if importlib.util.find_spec("ruff") is None:
        pytest.skip("ruff, which formats them, is not installed")
    script = TOP / "tools" / "generate.py"
    done = subprocess.run(
        [sys.executable, script, "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


# --------------------------------------------------------------------------------------------------
# Values


@pytest.mark.parametrize(("name", "number"), cases(lambda e: True))
def test_value(name, number):
    args, params = arguments(name, number)
    assert_same(apply(name, args, params), reference(name, args, params))


@pytest.mark.parametrize(
    ("name", "number"), cases(lambda e: e["types"] not in INTEGER and e["args"])
)
def test_float32_next_to_float64(name, number):
    args, params = arguments(name, number, "float32")
    wide = [a.astype({"f": "f8", "c": "c16"}.get(a.dtype.kind, a.dtype)) for a in args]
    actual = plain(apply(name, args, params))
    expected = plain(apply(name, wide, params))
    if expected.dtype.kind in "fc" and name != "cast":
        assert actual.dtype.itemsize * 2 == expected.dtype.itemsize
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "name",
    [n for n, e in TABLE.items() if n in [*_core.ufuncs("np").values(), "where"] and e["types"]],
)
def test_dtypes_are_numpys(name, dtype):
    entry = TABLE[name]
    args, params = arguments(name, 0, dtype)
    if entry["types"] in INTEGER and np.dtype(dtype).kind in "fc":
        args = [a.astype(dtype) for a in args]
    try:
        expected = reference(name, args, params)
        # What NumPy computes in dtypes that there are none of here is refused.
        refused = str(expected.dtype) not in DTYPES
        refused |= (
            entry["types"] in {"real", "real number", "float"} and np.dtype(dtype).kind == "c"
        )
    except TypeError:
        refused = True
    if refused:
        with pytest.raises(TypeError, match=rf"^{name}.*{dtype}"):
            plain(apply(name, args, params))
    else:
        assert_same(apply(name, args, params), expected, factor=4)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "int64", "float16", "float32"])
@pytest.mark.parametrize("name", ["sigmoid", "softplus", "erf", "erfc", "erfinv"])
def test_dtypes_of_functions_that_numpy_lacks(name, dtype):
    x = np.array([0, 1], dtype)
    assert getattr(ct, name)(x).dtype == np.exp(x).dtype


SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -2.5, np.inf, -np.inf, np.nan, 1e300, -1e-300])


@pytest.mark.parametrize("name", FLOATING)
def test_special_values(name):
    count = len(TABLE[name]["args"])
    args = list(np.meshgrid(*[SPECIAL] * count, indexing="ij"))
    if name == "where":
        args[0] = args[0] > 0
    actual = plain(apply(name, args, {}))
    expected = reference(name, args, {})
    np.testing.assert_allclose(actual, expected, rtol=1e-14, atol=0)
    # IEEE leaves open which of two zeros `fmax` gives, and SciPy's `erfinv` forgets the sign.
    if expected.dtype.kind == "f" and name not in {"fmax", "fmin", "erfinv"}:
        zero = (expected == 0) & (actual == 0)
        np.testing.assert_array_equal(np.signbit(actual[zero]), np.signbit(expected[zero]))


# --------------------------------------------------------------------------------------------------
# Derivatives


def weighted(name, params, args, seed=1):
    """A real function of the floating arguments of a primitive, and those arguments."""
    places = [i for i, a in enumerate(args) if a.dtype.kind in "fc"]
    out = plain(apply(name, args, params))
    rng = np.random.default_rng([seed, *name.encode()])
    weight = rng.uniform(0.5, 1.5, out.shape)
    if out.dtype.kind == "c":
        weight = weight + 1j * rng.uniform(0.5, 1.5, out.shape)

    def f(*active):
        all_args = list(args)
        for i, a in zip(places, active, strict=True):
            all_args[i] = a
        y = apply(name, all_args, params)
        if y.dtype.kind == "c":
            return ct.sum(ct.mul(y, weight).real)
        return ct.sum(ct.mul(y, weight.real.astype(y.dtype)))

    return f, [args[i] for i in places]


def dense(gradients, args):
    return [np.zeros_like(a) if g is None else g for g, a in zip(gradients, args, strict=True)]


def differences(f, args, h=1e-5):
    """The gradient of a real function by central differences, also in the complex plane."""
    out = []
    for k, x in enumerate(args):
        g = np.zeros_like(x)
        for i in np.ndindex(x.shape):
            for step in (h, 1j * h) if x.dtype.kind == "c" else (h,):
                up, down = x.copy(), x.copy()
                up[i] += step
                down[i] -= step
                high = f(*args[:k], up, *args[k + 1 :])
                low = f(*args[:k], down, *args[k + 1 :])
                g[i] += (float(high) - float(low)) / (2 * h) * (step / h)
        out.append(g)
    return out


def differentiable(entry):
    return entry["differentiable"] and entry["args"]


# A cast to float32 swallows small differences; it has a test of its own.
@pytest.mark.parametrize(
    ("name", "number"), cases(lambda e: differentiable(e) and e["name"] != "cast")
)
def test_gradient(name, number):
    args, params = arguments(name, number)
    f, active = weighted(name, params, args)
    gradients = ct.gradient(f, *active)
    for g, expected in zip(dense(gradients, active), differences(f, active), strict=True):
        assert g.dtype == expected.dtype
        np.testing.assert_allclose(g, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("name", "number"), cases(lambda e: differentiable(e) and e["name"] != "cast")
)
def test_second_order(name, number):
    args, params = arguments(name, number)
    f, active = weighted(name, params, args)
    rng = np.random.default_rng(2)
    along = [rng.uniform(0.5, 1.5, a.shape).astype(a.dtype) for a in active]

    def directional(*xs):
        total = 0.0
        for g, v in zip(ct.gradient(f, *xs), along, strict=True):
            if g is not None:
                product = ct.sum(ct.mul(g, v))
                total = total + (product.real if product.dtype.kind == "c" else product)
        return total

    gradients = ct.gradient(directional, *active)
    for g, expected in zip(dense(gradients, active), differences(directional, active), strict=True):
        np.testing.assert_allclose(g, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "number"),
    cases(
        lambda e: (
            differentiable(e)
            and e["types"] in {None, "any", "number", "inexact", "quotient", "complex"}
            # The first two are not defined for complex numbers, the others are real or NaN there.
            and e["name"] not in {"logsumexp", "rfft", "cast", "complex", "sign"}
            and e["name"] not in REAL_ONLY
        )
    ),
)
def test_complex_gradient(name, number):
    args, params = arguments(name, number, "complex128")
    assert_same(apply(name, args, params), reference(name, args, params), factor=10)
    f, active = weighted(name, params, args)
    gradients = ct.gradient(f, *active)
    for g, expected in zip(dense(gradients, active), differences(f, active), strict=True):
        np.testing.assert_allclose(g, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("name", "number"), cases(lambda e: differentiable(e) and e["name"] != "cast")
)
def test_gradient_in_float32(name, number):
    args, params = arguments(name, number, "float32")
    f, active = weighted(name, params, args)
    wide = [a.astype({"f": "f8", "c": "c16"}.get(a.dtype.kind, a.dtype)) for a in args]
    g, active_wide = weighted(name, params, wide)
    narrow = dense(ct.gradient(f, *active), active)
    expected = dense(ct.gradient(g, *active_wide), active_wide)
    for a, b, x in zip(narrow, expected, active, strict=True):
        assert a.dtype == x.dtype
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "number"),
    cases(lambda e: not e["differentiable"] and e["args"] and e["types"] not in INTEGER),
)
def test_no_derivative(name, number):
    args, params = arguments(name, number)

    def f(*xs):
        return ct.sum(ct.mul(apply(name, xs, params), 1.0))

    assert ct.gradient(f, *args) == (None,) * len(args)


@pytest.mark.parametrize("dtype", ["int8", "int64", "float16", "float32", "float64"])
def test_rectifier_is_flat_at_zero(dtype):
    x = np.array([-2, 0, 3], dtype)
    y = ct.relu(x)
    assert y.dtype == dtype
    assert y.tolist() == [0, 0, 3]
    # A mask: what it leaves out has no derivative, however steep it is.
    slope = ct.gradient(lambda x: ct.sum(ct.relu(ct.log(x))), np.array([0.0, 1.0, 2.0]))[0]
    assert slope.tolist() == [0.0, 0.0, 0.5]


def test_cast_passes_the_gradient():
    x = np.array([0.1, 0.2])
    (g,) = ct.gradient(lambda x: ct.sum(ct.mul(ct.cast(x, "float32"), np.float32(3))), x)
    assert g.dtype == np.float64
    np.testing.assert_array_equal(g, [3.0, 3.0])
    (g,) = ct.gradient(lambda x: ct.sum(ct.cast(x, "complex128").real), x)
    np.testing.assert_array_equal(g, [1.0, 1.0])


# --------------------------------------------------------------------------------------------------
# Text


def aval(x):
    return f"{SHORT[str(x.dtype)]}[{','.join(map(str, x.shape))}]"


@pytest.mark.parametrize(("name", "number"), cases(lambda e: True))
def test_text_of_one_equation(name, number):
    args, params = arguments(name, number)
    if TABLE[name]["class"] == "elementwise":
        dtype = np.result_type(*[a.dtype for a in args[name == "where" :]])
        dtype = bool if TABLE[name]["types"] == "logical" else dtype
        args = [a if a.dtype == bool and name == "where" else a.astype(dtype) for a in args]
    out = _core.apply(name, *args, **params)
    variables = [f"%{i}" for i in range(len(args))]
    head = ", ".join(f"{v}: {aval(a)}" for v, a in zip(variables, args, strict=True))
    given = ", ".join(f"{k}={v}" for k, v in params.items())
    given = f"[{given}]" if given else ""
    result = f"%{len(args)}"
    text = (
        f"program({head}) {{\n"
        f"  {result}: {aval(out)} = {name}{given}({', '.join(variables)})\n"
        f"  return {result}\n}}\n"
    )
    program = ct.Program.parse(text)
    assert str(program) == text
    assert ct.Program.parse(str(program)) == program
    (equation,) = program.equations
    assert equation.primitive == name
    names = {short: long for long, short in SHORT.items()}
    wanted = {
        k: np.dtype(names[v]) if k == "dtype" else values({k: v})[k] for k, v in params.items()
    }
    assert equation.params == wanted
    actual = plain(program(*args))
    np.testing.assert_array_equal(actual, plain(out))
    assert actual.dtype == out.dtype


@pytest.mark.parametrize(("name", "number"), cases(lambda e: differentiable(e)))
def test_text_of_a_trace(name, number):
    args, params = arguments(name, number)
    f, active = weighted(name, params, args)

    def both(*xs):
        return f(*xs), [g for g in ct.gradient(f, *xs) if g is not None]

    program = ct.trace(both, *active)
    optimized = program.optimize()
    for one in (program, optimized):
        # Bound values are no part of the text.
        read = ct.Program.parse(str(one))
        assert ct.Program.parse(str(read)) == read
        assert [*map(str, read.equations)] == [*map(str, one.equations)]
    plainly, quickly = program(*active), optimized(*active)
    if not isinstance(plainly, tuple):
        plainly, quickly = (plainly,), (quickly,)
    for a, b in zip(plainly, quickly, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)
