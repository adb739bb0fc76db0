"""A right side of a differential equation, recorded for many points at once.

Problem: the derivative of a solution needs the slopes at all points of a run as a function of what
the right side captures, and their derivatives with respect to the state. A call for each point
records thousands of equations; `vmap` records one call for all points. It cannot where the right
side branches on the time or the state: then each way through it is recorded as a program, for the
points that go that way.
"""

import functools
from typing import Any, NamedTuple

import numpy as np

from cotan import _core
from cotan._src.kit.known_programs import (
    KnownPrograms,
    like,
    replayed,
    with_rows,
    without_branches,
)
from cotan._src.runtime.by_example import refuses_mapping
from cotan._src.runtime.values import to_numpy
from cotan._src.scipy.integrate.repeated_steps import slope_of
from cotan._src.scipy.integrate.state_jacobians import (
    FEWEST_EQUATIONS,
    Jacobians,
    Kept,
    Products,
    expect_few,
    products_for,
    products_of,
    whole_rows,
)
from cotan._src.scipy.integrate.state_products import (
    ProductPrograms,
    StateProducts,
    product_programs,
)
from cotan._src.state.plain_copy import (
    NotPlainError,
    PlainCallback,
    arrays_of,
    with_arrays,
)
from cotan._src.typing import AnyArray, Args, Function, NDArray

# Of a right side with more ways through it the points are recorded one by one.
_WAYS = 32
# Of a right side with more ways than this most points would be recorded by `_each`.
_RECORDED = 8

# Of more numbers in the derivatives of a slope those of the leaves are left to cotangents.
_NUMBERS = 512
# Of so many numbers in leaves derivatives are formed; of more, slopes are recorded.
_LEAVES = 64
# Programs are made for a power of two of points, that at least.
_POINTS = 32

_FLOAT = np.dtype(np.float64)
_KNOWN = KnownPrograms()
_PRODUCTS: Kept[Products | None] = Kept()
_PRODUCT_PROGRAMS: Kept[ProductPrograms | None] = Kept()


class Derivatives(NamedTuple):
    """Slopes at points, and what they change with."""

    slopes: NDArray
    of_states: Jacobians
    #: With respect to the numbers in `leaves`, one after the other; None where these are many.
    of_leaves: NDArray | None
    leaves: list[AnyArray]
    #: The slopes as they depend on the leaves, where these are many.
    recorded: AnyArray | None = None


class ProductsAt(NamedTuple):
    """Products with the derivatives of a right side."""

    programs: ProductPrograms
    leaves: list[Any]

    def points(self, times: NDArray, states: NDArray) -> StateProducts:
        """Give those at points."""
        return self.programs.at(times, states, tuple(self.leaves))


class _Way(NamedTuple):
    """A way through the right side."""

    #: The numbers of the points that go this way.
    points: NDArray
    #: From the time, the state and the captured arrays to the slope.
    program: _core.Program


class RightSide(PlainCallback):
    """A right side of a differential equation, with its plain copy."""

    def __init__(
        self,
        function: Function,
        args: Args,
        jac: Any = None,
        state_first: bool = False,
        events: Args = (),
    ) -> None:
        super().__init__(function, args, jac, *events)
        #: As the solver calls it, too.
        self.jac: Any = self.others[0]
        self.events: list[Any] = self.others[1:]
        self._given = function
        self._order = _swapped if state_first else _same
        # Whether it can be called for many points at once, as far as is known.
        self._is_batched = True
        self._ways: tuple[NDArray, list[_Way]] | None = None
        self._leaves: list[AnyArray] = []
        #: The copy as the solver calls it.
        self.direct = self.plain
        self.function, self.plain = self._order(function), self._order(self.plain)

    def known(self, times: NDArray, states: NDArray) -> Derivatives | None:
        """Give slopes and all derivatives by a program that is known; None where there is none."""
        count, n = states.shape
        key = self.key
        if n >= FEWEST_EQUATIONS or key is None:
            return None
        num_leaves = sum(x.size for x in key.leaves)
        is_recorded = num_leaves > _LEAVES
        if n * (n + (0 if is_recorded else num_leaves)) > _NUMBERS:
            return None
        size = max(_POINTS, 1 << (count - 1).bit_length())
        # Points are added that are there already.
        index = np.minimum(np.arange(size), count - 1)
        given = times[index], states[index], *key.values
        known = _KNOWN.of(
            key, (size, n, self._order), given, lambda used: self._with_rows(key, used, is_recorded)
        )
        if known is None:
            return None
        slopes, of_states, *rest = (a[:count] for a in known.run(*given))
        if is_recorded:
            if not np.isfinite(of_states).all():
                return None
            recorded = known.value(*given[:2], *key.leaves)[:count]
            jacobians = Jacobians(n, of_states, None)
            return Derivatives(slopes, jacobians, None, [*key.leaves], recorded)
        of_leaves = [a.reshape(count, n, -1) for a in rest]
        joined = np.concatenate(of_leaves, 2) if of_leaves else np.zeros((count, n, 0))
        if not (np.isfinite(of_states).all() and np.isfinite(joined).all()):
            # Their products with what does not change would be no numbers.
            return None
        jacobians = Jacobians(n, of_states, None)
        return Derivatives(slopes, jacobians, joined, [key.leaves[i] for i in known.used])

    def _with_rows(self, key: _core.FunctionKey, used: list[int], of_states_only: bool) -> Function:
        """Give a function of times, states and leaves to slopes and derivatives."""
        side = self._of_leaves(key)

        def of_point(t: Any, y: AnyArray, *values: AnyArray) -> Any:
            if of_states_only:
                return with_rows(lambda y: side(t, y, *values), used, y)
            return with_rows(lambda y, *v: side(t, y, *v), used, y, *values)

        def of_all(times: AnyArray, states: AnyArray, *values: AnyArray) -> Any:
            def once(*v: AnyArray) -> Any:
                at_point = lambda t, y: of_point(t, y, *v)  # noqa: E731
                return _core.call_vmap(at_point, (times, states), [True, True], ["t", "y"])

            return without_branches(once, *values)

        return of_all

    def slopes(self, times: NDArray, states: AnyArray) -> AnyArray:
        """Give the slopes at points as they depend on everything."""
        slope = slope_of(self.function, self.args, _FLOAT)
        if self._is_batched:
            try:
                found: AnyArray = _batched(slope, times, states)
            except NotPlainError:
                self._is_batched = False
            else:
                return found
        ways = self._ways_of(times, states)
        if ways is None:
            each: AnyArray
            each = np.stack([slope(float(t), states[i]) for i, t in enumerate(times)])
            return each
        parts = []
        for way in ways:
            at = way.points
            side = lambda t, y, w=way: w.program(t, y, *self._leaves)  # noqa: E731
            parts.append(_batched(side, times[at], states[at]))
        return _joined(parts, ways)

    def products(self, times: NDArray, states: NDArray) -> Products:
        """Give by which products the derivatives with respect to the state are found at points."""
        n = states.shape[1]
        if not self._is_batched or n < FEWEST_EQUATIONS:
            return whole_rows(n)
        found = None
        side, leaves, key = self._of_values()
        at = times[0], states[0], *leaves
        if key is not None:
            name = key.key, n, self._order
            found = _PRODUCTS.of(name, key.kept, lambda: products_for(side, at))
        if found is None:
            # It may read what it captures.
            found = products_for(self._plain_slope(), at[:2])
        return whole_rows(n) if found is None else found

    def product_programs(self, points: int, t: Any, y: NDArray) -> "ProductsAt | None":
        """Give what gives products at so many points at once; None where it reads values."""
        if not self._is_batched or len(y) < FEWEST_EQUATIONS:
            return None
        side, leaves, key = self._of_values()
        made = None
        if key is not None:
            name = key.key, len(y), self._order, points
            made = _PRODUCT_PROGRAMS.of(
                name, key.kept, lambda: product_programs(side, points, (t, y, *leaves))
            )
        if made is None:
            leaves = []
            made = product_programs(self._plain_slope(), points, (t, y))
        return None if made is None else ProductsAt(made, leaves)

    def plain_slopes(self, times: NDArray, states: NDArray) -> NDArray:
        """Give the slopes at points."""
        found = to_numpy(_batched(self._plain_slope(), times, states))
        return np.broadcast_to(found, states.shape)

    def plain_slope(self, t: float, y: NDArray) -> NDArray:
        """Give the slope at a point."""
        found: NDArray = to_numpy(self._plain_slope()(t, y))
        return found

    def _plain_slope(self) -> Function:
        return slope_of(self.plain, self.values, _FLOAT)

    def _of_values(self) -> tuple[Function, list[Any], "_core.FunctionKey | None"]:
        """Give the right side as a function of time, state and leaves, and what these are."""
        key = self.key
        if key is None:
            return self._plain_slope(), [], None
        return self._of_leaves(key), list(key.values), key

    def _of_leaves(self, key: _core.FunctionKey) -> Function:
        """Give the right side as a function of time, state and leaves."""
        given, order, leaves = (self._given, self.args), self._order, key.leaves

        def side(t: Any, y: AnyArray, *values: AnyArray) -> AnyArray:
            function, args = with_arrays(given, leaves, like(leaves, values))
            return slope_of(order(function), args, _FLOAT)(t, y)

        return side

    def derivatives(
        self, times: NDArray, states: NDArray, products: Products
    ) -> tuple[NDArray, Jacobians]:
        """Give slopes at points, and their derivatives with respect to the state."""
        n = states.shape[1]
        plain = self._plain_slope()
        if self._is_batched:
            both = functools.partial(products_of, plain, products.rows)
            try:
                k, found = _batched(both, times, states)
            except NotPlainError:
                # It looks at the time or the state.
                self._is_batched = False
                expect_few(len(times) * n * n)
            else:
                shape = len(times), *products.rows.shape
                return to_numpy(k), products.entries(np.broadcast_to(to_numpy(found), shape))
        rows = np.eye(n)
        ways = self._ways_of(times, states)
        if ways is None:
            both = functools.partial(products_of, plain, rows)
            pairs = _core.call_outside(lambda: _each(both, times, states))
            whole = np.stack([found for _, found in pairs])
            return np.stack([k for k, _ in pairs]), Jacobians(n, whole, None)
        slopes, derivatives = np.zeros((len(times), n)), np.zeros((len(times), n, n))
        leaves = [to_numpy(leaf) for leaf in self._leaves]
        for way in ways:
            at = way.points
            side = lambda t, y, w=way: w.program(t, y, *leaves)  # noqa: E731
            both = functools.partial(products_of, side, rows)
            k, found = _batched(both, times[at], states[at])
            slopes[at], derivatives[at] = to_numpy(k), to_numpy(found)
        return slopes, Jacobians(n, derivatives, None)

    def _ways_of(self, times: NDArray, states: AnyArray) -> list[_Way] | None:
        """Divide points by their ways through the right side; None if there are too many ways.

        None, too, where it reads values that a program would not see.
        """
        values = to_numpy(states)
        places = np.column_stack([times, values])
        if self._ways is None or not np.array_equal(self._ways[0], places):
            self._ways = places, _core.call_outside(lambda: self._divided(times, values))
        return self._ways[1] or None

    def _divided(self, times: NDArray, states: NDArray) -> list[_Way]:
        given, order = (self._given, self.args), self._order
        self._leaves = leaves = arrays_of(given)
        values = [np.asarray(to_numpy(leaf)) for leaf in leaves]

        def side(t: Any, y: AnyArray, *leaves_of: AnyArray) -> AnyArray:
            function, args = with_arrays(given, leaves, leaves_of)
            return slope_of(order(function), args, _FLOAT)(t, y)

        counter = _Counter()

        def numbered(t: Any, y: AnyArray, *leaves_of: AnyArray) -> tuple[AnyArray, float]:
            return side(t, y, *leaves_of), counter.next()

        # Each recording of it has a number of its own, which a replay gives.
        prepared = replayed(numbered)
        numbers = np.zeros(len(times))
        try:
            for i, t in enumerate(times):
                _, numbers[i] = prepared(*[float(t), states[i].copy(), *values])
                if prepared.num_recordings > _WAYS:
                    return []
            ways = []
            for number in np.unique(numbers):
                points = np.flatnonzero(numbers == number)
                at = np.asarray(times[points[0]]), states[points[0]].copy(), *values
                ways.append(_Way(points, _core.record(side, at, {})[0]))
        except TypeError:
            # It reads values that a replay would not see.
            return []
        return ways


class _Counter:
    """Counts how often it is asked."""

    def __init__(self) -> None:
        self._count = 0

    def next(self) -> float:
        self._count += 1
        return float(self._count)


def _joined(parts: list[AnyArray], ways: list[_Way]) -> AnyArray:
    """Put what belongs to points of several ways in the order of the points."""
    order = np.argsort(np.concatenate([way.points for way in ways]))
    joined: AnyArray = np.concatenate(parts)[order]
    return joined


def _each(function: Function, times: NDArray, states: NDArray) -> list[tuple[NDArray, NDArray]]:
    """Call a function for one point after the other, prepared where that helps."""
    prepared: _core.Prepared[Any, Any] | None = replayed(function)
    found = []
    for i, (t, state) in enumerate(zip(times, states, strict=True)):
        pair, y = None, state.copy()
        if prepared is not None:
            try:
                pair = prepared(float(t), y)
            except TypeError:
                # It reads values that a replay would not see.
                prepared = None
            else:
                if prepared.num_recordings > _RECORDED + i // 4:
                    prepared = None
        k, rows = function(float(t), y) if pair is None else pair
        found.append((to_numpy(k), to_numpy(rows)))
    return found


def _same(function: Any) -> Any:
    return function


def _swapped(function: Any) -> Any:
    """Give a function of time and state for one of state and time."""
    return lambda t, y, *more: function(y, t, *more)


def _batched(function: Function, times: NDArray, states: AnyArray) -> Any:
    """Call a function of time and state for many points at once.

    Raises `NotPlainError` where it looks at values, and so works for one point at a time only.
    """
    try:
        return _core.call_vmap(function, (times, states), [True, True], ["t", "y"])
    except Exception as error:
        if refuses_mapping(error):
            raise NotPlainError from error
        raise
