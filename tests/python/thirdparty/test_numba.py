"""Functions that numba has compiled; where numba is not installed, a stand-in of it."""

import importlib.util
import subprocess
import sys
import textwrap

import pytest

# Compiled functions take memory: what numba's do with an `Array` among the arguments.
STAND_IN = """
import sys, types
import numpy as np

def module(name, **members):
    made = sys.modules[name] = types.ModuleType(name)
    vars(made).update(members)
    return made

class Compiled:
    def __init__(self, function):
        self.function, self.calls, self.__name__ = function, 0, function.__name__
        self.computes = function
    def __call__(self, *args, **kwargs):
        if any(type(x) not in {np.ndarray, np.float64, float, int} for x in args):
            raise TypeError("can't unbox array from PyObject into native value")
        self.calls += 1
        return self.computes(*args, **kwargs)

class CPUDispatcher(Compiled):
    py_func = property(lambda self: self.function)

class DUFunc(Compiled):
    _dispatcher = property(lambda self: CPUDispatcher(self.function))
    def __init__(self, function):
        super().__init__(function)
        self.computes = np.vectorize(function)
    def __call__(self, *args, **kwargs):
        return super().__call__(*args, **kwargs)

class Float:
    def __init__(self, name):
        self.name = name
    def cast_python_value(self, args):
        return getattr(np, self.name)(args)
    def __call__(self, x):
        return self.cast_python_value(x)

class GUFunc(Compiled):
    def __call__(self, *args):
        return super().__call__(*args)

class StencilFunc(GUFunc):
    pass

registry = module("numba.core.registry", CPUDispatcher=CPUDispatcher)
scalars = module("numba.core.types.scalars", Float=Float)
module("numba.np.ufunc.dufunc", DUFunc=DUFunc)
module("numba.np.ufunc.gufunc", GUFunc=GUFunc)
module("numba.stencils.stencil", StencilFunc=StencilFunc)
module(
    "numba", njit=CPUDispatcher, vectorize=DUFunc, stencil=StencilFunc, float64=Float("float64"),
    guvectorize=lambda types, sizes: GUFunc,
)
"""

needs_numba = pytest.mark.skipif(
    importlib.util.find_spec("numba") is None, reason="looks at what the real numba has compiled"
)

PROGRAM = """
import math
import numba
import numpy as np
import cotan as ct

@numba.njit
def step(x, k):
    return x - k * math.sin(x)

@numba.njit
def simulate(x, k, n):
    out = np.zeros(n)
    out[0] = x
    for i in range(1, n):
        out[i] = step(out[i - 1], k)
    return out

@numba.njit
def fill(out, x):
    for i in range(x.shape[0]):
        out[i] = 2 * x[i]

@numba.vectorize
def kinked(x, a):
    return x * a if x > 0 else a * a

@numba.guvectorize(["void(float64[:], float64[:])"], "(n)->(n)")
def squares(x, out):
    for i in range(x.shape[0]):
        out[i] = x[i] * x[i]

@numba.stencil
def neighbours(a):
    return a[0, 1] + a[1, 0]

def near(f, *args):
    value, gradient = ct.value_and_gradient(f, *args)
    assert np.isclose(value, f(*args), rtol=1e-13), (value, f(*args))
    for i, x in enumerate(args):
        flat = np.array(x, float).reshape(-1)
        for j in range(flat.size):
            ends = []
            for sign in (1, -1):
                moved = flat.copy()
                moved[j] += sign * 1e-6
                moved = float(moved[0]) if isinstance(x, float) else moved.reshape(np.shape(x))
                ends.append(f(*args[:i], moved, *args[i + 1 :]))
            slope = (ends[0] - ends[1]) / 2e-6
            assert np.isclose(np.reshape(gradient[i], -1)[j], slope, atol=1e-7), (i, j, slope)

def refused(f, *args):
    try:
        ct.gradient(f, *args)
    except TypeError as e:
        return str(e)
    raise AssertionError("not refused")
"""


def run(body):
    """Run a program; numba keeps what it has compiled, and a stand-in may not stay."""
    known = importlib.util.find_spec("numba") is not None
    source = ("" if known else STAND_IN) + PROGRAM + textwrap.dedent(body)
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_loops_over_elements():
    run("near(lambda x, k: np.sum(simulate(x, k, 9) ** 2), 1.0, 0.3)")


def test_writes_into_arguments():
    run(
        """
        def f(x):
            out, other = np.zeros((2, 3)), np.zeros(3)
            fill(out[1], x)
            fill(other, np.ones(3))
            fill(other[1:], other[:2])
            return np.sum(out @ x) + np.sum(other * x)

        near(f, np.array([1.0, 2.0, 3.0]))
        """
    )


def test_functions_of_elements():
    run(
        """
        near(lambda x, a: np.sum(kinked(x, a)), np.array([1.0, -2.0, 3.0]), 1.5)
        near(lambda x: kinked(x, 3.0) ** 2, 2.0)
        assert "leave them out" in refused(lambda x: kinked(x, 3.0, out=np.zeros(1)), 2.0)
        """
    )


def test_what_a_function_closes_over():
    run(
        """
        def last(k, x):
            step = numba.njit(lambda y: y - k * math.sin(y))
            outer = numba.njit(lambda y: step(y) * y)
            return outer(0.7) * x

        near(last, 0.3, 2.0)
        """
    )


def test_numbers_as_other_types():
    run("near(lambda x: numba.float64(x) ** 2 * x, 3.0)")


@needs_numba
def test_constants_go_to_the_compiled_function():
    run(
        """
        fill(np.zeros(1), np.zeros(1))
        simulate(1.0, 0.3, 2)
        near(lambda x: np.sum(simulate(1.0, 0.3, 4)) * x, 2.0)

        # numba compiles for each type of arguments that it is called with, which shows a call.

        def f(x):
            out = np.zeros(3, np.float32)
            fill(out, np.zeros(3, np.float32) + np.float32(1.0))
            return np.sum(out * x)

        before = len(fill.signatures)
        assert np.all(ct.gradient(f, np.ones(3))[0] == 2.0)
        assert len(fill.signatures) == before + 1, "not called"
        """
    )


def test_what_has_no_derivative_says_what_to_write():
    run(
        """
        assert "as a function that returns" in refused(lambda x: np.sum(squares(x)), np.ones(3))
        assert "with slices" in refused(lambda x: np.sum(neighbours(x)), np.ones((3, 3)))
        short = np.arange(3, dtype=np.uint8)
        assert "argument 0 is of uint8" in refused(lambda k: step(short, k), 2.0)
        """
    )


@pytest.mark.skipif(importlib.util.find_spec("numba") is None, reason="needs numba's compiler")
def test_functions_that_are_compiled_while_something_is_recorded():
    run(
        """
        from scipy.integrate import solve_ivp

        @numba.njit
        def swing(t, y, k):
            return np.array([y[1], -k * math.sin(y[0])])

        def last(k):
            return solve_ivp(swing, (0, 2), [1.0, 0.0], args=(k,), rtol=1e-9, atol=1e-9).y[0, -1]

        near(last, 1.3)
        """
    )
