"""Where functions keep something that solvers call: what is held of that, compared and put back."""

import io
import itertools
import random
import sys
from argparse import Namespace
from array import array
from collections import OrderedDict, defaultdict, deque
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import integrate, optimize

import cotan as ct
from cotan._core import same_items
from cotan._src.state.bitwise_equal import same_bits
from cotan._src.state.buffers import SmallBuffer
from cotan._src.state.snapshot import StateSnapshot
from cotan._src.state.solver_replay import ReplayedCallback


def bowl(p, note, method="Nelder-Mead", size=2):
    """Search for the minimum of what notes the best values that it has had."""
    best = np.full(1, np.inf)

    def loss(x):
        v = np.sum((x - p) ** 2) + x[0] ** 4
        if v < best[0]:
            best[0] = v
            note(x)
        return v

    optimize.minimize(loss, np.zeros(size), method=method, tol=1e-9)


def slopes(f, p=1.3, h=1e-3):
    value, (slope,) = ct.value_and_gradient(f, p)
    assert value == pytest.approx(f(p), rel=1e-9)
    return slope, (f(p + h) - f(p - h)) / (2 * h)


@pytest.mark.parametrize("method", ["Nelder-Mead", "BFGS", "Powell", "COBYLA", "SLSQP"])
@pytest.mark.parametrize("shape", [2, (2, 2), 4000])
def test_arrays_that_are_made_under_the_gradient_keep_what_follows(method, shape):
    def f(p):
        at = np.zeros(shape)
        bowl(p, lambda x: at[..., :2].__setitem__(..., x), method)
        return 2 * at[..., 0].reshape(-1)[-1] + at[..., 1].reshape(-1)[0]

    slope, wanted = slopes(f)
    assert slope == pytest.approx(wanted, rel=1e-3)


@pytest.mark.parametrize("make", [lambda: [0.0] * 20, lambda: np.zeros(20), dict])
def test_all_that_a_call_has_written_follows(make):
    def f(p):
        parts = make()

        def note(x):
            for i in range(20):
                parts[i] = (i + 1.0) * x[i % 2]

        bowl(p, note)
        return sum(parts[i] for i in range(20))

    slope, wanted = slopes(f)
    assert slope == pytest.approx(wanted, rel=1e-3)


def test_elements_of_a_table_of_objects_belong_to_the_calls_that_wrote_them():
    def f(p):
        table = np.full((3, 3), None, object)

        def equation(x):
            v = x**3 + x - p
            if table[0, 1] is None and abs(v) < 1e-3:
                table[0, 1] = x * p
            table[1, 0] = x
            return v

        optimize.newton(equation, 0.8, tol=1e-9)
        return table[0, 1] + 0.0 * table[1, 0]

    slope, wanted = slopes(f)
    assert slope == pytest.approx(wanted, rel=5e-3)


def kept_and_written(place, write, calls=200, at=(30, 31, 150)):
    """Give what calls have seen in a place, and that which they see when they are done again."""
    seen = []

    def f(x):
        seen.append((int(x), write(place, int(x) in at)))
        return x

    callback = ReplayedCallback(f)
    callback.wrap_solver(lambda: [callback(float(i)) for i in range(calls)])()
    first = seen.copy()
    seen.clear()
    callback._last = None
    for call in {w.call.number: w.call for w in callback._writers.values()}.values():
        callback._snapshot.restore_to(callback._end)
        callback._snapshot.restore_to(call.found)
        f(call.args[0])
    return first, seen


def in_the_middle_of_a_list(items, now):
    items[700] = items[700] + now * 1.0
    return items[700]


def in_one_of_many(objects, now):
    objects[77].calls += now
    return objects[77].calls


def in_a_set(items, now):
    if now:
        items.discard(len(items) // 2)
        items.add(-len(items))
    return len(items), sum(items)


def in_a_table_of_objects(table, now):
    if now:
        table[3, 4] = (table[3, 4], 1)
    return table[3, 4]


def in_one_of_many_arrays(arrays, now):
    if now:
        arrays[5][1] += 1
        arrays["log"].append(1)
    return float(arrays[5][1]), len(arrays["log"])


PLACES = [
    (in_the_middle_of_a_list, lambda: [float(i) for i in range(1000)]),
    (in_one_of_many, lambda: [SimpleNamespace(calls=0) for _ in range(200)]),
    (in_a_set, lambda: set(range(1000))),
    (in_a_table_of_objects, lambda: np.full((20, 20), None, object)),
    (in_one_of_many_arrays, lambda: {i: np.zeros(3) for i in range(300)} | {"log": []}),
]


@pytest.mark.parametrize(("write", "make"), PLACES)
def test_what_few_calls_write_to_is_found_as_it_was(write, make):
    first, again = kept_and_written(make(), write)
    assert {i for i, _ in again} >= {150}
    for i, seen in again:
        assert (i, seen) in first


def test_what_is_written_and_put_back_by_turns_is_found_as_it_was():
    flags = [False, *range(500)]

    def toggle(flags, _now):
        flags[0] = not flags[0]
        return flags[0]

    first, again = kept_and_written(flags, toggle)
    assert again
    assert set(again) <= set(first)


def test_what_is_not_written_to_is_not_copied_for_each_call(monkeypatch):
    arrays, copies = {i: np.ones(8) for i in range(300)}, []
    held = SmallBuffer.read
    monkeypatch.setattr(SmallBuffer, "read", lambda *a: (copies.append(1), held(*a))[1])
    callback = ReplayedCallback(lambda x: x * arrays[3][0])
    callback.wrap_solver(lambda: [callback(float(i)) for i in range(100)])()
    callback.write_back(99.0)
    assert len(copies) == 300


def test_large_arrays_are_copied_once_in_a_solve(monkeypatch):
    table, copies = np.ones(100_000), []
    held = SmallBuffer.read
    monkeypatch.setattr(SmallBuffer, "read", lambda *a: (copies.append(a[1]), held(*a))[1])

    def root(p):
        return optimize.brentq(lambda x: table[5] * x**2 - p, 0.0, 5.0)

    assert ct.grad(root)(2.0) == pytest.approx(0.5 / np.sqrt(2.0))
    assert copies.count(True) == 1


def test_fields_of_objects_are_compared_as_such():
    table = np.zeros(3, [("name", object), ("at", float), ("more", [("inner", object)])])
    table["name"] = [["a"], ["b"], None]
    snapshot = StateSnapshot(lambda: table)
    assert not snapshot.has_changed()
    table["more"]["inner"][1] = 5
    assert snapshot.has_changed()
    assert snapshot.restore()
    assert table["more"]["inner"].tolist() == [0, 0, 0]
    table["name"][0].append(1)
    assert snapshot.restore()
    assert table["name"][0] == ["a"]


def test_a_proxy_is_not_asked_what_it_stands_for():
    class Lazy:
        @property
        def __class__(self):
            raise RuntimeError("used too early")

    lazy, calls = Lazy(), [0]

    def root(p):
        def f(x):
            calls[0] += lazy is not None
            return x**2 - p

        return optimize.brentq(f, 0.0, 5.0)

    assert ct.grad(root)(2.0) == pytest.approx(0.5 / np.sqrt(2.0))


def test_where_text_and_bytes_are_written_or_read_next():
    def run(p):
        text, data, log = io.StringIO("0123456789" * 40, "\r\n"), io.BytesIO(bytes(range(250))), []

        def f(x):
            log.append((text.read(1), data.read(1)))
            if len(log) == 3:
                text.write("a\nb")
            return p * x

        integrate.quad(f, 0, 1)
        return text, data, log

    text, data, log = run(1.3)
    found = []
    ct.gradient(lambda p: (found.extend(run(p)), p)[1], 1.3)
    assert (found[0].getvalue(), found[0].tell()) == (text.getvalue(), text.tell())
    assert (found[1].getvalue(), found[1].tell()) == (data.getvalue(), data.tell())
    assert found[2] == log


def test_long_text_and_bytes_are_as_scipy_leaves_them():
    def run(p):
        marks, signs, text = bytearray(50_000), array("d", [0.0] * 5000), io.StringIO()
        text.write("x" * 20_000)

        def f(x):
            marks[7] += 1
            signs[8] += 1
            text.write("y")
            return x**2 - p

        return optimize.brentq(f, 0.0, 5.0), [marks[7], signs[8], len(text.getvalue())]

    seen = []
    ct.gradient(lambda p: (seen.append(run(p)[1]), p)[1], 2.0)
    assert seen == [run(2.0)[1]]


def test_lists_of_the_same_objects():
    class Equal:
        def __eq__(self, other):
            raise AssertionError

        __hash__ = None

    for count in (0, 1, 1000):
        items = [Equal() for _ in range(count)]
        assert same_items(items, items.copy())
        assert not same_items(items, [*items, Equal()])
        for i in {0, count // 2, count - 1} if count else ():
            other = items.copy()
            other[i] = Equal()
            assert not same_items(items, other)


def test_arrays_of_the_same_bits():
    rng = np.random.default_rng(0)
    texts = np.array(["a", "b" * 80], np.dtypes.StringDType())
    for a in (
        rng.normal(size=(3, 4)).T,
        rng.normal(size=700_001),
        rng.normal(size=(700, 701))[::2, ::-1],
        np.zeros(0),
        np.array(2.0),
        np.array(["a", "bc"]),
        np.array("2020-01-01", "M8[D]"),
        np.array([1, "a", None], object)[::2],
        texts,
    ):
        assert same_bits(a, a.copy())
        assert not same_bits(a, np.resize(a, 9))
        if a.size and a.dtype.kind == "f":
            b = a.copy()
            b[(-1,) * a.ndim] = np.nextafter(b[(-1,) * a.ndim], 9)
            assert not same_bits(a, b)
    assert not same_bits(np.zeros(3), -np.zeros(3))
    assert same_bits(np.full(3, np.nan), np.full(3, np.nan))
    assert not same_bits(np.zeros(2), np.zeros(2, int))
    assert not same_bits(texts, np.array(["a", "c" * 80], np.dtypes.StringDType()))


def places():
    return SimpleNamespace(
        log=[1, 2],
        many=[float(i) for i in range(200)],
        names={"x": 1, "y": 2},
        table={i: float(i) for i in range(150)},
        some={1, 2, 3},
        more=set(range(100)),
        numbers=np.zeros(3),
        columns=np.zeros((4, 5)).T,
        sparse=np.zeros(4)[::2],
        objects=np.full((3, 3), None, object),
        recent=deque([1, 2], maxlen=4),
        ordered=OrderedDict(a=1, b=2),
        inner=[SimpleNamespace(calls=0) for _ in range(30)],
        marks=bytearray(b"abc"),
        arrays={i: np.zeros(2) for i in range(50)},
    )


WRITES = [
    lambda p, i: p.log.append(float(i)),
    lambda p, i: p.log.clear(),
    lambda p, i: p.many.__setitem__(i, -1.0 * i),
    lambda p, i: p.names.__setitem__("xyzw"[i % 4], float(i)),
    lambda p, i: p.names.pop("x", None),
    lambda p, i: p.table.__setitem__(2 * i, -1.0 * i),
    lambda p, i: p.some.symmetric_difference_update({i % 7}),
    lambda p, i: p.more.symmetric_difference_update({3 * i}),
    lambda p, i: p.numbers.__setitem__(i % 3, i),
    lambda p, i: p.columns.__setitem__((i % 5, i % 4), i),
    lambda p, i: p.sparse.__setitem__(i % 2, i),
    lambda p, i: p.objects.__setitem__((i % 3, i % 2), float(i)),
    lambda p, i: p.recent.append(i),
    lambda p, i: p.ordered.move_to_end(next(iter(p.ordered))),
    lambda p, i: setattr(p.inner[i % 30], "calls", i),
    lambda p, i: setattr(p, f"new{i % 3}", i),
    lambda p, i: p.marks.append(i),
    lambda p, i: p.arrays[i % 50].__setitem__(i % 2, i),
]


def listed(value):
    if isinstance(value, SimpleNamespace):
        return listed(vars(value))
    if isinstance(value, dict):
        return [(key, listed(v)) for key, v in value.items()]
    if isinstance(value, set):
        return sorted(value)
    if isinstance(value, np.ndarray):
        return value.tolist()
    return [listed(v) for v in value] if isinstance(value, (list, deque)) else str(value)


@pytest.mark.parametrize("seed", range(8))
def test_what_is_written_anywhere_is_put_back(seed):
    rng, root = np.random.default_rng(seed), places()

    def write(count):
        for _ in range(count):
            WRITES[rng.integers(len(WRITES))](root, int(rng.integers(200)))

    snapshot, start = StateSnapshot(lambda: root), listed(root)
    seen = []
    for _ in range(150):
        write(rng.integers(2) * rng.integers(2))
        seen.append((listed(root), snapshot.before_call()))
        write(rng.integers(2) * rng.integers(3))
        snapshot.changes_since(seen[-1][1])
    end, held = listed(root), snapshot.state()
    for was, found in seen[::10]:
        snapshot.restore_to(found)
        assert listed(root) == was
        write(3)
        snapshot.restore_to(held)
        assert listed(root) == end
    assert snapshot.restore()
    assert listed(root) == start
    assert not snapshot.has_changed()


class Labelled(np.ndarray):
    notes = 0


class Dice(random.Random):
    thrown = 0


def set_attribute(name):
    return lambda x: setattr(x, name, getattr(x, name) + 1)


def set_mask(x):
    x[int(np.ma.getmaskarray(x).sum())] = np.ma.masked


def add_to_first(x):
    x[(0,) * x.ndim] += 1


def numbered():
    given = []
    return defaultdict(lambda: given.append(1) or len(given))


MADE = {
    "matrix": (lambda: np.matrix(np.zeros((2, 2))), add_to_first, lambda x: float(x[0, 0])),
    "masked": (lambda: np.ma.zeros(3), add_to_first, lambda x: float(x[0])),
    "mask": (lambda: np.ma.masked_array(np.zeros(60)), set_mask, lambda x: int(x.mask.sum())),
    "subclass": (lambda: np.zeros(2).view(Labelled), set_attribute("notes"), lambda x: x.notes),
    "random": (lambda: Dice(1), set_attribute("thrown"), lambda x: x.thrown),
    "namespace": (lambda: Namespace(n=0), set_attribute("n"), lambda x: x.n),
    "factory": (numbered, lambda x: x[len(x)], lambda x: list(x.values())),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("is_outside", [False, True])
def test_what_is_made_beside_plain_arrays_is_put_back(name, is_outside):
    make, write, tell = MADE[name]

    def run(p, kept=None):
        kept = make() if kept is None else kept

        def f(t):
            write(kept)
            return p * t + t**3 - 2

        return optimize.brentq(f, -3, 5, xtol=1e-14), tell(kept)

    wanted = run(0.7)[1]
    seen = []
    given = make() if is_outside else None
    ct.gradient(lambda p: (out := run(p, given), seen.append(out[1]))[0][0], 0.7)
    assert seen == [wanted]


def counting():
    numbers = itertools.count()
    while True:
        yield next(numbers)


def handing_on():
    yield from itertools.count()


def looping():
    # The same object again and again, and then another one.
    yield from [0.5] * 9
    for value in [2.0] * 8 + [1.0] * 99:  # noqa: UP028
        yield value


@pytest.mark.skipif(sys.version_info < (3, 14), reason="these can be copied")
def test_iterators_that_do_not_tell_where_they_are_are_refused():
    def run(p):
        again = itertools.cycle([1.0, 2.0])

        def f(t):
            next(again)
            return p * t + t**3 - 2

        return optimize.brentq(f, -3, 5, xtol=1e-14) * next(again)

    with pytest.raises(TypeError, match="keeps state in an iterator or a generator"):
        ct.gradient(run, 0.7)


@pytest.mark.parametrize("make", [counting, handing_on, looping])
def test_generators_that_go_on_in_others_are_refused(make):
    def run(p):
        kept = make()

        def f(t):
            next(kept)
            return p * t + t**3 - 2

        return optimize.brentq(f, -3, 5, xtol=1e-14) * next(kept)

    with pytest.raises(TypeError, match="keeps state in an iterator or a generator"):
        ct.gradient(run, 0.7)
