"""Every primitive from its table entry: values, derivatives, text; the vector functions to the bit.

A new entry is tested without a line here, if it says what it is in NumPy. Otherwise its reference
goes into `REFERENCES`.
"""

import ast
import importlib.util
import math
import subprocess
import sys
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest
import scipy.special

import cotan as ct
from cotan import _core

TOP = Path(__file__).parents[2]
TABLE = {entry["name"]: entry for entry in _core.table()}
SHORT = {
    "bool": "bool", "int8": "i8", "uint8": "u8", "int16": "i16", "uint16": "u16", "int32": "i32",
    "uint32": "u32", "int64": "i64", "uint64": "u64", "float16": "f16", "float32": "f32",
    "float64": "f64", "complex64": "c64", "complex128": "c128",
}  # fmt: skip
DTYPES = list(SHORT)

# Kinds of dtypes of entries that do not take floats.
INTEGER = {"integer", "whole number"}

# --------------------------------------------------------------------------------------------------
# What the primitives without a NumPy expression do


def region(start, len, step):
    stops = [(a + n * s) for a, n, s in zip(start, len, step, strict=True)]
    return tuple(
        slice(a, None if b < 0 else b, s) for a, b, s in zip(start, stops, step, strict=True)
    )


def padded(x, shape, **dims):
    out = np.zeros(shape, x.dtype)
    out[region(**dims)] = x
    return out


def updated(x, y, **dims):
    out = x.copy()
    out[region(**dims)] = y
    return out


def scattered(x, index, updates, add):
    out = x.copy()
    if add:
        np.add.at(out, index, updates)
    else:
        out[index] = updates
    return out


def cumsum(x, axis, reverse):
    if reverse:
        return np.flip(np.cumsum(np.flip(x, axis), axis), axis)
    return np.cumsum(x, axis)


def fft(x, axes, inverse, scale):
    axes = axes if isinstance(axes, tuple) else (axes,)
    if inverse:
        return np.fft.ifftn(x, axes=axes, norm="forward") * scale
    return np.fft.fftn(x, axes=axes) * scale


def rfft(x, axis, length, folded, scale):
    assert x.shape[axis] == length
    y = np.moveaxis(np.fft.rfft(x, axis=axis) * scale, axis, -1)
    if folded:
        y[..., 1 : (length + 1) // 2] *= 2
    return np.moveaxis(y, -1, axis)


def irfft(x, axis, length, folded, scale):
    x = np.moveaxis(np.array(x), axis, -1)
    if folded:
        x[..., 1 : (length + 1) // 2] /= 2
    return np.moveaxis(np.fft.irfft(x, length, norm="forward") * scale, -1, axis)


def taps(x, lead, **windows):
    """Give what each tap of a window sees at each place: `lead` axes, places, taps."""
    ways = zip(
        *(windows[k] for k in ("size", "len", "pad", "stride", "dilation", "expansion")),
        strict=True,
    )
    seen = np.asarray(x)
    for i, (size, length, pad, stride, dilation, expansion) in enumerate(ways):
        at = np.arange(size)[:, None] * stride + np.arange(length) * dilation - pad
        inside = (at >= 0) & (at % expansion == 0) & (at // expansion < x.shape[lead + i])
        axis = lead + 2 * i
        picked = np.take(seen, np.where(inside, at // expansion, 0), axis)
        mask = inside.reshape((1,) * axis + inside.shape + (1,) * (seen.ndim - axis - 1))
        seen = np.where(mask, picked, 0)
    n = len(windows["size"])
    order = [*range(lead), *range(lead, lead + 2 * n, 2), *range(lead + 1, lead + 2 * n, 2)]
    return seen.transpose(order)


def window_taps(x, **windows):
    """Values of windows, taps flat in the last axis."""
    n = len(windows["size"])
    seen = taps(x, x.ndim - n, **windows)
    return seen.reshape(*seen.shape[: x.ndim], -1)


def convolved(x, y, **windows):
    letters = "pqr"[: len(windows["size"])]
    return np.einsum(
        f"ngc{letters}{letters.upper()},goc{letters.upper()}->ngo{letters}",
        taps(x, 3, **windows),
        y,
    )


def first_greatest(x, **windows):
    """For each window the flat position of its first greatest element."""
    places = np.arange(1, x.size + 1).reshape(x.shape)
    at = window_taps(places, **windows) - 1
    seen = np.where(at >= 0, window_taps(x, **windows), -np.inf)
    return np.take_along_axis(at, np.argmax(seen, -1)[..., None], -1)[..., 0]


def unpicked(x, y, **windows):
    out = np.zeros(x.size, y.dtype)
    np.add.at(out, first_greatest(x, **windows), y)
    return out.reshape(x.shape)


REFERENCES = {
    "conv": convolved,
    "window_sum": lambda x, **windows: window_taps(x, **windows).sum(-1),
    "window_max": lambda x, **windows: x.reshape(-1)[first_greatest(x, **windows)],
    "window_pick": lambda x, y, **windows: y.reshape(-1)[first_greatest(x, **windows)],
    "window_unpick": unpicked,
    "fft": fft,
    "rfft": rfft,
    "irfft": irfft,
    "erf": scipy.special.erf,
    "erfc": scipy.special.erfc,
    "cumsum": cumsum,
    "slice": lambda x, **dims: x[region(**dims)],
    "pad": padded,
    "gather": lambda x, index: x[index],
    "scatter_add": lambda x, index, updates: scattered(x, index, updates, True),
    "scatter": lambda x, index, updates: scattered(x, index, updates, False),
    "update": updated,
    "update_add": lambda x, y, **dims: updated(x, x[region(**dims)] + y, **dims),
}

# They compare.
REAL_ONLY = {"window_max", "window_pick", "window_unpick"}

# Their arguments are complex, which a sample cannot say.
COMPLEX_ONLY = {"real", "imag", "irfft"}


def values(params):
    """The parameters of a sample as Python values."""
    texts = {k: v.capitalize() if v in {"true", "false"} else v for k, v in params.items()}
    return {k: v if k == "dtype" else ast.literal_eval(v) for k, v in texts.items()}


def reference(name, args, params):
    """What NumPy gives for a primitive."""
    if name in REFERENCES:
        return REFERENCES[name](*args, **values(params))
    names = {long: short for short, long in SHORT.items()}
    texts = {k: f"'{names[v]}'" if k == "dtype" else v for k, v in params.items()}
    text = TABLE[name]["numpy"].format(*(f"a[{i}]" for i in range(len(args))), **texts)
    with np.errstate(all="ignore"):
        return np.asarray(eval(text, {"np": np, "a": args}))


def samples(entry):
    return entry["samples"]


def cases(keep):
    return [
        pytest.param(entry["name"], i, id=f"{entry['name']}-{i}")
        for entry in TABLE.values()
        for i in range(len(samples(entry)))
        if keep(entry)
    ]


def arguments(name, number, dtype="float64", seed=0):
    """Random arguments of a sample, and its parameters."""
    entry = TABLE[name]
    inputs, params = samples(entry)[number]
    rng = np.random.default_rng([seed, number, *name.encode()])
    kind = np.dtype(dtype).kind
    args = []
    for argument, (shape, low, high) in zip(entry["args"] * len(inputs), inputs, strict=False):
        x = rng.uniform(low, high, shape)
        if argument == "index":
            args.append(np.asarray(x.astype(np.int64)))
        elif argument == "cond":
            args.append(np.asarray(x > 0))
        elif entry["types"] in INTEGER:
            args.append(np.asarray(np.round(x).astype(np.int64 if kind in "fc" else dtype)))
        elif kind == "c" or name in COMPLEX_ONLY:
            z = x + 1j * rng.uniform(low, high, shape)
            args.append(
                np.asarray(
                    z.astype(
                        {"float32": "complex64", "complex64": "complex64"}.get(
                            str(dtype), "complex128"
                        )
                    )
                )
            )
        elif entry["types"] == "logical" or kind not in "fc":
            args.append(np.asarray(np.round(np.abs(x) if kind in "bu" else x).astype(dtype)))
        else:
            args.append(np.asarray(x.astype(dtype)))
    return args, params


def apply(name, args, params):
    if TABLE[name]["class"] == "elementwise":
        return getattr(ct, name)(*args)
    return _core.apply(name, *args, **params)


def plain(x):
    return np.asarray(ct.dropgrad(x))


def tolerance(dtype):
    return {"e": 2e-3, "f": 2e-6, "F": 5e-6}.get(np.dtype(dtype).char, 2e-14)


def assert_same(actual, expected, factor=1.0):
    actual = plain(actual)
    assert actual.shape == expected.shape
    assert actual.dtype == expected.dtype
    rtol = factor * tolerance(expected.dtype)
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=rtol)


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
    ufuncs = _core.ufuncs()
    for name, primitive in ufuncs.items():
        assert hasattr(np, name)
        assert TABLE[primitive]["numpy"].startswith(f"np.{name}(")


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
    "name", [n for n, e in TABLE.items() if n in [*_core.ufuncs().values(), "where"] and e["types"]]
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
@pytest.mark.parametrize("name", ["sigmoid", "softplus", "erf", "erfc"])
def test_dtypes_of_functions_that_numpy_lacks(name, dtype):
    x = np.array([0, 1], dtype)
    assert getattr(ct, name)(x).dtype == np.exp(x).dtype


SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -2.5, np.inf, -np.inf, np.nan, 1e300, -1e-300])
FLOATING = [
    n for n, e in TABLE.items() if e["class"] == "elementwise" and e["types"] not in INTEGER
]


@pytest.mark.parametrize("name", FLOATING)
def test_special_values(name):
    count = len(TABLE[name]["args"])
    args = list(np.meshgrid(*[SPECIAL] * count, indexing="ij"))
    if name == "where":
        args[0] = args[0] > 0
    actual = plain(apply(name, args, {}))
    expected = reference(name, args, {})
    np.testing.assert_allclose(actual, expected, rtol=1e-14, atol=0)
    # IEEE leaves open which of two zeros `fmax` gives.
    if expected.dtype.kind == "f" and name not in {"fmax", "fmin"}:
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


# --------------------------------------------------------------------------------------------------
# Accuracy of the vector functions: at most 2 units in the last place


@pytest.fixture(autouse=True)
def fifty_digits():
    with mp.workdps(50):
        yield


def power(x, y):
    result = mp.exp(y * mp.log(abs(x)))
    return -result if x < 0 and y % 2 == 1 else result


# The function in mpmath, and the interval in which it is compared.
UNARY = {
    "exp": (mp.exp, (-750, 711)),
    "exp2": (lambda x: mp.power(2, x), (-1080, 1025)),
    "expm1": (mp.expm1, (-750, 711)),
    "log": (mp.log, (5e-324, 1.7e308)),
    "log2": (lambda x: mp.log(x) / mp.log(2), (5e-324, 1.7e308)),
    "log10": (lambda x: mp.log(x) / mp.log(10), (5e-324, 1.7e308)),
    "log1p": (mp.log1p, (-1, 1.7e308)),
    "sqrt": (mp.sqrt, (0, 1.7e308)),
    "cbrt": (lambda x: mp.sign(x) * mp.cbrt(abs(x)), (-1.7e308, 1.7e308)),
    "reciprocal": (lambda x: 1 / x, (-1.7e308, 1.7e308)),
    "square": (lambda x: x * x, (-1.7e308, 1.7e308)),
    "sin": (mp.sin, (-1.7e308, 1.7e308)),
    "cos": (mp.cos, (-1.7e308, 1.7e308)),
    "tan": (mp.tan, (-1.7e308, 1.7e308)),
    "asin": (mp.asin, (-1, 1)),
    "acos": (mp.acos, (-1, 1)),
    "atan": (mp.atan, (-1.7e308, 1.7e308)),
    "sinh": (mp.sinh, (-712, 712)),
    "cosh": (mp.cosh, (-712, 712)),
    "tanh": (mp.tanh, (-400, 400)),
    "asinh": (mp.asinh, (-1.7e308, 1.7e308)),
    "acosh": (mp.acosh, (1, 1.7e308)),
    "atanh": (mp.atanh, (-1, 1)),
    "sigmoid": (lambda x: 1 / (1 + mp.exp(-x)), (-750, 750)),
    "softplus": (lambda x: mp.log1p(mp.exp(x)), (-750, 750)),
    "erf": (lambda x: mp.erf(x) if abs(x) > 1e-25 else 2 * x / mp.sqrt(mp.pi), (-30, 30)),
    "erfc": (mp.erfc, (-30, 28)),
}

BINARY = {
    "pow": (power, (1e-5, 1e5), (-60, 60)),
    "atan2": (mp.atan2, (-1e300, 1e300), (-1e300, 1e300)),
    "hypot": (lambda x, y: mp.sqrt(x * x + y * y), (-1e300, 1e300), (-1e300, 1e300)),
    "logaddexp": (
        lambda x, y: max(x, y) + mp.log1p(mp.exp(-abs(x - y))),
        (-700, 700),
        (-700, 700),
    ),
}


def test_every_dear_function_is_measured():
    dear = {n for n, e in TABLE.items() if e["class"] == "elementwise" and e["cost"] == "dear"}
    assert dear <= UNARY.keys() | BINARY.keys()


def points(interval, dtype, count, rng):
    """Numbers of an interval: evenly, by magnitude, subnormal, at the ends and around a half."""
    limits = np.finfo(dtype)
    low, high = (float(np.clip(b, -limits.max, limits.max)) for b in interval)
    spread = np.exp2(rng.uniform(math.log2(limits.smallest_subnormal), limits.maxexp, count))
    near = np.ldexp(rng.uniform(0.5, 1, count), -rng.integers(0, 60, count))
    parts = [
        rng.uniform(max(low, -50), min(high, 50), count),
        rng.uniform(max(low, -1e4), min(high, 1e4), count),
        spread * rng.choice([-1, 1], count),
        low + near,
        high - near,
        [low, high, limits.max, -limits.max, limits.tiny, -limits.tiny, 0.5, -0.5, 1, -1],
        limits.smallest_subnormal * rng.integers(1, 1000, 20) * rng.choice([-1, 1], 20),
        rng.choice([0.25, 0.5, 1, math.pi / 2, math.pi, 8], count) + near * 1e-2,
    ]
    with np.errstate(all="ignore"):
        x = np.concatenate(parts).astype(dtype)
    return x[(x >= low) & (x <= high) & np.isfinite(x)]


def ulps(actual, exact, dtype):
    """The distance of a result from the exact value in units of the last place."""
    limits = np.finfo(dtype)
    top = mp.mpf(2) ** limits.maxexp
    unit_at_top = mp.mpf(2) ** (limits.maxexp - limits.nmant - 1)
    if math.isnan(actual):
        return math.inf
    if math.isinf(actual):
        # Infinity is right where the exact value rounds to it, one off at the largest number.
        right = (actual > 0) == (exact > 0)
        return max(0.0, float((top - abs(exact)) / unit_at_top)) if right else math.inf
    exponent = limits.minexp if exact == 0 else max(mp.frexp(exact)[1] - 1, limits.minexp)
    exponent = min(exponent, limits.maxexp - 1)
    return float(abs(mp.mpf(actual) - exact) / mp.mpf(2) ** (exponent - limits.nmant))


def worst(actual, exact, dtype):
    errors = [ulps(float(a), e, dtype) for a, e in zip(actual, exact, strict=True)]
    i = int(np.argmax(errors))
    return errors[i], i


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", UNARY)
def test_accuracy(name, dtype):
    function, interval = UNARY[name]
    x = points(interval, dtype, 60, np.random.default_rng(0))
    if name in {"atanh", "log1p"}:
        x = x[np.abs(x) != 1] if name == "atanh" else x[x != -1]
    x = x[x != 0]
    actual = plain(getattr(ct, name)(x))
    assert actual.dtype == dtype
    error, i = worst(actual, [function(mp.mpf(float(v))) for v in x], dtype)
    assert error <= 2, f"{name}({x[i]!r}) = {actual[i]!r} is {error:.3g} ulp off"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", BINARY)
def test_accuracy_of_two_arguments(name, dtype):
    function, first, second = BINARY[name]
    rng = np.random.default_rng(0)
    x, y = points(first, dtype, 60, rng), points(second, dtype, 60, rng)
    n = min(len(x), len(y))
    x, y = rng.permutation(x)[:n], rng.permutation(y)[:n]
    if name == "hypot":
        with np.errstate(over="ignore"):
            y[: n // 2] = x[: n // 2] * rng.uniform(0.1, 3, n // 2).astype(dtype)
    keep = (x != 0) & (y != 0) & np.isfinite(y)
    x, y = x[keep], y[keep]
    actual = plain(getattr(ct, name)(x, y))
    assert actual.dtype == dtype
    pairs = zip(x, y, strict=True)
    error, i = worst(
        actual, [function(mp.mpf(float(a)), mp.mpf(float(b))) for a, b in pairs], dtype
    )
    assert error <= 2, f"{name}({x[i]!r}, {y[i]!r}) = {actual[i]!r} is {error:.3g} ulp off"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", [n for n in UNARY if n in FLOATING])
def test_short_and_long_arrays_agree(name, dtype):
    """What is left over at the end of a vector register is computed as the rest is."""
    _, (low, high) = UNARY[name]
    x = np.linspace(max(low, -20) + 0.01, min(high, 20) - 0.01, 1003).astype(dtype)
    whole = plain(getattr(ct, name)(x))
    single = np.array([plain(getattr(ct, name)(x[i : i + 1]))[0] for i in range(0, 1003, 51)])
    assert whole[::51].tobytes() == single.tobytes()
