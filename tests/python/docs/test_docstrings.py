"""What is public says what it takes and gives: docstrings, and examples in those of `cotan`."""

import ast
import inspect
import re
from pathlib import Path

import pytest

import cotan as ct
from cotan import _core

PACKAGE = Path(ct.__file__).parent
BINDINGS = Path(__file__).parents[3] / "rust" / "py" / "src"

#: What enters a function as an override: it has the signature, the results and so the documentation
#: of the function that it is entered for. What differs is in its docstring.
ENTERS = re.compile(
    r"override\(|_solver$|_rule$|_decided\(|_for_polynomials\(|probes_callback\(|of_items\(|"
    r"overload$|typing\.overload$"
)


# A predicate whose name is its documentation.
SAYS_IT_ALL: set[str] = set()


def undocumented(path):
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if not isinstance(node, (ast.FunctionDef, ast.ClassDef)) or node.name.startswith("_"):
            continue
        decorators = [ast.unparse(d) for d in node.decorator_list]
        if not any(map(ENTERS.match, decorators)) and ast.get_docstring(node) is None:
            yield f"{path.relative_to(PACKAGE)}: {node.name}"


def test_public_functions_and_classes_have_docstrings():
    paths = sorted(PACKAGE.rglob("*.py"))
    assert {name for path in paths for name in undocumented(path)} <= SAYS_IT_ALL


# Classes of errors, whose examples are those of what raises them, a text, and a number that the
# example of `isderiving` explains.
WITHOUT_EXAMPLE = {"NonFiniteError", "NotDifferentiableError", "__version__", "nestlevel"}
# Each is documented by its entry in the table of primitives.
PRIMITIVES = {entry["name"] for entry in _core.table()} | {
    f"{entry['name']}_to" for entry in _core.table()
}


def doc_in_bindings(name):
    """Give the documentation of a function or class of the bindings, from its source."""
    begins = re.compile(rf'(pub fn {name}\b|#\[pyclass\([^\n]*name = "{name}")')
    for path in BINDINGS.rglob("*.rs"):
        text = path.read_text(encoding="utf-8")
        found = begins.search(text)
        above = text[: found.start()] if found else ""
        block = re.search(r"(?:^///.*\n)+(?:^#\[.*\n|^ .*\n|^\)\]\n)*\Z", above, re.MULTILINE)
        if block is not None:
            return block[0]
    return ""


@pytest.mark.parametrize("name", sorted({*ct.__all__} - WITHOUT_EXAMPLE - PRIMITIVES))
def test_public_names_have_an_example(name):
    value = getattr(ct, name)
    doc = inspect.getdoc(value) or ""
    if ">>>" not in doc and not inspect.isfunction(value):
        doc = doc_in_bindings(name)
    assert ">>> " in doc


@pytest.mark.parametrize(
    "module", [ct.implicit, ct.nn, ct.random], ids=lambda module: module.__name__
)
def test_public_modules_have_examples_for_their_functions(module):
    assert ">>> " in inspect.getdoc(module)
    for name in {*module.__all__} - PRIMITIVES:
        assert ">>> " in inspect.getdoc(getattr(module, name)), name


PUBLIC_MODULES = [ct.implicit, ct.jax, ct.nn, ct.optim, ct.optimize, ct.random, ct.torch]


@pytest.mark.parametrize(
    ("module", "name"),
    [(m, name) for m in PUBLIC_MODULES for name in m.__all__ if name not in PRIMITIVES],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_names_of_public_modules_have_an_example(module, name):
    assert ">>> " in (inspect.getdoc(getattr(module, name)) or "")


# They refuse, or are what Python's and NumPy's numbers have.
REFUSING = re.compile("Refuse: |What `")


@pytest.mark.parametrize("cls", [ct.Array, ct.Program, ct.Pullback], ids=lambda cls: cls.__name__)
def test_methods_attached_in_python_have_an_example(cls):
    for name, value in vars(cls).items():
        function = value.fget if isinstance(value, property) else value
        if name.startswith("_") or not (inspect.isfunction(function) or inspect.isclass(function)):
            continue
        doc = inspect.getdoc(value) or ""
        assert REFUSING.match(doc) or ">>> " in doc, name
