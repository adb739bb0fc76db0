"""The blocks of a Jacobian by one pullback for each of two residuals, as in a bundle adjustment."""

import numpy as np

from rows._row import Arrays, Builder, Row, rng


def reproject(np, cameras, points):
    """Where each camera sees its point: rotation, translation, focal length, two distortions."""
    turn = cameras[:, :3]
    angle = np.sqrt(np.sum(turn * turn, axis=1))[:, None]
    v = turn / angle
    cross = np.stack(
        [
            v[:, 1] * points[:, 2] - v[:, 2] * points[:, 1],
            v[:, 2] * points[:, 0] - v[:, 0] * points[:, 2],
            v[:, 0] * points[:, 1] - v[:, 1] * points[:, 0],
        ],
        axis=1,
    )
    along = np.sum(points * v, axis=1)[:, None]
    turned = np.cos(angle) * points + np.sin(angle) * cross + along * (1 - np.cos(angle)) * v
    moved = turned + cameras[:, 3:6]
    flat = -moved[:, :2] / moved[:, 2:]
    n = np.sum(flat * flat, axis=1)
    r = 1 + cameras[:, 7] * n + cameras[:, 8] * n * n
    return flat * (r * cameras[:, 6])[:, None]


def data(n: int = 2_000) -> Arrays:
    draw = rng()
    centre = np.array([0.1, 0.2, -0.1, 0.1, 0.2, -6.0, 8.0, 0.01, 0.001])
    cameras = centre * (1 + 0.1 * draw.normal(size=(20, 9)))
    points = draw.normal(size=(400, 3)) / 2
    seen = draw.integers(0, 20, n), draw.integers(0, 400, n)
    return cameras[seen[0]], points[seen[1]]


def by_complex_step(cameras, points):
    """Exact to rounding: each row depends on its own camera and point alone."""
    blocks = []
    for k in range(2):
        gradients = []
        for which, x in enumerate((cameras, points)):
            columns = []
            for j in range(x.shape[1]):
                moved = [cameras.astype(complex), points.astype(complex)]
                moved[which][:, j] += 1e-30j
                columns.append(reproject(np, *moved)[:, k].imag / 1e-30)
            gradients.append(np.stack(columns, axis=1))
        blocks += gradients
    return reproject(np, cameras, points), tuple(blocks)


def seeds(cameras) -> list:
    one, two = np.zeros((len(cameras), 2)), np.zeros((len(cameras), 2))
    one[:, 0] = two[:, 1] = 1.0
    return [one, two]


def cotan(cameras, points):
    import cotan as ct

    one, two = seeds(cameras)

    def call():
        y, back = ct.pullback(lambda c, p: reproject(np, c, p), cameras, points)
        return y, tuple(np.asarray(d) for dy in (one, two) for d in back(dy))

    return call


def prepared(cameras, points):
    import cotan as ct

    one, two = seeds(cameras)
    both = ct.prepare(lambda c, p: reproject(np, c, p), cameras, points, transform="pullback")

    def call():
        y, back = both(cameras, points)
        return y, tuple(np.asarray(d) for dy in (one, two) for d in back(dy))

    return call


def jax(cameras, points):
    import jax
    import jax.numpy as jnp

    one, two = map(jnp.asarray, seeds(cameras))
    cameras, points = jnp.asarray(cameras), jnp.asarray(points)

    @jax.jit
    def both(cameras, points):
        y, back = jax.vjp(lambda c, p: reproject(jnp, c, p), cameras, points)
        return y, (*back(one), *back(two))

    return lambda: jax.block_until_ready(both(cameras, points))


def torch(cameras, points):
    import torch

    one, two = map(torch.from_numpy, seeds(cameras))
    xs = [torch.from_numpy(x).requires_grad_() for x in (cameras, points)]

    def call():
        y = reproject(torch, *xs)
        first = torch.autograd.grad(y, xs, one, retain_graph=True)
        return y.detach(), (*first, *torch.autograd.grad(y, xs, two))

    return call


def compiled(cameras, points):
    import torch

    torch.compiler.reset()
    one, two = map(torch.from_numpy, seeds(cameras))
    xs = [torch.from_numpy(x) for x in (cameras, points)]

    def both(c, p):
        y, back = torch.func.vjp(lambda c, p: reproject(torch, c, p), c, p)
        return y, (*back(one), *back(two))

    fast = torch.compile(both)
    return lambda: fast(*xs)


def autograd(cameras, points):
    import autograd
    import autograd.numpy as anp

    one, two = seeds(cameras)

    def call():
        back, y = autograd.make_vjp(lambda cp: reproject(anp, *cp))((cameras, points))
        return y, (*back(one), *back(two))

    return call


BUILDERS: dict[str, Builder] = {
    "cotan": cotan,
    "prepared": prepared,
    "jax": jax,
    "torch": torch,
    "compiled": compiled,
    "autograd": autograd,
}
ROWS = [
    Row(
        "ba-blocks",
        data,
        reproject,
        by_complex_step,
        wrt=(0, 1),
        tiny=lambda: data(7),
        builders=BUILDERS,
        loose=256,
    )
]
