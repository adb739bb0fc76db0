"""Finds a solution once more, in a replay, by less than the rule of its solver: `SolvedAgain`.

Problem: a root takes SciPy microseconds. The rule finds out each time whether the function may run
on plain values, what kind of solution there is, and which program has the derivatives of its
equation. A replay has seen all that: what is left is to look whether the function depends on the
same, to call SciPy, and to run the program.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from cotan import _core
from cotan._core import Array, FunctionKey
from cotan._src.kit.known_programs import KnownProgram
from cotan._src.runtime.interrupts import raise_interrupt
from cotan._src.typing import Args, Function

#: Gives the arrays and numbers of a result, and the solution among them; None of another structure.
Take: TypeAlias = Callable[[Any], tuple[list[Any], Any] | None]
#: The arrays and numbers of a result, and the slopes of the solution; None where the rule has to
#: find them.
Found: TypeAlias = tuple[list[Any], Sequence[Any]] | None


class Known(NamedTuple):
    """A program with the derivatives of an equation, and of what functions it is known."""

    #: Functions and arguments, whose key says that it is the same equation.
    given: Args
    key: FunctionKey
    program: KnownProgram

    @property
    def leaves(self) -> list[Array]:
        """Give the active arrays that the equation depends on."""
        return [self.key.leaves[i] for i in self.program.used]


class SolvedAgain:
    """A solution that was found, for other values of what the user's function captures.

    `rule()` finds it as it was found. `find(known, take)` calls the solver with the copies of a
    key, outside of the recording, and runs the program. What else the rule was given, such as ends
    of an interval, may be recorded arrays: `find` reads their values each time.
    """

    def __init__(self, rule: Function, known: Known, find: Callable[[Known, Take], Found]) -> None:
        self._rule, self._find = rule, find
        self._given, self._key, self._program = known.given, known.key.key, known.program
        self._numbers = _core.collected_numbers(known.leaves)

    def __call__(self) -> Any:
        return self._rule()

    def quickly(self, take: Take) -> Found:
        """Give what is found for what can be read now."""
        key = FunctionKey.of(*self._given)
        if key is None or key.key != self._key or self._numbers is None:
            return None
        known = Known(self._given, key, self._program)
        if _core.collected_numbers(known.leaves) != self._numbers:
            return None
        try:
            found = self._find(known, take)
        except Exception as error:  # noqa: BLE001
            key.restore()
            # The rule raises what is to be raised.
            raise_interrupt(error)
            return None
        if key.has_changed():
            key.restore()
            return None
        return found
