"""Writes files of the present format beside this one, once: they are never written again.

    python tests/data/saved/write.py

The tests load all that are there, and compare with the numbers of the time when they were written.
"""

import pickle
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import cotan as ct

FORMAT = "1.0"
HERE = Path(__file__).parent


@dataclass
class Layer:
    w: np.ndarray
    b: np.ndarray


def network(layers, x):
    """Give something with residuals of several shapes."""
    for layer in layers:
        x = np.tanh(layer.w @ x + layer.b)
    return x


def everything(p, x):
    """Use primitives with parameters of many kinds."""
    rows = np.stack([np.cumsum(x, axis=1)[:, ::-1], np.sort(x, axis=1) * p["a"]])
    picked = rows[:, np.array([1, 0]), 1:3] + np.mean(x) ** p["b"][0]
    return np.sum(np.where(picked > 0, np.log(np.abs(picked) + 1), picked)) * np.exp(1j * p["b"][1])


def leaves(tree):
    """Give the arrays of cotangents, in order."""
    if isinstance(tree, ct.Tangent):
        tree = list(tree._fields.values())
    if isinstance(tree, dict):
        tree = list(tree.values())
    if type(tree) is not ct.Array and isinstance(tree, (list, tuple)):
        return [leaf for item in tree for leaf in leaves(item)]
    return [] if tree is None else [tree]


def numbers(back, dy):
    """Give what the pullback of a file is compared with."""
    found = {f"ct{i}": np.asarray(leaf) for i, leaf in enumerate(leaves(back(dy)))}
    return {"dy": dy, **found}


def write(name, save, expected):
    """Write a file and its numbers, unless they are there."""
    path = HERE / f"format-{FORMAT}-{name}"
    if not path.exists():
        save(path)
        np.savez(path.with_suffix(".npz"), **expected)


def main():
    """Write them all."""
    rng = np.random.default_rng(3)
    layers = [
        Layer(rng.normal(size=(3, 4)), rng.normal(size=3)),
        Layer(rng.normal(size=(2, 3)), 0.5),
    ]
    _, back = ct.pullback(network, layers, rng.normal(size=4))
    write("network.cotan", back.save, numbers(back, np.ones(2)))

    parameters = {"a": 2.0, "b": [np.float64(3.0), 0.25], "name": "text"}
    _, back = ct.pullback(everything, parameters, rng.normal(size=(3, 4)))
    write("everything.cotan", back.save, numbers(back, np.complex128(1 - 2j)))
    expected = numbers(back, np.complex128(1 - 2j))
    write("structure.pickle", lambda path: path.write_bytes(pickle.dumps(back, 5)), expected)

    x = rng.normal(size=5).astype(np.float32)
    scale = x[::-1].copy()
    program = ct.trace(lambda x: np.sum(np.sinh(x) * scale), x)
    write("program.cotan", program.save, {"x": x, "y": program(x)})


if __name__ == "__main__":
    main()
