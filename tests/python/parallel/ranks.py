"""What the ranks do in `test_mpi.py`, which runs this file under `mpiexec`."""

import os
import signal
import sys
import traceback

import numpy as np
from mpi4py import MPI

import cotan as ct

rng = np.random.default_rng(0)
X, Y = rng.normal(size=(48, 4)), rng.normal(size=48)
comm = ct.parallel.Communicator()


def params():
    start = np.random.default_rng(1)
    return {
        "w": start.normal(size=(4, 8)),
        "b": np.zeros(8, np.float32),
        "u": ct.array(start.normal(size=(8, 8)) / 3),
        "v": start.normal(size=8),
        "scale": 0.5,
        "unused": np.ones(3),
        "none": None,
    }


def loss(p, x, y):
    h = np.tanh(x @ p["w"] + p["b"])
    return np.mean(p["scale"] * (np.tanh(h @ p["u"]) @ p["v"] - y) ** 2)


def share(x, pieces=1):
    """Give the batches of this rank."""
    return np.array_split(np.array_split(x, comm.size)[comm.rank], pieces)


def batches(pieces=1):
    return [*zip(share(X, pieces), share(Y, pieces), strict=True)]


def assert_alike(tree):
    """Check that all ranks have the same bits."""
    mine = b"".join(np.asarray(leaf).tobytes() for leaf in ct.tree_leaves(tree))
    assert len(set(MPI.COMM_WORLD.allgather(mine))) == 1


def close(mine, expected, rtol=1e-5):
    for a, b in zip(ct.tree_leaves(mine), ct.tree_leaves(expected), strict=True):
        assert type(a) is type(b) and np.asarray(a).dtype == np.asarray(b).dtype, (a, b)
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-7)


def structures():
    tree = {"a": np.full(3, comm.rank + 1.0), "b": 0.5, "c": ct.array([1.0, 2.0]), "n": 3}
    tree["half"] = np.full(2, comm.rank, np.float16)
    total = comm.allreduce(tree)
    n = comm.size
    assert total["a"].tolist() == [n * (n + 1) / 2] * 3 and total["b"] == n / 2
    assert isinstance(total["c"], ct.Array) and total["n"] == 3
    assert total["half"].dtype == np.float16 and total["half"][0] == n * (n - 1) / 2
    assert comm.allreduce(tree, "mean")["a"][0] == (n + 1) / 2
    assert comm.allreduce(tree, "max")["a"][0] == n and comm.allreduce(tree, "min")["a"][0] == 1
    given = comm.broadcast(tree, root=n - 1)
    assert given["a"][0] == n and given["half"][0] == n - 1 and tree["a"][0] == comm.rank + 1
    vector = np.arange(7.0) * (comm.rank + 1)
    part = comm.reduce_scatter(vector)
    whole = comm.allgather(part)
    np.testing.assert_array_equal(whole, np.arange(7.0) * n * (n + 1) / 2)
    np.testing.assert_array_equal(part, np.array_split(whole, n)[comm.rank])
    np.testing.assert_array_equal(comm.allgather(comm.reduce_scatter(vector, "mean")), whole / n)


def gradients():
    expected, (slope, _, _) = ct.value_and_gradient(loss, params(), ct.const(X), ct.const(Y))
    for pieces in (1, 3):
        for bucket in (1, 200, 1 << 20):
            value, mine = comm.value_and_gradient(
                loss, params(), batches(pieces), bucket_bytes=bucket
            )
            np.testing.assert_allclose(value, expected, rtol=1e-6)
            assert mine["unused"] is None and mine["none"] is None
            close(mine, slope)
            assert_alike((value, mine))
            again = comm.value_and_gradient(loss, params(), batches(pieces), bucket_bytes=bucket)
            for a, b in zip(ct.tree_leaves(mine), ct.tree_leaves(again[1]), strict=True):
                np.testing.assert_array_equal(a, b)
    summed = comm.gradient(lambda w, x: w * np.sum(x), 2.0, share(X), reduce="sum")
    np.testing.assert_allclose(summed, np.sum(X))


def uneven():
    """Ranks have different numbers of examples, and the last one none."""
    ends = [0, 40, *[48] * (comm.size - 1)]
    mine = slice(ends[comm.rank], ends[comm.rank + 1])
    given = [(X[mine], Y[mine])] if X[mine].size else []
    value, slope = comm.value_and_gradient(loss, params(), given)
    expected, (wanted, _, _) = ct.value_and_gradient(loss, params(), ct.const(X), ct.const(Y))
    np.testing.assert_allclose(value, expected, rtol=1e-6)
    close(slope, wanted)

    def by_rank(p, x):
        return p["ab"[comm.rank % 2]] * np.mean(x)

    slope = comm.gradient(by_rank, {"a": 1.0, "b": 1.0}, [np.full(2, 3.0)])
    evens = -(-comm.size // 2)
    close(slope, {"a": 3.0 * evens / comm.size, "b": 3.0 * (comm.size - evens) / comm.size})
    slope = comm.gradient(lambda p, x: np.mean(x), {"a": 1.0}, [np.ones(2)])
    assert slope is None


def training():
    """Some steps of Adam with a sharded state, against one process."""
    for opt in (ct.optim.adam(0.05), ct.optim.adamw(0.05, mask=lambda path, leaf: leaf.ndim == 2)):
        sharded = comm.shard(opt)
        p, q = params(), params()
        state, whole = sharded.init(p), opt.init(q)
        kept = sum(leaf.nbytes for leaf in ct.tree_leaves(state))
        assert 0 < kept < sum(leaf.nbytes for leaf in ct.tree_leaves(whole))
        for _ in range(10):
            slope = comm.gradient(loss, p, batches(2))
            unsharded, whole = opt.step(slope, whole, p)
            p, state = sharded.step(slope, state, p)
            for a, b in zip(ct.tree_leaves(p), ct.tree_leaves(unsharded), strict=True):
                np.testing.assert_array_equal(a, b)
            assert_alike(p)
        opt_state = opt.init(q)
        for _ in range(10):
            (exact, _, _) = ct.gradient(loss, q, ct.const(X), ct.const(Y))
            q, opt_state = opt.step(exact, opt_state, q)
        close(p, q, rtol=1e-3)
    for wrong in (
        ct.optim.chain(ct.optim.clip_by_global_norm(1.0), ct.optim.sgd(0.1)),
        ct.optim.clip_by_global_norm(1.0),
    ):
        try:
            comm.shard(wrong)
        except TypeError as error:
            assert "looks at all gradients together" in str(error)
        else:
            raise AssertionError


def expect(function, mine, theirs):
    """Check that rank 1 raises its own error, and that the others say so."""
    try:
        function()
    except Exception as error:  # noqa: BLE001
        own, text = (mine, str(error)) if comm.rank == 1 else (RuntimeError, str(error))
        assert type(error) is own, error
        assert theirs in text
    else:
        raise AssertionError


def faults():
    """One rank fails: it raises its own error, the others say which rank it was; none hangs."""

    def f(w, x):
        if comm.rank == 1:
            raise ZeroDivisionError("no data here")
        return w * np.mean(x)

    def late(w, x):
        return np.sum(ct.hook(broken, w) * x)

    def broken(cotangent):
        if comm.rank == 1:
            raise ZeroDivisionError("in the reverse pass")
        return cotangent

    x = [np.ones(2)]
    for _ in range(2):
        expect(lambda: comm.gradient(f, 1.0, x), ZeroDivisionError, "no data here")
    expect(lambda: comm.gradient(late, np.ones(2), x), ZeroDivisionError, "in the reverse pass")
    for tree in (np.ones(2 + comm.rank), [1.0] * (1 + comm.rank)):
        try:
            comm.allreduce(tree)
        except ValueError as error:
            assert "structures of different shapes or dtypes" in str(error)
        else:
            raise AssertionError
    # All goes on.
    assert comm.gradient(lambda w, x: w * np.mean(x), 1.0, x) == 1.0


def overlap():
    """The sum over what the reverse pass has already begins before it goes on."""
    events, inner = [], comm._comm

    class Watched:
        def __getattr__(self, name):
            return getattr(inner, name)

        def Iallreduce(self, *args):
            events.append("sum")
            return inner.Iallreduce(*args)

    def passed(cotangent):
        events.append("reverse pass")
        return cotangent

    def two_layers(p, x):
        return np.mean((ct.hook(passed, np.tanh(x @ p["first"])) @ p["second"]) ** 2)

    comm._comm = Watched()
    p = {"first": np.ones((4, 4)), "second": np.ones(4)}
    slope = comm.gradient(two_layers, p, [share(X)], bucket_bytes=1)
    # The value, the last layer, and the first one when its cotangent is there.
    assert events == ["sum", "sum", "reverse pass", "sum"], events
    close(slope, ct.gradient(two_layers, p, ct.const(X))[0])


def killed():
    """One rank is killed in a step: the launcher ends the others, which wait for it."""

    def f(w, x):
        if comm.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return w * np.mean(x)

    comm.gradient(f, 1.0, [np.ones(2)])
    print("went on")


def bits():
    """Print what has to be the same in every run."""
    value, slope = comm.value_and_gradient(loss, params(), batches(2), bucket_bytes=300)
    if comm.rank == 0:
        print(value.hex(), *[np.asarray(leaf).tobytes().hex() for leaf in ct.tree_leaves(slope)])


if __name__ == "__main__":
    try:
        globals()[sys.argv[1]]()
    except BaseException:  # noqa: BLE001
        traceback.print_exc()
        sys.stderr.flush()
        MPI.COMM_WORLD.Abort(1)
