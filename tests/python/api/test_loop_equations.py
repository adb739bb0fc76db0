"""Loops of many steps are one equation: values and derivatives against loops written out."""

import functools
import pickle

import numpy as np
import pytest

import cotan as ct

scan = functools.partial(ct.scan, rolled=True)
fori_loop = functools.partial(ct.fori_loop, rolled=True)

N = 40
RNG = np.random.default_rng(5)
XS = RNG.uniform(-1, 1, N)
W = RNG.uniform(-0.5, 0.5, (3, 3))
U = RNG.uniform(-1, 1, 3)


def written_out(f, init, xs, reverse=False):
    carry, ys = init, []
    for x in xs[::-1] if reverse else xs:
        carry, y = f(carry, x)
        ys.append(y)
    return carry, np.stack(ys[::-1] if reverse else ys)


def rotate(w):
    def f(carry, x):
        a, b = carry
        return (np.tanh(w @ b) + x, a * 0.9), a * b + x

    return f


def loss_of(scan):
    def loss(w, u, xs):
        (a, b), ys = scan(rotate(w), (u, u * 2), xs)
        return np.sum(a * b) + np.sum(ys[:, 0] * ys[:, 1]) + np.sum(np.sin(ys[5]))

    return loss


def names(program):
    return [eqn.name for eqn in program.equations]


def count(program, name="loop"):
    return str(program).count(f"= {name}[")


@pytest.mark.parametrize("reverse", [False, True])
def test_gradients_are_those_of_the_loop_written_out(reverse):
    looped = loss_of(lambda f, c, xs: scan(f, c, xs, reverse=reverse))
    plain = loss_of(lambda f, c, xs: written_out(f, c, xs, reverse))
    assert count(ct.trace(looped, W, U, XS)) == 3
    value, gradients = ct.value_and_gradient(looped, W, U, XS)
    wanted, wanted_gradients = ct.value_and_gradient(plain, W, U, XS)
    assert value == pytest.approx(wanted, rel=1e-14)
    for found, want in zip(gradients, wanted_gradients, strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-11, atol=1e-13)
    step = 1e-6
    for k in (0, 7):
        e = step * np.eye(N)[k]
        slope = (plain(W, U, XS + e) - plain(W, U, XS - e)) / (2 * step)
        assert gradients[2][k] == pytest.approx(slope, rel=1e-6, abs=1e-8)


def test_forward_mode():
    looped, plain = loss_of(scan), loss_of(written_out)
    tangents = (np.ones_like(W), U, np.cos(XS))
    found, want = (ct.jvp(f, (W, U, XS), tangents) for f in (looped, plain))
    np.testing.assert_allclose(found, want, rtol=1e-11)
    np.testing.assert_allclose(
        ct.jacfwd(lambda u: scan(rotate(W), (u, u), XS)[1])(U),
        ct.jacrev(lambda u: written_out(rotate(W), (u, u), XS)[1])(U),
        rtol=1e-10, atol=1e-13,
    )  # fmt: skip


def test_second_derivatives():
    looped, plain = loss_of(scan), loss_of(written_out)
    for argnum in (0, 1):
        f, g = (
            (lambda z, h=h: h(*[z if i == argnum else v for i, v in enumerate((W, U, XS))]))
            for h in (looped, plain)
        )
        z = (W, U)[argnum]
        np.testing.assert_allclose(ct.hessian(f, z), ct.hessian(g, z), rtol=1e-9, atol=1e-11)
    twice = lambda h: ct.grad(lambda u: np.sum(ct.grad(lambda v: h(W, v, XS))(u) ** 2))
    np.testing.assert_allclose(twice(looped)(U), twice(plain)(U), rtol=1e-9)


def test_vmap():
    looped, plain = loss_of(scan), loss_of(written_out)
    batch = RNG.uniform(-1, 1, (4, N))
    found = ct.vmap(lambda xs: looped(W, U, xs))(batch)
    np.testing.assert_allclose(found, [plain(W, U, xs) for xs in batch], rtol=1e-12)
    found = ct.vmap(ct.grad(lambda u, xs: looped(W, u, xs)), in_axes=(None, 0))(U, batch)
    want = [ct.grad(lambda u, xs=xs: plain(W, u, xs))(U) for xs in batch]
    np.testing.assert_allclose(found, want, rtol=1e-10)
    total = lambda h: ct.grad(lambda w: np.sum(ct.vmap(lambda xs: h(w, U, xs))(batch)))(W)
    np.testing.assert_allclose(total(looped), total(plain), rtol=1e-10)


def test_programs_do_not_grow_with_steps():
    f = lambda n: lambda x: fori_loop(0, n, lambda i, v: v + np.sin(v) * x / (i + 1), x)
    few, many = (ct.trace(f(n), 0.5) for n in (50, 5000))
    assert len(str(few)) <= len(str(many)) <= len(str(few)) + 20
    wanted = ct.grad(lambda x: written(5000, x))(0.5)
    assert ct.grad(f(5000))(0.5) == pytest.approx(wanted, rel=1e-12)


def written(n, x):
    v = x
    for i in range(n):
        v = v + np.sin(v) * x / (i + 1)
    return v


def test_the_text_reads_back():
    program = ct.trace(lambda u: scan(rotate(W), (u, u), XS), U)
    text = str(program)
    assert text.count("loop[length=40") == 1 and "loop[of=" in text
    parsed = ct.Program.parse(text)
    assert ct.Program.parse(str(parsed)) == parsed and count(parsed) == 3
    np.testing.assert_array_equal(parsed(U, XS, W)[1], program(U)[1])
    again = pickle.loads(pickle.dumps(program))
    assert again == program
    for found, want in zip(again(U), program(U), strict=True):
        np.testing.assert_array_equal(found, want)


def test_integers_and_what_no_step_changes():
    def f(carry, x):
        total, n, c = carry
        return (total + x * c * n, n + 1, c), n

    loss = lambda xs, c: scan(f, (0.0, np.array(0), c), xs)[0][0]
    wanted = lambda xs, c: np.sum(xs * c * np.arange(N))
    assert ct.value_and_grad(loss)(XS, 2.0)[0] == pytest.approx(wanted(XS, 2.0))
    found = ct.gradient(loss, XS, 2.0)
    np.testing.assert_allclose(found[0], 2.0 * np.arange(N))
    assert found[1] == pytest.approx(np.sum(XS * np.arange(N)))


def test_an_index_that_counts():
    x = RNG.uniform(-1, 1, N)
    loss = lambda x: fori_loop(0, N, lambda i, v: v + x[i] * v, 1.0)
    assert count(ct.trace(loss, x)) == 1
    np.testing.assert_allclose(ct.grad(loss)(x), np.prod(1 + x) / (1 + x), rtol=1e-12)


def test_dtypes_stay_those_of_numpy():
    f = lambda i, v: v * np.float32(0.5) + i
    out = lambda x: fori_loop(0, N, f, x)
    x = np.ones(2, np.float32)
    program = ct.trace(out, x)
    assert count(program) == 1 and program(x).dtype == np.float32
    g = ct.grad(lambda x: np.sum(out(x)))(x)
    assert g.dtype == np.float32
    np.testing.assert_allclose(g, 0.5**N)


@pytest.mark.parametrize(
    "body",
    [
        lambda i, v: v * 2 if v < 100 else v,
        lambda i, v: v + (0.1 if i % 2 else 0.2),
        lambda i, v: v + [0.1, 0.2, 0.3][i % 3],
        lambda i, v: v * float(2**i > 1000),
    ],
)
def test_what_looks_at_values_is_written_out(body):
    def by_hand(x):
        for i in range(N):
            x = body(i, x)
        return x

    loss = lambda x: fori_loop(0, N, body, x)
    assert ct.value_and_grad(loss)(0.5) == ct.value_and_grad(by_hand)(0.5)


def test_what_keeps_state_is_written_out():
    seen, calls = [], [0]

    def body(i, v):
        calls[0] += 1
        seen.append(i)
        return v * calls[0] / 10

    loss = lambda x: fori_loop(0, N, body, x)
    slope = ct.grad(loss)(1.0)
    assert seen == list(range(N)) and calls == [N]
    assert slope == pytest.approx(np.prod(np.arange(1, N + 1) / 10))
    rng = np.random.default_rng(3)
    noisy = ct.grad(lambda x: fori_loop(0, N, lambda i, v: v + x * rng.normal(), x))(1.0)
    assert noisy == pytest.approx(1 + np.sum(np.random.default_rng(3).normal(size=N)))


def test_what_is_written_to_an_array_outside_is_written_out():
    def loss(x, loop=fori_loop):
        out = np.zeros(N)

        def body(i, v):
            out[i] = v
            return np.sin(v) + x

        loop(0, N, body, x)
        return np.sum(out**2)

    def by_hand(start, stop, body, v):
        for i in range(start, stop):
            v = body(i, v)
        return v

    want = ct.grad(lambda x: loss(x, by_hand))(0.3)
    assert ct.grad(loss)(0.3) == pytest.approx(want, rel=1e-12)
    assert ct.prepare(loss)(0.3)[0] == pytest.approx(want, rel=1e-12)


def test_numbers_become_those_of_numpy_in_a_few_steps():
    f = lambda s, x: ({"a": s["b"] * x + 1, "b": s["a"] * 0.9}, s["a"] * x)
    loss = lambda scan: lambda x: np.sum(scan(f, {"a": x, "b": 2 * x}, XS)[1])
    assert count(ct.trace(loss(scan), 0.3)) == 1
    want = ct.grad(loss(written_out))(0.3)
    assert ct.grad(loss(scan))(0.3) == pytest.approx(want, rel=1e-12)


def test_prepared_functions_replay_loops():
    loss = lambda x: scan(lambda c, a: (np.sin(c + a * x), c), x, XS)[0]
    prepared = ct.prepare(loss)
    for x in (0.1, 0.5, -2.0):
        want = ct.grad(lambda x: written_out(lambda c, a: (np.sin(c + a * x), c), x, XS)[0])(x)
        assert prepared(x)[0] == pytest.approx(want, rel=1e-12)
    assert prepared.num_recordings == 1


def test_large_carries():
    big = RNG.uniform(-1, 1, 50_000)
    f = lambda c, x: (np.sin(c) * x + c, c[:2])
    loss = lambda scan: lambda b, xs: np.sum(scan(f, b, xs)[0]) + np.sum(scan(f, b, xs)[1])
    found, want = (ct.gradient(loss(s), big, XS[:20]) for s in (scan, written_out))
    for a, b in zip(found, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10)


def test_loops_in_loops():
    def outer(scan):
        def f(c, x):
            inner, ys = scan(lambda d, y: (d * np.cos(y * x), d), c, XS[:20])
            return inner + x, np.sum(ys)

        return lambda c, xs: np.sum(scan(f, c, xs)[1])

    xs = XS[:30]
    assert count(ct.trace(outer(scan), 0.3, xs)) == 3
    for order in (ct.gradient, lambda f, *a: [ct.hessian(lambda xs: f(a[0], xs), a[1])]):
        found, want = (order(outer(s), 0.3, xs) for s in (scan, written_out))
        for a, b in zip(found, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


def fell_back(f, *arguments):
    """Whether a loop was written out; its value is that of Python's loop in either case."""
    return count(ct.trace(f, *arguments)) == 0


def test_dicts_in_another_order_are_written_out():
    step = lambda c, _: ({"b": c["b"] * 2, "a": c["a"] + 1}, None)
    loop = lambda x: scan(step, {"a": x, "b": 2 * x}, length=N)[0]["b"]
    assert fell_back(loop, 1.0)
    assert ct.value_and_grad(loop)(1.0) == (2.0 ** (N + 1), 2.0 ** (N + 1))


@pytest.mark.parametrize("one", [np.int64(1), np.bool_(True), {1}, range(2), 1j * np.longdouble(1)])
def test_what_is_no_leaf_is_written_out(one):
    loop = lambda x: scan(lambda c, _: ((c[0] * x, one), None), (1.0, one), length=20)[0][0]
    assert fell_back(loop, 1.0)


def test_integers_of_numpy_go_on():
    step = lambda c, _: ((c[0] * 1.0, c[1] + 1), None)
    loop = lambda x: np.multiply(*scan(step, (x, np.int64(0)), length=20)[0])
    assert ct.grad(loop)(1.0) == 20.0


def test_loops_are_written_out_unless_they_may_be_rolled():
    seen = []
    ct.grad(lambda x: ct.fori_loop(0, 20, lambda i, v: seen.append(i) or v * x, x))(1.0)
    assert seen == list(range(20))


def test_what_cannot_be_put_back_is_named():
    factors = (x / 10 for x in range(1, 100))
    loss = lambda x: fori_loop(0, N, lambda i, v: v * next(factors), x)
    with pytest.raises(TypeError, match=r"a step of a loop with rolled=True changes .*generator"):
        ct.grad(loss)(1.0)


def test_an_inner_loop_that_only_moves_what_it_carries():
    def swapped(a, b):
        def step(carry, x):
            a, b = fori_loop(0, 5001, lambda i, c: (c[1], c[0]), carry)
            return (a + x, b), a

        return scan(step, (a, b), XS)

    (a, b), ys = swapped(1.0, 2.0)
    assert (a + b, ys[0]) == pytest.approx((3.0 + np.sum(XS), 2.0))
