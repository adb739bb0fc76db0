"""Records a loop as one equation whose body is a program, so that programs do not grow with steps.

The step is traced, twice at least, on arrays of which nobody knows the values. What looks at a
value, calls back, changes what it carries or keeps state cannot be traced once for all steps. The
caller then takes the steps one by one, and finds everything as it was before.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from cotan import _core
from cotan._src.api.carry import expect_same, outline, settled
from cotan._src.runtime.interrupts import raise_interrupt
from cotan._src.runtime.loops import ENDLESS, fewest_steps
from cotan._src.state.slots import NotRestorableError, Slot
from cotan._src.state.snapshot import StateSnapshot
from cotan._src.tree.tangent import leaves_of, map_leaves

_Step = Callable[[Any, Any], tuple[Any, Any]]


class _NotSteadyError(Exception):
    """A step cannot be traced once for all: it does not carry on what it is given, say."""


def recorded_loop(
    step: _Step,
    init: Any,
    xs: Any,
    length: int,
    *,
    function: Callable[..., Any],
    reverse: bool = False,
    counts: bool = False,
    segments: Sequence[int] = (),
    budget: int | None = None,
) -> tuple[Any, Any] | None:
    """Record a loop of a number of steps; None if it has to be written out.

    Gives the last carry and what is stacked.

    Parameters
    ----------
    step
        From a carry and a slice of `xs` to the next carry and what is stacked.
    init, xs
        Structures of arrays.
    length
        Number of steps.
    function
        The user's function in `step`, whose state must not change.
    reverse
        Whether the last slice comes first.
    counts
        Whether `xs` is one array of integers, which stand for Python's.
    segments
        How many steps lie between two carries that the reverse pass keeps; then the same for the
        steps in one segment, and so on.
    budget
        How many bytes of carries the reverse pass keeps; None for all.

    Raises
    ------
    TypeError
        When a step has changed what cannot be put back.
    """
    if length < fewest_steps.get() or not _core.is_anything_recorded():
        return None
    loop = _Loop(step, reverse, counts, budget=budget)
    return _attempt(lambda: _nested(loop, init, xs, length, tuple(segments)), function)


def recorded_while(
    holds: Callable[[Any], Any],
    body: Callable[[Any], Any],
    init: Any,
    max_steps: int,
    *,
    functions: tuple[Callable[..., Any], ...],
) -> Any:
    """Record a loop that ends when a condition no longer holds; gives the last carry, or None.

    Parameters
    ----------
    holds, body
        From a carry to a bool, and to the next carry.
    init
        The first carry.
    max_steps
        How many steps there may be; 0 for any number.
    functions
        The user's functions in `holds` and `body`, whose state must not change.
    """
    if not _core.is_anything_recorded() or fewest_steps.get() == ENDLESS:
        return None

    # The number of steps is carried for the reverse pass.
    def step(carry: Any, _: Any) -> tuple[Any, Any]:
        _, count, last = carry
        new = body(last)
        return (_as_array(holds(new)), count + 1, new), None

    def first() -> Any:
        return _as_array(holds(init)), np.zeros((), np.int64), init

    loop = _Loop(step, False, False, True)
    found = _attempt(lambda: _recorded(loop, first(), None, max_steps), *functions)
    return None if found is None else (found[0][2],)


def _as_array(pred: Any) -> Any:
    return pred if isinstance(pred, _core.Array) else np.asarray(pred)


def _attempt(
    record: Callable[[], tuple[Any, Any]], *functions: Callable[..., Any]
) -> tuple[Any, Any] | None:
    """Record a loop; None where its steps have to be taken one by one."""
    try:
        snapshot = StateSnapshot(*functions)
    except TypeError:
        return None
    pending = snapshot.pending_arrays()
    found = None
    try:
        found = record()
    except Exception as error:  # noqa: BLE001
        # Whatever else it is, steps that are taken one by one raise it again, with values.
        raise_interrupt(error)
    finally:
        if not _restored(snapshot, pending):
            found = None
    return found


def _restored(snapshot: StateSnapshot, pending: set[Slot]) -> bool:
    """Restore what a step has changed; says whether there was nothing.

    Raises `TypeError` for what cannot be restored.
    """
    try:
        return _put_back(snapshot, pending)
    except NotRestorableError as error:
        raise _not_pure(error.name) from None


def _put_back(snapshot: StateSnapshot, pending: set[Slot]) -> bool:
    if snapshot.pending_arrays() <= pending:
        try:
            return not snapshot.restore()
        except _core.UnknownValueError:
            pass
    # What the step was given is kept somewhere, and has no value to be compared.
    snapshot.restore_all()
    return False


def _not_pure(name: str) -> TypeError:
    return TypeError(
        f"a step of a loop with rolled=True changes {name}, which cannot be put back after the "
        "step was traced; carry the state from step to step, or leave rolled=True out"
    )


class _Loop(NamedTuple):
    step: _Step
    reverse: bool
    counts: bool
    conditional: bool = False
    budget: int | None = None


def _nested(
    loop: _Loop, init: Any, xs: Any, length: int, segments: tuple[int, ...]
) -> tuple[Any, Any]:
    """Record a loop over segments, which are loops: the reverse pass keeps carries between them."""
    if not segments or length <= segments[0]:
        return _recorded(loop, init, xs, length)
    size, *inner = segments
    count, rest = divmod(length, size)
    first = rest if loop.reverse else 0

    def segment(carry: Any, chunk: Any) -> tuple[Any, Any]:
        return _nested(loop, carry, chunk, size, tuple(inner))

    def in_segments(leaf: Any) -> Any:
        return leaf[first : first + count * size].reshape(count, size, *leaf.shape[1:])

    outer = _Loop(segment, loop.reverse, False)
    carry, ys = _recorded(outer, init, map_leaves(in_segments, xs), count)
    ys = map_leaves(lambda leaf: leaf.reshape(count * size, *leaf.shape[2:]), ys)
    if not rest:
        return carry, ys
    at = slice(rest) if loop.reverse else slice(count * size, None)
    carry, more = _nested(loop, carry, map_leaves(lambda leaf: leaf[at], xs), rest, tuple(inner))
    pairs = zip(leaves_of(ys), leaves_of(more), strict=True)
    joined = [np.concatenate(pair[::-1] if loop.reverse else pair) for pair in pairs]
    return carry, _built(ys, joined)


def _recorded(loop: _Loop, init: Any, xs: Any, length: int) -> tuple[Any, Any]:
    one = _Traced(loop.step, init, xs)
    carried, slices = leaves_of(init), leaves_of(xs)
    looped = _core.record_loop(
        one.step, carried, slices, length, loop.reverse, loop.counts and length > 0,
        loop.conditional, loop.budget,
    )  # fmt: skip
    if looped is None:
        raise _NotSteadyError
    last, stacked = looped
    return _built(one.carry, last), _built(one.y, stacked)


class _Traced:
    """A step as a function of lists, which notes what its results look like."""

    def __init__(self, step: _Step, init: Any, xs: Any) -> None:
        self._step = step
        self._init, self._xs = init, xs
        self._before = outline(init, "carry")
        self._constants = list(_carried_constants(init))
        self.carry: Any = None
        self.y: Any = None

    def step(self, carried: list[Any], slices: list[Any]) -> tuple[list[Any], list[Any]]:
        new, y = self._step(_built(self._init, carried), _built(self._xs, slices))
        after = outline(new, "carry")
        expect_same("scan", "the carry", settled(self._before, after), after, constants=True)
        # Leaves are paired by their order, in which the keys of dicts count.
        if list(after) != list(self._before) or list(_carried_constants(new)) != self._constants:
            raise _NotSteadyError
        self.carry, self.y = new, y
        return leaves_of(new), leaves_of(y)


def _built(like: Any, leaves: list[Any]) -> Any:
    """Give a structure with these leaves in it."""
    if not leaves:
        return like
    rest = iter(leaves)
    return map_leaves(lambda _: next(rest), like)


def _carried_constants(tree: object) -> Iterator[object]:
    """Give the Python integers, bools and strings of a carry, which are no leaves.

    Of anything else than these, leaves and containers nobody can say whether a step has changed it.
    """
    if isinstance(tree, (np.ndarray, _core.Array)):
        # One that stands for a bool says that it is one.
        if tree.dtype.kind not in "fciub":
            raise _NotSteadyError
    elif isinstance(tree, (bool, int, str, bytes)):
        yield tree
    elif type(tree) is dict:
        for value in tree.values():
            yield from _carried_constants(value)
    elif isinstance(tree, (tuple, list)):
        for value in tree:
            yield from _carried_constants(value)
    elif tree is not None and not isinstance(tree, (float, complex)):
        raise _NotSteadyError
