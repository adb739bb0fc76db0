"""Ranks of MPI that train together: `Communicator`.

Problem: every rank has the parameters and a share of the data. The gradient is the mean over all of
it, and the time that sums over the network take should be hidden behind the reverse pass.
Cotangents are lazy: they are read in the order in which the reverse pass has them, and the sum of
those that fill a bucket is under way while the next ones are computed.
"""

import importlib
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

import numpy as np

from cotan import _core
from cotan._src.api.derivatives import const
from cotan._src.api.prepare import prepare
from cotan._src.optim.transformation import GradientTransformation
from cotan._src.parallel.batches import Weights, arguments, expect_iterable, weighed
from cotan._src.parallel.flat import VALUE, Flat, Part, TreeSum, joined, packed
from cotan._src.parallel.gradients import expect_plain, structured
from cotan._src.parallel.progress import LOGGER, size
from cotan._src.parallel.recipe import gradient_of
from cotan._src.parallel.sharding import ShardedOptimizer
from cotan._src.tree.structure import integers_as_floats
from cotan._src.typing import Args, Function, NDArray

# Bytes of a bucket, as in PyTorch's DistributedDataParallel.
_BUCKET = 25 << 20
# Functions whose pullbacks are kept prepared.
_KEPT = 8


class _Place(NamedTuple):
    """The place of a leaf in a gradient."""

    number: int


class _Told(NamedTuple):
    """What ranks tell each other before sums begin."""

    error: str
    weight: float
    first: float
    leaves: frozenset[int]
    """Leaves that the loss depends on."""
    order: tuple[int, ...]
    """Leaves in the order in which the reverse pass has their cotangents."""


class Communicator:
    """A group of ranks that compute together, each with a share of the data.

    Parameters
    ----------
    comm
        A communicator of mpi4py; `MPI.COMM_WORLD` if it is None.

    Every method has to be called by all ranks, in the same order.

    Raises `ImportError` without mpi4py (`pip install mpi4py mpich`).

    Notes
    -----
    For one number of ranks results are the same bits in every run, as far as the MPI adds in a
    fixed order (MPICH and Open MPI do, on one set of hosts).

    Without `mpiexec` there is one rank:

    >>> import cotan as ct
    >>> import numpy as np
    >>> comm = ct.parallel.Communicator()
    >>> comm.rank, comm.size
    (0, 1)
    >>> comm.allreduce({"w": np.array([1.0, 2.0])}, "mean")
    {'w': array([1., 2.])}
    >>> value, slope = comm.value_and_gradient(
    ...     lambda w, x: np.mean((w * x) ** 2), 3.0, [np.ones(4), np.zeros(4)]
    ... )
    >>> float(value), slope
    (4.5, 3.0)
    """

    def __init__(self, comm: Any = None) -> None:
        try:
            self._mpi = importlib.import_module("mpi4py.MPI")
        except ImportError as error:
            raise ImportError(
                "parallel.Communicator: needs mpi4py and an MPI: pip install mpi4py mpich"
            ) from error
        self._comm = self._mpi.COMM_WORLD if comm is None else comm
        self._pullbacks: dict[Any, _core.Prepared[..., Any] | None] = {}

    @property
    def rank(self) -> int:
        """The number of this rank, from 0 on."""
        return int(self._comm.Get_rank())

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return int(self._comm.Get_size())

    def __repr__(self) -> str:
        return f"<Communicator: rank {self.rank} of {self.size}>"

    # ----------------------------------------------------------------------------------------------
    # Structures

    def allreduce(self, tree: Any, op: Literal["sum", "mean", "max", "min"] = "sum") -> Any:
        """Give the sum (mean, largest, smallest) of a structure over all ranks, to each of them.

        Leaves keep their kinds and dtypes; half precision is added up in single. Raises
        `ValueError` when the structures of ranks differ.
        """
        if op not in {"sum", "mean", "max", "min"}:
            raise ValueError(f"allreduce: op must be 'sum', 'mean', 'max' or 'min', not {op!r}")
        parts = _core.structure(tree)
        flat = joined(parts.leaves).wide(only_reads=True)
        self._expect_alike("allreduce", flat.layout)
        how = {"max": self._mpi.MAX, "min": self._mpi.MIN}.get(op, self._mpi.SUM)
        totals = [np.empty_like(buffer) for buffer in flat.buffers]
        for buffer, total in zip(flat.buffers, totals, strict=True):
            self._comm.Allreduce(buffer, total, how)
        flat = Flat(flat.layout, totals)
        if op == "mean":
            flat.divided(self.size)
        return _filled(parts, flat, tree)

    def broadcast(self, tree: Any, root: int = 0) -> Any:
        """Give the structure that the rank `root` has, to each rank.

        Raises `ValueError` when the structures of ranks differ.
        """
        parts = _core.structure(tree)
        flat = packed(range(len(parts.leaves)), parts.leaves)
        self._expect_alike("broadcast", flat.layout)
        for buffer in flat.buffers:
            self._comm.Bcast(buffer.view(np.uint8), root)
        return _filled(parts, flat, tree)

    def reduce_scatter(self, vector: Any, op: Literal["sum", "mean"] = "sum") -> NDArray:
        """Give each rank its part of the sum (mean) of a vector over all ranks.

        Parts are `np.array_split(vector, comm.size)`; this rank gets number `comm.rank`. Raises
        `ValueError` for what is no vector, or has other lengths on other ranks.
        """
        if op not in {"sum", "mean"}:
            raise ValueError(f"reduce_scatter: op must be 'sum' or 'mean', not {op!r}")
        array = np.ascontiguousarray(_core.value(vector))
        if array.ndim != 1:
            raise ValueError(
                f"reduce_scatter: takes a vector, not an array of shape {array.shape}; "
                "ct.ravel(tree)[0] makes one of a structure"
            )
        dtype = array.dtype
        self._expect_alike("reduce_scatter", (Part(0, array.shape, dtype.str),))
        if dtype == np.float16:
            array = array.astype(np.float32)
        counts = [len(part) for part in np.array_split(array, self.size)]
        mine = np.empty(counts[self.rank], array.dtype)
        self._comm.Reduce_scatter(array, mine, counts, self._mpi.SUM)
        if op == "mean":
            np.divide(mine, array.dtype.type(self.size), out=mine)
        return mine.astype(dtype, copy=False)

    def allgather(self, vector: Any) -> NDArray:
        """Put the vectors of all ranks one after the other: the way back from `reduce_scatter`."""
        array = np.ascontiguousarray(_core.value(vector))
        counts = self._comm.allgather(array.nbytes)
        whole = np.empty(sum(counts) // array.dtype.itemsize, array.dtype)
        self._comm.Allgatherv(array.view(np.uint8), [whole.view(np.uint8), counts])
        return whole

    def _expect_alike(self, operation: str, layout: tuple[Part, ...]) -> None:
        told = self._comm.allgather(hash_of(layout))
        if len(set(told)) > 1:
            mine = ", ".join(f"{p.dtype[1:]}{list(p.shape)}" for p in layout)
            raise ValueError(
                f"{operation}: the ranks have structures of different shapes or dtypes; this one "
                f"(rank {self.rank}) has {mine}"
            )

    # ----------------------------------------------------------------------------------------------
    # Gradients

    def value_and_gradient(
        self,
        f: Function,
        params: Any,
        batches: Iterable[Any],
        *,
        reduce: Literal["mean", "sum"] = "mean",
        weights: Weights = "examples",
        constants: Args = (),
        wrt: "_core._Wrt" = None,
        bucket_bytes: int = _BUCKET,
    ) -> Any:
        """Give value and gradient of a loss over the batches of all ranks, to each of them.

        Parameters
        ----------
        f, params, reduce, weights, constants, wrt
            As for `ct.parallel.value_and_gradient`; `params` are the same on all ranks.
        batches
            The batches of this rank, which may be none. Gradients of all but the last one are
            accumulated; while that one's are computed, they are summed over the ranks.
        bucket_bytes
            How many bytes of gradients are summed at once.

        Returns
        -------
        The value, and a structure like `params`; the same bits on each rank.

        Raises
        ------
        RuntimeError
            When another rank failed; that one raises its own error.
        ValueError
            When no rank has an example.
        """
        name = "Communicator.value_and_gradient"
        if reduce not in {"mean", "sum"}:
            raise ValueError(f"{name}: reduce must be 'mean' or 'sum', not {reduce!r}")
        params = integers_as_floats(params)
        step = _Step(self, f, params, constants, wrt)
        error: BaseException | None = None
        try:
            expect_plain(name, params)
            pairs = weighed(name, expect_iterable(name, batches), weights, is_mean=reduce == "mean")
            step.accumulate([((*arguments(b), *constants), w) for (_, b), w in pairs])
        except Exception as caught:  # noqa: BLE001
            error = caught
        told = self._comm.allgather(step.told(error))
        self._expect_success(name, [each.error for each in told], error)
        first = next((each.first for each in told if each.first), 0.0)
        if not first:
            raise ValueError(f"{name}: no rank has a batch with an example")
        total = sum(each.weight / first for each in told)
        arrays, error = step.summed(told, first, bucket_bytes)
        self._expect_success(name, self._comm.allgather(_worded(error)), error)
        if reduce == "mean":
            for array in arrays.values():
                np.divide(array, array.dtype.type(total), out=array)
        leaves = _core.structure(params).leaves
        for leaf in arrays:
            if leaf != VALUE:
                arrays[leaf] = arrays[leaf].astype(np.asarray(leaves[leaf]).dtype, copy=False)
        value = arrays.pop(VALUE)[()]
        if self.rank == 0:
            LOGGER.info(
                "a step of %d ranks: %s of gradients in %d buckets, value %.6g",
                self.size,
                size(sum(x.nbytes for x in arrays.values())),
                step.num_buckets,
                float(value),
            )
        return value, structured(params, arrays)

    def gradient(self, f: Function, params: Any, batches: Iterable[Any], **options: Any) -> Any:
        """Give the gradient alone: parameters and errors are those of `value_and_gradient`."""
        return self.value_and_gradient(f, params, batches, **options)[1]

    def _expect_success(
        self, operation: str, errors: list[str], mine: BaseException | None
    ) -> None:
        if mine is not None:
            raise mine
        failed = [f"rank {rank}: {told}" for rank, told in enumerate(errors) if told]
        if failed:
            raise RuntimeError(f"{operation}: another rank failed: {'; '.join(failed)}")

    # ----------------------------------------------------------------------------------------------
    # Optimisers

    def shard(self, optimizer: GradientTransformation) -> "ShardedOptimizer":
        """Divide the state of an optimiser among the ranks.

        Each rank keeps the state of some of the parameters, whole arrays, about as many bytes on
        each, and computes their updates; the updates are then sent to all. `init` and `step` work
        as for the optimiser, and give the same bits.

        Raises `TypeError` for an optimiser that looks at all gradients together
        (`clip_by_global_norm`): clip before.
        """
        return ShardedOptimizer(optimizer, self)

    def _pullback(self, f: Function, wrt: Any, params: Any, args: Args) -> tuple[Any, Any]:
        """Give value and pullback, by a prepared function where that is possible."""
        key = (f, repr(wrt))
        try:
            if key not in self._pullbacks:
                while len(self._pullbacks) >= _KEPT:
                    self._pullbacks.pop(next(iter(self._pullbacks)))
                self._pullbacks[key] = prepare(f, transform="pullback", wrt=wrt)
            prepared = self._pullbacks[key]
        except TypeError:  # a function without a hash
            prepared = None
        constants = [const(x) for x in args]
        if prepared is not None:
            try:
                return prepared(params, *constants)  # type: ignore[no-any-return]
            except TypeError:
                # What is wrong with it, the function itself says.
                self._pullbacks[key] = None
        return _core.pullback(f, params, *constants, wrt=wrt)


class _Step:
    """The gradients of one rank."""

    def __init__(
        self, comm: Communicator, f: Function, params: Any, constants: Args, wrt: Any
    ) -> None:
        self._comm, self._f, self._params = comm, f, params
        self._constants, self._wrt = constants, wrt
        self._inside = _core.structure(params)
        self._weights: list[float] = []
        self._before: Flat | None = None
        self._value: Any = None
        self._last: dict[int, Any] = {}
        self._order: tuple[int, ...] = ()
        #: How many sums were begun.
        self.num_buckets = 0

    def accumulate(self, batches: list[tuple[Args, float]]) -> None:
        """Compute the gradients of all batches but the last, and record that of the last."""
        if not batches:
            return
        self._weights = [weight for _, weight in batches]
        total = TreeSum()
        for number, (args, weight) in enumerate(batches[:-1]):
            leaves, arrays, _ = gradient_of(self._f, self._params, args, self._wrt, False)
            total.add(number, packed(leaves, arrays).scaled(weight / self._weights[0]))
        self._before = total.result() if len(batches) > 1 else None
        args, _ = batches[-1]
        self._value, back = self._comm._pullback(self._f, self._wrt, self._params, args)
        if np.shape(self._value):
            raise TypeError(
                f"the loss must be a number, not an array of shape {np.shape(self._value)}"
            )
        given = _core.structure(back(np.ones((), np.asarray(self._value).dtype))[0])
        if not given.leaves:
            return
        marks = self._inside.align(
            given.build([_Place(i) for i in range(len(given.leaves))]), "parallel"
        )
        self._last = {
            leaf: given.leaves[mark.number]
            for leaf, mark in enumerate(marks)
            if isinstance(mark, _Place)
        }
        # Outputs are in the order of the leaves, and equations in that of the reverse pass.
        program = back.program
        at = {equation.output: i for i, equation in enumerate(program.equations)}
        ready = {
            leaf: at.get(variable.index, -1)
            for leaf, variable in zip(self._last, program.outputs, strict=False)
        }
        self._order = tuple(sorted(self._last, key=lambda leaf: ready.get(leaf, 0)))

    def told(self, error: BaseException | None) -> _Told:
        """Give what the other ranks have to know."""
        leaves = set(self._last)
        if self._before is not None:
            leaves |= {part.leaf for part in self._before.layout} - {VALUE}
        return _Told(
            _worded(error),
            sum(self._weights),
            self._weights[0] if self._weights else 0.0,
            frozenset(leaves),
            self._order,
        )

    def summed(
        self, told: list[_Told], first: float, bucket_bytes: int
    ) -> tuple[dict[int, NDArray], BaseException | None]:
        """Sum over all ranks; an error is given back, as the other ranks wait for sums."""
        union = set().union(*(each.leaves for each in told))
        order = next((each.order for each in told if each.order), ())
        order = (*order, *sorted(union - set(order)))
        mpi, comm = self._comm._mpi, self._comm._comm
        before = {} if self._before is None else self._before.by_leaf()
        # Those of before are relative to the first batch of this rank.
        scale = (self._weights[0] if self._weights else 0.0) / first
        last = (self._weights[-1] if self._weights else 0.0) / first
        requests, arrays, error = [], {}, None
        for bucket in self._buckets(order, bucket_bytes):
            dtype = np.result_type(*(self._dtype(leaf) for leaf in bucket))
            flat = np.zeros(sum(int(np.size(self._leaf(leaf))) for leaf in bucket), dtype)
            start, places = 0, {}
            for leaf in bucket:
                shape = np.shape(self._leaf(leaf))
                stop = start + int(np.prod(shape, dtype=np.int64))
                places[leaf] = flat[start:stop].reshape(shape)
                start = stop
            if error is None:
                try:
                    self._fill(places, before, scale, last)
                except Exception as caught:  # noqa: BLE001
                    error = caught
            requests.append(comm.Iallreduce(mpi.IN_PLACE, flat, mpi.SUM))
            # Lets MPI go on with what is under way.
            mpi.Request.Testall(requests)
            arrays.update(places)
        mpi.Request.Waitall(requests)
        self.num_buckets = len(requests)
        return arrays, error

    def _fill(
        self, places: dict[int, NDArray], before: dict[int, NDArray], scale: float, last: float
    ) -> None:
        values = {leaf: self._last[leaf] for leaf in places if leaf in self._last}
        _core.force_all([x for x in values.values() if isinstance(x, _core.Array)])
        if VALUE in places and self._weights:
            values[VALUE] = np.asarray(self._value)
        for leaf, place in places.items():
            factor = place.dtype.type
            if leaf in values:
                np.multiply(_core.value(values[leaf]), factor(last), out=place)
            if leaf in before:
                np.add(place, before[leaf] * factor(scale), out=place)

    def _buckets(self, order: tuple[int, ...], limit: int) -> Iterable[list[int]]:
        """Divide leaves into buckets of one dtype each; the value goes first."""
        bucket: list[int] = []
        nbytes = 0
        for leaf in (VALUE, *order):
            more = int(np.size(self._leaf(leaf))) * self._dtype(leaf).itemsize
            differs = bool(bucket) and self._dtype(leaf) != self._dtype(bucket[0])
            if bucket and (differs or nbytes + more > limit):
                yield bucket
                bucket, nbytes = [], 0
            bucket.append(leaf)
            nbytes += more
        yield bucket

    def _leaf(self, leaf: int) -> Any:
        return 0.0 if leaf == VALUE else self._inside.leaves[leaf]

    def _dtype(self, leaf: int) -> Any:
        x = self._leaf(leaf)
        dtype = (
            x.dtype if isinstance(x, (_core.Array, np.ndarray, np.generic)) else np.asarray(x).dtype
        )
        # Half precision is added up in single, which MPI knows.
        return np.dtype(np.float32) if dtype == np.float16 else dtype


def _worded(error: BaseException | None) -> str:
    return "" if error is None else f"{type(error).__name__}: {error}"


def _filled(parts: _core._Structure, flat: Flat, tree: Any) -> Any:
    """Give a structure with the arrays of buffers in the places of its leaves."""
    found = flat.results()
    leaves: list[Any] = []
    for number, leaf in enumerate(parts.leaves):
        array = found[number]
        if isinstance(leaf, _core.Array):
            leaves.append(_core.array(array))
        elif isinstance(leaf, np.ndarray):
            leaves.append(array)
        else:
            leaves.append(array[()] if isinstance(leaf, np.generic) else array.item())
    return parts.build(leaves) if leaves else tree


def hash_of(layout: tuple[Part, ...]) -> str:
    """Give a text that tells layouts apart."""
    return repr([(part.shape, part.dtype) for part in layout])
