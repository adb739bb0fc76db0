"""Whole programs of many fields that know nothing of cotan; `programs/README.md` says how."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parent / "programs"
PROGRAMS = sorted(path.stem for path in FOLDER.glob("[!_]*.py"))


def load(name):
    """Give a program as a fresh module."""
    if "import scipy" in (source := (FOLDER / f"{name}.py").read_text()) or "from scipy" in source:
        pytest.importorskip("scipy")
    spec = importlib.util.spec_from_file_location(f"programs_{name}", FOLDER / f"{name}.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_folder_is_complete():
    assert len(PROGRAMS) > 60


@pytest.mark.parametrize("name", PROGRAMS)
def test_is_right_in_numpy(name):
    program = load(name)
    program.check()
    value = program.main(*program.ARGUMENTS)
    assert isinstance(value, float)
    assert np.isfinite(value)
