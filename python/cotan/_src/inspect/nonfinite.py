"""Finds the operation and the user's source line that produced the first NaN or infinity."""

import contextlib
import dataclasses
import linecache
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np

from cotan import _core


@dataclasses.dataclass(frozen=True)
class ArrayFacts:
    """What the elements of an array are like."""

    #: The name that the operation gives it (`x`, `y`, ...); empty for a result.
    name: str
    dtype: str
    shape: tuple[int, ...]
    #: The least and the greatest element but for NaN (absolute values of complex ones), or None.
    least: float | None
    greatest: float | None
    #: How many elements are NaN, and how many are infinite.
    nans: int
    infs: int
    #: The first index with what was looked for, or None.
    index: tuple[int, ...] | None
    #: For elementwise operations: the element that the first bad one of the result was made of.
    value: float | complex | None = None

    def __str__(self) -> str:
        text = f"{self.dtype}{list(self.shape) if self.shape else ''}"
        if self.shape == () and self.least is not None:
            return f"{text}, {self.least:g}"
        if self.least is not None:
            same = self.least == self.greatest
            both = f"from {self.least:g} to {self.greatest:g}"
            text += f", all {self.least:g}" if same and not self.nans else f", {both}"
        for count, what in ((self.nans, "NaN"), (self.infs, "infinite")):
            if count:
                text += f", {count} {what}"
        if self.index and (self.nans or self.infs):
            text += f", first at [{', '.join(map(str, self.index))}]"
        return text


class NonFiniteError(FloatingPointError):
    """A result holds NaN or infinity; says which operation made the first one.

    Raised inside `with ct.detect():`. Every attribute is None (or empty) where it does not apply.

    Attributes
    ----------
    kind
        `"nan"` or `"inf"`.
    direction
        `"forward"`, `"backward"`, `"input"` (a value that held it before), or `"unknown"`.
    operation, parameters
        The primitive that made it, and its parameters as programs print them.
    rule, rule_argument
        In the reverse pass: the primitive whose derivative rule wrote that operation, and for
        which of its arguments (a position) it computes the cotangent.
    file, line, function, text
        The user's line: for the reverse pass that of the primal operation.
    arguments
        What the operation was applied to, as `ArrayFacts`.
    argument
        The position of the argument that is to blame, when one alone is.
    made
        `ArrayFacts` of what the operation made, or of the input.
    input
        The path of the argument that held it already.
    result
        `ArrayFacts` of the result that it reached.
    path
        The path of the argument whose gradient that result is; None when it is a value.
    called
        The name of the function that made it, when that is one that is called back: a hook, an
        opaque rule, a function of SciPy's.
    inside
        What was being called back when it was found, as `"the hook clip"`.
    """

    kind: str = "nan"
    direction: str = "unknown"
    operation: str | None = None
    parameters: str = ""
    rule: str | None = None
    rule_argument: int | None = None
    file: str | None = None
    line: int | None = None
    function: str | None = None
    text: str | None = None
    arguments: tuple[ArrayFacts, ...] = ()
    argument: int | None = None
    made: ArrayFacts | None = None
    input: str | None = None
    result: ArrayFacts | None = None
    path: str | None = None
    called: str | None = None
    inside: str | None = None

    #: How tracebacks call it, and where pickles look for it.
    __module__ = "cotan"

    def __str__(self) -> str:
        inside = [f"  while {self.inside} ran as a callback"] if self.inside else []
        return "\n".join([self._first_line(), *inside, *self._source(), *self._operation()])

    def _first_line(self) -> str:
        what = "NaN" if self.kind == "nan" else "infinity"
        where = f"the gradient of {self.path}" if self.path else "a result"
        if self.direction == "input":
            source = f"the argument {self.input}" if self.input else "a value computed before"
            return f"{what} in {where}: {source} already has it ({self.made})"
        if self.direction == "unknown" and self.called is None:
            return f"{what} in {where} ({self.result}): no single operation produces it"
        if self.called is not None:
            return (
                f"{what} in {where}: first produced by {self.called}, a callback (a hook, an "
                "opaque rule, or a function of SciPy)"
            )
        if self.rule is None:
            return f"{what} in {where}: first produced by {self.operation}, in the forward pass"
        if self.operation == "literal":
            return (
                f"{what} in {where}: set by the rule of {self.rule} for its argument "
                f"{self.rule_argument}, in the reverse pass, where there is no derivative"
            )
        return (
            f"{what} in {where}: first produced by {self.operation}, in the reverse pass, by the "
            f"rule of {self.rule} for its argument {self.rule_argument}"
        )

    def _source(self) -> list[str]:
        if self.file is None:
            return []
        lines = [f'  File "{self.file}", line {self.line}, in {self.function}']
        if self.text:
            lines.append(f"    {self.text}")
        return lines

    def _operation(self) -> list[str]:
        if self.operation is None or self.operation == "literal":
            return []
        names = ", ".join(a.name for a in self.arguments)
        made_by = self.called or f"{self.operation}{self.parameters}"
        lines = [f"  {made_by}({names}) = {self.made}"]
        for i, argument in enumerate(self.arguments):
            line = f"    {argument.name}: {argument}"
            if argument.value is not None and argument.shape:
                line += f"; there {argument.value:g}"
            if i == self.argument and len(self.arguments) > 1:
                line += "  <- this one"
            lines.append(line)
        return lines


def found(fields: dict[str, Any]) -> NonFiniteError:
    """Make the exception for what the compiled part has found."""
    error = NonFiniteError()
    made = fields.get("made")
    error.made = ArrayFacts(**made) if made else None
    error.result = ArrayFacts(**fields["result"])
    error.arguments = tuple(ArrayFacts(**a) for a in fields.get("arguments", ()))
    for name in (
        *("kind", "operation", "parameters", "rule", "rule_argument"),
        *("file", "line", "function", "argument"),
    ):
        if name in fields:
            setattr(error, name, fields[name])
    error.path = fields.get("path") or None
    if error.operation == "host":
        # As programs print it: [name=clip] or [name=clip, output=0, of=2].
        error.called = error.parameters[1:-1].removeprefix("name=").partition(",")[0]
    if error.operation is not None:
        error.direction = "backward" if error.rule is not None else "forward"
        if error.called is not None and error.rule is None:
            # A hook runs in the reverse pass, an opaque rule in both.
            error.direction = "unknown"
    elif "input_id" in fields:
        error.direction = "input"
    if error.file is not None and error.line:
        error.text = linecache.getline(error.file, error.line).strip() or None
    error.__dict__["_leaf"] = fields.get("leaf")
    error.__dict__["_input_id"] = fields.get("input_id")
    return error


def name(error: BaseException, leaves: Sequence[str], ids: Mapping[int, str]) -> None:
    """Name arguments by their paths: of the gradient that is bad, and of the input that was."""
    if not isinstance(error, NonFiniteError):
        return
    facts = error.__dict__
    if (leaf := facts.pop("_leaf", None)) is not None:
        error.path = leaves[leaf]
    if (path := ids.get(facts.get("_input_id") or 0)) is not None:
        error.input = path


class detect(contextlib.ContextDecorator):  # noqa: N801 - used like a function
    """Raise an error that names the first operation whose NaN or infinity reaches a result.

    Inside the block, what leaves a run is looked at: the values and gradients that `gradient`,
    `value_and_gradient` and `pullback` return, and every lazy array when it is read. When there is
    a NaN (or an infinity) in it, the same operations are computed once more, one by one, and a
    `NonFiniteError`, which is a `FloatingPointError`, says which one made the first that reached
    the result: its line in your code, its arguments, and in the reverse pass the operation whose
    derivative it belongs to. What is masked away and reaches no result is no error.

    Parameters
    ----------
    nan, inf
        What to look for. `detect(nan=False, inf=False)` inside another block looks for nothing.

    It belongs to the thread that enters it; blocks nest, and the innermost counts. It can decorate
    a function.

    >>> import cotan as ct
    >>> import numpy as np
    >>> with ct.detect():
    ...     ct.gradient(lambda x: np.sum(np.sqrt(x)), np.array([1.0, 0.0]))
    Traceback (most recent call last):
        ...
    cotan.NonFiniteError: infinity in the gradient of x: first produced by div, in the reverse ...
    """

    def __init__(self, *, nan: bool = True, inf: bool = True) -> None:
        for asked, value in (("nan", nan), ("inf", inf)):
            if not isinstance(value, (bool, np.bool_)):
                raise TypeError(f"detect: {asked}= is True or False, not {value!r}")
        self._look = (bool(nan), bool(inf))
        #: The blocks that this object is in: thread, and number of the detection.
        self._begun: list[tuple[int, int]] = []

    def __enter__(self) -> Self:
        number = _core.begin_detection(*self._look)
        self._begun.append((threading.get_ident(), number))
        return self

    def __exit__(self, *_exception: object) -> None:
        own = threading.get_ident()
        for i in range(len(self._begun) - 1, -1, -1):
            if self._begun[i][0] == own:
                _core.end_detection(self._begun.pop(i)[1])
                return
        raise RuntimeError("detect: it is not entered in this thread")


@contextlib.contextmanager
def recorded_lines() -> Iterator[None]:
    """Record which lines operations come from."""
    number = _core.begin_lines()
    try:
        yield
    finally:
        _core.end_detection(number)
