"""`%%cotan` in a real IPython shell."""

import re
from types import SimpleNamespace

import numpy as np
import pytest

import cotan as ct
from cotan._src.inspect.source_table import source_table

LOSS = """\
import numpy as np
import cotan as ct

w, x = np.full((5, 4), 0.1), np.ones((30, 5))

def loss(w, x):
    hidden = np.tanh(x @ w)

    return np.mean(np.sum(hidden, axis=1) ** 2)
"""
CALL = "(dw, _) = ct.gradient(loss, w, ct.const(x))\ndw.shape"


@pytest.fixture
def shell(tmp_path, monkeypatch):
    pytest.importorskip("IPython", reason="IPython is not installed")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    shell = InteractiveShell(config=Config({"HistoryManager": {"enabled": False}}))
    shell.run_line_magic("load_ext", "cotan")
    run(shell, LOSS)
    # `%precision` is for all arrays of the process.
    with np.printoptions():
        yield shell


def run(shell, cell):
    return shell.run_cell(cell, store_history=True)


def test_lines_of_the_function_have_times(shell, capsys):
    found = run(shell, f"%%cotan\n{CALL}")
    assert found.result == (5, 4)
    out = capsys.readouterr().out
    assert re.search(r"running programs, .* planning, .* in Python and recording\n", out)
    assert re.search(r"\nloss in (Cell In\[1\]|<ipython-input-1-.*>)\n forward  backward", out)
    # Both lines have a time of their own and one of their rules; the blank one between has none.
    assert re.search(r"[mµ]s +[\d.]+ [mµ]s +\d+%  7     hidden = np.tanh\(x @ w\)\n", out)
    assert re.search(r"\n +8\n", out)
    assert re.search(r"[mµ]s +[\d.]+ [mµ]s +\d+%  9     return np.mean", out)
    assert "primitive" not in out


def test_the_value_is_the_result(shell, capsys):
    run(shell, f"%%cotan\n{CALL}")
    assert shell.user_ns["Out"][2] == (5, 4)
    assert shell.user_ns["dw"].shape == (5, 4)
    assert run(shell, f"%%cotan\n{CALL};").result is None
    assert run(shell, "%cotan ct.gradient(loss, w, ct.const(x))[0].shape").result == (5, 4)
    assert "hidden = np.tanh" in capsys.readouterr().out


def test_functions_of_the_cell_itself(shell, capsys):
    run(shell, "%%cotan\ndef f(x):\n    return np.sum(np.exp(x))\n_ = ct.gradient(f, w)")
    out = capsys.readouterr().out
    assert re.search(r"\nf in (Cell In\[2\]|<ipython-input-2-.*>)\n", out)
    assert re.search(r"100%  2     return np.sum\(np.exp\(x\)\)\n", out)


def test_options(shell, tmp_path, capsys):
    picture = tmp_path / "a picture.svg"
    run(shell, f"%%cotan --save '{picture}' --into work --primitives\n{CALL}")
    out = capsys.readouterr().out
    assert picture.read_text().startswith("<svg")
    assert f"written: {picture}" in out
    assert re.search(r"\n +time  share  equations  primitive\n", out)
    assert isinstance(shell.user_ns["work"], ct.profile)
    assert shell.user_ns["work"].equations["tanh"] == 1


def test_an_error_reaches_the_shell(shell, capsys):
    found = run(shell, f"%%cotan\n{CALL}\nraise KeyError('mine')")
    assert isinstance(found.error_in_exec, KeyError)
    assert "hidden = np.tanh" in capsys.readouterr().out
    found = run(shell, "%%cotan\nthis is no Python")
    assert not found.success


def test_what_is_not_understood(shell, capsys):
    assert run(shell, "%%cotan --nothing\nran = True").success
    out = capsys.readouterr().out
    assert "%%cotan: unrecognized arguments: --nothing" in out
    assert "usage: %%cotan" in out
    assert "ran" not in shell.user_ns
    run(shell, "%%cotan --save 'half\nran = True")
    assert "ran" not in shell.user_ns
    run(shell, "%cotan")
    assert "--save FILE" in capsys.readouterr().out


def test_lazy_cotangents_that_nobody_reads(shell, capsys):
    run(shell, "%%cotan\npass")
    assert "Nothing was computed: cotangents are lazy" in capsys.readouterr().out


def test_magics_of_the_shell_work_inside(shell, capsys):
    found = run(shell, f"%%cotan\n%precision 3\n{CALL}")
    assert found.success
    assert found.result == (5, 4)


def test_long_gaps_and_many_functions():
    def work(line, seconds=1e-3, function="f", rule=None):
        place = {"file": __file__, "line": line, "function": function}
        return SimpleNamespace(seconds=seconds, rule=rule, **place)

    lines = source_table([work(1), work(30), work(32, rule="sin")]).splitlines()
    assert lines[0] == "f in test_ipython_magic.py"
    assert [line.strip() for line in lines[3:4]] == ["⋮"]
    assert lines[5].strip() == "31" or lines[5].strip().startswith("31 ")
    assert "1 ms" in lines[6][10:18]
    assert "1 ms" not in lines[6][:8]
    text = source_table([work(1, 1e-3 * k, f"f{k}") for k in range(7)])
    assert text.startswith("f6 in")
    assert text.endswith("(2 more functions)")


def test_what_has_no_line_is_in_the_whole():
    rows = [
        SimpleNamespace(seconds=3.0, file=None, line=None, function=None, rule=None),
        SimpleNamespace(seconds=1.0, file=__file__, line=1, function="f", rule=None),
    ]
    assert "25%" in source_table(rows)
    assert source_table(rows[:1]) == ""


def test_without_ipython_the_name_is_there():
    """IPython asks for it; importing cotan imports no IPython."""
    assert callable(ct.load_ipython_extension)
    assert np.sum(ct.gradient(lambda x: x * x, 1.0)) == 2.0
