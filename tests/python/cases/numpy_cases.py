"""What the tests of NumPy's semantics share: inputs, and the comparison with NumPy on ndarrays.

A case is a function of inputs that its parameters name (see `INPUTS`). It is run on ndarrays, on
`Array`s, on one `Array` among ndarrays, and under `value_and_gradient`, where central differences
say what the gradient is.
"""

import inspect
import re
import warnings

import numpy as np
import pytest

import cotan as ct
from cotan import _core


def _inputs():
    rng = np.random.default_rng(7)

    def distinct(*shape):
        # No two elements are closer than what central differences step, and none is near a kink.
        size = int(np.prod(shape))
        values = (rng.permutation(size) - size // 2 + rng.uniform(0.2, 0.8, size)) * 0.37
        return values.reshape(shape)

    v, w, m, n, t = distinct(6), distinct(6), distinct(3, 4), distinct(3, 4), distinct(2, 3, 4)
    d, g = v.copy(), m.copy()
    d[[1, 4]] = np.nan
    g[0, 1] = g[2, 2] = np.nan
    return {
        "v": v,
        "w": w,
        "m": m,
        "n": n,
        "t": t,
        "q": distinct(3, 3),
        "r": distinct(4, 2),
        "s": np.array([0.3, 0.9, 1.4, 2.2, 3.1, 3.7]),  # positive and sorted
        "u": np.array([0.42, -0.33, 0.71, -0.58, 0.15, -0.86]),  # inside of (-1, 1)
        "a": distinct(3),
        "x": np.float64(0.7),
        "e": np.zeros((0, 3)),
        "d": d,  # with NaN
        "g": g,  # with NaN
        "i": np.array([3, 0, 5, 1, 4, 1]),
        "j": np.array([2, -1, 4, 3, 1, 7]),
        "k": np.array([[3, 1, 2, 7], [0, 4, 2, -5], [1, 1, 6, 2]], np.int32),
        "o": np.array([1, 3, 2, 5, 4, 2], np.uint8),
        "b": np.array([[1, 0, 1, 1], [0, 0, 1, 0], [1, 1, 0, 1]], bool),
        "c": np.array([1, 0, 0, 1, 1, 0], bool),
        "f": n.astype(np.float32),
        "h": np.array([0.5, -1.25, 2.0, 3.5, -0.75, 1.0], np.float16),
        "z": v + 1j * w,
        "y": distinct(3, 3) + 1j * distinct(3, 3),
    }


INPUTS = _inputs()


def parameters(function):
    return [
        name for name, p in inspect.signature(function).parameters.items() if p.default is p.empty
    ]


def arguments(function, copy=np.copy):
    return [
        copy(INPUTS[name]) if np.ndim(INPUTS[name]) else INPUTS[name]
        for name in parameters(function)
    ]


def quiet(function, *args):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return function(*args)


def values(tree):
    """Give the value of what a case gives, without what makes it one of ours."""
    if isinstance(tree, (ct.Array, _core.Array)):
        return _core.value(tree)
    if isinstance(tree, (list, tuple)):
        return [values(item) for item in tree]
    return tree


def leaves(tree):
    if isinstance(tree, (list, tuple)):
        for item in tree:
            yield from leaves(item)
    else:
        yield tree


TOLERANCE = {"float16": 2e-3, "float32": 2e-5, "complex64": 2e-5}


def assert_same(got, expected, tolerance=None):
    if isinstance(expected, (list, tuple)):
        assert isinstance(got, type(expected) if type(expected) in {list, tuple} else tuple)
        assert len(got) == len(expected)
        for g, x in zip(got, expected, strict=True):
            assert_same(g, x, tolerance)
        return
    if not isinstance(expected, (np.ndarray, np.generic, int, float, complex)):
        assert type(got) is type(expected)
        assert got == expected
        return
    if isinstance(got, _core.Array):
        assert got.dtype == np.asarray(expected).dtype
        assert (got._rank == "array") == isinstance(expected, np.ndarray), got._rank
    else:
        assert np.asarray(got).dtype == np.asarray(expected).dtype
    value, expected = np.asarray(values(got)), np.asarray(expected)
    assert value.shape == expected.shape
    tolerance = tolerance or TOLERANCE.get(expected.dtype.name, 1e-11)
    np.testing.assert_allclose(value, expected, rtol=tolerance, atol=tolerance)


def weights_of(outputs):
    rng = np.random.default_rng(3)
    found = []
    for x in leaves(outputs):
        kind = np.asarray(x).dtype.kind if not isinstance(x, _core.Array) else x.dtype.kind
        shape = np.shape(x)
        # Central differences say nothing of what is rounded to single precision.
        exact = kind in "fc" and np.result_type(x).itemsize >= (16 if kind == "c" else 8)
        w = rng.uniform(0.5, 1.5, shape) if exact else None
        complex_weights = kind == "c" and w is not None
        found.append(w + 1j * rng.uniform(0.5, 1.5, shape) if complex_weights else w)
    return found


def weighted(outputs, weights):
    """Give a real number made of everything that has a derivative."""
    total = 0.0
    for x, w in zip(leaves(outputs), weights, strict=True):
        if w is not None:
            product = x * w
            product = product.real if np.iscomplexobj(w) else product
            total = total + np.nansum(product)
    return total


STEP = 1e-6


def differences(function, inputs, at, weights):
    """Give the gradient with respect to one input, by central differences."""
    x = inputs[at]
    gradient = np.zeros(np.shape(x), np.result_type(x))
    for index in np.ndindex(np.shape(x)):
        for step in (STEP, 1j * STEP) if np.iscomplexobj(x) else (STEP,):
            ends = []
            for sign in (1, -1):
                moved = np.array(x)
                moved[index] += sign * step
                moved = moved if np.ndim(x) else moved[()]
                varied = [np.copy(o) if np.ndim(o) else o for o in inputs]
                varied[at] = moved
                ends.append(weighted(quiet(function, *varied), weights))
            slope = (ends[0] - ends[1]) / (2 * STEP)
            gradient[index] += slope * (step / STEP)
    return gradient


def check_value(function):
    expected = quiet(function, *arguments(function))
    assert_same(quiet(function, *arguments(function, ct.array)), expected)
    names = parameters(function)
    if len(names) > 1:
        for one in names:
            mixed = [
                ct.array(INPUTS[name]) if name == one else np.copy(INPUTS[name]) for name in names
            ]
            assert_same(quiet(function, *mixed), expected)


def is_active(inputs):
    return [np.result_type(x) in {np.dtype("f8"), np.dtype("c16")} for x in inputs]


def check_gradient(function):
    inputs = arguments(function)
    weights = weights_of(quiet(function, *inputs))
    wrt = is_active(inputs)
    if not any(wrt) or all(w is None for w in weights):
        return
    given = [x if there else ct.const(x) for x, there in zip(inputs, wrt, strict=True)]
    _, gradients = quiet(
        lambda: ct.value_and_gradient(lambda *xs: weighted(function(*xs), weights), *given)
    )
    for at, (x, there) in enumerate(zip(inputs, wrt, strict=True)):
        if not there:
            continue
        expected = differences(function, inputs, at, weights)
        got = np.zeros(np.shape(x)) if gradients[at] is None else values(gradients[at])
        known = np.isfinite(x)
        np.testing.assert_allclose(
            np.asarray(got)[known],
            expected[known],
            rtol=2e-6,
            atol=2e-7 * max(1, np.abs(expected[known]).max(initial=0)),
        )


def check(case):
    check_value(case)
    check_gradient(case)


def wrote(x, write):
    """Give a copy of an array after something was written into it."""
    y = x.copy()
    write(y)
    return y


def label(name, number):
    return f"{name}-{number}"


def flattened(table):
    return [
        pytest.param(case, id=label(name, number))
        for name, cases in table.items()
        for number, case in enumerate(cases)
    ]


def raised(function, *args):
    with pytest.raises(Exception) as caught:  # noqa: PT011 - the class is what is compared
        quiet(function, *args)
    return caught.value


def assert_same_error(ours, numpys):
    expected = type(numpys)
    if not hasattr(np.exceptions, expected.__name__) and expected.__module__ != "builtins":
        expected = expected.__mro__[[c.__module__ for c in expected.__mro__].index("builtins")]
    assert isinstance(ours, expected), f"{ours!r}, where NumPy raises {numpys!r}"
    assert str(ours)


DTYPES = [bool, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64,
          np.float16, np.float32, np.float64, np.complex64, np.complex128]  # fmt: skip
SUPPORTED = {np.dtype(d) for d in DTYPES}


def outcome(function, *args):
    """Give what a function gives, or the error that it raises."""
    try:
        return quiet(function, *args)
    except Exception as error:  # noqa: BLE001 - the class is what is compared
        return error


# What NumPy does and we do not: fractions that are cut off in silence, functions of complex numbers
# without a rule. It says so by name.
REFUSED = r"cannot cast the result|is not supported|not defined for dtype"


def compare(function, *inputs):
    """Compare a function on ndarrays with itself on arrays of ours: results or errors."""
    expected = outcome(function, *(np.copy(x) if np.ndim(x) else x for x in inputs))
    ours = outcome(function, *(ct.array(x) if isinstance(x, np.ndarray) else x for x in inputs))
    unknown = {np.asarray(x).dtype for x in leaves(expected)} - SUPPORTED
    if isinstance(expected, Exception):
        assert isinstance(ours, Exception), f"{ours!r}, where NumPy raises {expected!r}"
        if not re.search(REFUSED, str(ours)):
            assert_same_error(ours, expected)
    elif unknown:
        assert isinstance(ours, TypeError)
        named = any(str(dtype) in str(ours) for dtype in unknown)
        assert named or re.search(REFUSED, str(ours)), ours
    elif isinstance(ours, Exception):
        if not (isinstance(ours, TypeError) and re.search(REFUSED, str(ours))):
            raise ours
    else:
        assert_same(ours, expected)


def sample(dtype, shape=(3, 4), seed=0):
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "c":
        return (rng.integers(1, 5, shape) + 1j * rng.integers(1, 5, shape)).astype(dtype)
    return rng.integers(0 if dtype is bool else 1, 2 if dtype is bool else 5, shape).astype(dtype)
