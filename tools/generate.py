"""Write the files that are made from the primitive table, or check that they are current.

    python tools/generate.py          write them
    python tools/generate.py --check  exit with 1 and name the first stale one

The compiled module has to be built from the present sources: its table is what is read.
"""

import argparse
import ast
import inspect
import re
import subprocess
import sys
import textwrap
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import coverage_page
import rust_signatures
import scipy_table

from cotan import _core
from cotan._src.onnx.windows import TAPWISE

TOP = Path(__file__).resolve().parent.parent
TEMPLATE = TOP / "tools" / "_core.pyi.template"
COVERAGE = TOP / "docs" / "reference" / "coverage.md"
SCIPY = TOP / "docs" / "reference" / "scipy.md"
COMMAND = "make generate"

METHODS = "    # generated: methods of Array"

Entry = dict[str, Any]

CLASSES = {
    "elementwise": "acts on each element; arguments broadcast",
    "linear": "linear in its floating arguments; the reverse pass applies the transposed map",
    "general": "anything else; both derivatives are written by hand",
}

TYPES = {
    "any": "every dtype",
    "number": "every dtype but bool",
    "real": "every dtype but complex",
    "real number": "integer and float",
    "quotient": "float and complex; integers become float64",
    "inexact": "float and complex; integers become float",
    "float": "float; integers become float",
    "logical": "every dtype, compared with zero",
    "integer": "bool and integer",
    "integer number": "integer",
    "complex": "complex",
}

COSTS = {
    "free": "a change of layout",
    "cheap": "an instruction or two for each element",
    "dear": "tens of instructions for each element",
    "heavy": "more than one pass over the elements",
}


def python_name(entry: Entry) -> str | None:
    """Give the public function that applies a primitive; None when there is none."""
    for name in (entry["name"], f"{entry['name']}_to"):
        if hasattr(_core, name):
            return str(name)
    return None


def natural(name: str) -> list[tuple[str, int]]:
    """Give the key by which `log2` stands before `log10`."""
    return [(text, int(number or 0)) for text, number in re.findall(r"(\D+)(\d*)", name)]


def functions(table: list[Entry]) -> str:
    """Give `api.functions`: every function of the table, imported by name."""
    all_names = {e["name"] for e in table} | {f"{e['name']}_to" for e in table}
    present = (n for n in all_names if hasattr(_core, n) and n != "dropgrad")
    names = sorted(present, key=natural)
    lines = "".join(f"    {name},\n" for name in names)
    listed = "".join(f'    "{name}",\n' for name in names)
    return (
        '"""The functions of the primitive table. Written by tools/generate.py."""\n\n'
        "# ruff: noqa: A004 - NumPy has these names too\n\n"
        f"from cotan._core import (\n{lines})\n\n__all__ = [\n{listed}]\n"
    )


def definition(function: object) -> ast.FunctionDef:
    """Give a function as its source has it, where types are names and not what they stand for."""
    if isinstance(function, types.MethodWrapperType) and isinstance(function.__self__, property):
        function = function.__self__.fget  # of a property that lends its getter to another one
    if not isinstance(function, types.FunctionType):
        sys.exit(f"{function} has no source, from which to take its types")
    node = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    if not isinstance(node, ast.FunctionDef) or node.returns is None:
        sys.exit(f"{function.__qualname__} does not say what it returns")
    return node


def unparsed(node: ast.AST | None) -> str:
    """Give an annotation as written, `Any` where there is none."""
    return "Any" if node is None else ast.unparse(node)


def method(name: str, function: types.FunctionType) -> str:
    """Give the stub of a method: types as written, `self` without one."""
    node = definition(function)
    [*node.args.posonlyargs, *node.args.args][0].annotation = None
    # `__pow__` has a third argument that no operator gives.
    ignored = "  # type: ignore[misc]" if name == "__ipow__" else ""
    return f"    def {name}({unparsed(node.args)}) -> {unparsed(node.returns)}: ...{ignored}"


def of_property(name: str, value: property) -> Iterator[str]:
    """Give the stub of a property: of a class, or of what the function returns that gets it."""
    get = value.fget
    made = get.__name__ if isinstance(get, type) else unparsed(definition(get).returns)
    yield f"    @property\n    def {name}(self) -> {made}: ..."
    if value.fset is not None:
        taken = unparsed(definition(value.fset).args.args[1].annotation)
        yield f"    @{name}.setter\n    def {name}(self, value: {taken}) -> None: ..."


def methods(template: str) -> Iterator[str]:
    """Give stubs of what the Python side adds to `Array`, but for those that the template has."""
    stated = template.partition("class Array:")[2].partition(METHODS)[0]
    for name, value in sorted(vars(_core.Array).items()):
        if f"    def {name}(" in stated:
            continue
        if isinstance(value, property):
            yield from of_property(name, value)
        elif isinstance(value, types.FunctionType):
            yield method(name, value)


def elementwise(table: list[Entry]) -> Iterator[str]:
    """Give stubs of the elementwise functions."""
    for entry in table:
        if entry["class"] == "elementwise":
            arguments = ", ".join(f"{a}: _Values" for a in entry["args"])
            doc = " ".join(entry["doc"].split())
            yield f'def {entry["name"]}({arguments}, /) -> Array:\n    """{doc}"""\n'


def stub(table: list[Entry]) -> str:
    """Give `_core.pyi`: the template with the generated parts in it."""
    text = (
        "# Written by tools/generate.py from tools/_core.pyi.template, the signatures in rust/py\n"
        "# and the primitive table.\n"
    )
    template = TEMPLATE.read_text(encoding="utf-8")
    text += template
    parts = {
        METHODS: "\n".join(methods(template)),
        "# generated: functions": "".join(rust_signatures.functions()).rstrip(),
        "# generated: elementwise primitives": "\n".join(elementwise(table)).rstrip(),
    }
    for marker, part in parts.items():
        if text.count(marker) != 1:
            sys.exit(f"{TEMPLATE.relative_to(TOP)}: expected one line {marker.strip()!r}")
        text = text.replace(marker, part)
    return text


def formatted(text: str, name: str) -> str:
    """Format Python sources as the rest of the repository is."""
    ruff = Path(sys.executable).with_name("ruff")
    command = [str(ruff), "format", "--stdin-filename", name, "-"]
    done = subprocess.run(
        command, cwd=TOP, input=text, stdout=subprocess.PIPE, text=True, check=True
    )
    return str(done.stdout)


def cell(text: str) -> str:
    """Give a text as a cell of a Markdown table."""
    return text.replace("|", "\\|")


def written(entry: Entry, template: str) -> str:
    """Give an expression with the names of arguments and parameters in it."""
    if entry["args"] == ["x..."]:
        template = template.replace("[{0}, {1}]", "arrays")
    for i, argument in enumerate(entry["args"]):
        template = template.replace(f"{{{i}}}", argument)
    return re.sub(r"\{(\w+)\}", r"\1", template)


def section(entry: Entry) -> str:
    """Give the section of one primitive."""
    name, function = entry["name"], python_name(entry)
    rows = [f"Class: {entry['class']}."]
    if function is not None:
        prefix = f"`cotan.{function}{inspect.signature(getattr(_core, function))}`"
        rows.append(f"Function: {prefix.replace('=Ellipsis', '=-1').replace(', /)', ')')}.")
    else:
        rows.append("Function: none of its own; it appears in programs.")
    if entry["types"] is not None:
        rows.append(f"dtypes: {TYPES[entry['types']]}.")
    rows.append(f"Differentiable: {'yes' if entry['differentiable'] else 'no'}.")
    rows.append(f"Cost: {COSTS[entry['cost']]}.")
    numpy, wgsl = written(entry, entry["numpy"]), written(entry, entry["wgsl"] or "")
    rows.append(f"NumPy: `{numpy}`." if numpy else "NumPy: no single expression.")
    onnx = entry["onnx"] or (f"several operators ({name})" if name in TAPWISE else None)
    rows.append(f"ONNX: {onnx}." if onnx else f"ONNX: none; {entry['onnx_reason']}.")
    rows.append(f"WGSL: `{wgsl}`." if wgsl else f"WGSL: none; {entry['wgsl_reason']}.")
    listed = "".join(f"- {row}\n" for row in rows)
    doc = "\n".join(line.strip() for line in entry["doc"].splitlines())
    return f"## {name}\n\n{doc}\n\n{listed}"


def reference(table: list[Entry]) -> str:
    """Give the reference page of all primitives."""
    text = (
        "<!-- Written by tools/generate.py. -->\n\n# Primitives\n\n"
        "Every operation of a program is one of these. The page is generated from the table in\n"
        "`rust/core/src/ops`, as are the Python functions, their stubs and their tests. There\n"
        "are three classes:\n\n"
    )
    text += "".join(f"- *{name}*: {what}.\n" for name, what in CLASSES.items())
    text += (
        "\n`to_onnx` writes the ONNX forms; GPUs run the WGSL forms.\n"
        "\n| primitive | class | derivative | what it is |\n| --- | --- | --- | --- |\n"
    )
    for entry in table:
        first = " ".join(entry["doc"].split()).split(". ")[0].rstrip(".")
        there = "yes" if entry["differentiable"] else "no"
        name = entry["name"]
        text += f"| [{name}](#{name}) | {entry['class']} | {there} | {cell(first)} |\n"
    return text + "\n" + "\n".join(section(entry) for entry in table)


def covered(table: list[Entry]) -> str:
    """Give the page on coverage, as it is while other versions than its own are installed."""
    del table
    present = COVERAGE.read_text(encoding="utf-8") if COVERAGE.exists() else ""
    about = re.search(r"^For (.*)\. Generated", present, re.MULTILINE)
    if about and about[1] != coverage_page.versions():
        print(f"{COVERAGE.relative_to(TOP)}: not compared; it is for {about[1]}")
        return present
    return coverage_page.page()


def scipy_page(table: list[Entry]) -> str:
    """Give SciPy's page with its table; as it is where it is about another version."""
    del table
    page = SCIPY.read_text(encoding="utf-8")
    current = coverage_page.versions() in COVERAGE.read_text(encoding="utf-8")
    return scipy_table.filled(page) if current else page


def outputs() -> dict[Path, Callable[[list[Entry]], str]]:
    """Give what is written, and how."""
    return {
        TOP / "python" / "cotan" / "_core.pyi": stub,
        TOP / "python" / "cotan" / "_src" / "api" / "functions.py": functions,
        TOP / "docs" / "reference" / "primitives.md": reference,
        COVERAGE: covered,
        SCIPY: scipy_page,
    }


def main() -> None:
    """Write the files, or name the first stale one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="compare only")
    check = parser.parse_args().check
    table = _core.table()
    for path, make in outputs().items():
        text = make(table)
        if path.suffix != ".md":
            text = formatted(text, path.name)
        current = path.read_text(encoding="utf-8") if path.exists() else None
        if current == text:
            continue
        if check:
            sys.exit(f"{path.relative_to(TOP)} is not what the table gives; run `{COMMAND}`")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(TOP))


if __name__ == "__main__":
    main()
