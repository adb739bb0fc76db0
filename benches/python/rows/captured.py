"""A logistic regression on a matrix of 16 MB, which the loss closes over or gets as an argument."""

import numpy as np

from rows._row import Arrays, Builder, Row, rng


def loss(np, x, y, w):
    return np.mean(np.log1p(np.exp(-y * (x @ w))))


def loss_by_hand(x, y, w):
    e = np.exp(-y * (x @ w))
    return np.mean(np.log1p(e)), (x.T @ (-y * e / (1 + e)) / len(y),)


def data(rows: int = 10_000, columns: int = 200) -> Arrays:
    draw = rng()
    x = draw.normal(size=(rows, columns))
    return x, np.sign(draw.normal(size=len(x))), draw.normal(size=columns) / 10


def hvp_by_hand(x, y, w, v):
    p = 1 / (1 + np.exp(y * (x @ w)))
    return 0.0, (x.T @ (p * (1 - p) * (x @ v)) / len(y),)


def hvp_data(rows: int = 10_000, columns: int = 200) -> Arrays:
    return (*data(rows, columns), rng().normal(size=columns))


def writable(x):
    return x


def read_only(x):
    x = x.copy()
    x.flags.writeable = False
    return x


def array(x):
    import cotan as ct

    return ct.array(x)


BUILT = ("cotan", "prepared", "jax", "torch", "compiled", "autograd", "numpy")


def of_loss(keep) -> dict[str, Builder]:
    """Take value and gradient of a closure over what `keep` makes of the data."""

    def cotan(x, y, w):
        import cotan as ct

        x, y = keep(x), keep(y)
        return lambda: ct.value_and_gradient(lambda w: loss(np, x, y, w), w)

    def prepared(x, y, w):
        import cotan as ct

        x, y = keep(x), keep(y)
        gradient = ct.prepare(lambda w: loss(np, x, y, w), w, transform="value_and_gradient")
        return lambda: gradient(w)

    def jax(x, y, w):
        import jax
        import jax.numpy as jnp

        x, y, w = map(jnp.asarray, (x, y, w))
        gradient = jax.jit(jax.value_and_grad(lambda w: loss(jnp, x, y, w)))

        def call():
            value, dw = jax.block_until_ready(gradient(w))
            return value, (dw,)

        return call

    def torch(x, y, w):
        import torch

        x, y, w = map(torch.from_numpy, (x, y, w))
        w.requires_grad_()

        def call():
            value = loss(torch, x, y, w)
            return value.detach(), torch.autograd.grad(value, w)

        return call

    def compiled(x, y, w):
        import torch

        torch.compiler.reset()
        x, y, w = map(torch.from_numpy, (x, y, w))
        gradient = torch.compile(
            torch.func.grad_and_value(lambda w: loss(torch, x, y, w)), fullgraph=True
        )

        def call():
            dw, value = gradient(w)
            return value, (dw,)

        return call

    def autograd(x, y, w):
        import autograd
        import autograd.numpy as anp

        gradient = autograd.value_and_grad(lambda w: loss(anp, x, y, w))

        def call():
            value, dw = gradient(w)
            return value, (dw,)

        return call

    def by_hand(x, y, w):
        return lambda: loss_by_hand(x, y, w)

    return dict(zip(BUILT, (cotan, prepared, jax, torch, compiled, autograd, by_hand), strict=True))


def of_hvp(keep) -> dict[str, Builder]:
    """Multiply the Hessian of a closure over what `keep` makes of the data with a vector."""

    def cotan(x, y, w, v):
        import cotan as ct

        x, y = keep(x), keep(y)
        return lambda: (0.0, (ct.hvp(lambda w: loss(np, x, y, w), w, v),))

    def prepared(x, y, w, v):
        import cotan as ct

        x, y = keep(x), keep(y)
        product = ct.prepare(lambda w: loss(np, x, y, w), w, v, transform="hvp")
        return lambda: (0.0, (product(w, v),))

    def jax(x, y, w, v):
        import jax
        import jax.numpy as jnp

        x, y, w, v = map(jnp.asarray, (x, y, w, v))
        gradient = jax.grad(lambda w: loss(jnp, x, y, w))
        product = jax.jit(lambda w, v: jax.jvp(gradient, (w,), (v,))[1])
        return lambda: (0.0, (product(w, v).block_until_ready(),))

    def torch(x, y, w, v):
        import torch

        x, y, w, v = map(torch.from_numpy, (x, y, w, v))
        w.requires_grad_()

        def call():
            (dw,) = torch.autograd.grad(loss(torch, x, y, w), w, create_graph=True)
            return 0.0, torch.autograd.grad(dw, w, v)

        return call

    def compiled(x, y, w, v):
        import torch

        torch.compiler.reset()
        x, y, w, v = map(torch.from_numpy, (x, y, w, v))
        gradient = torch.func.grad(lambda w: loss(torch, x, y, w))
        product = torch.compile(lambda w, v: torch.func.jvp(gradient, (w,), (v,))[1])
        return lambda: (0.0, (product(w, v),))

    def autograd(x, y, w, v):
        import autograd
        import autograd.numpy as anp

        product = autograd.hessian_vector_product(lambda w: loss(anp, x, y, w))
        return lambda: (0.0, (product(w, v),))

    def by_hand(x, y, w, v):
        return lambda: hvp_by_hand(x, y, w, v)

    return dict(zip(BUILT, (cotan, prepared, jax, torch, compiled, autograd, by_hand), strict=True))


KEPT = {"captured": writable, "captured, read-only": read_only, "captured, Array": array}
ROWS = [
    *(
        Row(
            f"logreg {how}",
            data,
            loss,
            loss_by_hand,
            wrt=(2,),
            tiny=lambda: data(30, 4),
            builders=of_loss(keep),
            loose=64,
        )
        for how, keep in KEPT.items()
    ),
    Row("logreg argument", data, loss, loss_by_hand, wrt=(2,), tiny=lambda: data(30, 4), loose=64),
    *(
        Row(
            f"logreg-hvp {how}",
            hvp_data,
            loss,
            hvp_by_hand,
            wrt=(2,),
            tiny=lambda: hvp_data(30, 4),
            builders=of_hvp(keep),
            loose=64,
        )
        for how, keep in KEPT.items()
    ),
]
