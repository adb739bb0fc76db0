"""Gradients over batches: the same bits from threads, processes and this process alone."""

import contextlib
import logging
import multiprocessing
import os
import pickle
import random
import subprocess
import sys
import threading
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pytest

import cotan as ct
from cotan._src.parallel import recipe
from cotan._src.parallel.flat import TreeSum, packed

METHODS = [m for m in ("fork", "spawn") if m in multiprocessing.get_all_start_methods()]
forks = pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
pytestmark = forks


@pytest.fixture(scope="module")
def threads():
    with ThreadPoolExecutor(3) as pool:
        yield pool


def pool_of(method):
    return ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(method))


@pytest.fixture(scope="module")
def pools():
    """Pools of processes, which start at their first task; a spawned one takes seconds."""
    with contextlib.ExitStack() as stack:
        yield {method: stack.enter_context(pool_of(method)) for method in METHODS}


@pytest.fixture(scope="module", params=METHODS)
def processes(request, pools):
    return pools[request.param]


@pytest.fixture(params=["here", "threads", *METHODS])
def executor(request, pools):
    if request.param == "here":
        return None
    if request.param == "threads":
        return request.getfixturevalue("threads")
    return pools[request.param]


rng = np.random.default_rng(0)
X, Y = rng.normal(size=(50, 4)), rng.normal(size=50)
BATCHES = [*zip(np.array_split(X, 7), np.array_split(Y, 7), strict=True)]


def params():
    return {
        "w": np.linspace(-1.0, 1.0, 12).reshape(4, 3),
        "v": ct.array([0.5, -0.5, 1.0]),
        "b": 0.25,
        "half": np.float32(0.5),
        "unused": np.ones(2),
        "none": None,
        "steps": 3,
    }


def loss(p, x, y):
    return np.mean((np.tanh(x @ p["w"] + p["b"]) @ p["v"] * p["half"] - y) ** 2)


def assert_same(a, b):
    for one, other in zip(ct.tree_leaves(a), ct.tree_leaves(b), strict=True):
        assert type(one) is type(other)
        np.testing.assert_array_equal(one, other)


def test_the_whole_is_the_mean_over_examples(executor):
    value, slope = ct.parallel.value_and_gradient(loss, params(), BATCHES, executor=executor)
    whole, (expected, _, _) = ct.value_and_gradient(loss, params(), ct.const(X), ct.const(Y))
    np.testing.assert_allclose(value, whole, rtol=1e-13)
    assert slope["none"] is slope["unused"] is slope["steps"] is None
    for name in ("w", "v", "b", "half"):
        assert type(slope[name]) is type(expected[name])
        np.testing.assert_allclose(slope[name], expected[name], rtol=1e-6)
    np.testing.assert_allclose(slope["w"], expected["w"], rtol=1e-12)


def test_all_executors_give_the_same_bits(executor):
    mine = ct.parallel.value_and_gradient(loss, params(), BATCHES)
    assert_same(
        mine, ct.parallel.value_and_gradient(loss, params(), iter(BATCHES), executor=executor)
    )
    assert_same(mine[1], ct.parallel.gradient(loss, params(), BATCHES, executor=executor))


def test_against_differences():
    slope = ct.parallel.gradient(loss, params(), BATCHES)
    h = 1e-6
    for i in np.ndindex(4, 3):
        ends = []
        for step in (h, -h):
            moved = params()
            moved["w"][i] += step
            ends.append(np.mean([loss(moved, x[None], y) for x, y in zip(X, Y, strict=True)]))
        np.testing.assert_allclose(slope["w"][i], (ends[0] - ends[1]) / (2 * h), rtol=1e-6)


class Reversed(Executor):
    """Gives results in the reverse order, in groups."""

    _max_workers = 4

    def __init__(self):
        self.waiting = []

    def submit(self, fn, /, *args):
        future = Future()
        self.waiting.append((future, fn, args))
        if len(self.waiting) == 1:
            threading.Timer(0.05, self.finish).start()
        return future

    def finish(self):
        waiting, self.waiting = self.waiting, []
        for future, fn, args in reversed(waiting):
            future.set_result(fn(*args))


def test_the_order_of_results_does_not_matter():
    mine = ct.parallel.value_and_gradient(loss, params(), BATCHES)
    theirs = ct.parallel.value_and_gradient(loss, params(), BATCHES, executor=Reversed())
    assert_same(mine, theirs)


def test_the_tree_of_sums_is_fixed():
    values = [10.0 ** (i % 17) / 3 for i in range(13)]
    found = set()
    for seed in range(20):
        total = TreeSum()
        for i in np.random.default_rng(seed).permutation(13):
            total.add(int(i), packed([0], [np.array([values[i]])]))
        found.add(float(total.result().by_leaf()[0][0]))
    assert len(found) == 1
    np.testing.assert_allclose(found.pop(), np.sum(values), rtol=1e-15)


# --------------------------------------------------------------------------------------------------
# Weights


def test_weights():
    def mean(w, x):
        return w * np.mean(x)

    batches = [np.full(1, 6.0), np.full(3, 2.0), np.full(0, 9.0)]
    assert ct.parallel.gradient(mean, 1.0, batches) == 3.0
    assert ct.parallel.gradient(mean, 1.0, batches[:2], weights="equal") == 4.0
    assert ct.parallel.gradient(mean, 1.0, batches[:2], weights=[1, 0.5]) == 14 / 3
    assert ct.parallel.gradient(
        mean, 1.0, batches[:2], weights=lambda x: 4 - len(x)
    ) == pytest.approx(5.0)
    assert ct.parallel.gradient(lambda w, x: w * np.sum(x), 1.0, batches, reduce="sum") == 12.0
    # Numbers have no examples: each counts as one.
    assert ct.parallel.gradient(lambda w, s: w * s, 1.0, [1.0, 3.0]) == 2.0


def test_one_batch_keeps_its_bits():
    x = rng.normal(size=(7, 4)), rng.normal(size=7)
    (expected, *_) = ct.gradient(loss, params(), *map(ct.const, x))
    assert_same(ct.parallel.gradient(loss, params(), [x]), expected)


def test_wrong_weights_are_refused():
    graph = {"nodes": np.ones((3, 2)), "edges": np.ones((5, 2))}

    def f(w, g):
        return w * np.sum(g["nodes"])

    with pytest.raises(ValueError, match=r"batch 0 has no one number of examples.*weights='equal'"):
        ct.parallel.gradient(f, 1.0, [graph])
    assert ct.parallel.gradient(f, 1.0, [graph], weights="equal") == 6.0
    for weights, message in (
        ([1.0], "weights has 1 numbers, and there are more batches"),
        ([1.0, 1.0, 1.0], "more numbers than there are batches"),
        ([1.0, -1.0], "weight of batch 1 must be finite and not negative"),
        ("example", "weights must be 'examples'"),
    ):
        with pytest.raises(ValueError, match=message):
            ct.parallel.gradient(f, 1.0, [graph, graph], weights=weights)
    with pytest.raises(ValueError, match="no batches with an example"):
        ct.parallel.gradient(lambda w, x: w * np.mean(x), 1.0, [np.ones(0)])


def test_half_precision_is_added_up_in_single():
    batches = [np.full(8, 300.0, np.float16)] * 300
    slope = ct.parallel.gradient(
        lambda w, x: np.mean(w * x), np.float16(1.0), batches, weights="equal"
    )
    assert slope == 300.0 and type(slope) is np.float16


# --------------------------------------------------------------------------------------------------
# Structures and results


@dataclass
class Layer:
    w: np.ndarray
    b: float
    name: str = "layer"


def of_layers(model, x):
    return np.mean(np.tanh(x @ model[0].w + model[0].b) ** 2) + np.sum(model[1].w ** 2)


def test_objects_and_wrt(executor):
    model = [Layer(np.ones((4, 2)), 0.5), Layer(np.full(2, 2.0), -0.5)]
    xs = np.array_split(X, 4)
    slope = ct.parallel.gradient(of_layers, model, xs, executor=executor)
    assert type(slope[0]) is ct.Tangent and slope[1].b is None and slope[0].name is None
    (expected, _) = ct.gradient(of_layers, model, ct.const(X))
    np.testing.assert_allclose(slope[0].w, expected[0].w, rtol=1e-12)
    opt = ct.optim.sgd(0.1)
    stepped, _ = opt.step(slope, opt.init(model), model)
    assert type(stepped[0]) is Layer
    only = ct.parallel.gradient(of_layers, model, xs, executor=executor, wrt="model[0].b")
    assert only[0].w is None and only[1] is None
    np.testing.assert_allclose(only[0].b, expected[0].b, rtol=1e-12)


def test_nothing_has_influence(executor):
    found = ct.parallel.value_and_gradient(
        lambda p, x: np.sum(x), {"a": 1.0}, [np.ones(2)] * 3, executor=executor
    )
    assert found == (2.0, None)
    assert ct.gradient(lambda p, x: np.sum(x), {"a": 1.0}, ct.const(np.ones(2)))[0] is None


def by_way(p, x):
    if x[0] > 0:
        return p["a"] * np.mean(x)
    return p["b"] * np.mean(x)


def test_batches_may_take_different_ways(executor):
    batches = [np.array([1.0, 3.0]), np.array([-1.0, -3.0]), np.array([2.0, 2.0])]
    slope = ct.parallel.gradient(by_way, {"a": 1.0, "b": 1.0}, batches, executor=executor)
    np.testing.assert_allclose([slope["a"], slope["b"]], [4 / 3, -2 / 3])


def with_aux(p, x):
    h = x * p
    return np.sum(h), {"h": h, "name": "h", "n": 3}


def test_aux(executor):
    batches = [np.ones(2), np.full(2, 2.0), np.full(2, 3.0)]
    (value, aux), slope = ct.parallel.value_and_gradient(
        with_aux, np.array([1.0, 2.0]), batches, executor=executor, has_aux=True, reduce="sum"
    )
    assert value == 18.0 and slope.tolist() == [6.0, 6.0]
    assert [a["h"].tolist() for a in aux] == [[1.0, 2.0], [2.0, 4.0], [3.0, 6.0]]
    assert aux[0]["name"] == "h" and aux[0]["n"] == 3
    slope, again = ct.parallel.gradient(
        with_aux, np.array([1.0, 2.0]), batches, executor=executor, has_aux=True
    )
    assert slope.tolist() == [2.0, 2.0] and len(again) == 3


def test_labels_and_data_in_batches(executor):
    def f(w, batch, scale):
        scores = batch["x"] @ w
        picked = scores[np.arange(len(scores)), batch["y"]]
        return -np.mean(picked) * (scale if batch["kind"] == "a" else 0.0)

    batches = [
        {"x": np.full((3, 2), i + 1.0), "y": np.array([0, 2, i % 3]), "kind": "ab"[i % 2]}
        for i in range(4)
    ]
    slope = ct.parallel.gradient(f, np.ones((2, 3)), batches, executor=executor, constants=(4.0,))
    expected = np.mean(
        [ct.gradient(f, np.ones((2, 3)), ct.const(b), ct.const(4.0))[0] for b in batches[::2]], 0
    ) / 2  # fmt: skip
    np.testing.assert_allclose(slope, expected, rtol=1e-14)


def test_integers_count_as_for_gradient(executor):
    slope = ct.parallel.gradient(
        lambda p, x: p[0] * p[1] * np.mean(x), [1.5, 2], [np.ones(2)], executor=executor
    )
    assert slope == [2.0, 1.5]


# --------------------------------------------------------------------------------------------------
# What is sent

FACTOR = np.array([2.0])


def test_what_is_closed_over_is_sent_when_it_changes(processes):
    table = np.ones(3)

    def f(w, x):
        return w * np.mean(x) * table[0] * FACTOR[0]

    batches = [np.ones(2)] * 4
    assert ct.parallel.gradient(f, 1.0, batches, executor=processes) == 2.0
    table[0] = 3.0
    assert ct.parallel.gradient(f, 1.0, batches, executor=processes) == 6.0
    try:
        FACTOR[0] = 5.0
        assert ct.parallel.gradient(f, 1.0, batches, executor=processes) == 15.0
    finally:
        FACTOR[0] = 2.0
    assert ct.parallel.gradient(f, 1.0, batches, executor=processes) == 6.0


def test_a_program_is_recorded_once_and_needs_no_function(processes):
    calls = []

    def f(w, x):
        seen()
        return w * np.mean(x)

    def seen():
        calls.append(None)

    # It has a side effect, so it is no program, and a local function has no name either.
    with pytest.raises(TypeError, match=r"cannot be sent to workers.*changes.*cannot be pickled"):
        without_cloudpickle(lambda: ct.parallel.gradient(f, 1.0, [np.ones(2)], executor=processes))
    # What the attempt wrote is taken back.
    assert calls == []


def without_cloudpickle(call):
    saved = sys.modules.get("cloudpickle")
    sys.modules["cloudpickle"] = None
    try:
        return call()
    finally:
        del sys.modules["cloudpickle"]
        if saved is not None:
            sys.modules["cloudpickle"] = saved


def drawing(w, x):
    return w * np.mean(x + 0.0 * random.random())


def test_a_function_that_is_no_program_is_sent_by_name(processes, caplog):
    caplog.set_level(logging.INFO, "cotan.parallel")
    assert ct.parallel.gradient(drawing, 1.0, [np.ones(2)] * 3, executor=processes) == 1.0
    assert "as a function" in caplog.text
    assert "random numbers" in recipe.recipe_of(drawing, None, False).refused


def test_seeds_as_batches(processes):
    """Every seed is another recording, so recording is given up."""
    found = ct.parallel.gradient(seeded, 1.0, range(40), executor=processes)
    expected = np.mean([np.random.default_rng(s).normal() for s in range(40)])
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert "recorded anew" in recipe.recipe_of(seeded, None, False).refused


def seeded(w, seed):
    return w * np.random.default_rng(seed).normal()


def test_ways_that_follow_from_long_computations_are_not_computed_twice(processes):
    assert ct.parallel.gradient(newton, 2.0, [np.ones(2)] * 3, executor=processes) > 0
    assert "depends on values" in recipe.recipe_of(newton, None, False).refused


def newton(w, x):
    root = w
    while abs(root * root - w) > 1e-12:
        root = 0.5 * (root + w / root)
    return root * np.mean(x)


def test_constants_are_kept_in_workers(processes, caplog):
    caplog.set_level(logging.INFO, "cotan.parallel")
    table = rng.normal(size=50_000)

    def f(w, x, table):
        return w * np.mean(x) * np.sum(table[:10])

    for _ in range(3):
        slope = ct.parallel.gradient(
            f, 1.0, [np.ones(2)] * 8, executor=processes, constants=(table,)
        )
    np.testing.assert_allclose(slope, np.sum(table[:10]), rtol=1e-13)
    table[0] += 1.0
    moved = ct.parallel.gradient(f, 1.0, [np.ones(2)] * 8, executor=processes, constants=(table,))
    np.testing.assert_allclose(moved, slope + 1.0, rtol=1e-13)


def test_tasks_travel_out_of_band():
    from cotan._src.parallel.parcel import Parcel

    parcel = Parcel.of([np.ones(1000), 2.0])
    buffers = []
    head = pickle.dumps(parcel, 5, buffer_callback=buffers.append)
    assert len(head) < 500 and sum(b.raw().nbytes for b in buffers) == 8000
    again = pickle.loads(pickle.dumps(parcel, 4)).open()
    assert again[1] == 2.0 and again[0].sum() == 1000
    assert Parcel.of([np.ones(1000), 2.0]).key == parcel.key
    assert Parcel.of([np.ones(1000), 3.0]).key != parcel.key


def test_workers_need_no_module_of_the_function(tmp_path):
    """The function is defined in a script's `main`, and workers are spawned."""
    script = tmp_path / "script.py"
    script.write_text(
        "import multiprocessing, numpy as np, cotan as ct\n"
        "from concurrent.futures import ProcessPoolExecutor\n"
        "def main():\n"
        "    table = np.arange(3.0)\n"
        "    loss = lambda w, x: np.mean(w * table * x)\n"
        "    context = multiprocessing.get_context('spawn')\n"
        "    with ProcessPoolExecutor(1, mp_context=context) as pool:\n"
        "        print(ct.parallel.gradient(loss, 2.0, [np.ones(3)] * 2, executor=pool))\n"
        "if __name__ == '__main__':\n"
        "    main()\n"
    )
    done = subprocess.run(
        [sys.executable, script], check=True, capture_output=True, text=True, cwd=tmp_path
    )
    assert done.stdout == "1.0\n"
    assert done.stderr == ""


# --------------------------------------------------------------------------------------------------
# In flight, progress, errors


def test_batches_are_taken_as_workers_become_free(threads):
    given, most = [], []

    def batches():
        for i in range(30):
            given.append(i)
            yield np.full(2, float(i))

    def done(n):
        most.append(len(given) - len(most))

    ct.parallel.gradient(
        lambda w, x: w * np.mean(x), 1.0, batches(), executor=threads, progress=done, max_pending=4
    )
    assert len(most) == 30 and max(most) <= 4


def test_progress_and_log(capsys, caplog, threads):
    caplog.set_level(logging.INFO, "cotan.parallel")
    counted = []
    ct.parallel.gradient(
        lambda w, x: w * np.mean(x), 1.0, [np.ones(2)] * 3, progress=counted.append
    )
    assert counted == [1, 1, 1]
    assert len(caplog.records) == 1
    assert caplog.records[0].getMessage().startswith("3 batches in")
    ct.parallel.gradient(lambda w, x: w * np.mean(x), 1.0, [np.ones(2)] * 3, progress=True)
    assert capsys.readouterr().err == "batch 1 of 3\nbatch 2 of 3\nbatch 3 of 3\n"


def test_progress_of_tqdm(threads):
    tqdm = pytest.importorskip("tqdm")
    with open(os.devnull, "w") as file, tqdm.tqdm(total=5, file=file) as bar:
        ct.parallel.gradient(
            lambda w, x: w * np.mean(x),
            1.0,
            [np.ones(2)] * 5,
            executor=threads,
            progress=bar.update,
        )
        assert bar.n == 5


def failing(w, x):
    if x.shape[0] == 3:
        raise ZeroDivisionError("no three")
    return w * np.mean(x)


def test_errors_name_the_batch(executor):
    batches = [np.ones(2), np.ones(2), np.ones(3), np.ones(2)]
    with pytest.raises(ZeroDivisionError, match="no three") as caught:
        ct.parallel.gradient(failing, 1.0, batches, executor=executor)
    assert caught.value.__notes__[-1] == "parallel.gradient: raised by batch 2 (float64[3])"
    # The executor is as good as before.
    assert ct.parallel.gradient(failing, 1.0, batches[:2], executor=executor) == 1.0


def test_wrong_arguments_are_refused():
    f = lambda w, x: w * np.mean(x)
    for given, message in (
        ({"batches": np.ones((4, 2))}, r"one array of shape \(4, 2\); np.array_split"),
        ({"batches": 3}, r"not int; one batch is \[batch\]"),
        ({"batches": {"x": np.ones(2)}}, "not dict"),
        ({"executor": 4}, "executor must be an executor of concurrent.futures"),
        ({"constants": np.ones(2)}, r"constants must be a tuple.*\(x,\)"),
    ):
        with pytest.raises(TypeError, match=message):
            ct.parallel.gradient(f, 1.0, **{"batches": [np.ones(2)], **given})
    for given, message in (
        ({"reduce": "max"}, "reduce must be 'mean' or 'sum'"),
        ({"max_pending": 0}, "max_pending must be at least 1"),
        ({"batches": []}, "no batches"),
    ):
        with pytest.raises(ValueError, match=message):
            ct.parallel.gradient(f, 1.0, **{"batches": [np.ones(2)], **given})
    with pytest.raises(TypeError, match="first argument must be callable"):
        ct.parallel.gradient(3, 1.0, [np.ones(2)])


def test_only_parameters_have_gradients():
    def f(w, x):
        return w["a"] * np.mean(x)

    for wrt in ("x", 1, ["w.a", "x"]):
        with pytest.raises(ValueError, match="another argument than the first, w"):
            ct.parallel.gradient(f, {"a": 1.0}, [np.ones(2)], wrt=wrt)
    with pytest.raises(ValueError, match=r"matches nothing.*w\.a"):
        ct.parallel.gradient(f, {"a": 1.0}, [np.ones(2)], wrt="w.b")
    assert ct.parallel.gradient(f, {"a": 1.0}, [np.ones(2)], wrt=0) == {"a": 1.0}


def test_tables_of_pandas_are_batches(processes):
    pandas = pytest.importorskip("pandas")
    tables = [pandas.DataFrame({"x": np.full(n, float(n))}) for n in (1, 3)]
    assert ct.parallel.gradient(of_table, 2.0, tables, executor=processes) == 2.5


def of_table(w, table):
    return w * np.mean(table["x"].to_numpy())


def test_methods_are_recorded_once(threads):
    class Model:
        factor = 2.0

        def loss(self, w, x):
            return w * np.mean(x) * self.factor

    model = Model()
    xs = [np.ones(2)] * 3
    assert ct.parallel.gradient(model.loss, 1.0, xs, executor=threads) == 2.0
    model.factor = 3.0
    assert ct.parallel.gradient(model.loss, 1.0, xs, executor=threads) == 3.0
    assert recipe.recipe_of(model.loss, None, False).refused == ""


def test_threads_compute_while_python_goes_on():
    """The interpreter's lock is free while a worker computes."""
    a = rng.normal(size=(1500, 1500))

    def f(w, x):
        return np.mean(x @ w @ x)

    with ThreadPoolExecutor(1) as pool:
        ct.parallel.gradient(f, a, [a], executor=pool)
        ticks = []
        done = threading.Event()
        given = pool.submit(lambda: (ct.parallel.gradient(f, a, [a]), done.set()))
        while not done.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.001)
        given.result()
    assert len(ticks) > 5


def test_inside_of_a_gradient_it_is_refused():
    def outer(w):
        return ct.parallel.value_and_gradient(lambda w, x: w * np.mean(x), w, [np.ones(2)])[0]

    with pytest.raises(TypeError, match="workers cannot be part of a function that is diff"):
        ct.gradient(outer, 1.0)


def test_detection_holds_in_this_thread():
    with ct.detect(), pytest.raises(ct.NonFiniteError):
        ct.parallel.gradient(lambda w, x: np.mean(np.sqrt(w * x)), 0.0, [np.zeros(2)] * 2)


def test_errstate_holds_in_threads(threads):
    def f(w, x):
        seen.append(np.geterr()["divide"])
        return w * random.random()

    seen = []
    with np.errstate(divide="call"):
        ct.parallel.gradient(f, 1.0, [np.ones(2)] * 2, executor=threads)
    assert seen[-2:] == ["call", "call"]


def test_integers_in_batches_stay_integers(executor):
    def f(w, n, pair):
        return w * np.sum(np.ones(n)) * len("x" * pair[1])

    slope = ct.parallel.gradient(f, 2.0, [(2, [0.5, 1]), (3, [0.5, 2])], executor=executor)
    assert slope == 4.0


def slow(w, seconds):
    time.sleep(seconds * float(ct.dropgrad(w)))  # is refused where it is recorded
    return w


# What this process computes itself cannot be left. What has begun goes on, so the pool is its own.
@pytest.mark.parametrize("method", ["threads", *METHODS])
def test_a_deadline(method):
    with ThreadPoolExecutor(3) if method == "threads" else pool_of(method) as executor:
        found = ct.parallel.gradient(failing, 1.0, [np.ones(2)] * 4, executor=executor)
        assert found == 1.0
        begin = time.monotonic()
        with pytest.raises(TimeoutError, match=r"done after 1 s; batch.* had been handed out"):
            ct.parallel.gradient(slow, 1.0, [0.0, 4.0], executor=executor, timeout=1, max_pending=2)
        assert time.monotonic() - begin < 3.5
