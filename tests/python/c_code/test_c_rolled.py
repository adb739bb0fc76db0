"""Loops that were written out as loops in C."""

import numpy as np
import pytest
from c_checks import check, needs_compiler
from written_loops import CASES

import cotan as ct

pytestmark = needs_compiler


@pytest.mark.parametrize(("f", "args"), CASES, ids=lambda v: getattr(v, "__name__", ""))
def test_a_written_loop_is_a_for(tmp_path, f, args):
    g = lambda *xs: ct.gradient(lambda *ys: np.sum(f(*ys)), *xs)
    check(tmp_path, g, *args, rtol=1e-9, atol=1e-12)
    lines = (tmp_path / "f.c").read_text().splitlines()
    assert any("for (" in line for line in lines)
    assert len(lines) < 600
