"""What a pullback holds and why, and what it never computed."""

import re
import subprocess
import sys

import numpy as np
import pytest

import cotan as ct


@pytest.fixture
def back():
    _, back = ct.pullback(
        lambda x, c, d, e: np.sum(np.exp(x) * np.tanh(c)) + np.sum(d),
        *(np.ones(1000), np.ones(1000), ct.const(np.ones(3)), np.ones(2)),
    )
    return back


def test_what_is_computed_and_what_is_not(back):
    before = back.report()
    assert before.computed == [] and before.never_computed == ["x", "c"]
    assert before.equations_avoided == before.equations > 0
    dx, *_ = back(1.0)
    assert back.report().computed == []
    np.asarray(dx)
    report = back.report()
    assert report.computed == ["x"] and report.never_computed == ["c"]
    assert report.held_constant == ["d"] and report.without_influence == ["e"]
    assert 0 < report.equations_avoided < report.equations
    assert report.bytes_avoided >= 8000
    assert "never computed" in str(report)


def test_what_is_computed_on_the_way_counts(back):
    _, dc, *_ = back(1.0)
    assert float(ct.sum(dc * 2)) > 0
    assert back.report().computed == ["c"]
    assert back.wrt("x").report().computed == []


def test_what_is_held_and_why(back):
    report = back.report()
    assert report.held_bytes == back.nbytes == sum(h.bytes for h in report.held)
    by_name = {h.name: h for h in report.held}
    assert by_name["exp"].kind == "computed" and by_name["exp"].bytes == 8000
    assert set(by_name["exp"].cotangents) == {"x", "c"}
    assert report.bytes_only_for("x") == 0
    narrow = back.wrt("x").report()
    assert [a.state for a in narrow.arguments][1] == "not asked for"


def test_one_array_held_twice_counts_once():
    x = np.ones(100)
    x.flags.writeable = False
    _, back = ct.pullback(lambda x, y: np.sum(x * y), x, x)
    report = back.report()
    assert report.held_bytes == back.nbytes == sum(h.bytes for h in report.held)


def test_arguments_and_constants_are_told_apart():
    scale = np.full(10, 2.0)
    model = {"w": np.ones(10), "k": "text"}
    report = ct.explain(lambda m: np.sum(np.sin(m["w"]) ** 3 * scale), model)
    assert report.never_computed == ["m.w"]
    kinds = {h.kind for h in report.held}
    assert {"computed", "constant"} <= kinds
    report = ct.explain(lambda x, c: np.sum(x * c), np.ones(3), np.ones(3))
    assert [(h.kind, h.what(), h.cotangents) for h in report.held] == [
        *[("argument", "x", ["c"]), ("argument", "c", ["x"])],
    ]


def loss(x):
    y = np.sin(x)
    return np.sum(np.exp(y))


def test_explain_knows_lines():
    report = ct.explain(loss, np.ones(10))
    lines = {h.name: h.line.line for h in report.held if h.line}
    assert lines["exp"] == loss.__code__.co_firstlineno + 2
    assert "test_report.py" in str(report) and report.lines[0] is not None
    assert ct.explain(lambda x, c: x * c, 2.0, 3.0, wrt="x").held_constant == ["c"]


def test_places_for_checkpoints_free_what_they_say():
    def layer(x):
        return np.sin(np.exp(np.sin(x)))

    def chain(f, x):
        for _ in range(9):
            x = f(x)
        return np.sum(x)

    x = np.linspace(0.0, 1.0, 1000)
    _, back = ct.pullback(lambda x: chain(layer, x), x)
    report = back.report()
    assert len(report.checkpoints) == 3
    assert report.checkpoints[0].bytes > 0.2 * back.nbytes
    assert all(0 < place.work <= 0.34 for place in report.checkpoints)
    assert ct.explain(lambda x: x * 2, 1.0).checkpoints == []


def test_the_page_is_whole_and_safe():
    hostile = "<script>alert(1)</script>\"'&"
    _, back = ct.pullback(lambda m: np.sum(m[hostile] ** 2), {hostile: np.ones(3)})
    page = back.report().html()
    assert "<script" not in page and "&lt;script&gt;" in page
    assert not re.search(r"(src|href)=\"(?!data:)", page) and "url(" not in page
    assert page.count('<li class="eqn">') == len(back.forward) + len(back.program)
    framed = back.report()._repr_html_()
    assert framed.count("<") == 2 and "srcdoc=" in framed


def test_the_page_can_be_saved(tmp_path, back):
    back.report().save(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == back.report().html()


def test_many_arguments_are_cut_in_the_text_only():
    report = ct.explain(lambda *xs: sum(x * x for x in xs), *[1.0] * 100)
    assert "... and 60 more" in str(report)
    assert report.html().count('class="leaf"') == 100


def test_errors_are_usual():
    with pytest.raises(TypeError, match="callable"):
        ct.explain(3, 4.0)


def test_explain_hides_no_detection():
    with ct.detect(), pytest.raises(ct.NonFiniteError):
        ct.explain(lambda x: np.sum(np.log(x)), np.array([-1.0]))


def test_lines_of_another_recording_are_not_shown():
    def first(x):
        return np.sum(np.cosh(x) * np.tanh(x))

    def second(x):
        return np.sum(np.cosh(x) * np.tanh(x))

    assert ct.explain(first, np.ones(3)).lines
    _, plain = ct.pullback(second, np.ones(3))
    assert plain.report().lines == []
    at = second.__code__.co_firstlineno + 1
    assert {line for _, line in filter(None, ct.explain(second, np.ones(3)).lines)} == {at}


@pytest.mark.skipif(sys.platform == "win32", reason="no limits on files")
@pytest.mark.parametrize("write", ["back.report().save(path)", "back.to_svg(path)"])
def test_an_old_page_stays_when_the_new_one_does_not_fit(write, tmp_path):
    path = tmp_path / "page"
    path.write_text("old")
    code = (
        "import resource, signal, sys, numpy as np, cotan as ct\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "path = sys.argv[1]\n"
        "_, back = ct.pullback(lambda x: np.sum(np.sin(x) * x), np.ones(3))\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try:\n"
        f"    {write}\n"
        "except OSError as error:\n"
        "    assert error.filename == path, error\n"
        "    print('refused')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, check=False
    )
    assert done.stdout == "refused\n", done.stderr
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["page"]
