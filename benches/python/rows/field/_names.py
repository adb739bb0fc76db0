"""What the libraries call differently, by the namespace that a workload gets."""


def library(np) -> str:
    return np.__name__.partition(".")[0]


def special(np):
    if library(np) == "torch":
        return np.special
    if library(np) == "jax":
        from jax.scipy import special
    elif library(np) == "autograd":
        from autograd.scipy import special
    else:
        from scipy import special
    return special


def logsumexp(np, x, axis: int):
    if library(np) == "torch":
        return np.logsumexp(x, axis)
    return special(np).logsumexp(x, axis=axis)


def softmax(np, x):
    """Along the last axis."""
    if library(np) == "torch":
        return np.softmax(x, -1)
    if library(np) == "jax":
        import jax

        return jax.nn.softmax(x)
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def ndtr(np, x):
    if library(np) == "autograd":
        from autograd.scipy.stats import norm

        return norm.cdf(x)
    return special(np).ndtr(x)


def relu(np, x):
    if library(np) == "torch":
        return np.relu(x)
    if library(np) == "jax":
        import jax

        return jax.nn.relu(x)
    return np.maximum(x, 0)


def softplus(np, x):
    if library(np) == "torch":
        return np.nn.functional.softplus(x)
    if library(np) == "jax":
        import jax

        return jax.nn.softplus(x)
    return np.logaddexp(0, x)


def array(np, entries):
    """`np.array` of numbers and rows of them, some of which are traced."""
    if library(np) != "torch":
        return np.array(entries)
    if isinstance(entries, list):
        return np.stack([array(np, x) for x in entries])
    return np.as_tensor(entries, dtype=np.float64)
