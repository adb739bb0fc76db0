"""Functions with loops, for exporters: carries, slices, stacks, what is shared; loops in loops."""

import functools

import numpy as np

import cotan as ct

scan = functools.partial(ct.scan, rolled=True)
fori_loop = functools.partial(ct.fori_loop, rolled=True)
while_loop = functools.partial(ct.while_loop, rolled=True)

RNG = np.random.default_rng(3)
XS = RNG.uniform(-1, 1, (20, 3))
W = RNG.uniform(-0.5, 0.5, (3, 3))
U = RNG.uniform(-1, 1, 3)


def scalars(x):
    return np.sin(fori_loop(0, 50, lambda i, v: np.sin(v) * x + 0.1 * i, x)) * 2


def rotating(w, u, xs):
    """A recurrent cell with ordinary operations before and behind it."""

    def step(carry, x):
        a, b = carry
        return (np.tanh(w @ b) + x, a * 0.9), a * b + x

    (a, b), ys = scan(step, (u * 2, u.astype(float)), np.sin(xs))
    return np.sum(a * b) + np.sum(ys[:, 0] * ys[:, 1]) + np.sum(np.sin(ys[3]))


def backwards(xs, u):
    carry, ys = scan(lambda c, x: (c * 0.8 + x, c[::-1]), u, xs, reverse=True)
    return carry, ys


def unscanned_backwards(u):
    return scan(lambda c, _: (np.cos(c) + 0.1, c * 2), u, None, length=20, reverse=True)


def swapped(a, b, c):
    """Carries change their places, one is turned round, one is never written."""

    def step(carry, x):
        a, b, c = carry
        return (b, a[::-1] + 0 * x, c), np.sum(a) + c

    (a, b, c), ys = scan(step, (a, b, c), np.arange(17.0))
    return a, b, c, ys


def turned(a, b):
    return fori_loop(0, 19, lambda i, c: (c[1], c[2], c[0], c[3][::-1]), (a, b, a + b, a * b))


def nested(w, u):
    def outer(i, v):
        inner = lambda j, s: (s[0] * 0.9 + np.tanh(w @ v) / (j + 1.0), s[1] + i)
        a, n = fori_loop(0, 18, inner, (v, 0.0))
        return a + 0.01 * n

    return fori_loop(0, 16, outer, u)


def one_by_another(u):
    first = fori_loop(0, 20, lambda i, v: np.sin(v), u)
    second = fori_loop(0, 20, lambda i, v: np.sin(v) + first[0], first * 2)
    return first * second, second


def whole_numbers(n, u):
    def step(carry, x):
        n, flag, v = carry
        n = np.where(n > 500, n - 500, n * 3)
        return (n, n > 500, np.where(flag, v, v * x)), n

    (n, flag, v), ns = scan(step, (n, n > 3, u), np.linspace(0.5, 1.5, 25))
    return n, flag, v, ns


def columns(xs):
    """Slices that do not lie in order."""
    c, ys = scan(lambda c, x: (c + x[::2].sum() * x[1], x * c), 0.5, xs.T[::1, ::2])
    return c, ys


def until_small(u, w):
    """As many steps as it takes, on what is scaled by the last one."""

    def body(carry):
        v, _ = carry
        new = np.tanh(w @ v) + 0.01 * u
        return new, np.sum((new - v) ** 2)

    v, size = while_loop(lambda c: c[1] > 1e-8, body, (u, np.sum(u) * 0 + 1.0))
    return v * 2, np.sqrt(size) * 1e3


def root(a):
    """A condition in a loop, with a bound."""

    def step(i, x):
        new = lambda x: x - (x**3 - a) / (3 * x * x)
        return while_loop(lambda x: np.abs(x**3 - a) > 1e-12, new, x + 0.1 * i, max_steps=60)

    return fori_loop(0, 17, step, a)


#: Each function with arguments.
FORWARD = [
    (scalars, (0.7,)),
    (rotating, (W, U, XS)),
    (backwards, (XS, U)),
    (unscanned_backwards, (U,)),
    (swapped, (U, U + 1, 0.5)),
    (turned, (U, U * 3)),
    (nested, (W, U)),
    (one_by_another, (U,)),
    (whole_numbers, (np.array(7), U)),
    (until_small, (U, W)),
    (root, (2.0,)),
    (columns, (RNG.uniform(-1, 1, (6, 18)),)),
]


def _scalar(f):
    def loss(*args):
        results = f(*args)
        parts = results if isinstance(results, tuple) else [results]
        return sum(np.sum(np.sin(part)) for part in parts)

    return loss


def _gradient(f, count):
    return lambda *args: ct.gradient(_scalar(f), *args)[:count]


#: Their gradients, whose loops go backwards.
GRADIENTS = [(_gradient(f, len(args)), args) for f, args in FORWARD if f is not whole_numbers]
#: And derivatives of those.
SECOND = [
    (lambda u: ct.hessian(lambda u: _scalar(nested)(W, u), u), (U,)),
    (lambda u: ct.hessian(lambda u: rotating(W, u, XS), u), (U,)),
    (lambda x: ct.grad(ct.grad(scalars))(x), (0.3,)),
    (lambda u: ct.jvp(lambda u: rotating(W, u, XS), (u,), (np.cos(U),)), (U,)),
    (lambda xs: ct.vmap(lambda u: scan(lambda c, x: (np.sin(c + x), c), U, u)[1])(xs), (XS.T,)),
]
