"""The layers of the Python package: which package may import which."""

import ast
import graphlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import cotan
from cotan import _core
from cotan._src import hooks

TOP = Path(cotan.__file__).parent
SRC = TOP / "_src"

# A package may import itself and those that stand behind it.
ORDER = [
    *("hooks", "bench", "parallel", "interop", "pytensor", "optimize", "optim", "nn", "random"),
    *("api", "c_code", "onnx", "inspect", "program"),
    *("scipy", "thirdparty", "stdlib", "array"),
    *("numpy", "special", "interpose", "kit", "state", "rebind", "runtime", "tree"),
    "typing",
]

# The bindings, which any module may import; nothing else that the package has outside of `_src`.
COMPILED = "cotan._core"

MODULES = {
    ".".join(("cotan", *path.relative_to(TOP).with_suffix("").parts)): path
    for path in sorted(TOP.rglob("*.py"))
    if path.name != "__init__.py"
}


def imports(path: Path) -> Iterator[str]:
    """Give the modules of cotan that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        assert not (isinstance(node, ast.ImportFrom) and node.level), "imports name their package"
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            below = [f"{node.module}.{alias.name}" for alias in node.names]
            known = {*MODULES, COMPILED}
            names = [name if name in known else str(node.module) for name in below]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            # What is handed to `import_module`.
            names = [node.value] if node.value in MODULES else []
        else:
            continue
        yield from (name for name in names if name.partition(".")[0] == "cotan")


def layer(module: str) -> str:
    return module.split(".")[2]


@pytest.mark.parametrize("module", [m for m in MODULES if m.startswith("cotan._src.")])
def test_imports_point_down(module):
    for other in imports(MODULES[module]):
        if other == COMPILED:
            continue
        assert other.startswith("cotan._src."), f"{module} imports {other}, which is public"
        assert ORDER.index(layer(other)) >= ORDER.index(layer(module)), (
            f"{module} imports {other}, which is above it"
        )


def test_no_circle_of_modules():
    graph = {module: set(imports(path)) & set(MODULES) for module, path in MODULES.items()}
    graphlib.TopologicalSorter(graph).prepare()


def test_every_package_has_a_place_in_the_order():
    packages = {path.name for path in SRC.iterdir() if path.is_dir() and path.name[0] != "_"}
    files = {path.stem for path in SRC.glob("*.py")} - {"__init__"}
    assert packages | files == set(ORDER)


def test_public_modules_stand_at_the_top():
    names = {path.stem for path in TOP.glob("*.py")} - {"__init__", "__main__"}
    assert names == {
        *("numpy", "math", "debug", "optim", "optimize", "nn", "parallel", "random", "implicit"),
        *("jax", "pytensor", "torch"),
    }


def test_every_package_says_what_it_is_for():
    for path in SRC.rglob("__init__.py"):
        tree = ast.parse(path.read_text())
        assert ast.get_docstring(tree), path
        assert len(tree.body) == 1, f"{path} has code: a package is only a place"


def handed_over(monkeypatch):
    """Give the hooks that the package hands to the bindings."""
    objects = {}
    monkeypatch.setattr(hooks, "_core", SimpleNamespace(array=None, set_hooks=objects.update))
    hooks.set_hooks()
    return objects


def test_a_hook_that_is_missing_is_an_error_with_its_name(monkeypatch):
    objects = handed_over(monkeypatch)
    del objects["class_layout"]
    with pytest.raises(ImportError, match="hook class_layout has not been set"):
        _core.set_hooks(**objects)


def test_a_hook_that_nobody_knows_is_an_error_with_its_name(monkeypatch):
    with pytest.raises(ImportError, match="no hook no_such_hook"):
        _core.set_hooks(**handed_over(monkeypatch), no_such_hook=len)
