"""Profiles say truly which primitive and which line took the time."""

import json
import threading
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import cotan as ct

X = np.linspace(0.1, 1.0, 300)


def loss(x):
    y = np.sin(x)
    z = np.exp(y) * y
    return np.sum(z)


def other(x):
    a = np.sin(x)
    b = np.exp(a) * a
    return np.sum(b)


FIRST = loss.__code__.co_firstlineno


def lines(work):
    """Primitives by line of this file, relative to the function's first."""
    return {
        (row.line - FIRST, row.primitive, row.rule) for row in work.rows if row.file == __file__
    }


def counted(work):
    """Equations by primitive, without literals, which are there before a run."""
    return {name: n for name, n in work.equations.items() if name != "literal"}


def test_equations_are_counted_by_primitive_and_line():
    with ct.profile() as work:
        ct.gradient(loss, X)
    assert {name: w.equations for name, w in work.by_primitive().items()} == counted(work)
    assert {(1, "sin", None), (2, "exp", None), (2, "mul", "exp")} <= lines(work)
    # What the rules wrote stands at the line of their equation.
    assert (1, "cos", "sin") in lines(work)
    assert all(row.function == "loss" for row in work.rows if row.file)
    assert work.equations["cos"] == 1


def test_programs_that_are_alike_keep_their_lines():
    for f in (loss, other, loss):
        with ct.profile() as work:
            ct.gradient(f, X)
        assert {row.function for row in work.rows if row.file} == {f.__name__}


def test_turns_of_a_loop_have_the_line_of_its_body():
    def f(x):
        for k in range(50):
            x = np.tanh(x) * (1.0 + k)
        return np.sum(x)

    with ct.profile() as work:
        ct.gradient(f, X)
    (body,) = {row.line for row in work.rows if row.primitive == "tanh"}
    assert body == f.__code__.co_firstlineno + 2
    assert sum(row.equations for row in work.rows if row.primitive == "tanh") == 50


def test_seconds_are_divided_among_phases_and_rows():
    with ct.profile() as work:
        ct.gradient(loss, X)
        ct.jvp(loss, (X,), (X,))
        ct.force(ct.pullback(loss, X)[1](1.0))
    assert set(work.phases) == {"run", "plan", "derive", "python"}
    assert all(seconds >= 0 for seconds in work.phases.values())
    assert sum(work.phases.values()) == pytest.approx(work.seconds)
    assert 0 < sum(row.seconds for row in work.rows) <= work.phases["run"]


def test_a_product_with_what_reads_it_names_both():
    w = np.random.default_rng(0).normal(size=(64, 1024))
    x = np.random.default_rng(1).normal(size=(1024, 64))
    with ct.profile() as work:
        ct.value_and_gradient(lambda w: np.sum(np.maximum(x @ w, 0.0)), w)
    seconds = {name: w.seconds for name, w in work.by_primitive().items()}
    assert seconds["matmul"] > 0
    assert seconds["maximum"] > 0
    assert {name: w.equations for name, w in work.by_primitive().items()} == counted(work)


def test_prepared_functions_know_their_lines():
    g = ct.prepare(loss)
    g(X)
    g(X)
    with ct.profile() as work:
        for _ in range(3):
            g(X)
    assert (1, "sin", None) in lines(work)
    assert g.num_recordings == 1
    before = g.explain().recordings[-1].number
    g(X)
    assert g.explain().recordings[-1].number == before


def test_small_prepared_programs_are_timed():
    g = ct.prepare(loss)
    with ct.profile() as work:
        for _ in range(5):
            g(X[:4])
    assert work.by_primitive()["sin"].equations == 5
    assert work.by_primitive()["sin"].seconds > 0


def test_what_is_older_has_the_line_of_its_call():
    _, back = ct.pullback(loss, X)
    program = ct.trace(loss, X)

    def call_both():
        return ct.force(back(1.0)), program(X)

    with ct.profile() as work:
        call_both()
    places = {(row.file, row.line, row.function) for row in work.rows}
    assert places == {(__file__, call_both.__code__.co_firstlineno + 1, call_both.__qualname__)}


def test_what_is_called_back_is_not_counted_twice():
    def f(x):
        return np.sum(np.unique(x) ** 2)

    g = ct.prepare(f)
    with ct.profile() as work:
        g(X)
        g(X)
    assert sum(row.seconds for row in work.rows) <= work.phases["run"] <= work.seconds


def test_blocks_nest_and_end_with_errors():
    inner = ct.profile()

    def fail():
        with inner:
            ct.gradient(loss, X)
            raise ZeroDivisionError

    with ct.profile() as outer:
        ct.gradient(loss, X)
        with pytest.raises(ZeroDivisionError):
            fail()
        ct.gradient(loss, X)
    ct.gradient(loss, X)
    assert inner.equations["sin"] == 1
    assert outer.equations["sin"] == 3
    assert inner.seconds <= outer.seconds


def test_a_profile_goes_on_when_it_is_entered_again():
    work = ct.profile()
    for _ in range(2):
        with work:
            ct.gradient(loss, X)
    assert work.equations["sin"] == 2


def test_other_threads_are_not_counted():
    with ct.profile() as work:
        thread = threading.Thread(target=ct.gradient, args=(loss, X))
        thread.start()
        thread.join()
    assert work.rows == []
    assert work.runs == 0


def test_nothing_is_computed_otherwise():
    with ct.profile():
        profiled = ct.value_and_gradient(loss, X)
    plain = ct.value_and_gradient(loss, X)
    assert profiled[0] == plain[0]
    np.testing.assert_array_equal(profiled[1][0], plain[1][0])


def test_tables_name_primitives_and_lines():
    with ct.profile() as work:
        ct.gradient(loss, X)
    text = str(work)
    assert f"test_profile.py:{FIRST + 2} in loss" in text
    assert "running programs" in text
    assert "backward" in text
    assert str(ct.profile()).startswith("0 µs:")


def test_flame_graphs_are_written(tmp_path):
    def name_with_markup(x):
        return np.sum(np.sin(x) * (x < 0.5))  # A line with <, & and "quotes".

    with ct.profile() as work:
        ct.value_and_gradient(name_with_markup, X)
    for name in ("work.svg", "work.json", "work.txt"):
        work.save(tmp_path / name)
    root = ET.fromstring((tmp_path / "work.svg").read_text())
    titles = [element.text for element in root.iter("{http://www.w3.org/2000/svg}title")]
    assert any("(x < 0.5)" in title for title in titles)
    assert titles[0].startswith("all: ")
    flames = json.loads((tmp_path / "work.json").read_text())
    (samples,) = flames["profiles"]
    assert sum(samples["weights"]) == pytest.approx(work.seconds, rel=1e-6)
    names = [frame["name"] for frame in flames["shared"]["frames"]]
    assert any(name.startswith("sin") for name in names)
    stacks = (tmp_path / "work.txt").read_text().splitlines()
    assert len(stacks) == len(samples["samples"])
    assert all(line.rpartition(" ")[2].isdigit() for line in stacks)
    assert "<svg" in work._repr_html_()
    with pytest.raises(ValueError, match=r"'work.png' ends in none of .svg"):
        work.save(tmp_path / "work.png")


def test_inside_of_itself_it_counts_once():
    work = ct.profile()
    with work, work:
        ct.gradient(loss, X)
    assert work.equations["sin"] == 1
    assert work.runs == 1
    assert sum(work.phases.values()) == pytest.approx(work.seconds)
    with pytest.raises(RuntimeError, match="not entered"):
        work.__exit__(None, None, None)


def test_there_is_one_row_for_a_primitive_a_line_and_a_rule():
    with ct.profile() as work:
        ct.value_and_gradient(lambda a, b: np.sum((a @ b) ** 2), np.ones((3, 4)), np.ones((4, 3)))
    keys = [(row.primitive, row.file, row.line, row.rule) for row in work.rows]
    assert len(keys) == len(set(keys))
    assert sum(row.equations for row in work.rows if row.primitive == "matmul") == 3


def test_it_can_be_read_before_it_ends():
    with ct.profile() as work:
        ct.gradient(loss, X)
        assert 0 < work.phases["run"] < work.seconds
