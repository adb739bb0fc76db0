"""Whole programs of many fields that know nothing of cotan; `programs/README.md` says how."""

import copy
import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

import cotan as ct

FOLDER = Path(__file__).parents[1] / "programs"
PROGRAMS = sorted(path.stem for path in FOLDER.glob("[!_]*.py"))

# Programs with derivatives of the first order only; the README says why.
ONCE = {"psychometrics", "truss"}

# Values are sums of many terms of either sign, in another order than NumPy's.
VALUE_TOLERANCE = 1e-9


def load(name):
    """Give a program as a fresh module."""
    if "import scipy" in (source := (FOLDER / f"{name}.py").read_text()) or "from scipy" in source:
        pytest.importorskip("scipy")
    if "import Rotation" in source and _is_compiled("scipy.spatial.transform", "Rotation"):
        pytest.skip("a class that is compiled in this SciPy")
    spec = importlib.util.spec_from_file_location(f"programs_{name}", FOLDER / f"{name}.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _is_compiled(module, name):
    # Its methods cannot be set.
    return bool(getattr(importlib.import_module(module), name).__flags__ & 1 << 8)


def leaves(tree):
    if isinstance(tree, dict):
        return [leaf for item in tree.values() for leaf in leaves(item)]
    if isinstance(tree, (list, tuple)):
        return [leaf for item in tree for leaf in leaves(item)]
    return [tree]


def rebuilt(tree, items):
    if isinstance(tree, dict):
        return {key: rebuilt(item, items) for key, item in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(rebuilt(item, items) for item in tree)
    return next(items)


def random_direction(rng, primal):
    """Give a direction in which every element moves, small ones less than large ones."""
    size = np.maximum(np.abs(primal), max(1e-5, 1e-2 * np.max(np.abs(primal))))
    return size * rng.uniform(0.5, 1.0, np.shape(primal)) * rng.choice([-1, 1], np.shape(primal))


def is_derivative(mine, f, scale=0.0, steps=(1e-3, 2e-4, 4e-5, 8e-6), tolerance=2e-6):
    """Compare with f'(0) by central differences, extrapolated.

    Large steps may cross a kink and small ones drown in rounding errors, so one of them has to
    agree, as far as its two quotients do. `scale` is what an error is small against.
    """

    def quotient(h):
        return (f(h) - f(-h)) / (2 * h)

    seen = []
    for h in steps:
        coarse, fine = quotient(h), quotient(h / 2)
        exact, spread = (4 * fine - coarse) / 3, abs(fine - coarse)
        seen.append((mine, exact, spread))
        size = abs(exact) + scale
        if spread < 1e-3 * size and abs(mine - exact) < tolerance * size + spread:
            return True
    print("mine, quotients, how sharp they are:", *seen, sep="\n")
    return False


def test_the_folder_is_complete():
    assert len(PROGRAMS) > 80
    assert set(PROGRAMS) >= ONCE


@pytest.mark.parametrize("name", PROGRAMS)
def test_is_right_in_numpy(name):
    program = load(name)
    program.check()
    value = program.main(*program.ARGUMENTS)
    assert isinstance(value, float)
    assert np.isfinite(value)


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradient(name, rng):
    program = load(name)
    expected = program.main(*program.ARGUMENTS)
    given = copy.deepcopy(program.ARGUMENTS)
    value, gradients = ct.value_and_gradient(program.main, *given)
    assert isinstance(value, float)
    np.testing.assert_allclose(value, expected, rtol=VALUE_TOLERANCE, atol=VALUE_TOLERANCE)

    primals, cotangents = leaves(given), leaves(gradients)
    assert len(cotangents) == len(primals)
    for primal, before in zip(primals, leaves(program.ARGUMENTS), strict=True):
        np.testing.assert_array_equal(primal, before)
    directions = [random_direction(rng, primal) for primal in primals]
    slopes = [np.sum(c * d) for c, d in zip(cotangents, directions, strict=True)]
    largest = np.max(np.abs(slopes))
    assert largest > 0
    for i, (primal, cotangent) in enumerate(zip(primals, cotangents, strict=True)):
        assert np.shape(cotangent) == np.shape(primal)

        def moved(h, i=i):
            items = [*primals[:i], primals[i] + h * directions[i], *primals[i + 1 :]]
            return program.main(*rebuilt(given, iter(items)))

        assert is_derivative(slopes[i], moved, 1e-3 * largest), f"leaf {i}"


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_mask_changes_no_number(name):
    program = load(name)
    everything = ct.gradient(program.main, *program.ARGUMENTS)
    last = len(program.ARGUMENTS) - 1
    masked = ct.gradient(program.main, *program.ARGUMENTS, wrt=last)
    largest = max(np.max(np.abs(leaf)) for leaf in leaves(everything))
    for full, one in zip(leaves(everything[last]), leaves(masked[last]), strict=True):
        np.testing.assert_allclose(one, full, rtol=1e-9, atol=1e-12 * largest)
    assert all(leaf is None for leaf in leaves(masked[:last]))


@pytest.mark.parametrize("name", sorted(set(PROGRAMS) - ONCE))
def test_second_derivative(name, rng):
    """Along one direction, against difference quotients of the first derivative."""
    program = load(name)
    primals = leaves(program.ARGUMENTS)
    directions = [random_direction(rng, primal) for primal in primals]

    def line(t):
        items = (primal + t * d for primal, d in zip(primals, directions, strict=True))
        return program.main(*rebuilt(program.ARGUMENTS, items))

    slope = ct.grad(line)
    assert is_derivative(ct.grad(slope)(0.0), slope, steps=(1e-4, 1e-5, 1e-6), tolerance=1e-5)
