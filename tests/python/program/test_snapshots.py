"""Programs of typical gradients, as they were when somebody last looked at them.

A change of a rule or of the optimiser shows here as a change of text. When it is meant, write the
files again with `pytest tests/python/program/test_snapshots.py --update-snapshots`,
and look at the diff.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import cotan as ct

FOLDER = Path(__file__).parents[2] / "snapshots"


class Layer(NamedTuple):
    w: np.ndarray
    b: np.ndarray


def ones(*shape):
    return np.ones(shape)


def network(layers, x, labels):
    for layer in layers[:-1]:
        x = np.tanh(x @ layer.w + layer.b)
    logits = x @ layers[-1].w + layers[-1].b
    picked = logits[np.arange(4), labels]
    return np.mean(ct.logsumexp(logits, axis=1) - picked)


def attention(q, k, v):
    scores = q @ k.T / np.sqrt(8.0)
    weights = np.exp(scores - np.max(scores, axis=1, keepdims=True))
    return weights / np.sum(weights, axis=1, keepdims=True) @ v


def normalised(x, scale, shift):
    centred = x - np.mean(x, axis=-1, keepdims=True)
    return centred / np.sqrt(np.mean(centred**2, axis=-1, keepdims=True) + 1e-5) * scale + shift


def convolution(x, kernel):
    return sum(x[i : i + 8] * kernel[i] for i in range(3))


def likelihood(a, y):
    factor = np.linalg.cholesky(a @ a.T + np.eye(3))
    z = np.linalg.solve(factor, y)
    return -0.5 * np.sum(z**2) - np.sum(np.log(np.diag(factor)))


def recurrence(x):
    out = np.zeros(4)
    for i in range(1, 4):
        out[i] = 0.5 * out[i - 1] + x[i]
    return np.sum(out**2)


LAYERS = [Layer(ones(3, 5), ones(5)), Layer(ones(5, 2), ones(2))]
CASES = {
    "attention": (attention, (ones(4, 8), ones(6, 8), ones(6, 2)), None),
    "branch": (lambda x: np.where(x > 0, np.log(x), 0.0), (ones(4),), None),
    "convolution": (convolution, (ones(10), ones(3)), None),
    "cumulative": (lambda x: np.cumsum(np.exp(x)), (ones(5),), None),
    "fourier": (lambda x: np.sum(np.abs(np.fft.rfft(x)) ** 2), (ones(8),), None),
    "gather": (lambda x, i: x[i] ** 2, (ones(6), np.array([0, 2, 2])), "x"),
    "layer_norm": (normalised, (ones(2, 6), ones(6), ones(6)), None),
    "likelihood": (likelihood, (ones(3, 3), ones(3)), None),
    "logistic": (
        lambda w, x, y: np.sum(np.logaddexp(0, -y * (x @ w))),
        (ones(3), ones(9, 3), ones(9)),
        0,
    ),
    "masked_network": (network, (LAYERS, ones(4, 3), np.array([0, 1, 1, 0])), "layers[1]"),
    "network": (network, (LAYERS, ones(4, 3), np.array([0, 1, 1, 0])), "layers"),
    "product": (lambda a, b: a @ b, (ones(3, 4), ones(4, 2)), None),
    "recurrence": (recurrence, (ones(4),), None),
    "scalars": (lambda x, y: x**3 * np.sin(y) + x / y, (2.0, 3.0), None),
}


def printed(name):
    function, args, wrt = CASES[name]
    _, back = ct.pullback(function, *args, wrt=wrt)
    return f"# forward\n{back.forward}\n# backward\n{back.program}"


@pytest.mark.parametrize("name", CASES)
def test_snapshot(name, request):
    path = FOLDER / f"{name}.txt"
    text = printed(name)
    if request.config.getoption("--update-snapshots"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    told = "run pytest with --update-snapshots, and look at the diff"
    assert path.exists(), f"{path} is missing: {told}"
    assert text == path.read_text(encoding="utf-8"), f"the program has changed: {told}"


@pytest.mark.parametrize("name", CASES)
def test_what_is_printed_reads_back(name):
    function, args, wrt = CASES[name]
    _, back = ct.pullback(function, *args, wrt=wrt)
    for program in (back.forward, back.program):
        again = ct.Program.parse(str(program))
        assert again == program
        assert str(again) == str(program)


def test_there_is_no_other_file():
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(CASES)
