"""Methods of plain ndarrays and of ufuncs while something is recorded: `table.dot(x)`.

They are compiled, and see their arguments before anybody asks our arrays.
`rust/py/src/interpose/slot_method.rs` calls what is here instead: `dot`, `cumsum` and the like
where an array of ours is an argument (also as `out=`), methods of ufuncs where one is in a list,
`copy` where a program asks for it, since traced values may be written into what it gives.
"""

import sys
from collections.abc import Callable
from types import CodeType
from typing import Any

import numpy as np

from cotan import _core
from cotan._src.numpy.user_subclasses import new_object
from cotan._src.rebind.numpy_substitutes import asarray
from cotan._src.runtime.call_site import position, user_code_calls
from cotan._src.runtime.registry import FUNCTIONS
from cotan._src.runtime.values import is_array


def _dot(self: Any, b: Any, out: Any = None) -> Any:
    if type(self) is not np.ndarray:
        return NotImplemented
    return np.dot(self, b if is_array(b) else asarray(b), out)


def _by_function(name: str) -> Callable[..., Any]:
    function = getattr(np, name)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if type(self) is not np.ndarray:
            return NotImplemented
        # NumPy's own function asks the first argument only, and would call the method again.
        return FUNCTIONS[function](self, *args, **kwargs)

    return method


def _choose(self: Any, *choices: Any, **kwargs: Any) -> Any:
    if type(self) is not np.ndarray:
        return NotImplemented
    return np.choose(self, choices[0] if len(choices) == 1 else choices, **kwargs)


def _compress(self: Any, condition: Any, axis: Any = None, out: Any = None) -> Any:
    if type(self) is not np.ndarray:
        return NotImplemented
    return np.compress(condition, self, axis, out)


# Whether a program's code asks for a copy, by the place in it.
_places: dict[tuple[CodeType, int], bool] = {}
_MOST = 1 << 12


def _copy(self: Any, *args: Any, **kwargs: Any) -> Any:
    # NumPy copies its scalars by this method, too, in an array without axes.
    if type(self) is not np.ndarray or self.ndim == 0 or self.dtype.kind not in "fc":
        return NotImplemented
    frame = sys._getframe(1)
    place = frame.f_code, position(frame)
    asks = _places.get(place)
    if asks is None:
        if len(_places) >= _MOST:
            _places.clear()
        asks = _places[place] = user_code_calls(frame, "copy")
    return _core.buffer(np.ndarray.copy(self, *args, **kwargs), ()) if asks else NotImplemented


def _of_ufuncs(name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        whole = [asarray(a) if isinstance(a, (list, tuple)) and _holds(a) else a for a in args]
        if all(new is a for new, a in zip(whole, args, strict=True)):
            return NotImplemented  # What it holds is in `out=`, which NumPy asks.
        return getattr(self, name)(*whole, **kwargs)

    return method


def _holds(items: Any) -> bool:
    return bool(_core.contains_array((items,), {}))


_core.add_rule(vars(np.ndarray)["__new__"], new_object, "arrays")
_core.add_rule(vars(np.ndarray)["dot"], _dot, "arrays")
_core.add_rule(vars(np.ndarray)["compress"], _compress, "arrays")
_core.add_rule(vars(np.ndarray)["choose"], _choose, "arrays")
for _name in ("cumprod", "cumsum", "repeat", "round", "searchsorted", "take", "trace"):
    _core.add_rule(vars(np.ndarray)[_name], _by_function(_name), "arrays")
_core.add_rule(vars(np.ndarray)["copy"], _copy, "always")
for _name in ("reduce", "accumulate", "reduceat", "outer"):
    _core.add_rule(vars(np.ufunc)[_name], _of_ufuncs(_name), "lists")
