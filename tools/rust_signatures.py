"""Stubs of the functions of the compiled module, from their signatures in the bindings' sources.

A `#[pyfunction]` states the types of its parameters and of its result, as Python writes them, in
`#[pyo3(signature = ...)]`. A macro that stamps several functions has a row for each, `name NAME;`.
A result `R | has_aux[S]` is an `R` without the keyword `has_aux`, and an `S` with it.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from cotan import _core

TOP = Path(__file__).resolve().parent.parent
SOURCES = TOP / "rust" / "py" / "src"

_FUNCTION = re.compile(
    r"#\[pyfunction\]\n"
    r"(?P<attributes>(?:(?!\bfn\b)[^;{}])*?)pub(?:\(crate\))? fn (?P<name>\$?\w+)"
)
_SIGNATURE = re.compile(r"signature = \((?P<parameters>.*)\) -> \"(?P<result>[^\"]*)\"", re.DOTALL)
_PARAMETER = re.compile(r'(?P<name>\*{0,2}\w+): "(?P<type>[^"]*)"(?: = (?P<default>[^,]+))?')
_CONSTANTS = {"true": "True", "false": "False"}


def functions() -> Iterator[str]:
    """Give the stubs, file by file."""
    for path in sorted(SOURCES.rglob("*.rs")):
        stubs = list(_of_file(path.relative_to(TOP), path.read_text(encoding="utf-8")))
        if stubs:
            yield f"# {path.relative_to(SOURCES)}\n"
            yield from stubs


def _of_file(path: Path, text: str) -> Iterator[str]:
    for match in _FUNCTION.finditer(text):
        signature = _SIGNATURE.search(match["attributes"])
        if match["name"] == "$name":
            macro = re.findall(r"macro_rules! (\w+)", text[: match.start()])[-1]
            # The elementwise functions are stamped from the primitive table.
            names = _stamped(macro, text)
        else:
            other = re.search(r'name = "(\w+)"', match["attributes"])
            names = [other[1] if other is not None else match["name"]]
        if names and signature is None:
            sys.exit(f"{path}: the signature of {names[0]} has no types")
        for name in names:
            yield _stub(name, signature["parameters"], signature["result"])


def _stamped(macro: str, text: str) -> list[str]:
    """Give the names of the functions that a macro of a file is called with."""
    rows = re.search(
        rf"^{macro}! \{{(.*?)^\}}|^{macro}! \{{([^\n]*)\}}", text, re.MULTILINE | re.DOTALL
    )
    return re.findall(r"(\w+) [A-Z]+;", rows[0]) if rows is not None else []


def _stub(name: str, parameters: str, result: str) -> str:
    function = getattr(_core, name, None)
    if function is None:
        sys.exit(f"{name}: no function of cotan._core; its file has to name it in `exports!`")
    typed = re.sub(_PARAMETER, _parameter, " ".join(parameters.split()))
    about = " ".join(function.__doc__.split("\n\n")[0].split())
    of_aux = re.fullmatch(r"(.*) \| has_aux\[(.*)\]", result)
    if of_aux is None:
        return f'def {name}({typed}) -> {result}:\n    """{about}"""\n'
    without, given = (
        typed.replace("has_aux: bool = False", f"has_aux: {keyword}")
        for keyword in ("Literal[False] = False", "bool")
    )
    return (
        f'@overload\ndef {name}({without}) -> {of_aux[1]}:\n    """{about}"""\n'
        f"@overload\ndef {name}({given}) -> {of_aux[2]}: ...\n"
    )


def _parameter(match: re.Match[str]) -> str:
    default = match["default"]
    rest = "" if default is None else f" = {_CONSTANTS.get(default, default)}"
    return f"{match['name']}: {match['type']}{rest}"
