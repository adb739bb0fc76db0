"""Which device computes: `use`, and structures on devices.

Problem: code that is written for ndarrays says nothing of devices, and should not have to. What
enters cotan in a block is copied to the device of that block, and programs run where their
arguments lie.
"""

from types import TracebackType
from typing import Any

from cotan import _core
from cotan._core import Array, Device
from cotan._src.tree.update import tree_map


class use:  # noqa: N801 - a context manager, named as a function
    """Copy what enters cotan inside a `with` block to a device, and so compute there.

    ndarrays that are arguments of `gradient`, `pullback`, prepared functions and the like, and what
    `ct.array` makes, go to the device. Results are of the kind that they always are: the gradient
    with respect to an ndarray is an ndarray. Numbers, and ndarrays that a function captures, follow
    the arrays that they are used with. The block holds for the running context: other threads and
    tasks are not changed.

    Parameters
    ----------
    device
        A name, such as `"gpu"`, or what `ct.device` gives.

    Raises
    ------
    ValueError
        If a text is not the name of a device.
    RuntimeError
        If there is no such device; it says why.

    >>> import cotan as ct
    >>> import numpy as np
    >>> with ct.use("cpu"):
    ...     (g,) = ct.gradient(lambda x: np.sum(x**2), np.ones(2, np.float32))
    >>> g
    array([2., 2.], dtype=float32)
    """

    def __init__(self, device: str | Device) -> None:
        self._name = _core.device(device).name
        self._before: list[str | None] = []

    def __enter__(self) -> Device:
        self._before.append(_core.used_device())
        _core.use_device(self._name)
        return _core.device(self._name)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self._before:
            raise RuntimeError("use: it is not entered")
        _core.use_device(self._before.pop())


def to_device(tree: Any, device: str | Device) -> Any:
    """Copy the arrays of a structure to a device.

    Parameters
    ----------
    tree
        Any structure: an array, tuples, dicts, dataclasses of them. ndarrays become `Array`s;
        numbers and what else there is stay as they are.
    device
        A name, such as `"gpu"`, or what `ct.device` gives.

    Returns
    -------
    A structure of the same form. An `Array` that lies there already is the same object.

    Raises
    ------
    ValueError
        If a text is not the name of a device.
    RuntimeError
        If there is no such device, it does not have the dtype, or its memory is lost.
    MemoryError
        If there is no room on it.
    TypeError
        If an array depends on an argument that is recorded: what is recorded runs where its
        arguments lie.

    >>> import cotan as ct
    >>> import numpy as np
    >>> model = ct.to_device({"w": np.ones(2), "rate": 0.5}, "cpu")
    >>> model["w"].device, model["rate"]
    (Device('cpu'), 0.5)
    """
    place = _core.device(device)

    def copied(leaf: Any) -> Any:
        if isinstance(leaf, float):
            return leaf
        if isinstance(leaf, Array):
            return leaf.to_device(place)
        return _core.array(leaf, device=place)

    return tree_map(copied, tree)
