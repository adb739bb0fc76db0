"""Programs over NumPy's protocols: writes, `out=`, second order, kinks.

A case is a little program: statements, then an expression, over the variables below. It runs in
NumPy on plain arrays, which gives the values and, by central differences, the derivatives; and
under `value_and_gradient`, where values, dtypes, kinds of results and gradients have to agree.
"""

import re
import warnings

import numpy as np
import pytest
import scipy.special

import cotan as ct
from cotan import _core
from cotan._src.runtime import registry

X = np.array([0.7, -1.3, 0.4, 2.1, -0.6])
VALUES = {
    "x": X,
    "y": np.array([1.9, 0.8, -2.2, 0.37, 1.1]),
    "p": np.array([0.3, 1.7, 0.9, 2.6, 0.5]),  # positive
    "u": np.array([0.15, 0.8, 0.35, 0.62, 0.41]),  # between 0 and 1
    "m": np.array([[0.5, -1.2, 0.3, 2.0], [1.1, 0.7, -0.4, -1.6], [-2.3, 0.9, 1.4, 0.2]]),
    "w": np.array([[1.3, 0.6], [-0.7, 0.1], [0.4, -1.9], [2.2, 0.8]]),
    "q": np.array([[1.2, -0.3, 0.8], [0.1, 0.9, -1.1], [0.6, 1.5, 0.4]]),
    "c": np.linspace(-1.7, 2.3, 24).reshape(2, 3, 4) ** 2 - 0.9,
    "v": np.array([0.8, -0.5, 1.6]),
    "s": 0.7,
    "z": np.array([0.4 + 0.9j, -1.1 + 0.2j, 0.7 - 1.5j]),
    "zm": np.array([[0.4 + 0.9j, 1.1 - 0.3j], [-0.2 + 0.5j, 0.7 - 1.5j]]),
    "f": np.array([0.75, -1.5, 0.25], np.float32),
}
CONSTANTS = {
    "np": np,
    "special": scipy.special,
    "i": np.array([3, 0, 0, 2]),
    "k": np.array([True, False, True, True, False]),
    "km": np.array([[True, False, True, True], [False, True, False, True], [True] * 4]),
}


def run(program, env):
    """Run the statements, give the value of the expression at the end."""
    *statements, expression = program.split(";")
    env = {**CONSTANTS, **env}
    for statement in statements:
        exec(statement.strip(), env)
    return eval(expression.strip(), env)


def variables(program):
    words = set(re.findall(r"[A-Za-z_]\w*", program))
    return [name for name in VALUES if name in words]


def leaves(result):
    if isinstance(result, (tuple, list)):
        return [leaf for part in result for leaf in leaves(part)]
    return [result]


def weights(shape, seed):
    return np.cos(1.0 + seed + np.arange(np.prod(shape, dtype=int)).reshape(shape))


def loss(result):
    """A number that depends on every element of every result."""
    total = 0.0
    for seed, leaf in enumerate(leaves(result)):
        dtype = np.result_type(leaf)
        if dtype.kind in "fc":
            total = total + np.sum(np.real(leaf) * weights(np.shape(leaf), seed))
        if dtype.kind == "c":
            total = total + np.sum(np.imag(leaf) * weights(np.shape(leaf), seed + 0.5))
    return total


def slopes(f, args, h=1e-6):
    """Central differences of a function of arrays and numbers."""
    gradients = []
    for at, given in enumerate(args):
        dtype = complex if np.iscomplexobj(given) else float
        g = np.zeros(np.shape(given), dtype)
        for index in np.ndindex(g.shape):
            for step in (h, 1j * h) if dtype is complex else (h,):
                ends = []
                for sign in (1, -1):
                    moved = np.array(given, dtype)
                    moved[index] += sign * step
                    ends.append(f(*args[:at], moved if g.ndim else moved[()], *args[at + 1 :]))
                g[index] += (step / h) * (ends[0] - ends[1]) / (2 * h)
        gradients.append(g)
    return gradients


def value_of(x):
    return np.asarray(ct.dropgrad(x)) if isinstance(x, ct.Array) else x


def assert_same_values(actual, expected, rtol):
    actual, expected = leaves(actual), leaves(expected)
    assert len(actual) == len(expected)
    for ours, theirs in zip(actual, expected, strict=True):
        if isinstance(ours, ct.Array):
            assert (ours._rank == "array") == isinstance(theirs, np.ndarray)
        assert np.shape(ours) == np.shape(theirs)
        if isinstance(theirs, (str, type, np.dtype)):
            assert ours == theirs
            continue
        assert np.result_type(ours) == np.result_type(theirs)
        np.testing.assert_allclose(value_of(ours), theirs, rtol=rtol, atol=rtol)


def fresh(x):
    """A copy, because programs may write to it; numbers stay numbers."""
    return np.copy(x) if np.ndim(x) else x


def check(program):
    names = variables(program)
    args = [VALUES[name] for name in names]
    single = "f" in names

    def f(*args):
        return run(program, dict(zip(names, args, strict=True)))

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        expected = f(*map(fresh, args))
        numeric = slopes(lambda *args: loss(f(*map(fresh, args))), args)
    seen = []

    def traced(*args):
        seen.append(f(*args))
        return loss(seen[0])

    value, gradients = ct.value_and_gradient(traced, *args)
    assert_same_values(seen[0], expected, 1e-5 if single else 1e-12)
    np.testing.assert_allclose(value, loss(expected), rtol=1e-5 if single else 1e-10, atol=1e-10)
    for name, gradient, theirs in zip(names, gradients, numeric, strict=True):
        ours = np.zeros(theirs.shape) if gradient is None else gradient
        rtol = 1e-4 if single else 1e-6
        atol = rtol * (1 + np.abs(theirs).max(initial=0))
        np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=atol, err_msg=name)


def programs(text):
    return pytest.mark.parametrize("program", text.strip().splitlines())


# --------------------------------------------------------------------------------------------------
# Writes in place, and `out=`


@programs("""
b = m * 1.0; np.fill_diagonal(b.T, 2.0); b
b = (m * 1.0).T; b.flat[[0, 1]] = v[:2]; b
b = m * 1.0; b[:, ::-1].sort(axis=0); b
b = np.empty_like(x); b[:] = x * 2; b
b = np.full_like(x, s); b[0] = x[1]; b
b = np.full_like(m, v[0]); b
b = np.ones_like(m, shape=(2, 2)); b * s
b = np.zeros(2, like=x); b[0] = s; b
b = np.array([s, 1.0, s * s], like=x); b
b = np.full((2, 3), v, like=x); b
b = np.asarray([x, y], like=x); b
b = np.zeros_like(v); np.sum(m, axis=1, out=b); b
b = np.zeros_like(v); np.sum(m, axis=1, out=b[::-1]); b
b = np.zeros_like(v); np.std(m, 1, out=b); b
b = np.zeros_like(m); np.cumsum(m, axis=0, out=b); b
b = np.zeros_like(x); np.clip(x, 0, 1, out=b); b
b = np.zeros_like(v); np.take(x, [0, 1, 1], out=b); b
b = np.zeros((3, 2), like=m); np.dot(m, w, out=b); b
b = np.zeros((3, 2), like=m); np.matmul(m, w, out=b); b
b = np.zeros((3, 2), like=m); np.einsum("ij,jk", m, w, out=b); b
b = np.zeros_like(x); np.sin(x, out=b); b
b = np.zeros_like(x); np.sin(x, b); b
b = np.zeros_like(x); np.multiply(x, y, out=(b,)); b
b = np.zeros_like(m); np.add(m, 1.0, out=b[:, ::-1]); b
b = np.zeros_like(m); np.multiply(v[:, None], 2.0, out=b); b
b = x * 1.0; np.add(b, b[::-1], out=b); b
b = np.zeros_like(x); np.modf(x, out=(b, None))[1] + b
b = np.zeros_like(x); d = np.zeros_like(x); np.divmod(x, y, out=(b, d)); b + d
b = np.zeros_like(v); np.add.reduce(m, axis=1, out=b); b
b = np.zeros_like(m); np.add.accumulate(m, axis=1, out=b); b
b = x * 1.0; b += y; b *= 2; b
b = m * 1.0; b[0] += m[1]; b[:, 1] **= 2; b
b = x * 1.0; np.add.at(b, i, 1.0); b
b = x * 1.0; np.add.at(b, i, y[:4]); b
b = x * 1.0; np.subtract.at(b, [0, 0, 1], v); b
b = x * 1.0; np.subtract.at(b, [0, 0, 1], np.uint8(3)); b
b = x * 1.0; np.subtract.at(b, [0, 0, 1], np.array([True, False, True])); b
b = x * 1.0; np.multiply.at(b, [0, 0, 1], v); b
b = m * 1.0; np.maximum.at(b, ([0, 1, 1], [2, 2, 2]), v); b
b = m * 1.0; np.add.at(b, (slice(None), [1, 1]), v[:, None]); b
b = x * 1.0; np.negative.at(b, [0, 1, 1]); b
b = x * 1.0; np.divide.at(b, k, 2.0); b
""")
def test_writes(program):
    check(program)


@programs("""
np.log(p, where=p > 1, out=np.zeros_like(p))
np.log(x, where=x > 0, out=x * 2.0)
np.sqrt(x, where=x > 0, out=np.ones_like(x)) * y
np.add(x, y, where=k, out=y * 3.0)
np.add(v, 1.0, where=[[True, False, True], [False, True, True]], out=np.zeros_like(q[:2]))
np.add(f, f, dtype=np.float64)
np.multiply(f, 2.0, dtype=float)
np.sqrt([1, 4, 9], dtype=np.float64) * s
np.add(x, y, dtype=np.complex128)
np.add(x, y, casting="safe")
np.add(x, y, order="C", subok=False)
np.add(f, f, signature="dd->d")
np.subtract(x, y, dtype=np.dtypes.Float64DType)
np.greater(x, y, dtype=bool)
np.multiply(x, 2.0, where=True)
np.matmul(np.moveaxis(m, 0, 1), w, axes=[(1, 0), (0, 1), (0, 1)])
np.vecdot(m, v[:, None], axis=0)
np.vecdot(m, m, keepdims=True)
np.add.reduce(m, axis=1, initial=s, where=km)
np.add.reduce(f, dtype=np.float64)
np.add.reduce(s)
np.maximum.reduce(m, axis=None, initial=0.5)
np.logaddexp.reduce(m, axis=None)
np.logaddexp2.reduce(m, axis=1)
np.hypot.reduce(m, axis=1)
np.subtract.reduce(m, axis=1)
np.divide.reduce(m)
np.logical_xor.reduce(x > 0), np.bitwise_or.reduce(i), np.bitwise_and.reduce(x > 0)
np.maximum.accumulate(x)
np.logaddexp.accumulate(x)
np.divide.accumulate(m, axis=1)
np.subtract.outer(s, v)
np.power.outer(p, v)
np.add.reduceat(x, [3, 0, 1])
np.add.reduceat(m, [0, 2], axis=1)
np.maximum.reduceat(m, [0, 1, 3], axis=1)
""")
def test_keywords_and_methods_of_ufuncs(program):
    check(program)


# --------------------------------------------------------------------------------------------------
# Ufuncs, by what they are called with

UFUNCS = {
    "x": """sin cos tan sinh cosh tanh arctan arcsinh exp exp2 expm1 absolute fabs negative positive
        square reciprocal cbrt sign floor ceil rint trunc conjugate deg2rad rad2deg degrees radians
        modf frexp spacing signbit isnan isinf isfinite logical_not special.expit special.log_expit
        special.erf special.erfc special.ndtr special.log_ndtr special.exp10 special.cosm1
        special.exprel special.round special.sindg special.cosdg special.tandg special.cotdg""",
    "10 * x": "special.log_ndtr special.expit special.log_expit",
    "p": "log log2 log10 log1p sqrt special.entr",
    "u": "arcsin arccos arctanh special.logit special.entr special.erfinv",
    "1 + p": "arccosh",
    "z": "sin cos exp log sqrt square reciprocal absolute negative conjugate tanh",
    "f": "sin exp fabs modf deg2rad special.expit special.erf special.ndtr special.log_expit",
    "x[0]": "sin modf frexp fabs",
    "m.T": "sin exp",
    "np.argsort(x)": "invert sin sqrt deg2rad fabs negative",
    "x, y": """add subtract multiply divide maximum minimum fmax fmin arctan2 hypot logaddexp
        nextafter logaddexp2 floor_divide remainder fmod copysign heaviside greater greater_equal
        less less_equal equal not_equal logical_and logical_or logical_xor divmod vecdot""",
    "p, y": "power float_power",
    "v, q": "add subtract multiply divide maximum",
    "q, v": "vecdot matvec",
    "v[:2], zm": "vecmat",
    "q, v[:, None]": "add multiply divide hypot matmul",
    "x, 2": "add multiply power divide ldexp",
    "2.0, p": "subtract power divide arctan2",
    "f, 2.0": "add divide power maximum",
    "f, x[:3]": "add multiply divide",
    "z, z[::-1]": "add subtract multiply divide power vecdot",
    "z, v": "add multiply divide",
    "s, x": "add multiply maximum",
    "x[0], 1": "add divide",
    "np.argsort(x), 3": "bitwise_and bitwise_or bitwise_xor left_shift right_shift",
    "x, p": "special.xlogy special.xlog1py",
    "0.0, p": "special.xlogy special.xlog1py",
    "p, u": """special.rel_entr special.kl_div special.boxcox special.boxcox1p special.inv_boxcox
        special.inv_boxcox1p special.powm1""",
    "p, 0.0": "special.boxcox special.boxcox1p special.inv_boxcox special.inv_boxcox1p",
    "p, x": "special.huber special.pseudo_huber",
    "1.2, x": "special.huber special.pseudo_huber",
}
CALLS = [
    (name if "." in name else f"np.{name}", operands)
    for operands, names in UFUNCS.items()
    for name in names.split()
]


@pytest.mark.parametrize("program", [f"{name}({operands})" for name, operands in CALLS])
def test_ufuncs(program):
    if not hasattr(np, "matvec") and re.search("matvec|vecmat", program):
        pytest.skip("not in this NumPy")
    check(program)


def test_every_ufunc_with_a_rule_is_called():
    called = {name.rpartition(".")[2] for name, _ in CALLS}
    ruled = {name for name in _core.ufuncs("np") if isinstance(getattr(np, name), np.ufunc)}
    assert ruled <= set(registry.UFUNCS)
    # Another name of conjugate, and what the method of a plain array calls.
    assert set(registry.UFUNCS) - called <= {"conj", "clip"}


# --------------------------------------------------------------------------------------------------
# Second order


@programs("""
np.prod(x)
np.prod(x * [1, 0, 1, 1, 1])
np.var(x)
np.std(m, axis=1)
np.cumprod(x)
np.linalg.norm(x)
np.linalg.norm(x, 3)
np.einsum("i,j,k->", x, v * v, x[:3] ** 2)
np.dot(q @ q, v)
np.linalg.matrix_power(q, 3)
np.logaddexp.reduce(x)
np.multiply.accumulate(x)
np.hypot.reduce(x)
np.sinc(x)
np.convolve(x, x)
np.interp(u**2, [0.0, 0.5, 1.0], v**3)
np.trapezoid(x**3, y**2)
np.cov(x, y)
np.polyval(v, x)
np.sort(x) ** 3
np.percentile(x, 30) ** 3
np.where(x > 0, x**3, np.exp(x))
np.pad(x**2, 2, mode="reflect") ** 2
np.take(x**3, i)
b = np.zeros_like(x); np.put(b, [0, 1], x[:2] ** 3); b * x
b = x * 1.0; np.multiply.at(b, [0, 0, 1], v); b * b
special.xlogy(p, p)
special.huber(1.0, x)
special.log_ndtr(x)
np.linspace(s**3, v, 3)
np.geomspace(s, p, 3)
""")
def test_second_order(program):
    names = variables(program)
    args = [VALUES[name] for name in names]

    def f(*args):
        return loss(run(program, dict(zip(names, args, strict=True))))

    def along(*args):
        gradients = ct.gradient(f, *args)
        return sum(np.sum(g * weights(np.shape(g), 7)) for g in gradients if g is not None)

    numeric = slopes(along, args, h=1e-5)
    for ours, theirs in zip(ct.gradient(along, *args), numeric, strict=True):
        gradient = np.zeros(theirs.shape) if ours is None else ours
        scale = 1 + np.abs(theirs).max(initial=0)
        np.testing.assert_allclose(gradient, theirs, rtol=1e-5, atol=1e-6 * scale)


# --------------------------------------------------------------------------------------------------
# Kinks


@pytest.mark.parametrize(
    ("f", "x", "slope"),
    [
        (np.std, np.ones(3), 0.0),
        (lambda x: np.std(x, ddof=1), np.full(3, 2.0), 0.0),
        (np.nanstd, np.ones(3), 0.0),
        (np.linalg.norm, np.zeros(3), 0.0),
        (lambda x: np.linalg.norm(x, 3), np.zeros(3), 0.0),
        (lambda x: np.linalg.norm(x[None], "fro"), np.zeros(3), 0.0),
        (lambda x: np.linalg.norm(x, 1), np.zeros(3), 0.0),
        (np.hypot.reduce, np.zeros(3), 0.0),
        (np.max, np.ones(4), 0.25),
        (np.sinc, 0.0, 0.0),
        (lambda x: np.sum(np.clip(x, -1, 1)), np.array([-1.0, 1.0]), 1.0),
        (lambda x: np.sum(np.clip(x, -1, 1)), np.array([-2.0, 2.0]), 0.0),
        (lambda x: scipy.special.xlogy(0.0, x), 0.0, 0.0),
        (lambda x: scipy.special.exprel(x), 0.0, 0.5),
        (lambda x: np.sum(np.log(x, where=x > 0, out=np.zeros_like(x))), np.zeros(2), 0.0),
    ],
)
def test_kinks(f, x, slope):
    (g,) = ct.gradient(f, x)
    np.testing.assert_allclose(np.zeros_like(x) if g is None else g, np.full(np.shape(x), slope))


@pytest.mark.parametrize("x", [0.0, 1e-300, 1e-20, 1e-8, -1e-5, 1e-3])
def test_derivatives_of_sinc_near_zero(x):
    y = (np.pi * x) ** 2
    slope = -(np.pi**2) * x / 3 * (1 - y / 10)
    assert ct.grad(np.sinc)(x) == pytest.approx(slope, rel=1e-9, abs=0)
    bend = -(np.pi**2) / 3 * (1 - 3 * y / 10)
    assert ct.grad(ct.grad(np.sinc))(x) == pytest.approx(bend, rel=1e-9)
    assert ct.grad(ct.grad(lambda z: np.sinc(z + 0j).real))(x) == pytest.approx(bend, rel=1e-9)


def test_the_angle_of_real_numbers_is_constant():
    x = np.array([-1.5, 0.0, 2.0])
    (g,) = ct.gradient(lambda x: np.sum(np.angle(x) + x), x)
    np.testing.assert_array_equal(g, 1.0)
    y, _ = ct.pullback(lambda x: np.angle(x, deg=True) + 0 * x, x)
    np.testing.assert_array_equal(y, np.angle(x, deg=True))


def test_zeros_among_factors():
    x = np.array([2.0, 0.0, 3.0, 0.0])
    (g,) = ct.gradient(lambda x: np.sum(np.cumprod(x)), x)
    np.testing.assert_array_equal(g, [1.0, 8.0, 0.0, 0.0])
