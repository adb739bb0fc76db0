"""`vmap`: applies a function of one example to a batch of them, as one recorded program."""

import functools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from cotan import _core
from cotan._src.runtime.by_example import needs_values
from cotan._src.state.own_functions import made_of
from cotan._src.tree import selection
from cotan._src.tree.argument_refusal import as_ndarray, expect_function
from cotan._src.tree.prefix import is_axis, spread
from cotan._src.tree.structure import tree_structure, without_constants
from cotan._src.typing import Args, Axis, Function, Kwargs, P, R


def vmap(
    function: Callable[P, R],
    in_axes: Axis | Sequence[object] = 0,
    out_axes: object = 0,
    *,
    axis_size: int | None = None,
    chunk_size: int | None = None,
) -> Callable[P, R]:
    """Map a function of one example over an axis of its arguments, without a loop.

    The function is recorded once, on one example, and what was recorded is written anew for all
    examples: products become batched products, and what does not differ between examples is
    computed once. It may call `gradient` and functions with rules of their own, and be
    differentiated itself. Where it calls an opaque rule, or what SciPy computes in compiled code,
    with what differs between examples, it is called once for each example instead.

    Parameters
    ----------
    function
        Of one example: any callable. It cannot look at the values of what differs between examples
        (`if`, `print`, `float`), and is called again at each call.
    in_axes
        Along which axis of an argument the examples lie, negative ones counted from the end; None
        for arguments that all examples share. One for all positional arguments, or a list or tuple
        with one for each. An entry may be a structure that begins like the argument: a list, a
        tuple, a dictionary of keys or of names of fields, an object of the same class. An axis in
        it, or None, holds for all arrays below its place. Keyword arguments are mapped over their
        first axis.
    out_axes
        The axis of the results along which the examples lie: one for all, or a structure that
        begins like the result. None for a result that does not differ between examples, which is
        given once; to find out whether it does, the function is called a second time.
    axis_size
        The number of examples. Needed where no argument is mapped; else it has to agree.
    chunk_size
        At most so many examples are computed together, which takes less memory outside of
        gradients; in a gradient around the call all chunks belong to one program. The function is
        called once for each chunk, the last of which may be shorter.

    Returns
    -------
    callable
        Takes the arguments of `function`, with an axis more where they are mapped, and gives
        what it gives with an axis more: ndarrays, or `Array`s if an argument holds one. Arrays
        and floats that do not differ between examples are repeated; other objects (an int, a
        string) stay as they are. Of no examples there are results of length 0.

    Raises
    ------
    ValueError
        When the arguments have different numbers of examples, or none has examples; when
        `in_axes` or `out_axes` does not fit the argument or the result; when the function looks at
        values; and when a result with None in `out_axes` differs between examples.
    AxisError
        For an axis that an array does not have: an `IndexError` and a `ValueError`.
    TypeError
        For an axis or a size that is no integer, and arrays that cannot be mapped.

    >>> import cotan as ct
    >>> import numpy as np
    >>> def loss(w, x):
    ...     return np.tanh(w @ x) ** 2
    >>> w, x = np.array([0.5, -0.5]), np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    >>> ct.vmap(loss, in_axes=(None, 0))(w, x)
    array([0.21355227, 0.58002566, 0.        ])
    >>> ct.vmap(lambda w, x: ct.gradient(loss, w, ct.const(x))[0], in_axes=(None, 0))(w, x)
    array([[ 0.72686198,  0.        ],
           [ 0.        , -1.27940002],
           [ 0.        ,  0.        ]])

    An axis for each part of an argument:

    >>> def score(model, x):
    ...     return model["w"] @ x + model["b"]
    >>> ct.vmap(score, in_axes=({"w": None, "b": 0}, 0))({"w": w, "b": np.arange(3.0)}, x)
    array([0.5, 0. , 2. ])
    """
    expect_function("vmap", "function", function)
    name = getattr(function, "__name__", type(function).__name__)
    _expect_axes("in_axes", in_axes)
    if isinstance(in_axes, Mapping):
        raise TypeError(
            "vmap: in_axes is a dictionary; write a list or tuple with one entry for each "
            f"positional argument, for one argument in_axes=({in_axes!r},)"
        )
    _expect_axes("out_axes", out_axes)
    size = _count("axis_size", axis_size, 0)
    chunk = _count("chunk_size", chunk_size, 1)

    asked = _Asked(function, name, in_axes, out_axes, size, chunk)
    innermost, applied = made_of(function)
    options = "vmap", *asked[2:], *applied
    axes = in_axes if isinstance(in_axes, tuple) else (in_axes,)
    # A replay computes all chunks together, and lays out results by itself.
    is_simple = all(axis is None or is_axis(axis) for axis in axes)
    may_be_replayed = is_simple and chunk is None and is_axis(out_axes) and not out_axes

    @functools.wraps(function)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        # Numbers stay what they are in a run, and what is made of `Array`s is lazy.
        if not may_be_replayed or kwargs or any(type(x) is not np.ndarray for x in args):
            return _run(asked, args, kwargs)
        return _core.run_or_replay(innermost, args, options, lambda *args: _run(asked, args, {}))

    return mapped


class _Asked(NamedTuple):
    """A function, and how it is mapped."""

    function: Function
    name: str
    in_axes: Axis | Sequence[object]
    out_axes: object
    size: int | None
    chunk: int | None


def _run(asked: _Asked, args: Args, kwargs: Kwargs) -> Any:
    """Map over arguments."""
    function, name, in_axes, out_axes, size, chunk = asked
    axes = list(in_axes) if isinstance(in_axes, list | tuple) else [in_axes] * len(args)
    if len(axes) != len(args):
        plural = "y" if len(axes) == 1 else "ies"
        raise ValueError(
            f"vmap: in_axes has {len(axes)} entr{plural} for {len(args)} "
            f"argument{'s' * (len(args) != 1)} of {name}"
        )
    names = [*selection.argument_names(function, len(args)), *kwargs]
    axes += [0] * len(kwargs)
    values = [*args, *kwargs.values()]
    shared = [_BY_POSITION] * len(args) + [_BY_KEYWORD] * len(kwargs)
    arguments = [_taken(*entry) for entry in zip(values, axes, names, shared, strict=True)]
    batch = [column for argument in arguments for column in argument.columns]
    total = _num_examples(batch, size, name)
    if not batch:
        batch = [_Column("axis_size", 0, np.zeros((total, 0)))]

    def one(*examples: Any) -> object:
        rest = iter(examples)
        given = [argument.build(rest) for argument in arguments]
        return function(*given[: len(args)], **dict(zip(kwargs, given[len(args) :], strict=True)))

    try:
        if chunk is None or chunk >= total:
            if is_axis(out_axes) and not out_axes:
                return _mapped(one, batch, slice(None))
            return _call(one, batch, slice(None), out_axes).placed()
        pieces = []
        for start in range(0, total, chunk):
            piece = _call(one, batch, slice(start, start + chunk), out_axes)
            piece.compute()
            pieces.append(piece)
        return _joined(pieces).placed()
    except ValueError as error:
        if not total or not needs_values(error):
            raise
    return _by_example(one, batch, total, out_axes).placed()


# --------------------------------------------------------------------------------------------------
# What is asked for


def _expect_axes(name: str, axes: object) -> None:
    """Refuse what can be no structure of axes. Objects are read when there is an argument."""
    if axes is None or is_axis(axes):
        return
    if isinstance(axes, Mapping):
        axes = list(axes.values())
    if isinstance(axes, list | tuple):
        for entry in axes:
            _expect_axes(name, entry)
    elif isinstance(axes, str | bytes | float | bool | complex | set | frozenset | np.ndarray):
        whose = "positional argument" if name == "in_axes" else "part of the result"
        raise TypeError(
            f"vmap: {name} is an axis, None, or a list or tuple with one of these for each "
            f"{whose}, not {axes!r}"
        )


def _count(name: str, value: object, least: int) -> int | None:
    """Give a number of examples as an int."""
    if value is None:
        return None
    if not is_axis(value):
        raise TypeError(f"vmap: {name} is a number of examples, not {value!r}")
    count = operator.index(value)  # type: ignore[arg-type]
    if count < least:
        raise ValueError(f"vmap: {name} must be at least {least}, not {count}")
    return count


# --------------------------------------------------------------------------------------------------
# Arguments


class _Column(NamedTuple):
    """An array with the examples along its first axis, and where they lay before."""

    path: str
    axis: int
    array: Any

    @property
    def described(self) -> str:
        """Say where the examples lie in the array that was given."""
        shape = list(self.array.shape[1:])
        shape.insert(self.axis, self.array.shape[0])
        return f"axis {self.axis} of shape {tuple(shape)}"


class _Argument(NamedTuple):
    """An argument, taken apart."""

    parts: _core._Structure
    leaves: list[Any]
    """Those that all examples share; the others are the columns, in their order."""
    columns: list[_Column]
    is_mapped: list[bool]

    def build(self, examples: Iterator[Any]) -> Any:
        """Give the argument of one example, taking what differs from an iterator."""
        pairs = zip(self.leaves, self.is_mapped, strict=True)
        return self.parts.build([next(examples) if varies else leaf for leaf, varies in pairs])


# What to write for an argument that all examples share.
_BY_POSITION = "None in in_axes"
_BY_KEYWORD = "functools.partial, since keyword arguments are mapped"


def _taken(value: Any, axes: object, path: str, shared: str) -> _Argument:
    value = without_constants(value)
    parts = _core.structure(value, root=path)
    found = spread("vmap: in_axes", axes, value, parts.paths, path)
    if axes is not None and (not parts.leaves or _is_labelled(value)):
        _expect_known(value, path, shared)
    leaves, columns = [], []
    for leaf, axis, place in zip(parts.leaves, found, parts.paths, strict=True):
        if axis is None:
            leaves.append(_shared(leaf))
        else:
            leaves.append(None)
            columns.append(_column(leaf, axis, place, shared))
    return _Argument(parts, leaves, columns, [axis is not None for axis in found])


def _is_labelled(value: Any) -> bool:
    """Say whether an array belongs to labels of its axes, which the examples do not have."""
    return type(value).__module__.partition(".")[0] == "xarray"


def _expect_known(value: Any, path: str, shared: str) -> None:
    """Refuse an array of another library, which would go to each example as a whole."""
    if hasattr(value, "__array__") and not isinstance(value, np.generic | type):
        raise TypeError(
            f"vmap: {path} is of {type(value).__module__}.{type(value).__qualname__}, which is not "
            f"mapped; pass {as_ndarray(value, path) or f'np.asarray({path})'}, or share it with "
            f"{shared}"
        )


def _shared(leaf: Any) -> Any:
    """Give an array that all examples share as an `Array`: it may be indexed by what differs."""
    return _core.asarray(leaf) if type(leaf) is np.ndarray and leaf.dtype.kind in "biufc" else leaf


def _column(leaf: Any, axis: int, path: str, shared: str) -> _Column:
    """Put the examples in an array first."""
    ndim = np.ndim(leaf)
    if not _is_numeric(leaf):
        raise TypeError(
            f"vmap: {path} is an array of dtype {leaf.dtype}, which is not mapped; share it with "
            f"{shared}"
        )
    if ndim == 0:
        raise ValueError(
            f"vmap: {path} is a number and has no axis of examples; share it with {shared}, or "
            "repeat it with np.full"
        )
    if not -ndim <= axis < ndim:
        raise np.exceptions.AxisError(
            f"vmap: in_axes has axis {axis} for {path}, which has shape {tuple(leaf.shape)}; its "
            f"axes are {_listed(ndim)}"
        )
    return _Column(path, int(axis) % ndim, np.moveaxis(leaf, axis, 0) if axis else leaf)


def _is_numeric(leaf: Any) -> bool:
    """Say whether a leaf is of a dtype that can be mapped."""
    if not isinstance(leaf, np.ndarray) or leaf.dtype.char in "?bBhHiIlLqQefdFD":
        return True
    try:
        _core.asarray(np.empty(0, leaf.dtype))
    except TypeError:
        return False
    return True


def _listed(ndim: int) -> str:
    axes = ", ".join(map(str, range(ndim)))
    return f"{axes} (or {-ndim} to -1)" if ndim > 1 else "0 (or -1)"


def _num_examples(batch: list[_Column], size: int | None, name: str) -> int:
    """Give how many examples there are; all have to agree."""
    if not batch:
        if size is None:
            raise ValueError(
                "vmap: no argument is an array with an axis of examples; call "
                f"{name} without vmap, change in_axes, or say with axis_size= how many there are"
            )
        return size
    first = batch[0]
    count = len(first.array)
    for column in batch[1:]:
        if len(column.array) != count:
            raise ValueError(
                f"vmap: {first.path} has {count} examples, {column.path} has {len(column.array)}: "
                f"{first.described}, {column.described}; give as many of both, or share one of "
                "them with None in in_axes"
            )
    if size is not None and size != count:
        raise ValueError(
            f"vmap: axis_size is {size}, and {first.path} has {count} examples: {first.described}"
        )
    return count


# --------------------------------------------------------------------------------------------------
# Results


class _Result(NamedTuple):
    """What the function gave for some examples, with these along the first axes."""

    parts: _core._Structure
    leaves: list[Any]
    axes: list[Axis]

    def compute(self) -> None:
        """Compute what waits, so that what was computed on the way can be given up."""
        if _core.is_tracing():
            return
        arrays = [leaf for leaf in self.leaves if isinstance(leaf, _core.Array)]
        _core.force_all([array for array in arrays if not _core.is_active(array)])

    def placed(self) -> Any:
        """Give the result with the examples along the axes where they belong."""
        columns = zip(self.leaves, self.axes, self.parts.paths, strict=True)
        return self.parts.build([_placed(*column) for column in columns])


def _placed(leaf: Any, axis: Axis, path: str) -> Any:
    if not axis or not _is_numeric(leaf):
        return leaf
    if not -leaf.ndim <= axis < leaf.ndim:
        raise np.exceptions.AxisError(
            f"vmap: out_axes has axis {axis} for {path}, which with the examples along the first "
            f"axis has shape {tuple(leaf.shape)}; its axes are {_listed(leaf.ndim)}"
        )
    return np.moveaxis(leaf, 0, axis)


def _joined(pieces: Sequence[_Result]) -> _Result:
    """Put the results of chunks one behind the other."""
    first = pieces[0]
    for piece in pieces[1:]:
        if piece.parts.paths != first.parts.paths:
            raise ValueError(
                "vmap: the function gave results of different structures for two chunks: "
                f"{', '.join(first.parts.paths)}; {', '.join(piece.parts.paths)}"
            )
    columns = zip(*(piece.leaves for piece in pieces), strict=True)
    leaves = [
        column[0] if axis is None or not _is_numeric(column[0]) else np.concatenate(column)
        for column, axis in zip(columns, first.axes, strict=True)
    ]
    return _Result(first.parts, leaves, first.axes)


def _mapped(
    one: Function, batch: list[_Column], which: slice, call: Function = _core.call_vmap
) -> Any:
    """Call a function of one example for some of them, which come first in its results."""
    paths = [column.path for column in batch]
    arrays = [column.array for column in batch]
    if which != slice(None):
        arrays = [array[which] for array in arrays]
    return call(one, tuple(arrays), [True] * len(batch), paths)


def _call(one: Function, batch: list[_Column], which: slice, out_axes: object) -> _Result:
    """Call the function of one example for some of them."""
    if is_axis(out_axes):
        result = _mapped(one, batch, which)
        parts = _core.structure(result, root="result")
        return _Result(parts, parts.leaves, [out_axes] * len(parts.leaves))  # type: ignore[list-item]
    once: list[_Result] = []

    def varying(*examples: Any) -> list[Any]:
        result = without_constants(one(*examples))
        parts = _core.structure(result, root="result")
        axes = spread("vmap: out_axes", out_axes, result, parts.paths, "result")
        once.append(_Result(parts, parts.leaves, axes))
        pairs = zip(parts.leaves, axes, strict=True)
        return [None if axis is None else leaf for leaf, axis in pairs]

    results = _mapped(varying, batch, which)
    (found,) = once
    unclear = [
        i
        for i, (leaf, axis) in enumerate(zip(found.leaves, found.axes, strict=True))
        if axis is None and isinstance(leaf, _core.Array) and not leaf.is_forced
    ]
    if unclear:
        _expect_equal(one, batch, which, found, unclear)
    lazy = any(isinstance(column.array, _core.Array) for column in batch)
    leaves = [
        _given_once(leaf, lazy) if axis is None else result
        for leaf, axis, result in zip(found.leaves, found.axes, results, strict=True)
    ]
    return _Result(found.parts, leaves, found.axes)


def _expect_equal(
    one: Function, batch: list[_Column], which: slice, result: _Result, unclear: list[int]
) -> None:
    """Refuse leaves of a result that differ between examples.

    Only a program tells which arrays do, so the function is recorded once more.
    """

    def asked(*examples: Any) -> list[Any]:
        leaves = _core.structure(without_constants(one(*examples)), root="result").leaves
        return [leaves[i] for i in unclear]

    for i, varies in zip(unclear, _mapped(asked, batch, which, _core.varying_results), strict=True):
        if varies:
            raise ValueError(
                f"vmap: out_axes has None for {result.parts.paths[i]}, which differs between "
                "examples; give the axis along which they are to lie"
            )


def _by_example(one: Function, batch: list[_Column], total: int, out_axes: object) -> _Result:
    """Call the function of one example for each of them, because it calls what takes values."""
    lazy = any(isinstance(column.array, _core.Array) for column in batch)
    # What the function writes to its arguments is not written to those of the caller.
    rows = ([column.array[i].copy() for column in batch] for i in range(total))
    results = [without_constants(one(*row)) for row in rows]
    every = [_core.structure(result, root="result") for result in results]
    first, structure = every[0], tree_structure(results[0])
    for i, result in enumerate(results):
        if tree_structure(result) != structure:
            raise ValueError(
                "vmap: the function gave results of different structures, or other objects than "
                f"arrays and floats that differ, for two examples: {structure} for 0, "
                f"{tree_structure(result)} for {i}"
            )
    axes = spread("vmap: out_axes", out_axes, results[0], first.paths, "result")
    columns = zip(*(parts.leaves for parts in every), strict=True)
    leaves = [
        _as_others(_stacked(column, axis, path), lazy)
        for column, axis, path in zip(columns, axes, first.paths, strict=True)
    ]
    return _Result(first, leaves, axes)


def _as_others(leaf: Any, lazy: bool) -> Any:
    """Give a result as what `vmap` gives: an `Array` where arguments hold one."""
    if lazy and isinstance(leaf, np.ndarray | float | complex) and _is_numeric(leaf):
        return _core.asarray(leaf)
    return _given_once(leaf, lazy)


def _stacked(column: tuple[Any, ...], axis: Axis, path: str) -> Any:
    """Put the results of all examples along a first axis, or give the one that they share."""
    shapes = {np.shape(leaf): i for i, leaf in reversed([*enumerate(column)])}
    if len(shapes) > 1:
        one, other = [*shapes.items()][:-3:-1]
        raise ValueError(
            f"vmap: {path} has shape {one[0]} for example {one[1]}, {other[0]} for example "
            f"{other[1]}; results of all examples need the same shape"
        )
    if axis is not None and _is_numeric(column[0]):
        return np.stack(column)
    if not all(_is_same(leaf, column[0]) for leaf in column[1:]):
        raise ValueError(
            f"vmap: out_axes has None for {path}, which differs between examples; give the axis "
            "along which they are to lie"
        )
    return column[0]


def _is_same(a: Any, b: Any) -> bool:
    """Say whether two results are known and equal."""
    if a is b:
        return True
    arrays = [x for x in (a, b) if isinstance(x, _core.Array)]
    if arrays and (_core.is_tracing() or any(map(_core.is_active, arrays))):
        return False
    return np.asarray(a).tobytes() == np.asarray(b).tobytes()


def _given_once(leaf: Any, lazy: bool) -> Any:
    """Give a result that does not differ between examples, of the kind of the others."""
    if not isinstance(leaf, _core.Array) or lazy or _core.is_tracing():
        return leaf
    if _core.is_active(leaf) or _core.is_replayed(leaf):
        return leaf
    return _core.value(leaf)[()]
