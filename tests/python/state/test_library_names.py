"""What code reads by name: found once, and again where anything of it is another object."""

import builtins
import math
import sys

import numpy as np

from cotan._core import names_read

SCALE = 2.0
HERE = sys.modules[__name__]


def formula(x):
    return SCALE * np.exp(-abs(x)) + math.pi


def printing(x):
    print(x)
    return x


def importing(x):
    import json

    return json.dumps(x)


def test_what_is_of_libraries_is_found_once():
    first = names_read(formula)
    assert first is names_read(formula)
    assert first.is_computing
    assert first.others == ("SCALE",)
    assert {"np", "math"} <= set(first.names)


def test_whatever_is_another_object_is_looked_at_again(monkeypatch):
    first = names_read(formula)
    monkeypatch.setattr(HERE, "SCALE", [1.0])
    assert names_read(formula) is first  # it is no part of what is known
    for owner, name, value in [
        (HERE, "math", np),
        (HERE, "np", math),
        (HERE, "abs", float),
        (builtins, "abs", float),
        (math, "pi", 3.0),
        (np, "exp", np.sin),
    ]:
        before = names_read(formula).key
        with monkeypatch.context() as changed:
            changed.setattr(owner, name, value, raising=False)
            assert names_read(formula).key != before, name
        assert names_read(formula).key == before


def test_what_a_program_puts_on_a_library_is_no_part_of_it(monkeypatch):
    assert "np" in names_read(formula).names
    monkeypatch.setattr(np, "exp", lambda x: x)
    assert "np" in names_read(formula).others


def test_a_name_that_goes_is_noticed(monkeypatch):
    first = names_read(formula)
    monkeypatch.delattr(HERE, "SCALE")
    assert names_read(formula) is not first
    assert "SCALE" not in names_read(formula).others


def test_code_that_does_more_than_compute():
    assert not names_read(printing).is_computing
    assert names_read(importing) is None


def test_functions_of_one_code_in_other_modules():
    other = type(formula)(formula.__code__, {"SCALE": 1.0, "np": math, "math": math})
    assert names_read(other).key != names_read(formula).key
