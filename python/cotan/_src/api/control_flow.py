"""Structured control flow: `cond`, `while_loop`, `fori_loop` and `scan`, with the meaning of JAX's.

Plain Python branches and loops do the same. These are for code that comes from JAX, for what a loop
stacks or checkpoints, and for branches inside `vmap`. A loop runs in Python and is recorded step by
step, unless its caller says that it may be `rolled`: one equation (`api.loop_equation`).
"""

import math
import operator
from collections.abc import Callable
from numbers import Number
from typing import Any, TypeVar

import numpy as np

from cotan import _core
from cotan._src.api.carry import Outline, expect_same, outline, settled, with_arrays
from cotan._src.api.checkpoint import budget_bytes
from cotan._src.api.checkpoint import checkpoint as checkpointed
from cotan._src.api.loop_equation import recorded_loop, recorded_while
from cotan._src.tree.argument_refusal import expect_function
from cotan._src.tree.tangent import leaves_of, map_leaves
from cotan._src.typing import AnyArray, R, Scalar

_Carry = TypeVar("_Carry")
_Step = Callable[[Any, Any], tuple[Any, Any]]


def cond(
    pred: AnyArray | Scalar,
    true_fn: Callable[..., R],
    false_fn: Callable[..., R],
    *operands: object,
) -> R:
    """Call one of two functions.

    Parameters
    ----------
    pred
        A scalar: a bool, or a number, which counts as true unless it is 0.
    true_fn, false_fn
        Functions of `operands`.
    operands
        Their arguments: any structures.

    Returns
    -------
    What the function returns. Only that one is called, so the results of the two are not compared.
    Inside `vmap`, where `pred` may differ between examples, both are called, and each array of the
    result is chosen by `where`; then both must give the same structure, shapes and dtypes.

    Raises
    ------
    TypeError
        When `pred` is no scalar, or inside `vmap` when the results differ in kind; it names the
        path.

    >>> import cotan as ct
    >>> import numpy as np
    >>> root = lambda x: ct.cond(x > 0, np.sqrt, np.negative, x)
    >>> ct.grad(root)(4.0), ct.grad(root)(-4.0)
    (0.25, -1.0)
    >>> ct.vmap(root)(np.array([4.0, -4.0]))
    array([2., 4.])
    """
    expect_function("cond", "true_fn", true_fn)
    expect_function("cond", "false_fn", false_fn)
    if not isinstance(pred, (Number, np.generic, np.ndarray, _core.Array)):
        raise TypeError(f"cond: pred must be a bool or a number, not {type(pred).__name__}")
    if np.shape(pred):
        raise TypeError(f"cond: pred must be a scalar, not an array of shape {np.shape(pred)}")
    if not _differs(pred):
        return true_fn(*operands) if pred else false_fn(*operands)
    first, second = with_arrays(true_fn(*operands)), with_arrays(false_fn(*operands))
    before, after = outline(first, "result"), outline(second, "result")
    expect_same("cond", "the result of true_fn and of false_fn", before, after)
    # A number that is no bool counts by whether it is 0.
    chosen = _core.ne(pred, 0)
    structure = _core.structure(first)
    pairs = zip(structure.leaves, leaves_of(second), strict=True)
    result: R = structure.build([_core.where(chosen, a, b) for a, b in pairs])
    return result


def while_loop(
    cond_fun: Callable[[_Carry], Any],
    body_fun: Callable[[_Carry], _Carry],
    init_val: _Carry,
    *,
    max_steps: int | None = None,
    rolled: bool = False,
) -> _Carry:
    """Repeat a function as long as a condition holds.

    Parameters
    ----------
    cond_fun
        From the carry to a bool.
    body_fun
        From the carry to a carry of the same structure, with the same shapes and dtypes.
    init_val
        The first carry: any structure.
    max_steps
        How many steps there may be. It is an error when the condition still holds after them.
    rolled
        Whether the loop may be one equation of a program, with a body, as for `scan`. The number of
        steps then is found when the program runs, and a prepared function takes another number for
        other arguments. The reverse pass takes the steps again, and keeps carries of 16 MB for each
        thousand, or so, in loops in loops: it needs `max_steps` for more than a million steps.

    Returns
    -------
    The last carry. It has derivatives of any order, through the steps that were taken. In a
    prepared function the number of steps is guarded, as that of a `while` is, unless the loop is
    `rolled`.

    Raises
    ------
    TypeError
        When `cond_fun` returns no bool, or a step changes the carry in kind; it names the path.
    ValueError
        Inside `vmap`, when the condition differs between examples; when there are more than
        `max_steps` steps.

    >>> import cotan as ct
    >>> halved = lambda x: ct.while_loop(lambda v: v > 1, lambda v: v / 2, x)
    >>> ct.value_and_grad(halved)(12.0)
    (0.75, 0.0625)
    """
    expect_function("while_loop", "cond_fun", cond_fun)
    expect_function("while_loop", "body_fun", body_fun)
    most = None if max_steps is None else _integer("while_loop", "max_steps", max_steps)
    if most is not None and most < 1:
        raise ValueError(f"while_loop: max_steps must be positive, not {most}")
    if rolled:
        found = recorded_while(
            lambda carry: _bool(cond_fun(carry)),
            body_fun, init_val, most or 0, functions=(cond_fun, body_fun),
        )  # fmt: skip
        if found is not None:
            last: _Carry = found[0]
            return last
    carry, expected, count = init_val, None, 0
    while _holds(cond_fun(carry)):
        if count == most:
            raise ValueError(
                f"while_loop: the condition still holds after {most} steps, and max_steps={most}"
            )
        count += 1
        carry, expected = _stepped("while_loop", carry, body_fun(carry), expected)
    return carry


def _bool(pred: Any) -> Any:
    """Give a condition; refuse what is no bool."""
    is_bool = isinstance(pred, bool) or getattr(pred, "dtype", None) == np.bool_
    if not is_bool or np.shape(pred):
        what = pred if isinstance(pred, _core.Array | np.ndarray) else type(pred).__name__
        if isinstance(what, _core.Array | np.ndarray):
            what = f"{what.dtype}{tuple(what.shape)}"
        raise TypeError(f"while_loop: cond_fun must return a bool, not {what}")
    return pred


def _integer(name: str, what: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: {what} must be an integer, not {value!r}") from None


def _holds(pred: Any) -> bool:
    """Say whether a condition holds; refuse what is no bool, and what nobody knows yet."""
    if _differs(_bool(pred)):
        raise ValueError(
            "while_loop: inside vmap the condition differs between examples; repeat as often as "
            "the longest needs with fori_loop and keep what is finished with where(), or map with "
            "a loop"
        )
    return bool(pred)


def fori_loop(
    lower: int,
    upper: int,
    body_fun: Callable[[int, _Carry], _Carry],
    init_val: _Carry,
    *,
    checkpoint: bool | int | str | None = None,
    rolled: bool = False,
) -> _Carry:
    """Repeat a function for the integers from `lower` to less than `upper`.

    Parameters
    ----------
    lower, upper
        Integers; no step is taken when `upper` is not greater.
    body_fun
        From the integer and the carry to a carry of the same structure, with the same shapes and
        dtypes.
    init_val
        The first carry: any structure.
    checkpoint
        What the reverse pass keeps, as for `scan`.
    rolled
        Whether the loop may be one equation of a program, with a body, as for `scan`. The integer
        is an int64 array then.

    Returns
    -------
    The last carry.

    Raises
    ------
    TypeError
        When a bound is no integer, or a step changes the carry in kind; it names the path.

    >>> import cotan as ct
    >>> power = lambda x: ct.fori_loop(0, 3, lambda i, v: v * x, 1.0)
    >>> ct.value_and_grad(power)(2.0)
    (8.0, 12.0)
    """
    expect_function("fori_loop", "body_fun", body_fun)
    lower, upper = _integer("fori_loop", "lower", lower), _integer("fori_loop", "upper", upper)
    steps = range(lower, upper)
    size = _segment("fori_loop", checkpoint, len(steps))
    carry: Any = init_val
    expected: Outline | None = None
    if rolled:
        looped = recorded_loop(
            lambda carry, i: (body_fun(i, carry), None), carry, np.arange(lower, upper), len(steps),
            function=body_fun, counts=True, **_kept(checkpoint, size),
        )  # fmt: skip
        if looped is not None:
            carry, steps = looped[0], range(0)

    def run(carry: Any, steps: range) -> Any:
        nonlocal expected
        for i in steps:
            carry, expected = _stepped("fori_loop", carry, body_fun(i, carry), expected)
        return carry

    again = _checkpointed(run, checkpoint)
    for start in range(0, len(steps), size):
        carry = again(carry, steps[start : start + size])
    last: _Carry = carry
    return last


def scan(
    f: Callable[[_Carry, Any], tuple[_Carry, Any]],
    init: _Carry,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    *,
    checkpoint: bool | int | str | None = None,
    rolled: bool = False,
) -> tuple[_Carry, Any]:
    """Carry a state along an axis, and stack what each step gives.

    Parameters
    ----------
    f
        From the carry and a slice of `xs` to the next carry and a result: `(carry, y)`. The carry
        keeps its structure, shapes and dtypes, and all `y` agree in theirs.
    init
        The first carry: any structure.
    xs
        A structure of arrays, of which each step gets a slice along the first axis; None for none.
    length
        Number of steps: needed without `xs`, else it has to agree.
    reverse
        Whether to go from the last slice to the first. Each `y` stands where its slice stood.
    checkpoint
        What the reverse pass keeps. An int `n`: the carry of every n-th step; the steps between are
        computed again. True: of about the square root of all. A text such as `"200MB"`: the budget
        of `ct.checkpoint` around the whole loop. Of a `rolled` loop as many carries are kept as a
        budget holds, at least one, and as few steps as possible are taken again (binomial
        checkpointing: Griewank and Walther, Algorithm 799, 2000).
    rolled
        Whether the loop may be one equation of a program, with a body: the size of the program does
        not depend on the number of steps then. `f` has to be pure: it is called a few times, on
        arrays whose values nobody knows, and not once for each step. What all steps share is
        computed before the loop. A step that looks at values, or carries on anything but arrays,
        floats, and constants in tuples, lists and dicts, is taken one by one as without `rolled`.

    Returns
    -------
    carry
        The last one.
    ys
        The structure of `y`, each array with an axis more in front. Python numbers become arrays.

    Raises
    ------
    TypeError
        When `f` returns no pair, the carry or `y` changes in kind (the message names the path),
        `xs` has no array, or a step of a `rolled` loop changes what cannot be put back, such as a
        generator.
    ValueError
        When lengths differ, or `checkpoint` is no positive number.

    >>> import cotan as ct
    >>> import numpy as np
    >>> def step(total, x):
    ...     return total + x, total * x
    >>> ct.scan(step, 0.0, np.array([1.0, 2.0, 3.0]))
    (np.float64(6.0), array([0., 2., 9.]))
    >>> ct.grad(lambda x: ct.scan(step, 0.0, x, checkpoint=2)[0] ** 2)(np.array([1.0, 2.0, 3.0]))
    array([12., 12., 12.])
    """
    expect_function("scan", "f", f)
    count = _length(xs, length)
    size = _segment("scan", checkpoint, count)

    steps = _Steps(f)
    if not count:
        # One step, whose result is dropped, says what the results look like.
        _, (y,) = steps.run(init, [map_leaves(_blank, xs)])
        return init, map_leaves(lambda leaf: np.zeros((0, *np.shape(leaf)), _dtype(leaf)), y)
    if rolled:
        looped = recorded_loop(
            _pair_of(f), init, xs, count, function=f, reverse=reverse, **_kept(checkpoint, size)
        )
        if looped is not None:
            return looped
    order = range(count - 1, -1, -1) if reverse else range(count)
    slices = [_slice(xs, i) for i in order]
    run = _checkpointed(steps.run, checkpoint)
    carry: Any = init
    ys: list[Any] = []
    for start in range(0, count, size):
        carry, more = run(carry, slices[start : start + size])
        ys += more
    return carry, _stacked(ys[::-1] if reverse else ys)


class _Steps:
    """Steps of a scan: they know what the carry and the results looked like in those before."""

    def __init__(self, f: _Step) -> None:
        self._f = f
        self._carry: Outline | None = None
        self._result: Outline | None = None

    def run(self, carry: Any, slices: list[Any]) -> tuple[Any, list[Any]]:
        """Take some steps; gives the last carry and the results."""
        ys = []
        for x in slices:
            new, y = _pair_of(self._f)(carry, x)
            carry, self._carry = _stepped("scan", carry, new, self._carry)
            self._result = _like_others(y, self._result)
            ys.append(y)
        return carry, ys


def _pair_of(f: _Step) -> _Step:
    """Give a step whose results are checked, with arrays for numbers in what is stacked."""

    def step(carry: Any, x: Any) -> tuple[Any, Any]:
        pair: Any = f(carry, x)
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TypeError(f"scan: f must return a pair (carry, y), not {_described(pair)}")
        return pair[0], with_arrays(pair[1])

    return step


def _described(value: object) -> str:
    name = type(value).__name__
    return f"{name} of {len(value)}" if isinstance(value, tuple) else name


def _slice(xs: Any, i: int) -> Any:
    return None if xs is None else map_leaves(lambda leaf: leaf[i], xs)


def _blank(leaf: Any) -> Any:
    return np.zeros(np.shape(leaf)[1:], _dtype(leaf))


def _dtype(leaf: Any) -> "np.dtype[Any]":
    dtype: np.dtype[Any] = leaf.dtype if hasattr(leaf, "dtype") else np.asarray(leaf).dtype
    return dtype


def _stacked(ys: list[Any]) -> Any:
    columns = zip(*map(leaves_of, ys), strict=True)
    stacked = [np.stack(column) for column in columns]
    return _core.structure(ys[0]).build(stacked) if stacked else ys[0]


def _length(xs: Any, length: int | None) -> int:
    structure = _core.structure(xs, root="xs")
    lengths: dict[str, int] = {}
    for path, leaf in zip(structure.paths, structure.leaves, strict=True):
        if not np.ndim(leaf):
            raise TypeError(f"scan: {path} is a scalar; xs has arrays, with a slice for each step")
        lengths[path] = len(leaf)
    if length is not None:
        lengths["length"] = operator.index(length)
    if not lengths:
        raise TypeError("scan: without an array in xs pass the number of steps: length=")
    (first, count), *others = lengths.items()
    for path, other in others:
        if other != count:
            raise ValueError(f"scan: {first} says {count} steps, and {path} says {other}")
    if count < 0:
        raise ValueError(f"scan: length must not be negative, not {count}")
    return count


def _checkpointed(
    run: Callable[..., Any], checkpoint: bool | int | str | None
) -> Callable[..., Any]:
    """Give a function that takes some steps, of which the reverse pass keeps what it is told to."""
    if checkpoint is None or checkpoint is False:
        return run
    return checkpointed(run, budget=checkpoint if isinstance(checkpoint, str) else None)


def _kept(checkpoint: bool | int | str | None, size: int) -> dict[str, Any]:
    """Give what `recorded_loop` takes: segments of some steps, or a budget."""
    if isinstance(checkpoint, str):
        return {"budget": budget_bytes(checkpoint)}
    return {"segments": [size] if checkpoint else []}


def _segment(name: str, checkpoint: bool | int | str | None, count: int) -> int:
    """Give how many steps are checkpointed together."""
    if checkpoint is None or checkpoint is False or isinstance(checkpoint, str):
        return max(count, 1)
    if checkpoint is True:
        return max(math.isqrt(count), 1)
    size = operator.index(checkpoint)
    if size < 1:
        raise ValueError(f"{name}: checkpoint must be a positive number of steps, not {size}")
    return size


def _stepped(
    name: str, before: _Carry, after: _Carry, expected: Outline | None
) -> tuple[_Carry, Outline]:
    """Give the next carry, and what it has to look like from now on."""
    new = outline(after, "carry")
    if expected is None:
        expected = settled(outline(before, "carry"), new)
    expect_same(name, "the carry", expected, new)
    return after, expected


def _like_others(y: object, expected: Outline | None) -> Outline:
    new = outline(y, "y")
    if expected is not None:
        expected = settled(expected, new)
        expect_same("scan", "the result of a step", expected, new, constants=True)
    return expected or new


def _differs(pred: Any) -> bool:
    """Say whether a condition may differ between examples of `vmap`."""
    return isinstance(pred, _core.Array) and bool(_core.is_mapped(pred))
