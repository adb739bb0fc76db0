"""The pages for users of other libraries: what their tables name runs, and gives the same numbers.

A row has code for the other library on the left, and for cotan on the right. The right side is run
always, the left side where that library is installed (`pip install 'cotan[peers]' optax`).
"""

import ast
import importlib
import importlib.util
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cotan as ct

TOP = Path(__file__).parents[3]
HOW_TO = TOP / "docs" / "how_to"
CODE = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True)
class Page:
    """A page, and how the names of its tables are made for the other library."""

    name: str
    library: str
    setup: str
    also: tuple[str, ...] = ()  # further packages that rows name
    compared: tuple[str, ...] = ()  # variables that the program and its translation end with

    @property
    def is_installed(self) -> bool:
        return all(map(importlib.util.find_spec, (self.library, *self.also)))

    @property
    def text(self) -> str:
        return (HOW_TO / f"coming_from_{self.name}.md").read_text(encoding="utf-8")


JAX = """\
import jax
import jax.ad_checkpoint
import jax.experimental.ode
import jax.export
import jax.flatten_util
import jax.numpy as jnp
import jax.scipy.optimize
import jax.test_util
import optax
from jax import lax
jax.config.update("jax_enable_x64", True)
key = jax.random.key(0)
"""

TORCH = """\
import torch
import torch.nn.functional as F
import torch.utils.checkpoint
torch.set_default_dtype(torch.float64)
torch.manual_seed(0)

def f(x):
    return torch.sum(torch.sin(x) * x)

def g(x):
    return torch.stack([x[0] * x[1], torch.sin(x[0])])

def h(x, c):
    return torch.sum(x * c)

def loss(model, x):
    return torch.sum(model(x) ** 2)

model = torch.nn.Linear(2, 2)
model.load_state_dict(
    {"weight": torch.tensor([[1.0, 2.0], [3.0, 4.0]]), "bias": torch.tensor([0.5, -0.5])}
)
x, v, c = torch.tensor([0.5, 1.0]), torch.tensor([1.0, -1.0]), torch.tensor([0.0, 1.0])
t = x.clone().requires_grad_()
rows = torch.tensor([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
i, labels = torch.tensor([0, 0]), torch.tensor([1, 0, 1])
images, kernels = torch.ones(1, 2, 6, 6), torch.ones(3, 2, 3, 3)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
"""

AUTOGRAD = """\
import autograd
import autograd.extend
import autograd.misc.fixed_points
import autograd.misc.optimizers
import autograd.misc.tracers
import autograd.numpy as np
import autograd.scipy.integrate
import autograd.scipy.signal
import autograd.scipy.special
import autograd.scipy.stats
import autograd.tracer
from autograd import *
from autograd.misc import flatten
from autograd.test_util import check_grads
"""


@dataclass(frozen=True)
class Row:
    page: Page
    heading: str
    left: str
    right: str

    def __str__(self) -> str:
        return f"{self.page.name}-{self.left.replace('`', '')}"


PAGES = [
    Page("jax", "jax", JAX, also=("optax",), compared=("slopes", "first", "params", "data")),
    Page("pytorch", "torch", TORCH, compared=("found",)),
    Page("autograd", "autograd", AUTOGRAD, compared=("first", "weights")),
]


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def source(session):
    """Give the statements of a session without what they print."""
    lines = re.findall(r"^(?:>>>|\.\.\.)(?: |$)(.*)$", session, re.MULTILINE)
    return "\n".join(lines) + "\n"


def definitions(page):
    """Give the session above the first table, which makes the names that the tables use."""
    return source(blocks(page.text.partition("\n| ")[0], "pycon")[-1])


def rows(page):
    """Give the rows of the tables whose right column is about cotan."""
    text = re.sub(r"^```.*?^```", "", page.text, flags=re.MULTILINE | re.DOTALL)
    heading = ""
    inside = False
    for line in text.splitlines():
        if line.startswith("#"):
            heading = line.strip("# ")
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            inside = False
        elif len(cells) == 2 and cells[1] == "cotan":
            inside = True
        elif inside and "---" not in cells:
            yield Row(page, heading, *cells)


def result(code, names):
    """Run statements; give the value of the last one, or of the name that it binds or writes to.

    Of a decorator, it is what stands behind the `@`.
    """
    body = ast.parse(code.removeprefix("@")).body
    last = body[-1]
    if isinstance(last, ast.Expr):
        exec(compile(ast.Module(body[:-1], []), code, "exec"), names)
        return eval(compile(ast.Expression(last.value), code, "eval"), names)
    exec(compile(ast.Module(body, []), code, "exec"), names)
    if not isinstance(last, ast.Assign | ast.AugAssign):
        return None
    target = last.target if isinstance(last, ast.AugAssign) else last.targets[0]
    while isinstance(target, ast.Subscript | ast.Attribute):
        target = target.value
    return names[target.id] if isinstance(target, ast.Name) else None


def numbers(value):
    """Give the arrays and numbers of a result in one list."""
    if value is None or isinstance(value, str | bytes):
        return []
    if isinstance(value, Mapping):
        return [leaf for key in sorted(value, key=str) for leaf in numbers(value[key])]
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in numbers(item)]
    if hasattr(value, "detach"):
        value = value.detach().resolve_conj().numpy()
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        return []
    return [array] if array.dtype.kind in "fciub" else []


def assert_same(a, b):
    assert [x.shape for x in a] == [x.shape for x in b]
    for x, y in zip(a, b, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-6, atol=1e-9)


def results(cell: str, names: dict[str, Any]) -> list[list[Any]]:
    """Run what a cell has in backticks; where it reads `code` is `number`, compare the two."""
    stated = re.fullmatch(r"`([^`]+)` is `([^`]+)`", cell)
    if stated is None:
        return [numbers(result(code, names)) for code in CODE.findall(cell)]
    (value,) = numbers(result(stated[1], names))
    np.testing.assert_array_equal(np.ravel(value), complex(stated[2]))
    return [[]]


def run_here(row: Row) -> list[list[Any]]:
    names: dict[str, Any] = {}
    exec(definitions(row.page), names)
    return results(row.right, names)


def run_there(row: Row) -> list[list[Any]]:
    """Run the left side, with what the page defines made by the other library."""
    page = row.page
    names: dict[str, Any] = {}
    exec(page.setup, names)
    if page.library != "torch":
        names["np"] = importlib.import_module(f"{page.library}.numpy")
        lines = definitions(page).splitlines(keepends=True)
        text = "".join(line for line in lines if "cotan" not in line and "ct." not in line)
        exec(text.replace("import numpy as np", ""), names)
    return results(row.left, names)


ROWS = [row for page in PAGES for row in rows(page)]
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_what_stands_on_the_right_runs(row):
    ours = run_here(row)
    either = re.fullmatch(r"`[^`]+`, or `[^`]+`", row.right)
    if either and all(ours) and row.heading != "Random numbers":
        assert_same(*ours)


@each_page
def test_nearly_all_rows_have_code(page):
    with_code = [row for row in rows(page) if CODE.search(row.right)]
    assert len(with_code) > 30
    assert len(with_code) >= len(list(rows(page))) - 4


INSTALLED = [page for page in PAGES if page.is_installed]
each_installed = pytest.mark.parametrize("page", INSTALLED, ids=lambda page: page.name)
theirs_may_warn = pytest.mark.filterwarnings("ignore")


def compare(row: Row) -> bool:
    """Run both sides of a row; say whether there are numbers in both, which agree.

    As many pieces of code on the right as on the left belong together one by one, else the first.
    """
    theirs, ours = run_there(row), run_here(row)
    pairs = list(zip(theirs, ours, strict=False))
    pairs = [(a, b) for a, b in pairs[: None if len(theirs) == len(ours) else 1] if a and b]
    for a, b in pairs:
        if row.heading != "Random numbers":
            assert_same(a, b)
    return bool(pairs)


@theirs_may_warn
@pytest.mark.parametrize("row", [row for row in ROWS if row.page.is_installed], ids=str)
def test_both_sides_agree(row):
    compare(row)


@theirs_may_warn
@each_installed
def test_many_rows_have_numbers_on_both_sides(page):
    assert sum(map(compare, rows(page))) > 20


@theirs_may_warn
@each_installed
def test_programs_and_their_translations_agree(page):
    exec(page.setup, {})
    texts = [blocks(page.text, language) for language in ("py", "python")]
    missing = set(page.compared)
    for pair in zip(*texts, strict=False):  # some of ours have no original
        original, translated = {}, {}
        for text, names in zip(pair, (original, translated), strict=True):
            exec(text, names)
        for name in missing & original.keys():
            assert numbers(original[name])
            assert_same(numbers(original[name]), numbers(translated[name]))
        missing -= original.keys()
    assert not missing


@theirs_may_warn
def test_functions_of_autograd_numpy_may_stay():
    theirs = pytest.importorskip("autograd.numpy")

    def f(x):
        y = theirs.concatenate([x, theirs.array([x[0] * x[1]])])
        return theirs.sum(theirs.tanh(y)) + theirs.linalg.norm(x)

    x = np.array([0.5, 1.0])
    ct.check_grads(f, (x,))
    np.testing.assert_allclose(ct.grad(f)(x), importlib.import_module("autograd").grad(f)(x))
