"""Loops that were written out as ONNX's Scan and Loop."""

import numpy as np
import pytest
from onnx_checks import onnx, run, same

import cotan as ct

XS = np.cos(np.arange(300.0))


def driven(a, xs):
    state, total = 0.0, 0.0
    for x in xs:
        state = np.tanh(a * state + x)
        total = total + state * state
    return total


def operators(path):
    return [node.op_type for node in onnx.load(path).graph.node]


@pytest.mark.parametrize("gradient", [False, True])
def test_a_written_loop_is_a_scan(tmp_path, gradient):
    path = tmp_path / "f.onnx"
    ct.to_onnx(driven, 0.7, XS, path=path, gradient=gradient)
    found = operators(path)
    assert "Scan" in found
    assert len(found) < 40
    wanted = [driven(0.7, XS), *(ct.gradient(driven, 0.7, XS) if gradient else ())]
    for mine, theirs in zip(run(path, 0.7, XS), wanted, strict=True):
        same(mine, theirs, 1e-12)
