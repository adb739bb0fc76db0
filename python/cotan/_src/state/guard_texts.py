"""Words the values that guards are on, for reports and warnings."""

from types import BuiltinFunctionType, FunctionType, ModuleType

import numpy as np

from cotan import _core

_SHOWN = {float, int, str, bool, complex, bytes, type(None)}
_MAX_TEXT = 60


def described(value: object) -> str:
    """Give a short text for a value that a guard is on; no code of the user's runs."""
    if isinstance(value, (np.ndarray, _core.Array)):
        return f"array of shape {value.shape} and dtype {value.dtype}"
    if isinstance(value, (FunctionType, type, BuiltinFunctionType)):
        return f"{'class' if isinstance(value, type) else 'function'} {value.__qualname__}"
    if isinstance(value, ModuleType):
        return f"module {value.__name__}"
    if type(value) in _SHOWN or isinstance(value, np.generic):
        text = repr(value)
        return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}..."
    return f"{type(value).__qualname__} object"
