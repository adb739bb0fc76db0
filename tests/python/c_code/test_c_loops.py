"""Loops in C: the body is written once, for values and derivatives."""

import re

import numpy as np
import pytest
from c_checks import Compiled, check, needs_compiler, same
from loop_programs import FORWARD, GRADIENTS, SECOND, XS, U, W, fori_loop, rotating, scan

import cotan as ct

pytestmark = needs_compiler


@pytest.mark.parametrize(("f", "args"), FORWARD, ids=lambda v: getattr(v, "__name__", ""))
def test_values(tmp_path, f, args):
    check(tmp_path, f, *args, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("k", range(len(GRADIENTS)))
def test_gradients(tmp_path, k):
    f, args = GRADIENTS[k]
    check(tmp_path, f, *args, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("k", range(len(SECOND)))
def test_derivatives_of_gradients(tmp_path, k):
    f, args = SECOND[k]
    check(tmp_path, f, *args, rtol=1e-10, atol=1e-11)


def test_how_many_steps_there_are_is_found_when_it_runs(tmp_path):
    f = lambda x, most=None: ct.while_loop(
        lambda v: v > 1, lambda v: v / 2, x, rolled=True, max_steps=most
    )
    ct.to_c(f, 12.0, path=tmp_path / "f.c", gradient=True)
    compiled = Compiled(tmp_path / "f.c")
    for x, steps in ((12.0, 4), (0.5, 0), (2.0**40, 40)):
        assert compiled(x) == [x / 2**steps, 0.5**steps]
    ct.to_c(lambda x: f(x, 4), 12.0, path=tmp_path / "g.c", gradient=True)
    compiled = Compiled(tmp_path / "g.c")
    assert compiled(12.0) == [0.75, 0.0625]
    assert np.all(np.isnan(compiled(1000.0)[0]))


def test_pullbacks_and_programs(tmp_path):
    _, back = ct.pullback(lambda u: scan(lambda c, x: (np.sin(c * x), c), u, XS)[0], U)
    ct.to_c(back, path=tmp_path / "b.c", name="b")
    dy = np.arange(3.0)
    same(Compiled(tmp_path / "b.c", "b")(dy)[0], back(dy)[0], 1e-12)
    program = ct.trace(rotating, W, U, XS)
    ct.to_c(program, path=tmp_path / "p.c", name="p")
    same(Compiled(tmp_path / "p.c", "p")(W, U, XS)[0], program(W, U, XS), 1e-12)


def test_against_finite_differences(tmp_path):
    f = lambda u: rotating(W, u, XS)
    ct.to_c(f, U, path=tmp_path / "f.c", gradient=True)
    compiled = Compiled(tmp_path / "f.c")
    steps = 1e-6 * np.eye(3)
    differences = [(compiled(U + e)[0] - compiled(U - e)[0]) / 2e-6 for e in steps]
    np.testing.assert_allclose(compiled(U)[1], differences, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("gradient", [False, True])
def test_files_do_not_grow_with_steps(tmp_path, gradient):
    path, sizes = tmp_path / "f.c", []
    for n in (20, 2000, 200_000):
        f = lambda x, n=n: np.sum(fori_loop(0, n, lambda i, v: np.sin(v) * x, x))
        ct.to_c(f, U, path=path, gradient=gradient)
        sizes.append(path.stat().st_size)
    assert max(sizes) < min(sizes) + 200
    text = path.read_text()
    assert len(re.findall(r"< 200000;", text)) == (2 if gradient else 1)


def test_steps_share_their_memory(tmp_path):
    """Two loops after one another use the same workspace; nothing is kept of a step."""
    f = lambda n: lambda x: np.sum(fori_loop(0, n, lambda i, v: np.cumsum(np.sin(v) @ W), x))
    sizes = []
    for n in (20, 2000):
        ct.to_c(f(n), U, path=tmp_path / "f.c")
        sizes.append(Compiled(tmp_path / "f.c").work_bytes)
    assert sizes[0] == sizes[1] < 200


def test_what_a_step_cannot_do_is_refused_by_its_name(tmp_path):
    f = lambda x: fori_loop(0, 20, lambda i, v: np.linalg.cholesky(v @ v.T + np.eye(3)), x)
    with pytest.raises(ValueError, match=r"to_c: cholesky\(float64\[3,3\]\)"):
        ct.to_c(f, W, path=tmp_path / "f.c")
