"""`while_loop` as one equation: how many steps it takes is found when the program runs."""

import pickle

import numpy as np
import pytest

import cotan as ct

W = np.random.default_rng(0).uniform(-0.4, 0.4, (3, 3))
U = np.array([0.9, -1.3, 2.1])


def written_out(cond, body, carry):
    while cond(carry):
        carry = body(carry)
    return carry


def rolled(cond, body, carry, **options):
    return ct.while_loop(cond, body, carry, rolled=True, **options)


def newton(loop):
    """A cube root, from as far away as the argument is."""

    def root(a):
        def body(carry):
            x, _, n = carry
            new = x - (x**3 - a) / (3 * x * x)
            return new, np.abs(new - x), n + 1.0

        x, _, n = loop(lambda c: c[1] > 1e-12, body, (a * 1.0, a * 1.0, 0.0))
        return x * x + 0 * n

    return root


def shrink(loop):
    def f(w, u):
        body = lambda c: (np.tanh(w @ c[0]) + 0.1 * u, c[1] * 0.9, c[2] + 1)
        v, t, _ = loop(lambda c: np.sum(c[1] ** 2) > 0.01, body, (u, u, np.zeros((), np.int64)))
        return np.sum(v * np.sin(t)) + np.sum(v[:2] * u[1:])

    return f


def count(program, name="loop"):
    return str(program).count(f"= {name}[")


@pytest.mark.parametrize("a", [0.3, 2.0, 1e6])
def test_derivatives_are_those_of_the_loop_written_out(a):
    found, wanted = newton(rolled), newton(written_out)
    assert ct.value_and_grad(found)(a)[0] == wanted(a)
    assert ct.grad(found)(a) == pytest.approx(ct.grad(wanted)(a), rel=1e-13)
    assert ct.grad(found)(a) == pytest.approx(2 / 3 * a ** (-1 / 3), rel=1e-9)
    assert ct.jvp(found, (a,), (1.0,))[1] == pytest.approx(ct.grad(wanted)(a), rel=1e-13)
    twice = ct.grad(ct.grad(wanted))(a)
    assert ct.grad(ct.grad(found))(a) == pytest.approx(twice, rel=1e-11)


def test_arrays_and_what_steps_share():
    found, wanted = shrink(rolled), shrink(written_out)
    assert count(ct.trace(found, W, U)) == 2
    value, gradients = ct.value_and_gradient(found, W, U)
    expected, slopes = ct.value_and_gradient(wanted, W, U)
    assert value == expected == wanted(W, U)
    for got, want in zip(gradients, slopes, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)
    for k in range(3):
        e = 1e-6 * np.eye(3)[k]
        slope = (wanted(W, U + e) - wanted(W, U - e)) / 2e-6
        assert gradients[1][k] == pytest.approx(slope, rel=1e-6)
    hessian = ct.hessian(lambda u: found(W, u), U)
    np.testing.assert_allclose(hessian, ct.hessian(lambda u: wanted(W, u), U), rtol=1e-10)
    twice = lambda f: ct.grad(lambda u: np.sum(ct.grad(lambda v: f(W, v))(u) ** 2))(U)
    np.testing.assert_allclose(twice(found), twice(wanted), rtol=1e-10)
    jacobians = [ct.jacfwd(lambda u, f=f: f(W, u))(U) for f in (found, wanted)]
    np.testing.assert_allclose(*jacobians, rtol=1e-12)


@pytest.mark.parametrize("steps", [0, 1, 2, 15, 16, 17, 1023, 1024, 1025, 5000])
def test_any_number_of_steps(steps):
    """The reverse pass goes in loops in loops, the last of which may not be full."""

    def f(loop):
        def g(x, n):
            body = lambda c: (np.sin(c[0]) + 0.01 * x, c[1] + 1.0)
            return loop(lambda c: c[1] < n, body, (x, 0.0))[0]

        return g

    n = float(steps)
    value, gradient = ct.value_and_grad(f(rolled))(0.7, n)
    expected, slope = ct.value_and_grad(f(written_out))(0.7, n)
    assert value == expected
    assert gradient == pytest.approx(slope, rel=1e-12)


def test_many_levels_of_loops():
    """Carries that are large are kept in short loops; three of them here."""
    x = np.linspace(0.1, 1.0, 200_000)

    def f(loop):
        body = lambda c: (np.sin(c[0]), c[1] + 1.0)
        return lambda x: np.sum(loop(lambda c: c[1] < 40, body, (x, 0.0))[0])

    found = ct.grad(f(lambda *a: rolled(*a, max_steps=2000)))(x)
    np.testing.assert_allclose(found, ct.grad(f(written_out))(x), rtol=1e-11)


def test_a_prepared_function_takes_other_numbers_of_steps():
    f = lambda x: rolled(lambda v: v > 1, lambda v: v / 2, x)
    gradient = ct.prepare(f, 12.0, transform="value_and_gradient")
    for x, steps in ((12.0, 4), (1000.0, 10), (0.5, 0), (3.0, 2), (2.0**40, 40)):
        value, (slope,) = gradient(x)
        assert (value, slope) == (x / 2**steps, 0.5**steps)
    assert gradient.num_recordings == 1


def test_what_is_printed_and_kept_reads_back():
    program = ct.trace(newton(rolled), 2.0)
    assert "end=false" in str(program)
    assert ct.Program.parse(str(program)) == program
    assert pickle.loads(pickle.dumps(program))(5.0) == program(5.0)
    _, back = ct.pullback(newton(rolled), 2.0)
    assert pickle.loads(pickle.dumps(back))(1.0)[0] == back(1.0)[0]
    text = str(back.program)
    assert "end=count" in text
    assert ct.Program.parse(text) == back.program


def test_vmap():
    def f(x, n):
        return rolled(lambda c: c[1] > 0.0, lambda c: (np.sin(c[0]), c[1] - 1.0), (x, n))[0]

    xs = np.linspace(0.1, 1.0, 4)
    found = ct.vmap(f, in_axes=(0, None))(xs, 20.0)
    np.testing.assert_allclose(found, [f(x, 20.0) for x in xs], rtol=1e-15)
    slopes = ct.vmap(ct.grad(f), in_axes=(0, None))(xs, 20.0)
    np.testing.assert_allclose(slopes, [ct.grad(f)(x, 20.0) for x in xs], rtol=1e-13)
    with pytest.raises(ValueError, match="inside vmap the condition differs.*fori_loop"):
        ct.vmap(f)(xs, np.arange(4.0))
    # The condition is the same at first, and differs after a step.
    g = lambda x: rolled(lambda c: c[1] < 9, lambda c: (c[0], c[1] + c[0]), (x, 0.0))[1]
    with pytest.raises(ValueError, match="inside vmap the condition differs.*fori_loop"):
        ct.vmap(g)(xs)


@pytest.mark.parametrize("loop", [ct.while_loop, rolled])
def test_the_most_steps(loop):
    f = lambda x, most: loop(lambda v: v > 1, lambda v: v / 2, x, max_steps=most)
    assert ct.grad(f)(8.0, 3) == 0.125
    with pytest.raises(ValueError, match="condition still holds after 2 steps"):
        ct.grad(f)(8.0, 2)
    with pytest.raises(ValueError, match="max_steps must be positive"):
        f(8.0, 0)


def test_too_many_steps_for_a_reverse_pass():
    def f(x):
        body = lambda c: (c[0] * 0.999999, c[1] + 1.0)
        return rolled(lambda c: c[1] < 1_100_000, body, (x, 0.0))[0]

    with pytest.raises(ValueError, match="max_steps="):
        ct.grad(lambda x: f(x) ** 2)(1.0)


def test_steps_that_cannot_be_traced_are_taken_one_by_one():
    seen = []

    def body(v):
        seen.append(float(v))
        return v / 2

    assert ct.grad(lambda x: rolled(lambda v: v > 1, body, x))(8.0) == 0.125
    assert seen == [8.0, 4.0, 2.0]
    branching = lambda x: rolled(lambda v: v > 1, lambda v: v / 2 if v > 4 else v / 3, x)
    assert ct.grad(branching)(8.0) == pytest.approx(1 / 18)
    with pytest.raises(TypeError, match="must return a bool, not float"):
        ct.grad(lambda x: rolled(lambda v: v - 1.0, lambda v: v / 2, x))(8.0)


def test_loops_in_loops():
    def f(loop, fori):
        def outer(i, v):
            return loop(lambda c: np.abs(c) > 0.5, lambda c: c * 0.7 + 0.01 * v, v * (2.0 + i))

        return lambda x: fori(0, 20, outer, x)

    found = f(rolled, lambda *a: ct.fori_loop(*a, rolled=True))
    wanted = f(written_out, ct.fori_loop)
    value, slope = ct.value_and_grad(found)(0.8)
    expected, other = ct.value_and_grad(wanted)(0.8)
    assert value == expected
    assert slope == pytest.approx(other, rel=1e-12)


def test_random_programs():
    rng = np.random.default_rng(11)
    unary = [np.sin, np.cos, np.tanh, lambda v: v * 0.5, lambda v: v[::-1], np.cumsum]
    for _ in range(12):
        chosen = [unary[k] for k in rng.integers(len(unary), size=4)]
        steps, shared = int(rng.integers(0, 60)), rng.uniform(-1, 1, 3)

        def f(loop, chosen=chosen, steps=steps, shared=shared):
            def body(c):
                a, b, n = c
                for g in chosen:
                    a = g(a) + shared * b
                return np.tanh(b), a * 0.3, n + 1

            def g(u):
                start = (u, u * shared, np.zeros((), np.int64))
                a, b, _ = loop(lambda c: c[2] < steps, body, start)
                return np.sum(a * np.cos(b))

            return g

        value, slope = ct.value_and_grad(f(rolled))(U)
        expected, other = ct.value_and_grad(f(written_out))(U)
        assert value == expected
        np.testing.assert_allclose(slope, other, rtol=1e-10, atol=1e-13)
