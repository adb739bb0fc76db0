"""Every line of the page on coverage: values, dtypes, kinds, and derivatives to second order.

First derivatives of NumPy's functions and methods in double precision are checked where their cases
stand (test_numpy_functions, test_array_methods); here are those of the other areas, and for all of
them second derivatives, single precision and complex numbers.
"""

import cmath
import inspect
import math
import sys
import warnings
from pathlib import Path

import coverage_cases as cases
import numpy as np
import pytest
from numpy_cases import (
    INPUTS,
    assert_same,
    differences,
    leaves,
    parameters,
    quiet,
    values,
    weighted,
    weights_of,
)

import cotan as ct

TOOLS = Path(__file__).resolve().parents[3] / "tools"
sys.path.append(str(TOOLS))

import coverage_page as coverage  # noqa: E402

# Much is missing there; docs/reference/scipy.md lists it.
PENDING = {"scipy.special"}


@pytest.fixture(scope="module")
def found():
    return coverage.lines()


def test_the_page_is_current(found):
    text = (TOOLS.parent / "docs" / "reference" / "coverage.md").read_text(encoding="utf-8")
    if coverage.versions() not in text:
        pytest.skip(f"the page is not about {coverage.versions()}")
    assert text == coverage.page(found), "run `make generate`"


def test_hardly_anything_is_missing(found):
    counts = coverage.shares([line for line in found if line.area not in PENDING])
    assert counts[coverage.NOT_YET] <= 0.03 * sum(counts.values())


def test_names_that_are_not_about_arrays_are_names():
    for module in (np, np.linalg, np.fft, math, cmath):
        for name in cases.NOT_ABOUT_ARRAYS[module.__name__]:
            # Some went with NumPy 2.
            assert hasattr(module, name) or name in {"row_stack", "in1d"}, name
            assert name not in cases.MAKERS


# --------------------------------------------------------------------------------------------------
# What is checked of a call


def kinds(arguments):
    return [np.result_type(x).kind in "fc" for x in arguments]


def given(arguments):
    return [x if k else ct.const(x) for x, k in zip(arguments, kinds(arguments), strict=True)]


def fresh(arguments):
    return [np.copy(x) if np.ndim(x) else x for x in arguments]


def directions(arguments):
    rng = np.random.default_rng(1)

    def direction(x):
        d = rng.normal(size=np.shape(x))
        return d + 1j * rng.normal(size=np.shape(x)) if np.iscomplexobj(x) else d

    return [direction(x) for x in arguments]


def product(g, direction):
    """Give the real part of a scalar product, over what is a number."""
    p = g * np.conj(direction)
    return np.nansum(p.real if np.iscomplexobj(direction) else p)


def check_first(function, arguments):
    """Check the gradient against central differences."""
    weights = weights_of(quiet(function, *fresh(arguments)))
    if all(w is None for w in weights):
        return
    gradients = quiet(
        lambda: ct.gradient(lambda *xs: weighted(function(*xs), weights), *given(arguments))
    )
    for at, (x, number) in enumerate(zip(arguments, kinds(arguments), strict=True)):
        if number:
            expected = differences(function, fresh(arguments), at, weights)
            got = np.zeros(np.shape(x)) if gradients[at] is None else values(gradients[at])
            known = np.isfinite(x)
            scale = max(1, np.abs(expected[known]).max(initial=0))
            np.testing.assert_allclose(
                np.asarray(got)[known], expected[known], rtol=1e-5, atol=1e-6 * scale
            )


def check_second(function, arguments):
    """Check the derivative of the gradient along one direction, weighted by another."""
    weights = weights_of(quiet(function, *fresh(arguments)))
    numbers = kinds(arguments)
    if not any(numbers) or all(w is None for w in weights):
        return
    weighing, moving = directions(arguments), directions(arguments[::-1])[::-1]

    def slope(*xs):
        gradients = ct.gradient(lambda *ys: weighted(function(*ys), weights), *given(xs))
        total = 0.0
        for g, w, number in zip(gradients, weighing, numbers, strict=True):
            if g is not None and number:
                total = total + product(g, w)
        return total

    step = 1e-5

    def moved(sign):
        return [
            np.where(np.isfinite(x), x + sign * step * d, x)[()] if n else x
            for x, d, n in zip(arguments, moving, numbers, strict=True)
        ]

    ends = [quiet(slope, *moved(sign)) for sign in (1, -1)]
    if ends == [0.0, 0.0]:
        return
    gradients = quiet(lambda: ct.gradient(slope, *given(arguments)))
    along = sum(
        float(product(np.where(np.isfinite(x), values(g), 0), d))
        for g, d, x in zip(gradients, moving, arguments, strict=True)
        if g is not None
    )
    scale = max(1, abs(ends[0]))
    np.testing.assert_allclose(
        along, (ends[0] - ends[1]) / (2 * step), rtol=1e-5, atol=1e-5 * scale
    )


def check_value(function, arguments, tolerance=None):
    expected = quiet(function, *fresh(arguments))
    ours = quiet(function, *(ct.array(x) if np.ndim(x) else x for x in fresh(arguments)))
    assert_same(ours, expected, tolerance)


# --------------------------------------------------------------------------------------------------
# Functions and methods of NumPy: as the cases are, in single precision, with complex numbers


def named(table):
    return [
        pytest.param(case, id=f"{name}-{number}")
        for name, found in table.items()
        for number, case in enumerate(found)
    ]


ALL = {name: found for name, found in cases.FUNCTIONS.items() if coverage.numpy_member(name)}
NUMPY = [*named(ALL), *named(cases.METHODS), *named(cases.CLASSES)]
NEW = {
    **cases.MAKERS,
    **cases.OPERATORS,
    **cases.CLASSES,
}


def recast(to):
    """Give the inputs with those of double precision in another form."""

    def form(x):
        if np.result_type(x) != np.float64:
            return x
        if to == "single":
            return x.astype(np.float32)
        flat = np.ravel(x)
        turned = np.reshape(np.roll(flat, 1) * 0.5 + 0.1, np.shape(x))
        return np.asarray(x + 1j * turned)[()]

    return {name: form(x) for name, x in INPUTS.items()}


SINGLE, COMPLEX = recast("single"), recast("complex")


@pytest.mark.parametrize("case", named(NEW))
def test_what_is_lifted_and_operators(case):
    arguments = [INPUTS[name] for name in parameters(case)]
    expected = quiet(case, *fresh(arguments))
    weights, seen = weights_of(expected), []

    def traced(*xs):
        seen.append(case(*xs))
        return weighted(seen[0], weights)

    quiet(lambda: ct.value_and_gradient(traced, *given(arguments)))
    assert_same(seen[0], expected)
    check_first(case, arguments)


@pytest.mark.parametrize("case", NUMPY)
def test_second_derivatives(case):
    check_second(case, [INPUTS[name] for name in parameters(case)])


def applies(case, table):
    """Give the arguments of a case in another form, when it differs and NumPy takes it."""
    arguments = [table[name] for name in parameters(case)]
    if all(table[name] is INPUTS[name] for name in parameters(case)):
        return None
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            # Imaginary parts that NumPy drops are refused here.
            warnings.simplefilter("error", np.exceptions.ComplexWarning)
            results = case(*fresh(arguments))
    except Exception:  # noqa: BLE001 - whatever NumPy says
        return None
    known = "?Bilqefd" + "FD"
    arrays = [x for x in leaves(results) if isinstance(x, (np.ndarray, np.generic))]
    return arguments if all(x.dtype.char in known for x in arrays) else None


# NumPy's complex scalars cannot be rounded everywhere.
REFUSED = ("an Array has no memory", "doesn't define __round__")


@pytest.mark.parametrize("case", NUMPY)
def test_single_precision(case):
    arguments = applies(case, SINGLE)
    if arguments is not None:
        refused_or(lambda: check_value(case, arguments, 1e-4))


@pytest.mark.parametrize("case", NUMPY)
def test_complex_numbers(case):
    arguments = applies(case, COMPLEX)
    if arguments is not None:
        refused_or(lambda: check_value(case, arguments))
        refused_or(lambda: check_first(case, arguments))


def refused_or(run):
    try:
        run()
    except TypeError as error:
        if not any(text in str(error) for text in REFUSED):
            raise


# --------------------------------------------------------------------------------------------------
# Ufuncs and their methods

CALLS = [
    pytest.param(function, arguments, id=f"{name}.{method}")
    for name, ufunc in coverage.numpy_ufuncs()
    if name != "isnat"
    for method, function, arguments in coverage.ufunc_calls(name, ufunc)
    if not (name in cases.FORGETFUL and method.startswith("reduce"))
]


@pytest.mark.parametrize(("function", "arguments"), CALLS)
def test_ufuncs_and_their_methods(function, arguments):
    check_value(function, arguments)
    check_first(function, arguments)
    check_second(function, arguments)
    single = [x.astype(np.float32) if x.dtype == float else x for x in arguments]
    check_value(function, single, 1e-4)


# --------------------------------------------------------------------------------------------------
# math and cmath


MODULES = [
    pytest.param(module, name, case, id=f"{module.__name__}.{name}-{number}")
    for module, table in ((math, cases.MATH), (cmath, cases.CMATH))
    for name, found in table.items()
    if name not in cases.NOT_ABOUT_ARRAYS[module.__name__]
    for number, case in enumerate(found)
]


@pytest.mark.parametrize(("module", "name", "case"), MODULES)
def test_functions_of_numbers(module, name, case):
    case = coverage.rebound(module, name, case)
    arguments = [cases.NUMBERS[p] for p in inspect.signature(case).parameters]
    expected = case(*arguments)
    weights, seen = weights_of(expected), []

    def traced(*xs):
        seen.append(case(*xs))
        return weighted(seen[0], weights)

    try:
        ct.value_and_gradient(traced, *arguments)
    except TypeError as error:
        if not isinstance(error, ct.NotDifferentiableError):
            raise
        pytest.skip("not yet")
    for ours, theirs in zip(leaves(seen[0]), leaves(expected), strict=True):
        np.testing.assert_allclose(values(ours), theirs, rtol=1e-14)
        assert np.ndim(ours) == 0
    check_first(case, arguments)
    check_second(case, arguments)
