"""Old names work, warn at the caller's line, and are gone when they are due."""

import re
import subprocess
import sys
import types
import warnings
from pathlib import Path

import pytest

import cotan as ct
from cotan._src.api import other_names
from cotan._src.runtime.deprecation import OldNames, Renamed, warn_renamed

TOP = Path(__file__).parents[3]


@pytest.fixture
def module(monkeypatch):
    made = types.ModuleType("made")
    made.new = len
    made.part = types.SimpleNamespace(inner=max)
    names = OldNames(
        "made",
        {"old": Renamed("new", "0.2", "0.4"), "deep": Renamed("part.inner", "0.3", "0.5")},
        {"gone": "made.new does it"},
    )
    made.__getattr__ = names.find
    monkeypatch.setitem(sys.modules, "made", made)
    return made


def test_a_renamed_name_works_and_warns_where_it_is_written(module):
    with pytest.warns(DeprecationWarning, match="the old name goes with") as found:
        assert module.old is len
    (warning,) = found
    assert str(warning.message) == (
        "made.old is called made.new since 0.2; the old name goes with 0.4"
    )
    assert warning.filename == __file__
    with pytest.warns(DeprecationWarning, match=r"made\.part\.inner"):
        assert module.deep is max


def test_names_that_are_gone(module):
    with pytest.raises(AttributeError, match="made.new does it") as found:
        module.gone  # noqa: B018
    assert found.value.name == "gone"
    with pytest.raises(AttributeError, match=r"no attribute 'never'\Z"):
        module.never  # noqa: B018


def test_a_keyword():
    def f(x, *, new=None, old=None):
        if old is not None:
            warn_renamed("f(old=)", "f(new=)", Renamed("new", "0.2", "0.4"))
            new = old
        return x, new

    with pytest.warns(DeprecationWarning, match=re.escape("f(old=) is called f(new=)")) as found:
        assert f(1, old=2) == (1, 2)
    assert found[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert f(1, new=2) == (1, 2)


def test_what_is_overdue():
    names = OldNames("m", {"a": Renamed("b", "0.8", "0.10"), "c": Renamed("d", "0.9", "1.0")})
    assert names.overdue("0.9.7") == []
    assert names.overdue("0.10.0rc1") == ["m.a"]
    assert names.overdue("1.0.0") == ["m.a", "m.c"]


def test_no_name_of_this_version_is_overdue():
    assert other_names.OLD_NAMES.overdue(ct.__version__) == []


def test_old_names_are_no_present_ones():
    names = other_names.OLD_NAMES
    assert not {*names.renamed, *names.instead} & {*ct.__all__}
    for known in names.renamed.values():
        assert hasattr(ct, known.now.partition(".")[0])


def test_the_policy_names_the_helper():
    page = (TOP / "docs/contributing/deprecation.md").read_text()
    assert "`python/cotan/_src/runtime/deprecation.py`" in page
    assert "`OldNames`" in page


def test_the_interpreter_names_what_is_meant():
    code = "import cotan as ct; ct.gradiant"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert "Did you mean: 'gradient'?" in done.stderr
