"""Runs solvers of `scipy.optimize` on a plain copy of the user's function: `PlainSolve`.

Problem: a root takes SciPy microseconds, and only its equation has to be recorded, once. Calls on
plain values outside of the recording cost what they cost without cotan.
"""

import copy
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from cotan import _core
from cotan._core import FunctionKey
from cotan._src.kit.callbacks import more_of
from cotan._src.kit.implicit_diff import (
    move_of,
    plain_number,
    plain_solution,
    stacked,
)
from cotan._src.kit.kkt import Problem, constrained
from cotan._src.kit.known_programs import KnownPrograms, like, with_rows, without_branches
from cotan._src.kit.slope_call import Move, moved
from cotan._src.kit.solved_again import Found, Known, SolvedAgain, Take
from cotan._src.runtime.values import contains_active, python_number
from cotan._src.scipy.optimize.solver_arguments import slope_of
from cotan._src.state.callback_probe import to_numpy_items
from cotan._src.state.plain_copy import (
    NotPlainError,
    PlainCallback,
    is_one_gradient,
    with_arrays,
)
from cotan._src.typing import AnyArray, Function, NDArray

# Of more numbers in the derivatives of an equation no programs are made.
_ROWS = 10_000
_KNOWN = KnownPrograms()

#: From a function, its arguments and what else there is to an equation.
Build: TypeAlias = Callable[[Any, Any, Any], Function]


class PlainSolve(PlainCallback):
    """A function whose root, minimum or fit a solver finds, with its plain copy.

    `others` are further functions for the solver, such as derivatives, and what stands for them.
    """

    def __init__(self, function: Function, args: object, *others: object) -> None:
        super().__init__(function, more_of(args), *others)
        self.given_others = others
        self._way: tuple[Function, Function]
        self.is_given_active = False

    @classmethod
    def attempt(
        cls,
        function: Function,
        args: object,
        active: object,
        solve: Function,
        derived: Function,
        *others: object,
    ) -> Any:
        """Give what `derived` makes of the result of `solve`, None where another way is needed.

        `active` are the other arguments that may be active. `solve(self)` runs outside of the
        recording, and `derived(self, result)` in it.
        """
        if not is_one_gradient() or not callable(function):
            return None
        made = cls(function, args, *others)
        made.is_given_active = contains_active((args, active))
        if not made.captures and not made.is_given_active:
            # What is known to reach nothing active needs no more.
            return made.run(lambda: solve(made), lambda x: x) if made.is_formula else None
        return made._solved(solve, derived)

    def _solved(self, solve: Function, derived: Function) -> Any:
        self._way = solve, derived
        return self.run(lambda: solve(self), lambda result: derived(self, result))

    def _again(self) -> Any:
        """Do the same with what is read now."""
        made = type(self)(self.function, self.args, *self.given_others)
        made.is_given_active = self.is_given_active
        return made._solved(*self._way)

    def other(self, number: int) -> Any:
        """Give one of the other functions as the solver calls it."""
        function = self.others[number]
        if not callable(function):
            return to_numpy_items(function)

        def call(*args: object, **kwargs: object) -> Any:
            try:
                return to_numpy_items(function(*args, **kwargs))
            except Exception as error:
                raise NotPlainError from error

        return call

    def constraints(self, number: int) -> Any:
        """Give one of the others, which are constraints, as the solver reads them."""
        return self._checked_items(self.others[number])

    def _checked_items(self, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(map(self._checked_items, value))
        is_dict = isinstance(value, dict)
        parts = value if is_dict else vars(value)
        new = {
            k: self.checked(v) if callable(v) and k in {"fun", "jac", "hess"} else v
            for k, v in parts.items()
        }
        if is_dict:
            return new
        found = copy.copy(value)
        vars(found).update(new)
        return found

    def constrained(
        self, name: str, problem: Problem, plain: Problem, result: Any, bounds: Any
    ) -> AnyArray:
        """Give a minimum under constraints, with its derivative; `result.x` if that is constant."""
        constant, multipliers = not self.is_given_active, result.get("v")
        found = constrained(name, problem, result.x, bounds, plain, constant, multipliers)
        x: AnyArray = result.x if found is None else found.reshape(np.shape(result.x))
        return x

    def both(self, is_pair: bool = False) -> tuple[Function, Function]:
        """Give the function and its copy, of the vector alone; of a pair they give the first."""

        def of(function: Function, more: Any) -> Function:
            if is_pair:
                return lambda x: function(x, *more)[0]
            return lambda x: function(x, *more)

        return of(self.function, self.args), of(self.plain, self.values)

    def _again_by(self, known: Known | None, is_number: bool) -> Function:
        """Give what does the same with what is read in a replay, by its program where it may."""
        if known is None or not self.is_formula or not _core.is_collecting():
            return self._again
        solve, _ = self._way

        def find(known: Known, take: Take) -> Found:
            taken = take(solve(self._with_key(known.key)))
            if taken is None:
                return None
            leaves, solution = taken
            x: NDArray = np.array([solution]) if is_number else solution
            if x.dtype != np.float64:
                return None
            known.program.prepare((x, *known.key.values))
            move = _moved_by(known, x, is_number)
            return None if move is None else (leaves, move.slopes)

        return SolvedAgain(self._again, known, find)

    def _with_key(self, key: FunctionKey) -> "PlainSolve":
        """Give a function like this one, which has this key."""
        made = object.__new__(type(self))
        vars(made).update(vars(self))
        made.key, (made.plain, made.values) = key, key.plain[:2]
        return made

    def known(
        self, build: Build, x: NDArray, extra: object = None, is_sure: bool = True
    ) -> AnyArray | None:
        """Give where a function is zero, by a program that is known; None where there is none.

        `build(function, args, extra)` gives the function, from a vector to a vector. `is_sure` says
        that no value has led here, but for those that the equation depends on.
        """
        known = self._known(build, x, extra)
        move = known and _moved_by(known, x)
        if move is None:
            return None
        again = self._again_by(known if is_sure else None, is_number=False)
        found: AnyArray = moved(x, move, again=again)
        return found

    def _known(self, build: Build, x: NDArray, extra: object) -> Known | None:
        key: FunctionKey | None = self.key
        given: tuple[object, ...] = self.function, self.args
        if extra is not None:
            given = *given, extra
            key = key and FunctionKey.of(*given)
        if key is None or not key.leaves or x.dtype != np.float64 or not x.size:
            return None
        functions, leaves = (self.function, self.args, extra), key.leaves
        at = x, *key.values

        def make(used: list[int]) -> Function:
            numbers = x.size + sum(leaf.size for leaf in leaves)
            if x.size * numbers > _ROWS:
                raise NotPlainError

            def function(x: AnyArray, *values: AnyArray) -> AnyArray:
                call = build(*with_arrays(functions, leaves, like(leaves, values)))
                y = stacked(call(x)).reshape(-1)
                if y.shape[0] * numbers > _ROWS:
                    raise NotPlainError
                return _core.cast(y, np.float64)

            def once(x: AnyArray, *values: AnyArray) -> Any:
                return with_rows(function, used, x, *values)

            return lambda *v: without_branches(once, *v)

        found = _KNOWN.of(key, (build, x.shape), at, make)
        return Known(given, key, found) if found is not None and found.used else None

    def scalar_root(self, name: str, root: Any, is_pair: bool = False) -> AnyArray:
        """Give the root of one equation in one variable, with its derivative."""
        if isinstance(root, (complex, np.complexfloating)):
            raise NotPlainError
        x = float(root)
        at = np.array([x])
        known = self._known(_number_of_pair if is_pair else _number, at, None)
        move = known and _moved_by(known, at, is_number=True)
        if move is not None:
            again = self._again_by(known, is_number=True)
            found: AnyArray = moved(np.float64(x), move, type(root) is float, again)
            return found
        vector = plain_number(name, *self.both(is_pair), x, not self.is_given_active)
        return root if vector is None else python_number(vector[0], root)

    def root(self, name: str, x: Any, is_pair: bool = False) -> AnyArray:
        """Give the root of a system of equations, with its derivative."""
        at = np.asarray(x)
        if at.dtype.kind == "c":
            raise NotPlainError
        found = self.known(_vector_of_pair if is_pair else _vector, at)
        if found is None:
            is_constant = not self.is_given_active
            found = plain_solution(name, *self.both(is_pair), x, is_constant=is_constant)
        return x if found is None else found

    def minimum(
        self,
        name: str,
        functions: tuple[Function, Function],
        x: NDArray,
        free: NDArray | None = None,
        nearest: bool = False,
        known: tuple[Build, object] | None = None,
    ) -> AnyArray:
        """Give where the gradient of a function is zero, with its derivative.

        `functions` are the function and its copy; variables that are not free stay at their bounds.
        `known` is what builds the slope for a program that is kept, and what else that needs; None
        where there is no such program. Gives `x` itself back where nothing is active.
        """
        whole = at = np.asarray(x, np.float64)
        if known is not None and at.ndim == 1 and (free is None or np.all(free)):
            found = self.known(known[0], at, known[1], is_sure=free is None)
            if found is not None:
                return found
        slopes: list[Function] = [slope_of(name, f) for f in functions]
        if free is None or np.all(free):
            put: Function | None = None
        else:
            index = np.flatnonzero(free)
            if index.size == 0:
                return _core.asarray(whole)
            put = lambda v: _core.index_update(whole, index, v)  # noqa: E731
            slopes = [lambda v, f=f: f(put(v))[index] for f in slopes]
            at = at[index]
        constant = not self.is_given_active
        first, second = slopes
        found = plain_solution(name, first, second, at, nearest, constant)
        if found is None:
            return x
        return found if put is None else put(found)


def _moved_by(known: Known, x: NDArray, is_number: bool = False) -> Move | None:
    """Give how a solution moves; None where its equation has no derivatives, or does not fit."""
    rest, of_x, *of_leaves = known.program.run(x, *known.key.values)
    if rest.size != x.size:
        return None
    return move_of(x, rest, of_x, of_leaves, known.leaves, is_number)


def _vector(function: Function, args: Any, extra: Any) -> Function:
    del extra
    return lambda x: function(x, *args)


def _vector_of_pair(function: Function, args: Any, extra: Any) -> Function:
    del extra
    return lambda x: function(x, *args)[0]


def _number(function: Function, args: Any, extra: Any) -> Function:
    del extra
    return lambda x: function(x[0], *args)


def _number_of_pair(function: Function, args: Any, extra: Any) -> Function:
    del extra
    return lambda x: function(x[0], *args)[0]
