"""Rows of the benchmarks, with small arguments: gradients against formulas and differences."""

import gc
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import cotan as ct
from cotan._src.bench.libraries import WrongResult

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def rows():
    """Import the package, which is beside the other benchmarks and not installed."""
    folder = ROOT / "benches" / "python"
    if not folder.exists():
        pytest.skip("the benchmarks are not beside the tests")
    sys.path.insert(0, str(folder))
    try:
        import rows
        import rows._c
        import rows._libraries
        import rows._report

        yield rows
    finally:
        sys.path.remove(str(folder))


CAPTURED = [
    *(f"logreg captured{how}" for how in ("", ", read-only", ", Array")),
    *(f"logreg-hvp captured{how}" for how in ("", ", read-only", ", Array")),
]
#: With a gradient in NumPy.
FORMULAS = [
    "logreg argument", "matvec 10,000 × 200", "matvec 300 × 300",
    "matmul-sq float32 after a pause", "mlp", "mlp-last", "conv", "seed 1,000,000 float32",
    "chain-line 1,000,000", "chain-line 10,000,000", "gathers", "scalar-loop",
]  # fmt: skip
#: Compared with differences.
OTHERS = [
    "rk4-banded", "scalar-recursion", "scalar-lstm", "gmm", "gp", "black-scholes", "whitening",
    "spline", "factorization", "rosenbrock", "ba", "hand", "ray-tracing", "lorenz", "n-body",
    "heat", "pendulum", "ode-calibration", "satellite", "lstm", "kalman", "hmm", "dtw",
    "particles", "flow", "attention", "vae",
]  # fmt: skip
NAMES = [*CAPTURED, "ba-blocks", *FORMULAS, *OTHERS]


@pytest.fixture
def row(rows, name):
    return {w.name: w for w in rows.ROWS}[name].small()


def found(rows, row, library):
    arguments = row.data()
    call, arrays = rows._libraries.build(library, row, arguments)
    return arguments, arrays(call()), arrays(call())


def test_every_row_is_tested(rows):
    assert sorted(w.name for w in rows.ROWS) == sorted(NAMES)
    written = [w.name for w in rows.ROWS if w.by_hand is not None and not w.builders]
    assert sorted(written) == sorted(FORMULAS)


@pytest.mark.parametrize("library", ["cotan", "prepared"])
@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_those_of_the_reference(rows, row, library):
    arguments, first, again = found(rows, row, library)
    rows._libraries.check(row, first, arguments)
    rows._libraries.check(row, again, arguments)


@pytest.mark.parametrize("name", FORMULAS)
def test_formulas_agree_with_differences(rows, row):
    wide = [x if np.asarray(x).dtype.kind in "iu" else np.float64(x) for x in row.data()]
    by_differences = replace(row, by_hand=None, dtype="float64", loose=1.0)
    rows._libraries.check(by_differences, row.by_hand(*wide), wide)


@pytest.mark.parametrize("name", ["gmm", "matvec 300 × 300", "vae"])
def test_a_wrong_gradient_is_found(rows, row):
    arguments, (value, gradients), _ = found(rows, row, "cotan")
    off = 1e-3 if row.dtype == "float64" else 0.1
    wrong = (gradients[0] * (1 + off), *gradients[1:])
    with pytest.raises(WrongResult):
        rows._libraries.check(row, (value, wrong), arguments)
    with pytest.raises(WrongResult, match="value"):
        rows._libraries.check(row, (value + 1, gradients), arguments)


@pytest.mark.parametrize("name", ["logreg-hvp captured"])
def test_products_with_hessians_agree_with_differences_of_gradients(rows, row):
    x, y, w, v = row.data()
    _, (product,) = row.by_hand(x, y, w, v)

    def gradient(t):
        return ct.gradient(lambda w: row.function(np, x, y, w), w + t * v)[0]

    np.testing.assert_allclose(product, (gradient(1e-5) - gradient(-1e-5)) / 2e-5, rtol=1e-7)


IN_C = [
    "scalar-loop", "lorenz", "n-body", "lstm", "ba", "gmm", "kalman", "satellite",
    "ode-calibration",
]  # fmt: skip


def test_every_function_in_c_is_tested(rows):
    assert sorted(rows._c.SIZES) == sorted(IN_C)
    assert len(list(rows._c.FOLDER.glob("*.c"))) == len(IN_C)


@pytest.mark.parametrize("name", IN_C)
def test_gradients_in_c_are_those_of_cotan(rows, row):
    arguments, (value, gradients), _ = found(rows, row, "cotan")
    try:
        call, arrays = rows._c.build(row, arguments)
    except ImportError as missing:
        pytest.skip(str(missing))
    in_c, by_hand = arrays(call())
    assert in_c == pytest.approx(float(value), rel=1e-12)
    for one, other in zip(by_hand, gradients, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-12 * np.max(np.abs(other)))


def test_functions_in_c_keep_their_arguments(rows):
    row = {w.name: w for w in rows.ROWS}["ba"].small()
    try:
        call = rows._c.build(row, row.data())[0]
    except ImportError as missing:
        pytest.skip(str(missing))
    first = float(call()[0])
    gc.collect()
    held = [np.full(n, np.nan) for n in range(1, 200) for _ in range(5)]  # where they might be
    assert call()[0] == first
    assert held


def measured(load, **seconds):
    samples = {library: [s, s, s] for library, s in seconds.items()}
    return {"samples": samples, "first": {}, "missing": {}, "load": load}


def test_the_table_shows_what_loses_and_the_load(rows):
    results = {"slow": measured(0.1, prepared=2.0, cotan=4.0, jax=1.0, numpy=0.5)}
    text = rows._report.text(results, "a machine", "`command`")
    (line,) = [x for x in text.splitlines() if x.startswith("| slow") and "JAX" in x]
    assert [x.strip() for x in line.split("|")[2:8]] == [
        "JAX (jit), 1 s", "**2.00**", "**4.00**", "2.00", "4.00", "0.1",
    ]  # fmt: skip
    assert "0 of 1" in text
    assert "other work" not in text.split("|")[0]
    results["fast"] = measured(9.0, prepared=0.5, cotan=1.0, torch=1.0)
    text = rows._report.text(results, "a machine", "`command`")
    assert "did other work meanwhile" in text
    assert [x.strip() for x in text.rpartition("as fast or faster")[2].split("|")[2:4]] == [
        "1 of 2", "1 of 2",
    ]  # fmt: skip


def test_the_table_names_who_has_no_time(rows):
    row = measured(0.0, cotan=1.0)
    row["missing"] = {"jax": "not ready after 60 s", "torch": "not installed"}
    text = rows._report.text({"one": row}, "a machine", "`command`")
    assert "- JAX (jit) has no time for one: not ready after 60 s" in text
    assert "- not installed, and left out: PyTorch (eager)" in text


def test_runs_are_put_together(rows, tmp_path):
    import row_table

    one, two = measured(1.0, cotan=1.0, jax=2.0), measured(3.0, torch=4.0, jax=5.0)
    one["missing"] = {"torch": "not ready after 60 s", "numpy": "not asked for"}
    files = []
    for k, row in enumerate((one, two)):
        files.append(tmp_path / f"{k}.json")
        files[-1].write_text(json.dumps({"about": f"machine {k}", "rows": {"a row": row}}))
    found = row_table.merged(files)
    row = found["rows"]["a row"]
    assert found["about"] == "machine 0"
    assert {library: samples[0] for library, samples in row["samples"].items()} == {
        "cotan": 1.0,
        "jax": 5.0,
        "torch": 4.0,
    }
    assert row["missing"] == {"numpy": "not asked for"}
    assert row["load"] == 3.0


def test_times_over_those_of_one_library(rows):
    results = {"a row": measured(0.1, prepared=3.0, cotan=6.0, c=2.0), "other": measured(0.1, c=1)}
    results["a row"]["samples"]["prepared"] = [2.5, 3.0, 3.5]
    text = rows._report.over(results, "a machine", "`command`", "c")
    lines = text.partition("Times over that of C, by hand")[2].splitlines()
    cells = {
        line.split("|")[1].strip(): [x.strip() for x in line.split("|")[2:]]
        for line in lines
        if "|" in line
    }
    assert cells["a row"][:3] == ["1.50 (1.25)", "3.00 (3.00)", "1.00 (1.00)"]
    assert cells["other"][:3] == ["–", "–", "1.00 (1.00)"]
    assert cells["geometric mean"][0] == "1.50 (1.25)"


def test_calls_after_a_pause_leave_the_pause_out(rows):
    import time

    import row_table

    samples = row_table.after(lambda: time.sleep(0.05), lambda: None)
    assert len(samples) == 3
    assert max(samples) < 0.05
    assert len(row_table.turn(lambda: None, 0.0)) == 1


def test_rows_are_chosen_by_name_or_first_word(rows):
    import row_table

    by_name = {w.name: w for w in rows.ROWS}
    assert row_table.wanted(by_name["logreg argument"], ["logreg"])
    assert row_table.wanted(by_name["logreg argument"], ["logreg argument"])
    assert not row_table.wanted(by_name["logreg argument"], ["logreg captured"])
    assert row_table.wanted(by_name["logreg argument"], None)
