"""`python -m cotan bench`: results are checked, libraries take turns, bars say what they took."""

import json
import re
import sys
import time
from importlib.util import find_spec

import numpy as np
import pytest

from cotan.__main__ import main
from cotan._src.bench import bars, contest, libraries, run, timing
from cotan._src.bench.workloads import WORKLOADS, Workload


def contestant(code, name="numpy"):
    head = "import sys, json, time\n"
    return contest.Contestant(name, [sys.executable, "-c", head + code])


ECHO = "for line in sys.stdin: print(json.dumps({'got': json.loads(line)}), flush=True)"


@pytest.mark.parametrize("library", ["prepared", "cotan", "numpy"])
@pytest.mark.parametrize("name", [n for n in run.SHOWN if n != "seed 1,000,000 float64"])
def test_workloads_give_what_the_formula_says(name, library):
    w = WORKLOADS[name]
    arguments = w.data()
    call, arrays = libraries.BUILD[library](w, arguments)
    libraries.check(w, arrays(call()), arguments)


@pytest.mark.parametrize("library", ["jax", "torch", "autograd"])
@pytest.mark.parametrize("name", ["seed 10 float64", "mlp"])
def test_peers_give_what_the_formula_says(name, library):
    if find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    found = run.compare([name], [library], 1.0, lambda *_: None)[name]
    assert found.missing == {}
    assert found.samples[library]


def formula(name, at):
    """By differences: the formulas themselves are what everything is compared with."""
    w = WORKLOADS[name]
    arguments = [np.asarray(x, float) if np.asarray(x).dtype.kind == "f" else x for x in w.data()]
    _, gradients = w.by_hand(*arguments)
    step = 1e-6

    def value(by):
        moved = list(arguments)
        moved[w.wrt[0]] = np.array(moved[w.wrt[0]])
        moved[w.wrt[0]][at] += by
        return float(w.by_hand(*moved)[0])

    return np.asarray(gradients[0])[at], (value(step) - value(-step)) / (2 * step)


@pytest.mark.parametrize(
    ("name", "at"),
    [("seed 10 float64", 3), ("chain 1,000", 7), ("scalar-loop", ()), ("mlp", (5, 6))],
)
def test_formulas_agree_with_differences(name, at):
    exact, difference = formula(name, at)
    assert exact == pytest.approx(difference, rel=1e-5, abs=1e-9)


def test_a_wrong_result_is_found():
    w = WORKLOADS["seed 10 float64"]
    arguments = w.data()
    value, (dx,) = w.by_hand(*arguments)
    libraries.check(w, (value, (dx,)), arguments)
    with pytest.raises(libraries.WrongResult, match="gradient 0 is .* eps off"):
        libraries.check(w, (value, (dx * (1 + 1e-9),)), arguments)
    with pytest.raises(libraries.WrongResult, match="value is"):
        libraries.check(w, (value + 1e-9, (dx,)), arguments)
    with pytest.raises(libraries.WrongResult, match="shape"):
        libraries.check(w, (value, (dx[:3],)), arguments)


def test_a_process_answers():
    peer = contestant(ECHO)
    assert peer.ask_within(30, a=1) == {"got": {"a": 1}}
    peer.close()
    assert peer.process.returncode == 0


def test_a_process_that_takes_too_long_is_started_anew():
    peer = contestant("time.sleep(60)")
    start = time.monotonic()
    assert peer.ask_within(0.2, a=1) == {"error": "not ready after 0 s"}
    assert time.monotonic() - start < 20
    peer.command[-1] = "import sys, json\n" + ECHO
    assert peer.ask_within(0.0, a=1)["error"]
    assert peer.ask_within(30, a=2) == {"got": {"a": 2}}
    peer.close(at_once=True)


def test_a_process_that_dies_is_an_error():
    peer = contestant("sys.exit(3)")
    for _ in range(2):
        assert peer.ask_within(30, a=1) == {"error": "the process ended"}
    peer.close(at_once=True)


def test_a_library_that_fails_has_a_reason(monkeypatch):
    code = "for line in sys.stdin: print(json.dumps({'error': 'ValueError: no'}), flush=True)"
    peer = contestant(code, "jax")
    found = contest.measure([peer], WORKLOADS["seed 10 float64"], 1)
    peer.close(at_once=True)
    assert found.missing == {"jax": "ValueError: no"}
    assert found.timings() == {}
    assert "  JAX (jit)           ValueError: no" in bars.bars("seed", found)


def test_turns_end_with_the_time():
    answers = {"prepare": {"first": 1.0}, "time": {"samples": [1.0]}}
    reply = "print(json.dumps(a[json.loads(x)['what']]), flush=True)"
    code = f"a = {answers}\nfor x in sys.stdin: {reply}"
    peer = contestant(code)
    w = WORKLOADS["seed 10 float64"]
    assert len(contest.measure([peer], w, 4).samples["numpy"]) == 4
    past = time.monotonic() - 1
    assert len(contest.measure([peer], w, 4, until=past).samples["numpy"]) == 1
    peer.close(at_once=True)


def measured(**seconds):
    return contest.Measured({name: [s, s, s] for name, s in seconds.items()})


def length(lines, title):
    (line,) = [line for line in lines if title in line]
    return line.count("█")


def test_bars_are_logarithms_of_the_ratio():
    lines = bars.bars("w", measured(cotan=0.1, jax=1.0, torch=10.0, numpy=0.5))
    ratios = [re.search(r"±\d+% +([\d.]+)", line)[1] for line in lines[1:]]
    assert ratios == ["0.10", "1.00", "10.00", "0.50"]
    one = length(lines, "JAX")
    # From 0.1 to 1 is as far as from 1 to 10.
    assert one - length(lines, "unmodified") == pytest.approx(length(lines, "PyTorch") - one, abs=1)
    assert "│" in lines[1]
    assert len(max(lines, key=len)) <= 100


def test_the_fastest_peer_is_one():
    assert bars.reference(measured(cotan=0.1, jax=3.0, torch=2.0, numpy=1.0).timings()) == 2.0
    assert bars.reference(measured(cotan=0.1, numpy=1.0).timings()) == 1.0
    assert bars.reference(measured(cotan=0.1).timings()) is None


def test_ascii():
    found = measured(cotan=1e-6, jax=2e-6)
    text = "\n".join(bars.bars("w", found, plain=True) + bars.scale(True, plain=True))
    assert text.isascii()
    assert "1 us" in text


def test_ratios_outside_of_the_scale_are_cut():
    lines = bars.bars("w", measured(cotan=1e-6, jax=1.0, torch=1e6))
    assert length(lines, "unmodified") == 1
    assert length(lines, "PyTorch") == 44


def test_times():
    assert timing.short(1.234e-5) == "12.3 µs"
    assert timing.cell(timing.summary([1.0, 2.0, 3.0])) == "2 s ±25%"
    assert timing.summary([4.0]) == timing.Timing(4.0, 4.0, 4.0)


def test_the_command(capsys):
    names = ["prepared", "cotan", "numpy"]
    assert main(["bench", "--only", "seed", "--seconds", "3", "--libraries", *names]) == 0
    out = capsys.readouterr().out
    assert "seed 10 float64: sum(sin(x) cos(c)), 10 numbers" in out
    assert out.count("cotan, prepared") == out.count("NumPy by hand  ") == 2
    assert "time over that of NumPy by hand" in out


def test_json(capsys):
    arguments = ["bench", "--json", "--only", "scalar-loop", "--seconds", "1"]
    assert main([*arguments, "--libraries", "prepared", "numpy"]) == 0
    found = json.loads(capsys.readouterr().out)
    row = found["workloads"]["scalar-loop"]
    assert row["missing"] == {}
    times = row["seconds"]
    assert set(times) == {"prepared", "numpy"}
    assert all(0 < t["low"] <= t["median"] <= t["high"] < 1 for t in times.values())


def test_names_that_are_not_there(capsys, monkeypatch):
    assert main(["bench", "--only", "nothing"]) == 1
    assert "no workload 'nothing'; there are seed 10 float64," in capsys.readouterr().err
    monkeypatch.setattr(run, "installed", lambda: ["cotan", "numpy"])
    assert main(["bench", "--libraries", "jax"]) == 1
    assert "not installed: jax; pip install 'cotan[peers]'" in capsys.readouterr().err


def test_list(capsys):
    assert main(["bench", "--list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(run.SHOWN)


def test_a_cotan_that_fails_is_the_exit_status(monkeypatch, capsys):
    found = contest.Measured({"numpy": [1.0]}, {}, {"cotan": "WrongResult: value is 9 eps off"})
    monkeypatch.setattr(run, "compare", lambda *a: {"mlp": found})
    assert run.report(["mlp"], ["cotan", "numpy"], 1.0, True) == 1


def test_what_is_shown_is_there():
    assert set(run.SHOWN) <= set(WORKLOADS)
    assert all(isinstance(w, Workload) for w in WORKLOADS.values())
