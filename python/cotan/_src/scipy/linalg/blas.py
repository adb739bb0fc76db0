"""Overrides of BLAS and LAPACK routines: `scipy.linalg.blas.daxpy(x, y)`, `lapack.dgesv(a, b)`.

Problem: they are compiled and need memory, and some write their results to an argument: `daxpy`
always to `y` where it fits, most others if `overwrite_a=1` allows it. The memory of an `Array` is a
copy, so what was written to it has to be written back.
"""

import functools
import importlib
from typing import Any

import numpy as np

from cotan import _core
from cotan._core import Array, NotDifferentiableError
from cotan._src.runtime.registry import Way, override
from cotan._src.runtime.values import assign, contains_active, is_array
from cotan._src.scipy.linalg.lapack_solvers import ROUTINES
from cotan._src.typing import Function, NDArray

_MODULES = ("scipy.linalg.blas", "scipy.linalg.lapack")


def _is_routine(value: object) -> bool:
    return type(value).__name__ == "fortran"


def _laid_out_alike(x: Array) -> NDArray:
    """Give a copy in memory of the same order: a routine writes where it need not convert."""
    value = _core.value(x)
    flags = x.flags
    if not flags.c_contiguous and not flags.f_contiguous:
        copy = np.empty((*value.shape, 2), value.dtype)[..., 0]
    else:
        copy = np.empty(value.shape, value.dtype, "C" if flags.c_contiguous else "F")
    copy[...] = value
    return copy


def _bytes(x: NDArray) -> bytes:
    return np.ascontiguousarray(x).tobytes()


def _on_memory(routine: Function, *args: Any, **kwargs: Any) -> Any:
    """Call a routine on copies, and write back what it changed."""
    called = routine.__name__.removeprefix("function ")
    name = f"scipy.linalg {called}"
    if contains_active(args) or contains_active(kwargs):
        if called[1:] in ROUTINES:
            return ROUTINES[called[1:]](routine, *args, **kwargs)
        raise NotDifferentiableError(
            f"{name} has no derivative rule in cotan; write it with @, np.dot, np.linalg or the "
            "functions of scipy.linalg, or hold its arguments constant with ct.dropgrad"
        )
    targets: list[tuple[Array, NDArray]] = []

    def memory(x: Any) -> Any:
        if not is_array(x):
            return x
        known = next((copy for own, copy in targets if own is x), None)
        if known is None:
            known = _laid_out_alike(x)
            targets.append((x, known))
        return known

    given = [memory(x) for x in args]
    named = {key: memory(x) for key, x in kwargs.items()}
    before = [_bytes(copy) for _, copy in targets]
    results = routine(*given, **named)
    for (own, copy), old in zip(targets, before, strict=True):
        if own._rank == "array" and _bytes(copy) != old:
            assign(name, own, copy)

    def handed(x: object) -> object:
        # A scalar is not written to: what a routine gives instead is its result.
        return next((o for o, copy in targets if x is copy and o._rank == "array"), x)

    return tuple(map(handed, results)) if type(results) is tuple else handed(results)


@functools.cache
def _rule(routine: Function) -> Function:
    return functools.partial(_on_memory, routine)


for _module in _MODULES:
    for _name, _value in list(vars(importlib.import_module(_module)).items()):
        if _is_routine(_value):
            _way = Way.RULE if _name[1:] in ROUTINES else Way.REFUSED
            override(f"{_module}.{_name}", way=_way)(_rule(_value))
