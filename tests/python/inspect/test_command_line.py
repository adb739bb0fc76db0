"""`python -m cotan`."""

import subprocess
import sys

import numpy as np
import pytest

import cotan as ct
from cotan.__main__ import main


@pytest.fixture
def saved(tmp_path):
    _, back = ct.pullback(lambda a, b: a @ b, np.ones((3, 4)), np.ones((4, 2)))
    back.save(tmp_path / "back.cotan")
    return str(tmp_path / "back.cotan")


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "cotan", *arguments], check=False, capture_output=True, text=True
    )


def test_show_a_pullback(saved, capsys):
    assert main(["show", saved]) == 0
    first, text = capsys.readouterr().out.split("\n", 1)
    assert first == f"# {saved}: a pullback of 4 equations, keeps 160 bytes"
    assert text.rstrip() == str(ct.load(saved).program).rstrip()
    assert main(["show", saved, "--mmap"]) == 0


def test_what_is_shown_is_a_program_again(saved, capsys):
    main(["show", saved])
    assert ct.Program.parse(capsys.readouterr().out).equations


def test_show_a_program(tmp_path, capsys):
    ct.trace(lambda x: np.exp(x), 1.0).save(tmp_path / "program")
    assert main(["show", str(tmp_path / "program")]) == 0
    out = capsys.readouterr().out
    assert "a program of 1 equation\n" in out
    assert "exp(" in out


def test_lines_are_shown_where_they_were_recorded(tmp_path, capsys):
    ct.trace(lambda x: np.exp(x), 1.0, lines=True).save(tmp_path / "program")
    assert main(["show", str(tmp_path / "program")]) == 0
    assert "exp(%x)  # test_command_line.py:" in capsys.readouterr().out


def test_a_picture_is_written(saved, tmp_path, capsys):
    assert main(["show", saved, "--svg", str(tmp_path / "back.svg")]) == 0
    assert capsys.readouterr().out == ""
    assert (tmp_path / "back.svg").read_text() == ct.load(saved).to_svg()


def test_what_is_no_saved_pullback_is_named(tmp_path, capsys):
    (tmp_path / "text").write_text("hello")
    assert main(["show", str(tmp_path / "text")]) == 1
    assert capsys.readouterr().err == (
        f"python -m cotan show: {tmp_path / 'text'}: not a valid cotan file: it does not begin "
        "like one\n"
    )


def test_pictures_of_what_was_loaded(saved, capsys):
    assert main(["show", saved, "--dot", "--mermaid"]) == 0
    out = capsys.readouterr().out
    # The first half is known, too.
    assert out.startswith("digraph")
    assert "forward" in out
    assert "flowchart" in out


class Picture:
    """What a picture or a report will be: text, and a page."""

    def __str__(self):
        return "the report"

    def html(self):
        return "<p>the page</p>"


class Drawn:
    """A pullback of a version that has pictures."""

    program = None

    def report(self):
        return Picture()

    def to_dot(self):
        return "digraph {}\n"

    def to_mermaid(self):
        return "graph\n"


def test_reports_and_pictures(saved, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(ct, "load", lambda path, mmap: Drawn())
    out = tmp_path / "page.html"
    assert main(["show", saved, "--report", "--dot", "--mermaid", "--html", str(out)]) == 0
    assert capsys.readouterr().out == "the report\ndigraph {}\ngraph\n"
    assert out.read_text() == "<p>the page</p>"


def test_what_this_version_cannot_show(saved, capsys, monkeypatch):
    class Plain:
        program = None

    monkeypatch.setattr(ct, "load", lambda path, mmap: Plain())
    assert main(["show", saved, "--dot"]) == 1
    err = capsys.readouterr().err
    assert (
        err == "python -m cotan show: --dot: a saved pullback has none in this version of cotan\n"
    )


def test_info(capsys):
    assert main(["info"]) == 0
    lines = dict(line.split(":", 1) for line in capsys.readouterr().out.splitlines())
    assert lines["cotan"].strip() == ct.__version__
    assert lines["numpy"].strip() == np.__version__
    assert lines["simd"].strip() == ct.simd_level()
    assert lines["threads"].strip() == str(ct.num_threads())
    assert {"fft", "linalg"} <= set(lines["features"].strip().split(", "))
    assert {"python", "system", "machine", "devices", "scipy", "onnx"} <= lines.keys()


def test_info_imports_no_optional_package():
    code = (
        "import sys\n"
        "from cotan.__main__ import main\n"
        "main(['info'])\n"
        "assert not {'scipy', 'onnx', 'jax', 'matplotlib'} & sys.modules.keys()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_errors_go_to_stderr_without_a_traceback(tmp_path):
    done = run("show", str(tmp_path / "absent"))
    assert done.returncode == 1
    assert done.stdout == ""
    assert "No such file or directory" in done.stderr
    assert "absent" in done.stderr
    assert "Traceback" not in done.stderr
    (tmp_path / "other").write_bytes(b"hello")
    done = run("show", str(tmp_path / "other"))
    assert done.returncode == 1
    assert "other: not a valid cotan file" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_is_not_understood():
    assert run().returncode == 2
    assert run("draw").returncode == 2
    assert run("show").returncode == 2
    done = run("show", "--help")
    assert done.returncode == 0
    assert "--mermaid" in done.stdout
    assert run("--version").stdout == f"cotan {ct.__version__}\n"


def test_a_reader_that_goes_away(tmp_path):
    functions = np.random.default_rng(0).choice([np.sin, np.cos], 20_000)  # no loop
    program = ct.trace(lambda x: [x := f(x) for f in functions][-1], 1.0)
    program.save(tmp_path / "long")
    command = (
        f"{sys.executable} -m cotan show {tmp_path / 'long'} | head -n 2; echo ${{PIPESTATUS[0]}}"
    )
    done = subprocess.run(["bash", "-c", command], check=False, capture_output=True, text=True)
    assert done.stdout.splitlines()[0].endswith("a program of 20000 equations")
    assert done.stdout.splitlines()[-1] == "0"
    assert done.stderr == ""
