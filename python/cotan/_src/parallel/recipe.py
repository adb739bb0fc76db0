"""What workers are sent to compute a gradient with: a program, or the function itself.

Problem: a worker may have neither the module of the user's function nor the variables that it
closes over, and recording takes Python time in every worker. So the gradient is recorded here, once
for each kind of batch, as a program: values and numbers that the function closes over are part of
it. Whether a recording still holds is what a prepared function knows, by its guards. A function
that cannot be recorded so (it decides by values, draws random numbers, has side effects) is sent
itself, by the means of pickle.
"""

import itertools
import threading
import time
import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from cotan import _core
from cotan._src.api.derivatives import const
from cotan._src.api.prepare import prepare
from cotan._src.inspect.prepared_report import RerecordingWarning
from cotan._src.parallel import flat
from cotan._src.parallel.flat import VALUE, Flat, Layout, Part
from cotan._src.parallel.parcel import Parcel
from cotan._src.state.snapshot import StateSnapshot
from cotan._src.tree.tangent import Gradients
from cotan._src.typing import Args, Function

# Recordings that are made before the number of calls matters.
_FEW = 5
# How often something is recorded in which random numbers seem to be drawn, if it takes less than so
# many seconds.
_BRIEF = 1.0
_ATTEMPTS = 4
# Equations that decide for a way through the function: more take too long to compute here.
_DECIDING = 16
# Functions whose recordings are kept.
_KEPT = 8
# Recordings that are kept of one function, as by a prepared function.
_RECORDINGS = 32


class _Place(NamedTuple):
    """The place of a leaf among the leaves of a gradient."""

    number: int


def gradient_of(
    f: Function, params: Any, rest: Args, wrt: Any, has_aux: bool
) -> tuple[list[int], list[Any], Any]:
    """Compute value and gradient of a batch.

    Returns the leaves of the parameters that have a gradient, `VALUE` first, the arrays of these,
    and what the function returns besides.
    """
    constants = [const(x) for x in rest]
    found: Any = _core.value_and_gradient(f, params, *constants, wrt=wrt, has_aux=has_aux)
    value, (gradient, *_) = found[:2]
    aux = None
    if has_aux:
        value, aux = value
    if isinstance(gradient, Gradients):
        raise TypeError(
            "parallel: gradients by the identity of arrays (wrt=[array]) cannot be sent; name the "
            "parameters by paths"
        )
    given = _core.structure(gradient)
    marked = given.build([_Place(i) for i in range(len(given.leaves))]) if given.leaves else None
    places = _core.structure(params).align(marked, "parallel") if given.leaves else []
    leaves, arrays = [VALUE], [value]
    for leaf, place in enumerate(places):
        if isinstance(place, _Place):
            leaves.append(leaf)
            arrays.append(given.leaves[place.number])
    return leaves, arrays, aux


class Result(NamedTuple):
    """What a worker computes for a batch."""

    flat: Flat
    aux: Any


class ByFunction:
    """Computes gradients by the function itself, which has to be importable where it is used."""

    def __init__(self, f: Function, wrt: object, has_aux: bool) -> None:
        self.f, self.wrt, self.has_aux = f, wrt, has_aux

    def __call__(self, params: Any, rest: Args) -> Result:
        """Compute it for a batch."""
        leaves, arrays, aux = gradient_of(self.f, params, rest, self.wrt, self.has_aux)
        return Result(flat.packed(leaves, arrays), aux)


class ByProgram:
    """Computes gradients by a program; needs nothing but cotan."""

    def __init__(self, program: _core.Program, layout: Layout) -> None:
        self.program, self.layout = program, layout
        self._replay: Callable[..., Any] | None = None

    def __call__(self, params: Sequence[Any], rest: Sequence[Any]) -> Result:
        """Compute it for the leaves of parameters and batch."""
        buffers, places = flat.empty(self.layout)
        given = (*params, *rest)
        rest_of_results = [None] * (len(self.program.outputs) - len(places))
        replay = self._prepared(given)
        if replay is None:
            found = self.program(*given)
            found = [_core.value(x) for x in (found if isinstance(found, tuple) else (found,))]
            for place, x in zip(places, found, strict=False):
                np.copyto(place, x)
        elif len(places) + len(rest_of_results) == 1:
            found = (replay(*given, out=places[0]),)
        else:
            found = replay(*given, out=(*places, *rest_of_results))
        return Result(Flat(self.layout, buffers), tuple(found[len(places) :]))

    def _prepared(self, given: tuple[Any, ...]) -> Callable[..., Any] | None:
        if self._replay is None:
            # Two threads that come here at once prepare it twice, and one of them is kept.
            made: _core.Prepared[..., Any] = prepare(self.program, transform="value")
            try:
                made.record(*given)
            except TypeError:
                # Another thread of the worker has drawn random numbers meanwhile.
                return None
            self._replay = made
        return self._replay

    def __reduce__(self) -> tuple[type["ByProgram"], tuple[object, ...]]:
        return ByProgram, (self.program, self.layout)


class Recording(NamedTuple):
    """A program for one kind of batch, ready to be sent."""

    compute: ByProgram
    parcel: Parcel
    rebuild: Callable[[tuple[Any, ...]], Any]
    """Makes what the function returns besides the value from arrays."""


class Recipe:
    """Finds what computes the gradient of a function for a batch.

    `refused` says why the function is not sent as a program; it is empty while it is.
    """

    def __init__(self, f: Function, wrt: object, has_aux: bool) -> None:
        self.f, self.wrt, self.has_aux = f, wrt, has_aux
        self.refused = ""
        #: The error for which it was refused.
        self.error: Exception | None = None
        self.by_function = ByFunction(f, wrt, has_aux)
        self._calls = 0
        self._tokens = itertools.count(1)
        self._recordings: OrderedDict[int, Recording] = OrderedDict()
        self._lock = threading.Lock()
        tokens = self._tokens

        def witness(params: Any, rest: Any) -> float:
            # Replays compute nothing: they check the guards, and say which recording holds. In a
            # tuple, integers are data.
            gradient_of(f, params, rest, wrt, has_aux)
            return float(next(tokens))

        self._witness = prepare(witness, transform="value")

    def recording(self, params: Any, rest: Args) -> Recording | None:
        """Give the program for a batch; None if the function itself has to be sent."""
        with self._lock:
            if self.refused:
                return None
            before = StateSnapshot(self.f, (params, rest)) if self._calls == 0 else None
            self._calls += 1
            try:
                return self._recorded(params, rest)
            except Exception as error:  # noqa: BLE001
                # What is wrong with the function itself, a worker will say.
                self._refuse(f"{type(error).__name__}: {error}", error)
            finally:
                if before is not None:
                    before.restore()
            return None

    def _recorded(self, params: Any, rest: Args) -> Recording | None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RerecordingWarning)
            token = int(_undisturbed(lambda: self._witness(params, rest)))
        known = self._recordings.get(token)
        if known is not None:
            self._recordings.move_to_end(token)
            return known
        if len(self._witness.programs[0].equations) > _DECIDING:
            self._refuse("the way through the function depends on values that it computes")
            return None
        if len(self._recordings) >= _FEW + self._calls // 4:
            self._refuse(
                f"{len(self._recordings)} of {self._calls} batches took another way through the "
                "function or had other shapes, so each was recorded anew"
            )
            return None
        made = self._recordings[token] = self._record(params, rest)
        if len(self._recordings) > _RECORDINGS:
            self._recordings.popitem(last=False)
        return made

    def _record(self, params: Any, rest: Args) -> Recording:
        inside, beside = _core.structure(params), _core.structure(rest)
        seen: list[Any] = []

        def on_leaves(mine: list[Any], its: list[Any]) -> list[Any]:
            args = beside.build(its) if its else rest
            leaves, arrays, aux = gradient_of(
                self.f, inside.build(mine), args, self.wrt, self.has_aux
            )
            seen[:] = [leaves, _core.structure(aux), aux]
            return [*arrays, *seen[1].leaves]

        given = (plain_leaves(inside), plain_leaves(beside))
        program = _core.record(on_leaves, given, {})[0]
        leaves, parts, aux = seen
        free = sum(variable.value is None for variable in program.inputs)
        if free != sum(map(len, given)) or len(program.outputs) != len(leaves) + len(parts.leaves):
            raise TypeError("parallel: an argument or a result is not part of the program")
        layout = tuple(
            Part(leaf, variable.shape, variable.dtype.str)
            for leaf, variable in zip(leaves, program.outputs, strict=False)
        )

        def rebuild(arrays: tuple[Any, ...]) -> Any:
            return parts.build(list(arrays)) if arrays else aux

        compute = ByProgram(program, layout)
        return Recording(compute, Parcel.of(compute), rebuild)

    def _refuse(self, reason: str, error: Exception | None = None) -> None:
        self.refused, self.error = reason, error
        self._recordings.clear()
        self._witness.clear()


def _undisturbed(record: Callable[[], Any]) -> Any:
    """Record something; once more if random numbers were drawn meanwhile.

    The event loop of a cluster draws some, in a thread of its own.
    """
    for _ in range(_ATTEMPTS - 1):
        start = time.monotonic()
        try:
            return record()
        except TypeError as error:
            is_brief = time.monotonic() - start < _BRIEF and threading.active_count() > 1
            if not is_brief or "draws random numbers" not in str(error):
                raise
    return record()


def plain_leaves(structure: _core._Structure) -> list[Any]:
    """Give the leaves of a structure as ndarrays and numbers."""
    return [np.asarray(x) if isinstance(x, _core.Array) else x for x in structure.leaves]


_recipes: OrderedDict[Any, Recipe] = OrderedDict()
_recipes_lock = threading.Lock()


def recipe_of(f: Function, wrt: object, has_aux: bool) -> Recipe:
    """Give the recipe of a function: the one that earlier calls made, if it is still kept."""
    key = (f, repr(wrt) if isinstance(wrt, (str, int, list, tuple)) else wrt, has_aux)
    try:
        with _recipes_lock:
            if key not in _recipes:
                _recipes[key] = Recipe(f, wrt, has_aux)
            _recipes.move_to_end(key)
            while len(_recipes) > _KEPT:
                _recipes.popitem(last=False)
            return _recipes[key]
    except TypeError:  # an object that has no hash
        return Recipe(f, wrt, has_aux)
