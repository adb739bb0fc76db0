"""Loops that were written out as ONNX's Scan and Loop."""

import numpy as np
import pytest
from onnx_checks import check, onnx
from written_loops import CASES

import cotan as ct


def operators(path):
    return [node.op_type for node in onnx.load(path).graph.node]


@pytest.mark.parametrize(("f", "args"), CASES, ids=lambda v: getattr(v, "__name__", ""))
def test_a_written_loop_is_a_scan(tmp_path, f, args):
    g = lambda *xs: ct.gradient(lambda *ys: np.sum(f(*ys)), *xs)
    check(tmp_path, g, *args, rtol=1e-9, atol=1e-12)
    found = operators(tmp_path / "f.onnx")
    assert {"Scan", "Loop"} & set(found)
    assert len(found) < 100
