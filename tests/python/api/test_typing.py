"""What mypy and editors know of a user's functions behind cotan's: the signatures stay.

Of `gradient`, `value_and_gradient` and `pullback` the type of the value stays. Their arguments are
not checked: a parameter specification leaves no room for `wrt=` beside the arguments of the
function (PEP 612). A `TypeVarTuple` does, but refuses code that works: lambdas with defaults
(`lambda x, i=i: ...`), and functions annotated with `Array` that are called with an ndarray.
"""

import subprocess
import sys

import pytest

pytest.importorskip("mypy", reason="asks mypy about a user's file")

RIGHT = """
from collections.abc import Callable
from typing import Any, assert_type

import numpy as np
import cotan as ct


def loss(w: np.ndarray, scale: float = 1.0) -> float:
    return float(np.sum(w) * scale)


def area(r: float, power: int = 2) -> float:
    return r**power


w: np.ndarray = np.ones(3)
assert_type(ct.const(w), np.ndarray)
assert_type(ct.value_and_gradient(loss, w, 2.0)[0], float)
assert_type(ct.value_and_gradient(area, 2.0, wrt="r")[0], float)
assert_type(ct.pullback(loss, w), tuple[float, ct.Pullback])
assert_type(ct.pullback(lambda w: loss(w), w, wrt=0)[0], float)
assert_type(ct.linearize(loss, w, scale=2.0), tuple[float, ct.Pushforward])
value, back, aux = ct.pullback(lambda w: (loss(w), w), w, has_aux=True)
(value, aux), gradients = ct.value_and_gradient(lambda w: (loss(w), w), w, has_aux=True)
ct.gradient(loss, w, 2.0, wrt="w")
ct.gradient(lambda w, i=2: loss(w) * i, w)
assert_type(ct.checkpoint(loss, w), float)
assert_type(ct.checkpoint(area)(2.0, power=3), float)
assert_type(ct.nograd(loss)(w), float)
assert_type(ct.vmap(loss)(w, 1.0), float)
assert_type(ct.value_and_grad(loss)(w, scale=3.0)[0], float)
ct.grad(loss)(w, scale=3.0)


@ct.adjoint
def norm(x: np.ndarray) -> tuple[float, Callable[[float], Any]]:
    r = float(np.sqrt(np.sum(x * x)))
    return r, lambda dr: dr * x / r


assert_type(norm(w), float)


@ct.prepared(transform="value_and_gradient")
def step(w: np.ndarray, rate: float) -> float:
    return float(np.sum(w) * rate)


assert_type(step(w, 0.1)[0], float)
assert_type(ct.prepare(area, transform="value")(2.0), float)
"""

WRONG = {
    "an argument too many": "ct.grad(loss)(w, 1.0, 2.0)",
    "an unknown name": "ct.value_and_grad(loss)(w, size=2.0)",
    "a wrong type": "ct.nograd(loss)(w, 'large')",
    "a missing argument": "ct.vmap(loss)()",
    "a rule's argument": "norm('text')",
    "a prepared function's": "step(w)",
    "no function": "ct.gradient(w, w)",
    "what wrt does not take": "ct.gradient(loss, w, wrt=1.5)",
    "the value's type": "ct.value_and_gradient(loss, w)[0].upper()",
    "the value's type of a pullback": "ct.pullback(loss, w)[0].upper()",
    "an attribute of a pullback": "ct.pullback(loss, w)[1].size",
}

# As the module says.
UNCHECKED = {
    "an argument too many": "ct.gradient(loss, w, 1.0, 2.0)",
    "an argument's type": "ct.pullback(loss, 'text')",
    "a keyword of the function": "ct.gradient(loss, w, size=2.0)",
}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What mypy says, of one run for all files."""
    folder = tmp_path_factory.mktemp("typing")
    right = RIGHT.replace("np.ndarray", "np.ndarray[Any, Any]")
    for name, calls in (("checked", WRONG), ("unchecked", UNCHECKED)):
        lines = [f"{call}  # {what}" for what, call in calls.items()]
        (folder / f"{name}.py").write_text(right + "\n".join(lines) + "\n")
    files = ["checked.py", "unchecked.py"]
    return subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-incremental", *files],
        capture_output=True, text=True, check=False, cwd=folder,
    ).stdout  # fmt: skip


def errors(found, file):
    places = (line.split(":")[:2] for line in found.splitlines() if ": error:" in line)
    return {int(line) for name, line in places if name == file}


def test_signatures_are_kept(found):
    first = RIGHT.count("\n") + 1
    assert errors(found, "checked.py") == set(range(first, first + len(WRONG))), found


def test_arguments_beside_wrt_are_not_checked(found):
    assert not errors(found, "unchecked.py"), found
    assert "checked 2 source files" in found, found
