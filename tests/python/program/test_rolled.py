"""Loops that were written out become one equation: text, files, exports, derivatives."""

import pickle
from functools import partial

import numpy as np
import pytest
from written_loops import CASES, XS, N, driven, nested, recursion

import cotan as ct


def gradients(f):
    return lambda *args: ct.gradient(lambda *xs: np.sum(f(*xs)), *args)


def results(y):
    return y if isinstance(y, tuple) else (y,)


@pytest.mark.parametrize(("f", "args"), CASES, ids=lambda v: getattr(v, "__name__", ""))
class TestCases:
    def test_values_and_gradients_keep_their_bits(self, f, args):
        for g in (f, gradients(f)):
            rolled = ct.trace(g, *args).rolled()
            assert "loop[" in str(rolled)
            assert str(rolled).count(" = ") < 60
            wanted = results(g(*map(ct.asarray, args)))
            for a, b in zip(results(rolled(*args)), wanted, strict=True):
                np.testing.assert_array_equal(a, b)

    def test_files_keep_them(self, f, args, tmp_path):
        rolled = ct.trace(gradients(f), *args).rolled()
        rolled.save(tmp_path / "p.cotan")
        copies = [pickle.loads(pickle.dumps(rolled)), ct.load(tmp_path / "p.cotan")]
        if "# bound" not in str(rolled):
            copies.append(ct.Program.parse(str(rolled)))
        for again in copies:
            assert str(again) == str(rolled)
            for a, b in zip(results(again(*args)), results(rolled(*args)), strict=True):
                np.testing.assert_array_equal(a, b)

    def test_derivatives_of_rolled_programs(self, f, args):
        rolled = ct.trace(lambda *xs: np.sum(f(*xs)), *args).rolled()
        wanted = gradients(f)(*args)
        for a, b in zip(results(ct.gradient(rolled, *args)), results(wanted), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)

    def test_second_derivatives(self, f, args):
        first = ct.trace(gradients(f), *args).rolled()
        total = lambda g: lambda *xs: sum(np.sum(y * y) for y in results(g(*xs)))
        mine = ct.gradient(total(first), *args)
        wanted = ct.gradient(total(gradients(f)), *args)
        for a, b in zip(results(mine), results(wanted), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9)


def test_how_a_recursion_is_printed():
    assert str(ct.trace(recursion, 0.3, 0.9).rolled()).rstrip() == (
        "program(%x: f64[], %a: f64[]) {\n"
        f"  %2: f64[] = loop[length={N}, carries=1, scanned=0, reverse=false, output=0](%x, %a) "
        "program(%0: f64[], %1: f64[]) {\n"
        "    %2: f64[] = sin(%0)\n"
        "    %3: f64[] = mul(%2, %1)\n"
        "    %4: f64[] = literal[dtype=f64, value=0.1]()\n"
        "    %5: f64[] = add(%3, %4)\n"
        "    return %5\n"
        "  }\n"
        "  return %2\n"
        "}"
    )


def test_a_reverse_pass_is_a_loop_that_goes_backwards():
    text = str(ct.trace(gradients(driven), 0.7, XS).rolled())
    assert "reverse=true" in text
    assert text.count("loop[") <= 6


def test_loops_in_loops():
    text = str(ct.trace(nested, 0.3).rolled())
    assert text.count("loop[") == 2
    assert len(ct.trace(nested, 0.3).rolled()) == 1


def weighted(x, weights):
    for _ in range(40):
        for weight in weights:
            x = np.sin(x) * weight + 0.1
    return x


def summed(x, weights):
    for _ in range(40):
        total = 0.0
        for j, weight in enumerate(weights):
            total = total + np.sin(x * j) * weight
        x = total
    return x


def ring(x, weights):
    for _ in range(40):
        pairs = zip(x, x[1:] + x[:1], x[-1:] + x[:-1], strict=True)
        x = [a + 0.1 * weights[0] * (b - 2 * a + c) for a, b, c in pairs]
    return sum(a * a for a in x)


def swept(x, weights):
    """Solve a system of equations by the method of Gauss and Seidel."""
    n = len(weights)
    found = [0.0] * n
    for _ in range(30):
        for i in range(n):
            rest = weights[i]
            for j in range(n):
                if j != i:
                    rest = rest - 0.1 * x * found[j] * (i + j)
            found[i] = rest / (2.0 + i)
    return sum(found)


@pytest.mark.parametrize(
    ("f", "written"), [(weighted, 840), (summed, 1120), (ring, 1400), (swept, 5040)]
)
def test_few_turns_of_an_inner_loop_are_one_of_the_outer_loop(f, written):
    x = [0.1, 0.4, -0.3, 0.7, 0.2] if f is ring else 0.3
    weights = np.linspace(0.1, 0.9, 7)
    for g in (f, gradients(f)):
        program = ct.trace(g, x, weights)
        short = program.rolled()
        size = str(short).count(" = ")
        assert "loop[" in str(short)
        assert size < written / 2
        arguments = (*x, weights) if f is ring else (x, weights)
        given = [ct.asarray(a) for a in x] if f is ring else ct.asarray(x)
        wanted = results(g(given, ct.asarray(weights)))
        flat = [a for y in wanted for a in (y if isinstance(y, list) else [y])]
        for a, b in zip(results(short(*arguments)), flat, strict=True):
            np.testing.assert_array_equal(a, b)


def test_short_loops_stay_as_they_are():
    def f(x):
        for _ in range(15):
            x = np.sin(x) * 0.9
        return x

    program = ct.trace(f, 0.3)
    assert program.rolled() == program


def test_size_does_not_grow_with_the_steps():
    def f(x, a, steps):
        for _ in range(steps):
            x = np.sin(x) * a + 0.1
        return x

    sizes = []
    for steps in (100, 1000):
        program = ct.trace(lambda x, a, n=steps: ct.gradient(partial(f, steps=n), x, a), 0.3, 0.9)
        program = program.rolled()
        sizes.append((len(program), len(str(program)), len(pickle.dumps(program))))
    assert sizes[0][0] == sizes[1][0]
    assert sizes[1][1] - sizes[0][1] < 20
    assert sizes[1][2] - sizes[0][2] < 20
