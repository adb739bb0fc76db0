"""Pullbacks whose residuals stay in a worker: `remote_pullback`.

Problem: the residuals of a function can be a hundred times as large as its arguments and values.
Where the function runs beside its data, in another process, they have no reason to travel: the
worker keeps the pullback, and only values, cotangents and their images go back and forth.
"""

import contextlib
import itertools
import os
import threading
import uuid
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple, Self

from cotan import _core
from cotan._src.parallel.choice import engine_of
from cotan._src.parallel.dask import Dask
from cotan._src.parallel.engines import Engine, Future, WorkerLostError
from cotan._src.parallel.parcel import Given, Parcel
from cotan._src.parallel.ray import Ray
from cotan._src.typing import Args, Function


class _Opened(NamedTuple):
    """What a worker says of a pullback that it keeps."""

    value: Any
    nbytes: int
    process: int


class RemotePullback:
    """A pullback that a worker keeps: made by `ct.parallel.remote_pullback`.

    Called with a cotangent of the value, it gives the cotangents of the arguments, as `Pullback`
    does, but computed. `close()`, or the end of a `with` block, lets the worker forget it.

    >>> import cotan as ct
    >>> import numpy as np
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> with ThreadPoolExecutor(1) as pool:
    ...     value, back = ct.parallel.remote_pullback(pool, np.square, np.array([1.0, 2.0]))
    ...     with back:
    ...         (slope,) = back(np.ones(2))
    >>> np.asarray(slope), back.nbytes
    (array([2., 4.]), 16)
    >>> back(np.ones(2))
    Traceback (most recent call last):
        ...
    ValueError: remote_pullback: this pullback has been closed
    """

    def __init__(self, call: Callable[..., Future], lost: Any, key: str, told: _Opened) -> None:
        self._call, self._lost, self._key = call, lost, key
        #: Bytes of the residuals, which stay in the worker.
        self.nbytes = told.nbytes
        #: The number of the worker's process.
        self.process = told.process
        self.close = weakref.finalize(self, _forget_there, call, key)
        # At the end of the interpreter the worker is gone, or not ours to wait for.
        self.close.atexit = False

    def __call__(self, dy: object, *, timeout: float | None = None) -> Any:
        """Give the cotangents of the arguments for a cotangent of the value.

        Raises `WorkerLostError` when the worker is gone and the residuals with it, `TimeoutError`
        when the time is over, `ValueError` after `close()`.
        """
        if not self.close.alive:
            raise ValueError("remote_pullback: this pullback has been closed")
        try:
            found = _result(self._call(_apply, self._key, Parcel.of(dy)), timeout)
        except self._lost as error:
            raise _gone(error) from error
        if found is None:
            raise _gone(None)
        return found.open()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<RemotePullback: keeps {self.nbytes} bytes in process {self.process}>"


def remote_pullback(
    executor: Any,
    f: Function,
    /,
    *args: object,
    wrt: "_core._Wrt" = None,
    timeout: float | None = None,
    **kwargs: object,
) -> tuple[Any, RemotePullback]:
    """Give the value of a function that a worker computes, and its pullback, which stays there.

    Parameters
    ----------
    executor
        An executor with one worker, such as `ProcessPoolExecutor(1)`: with several, no one could
        say which of them gets a cotangent. Threads may be any number. Of a `distributed.Client`
        one worker is chosen, the one that has the arguments if they are futures.
    f
        The function; it is pickled by name, or with cloudpickle where that is installed. It may
        load the data itself.
    args, kwargs
        Its arguments, as for `ct.pullback`; `ct.const` holds one constant. With Dask, futures stand
        for what they are of.
    wrt
        As for `ct.pullback`.
    timeout
        After so many seconds, `TimeoutError` is raised.

    Returns
    -------
    value
        What `f` gives.
    back
        A `RemotePullback`.

    Raises
    ------
    TypeError
        When the executor has several workers, or the function cannot be pickled.
    WorkerLostError
        When the worker died.

    >>> import cotan as ct
    >>> import numpy as np
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> with ThreadPoolExecutor(1) as pool:
    ...     value, back = ct.parallel.remote_pullback(pool, np.sin, np.array([0.0, np.pi]))
    ...     (slope,) = back(np.ones(2))
    >>> np.asarray(slope)
    array([ 1., -1.])
    """
    name = "parallel.remote_pullback"
    engine = engine_of(name, executor)
    if isinstance(engine, Ray):
        raise TypeError(
            f"{name}: Ray may run each task in another worker; keep the pullback in an actor of "
            "your own, or use a ProcessPoolExecutor(1) or Dask"
        )
    if not engine.is_local and not isinstance(engine, Dask) and engine.workers != 1:
        raise TypeError(
            f"{name}: the executor has {engine.workers} workers, and a cotangent has to go to the "
            "one that keeps the residuals; make one executor for each pullback, such as "
            "ProcessPoolExecutor(1)"
        )
    key = uuid.uuid4().hex
    call = _on_one_worker(engine, (*args, *kwargs.values()))
    try:
        work = engine.function_parcel((f, wrt), f)
        given = args if isinstance(engine, Dask) else engine.function_parcel(args, f)
        named = kwargs if isinstance(engine, Dask) else engine.function_parcel(kwargs, f)
    except Exception as error:
        raise TypeError(
            f"{name}: the function or its arguments cannot be pickled: {error}. Define it at the "
            "top of a module, or install cloudpickle"
        ) from error
    try:
        told = _result(call(_open, key, work, given, named), timeout)
    except engine.lost as error:
        raise WorkerLostError(f"{name}: the worker was lost ({error})") from error
    return told.value, RemotePullback(call, engine.lost, key, told)


def _on_one_worker(engine: Engine, args: Args) -> Callable[..., Future]:
    if not isinstance(engine, Dask):
        return engine.executor.submit  # type: ignore[no-any-return]
    return engine.on_one_worker(args)


def _result(future: Future, timeout: float | None) -> Any:
    # Its error is that of concurrent.futures, or of asyncio: the same one from Python 3.11 on.
    return future.result() if timeout is None else future.result(timeout=timeout)


def _gone(error: BaseException | None) -> WorkerLostError:
    why = f" ({type(error).__name__}: {error})" if error is not None else ""
    return WorkerLostError(
        f"remote_pullback: the worker that kept the residuals is gone{why}; make the pullback anew"
    )


def _forget_there(call: Callable[..., Future], key: str) -> None:
    # The executor may have been shut down.
    with contextlib.suppress(Exception):
        call(_forget, key)


# --------------------------------------------------------------------------------------------------
# In the worker

_kept: dict[str, _core.Pullback] = {}
_lock = threading.Lock()


def _open(key: str, work: Parcel | Given, args: Any, kwargs: Any) -> _Opened:
    f, wrt = work.open()
    given = args.open() if isinstance(args, (Parcel, Given)) else args
    named = kwargs.open() if isinstance(kwargs, (Parcel, Given)) else kwargs
    value, back = _core.pullback(f, *given, wrt=wrt, **named)
    with _lock:
        _kept[key] = back
    return _Opened(value, back.nbytes, os.getpid())


def _apply(key: str, dy: Parcel) -> Parcel | None:
    with _lock:
        back = _kept.get(key)
    if back is None:
        return None
    found = back(dy.open())
    leaves = _core.structure(found).leaves
    _core.force_all([x for x in leaves if isinstance(x, _core.Array)])
    return Parcel.of(found, f"cotangent {next(_numbers)}")


def _forget(key: str) -> None:
    with _lock:
        _kept.pop(key, None)


_numbers = itertools.count()
