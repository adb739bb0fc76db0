"""Masks: which leaves of the arguments `wrt=` selects."""

import difflib
import functools
import inspect
import math
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import numpy as np

from cotan import _core
from cotan._src.typing import Dtype, Function

_FORMS = (
    "positions or names of arguments, paths like 'model.layers[*].w', a structure of bools for "
    "each argument, a predicate (path, leaf), or a getter (lambda model: model.w)"
)
_SHOWN = 20


class LeafInfo(NamedTuple):
    """What a predicate given to `Pullback.wrt` sees of a leaf: its values are gone by then."""

    shape: tuple[int, ...]
    dtype: Dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


def argument_names(function: Function, count: int) -> list[str]:
    """Give names to positional arguments: those of the signature where there is one."""
    named = getattr(type(function), "_argument_names", None)
    if named is not None:  # a program
        return _filled(named(function, count), count)
    if type(function) is FunctionType and not function.__dict__:
        # `inspect` takes longer than a short function.
        code, last = function.__code__, function.__code__.co_argcount
        names = list(code.co_varnames[:last])
        if code.co_flags & inspect.CO_VARARGS:
            rest = code.co_varnames[last + code.co_kwonlyargcount]
            names += [f"{rest}[{i}]" for i in range(count - last)]
        return _filled(names, count)
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names = []
    for parameter in parameters:
        if parameter.kind in {parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD}:
            names.append(parameter.name)
        elif parameter.kind == parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}[{i}]" for i in range(count - len(names))]
    return _filled(names, count)


#: Functions that make a derivative, by those that compute one at once.
_GIVE_FUNCTIONS = {"grad", "jacfwd", "jacrev", "value_and_grad"}
_MAKERS = {
    "gradient": "ct.grad(f)",
    "value_and_gradient": "ct.value_and_grad(f)",
    "jacobian": "ct.jacrev(f) or ct.jacfwd(f)",
    "hessian": "ct.jacfwd(ct.grad(f))",
}


def expect_arguments(operation: str, function: Function) -> None:
    """Refuse to differentiate a function without the arguments that it needs."""
    try:
        inspect.signature(function).bind()
    except ValueError:
        return
    except TypeError as error:
        made = _MAKERS.get(operation)
        hint = f"; did you mean {made}, a function of the arguments?" if made else ""
        # What makes a function was given it before.
        given = "(f)(x, ...)" if operation in _GIVE_FUNCTIONS else "(f, x, ...)"
        raise TypeError(
            f"{operation}: the function needs arguments ({error}); write ct.{operation}{given}"
            f"{hint}"
        ) from None


def code_names(code: CodeType, count: int) -> list[str]:
    """Give names to positional arguments of a function, of which only the code is known."""
    names = list(code.co_varnames[: code.co_argcount])
    if code.co_flags & inspect.CO_VARARGS:
        rest = code.co_varnames[code.co_argcount + code.co_kwonlyargcount]
        names += [f"{rest}[{i}]" for i in range(count - len(names))]
    return _filled(names, count)


def _filled(names: list[str], count: int) -> list[str]:
    return (names + [f"arg{i}" for i in range(len(names), count)])[:count]


def listed_arrays(wrt: Any) -> list[_core.Array]:
    """Give the arrays by whose identity a function without arguments is differentiated."""
    items = list(wrt) if isinstance(wrt, (list, tuple, set, frozenset)) else [wrt]
    for item in items:
        if isinstance(item, _core.Array):
            continue
        if isinstance(item, (np.ndarray, np.generic)):
            raise TypeError(
                "wrt: a plain ndarray cannot be a leaf; make it an Array where it is stored "
                "(model.w = ct.array(model.w)), or pass the model as an argument"
            )
        raise TypeError(
            "wrt: the function has no arguments, so wrt must list the ct.Array objects that it "
            f"captures (wrt=[model.w]), not {item!r}"
        )
    return list({id(item): item for item in items}.values())


def select(
    wrt: object,
    names: list[str],
    owner: list[int],
    paths: list[str],
    leaves: Sequence[object],
    able: list[bool],
    stand_ins: tuple[list[object], list[object]] | None = None,
) -> tuple[list[bool] | None, list[object] | None, list[int]]:
    """Say for every leaf whether `wrt` asks for it, or give a structure of bools for each argument.

    `owner` says for each leaf which argument it belongs to, `able` whether it can have a gradient.
    `stand_ins` are the arguments with other leaves, for a getter, and these leaves. The last entry
    lists the arguments that `wrt` asks for as a whole.
    """
    if isinstance(wrt, dict):
        return _structures(_by_name(wrt, names))
    if callable(wrt):
        getter = _parameter(wrt)
        if getter is not None and stand_ins is not None:
            mask = _got(wrt, getter, names, paths, able, *stand_ins)
        else:
            mask = _asked(wrt, paths, leaves, able)
        return mask, None, []
    items = _items(wrt)
    if not items:
        return [False] * len(paths), None, []
    kinds = {_kind(item) for item in items}
    if kinds == {"part"}:
        mask = [False] * len(paths)
        whole = []
        for item in items:
            argument = _argument(item, names)
            if argument is not None:
                whole.append(argument)
                found: Iterable[int] = (i for i, arg in enumerate(owner) if arg == argument)
            else:
                found = _matching(item, paths, leaves, able)
            for i in found:
                mask[i] = True
        return mask, None, whole
    if "array" in kinds:
        raise TypeError(
            "wrt: arrays select by identity only in functions without arguments; give names of "
            f"arguments or paths instead ({', '.join(names)})"
        )
    if "part" in kinds:
        mixed = ", ".join(map(repr, items))
        raise TypeError(f"wrt: positions, names and paths cannot be mixed with masks: {mixed}")
    if len(items) != len(names):
        raise ValueError(
            f"wrt: a mask of {len(items)} entries for {len(names)} arguments ({', '.join(names)})"
        )
    return _structures(items)


def _structures(masks: list[object]) -> tuple[None, list[object], list[int]]:
    return None, masks, [i for i, mask in enumerate(masks) if mask is True]


def _by_name(wrt: dict[Any, object], names: list[str]) -> list[object]:
    unknown = [key for key in wrt if key not in names]
    if unknown:
        raise ValueError(
            f"wrt: the keys of a dict of masks are names of arguments; there is no {unknown[0]!r}, "
            f"there are: {', '.join(names)}. A mask of the only argument must be in a list: "
            "wrt=[...]"
        )
    return [wrt.get(name) for name in names]


def _asked(
    wrt: Callable[[str, Any], object], paths: list[str], leaves: Sequence[object], able: list[bool]
) -> list[bool]:
    found = []
    for path, leaf, can in zip(paths, leaves, able, strict=True):
        found.append(can and _answer(wrt(path, leaf), path))
    return found


def _parameter(function: Callable[..., object]) -> str | None:
    """Give the name of the only parameter of a getter; None for a predicate, which has two."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    parameters = list(signature.parameters.values())
    positional = [p for p in parameters if p.kind in {p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD}]
    required = [p for p in positional if p.default is p.empty]
    variable = any(p.kind == p.VAR_POSITIONAL for p in parameters)
    if variable or len(required) > 1 or not positional or (not required and len(positional) > 1):
        return None
    return positional[0].name


def _got(
    getter: Callable[[Any], object],
    parameter: str,
    names: list[str],
    paths: list[str],
    able: list[bool],
    arguments: list[object],
    marks: list[object],
) -> list[bool]:
    """Mark the leaves of what a getter gives of the argument that it is for."""
    if parameter not in names and len(names) != 1:
        raise ValueError(
            f"wrt: a getter takes the argument that its parameter is named after; {parameter!r} is "
            f"none of {', '.join(names)}"
        )
    at = names.index(parameter) if parameter in names else 0
    found = _core.structure((getter(arguments[at]),)).leaves
    known = {id(mark): i for i, mark in enumerate(marks)}
    mask = [False] * len(paths)
    for leaf in found:
        if id(leaf) not in known:
            raise TypeError(
                f"wrt: a getter must give parts of {names[at]}, as lambda m: (m.w, m.b) does, and "
                "compute nothing with them"
            )
        mask[known[id(leaf)]] = able[known[id(leaf)]]
    if not any(mask):
        possible = [path for path, can in zip(paths, able, strict=True) if can]
        raise ValueError(
            "wrt: what the getter gives has no leaves that can have a gradient; there are: "
            f"{_listed(possible) or 'no leaves at all'}"
        )
    return mask


def _answer(told: object, path: str) -> bool:
    """Give what a predicate said of a leaf; values of leaves are no answer."""
    if isinstance(told, (bool, np.bool_)):
        return bool(told)
    if isinstance(told, (np.ndarray, np.generic, _core.Array, float, complex, LeafInfo)):
        raise TypeError(
            f"wrt: a predicate (path, leaf) must return True or False; for {path} it returned "
            f"{type(told).__name__}"
        )
    return bool(told)


def _items(wrt: Any) -> list[Any]:
    if isinstance(wrt, (bool, np.bool_)):
        raise TypeError(f"wrt: {wrt!r} is neither a position nor a mask; wrt takes {_FORMS}")
    if isinstance(wrt, (str, int, np.integer)):
        return [wrt]
    if isinstance(wrt, (list, tuple, set, frozenset, range)) and not hasattr(wrt, "_fields"):
        return list(wrt)
    if isinstance(wrt, (_core.Array, np.ndarray)):
        return [wrt]
    raise TypeError(
        f"wrt: takes {_FORMS}, not {type(wrt).__name__}; a mask of the only argument must be in a "
        "list: wrt=[...]"
    )


def _kind(item: object) -> str:
    if isinstance(item, (_core.Array, np.ndarray)):
        return "array"
    if isinstance(item, (str, int, np.integer)) and not isinstance(item, bool):
        return "part"
    if isinstance(item, (float, complex)):
        raise TypeError(f"wrt: {item!r} is not a position; wrt takes {_FORMS}")
    return "mask"


def _argument(item: str | int, names: list[str]) -> int | None:
    """Give the argument that a position or a name stands for; None for a pattern."""
    if isinstance(item, str):
        return names.index(item) if item in names else None
    at = operator.index(item)
    if not -len(names) <= at < len(names):
        message = f"wrt: there is no argument {at}; the function has {len(names)}"
        raise ValueError(f"{message} ({', '.join(names)})")
    return at % len(names)


def _matching(
    item: str, paths: list[str], leaves: Sequence[object], able: list[bool]
) -> Iterable[int]:
    """Give the leaves that a pattern stands for."""
    found = matching(item, tuple(paths))
    if not any(able[i] for i in found) and item != "**":
        possible = [path for path, can in zip(paths, able, strict=True) if can]
        constants = [i for i in found if _differentiable(leaves[i])]
        if constants:
            # Nothing but `const` takes a leaf out of a call with a mask.
            narrowed = isinstance(leaves[constants[0]], LeafInfo)
            why = "which the pullback leaves out" if narrowed else "held constant by ct.const"
            raise ValueError(
                f"wrt: {item!r} selects only {_listed([paths[i] for i in constants])}, {why}; no "
                f"mask can undo that; there are: {_listed(possible) or 'no leaves at all'}"
            )
        raise ValueError(_nothing(item, possible, [paths[i] for i in found]))
    return found


def _differentiable(leaf: object) -> bool:
    dtype = getattr(leaf, "dtype", None)
    return isinstance(leaf, (float, complex)) if dtype is None else dtype.kind not in "biuSUOmM"


def _nothing(item: str, possible: list[str], found: list[str]) -> str:
    if found:
        text = f"wrt: {item!r} matches nothing that can have a gradient, only {_listed(found)}, "
        text += "which is not of a floating dtype"
    else:
        text = f"wrt: {item!r} matches nothing"
    known = list(dict.fromkeys(prefix for path in possible for prefix in _prefixes(path)))
    close = difflib.get_close_matches(item, known[:2000], n=3, cutoff=0.7)
    if close:
        text += f"; did you mean {' or '.join(map(repr, close))}?"
    return f"{text}; there are: {_listed(possible) or 'no leaves at all'}"


def _listed(paths: list[str]) -> str:
    shown = ", ".join(paths[:_SHOWN])
    return shown if len(paths) <= _SHOWN else f"{shown}, ... ({len(paths) - _SHOWN} more)"


def _prefixes(path: str) -> list[str]:
    parts = [m.group() for m in _STEP.finditer(path)]
    return ["".join(parts[: i + 1]) for i in range(len(parts))]


# --------------------------------------------------------------------------------------------------
# Paths and patterns

# A step of a path: a name, or a key or index in brackets, which may hold strings and brackets.
_QUOTED = r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\""
_STEP = re.compile(rf"\.?[^.\[\]]+|\[(?:{_QUOTED}|\[(?:{_QUOTED}|[^\[\]])*\]|[^\[\]])*\]")
_NAME = re.compile(r"\[(?:'([^'\\]*)'|\"([^\"\\]*)\")\]")
_END = "\0"
# In a step of a pattern: an escaped star or backslash, a star, other text.
_PIECE = re.compile(r"\\[\\*]|\*+|[^\\*]+|\\")


@functools.lru_cache(maxsize=256)
def matching(pattern: str, paths: tuple[str, ...]) -> tuple[int, ...]:
    """Give the paths that a pattern names, or that lie below what it names."""
    compiled = _compiled(pattern)
    return tuple(i for i, path in enumerate(paths) if compiled.fullmatch(_encoded(path)))


@functools.lru_cache(maxsize=8192)
def _encoded(path: str) -> str:
    """Write a path so that steps can be told apart whatever keys are called."""
    return "".join(m.group().removeprefix(".") + _END for m in _STEP.finditer(path))


def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile a path pattern: `*` matches one step, `**` any number; see `docs/how_to/masks.md`."""
    steps = [m.group() for m in _STEP.finditer(pattern)]
    if not steps or "".join(steps) != pattern or pattern.startswith("."):
        raise ValueError(
            f"wrt: {pattern!r} is not a path; write one like 'model.layers[0].w', with * for one "
            "step and ** for any number of them"
        )
    one, out = f"[^{_END}]+{_END}", ""
    for step in steps:
        text = _plain(step)
        if text == "**":
            out += f"(?:{one})*"
        elif text == "*":
            out += one
        else:
            pieces = _PIECE.findall(text)
            if any(piece.startswith("**") for piece in pieces):
                raise ValueError(
                    f"wrt: in {pattern!r}, ** must be a step of its own, as in '**.bias'; a star "
                    r"in a key is written \*"
                )
            out += "".join(map(_piece, pieces)) + _END
    return re.compile(f"{out}(?:{one})*")


def _piece(piece: str) -> str:
    if piece == "*":
        return f"[^{_END}]*"
    return re.escape("*" if piece == r"\*" else piece)


def _plain(step: str) -> str:
    """Write `['name']` as paths do: like an attribute."""
    named = _NAME.fullmatch(step)
    if named:
        name = named.group(1) if named.group(1) is not None else named.group(2)
        return name if name.isidentifier() else f"[{name!r}]"
    return step.removeprefix(".")


def joined(paths: Sequence[str]) -> list[str]:
    """Write paths below a structure without what leads to it: `w`, not `.w`."""
    return [path.removeprefix(".") for path in paths]
