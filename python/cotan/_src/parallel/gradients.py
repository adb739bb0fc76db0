"""Gradients over batches that executors compute: `value_and_gradient` and `gradient`.

The caller's process hands out tasks and adds up what comes back, in an order that is fixed by the
numbers of the batches, so that the result does not depend on which worker was faster.
"""

import contextlib
import itertools
import os
import queue
import re
import time
import uuid
from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple, NoReturn

import numpy as np

from cotan import _core
from cotan._src.parallel.batches import (
    Weights,
    arguments,
    described,
    expect_iterable,
    length,
    weighed,
)
from cotan._src.parallel.choice import engine_of
from cotan._src.parallel.engines import Engine, Future, WorkerLostError
from cotan._src.parallel.flat import VALUE, Flat, TreeSum
from cotan._src.parallel.parcel import Given, Missing, Parcel, Task
from cotan._src.parallel.progress import LOGGER, Watch, Watcher, size
from cotan._src.parallel.recipe import Recipe, Recording, plain_leaves, recipe_of
from cotan._src.tree.selection import argument_names
from cotan._src.tree.structure import integers_as_floats
from cotan._src.typing import Args, Function, NDArray

# How often the engine is asked whether it is still there, in seconds.
_LOOK_EVERY = 0.5


def value_and_gradient(
    f: Function,
    params: Any,
    batches: Iterable[Any],
    *,
    executor: Any = None,
    reduce: Literal["mean", "sum"] = "mean",
    weights: Weights = "examples",
    constants: Args = (),
    wrt: "_core._Wrt" = None,
    has_aux: bool = False,
    timeout: float | None = None,
    max_pending: int | None = None,
    progress: Watcher = False,
) -> Any:
    """Give the value and the gradient of a loss over many batches, which workers compute.

    Parameters
    ----------
    f
        `f(params, batch, *constants)` gives a real number. A batch that is a tuple is several
        arguments: `f(params, x, y, *constants)`.
    params
        Any structure; what the gradient is taken of.
    batches
        An iterable of batches, each any structure. They are taken as workers become free.
    executor
        `concurrent.futures.ThreadPoolExecutor`, `ProcessPoolExecutor`,
        `mpi4py.futures.MPIPoolExecutor`, or another executor of that kind; a `distributed.Client`
        of Dask, whose futures and collections may be batches, or parts of them, and stay where they
        are. None computes here, one batch after the other.
    reduce
        `"mean"` for the mean, where `f` gives means over the examples of its batch; `"sum"` for the
        sum.
    weights
        How a mean weighs batches. `"examples"`: by their numbers of examples, the length of the
        first axis of their arrays, so that the result is the mean over all examples, however they
        are divided into batches. `"equal"`: all alike, as `DistributedDataParallel` of PyTorch and
        `pmean` of JAX do. Or a number for each batch, or a function of a batch. Batches of weight 0
        are left out.
    constants
        Further arguments, the same for all batches. They are sent to each worker once, and kept
        there from call to call as long as their contents stay the same.
    wrt
        As for `ct.gradient`; parts of `params`.
    has_aux
        Whether `f` gives a pair: the number, and what else is wanted.
    timeout
        After so many seconds, `TimeoutError` is raised.
    max_pending
        How many batches are handed out at once; by default twice as many as there are workers.
    progress
        A function that is called with 1 after each batch, such as `tqdm(total=8).update`; True
        prints a line to the standard error.

    Returns
    -------
    value
        A number of NumPy's; with `has_aux` the pair of it and the list of what `f` gave besides,
        in the order of the batches.
    gradient
        A structure like `params`, as `ct.gradient` gives it: None where nothing has influence.

    Raises
    ------
    TypeError
        When the function can neither be recorded nor pickled, or an argument is of the wrong kind.
    ValueError
        When there are no batches, or no one number of examples.
    TimeoutError
        When the time is over.
    WorkerLostError
        When a worker died, or its scheduler.

    What the function itself raises is raised here, with a note that has the number of the batch.

    Notes
    -----
    Workers get a program (`ct.prepare` says what can be recorded), and need neither the module of
    the function nor what it closes over. Any other function is pickled: by name, or with
    cloudpickle where that is installed. Sums are formed in a fixed order, in pairs: the same
    batches give the same bits with any executor of the same kind of machine, and half precision is
    added up in single.

    >>> import cotan as ct
    >>> import numpy as np
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> def loss(w, x, y):
    ...     return np.mean((x @ w - y) ** 2)
    >>> x, y = np.arange(12.0).reshape(6, 2), np.arange(6.0)
    >>> batches = zip(np.array_split(x, 4), np.array_split(y, 4))
    >>> with ThreadPoolExecutor(2) as pool:
    ...     value, slope = ct.parallel.value_and_gradient(
    ...         loss, np.ones(2), batches, executor=pool
    ...     )
    >>> whole, (expected, *_) = ct.value_and_gradient(loss, np.ones(2), ct.const(x), ct.const(y))
    >>> np.allclose(value, whole), np.allclose(slope, expected)
    (True, True)
    """
    name = "parallel.value_and_gradient"
    value, gradient, aux = _computed(
        name, f, params, batches, executor, reduce, weights, constants, wrt, has_aux, timeout,
        max_pending, progress,
    )  # fmt: skip
    return ((value, aux), gradient) if has_aux else (value, gradient)


def gradient(
    f: Function,
    params: Any,
    batches: Iterable[Any],
    *,
    executor: Any = None,
    reduce: Literal["mean", "sum"] = "mean",
    weights: Weights = "examples",
    constants: Args = (),
    wrt: "_core._Wrt" = None,
    has_aux: bool = False,
    timeout: float | None = None,
    max_pending: int | None = None,
    progress: Watcher = False,
) -> Any:
    """Give the gradient alone: parameters and errors are those of `value_and_gradient`.

    Returns a structure like `params`; with `has_aux` the pair of it and the list of what `f` gave
    besides.

    >>> import cotan as ct
    >>> import numpy as np
    >>> ct.parallel.gradient(lambda w, x: w["a"] * np.sum(x), {"a": 1.0}, [np.ones(2), np.ones(4)])
    {'a': 3.3333333333333335}
    """
    name = "parallel.gradient"
    _, found, aux = _computed(
        name, f, params, batches, executor, reduce, weights, constants, wrt, has_aux, timeout,
        max_pending, progress,
    )  # fmt: skip
    return (found, aux) if has_aux else found


class _Sent(NamedTuple):
    """A batch that a worker has."""

    number: int
    batch: Any
    weight: float
    task: Task
    parcels: tuple[Parcel | Given, ...]
    future: Future
    rebuild: Any


def _computed(
    operation: str,
    f: Function,
    params: Any,
    batches: Any,
    executor: Any,
    reduce: str,
    weights: Weights,
    constants: Any,
    wrt: Any,
    has_aux: bool,
    timeout: float | None,
    max_pending: int | None,
    progress: Watcher,
) -> tuple[Any, Any, list[Any]]:
    if reduce not in {"mean", "sum"}:
        raise ValueError(f"{operation}: reduce must be 'mean' or 'sum', not {reduce!r}")
    if not callable(f):
        raise TypeError(f"{operation}: the first argument must be callable, not {type(f)}")
    if not isinstance(constants, tuple):
        raise TypeError(
            f"{operation}: constants must be a tuple of arguments, not "
            f"{type(constants).__name__}; one argument is (x,)"
        )
    if max_pending is not None and max_pending < 1:
        raise ValueError(f"{operation}: max_pending must be at least 1, not {max_pending}")
    expect_iterable(operation, batches)
    _expect_of_params(operation, f, wrt)
    params = integers_as_floats(params)
    expect_plain(operation, params)
    engine = engine_of(operation, executor)
    total = length(batches)
    batches, weights = _placed(operation, engine, batches, weights, is_mean=reduce == "mean")
    pairs = weighed(operation, batches, weights, is_mean=reduce == "mean")
    step = _Step(operation, engine, recipe_of(f, wrt, has_aux), params, constants)
    step.watch = Watch(progress, total)
    step.deadline = None if timeout is None else time.monotonic() + timeout
    step.timeout = timeout
    found, sum_of_weights = step.run(pairs, max_pending or 2 * engine.workers)
    if reduce == "mean":
        found.divided(sum_of_weights)
    arrays = found.results()
    value = arrays.pop(VALUE)[()]
    return value, structured(params, arrays), step.aux_in_order()


def _expect_of_params(operation: str, f: Function, wrt: Any) -> None:
    """Refuse `wrt` that names another argument: of batches nobody wants a sum of gradients."""
    names = argument_names(f, 8)
    for item in wrt if isinstance(wrt, (list, tuple, set, frozenset)) else [wrt]:
        root = re.split(r"[.\[]", item)[0] if isinstance(item, str) else item
        if root in names[1:] or (type(root) is int and root != 0):
            raise ValueError(
                f"{operation}: wrt={wrt!r} asks for another argument than the first, {names[0]}, "
                "and batches and constants have no gradient here"
            )


def _placed(
    operation: str, engine: Engine, batches: Iterable[Any], weights: Weights, *, is_mean: bool
) -> tuple[Iterable[Any], Weights]:
    """Give batches and weights; of what lies on workers, the examples are counted there."""
    batches = iter(batches)
    first = next(batches, None)
    if first is None:
        return (), weights
    batches = itertools.chain([first], batches)
    if not engine.is_remote(first):
        return batches, weights
    placed = [engine.placed(batch) for batch in batches]
    if is_mean and isinstance(weights, str) and weights == "examples":
        return placed, engine.examples(operation, placed)
    return placed, weights


class _Step:
    """One call: hands out batches, and adds up what comes back."""

    def __init__(
        self, operation: str, engine: Engine, recipe: Recipe, params: Any, constants: Args
    ) -> None:
        self.operation, self.engine, self.recipe = operation, engine, recipe
        self.params, self.constants = params, constants
        self.watch = Watch(False, None)
        self.deadline: float | None = None
        self.timeout: float | None = None
        self._aux: dict[int, Any] = {}
        self._total = TreeSum()
        self._done: queue.SimpleQueue[tuple[int, Future]] = queue.SimpleQueue()
        self._pending: dict[int, _Sent] = {}
        self._shared: dict[str, tuple[Parcel | Given, ...]] = {}
        self._first_weight = 0.0
        self._weights = 0.0
        self._nbytes = [0, 0]

    def run(self, pairs: Iterator[tuple[Any, float]], most: int) -> tuple[Flat, float]:
        """Compute all batches; give the sum, and that of the weights beside the first one."""
        start = time.perf_counter()
        place = 0
        is_more = True
        try:
            while True:
                while is_more and len(self._pending) < most:
                    pair = next(pairs, None)
                    if pair is None:
                        is_more = False
                        break
                    (number, batch), weight = pair
                    self._hand_out(place, number, batch, weight)
                    place += 1
                if not self._pending:
                    break
                self._take(self._next_done())
        finally:
            for sent in self._pending.values():
                with contextlib.suppress(Exception):
                    sent.future.cancel()
        if not place:
            raise ValueError(f"{self.operation}: there are no batches with an example")
        total = self._total.result()
        LOGGER.info(
            "%d batches in %.3g s by %d workers, as %s; sent %s and received %s beside batches; "
            "value %.6g",
            place,
            time.perf_counter() - start,
            self.engine.workers,
            "a function" if "function" in self._shared else "a program",
            size(self._nbytes[0]),
            size(self._nbytes[1]),
            float(total.by_leaf()[VALUE]) / self._weights,
        )
        return total, self._weights

    def aux_in_order(self) -> list[Any]:
        """Give what the function gave besides, in the order of the batches."""
        return [self._aux[number] for number in sorted(self._aux)]

    def _hand_out(self, place: int, number: int, batch: Any, weight: float) -> None:
        args = arguments(batch)
        recording = None
        if not self.engine.is_remote(batch):
            recording = self.recipe.recording(self.params, (*args, *self.constants))
        if recording is None:
            parcels = self._by_function(number)
            given: Any = args
            rebuild = None
        else:
            parcels = self._by_program(recording)
            given = plain_leaves(_core.structure(args))
            rebuild = recording.rebuild
        task = Task(tuple(p.key for p in parcels), (), given, self.engine.threads, os.getpid())
        self._first_weight = self._first_weight or weight
        relative = weight / self._first_weight
        self._weights += relative
        self._send(place, _Sent(number, batch, relative, task, parcels, None, rebuild), False)  # type: ignore[arg-type]

    def _send(self, place: int, sent: _Sent, with_all: bool) -> None:
        try:
            future = self.engine.submit(sent.task, sent.parcels, with_all=with_all)
        except self.engine.lost as error:
            raise self._lost(error) from error
        self._pending[place] = sent._replace(future=future)
        future.add_done_callback(lambda done: self._done.put((place, done)))

    def _by_program(self, recording: Recording) -> tuple[Parcel | Given, ...]:
        engine = self.engine
        if "leaves" not in self._shared:
            mine = plain_leaves(_core.structure(self.params))
            its = plain_leaves(_core.structure(self.constants))
            self._shared["leaves"] = (engine.parcel(mine, _fresh_key()), engine.parcel(its))
            self._nbytes[0] += sum(parcel.nbytes for parcel in self._shared["leaves"])
        compute = Given(recording.parcel.key, recording.compute) if engine.is_local else (
            recording.parcel
        )  # fmt: skip
        return compute, *self._shared["leaves"]

    def _by_function(self, number: int) -> tuple[Parcel | Given, ...]:
        if "function" not in self._shared:
            engine, recipe = self.engine, self.recipe
            try:
                compute = engine.function_parcel(recipe.by_function, recipe.f)
                mine = engine.function_parcel(self.params, type(self.params))
                its = engine.function_parcel(self.constants, None)
            except Exception as error:  # noqa: BLE001
                _raise_unsendable(self.operation, recipe, number, error)
            self._shared["function"] = (compute, mine, its)
            self._nbytes[0] += sum(parcel.nbytes for parcel in self._shared["function"])
            LOGGER.debug("the function itself is sent: %s", recipe.refused)
        return self._shared["function"]

    def _next_done(self) -> tuple[int, Future]:
        while True:
            left = None if self.deadline is None else self.deadline - time.monotonic()
            if left is not None and left <= 0:
                numbers = sorted(sent.number for sent in self._pending.values())
                raise TimeoutError(
                    f"{self.operation}: {self._total.count} batches were done after "
                    f"{self.timeout:g} s; {_listed(numbers)} had been handed out and were not. "
                    "Those that have begun go on in their workers; their results are dropped"
                )
            try:
                return self._done.get(timeout=min(_LOOK_EVERY, left or _LOOK_EVERY))
            except queue.Empty:
                if not self.engine.is_alive():
                    raise self._lost(None) from None

    def _take(self, done: tuple[int, Future]) -> None:
        place, future = done
        sent = self._pending[place]
        if future is not sent.future:
            return
        try:
            result = future.result()
        except self.engine.lost as error:
            raise self._lost(error) from error
        except BaseException as error:
            told = described(sent.batch)
            error.add_note(
                f"{self.operation}: raised by batch {sent.number}" + (f" ({told})" if told else "")
            )
            raise
        if isinstance(result, Missing):
            self._send(place, sent, with_all=True)
            return
        del self._pending[place]
        self._nbytes[1] += result.flat.nbytes
        self._total.add(place, result.flat.scaled(sent.weight))
        aux = result.aux
        self._aux[place] = aux if sent.rebuild is None else sent.rebuild(aux)
        self.watch.done()

    def _lost(self, error: BaseException | None) -> WorkerLostError:
        numbers = sorted(sent.number for sent in self._pending.values())
        why = f" ({type(error).__name__}: {error})" if error is not None else ""
        return WorkerLostError(
            f"{self.operation}: a worker was lost{why} while {_listed(numbers)} "
            f"had been handed out; it may have been killed, or run out of memory. Nothing of this "
            f"call is kept; {self.engine.remedy}",
            numbers,
        )


def _raise_unsendable(operation: str, recipe: Recipe, number: int, error: Exception) -> NoReturn:
    """Raise what keeps a function from being sent."""
    if recipe.error is not None and not isinstance(recipe.error, TypeError):
        # It is wrong for this batch, whoever computes it.
        recipe.error.add_note(f"{operation}: raised by batch {number}, while it was recorded")
        raise recipe.error
    raise TypeError(
        f"{operation}: the function cannot be sent to workers. It cannot be recorded: "
        f"{recipe.refused}. It cannot be pickled: {error}. Define it at the top of a module, "
        "install cloudpickle, or compute in threads"
    ) from recipe.error


class _Mark(NamedTuple):
    """The place of a leaf in a gradient."""

    number: int


def structured(params: Any, arrays: dict[int, Any]) -> Any:
    """Give a gradient the form that `ct.gradient` gives it, from arrays by leaf."""
    numbers = sorted(arrays)
    if not numbers:
        return _core.gradient(lambda _: 0.0, params)[0]

    def chosen(params: Any) -> list[Any]:
        leaves = _core.structure(params).leaves
        return [leaves[i] for i in numbers]

    # The pullback of a function that only takes leaves out puts cotangents into their places.
    _, back = _core.pullback(chosen, params)
    given = _core.structure(back([arrays[i] for i in numbers])[0])
    inside = _core.structure(params)
    marks = inside.align(given.build([_Mark(i) for i in range(len(given.leaves))]), "parallel")
    found: list[Any] = [None] * len(given.leaves)
    for number, (leaf, mark) in enumerate(zip(inside.leaves, marks, strict=True)):
        if isinstance(mark, _Mark):
            found[mark.number] = _like(leaf, arrays[number])
    return given.build(found)


def _like(leaf: Any, array: NDArray) -> Any:
    """Give an array as the kind of leaf that it is the gradient of."""
    if isinstance(leaf, _core.Array):
        return _core.array(array)
    if isinstance(leaf, np.ndarray):
        return array
    return array[()] if isinstance(leaf, np.generic) else array.item()


def expect_plain(operation: str, params: Any) -> None:
    """Refuse parameters that are being differentiated, traced or prepared."""
    for leaf in _core.structure(params).leaves:
        if isinstance(leaf, _core.Array) and (_core.is_active(leaf) or _core.is_traced(leaf)):
            raise TypeError(
                f"{operation}: workers cannot be part of a function that is differentiated, traced "
                "or prepared itself; differentiate inside of it with ct.value_and_gradient, batch "
                "by batch"
            )


def _fresh_key() -> str:
    return uuid.uuid4().hex


def _listed(numbers: list[int]) -> str:
    if not numbers:
        return "no batches"
    told = ", ".join(map(str, numbers[:8])) + (", ..." if len(numbers) > 8 else "")
    return f"batch {told}" if len(numbers) == 1 else f"batches {told}"
