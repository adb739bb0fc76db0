"""Lets a prepared function replay calls of library functions that read values.

Problem: an integrator chooses its steps by the values of its arguments, `np.unique` gives as many
elements as it finds. What such a call computes holds for one argument only. So the call becomes one
equation of the recorded program, which calls the library's function again with the values of each
replay; its pullback is that of the repeated call. `repeat` makes this equation.

A replay repeats the call in surroundings that have changed since. What the arguments contain is
therefore copied, and functions among them keep the variables that they have at the call. A call is
not repeated if it writes to anything that its arguments reach, or if they reach something that
changes before the recorded function returns.
"""

import contextlib
import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from types import BuiltinFunctionType, CellType, FunctionType, ModuleType
from typing import Any, NamedTuple, NoReturn

import numpy as np

from cotan import _core
from cotan._core import Array, NotDifferentiableError
from cotan._src.kit.result_layout import Layout, NotRepeatableError, put_together, take_apart
from cotan._src.kit.slope_call import SlopeCall
from cotan._src.runtime.call_site import assigns_captured
from cotan._src.runtime.interrupts import raise_interrupt
from cotan._src.runtime.values import contains_active, is_array, to_numpy
from cotan._src.state.random_states import repeated_call
from cotan._src.state.snapshot import StateSnapshot
from cotan._src.typing import AnyArray, Args, Function, Kwargs, NDArray

_ARE_REFUSED = ContextVar("cotan.repeated_calls_are_refused", default=False)

# What they give is constant, whatever the values are.
_CONSTANT = frozenset([np.spacing])
_NOT_CALLBACKS = (type, BuiltinFunctionType, np.ufunc, ModuleType)


def state_of_callbacks(args: Args, kwargs: Kwargs | None) -> StateSnapshot | None:
    """Save the state that functions among the arguments of a call can change, if there are any."""
    values = (*args, *(kwargs or {}).values())
    callbacks = [x for x in values if callable(x) and not isinstance(x, _NOT_CALLBACKS)]
    return StateSnapshot(*callbacks) if callbacks else None


def repeat(function: Function, args: Args, kwargs: Kwargs, state: StateSnapshot | None) -> Any:
    """Call a function that has been refused the values that it reads; replays repeat the call.

    Parameters
    ----------
    state
        The state of the callbacks before the function was called first; it is restored.

    Returns the result of the call, with an `Array` for each number in it; `...` where the call
    cannot be repeated: it writes to what it was passed, or gives something that has a state. Raises
    `TypeError` inside `refused_repeats`.
    """
    if state is not None:
        state.restore()
    if _ARE_REFUSED.get():
        raise TypeError(
            f"prepare: {_name_of(function)} reads values, so each replay would call it again, and "
            "once more for each pass of the derivative; that takes longer than recording anew"
        )
    copies = _Copies()
    call = _RepeatedCall(function, copies.of(args), copies.of(kwargs))
    try:
        return call.record(has_callbacks=state is not None)
    except NotRepeatableError:
        return ...
    finally:
        if state is not None:
            state.restore()


@contextlib.contextmanager
def refused_repeats() -> Iterator[None]:
    """Refuse what would be repeated: a function that has such calls cannot be prepared here."""
    before = _ARE_REFUSED.set(True)
    try:
        yield
    finally:
        _ARE_REFUSED.reset(before)


def _name_of(function: Function) -> str:
    name: str = getattr(function, "__name__", type(function).__name__)
    return name


class _Output(NamedTuple):
    """What a repeated call has to give in the place of a number or an array."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class _Recorded(NamedTuple):
    """A pullback, of which results, and for which values of the recorded arrays."""

    pull: Function
    wanted: list[bool]
    inputs: list[NDArray]


class _RepeatedCall:
    """A call, the recorded arrays that it reads, and what it gives."""

    def __init__(self, function: Function, args: Args, kwargs: Kwargs) -> None:
        self._function, self._args, self._kwargs = function, args, kwargs
        self._name = _name_of(function)
        self._state: StateSnapshot | None = None
        # A callback has written to what the next call would read.
        self._is_spent = False
        # Which results had cotangents when the derivative was asked for last; None without a rule.
        self._wanted: list[bool] | None = None
        # The pullback that the last run of `values` has recorded, until it is used.
        self._recorded: _Recorded | None = None

    def record(self, *, has_callbacks: bool) -> Any:
        """Call the function as it is called unprepared; give its result, which replays compute."""
        state = StateSnapshot(self._args, self._kwargs)
        (leaves, self._layout), nodes, self._tags, is_repeatable = _core.find_inputs(
            self._leaves, (), {}
        )
        if not is_repeatable or not nodes or not leaves or state.has_changed():
            raise NotRepeatableError
        # Only inexact arrays have cotangents, and these come first in a pullback.
        self._nodes = sorted(nodes, key=lambda node: not _is_inexact(node))
        self._outputs = [_Output(x.shape, x.dtype) for x in leaves]
        self._state = state if has_callbacks else None
        made: list[Array] | None = self._made_with_slopes()
        if made is None:
            self._expect_pullback()
            outputs = list(zip(map(_core.asarray, leaves), self._layout.ranks, strict=True))
            made = _core.call_back_again(
                self.values, self.pullback, self._name, self._nodes, outputs
            )
        # The recorded function may depend on what is not in the arrays: their number and shapes.
        _core.keep_computed(made[0])
        _core.check_at_end(functools.partial(_expect_same_state, state, self._name))
        if self._function is round or any(
            isinstance(x, np.ufunc) and x in _CONSTANT for x in self._args
        ):
            made = [_core.dropgrad(x) for x in made]
        return put_together(self._layout, made)

    def _made_with_slopes(self) -> list[Array] | None:
        """Give the results where the call can give their derivatives, too, once and for all."""
        is_asked = _core.differentiated_once()
        if is_asked is None or not getattr(self._function, "gives_slopes", False):
            return None
        call = SlopeCall(
            self._function, (self._args, self._kwargs), (self._nodes, self._tags), self._layout
        )
        values = call.first([_core.asarray(_core.peek(node)) for node in self._nodes])
        if values is None:
            return None
        count = len(self._outputs)
        if [_Output(x.shape, x.dtype) for x in values[:count]] != self._outputs:
            return None
        ranks = [*self._layout.ranks, *["array"] * len(values)]
        outputs = list(zip(map(_core.asarray, values), ranks, strict=False))
        made = _core.call_back_again(
            call.values, _no_pullback, self._name, self._nodes, outputs, True
        )
        return call.put(made, self._pull_part if is_asked else None)

    def _pull_part(self, leaf: int, given: Sequence[Array]) -> tuple[AnyArray, ...]:
        """Give the cotangents of the recorded arrays for that of one result."""
        cts = [
            given[-1] if i == leaf else _core.asarray(np.zeros(out.shape, out.dtype))
            for i, out in enumerate(self._outputs)
            if _is_inexact(out)
        ]
        return self.pullback(*given[:-1], *cts)

    def values(self, *inputs: Array) -> tuple[AnyArray, ...]:
        """Give the results for these values of the recorded arrays.

        Raises `ReplayMismatch` where they are not like those of the recorded call.
        """
        self._recorded = None
        if self._wanted is not None and (self._state is not None or any(self._wanted)):
            # What has no derivative here may have a value; other errors are raised once more.
            try:
                return self._values_to_pull(inputs, self._wanted)
            except (ArithmeticError, TypeError, ValueError) as error:
                raise_interrupt(error)
        leaves, layout = self._called(inputs)
        if layout != self._layout:
            raise _core.ReplayMismatch(f"{self._name} gives a result of another structure")
        return tuple(leaves)

    def _values_to_pull(self, inputs: Sequence[Array], wanted: list[bool]) -> tuple[AnyArray, ...]:
        """Give the results, and keep their pullback, which would compute them once more.

        Under a gradient solvers run on a plain copy of a callback: that is faster in any case.
        """
        leaves: list[AnyArray] = []

        def call(*x: Array) -> tuple[AnyArray, ...]:
            leaves[:] = self._in_places(x)
            return tuple(itertools.compress(filter(_is_inexact, leaves), wanted))

        pull = self._pulled(inputs, call)
        if any(wanted):
            self._recorded = _Recorded(pull, wanted, [np.array(to_numpy(x)) for x in inputs])
        return tuple(_core.dropgrad(x) for x in leaves)

    def _in_places(self, inputs: Sequence[Array]) -> list[AnyArray]:
        leaves, layout = self._called(inputs)
        # With active arrays the classes of results may be others than in the recorded call.
        if layout.places() != self._layout.places():
            raise _core.ReplayMismatch(f"{self._name} gives a result of another structure")
        return leaves

    def _inexact(self, *inputs: Array) -> tuple[AnyArray, ...]:
        return tuple(filter(_is_inexact, self._in_places(inputs)))

    def _expect_pullback(self) -> None:
        """Raise `NotRepeatableError` where the function gives another result for active arrays."""
        inputs = [_core.asarray(_core.peek(node)) for node in self._nodes]
        try:
            self._pulled(inputs, self._inexact)
        except (NotRepeatableError, _core.ReplayMismatch):
            raise NotRepeatableError from None
        except (ArithmeticError, TypeError, ValueError) as error:
            # Without a derivative rule it is refused where the derivative is asked for.
            raise_interrupt(error)
        else:
            self._wanted = [False] * sum(map(_is_inexact, self._outputs))

    def _called(self, inputs: Sequence[Array]) -> tuple[list[AnyArray], Layout]:
        if self._is_spent:
            raise _core.ReplayMismatch("a callback has written to its variables in an earlier call")
        before = None if self._state is None else self._state.before_call()
        try:
            (leaves, layout), is_same = _core.call_with_inputs(
                self._leaves, (), {}, self._tags, self._nodes, inputs
            )
        except NotRepeatableError:
            raise _core.ReplayMismatch(f"{self._name} gives a result with a state") from None
        if self._state is not None and before is not None and self._state.changes_since(before):
            self._is_spent = True
        outputs = [_Output(x.shape, x.dtype) for x in leaves]
        if not is_same:
            raise _core.ReplayMismatch(f"{self._name} reads arrays that it has not read before")
        if outputs != self._outputs:
            raise _core.ReplayMismatch(
                f"{self._name} gives {_described(outputs)}, recorded {_described(self._outputs)}"
            )
        return leaves, layout

    @staticmethod
    def _pulled(inputs: Sequence[Array], function: Function) -> Any:
        """Give the pullback of a function of all inputs; those of integers have no cotangent."""
        count = sum(map(_is_inexact, inputs))
        rest = inputs[count:]
        return _core.pullback(lambda *x: function(*x, *rest), *inputs[:count])[1]

    def pullback(self, *given: Array) -> tuple[AnyArray, ...]:
        """Give the cotangents of the recorded arrays for these values and cotangents of results."""
        inputs, cts = given[: len(self._nodes)], given[len(self._nodes) :]

        # A part of the result that nobody has used may have no derivative rule.
        wanted = [_core.is_active(ct) or bool(np.any(_core.peek(ct))) for ct in cts]
        recorded, self._recorded = self._recorded, None
        if (
            recorded is not None
            and recorded.wanted == wanted
            and _are_same(recorded.inputs, inputs)
        ):
            pull = recorded.pull
        else:
            pull = self._pulled(
                inputs, lambda *x: tuple(itertools.compress(self._inexact(*x), wanted))
            )
        found = pull(tuple(itertools.compress(cts, wanted)))
        self._wanted = wanted
        inexact = inputs[: len(found)]
        return tuple(
            np.zeros(x.shape, x.dtype) if ct is None else ct
            for ct, x in zip(found, inexact, strict=True)
        )

    def _leaves(self) -> tuple[list[AnyArray], Layout]:
        with repeated_call():
            return take_apart(self._function(*self._args, **self._kwargs))


def _no_pullback(*_: Array) -> NoReturn:
    raise NotDifferentiableError("a replay of a solver has no derivatives of higher order in cotan")


def _are_same(a: Sequence[NDArray], b: Sequence[Array]) -> bool:
    """Say whether arrays have the same values, bit by bit, and nothing is recorded of them."""
    return not contains_active(b) and all(
        x.tobytes() == np.asarray(to_numpy(y)).tobytes() for x, y in zip(a, b, strict=True)
    )


def _is_inexact(x: AnyArray | _Output) -> bool:
    # The kind of bfloat16 is that of no number.
    return x.dtype.kind in "fcV"


def _described(outputs: list[_Output]) -> str:
    return ", ".join(f"{o.dtype.name}{list(o.shape)}" for o in outputs) or "nothing"


def _expect_same_state(state: StateSnapshot, name: str) -> None:
    if state.has_changed():
        raise TypeError(
            f"prepare: the function changes variables or arrays that it has passed to {name}, or "
            f"that a callback of it uses, after the call, which replays repeat; pass copies, or "
            "leave the function unprepared"
        )


def _constant_infinity(x: Array) -> Array | float:
    """Give infinity itself for a number such as `np.inf * scale`; replays look whether it is still.

    As an input of the call it would have the cotangent 0, and infinity times 0 is NaN.
    """
    if x.dtype.kind != "f" or not np.isinf(_core.peek(x)) or not bool(np.isinf(x)):
        return x
    return math.inf if x > 0 else -math.inf


class _Copies:
    """Copies of what a call was passed: each replay needs it as it was at the call."""

    def __init__(self) -> None:
        self._made: dict[int, Any] = {}
        # Keeps objects alive, so that an identity is not reused.
        self._alive: list[object] = []

    def of(self, value: Any) -> Any:
        """Copy arrays and plain collections; functions get variables of their own."""
        if id(value) not in self._made:
            self._alive.append(value)
            self._made[id(value)] = self._copy(value)
        return self._made[id(value)]

    def _copy(self, value: Any) -> Any:
        kind = type(value)
        if is_array(value):
            return value.copy() if value._rank == "array" else _constant_infinity(value)
        if isinstance(value, np.ndarray):
            return value.copy("K")
        if kind in {list, tuple}:
            return kind(map(self.of, value))
        if kind is dict:
            return {key: self.of(item) for key, item in value.items()}
        if kind is functools.partial:
            return functools.partial(
                self.of(value.func), *self.of(value.args), **self.of(value.keywords)
            )
        return self._function(value) if kind is FunctionType else value

    def _function(self, function: FunctionType) -> FunctionType:
        """Copy a function, whose variables then keep what they contain now.

        One that assigns to them shares them with the function around it, and is not copied.
        """
        cells = function.__closure__
        if not cells or assigns_captured(function.__code__):
            return function
        copy = FunctionType(function.__code__, function.__globals__, function.__name__,
                            function.__defaults__, tuple(CellType() for _ in cells))  # fmt: skip
        copy.__kwdefaults__ = function.__kwdefaults__
        copy.__dict__.update(function.__dict__)
        copy.__qualname__, copy.__module__ = function.__qualname__, function.__module__
        # A function that calls itself finds the copy.
        self._made[id(function)] = copy
        for cell, old in zip(copy.__closure__ or (), cells, strict=True):
            try:
                content = old.cell_contents
            except ValueError:
                continue  # a variable without a value yet
            is_function = type(content) in {FunctionType, functools.partial}
            cell.cell_contents = self.of(content) if is_function else content
        return copy
