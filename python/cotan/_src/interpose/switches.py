"""Switches overrides, for a block of code or a function, in the running context.

The context is that of `contextvars`: asyncio tasks, threads and greenlets have their own, and
threads that are started with a copied context take part in it.
"""

import contextlib
import functools
import importlib
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

import numpy as np

from cotan import _core

_F = TypeVar("_F", bound=Callable[..., Any])


class _Switch:
    def __init__(self) -> None:
        self._scopes: list[_core.Scope] = []

    def _enter(self) -> "_core.Scope":
        raise AssertionError

    def __enter__(self) -> None:
        self._scopes.append(self._enter())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self._scopes:
            raise RuntimeError(f"{type(self).__name__}: it is not entered")
        self._scopes.pop().leave()


class lifting(_Switch):  # noqa: N801
    """Switch overrides on or off, in this context, for a block of code.

    While a gradient is recorded, `np.zeros`, `np.array`, `math.sin`, `scipy.linalg.solve` and other
    functions that NumPy does not dispatch take `Array`s, in contexts that record. After
    `ct.lifting(False)` they do not, and NumPy's own protocols work alone. A process in which
    nothing is recorded without it, or that is started with `COTAN_LIFTING=0`, keeps the libraries'
    own entries everywhere.

    >>> import math
    >>> import cotan as ct
    >>> ct.gradient(lambda x: math.exp(x), 0.0)
    (1.0,)
    >>> with ct.lifting(False):
    ...     ct.gradient(lambda x: math.exp(x), 0.0)
    Traceback (most recent call last):
        ...
    cotan.NotDifferentiableError: float(x) would drop the gradient; ...
    """

    def __init__(self, on: bool = True) -> None:
        super().__init__()
        self._on = on

    def _enter(self) -> "_core.Scope":
        return _core.Scope.enter(self._on, None)


class strict(_Switch):  # noqa: N801
    """Refuse `float(x)`, `complex(x)` and `np.float64(x)` of active numbers in a block of code.

    Otherwise a number that user code makes of an active one stays active.

    >>> import cotan as ct
    >>> ct.gradient(lambda x: float(x) ** 2, 3.0)
    (6.0,)
    >>> with ct.strict():
    ...     ct.gradient(lambda x: float(x) ** 2, 3.0)
    Traceback (most recent call last):
        ...
    cotan.NotDifferentiableError: float(x) would drop the gradient; ...
    """

    def _enter(self) -> "_core.Scope":
        return _core.Scope.enter(None, True)


def lifted(on: bool) -> Callable[[_F], _F]:
    """Decorate a function in whose calls overrides are on or off: `@ct.lifted(False)`.

    >>> import math
    >>> import cotan as ct
    >>> @ct.lifted(False)
    ... def table(n):
    ...     return [math.sqrt(k) for k in range(n)]
    >>> ct.gradient(lambda x: x * sum(table(3)), 1.0)
    (2.414213562373095,)
    """

    def decorate(function: _F) -> _F:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with lifting(on):
                return function(*args, **kwargs)

        return call  # type: ignore[return-value]

    return decorate


def warm_up() -> None:
    """Import now what cotan imports later, and install the overrides of what has been imported.

    After this, gradients look for no file: for programs that call `chroot` or `setuid`. Libraries
    that they use have to be imported before.

    >>> import cotan as ct
    >>> ct.warm_up()
    """
    for name in ("implicit", "nn", "optim", "optimize", "random"):
        importlib.import_module(f"cotan.{name}")
    for name in (
        "inspect.diagram_text",
        "inspect.report_html",
        "inspect.svg",
        "interpose.error_hints",
        "interpose.index_context",
        "kit.repeated_call",
        "numpy.ufunc_protocol",
        "onnx.export",
    ):
        importlib.import_module(f"cotan._src.{name}")
    # What a first recording, an error in one and a first plan import.
    with contextlib.suppress(_core.NotDifferentiableError), strict():
        _core.gradient(float, 1.0)
    _core.gradient(lambda x: np.sum(np.multiply(x, x)[:1]), np.ones(2))
