"""The user's functions as SciPy's solvers call them: of a vector, with exact derivatives.

Problem: a solver calls its objective hundreds of times. So what gives the derivatives is prepared
once, where that is possible, and run as it is where it is not. A function that is recorded and
then refused has run once more than the user sees; what it wrote is taken back.
"""

from operator import is_
from typing import Any

import numpy as np

from cotan import _core
from cotan._src.api.jacobian import jacobian
from cotan._src.api.prepare import prepare
from cotan._src.api.second_order import hessian, hvp
from cotan._src.kit.repeated_call import refused_repeats
from cotan._src.optimize.unknowns import Unknowns, result_vector
from cotan._src.runtime.values import to_numpy
from cotan._src.state.snapshot import StateSnapshot
from cotan._src.typing import AnyArray, Args, Function, NDArray

# Recordings that are made before the number of calls matters.
_FEW = 5


def is_recording() -> bool:
    """Say whether the running code is differentiated, traced or prepared itself."""
    return _core.isderiving() or _core.is_preparing() or _core.is_tracing()


class Replayed:
    """A function of a vector and further arguments that is prepared, if it can be.

    `how` says in a sentence whether it was; it is empty before the first call.
    """

    def __init__(self, function: Function, transform: str, user: Function) -> None:
        self._plain = function if transform == "value" else _TRANSFORMS[transform](function)
        self._prepared: _core.Prepared[..., Any] | None = None
        self._user = user
        self._calls = 0
        self.how = ""
        if is_recording():
            self.how = "not prepared: the solver is called in a function that is recorded itself"
        else:
            wrt = None if transform == "value" else 0
            self._prepared = prepare(function, transform=transform, wrt=wrt)

    @property
    def is_prepared(self) -> bool:
        """Say whether it is prepared, as far as is known."""
        return self._prepared is not None

    def __call__(self, vector: AnyArray, *args: object) -> Any:
        found = self.attempt(vector, *args)
        # An error of the user's is raised again here.
        return self._plain(vector, *args) if found is None else found

    def attempt(self, vector: AnyArray, *args: object) -> Any:
        """Give what it gives if it is prepared, or can be; None where it is not."""
        prepared = self._prepared
        if prepared is None:
            return None
        self._calls += 1
        before = StateSnapshot(self._user, args) if self._calls == 1 else None
        try:
            # A replay would call a solver inside the function twice for a gradient, and once more
            # per row for a Jacobian: the fit of an ODE to 62 numbers took eight times as long as
            # with a recording for each Jacobian.
            with refused_repeats():
                result = prepared(vector, *args)
        except TypeError as error:
            self.how = f"not prepared: {error}"
        else:
            self._note(prepared.num_recordings)
            return result
        if before is not None:
            before.restore()
        self._prepared = None
        return None

    def _note(self, num_recordings: int) -> None:
        """Note how often it was recorded, and give preparing up if that is no gain."""
        self.how = f"prepared: {self._calls} calls, of which {num_recordings} were recorded"
        if num_recordings > _FEW + self._calls // 4:
            self.how = (
                f"no longer prepared: {num_recordings} of {self._calls} calls took another way "
                "through the function, so each was recorded anew"
            )
            self._prepared = None


_TRANSFORMS: dict[str, Function] = {
    "value_and_gradient": lambda f: lambda *args: _core.value_and_gradient(f, *args, wrt=0),
}


class Objective:
    """A function that is to be minimised, of vectors: value, gradient, Hessian."""

    def __init__(self, operation: str, function: Function, unknowns: Unknowns) -> None:
        def of_vector(vector: AnyArray, *args: object) -> Any:
            value = function(unknowns.argument(vector), *args)
            shape = np.shape(value)
            if shape and np.size(value) != 1:
                raise ValueError(
                    f"{operation}: the function must return a number, not an array of shape {shape}"
                )
            return np.reshape(value, ()) if shape else value

        self.value = of_vector
        self._last: tuple[Any, Any, Any] = None, None, None
        self._both = Replayed(of_vector, "value_and_gradient", function)
        self._product = Replayed(
            lambda x, v, *args: hvp(lambda x: of_vector(x, *args), x, v), "value", function
        )

    @property
    def how(self) -> str:
        """Say how the derivatives were computed."""
        return self._both.how or "no gradients were computed"

    def value_and_gradient(self, vector: AnyArray, *args: object) -> tuple[Any, Any]:
        """Give value and gradient, as SciPy takes them with `jac=True`."""
        value, gradients = self._both(vector, *args)
        # Nothing depends on a vector with the gradient None.
        slope = np.zeros(np.shape(vector)) if gradients[0] is None else gradients[0]
        self._last = np.array(vector), value, slope
        return value, slope

    def recall(self, vector: NDArray) -> tuple[Any, Any]:
        """Give value and gradient, if this is where they were computed last."""
        place, value, slope = self._last
        return (value, slope) if np.array_equal(place, vector) else (None, None)

    def product(self, vector: AnyArray, direction: NDArray, *args: object) -> NDArray:
        """Give the product of the Hessian with a vector."""
        found: NDArray = self._product(vector, np.asarray(direction, float), *args)
        return found

    def hessian(self, vector: AnyArray, *args: object) -> NDArray:
        """Give the Hessian."""
        found: NDArray = hessian(lambda x: self.value(x, *args), vector)
        return found


class _Columns:
    """Values of a function of a vector, and its Jacobian, which is computed when asked for."""

    def __init__(self, function: Function, vector: AnyArray) -> None:
        self._size = np.shape(vector)[0]
        values, self._push = _core.linearize(function, vector)
        self.values = to_numpy(values)

    def matrix(self) -> NDArray:
        """Give the Jacobian, by as many tangents as there are variables."""
        rows = _core.call_vmap(self._push, (np.eye(self._size),), [True], ["tangent"])
        found: NDArray = np.array(to_numpy(rows)).T
        return found


class Equations:
    """A function with several results, of vectors: values and Jacobian.

    `size` is how many results there must be, if that is known.
    """

    def __init__(
        self, operation: str, function: Function, unknowns: Unknowns, size: int | None = None
    ) -> None:
        self._operation, self._unknowns = operation, unknowns
        self._undo: Function = np.asarray
        # The last point at which values were asked for, with what gives the derivatives there.
        self._last: tuple[NDArray, Args, _Columns | None] | None = None
        # The Jacobian at the start, where it was found before the values.
        self._first: tuple[NDArray, Args, NDArray] | None = None
        self._wants_both = False
        # How many runs with derivatives led to a Jacobian, and how many did not.
        self._used = self._unused = 0
        self._is_first = True

        def of_vector(vector: AnyArray, *args: object) -> Any:
            result = function(unknowns.argument(vector), *args)
            numbers, undo = result_vector(operation, result)
            self._undo = undo
            if size is not None and numbers.shape != (size,):
                raise ValueError(
                    f"{operation}: x0 has {size} numbers and the function returned "
                    f"{numbers.shape[0]}; there must be as many equations as unknowns"
                )
            return numbers

        self._of_vector = of_vector
        self._jacobian = Replayed(
            lambda vector, *args: jacobian(lambda x: of_vector(x, *args), vector),
            "value",
            function,
        )

    @property
    def how(self) -> str:
        """Say how the derivatives were computed."""
        return self._jacobian.how or "no Jacobians were computed"

    def values(self, vector: AnyArray, *args: object) -> Any:
        """Give the vector of results."""
        if self._jacobian.is_prepared or is_recording():
            return self._of_vector(vector, *args)
        # A simulation is run once for values and derivatives where most values lead to these: to
        # record a run takes less than to repeat it.
        columns = None
        if self._wants_both and self._unused <= self._used + 1:
            self._unused += 1
            columns = _Columns(lambda x: self._of_vector(x, *args), vector)
        self._last = np.array(vector), args, columns
        return self._of_vector(vector, *args) if columns is None else columns.values

    def values_of_fit(self, vector: AnyArray, *args: object) -> Any:
        """Give the same; raise `ValueError` if the first results are not finite."""
        if self._is_first and self._jacobian.is_prepared:
            # The Jacobian is asked for here, too: a function that cannot be prepared runs for both.
            matrix = self._jacobian.attempt(vector, *args)
            self._wants_both = matrix is None
            self._first = None if matrix is None else (np.array(vector), args, matrix)
        found = self.values(vector, *args)
        if self._is_first and not is_recording():
            self._is_first = False
            wrong = np.flatnonzero(~np.isfinite(np.asarray(found)))
            if wrong.size:
                i = wrong[0]
                raise ValueError(
                    f"{self._operation}: {len(wrong)} of {len(found)} numbers that the function "
                    f"returned at {self._unknowns.name} are not finite, the first is number {i}: "
                    f"{found[i]}; start elsewhere, or keep the search inside of bounds"
                )
        return found

    def jacobian(self, vector: AnyArray, *args: object) -> Any:
        """Give the matrix of derivatives, a row for each result."""
        if self._first is not None:
            place, more, matrix = self._first
            self._first = None
            if np.array_equal(place, vector) and all(map(is_, more, args)):
                return matrix
        is_first, is_there = self._last is None, False
        if self._last is not None:
            place, more, columns = self._last
            is_there = np.array_equal(place, vector) and all(map(is_, more, args))
            if is_there and columns is not None:
                self._last = None
                self._used, self._unused = self._used + 1, self._unused - 1
                return columns.matrix()
        found = self._jacobian(vector, *args)
        # Tangents of the variables cost less than cotangents of the results, if they are fewer.
        if (is_there or is_first) and found.shape[0] >= found.shape[1]:
            self._wants_both = True
        return found

    def structure(self, values: NDArray) -> Any:
        """Give values as the function returned them."""
        return self._undo(values)
