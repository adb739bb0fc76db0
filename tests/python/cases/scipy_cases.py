"""What the tests of SciPy's functions share: values as SciPy's, gradients as central differences.

A case is a function of arrays. It is run on ndarrays, and under `gradient` with all of its
arguments differentiated together and each one by itself.
"""

import numpy as np

import cotan as ct
from cotan import _core


def leaves(tree):
    if isinstance(tree, (list, tuple)):
        for item in tree:
            yield from leaves(item)
    else:
        yield tree


def weights(shape, dtype):
    """Give a weight for each element, of no regularity."""
    w = 1 + 0.5 * np.cos(np.arange(np.prod(shape, dtype=int)) ** 2 * 0.7).reshape(shape)
    return w + 1j * np.flip(w) if np.dtype(dtype).kind == "c" else w


def total(tree):
    """Give a real number that depends on every element of what a case gives."""
    result = 0.0
    for leaf in leaves(tree):
        if np.result_type(leaf).kind in "fc":
            dtype = np.result_type(leaf)
            weighted = np.conj(weights(np.shape(leaf), dtype)) * leaf
            result = result + np.sum(np.real(weighted) if dtype.kind == "c" else weighted)
    return result


def differences(function, args, at, step=1e-6):
    """Give central differences of a real function with respect to one of its arguments."""
    x = np.asarray(args[at])
    result = np.zeros(x.shape, x.dtype)
    directions = (1.0, 1j) if x.dtype.kind == "c" else (1.0,)
    for index in np.ndindex(x.shape):
        for direction in directions:
            ends = []
            for sign in (1, -1):
                moved = x.copy()
                moved[index] += sign * step * direction
                moved = moved if isinstance(args[at], np.ndarray) else moved[()].item()
                ends.append(function(*args[:at], moved, *args[at + 1 :]))
            result[index] += direction * (ends[0] - ends[1]) / (2 * step)
    return result


def check(function, *args, second=False, rtol=1e-5, atol=1e-6, value_rtol=1e-9, value_atol=1e-11,
          step=1e-6):  # fmt: skip
    """Compare a case with SciPy on ndarrays, its gradient with central differences."""
    expected = list(leaves(function(*args)))
    seen = []

    def scalar(*args):
        y = function(*args)
        seen.append([_core.value(v) if isinstance(v, _core.Array) else v for v in leaves(y)])
        return total(y)

    gradients = ct.gradient(scalar, *args)
    got = seen[0]
    assert len(got) == len(expected)
    for a, b in zip(got, expected, strict=True):
        assert np.shape(a) == np.shape(b), (np.shape(a), np.shape(b))
        assert np.result_type(a) == np.result_type(b)
        np.testing.assert_allclose(a, b, rtol=value_rtol, atol=value_atol)

    def plain(*args):
        return total(function(*args))

    for i, (x, g) in enumerate(zip(args, gradients, strict=True)):
        wanted = differences(plain, args, i, step)
        found = np.zeros_like(x) if g is None else g
        np.testing.assert_allclose(found, wanted, rtol=rtol, atol=atol, err_msg=f"argument {i}")
        held = [a if j == i else ct.const(a) for j, a in enumerate(args)]
        alone = ct.gradient(scalar, *held)[i]
        alone = np.zeros_like(x) if alone is None else alone
        np.testing.assert_allclose(alone, found, rtol=1e-9, atol=1e-10)
    if second:
        check_second(scalar, *args, rtol=rtol, atol=atol)


def check_second(scalar, *args, rtol=1e-5, atol=1e-6):
    def slope(*args):
        gradients = ct.gradient(lambda *a: scalar(*a) ** 2, *args)
        return sum(total(np.tanh(0.1 * g)) for g in gradients if g is not None)

    for i, g in enumerate(ct.gradient(slope, *args)):
        wanted = differences(slope, args, i, 1e-5)
        found = np.zeros_like(args[i]) if g is None else g
        np.testing.assert_allclose(found, wanted, rtol=10 * rtol, atol=10 * atol)
