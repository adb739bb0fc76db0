"""Methods of `Program` that need no compiled code."""

from typing import Any

from cotan import _core
from cotan._src.tree import selection
from cotan._src.typing import Args, Function, Kwargs


def by_position(function: Function, args: Args, kwargs: Kwargs) -> tuple[Function, Args]:
    """Give a function that takes its keyword arguments behind the others, and all arguments."""
    return _ByPosition(function, len(args), tuple(kwargs)), (*args, *kwargs.values())


class _ByPosition:
    """A function whose keyword arguments are given behind the positional ones."""

    def __init__(self, function: Function, count: int, keys: tuple[str, ...]) -> None:
        self.function = function
        self.count = count
        self.keys = keys

    def __call__(self, *args: object) -> object:
        named = dict(zip(self.keys, args[self.count :], strict=True))
        return self.function(*args[: self.count], **named)

    def _argument_names(self, count: int) -> list[str]:
        first = selection.argument_names(self.function, self.count)
        return [*first, *self.keys][:count]


def pullback(self: _core.Program, wrt: "_core._Wrt" = None) -> _core.Program:
    """Differentiate a program: the program of its pullback, without values.

    It takes the inputs of the program and a cotangent for each output that can have one (`dy`, or
    `d` and the name of the output), and gives the cotangents of the inputs (`dx` for `x`). Unlike
    `ct.pullback`, which runs the program once and keeps values, it computes what it needs of the
    values itself.

    Parameters
    ----------
    wrt
        What `wrt=` of `gradient` takes; by default all inputs that are no integers.

    Raises `ValueError` when no output depends on one of these inputs.

    >>> import cotan as ct
    >>> print(ct.trace(lambda x: x * x * x, 1.0).pullback().prune("dx"))
    program(%x: f64[], %dy: f64[]) {
      %2: f64[] = mul(%x, %x)
      %3: f64[] = mul(%dy, %x)
      %4: f64[] = mul(%dy, %2)
      %5: f64[] = mul(%3, %x)
      %6: f64[] = add(%4, %5)
      %7: f64[] = add(%6, %5)
      return %7 "dx"
    }
    """
    inputs = [variable for variable in self.inputs if variable.value is None]
    able = [variable.dtype.kind not in "iub" for variable in inputs]
    mask = able if wrt is None else _selected(wrt, inputs, able)
    derived = self._pullback(mask)
    if not derived.outputs:
        names = ", ".join(variable.name or f"%{variable.index}" for variable in inputs)
        raise ValueError(f"pullback: no output depends on the selected inputs among {names}")
    return derived


def _selected(wrt: object, inputs: list[_core.Variable], able: list[bool]) -> list[bool]:
    names: list[str] = []
    owner: list[int] = []
    for variable in inputs:
        root = variable.name.partition(".")[0].partition("[")[0] or f"%{variable.index}"
        if root not in names:
            names.append(root)
        owner.append(names.index(root))
    leaves = [selection.LeafInfo(variable.shape, variable.dtype) for variable in inputs]
    paths = [variable.name or f"%{variable.index}" for variable in inputs]
    mask, structures, _ = selection.select(wrt, names, owner, paths, leaves, able)
    if mask is None:
        structures = structures or []
        if any(not isinstance(each, bool) for each in structures):
            raise TypeError(
                "pullback: a program is flat; ask for inputs by position, name or path, not by a "
                "structure of bools"
            )
        mask = [bool(structures[i]) for i in owner]
    return mask


def attach(cls: Any) -> None:
    """Give the class its methods."""
    cls.pullback = pullback
