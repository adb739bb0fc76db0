"""Checks derivatives against differences: `check_grads`.

Problem: a wrong custom rule gives wrong derivatives, and no error. Derivatives in random
directions are compared with central differences, and for a higher order, the derivatives of these
derivatives are.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from cotan import _core
from cotan._src.tree.argument_refusal import expect_function
from cotan._src.tree.structure import without_constants
from cotan._src.typing import Dtype, Function, NDArray

#: Arrays and numbers by their paths: leaves of the arguments, or of a result.
_Leaves: TypeAlias = dict[str, Any]

_MODES = ("fwd", "rev")


class _Map(NamedTuple):
    """A function of leaves that gives leaves."""

    call: Callable[[_Leaves], _Leaves]
    of: str
    """What it computes, for messages: nothing for the user's function."""
    rounding: float
    """Of what it computes with inside, as far as that is known from what it is made of."""


class _Check(NamedTuple):
    """What holds for the whole check."""

    modes: tuple[str, ...]
    atol: float | None
    rtol: float | None
    eps: float | None
    rng: "np.random.Generator"


def check_grads(
    f: Function,
    args: Sequence[object],
    order: int = 2,
    modes: Iterable[str] = _MODES,
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
    seed: int = 0,
) -> None:
    """Compare derivatives of a function with central differences, in random directions.

    Parameters
    ----------
    f
        The function. It returns any structure of arrays and numbers.
    args
        Its arguments, in a list or tuple; each may be any structure. What is no float or complex
        array or number in them, and what `ct.const` holds constant, stays as it is.
    order
        Up to which order: 2 checks the derivatives of the first derivatives as well, both in the
        arguments and in the tangents or cotangents.
    modes
        `"rev"` checks pullbacks, `"fwd"` pushforwards; of a higher order, each of those of the
        other, too.
    atol, rtol
        Tolerances. Without them they follow from the dtype: 1e-5 in double precision, 5e-3 in
        single and 0.1 in half precision.
    eps
        The step of the differences. Without it, one that suits values of about 1 and the dtype that
        the function computes in. Differences are computed at float64 arguments, whatever the dtype
        of `args`.
    seed
        Of the random directions, which are the same in every call.

    Raises
    ------
    AssertionError
        When a derivative is wrong. The message names the leaf and both numbers.
    ValueError
        When nothing can be differentiated, or `modes` or `order` is wrong.
    NotDifferentiableError
        When something has no derivative of this kind: an opaque rule has none in forward mode, and
        none of second order (`order=1, modes="rev"`).

    Notes
    -----
    As `jax.test_util.check_grads`. Each direction moves one leaf, so the leaf with a wrong
    derivative is named. At a kink the differences are wrong, not the derivative: choose another
    point.

    >>> import cotan as ct
    >>> import numpy as np
    >>> ct.check_grads(lambda x, y: np.sin(x) * y, (np.array([0.5, 1.0]), 2.0))
    >>> @ct.adjoint
    ... def square(x):
    ...     return x**2, lambda dy: (x * dy,)  # the factor 2 is missing
    >>> try:
    ...     ct.check_grads(square, (3.0,))
    ... except AssertionError as error:
    ...     print(error)
    check_grads: the pullback is wrong for args[0]: it gives -1.845..., differences give -3.690...
    """
    expect_function("check_grads", "f", f)
    modes = (modes,) if isinstance(modes, str) else tuple(modes)
    if not modes or not {*modes} <= {*_MODES}:
        raise ValueError(f"check_grads: modes are {' and '.join(map(repr, _MODES))}, not {modes}")
    if order < 1:
        raise ValueError(f"check_grads: order must be 1 or more, not {order}")
    if not isinstance(args, (tuple, list)):
        raise TypeError(
            "check_grads: the arguments must be in a list or tuple, as in check_grads(f, (x,)); "
            f"not {type(args).__name__}"
        )
    args = tuple(float(a) if type(a) is int else a for a in args)
    parts = _core.structure(args, declared=True, root="args")
    bare = _core.structure(without_constants(args))
    wanted = [i for i, able in enumerate(parts.trainable) if able]
    if not wanted:
        raise ValueError("check_grads: the arguments have no float or complex number or array")

    def call(leaves: _Leaves) -> _Leaves:
        filled = list(bare.leaves)
        for i, leaf in zip(wanted, leaves.values(), strict=True):
            filled[i] = leaf if isinstance(bare.leaves[i], (np.ndarray, _core.Array)) else leaf[()]
        return _numbers_in(f(*bare.build(filled)))

    start = {parts.paths[i]: np.asarray(_core.value(parts.leaves[i])) for i in wanted}
    check = _Check(modes, atol, rtol, eps, np.random.default_rng(seed))
    _check(_Map(call, "", 0.0), start, order, check)


def _numbers_in(result: object) -> _Leaves:
    """Give what can carry a derivative in a result, by path."""
    parts = _core.structure(result, root="result")
    pairs = zip(parts.paths, parts.leaves, strict=True)
    return {path: leaf for path, leaf in pairs if _dtype(leaf).kind in "fc"}


def _dtype(leaf: Any) -> Dtype:
    dtype: Dtype = leaf.dtype if hasattr(leaf, "dtype") else np.asarray(leaf).dtype
    return dtype


def _check(f: _Map, start: _Leaves, order: int, check: _Check) -> None:
    """Check a function at a point, and then what gives its derivatives."""
    results = f.call(start)
    if not results:
        raise ValueError("check_grads: the function returns no float or complex number or array")
    weights = {path: _direction(check.rng, y) for path, y in results.items()}
    directions = {path: _direction(check.rng, x) for path, x in start.items()}
    point = {path: _double(x) for path, x in start.items()}
    rounding = max(f.rounding, *(float(np.finfo(_dtype(y)).eps) for y in f.call(point).values()))
    # Truncation and rounding errors of central differences are equal there.
    eps = rounding ** (1 / 3) if check.eps is None else check.eps
    slopes = {path: _slope(f, point, path, eps * directions[path], eps) for path in start}
    if "rev" in check.modes:
        _check_pullback(f, start, (weights, directions), slopes, rounding, check)
    if "fwd" in check.modes:
        _check_pushforward(f, start, directions, slopes, rounding, check)
    if order > 1 and "fwd" in check.modes:
        pushed = _Map(
            lambda leaves: _pushed(f, leaves, directions), f"{f.of} of the pushforward", rounding
        )
        _check(pushed, start, order - 1, check)
    if order > 1 and "rev" in check.modes:
        pulled = _Map(
            lambda leaves: _pulled(f, leaves, weights), f"{f.of} of the pullback", rounding
        )
        _check(pulled, start, order - 1, check)
    if order > 1:
        _check_linear(f, start, weights, directions, rounding, check)


def _check_linear(
    f: _Map,
    start: _Leaves,
    weights: _Leaves,
    directions: _Leaves,
    rounding: float,
    check: _Check,
) -> None:
    """Check the derivatives of pullbacks and pushforwards in what they are applied to.

    They are linear, so their derivative in a direction is what they give for that direction, and no
    differences are needed. The derivative of a composition takes this way: what the pullback of `f`
    is applied to depends on the argument where something nonlinear follows `f`.
    """
    # Not from the stream of the other directions, which are the same for any order.
    (rng,) = check.rng.spawn(1)
    inner = check._replace(rng=rng)

    def check_map(call: Callable[[_Leaves], _Leaves], of: str, word: str, at: _Leaves) -> None:
        names = {f"the {word} of {path}": path for path in at}
        linear = _Map(
            lambda leaves: call({path: leaves[name] for name, path in names.items()}),
            f"{f.of} of the {of}",
            rounding,
        )
        point = {name: at[path] for name, path in names.items()}
        along = {name: _direction(rng, x) for name, x in point.items()}
        zeros = {name: np.zeros_like(x) for name, x in point.items()}
        slopes = {
            name: {k: _double(y) for k, y in linear.call({**zeros, name: d}).items()}
            for name, d in along.items()
        }
        if "rev" in inner.modes:
            ends = {path: _direction(rng, y) for path, y in linear.call(point).items()}
            _check_pullback(linear, point, (ends, along), slopes, rounding, inner)
        if "fwd" in inner.modes:
            _check_pushforward(linear, point, along, slopes, rounding, inner)

    if "rev" in inner.modes:
        check_map(lambda w: _pulled(f, start, w), "pullback", "cotangent", weights)
    if "fwd" in inner.modes:
        check_map(lambda t: _pushed(f, start, t), "pushforward", "tangent", directions)


def _direction(rng: "np.random.Generator", leaf: Any) -> NDArray:
    """Give random numbers for a leaf. None is near 0, which would hide a fault."""

    def draw() -> NDArray:
        sizes = rng.uniform(0.5, 1.5, np.shape(leaf))
        return np.asarray(sizes * rng.choice([-1.0, 1.0], np.shape(leaf)))

    dtype = _dtype(leaf)
    return np.asarray(draw() + 1j * draw() if dtype.kind == "c" else draw()).astype(dtype)


def _double(x: Any) -> NDArray:
    """Give an array in double precision."""
    return np.asarray(x, complex if _dtype(x).kind == "c" else float)


def _slope(f: _Map, point: _Leaves, path: str, step: NDArray, eps: float) -> _Leaves:
    """Give central differences of the results when one leaf moves."""
    ahead = f.call({**point, path: point[path] + step})
    behind = f.call({**point, path: point[path] - step})
    return {k: (_double(y) - _double(behind[k])) / (2 * eps) for k, y in ahead.items()}


def _check_pullback(
    f: _Map,
    start: _Leaves,
    along: tuple[_Leaves, _Leaves],
    slopes: dict[str, _Leaves],
    rounding: float,
    check: _Check,
) -> None:
    weights, directions = along
    cotangents = _pulled(f, start, weights)
    for path, direction in directions.items():
        found = float(np.vdot(_double(cotangents[path]), _double(direction)).real)
        products = [np.conj(_double(w)) * slopes[path][k] for k, w in weights.items()]
        wanted = sum(float(np.sum(p.real)) for p in products)
        # Sums cancel: what counts is the size of what was added.
        size = np.sqrt(sum(float(np.sum(p.real**2)) for p in products))
        coarse = max(rounding, *(np.finfo(_dtype(x)).eps for x in (direction, *weights.values())))
        what = f"the pullback{f.of} is wrong for {path}"
        _compare(what, found, wanted, float(size), _usual_tolerance(coarse), check)


def _check_pushforward(
    f: _Map,
    start: _Leaves,
    directions: _Leaves,
    slopes: dict[str, _Leaves],
    rounding: float,
    check: _Check,
) -> None:
    for path, direction in directions.items():
        still = {k: d if k == path else np.zeros_like(d) for k, d in directions.items()}
        for k, tangent in _pushed(f, start, still).items():
            found, wanted = _double(tangent), slopes[path][k]
            if not found.size:
                continue
            # What is not a number is worst.
            gaps = np.nan_to_num(np.abs(found - wanted), nan=np.inf)
            at = np.unravel_index(np.argmax(gaps), gaps.shape)
            coarse = max(rounding, *(np.finfo(_dtype(x)).eps for x in (direction, tangent)))
            what = f"the pushforward{f.of} is wrong for {path}, in {k}"
            if at:
                what += f" at {tuple(map(int, at))}"
            size = float(np.sqrt(np.mean(np.abs(wanted) ** 2)))
            _compare(what, found[at], wanted[at], size, _usual_tolerance(coarse), check)


def _usual_tolerance(rounding: float) -> float:
    """Give the tolerance for numbers that were rounded so: those of `jax.test_util`."""
    return 1e-5 if rounding < 1e-10 else 5e-3 if rounding < 1e-5 else 1e-1


def _compare(
    what: str, found: complex, wanted: complex, size: float, usual: float, check: _Check
) -> None:
    atol = usual if check.atol is None else check.atol
    rtol = usual if check.rtol is None else check.rtol
    # What is not a number is wrong, too.
    if not abs(found - wanted) <= atol + rtol * max(abs(wanted), size):
        raise AssertionError(
            f"check_grads: {what}: it gives {found:.8g}, differences give {wanted:.8g}"
        )


def _pulled(f: _Map, leaves: _Leaves, weights: _Leaves) -> _Leaves:
    """Give the cotangents of leaves: zeros where one has no influence."""
    y, back = _core.pullback(f.call, leaves)
    (cotangents,) = back({k: w.astype(_dtype(y[k])) for k, w in weights.items()})
    found = cotangents or {}
    return {
        path: _core.mul(_core.dropgrad(_core.asarray(x)), 0) if found.get(path) is None
        else found[path]
        for path, x in leaves.items()
    }  # fmt: skip


def _pushed(f: _Map, leaves: _Leaves, tangents: _Leaves) -> _Leaves:
    """Give the tangents of results: zeros where nothing has influence."""
    cast = {k: t.astype(_dtype(leaves[k])) for k, t in tangents.items()}
    y, found = _core.jvp(f.call, (leaves,), (cast,))
    return {
        path: _core.mul(_core.dropgrad(_core.asarray(value)), 0) if found.get(path) is None
        else found[path]
        for path, value in y.items()
    }  # fmt: skip
