"""Hooks on cotangents."""

import gc
import operator
import threading
import time
import weakref

import numpy as np
import pytest

import cotan as ct

X = np.array([1.0, 2.0])


def test_it_changes_or_looks():
    seen = []
    assert ct.gradient(lambda a, b: ct.hook(operator.neg, a) * b, 2.0, 3.0) == (-3.0, 2.0)
    assert ct.gradient(lambda a, b: ct.hook(seen.append, a) * b, 2.0, 3.0) == (3.0, 2.0)
    (g,) = seen
    assert isinstance(g, ct.Array)
    assert g.is_forced
    assert f"{g}" == "3.0"


@pytest.mark.parametrize("x", [2.0, np.float32(2.0), X, X.astype(np.float32), np.ones((2, 1)) * 1j])
def test_the_cotangent_is_like_the_value(x):
    seen = []

    def look(g):
        seen.append((np.shape(g), g.dtype, g._rank))

    ct.gradient(lambda x: np.real(np.sum(ct.hook(look, x) * 2)), x)
    rank = {float: "number", np.float32: "scalar"}.get(type(x), "array")
    assert seen == [(np.shape(x), np.asarray(x).dtype, rank)]


def test_no_gradient_no_call():
    def fail(g):
        return pytest.fail("the hook was called")

    assert ct.hook(fail, 2.0) == 2.0
    assert ct.hook(fail, X) is X
    tree = {"a": [X, "text"]}
    assert ct.hook(fail, tree) is tree
    assert ct.gradient(lambda x: ct.hook(fail, 3.0) * x, 2.0) == (3.0,)
    assert ct.gradient(lambda x: ct.hook(fail, x) * 0 if x < 0 else x * 3, 2.0) == (3.0,)
    assert ct.gradient(lambda x, y: ct.hook(fail, x) * y, ct.const(2.0), 3.0) == (None, 2.0)
    _, back = ct.pullback(lambda x, y: ct.hook(fail, x) * y, 2.0, 3.0)
    _, dy = back(1.0)
    assert float(dy) == 2.0


def test_once_for_all_readers_and_again_for_another_cotangent():
    seen = []
    _, back = ct.pullback(lambda x, y: ct.hook(lambda g: seen.append(float(g)), x * y), 2.0, 3.0)
    for dy in [1.0, 5.0, 5.0]:
        cts = back(dy)
        assert not seen
        assert [float(c) for c in cts] == [3 * dy, 2 * dy]
        assert seen == [dy]
        seen.clear()


def test_the_order_is_that_of_the_reverse_pass():
    seen = []

    def look(name):
        return lambda g: seen.append(name)

    def f(x):
        for i in range(5):
            x = ct.hook(look(i), np.sin(x) * 2)
        return np.sum(x)

    for shape in [(), (3,), (300_000,)]:
        seen.clear()
        ct.gradient(f, np.ones(shape))
        assert seen == [4, 3, 2, 1, 0]


def test_every_array_of_a_structure():
    def f(t):
        return t["a"] * t["b"][0]

    (g,) = ct.gradient(lambda t: f(ct.hook(lambda g: 10 * g, t)), {"a": 2.0, "b": [3.0, "text", 4]})
    assert g == {"a": 30.0, "b": [20.0, None, None]}


def test_nested():
    def square(g):
        return g * g

    def slope(c):
        return ct.grad(lambda x: ct.hook(square, x) * c)(1.0)

    assert slope(3.0) == 9.0
    assert ct.grad(slope)(3.0) == 6.0
    assert ct.grad(ct.grad(slope))(3.0) == 2.0

    def look(c):
        return ct.grad(lambda x: ct.hook(lambda g: None, x) * c**3)(1.0)

    assert ct.grad(look)(3.0) == 27.0

    def constant(c):
        return ct.grad(lambda x: ct.hook(lambda g: 5.0, x) * c)(1.0)

    assert constant(3.0) == 5.0
    assert ct.grad(constant)(3.0) == 0.0

    def vector(c):
        return np.sum(ct.gradient(lambda x: np.sum(ct.hook(square, x) * c), X)[0])

    np.testing.assert_array_equal(ct.gradient(vector, X)[0], 2 * X)


def test_a_hook_may_take_gradients():
    def inner(g):
        return ct.grad(lambda z: z**3)(float(g))

    assert ct.gradient(lambda x: ct.hook(inner, x) * 2, 1.0) == (12.0,)


@pytest.mark.parametrize("error", [KeyError("mine"), KeyboardInterrupt(), SystemExit(3)])
def test_what_it_raises_arrives_as_it_is(error):
    def raising(g):
        raise error

    for run in [
        lambda: ct.gradient(lambda x: np.sum(ct.hook(raising, x) * 2), X),
        lambda: np.asarray(ct.pullback(lambda x: ct.hook(raising, x) * 2, X)[1](X)[0]),
    ]:
        with pytest.raises(type(error)) as caught:
            run()
        assert caught.value is error
        assert caught.traceback[-1].name == "raising"
    assert ct.nestlevel() == 0
    assert ct.gradient(lambda x: x * 2, 1.0) == (2.0,)


@pytest.mark.parametrize(
    ("returns", "error", "parts"),
    [
        (np.ones(3), ValueError, ["(2,)", "(3,)"]),
        (1.0, ValueError, ["(2,)", "()"]),
        ("text", TypeError, ["f64[2]", "str"]),
        (np.ones(2) * 1j, TypeError, ["float64", "complex128"]),
    ],
)
def test_errors_name_the_hook(returns, error, parts):
    def mine(g):
        return returns

    with pytest.raises(error) as caught:
        ct.gradient(lambda x: np.sum(ct.hook(mine, x)), X)
    for part in ["hook mine", *parts]:
        assert part in str(caught.value)


def test_arguments_in_the_wrong_order():
    with pytest.raises(TypeError, match=r"hook\(f, x\)"):
        ct.hook(2.0, operator.neg)


def test_threads_inside_of_hooks_do_not_block_the_pool():
    before = ct.num_threads()
    ct.set_num_threads(2)
    results = []
    meeting = threading.Barrier(3, timeout=60)

    def work():
        def inside(g):
            meeting.wait()
            ct.gradient(lambda z: np.sum(np.exp(z)), np.zeros(1 << 20))

        (g,) = ct.gradient(lambda z: np.mean(np.exp(ct.hook(inside, z * 1.0))), np.zeros(1 << 20))
        results.append(float(g.sum()))

    threads = [threading.Thread(target=work) for _ in range(3)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(100)
    finally:
        ct.set_num_threads(before)
    assert results == pytest.approx([1.0] * 3)


def test_it_runs_on_the_thread_that_asks():
    seen = []

    def look(g):
        return seen.append(threading.get_ident())

    ct.gradient(lambda x: np.sum(np.exp(ct.hook(look, np.exp(x)))), np.zeros(1 << 20))
    assert seen == [threading.get_ident()]


def test_nothing_keeps_a_hook_alive():
    class Hook:
        def __call__(self, g):
            return g

    hook = Hook()
    alive = weakref.ref(hook)
    ct.gradient(lambda x, hook: ct.hook(hook, x) * 2, 1.0, ct.const(hook))
    del hook
    gc.collect()
    assert alive() is None


def test_the_cotangent_may_be_kept():
    kept = []
    x = np.ones(1 << 16)
    (g,) = ct.gradient(lambda x: np.sum(np.sin(ct.hook(kept.append, x * 2.0) * x)), x)
    wanted = np.cos(2.0)
    np.testing.assert_allclose(np.asarray(kept[0]), wanted)
    g[:] = 0
    np.testing.assert_allclose(np.asarray(kept[0]), wanted)


def test_threads_that_share_a_cotangent_share_its_hook():
    calls = []
    started = threading.Event()

    def slow(g):
        calls.append(threading.get_ident())
        started.set()
        time.sleep(0.2)
        return 2 * g

    _, back = ct.pullback(lambda x: ct.hook(slow, x * 1.0), X)
    (g,) = back(np.ones(2))
    found = []
    threads = [threading.Thread(target=lambda: found.append(np.asarray(g))) for _ in range(4)]
    threads[0].start()
    assert started.wait(60)
    [t.start() for t in threads[1:]]
    [t.join(60) for t in threads]
    assert len(calls) == 1
    assert [f.tolist() for f in found] == [[2.0, 2.0]] * 4


def test_a_hook_that_fails_lets_the_next_reader_try():
    calls = []

    def fails_once(g):
        calls.append(1)
        if len(calls) == 1:
            time.sleep(0.2)
            raise LookupError("first")

    _, back = ct.pullback(lambda x: ct.hook(fails_once, x * 1.0), X)
    (g,) = back(np.ones(2))
    found = []

    def read():
        try:
            found.append(np.asarray(g).tolist())
        except LookupError as error:
            found.append(str(error))

    threads = [threading.Thread(target=read) for _ in range(2)]
    [t.start() for t in threads]
    [t.join(60) for t in threads]
    assert sorted(found, key=str) == [[1.0, 1.0], "first"]


def test_hooks_that_read_each_other_do_not_wait_for_ever():
    thunks = {}
    meeting = threading.Barrier(2, timeout=60)
    calls = {"a": 0, "b": 0}

    def reads(own, other):
        def look(g):
            calls[own] += 1
            if calls[own] == 1:
                meeting.wait()
                np.asarray(thunks[other])

        return look

    for own, other in ("ab", "ba"):
        look = reads(own, other)
        _, back = ct.pullback(lambda x, f=look: ct.hook(f, x * 1.0), X)
        (thunks[own],) = back(X)
    threads = [threading.Thread(target=lambda n=n: np.asarray(thunks[n])) for n in "ab"]
    [t.start() for t in threads]
    [t.join(60) for t in threads]
    assert not any(t.is_alive() for t in threads)
    assert np.asarray(thunks["a"]).tolist() == np.asarray(thunks["b"]).tolist() == X.tolist()


class TestShow:
    def test_the_expression_is_that_of_the_source(self, capsys):
        def f(a):
            return ct.showgrad(a * 2) * 3  # fmt: skip

        assert ct.gradient(f, 1.0) == (6.0,)

        def g(a):
            return np.sum(
                ct.showgrad(
                    a
                    + 1.0
                )
            )  # fmt: skip

        ct.gradient(g, X)
        ct.gradient(lambda é: ct.showgrad(é) * ct.showgrad(é**2), 1.0)  # noqa: PLC2401
        lines = capsys.readouterr().out.splitlines()
        assert lines == ["∂(a * 2) = 3.0", "∂(a + 1.0) = [1. 1.]", "∂(é ** 2) = 1.0", "∂(é) = 1.0"]

    def test_without_a_source(self, capsys):
        f = eval("lambda a: ct.showgrad(a) * 3", {"ct": ct})
        ct.gradient(f, 1.0)
        ct.gradient(lambda a: ct.showgrad(a, label="mine"), 1.0)
        assert capsys.readouterr().out == "∂(x) = 3.0\n∂(mine) = 1.0\n"

    def test_how_it_is_called(self, capsys):
        show = ct.showgrad

        def f(a):
            b = show(x=a * 2) + sum(map(ct.showgrad, [a])) + ct.showgrad(*[a])
            return b + ct.showgrad(label=None, x=a + 1)

        ct.gradient(f, 1.0)
        lines = capsys.readouterr().out.splitlines()
        assert sorted(lines) == ["∂(a * 2) = 1.0", "∂(a + 1) = 1.0", "∂(x) = 1.0", "∂(x) = 1.0"]


class TestClip:
    def test_elements(self):
        def slope(k, **bounds):
            return ct.gradient(lambda x: ct.clip_gradient(x, **bounds) * k, 1.0)[0]

        assert [slope(k) for k in [-5.0, 0.5, 5.0]] == [-1.0, 0.5, 1.0]
        assert [slope(k, low=0.0) for k in [-5.0, 5.0]] == [0.0, 5.0]
        assert [slope(k, high=2.0) for k in [-5.0, 5.0]] == [-5.0, 2.0]

    def test_two_calls_clip_twice(self):
        def f(x):
            return ct.clip_gradient(x) * 3 + ct.clip_gradient(x) * 4

        assert ct.gradient(f, 1.0) == (2.0,)

    def test_the_norm_is_that_of_all_arrays_together(self):
        def f(t):
            t = ct.clip_gradient(t, norm=1.0)
            return 3 * t["a"] + np.sum(t["b"] * np.array([0.0, 4.0]))

        (g,) = ct.gradient(f, {"a": 1.0, "b": X})
        assert g["a"] == pytest.approx(0.6)
        np.testing.assert_allclose(g["b"], [0.0, 0.8])
        (g,) = ct.gradient(lambda x: np.sum(0.1 * ct.clip_gradient(x, norm=1.0)), X)
        np.testing.assert_allclose(g, [0.1, 0.1])
        (g,) = ct.gradient(lambda x: np.sum(0.0 * ct.clip_gradient(x, norm=1.0)), X)
        np.testing.assert_array_equal(g, [0.0, 0.0])

    @pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "complex128"])
    @pytest.mark.parametrize("size", [1e-3, 1.0, 1e4, 1e20, 1e37, 1e200, 1e308])
    def test_the_norm_of_huge_and_tiny_elements(self, dtype, size):
        dtype = np.dtype(dtype)
        limit = float(np.finfo(dtype).max)
        scale = dtype.type(min(size, 0.9 * limit))
        weights = np.array([3.0, 0.0, 4.0]).astype(dtype) / dtype.type(4) * scale
        clip = lambda x: ct.clip_gradient(x, norm=1e-3)

        (g,) = ct.gradient(lambda x: np.sum(np.real(clip(x) * weights)), np.ones(3, dtype))
        assert g.dtype == dtype
        rtol = 4 * np.finfo(dtype).eps
        length = 1.25 * float(abs(scale))
        wanted = weights.conj().astype(np.complex128 if dtype.kind == "c" else float)
        wanted = wanted / length * min(length, 1e-3)
        np.testing.assert_allclose(
            g, wanted.astype(dtype), rtol=rtol, atol=1e-6 if rtol > 1e-3 else 0
        )

    def test_the_smallest_norm_and_elements(self):
        tiny = np.array([3e-320, 4e-320])
        (g,) = ct.gradient(lambda x: np.sum(ct.clip_gradient(x, norm=1.0) * tiny), X)
        np.testing.assert_array_equal(g, tiny)
        (g,) = ct.gradient(lambda x: np.sum(ct.clip_gradient(x, norm=1e-200) * X), np.ones(2))
        np.testing.assert_allclose(g, X / np.sqrt(5) * 1e-200, rtol=1e-15)

    @pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
    def test_what_has_no_direction_becomes_nan(self, bad):
        def f(t):
            t = ct.clip_gradient(t, norm=1.0)
            return t["a"] * bad + np.sum(t["b"])

        (g,) = ct.gradient(f, {"a": 1.0, "b": X})
        assert np.isnan(g["a"])
        assert np.isnan(g["b"]).all()

    @pytest.mark.parametrize("size", [0.1, 10.0])
    def test_the_norm_to_second_order(self, size):
        def slope(w):
            (g,) = ct.gradient(lambda x: np.sum(ct.clip_gradient(x, norm=1.0) * w * w), np.ones(3))
            return np.sum(g * np.array([1.0, -2.0, 3.0]))

        w = size * np.array([0.3, -0.5, 0.2])
        (found,) = ct.gradient(slope, w)
        step = 1e-6
        columns = [(slope(w + e) - slope(w - e)) / (2 * step) for e in step * np.eye(3)]
        np.testing.assert_allclose(found, columns, rtol=1e-5, atol=1e-6)

    def test_empty_arrays_take_part(self):
        tree = {"a": np.ones(2), "b": np.ones((0, 3))}
        (g,) = ct.gradient(lambda t: 3 * np.sum(ct.clip_gradient(t, norm=1.0)["a"]), tree)
        np.testing.assert_allclose(g["a"], np.sqrt([0.5, 0.5]))

    def test_it_is_made_of_primitives(self):
        _, back = ct.pullback(lambda x: ct.clip_gradient(x) * 2, X)
        names = {e.primitive for e in back.program.equations}
        assert not names & {"host", "custom"}

    def test_errors(self):
        with pytest.raises(ValueError, match="low=2.0 is above high=1.0"):
            ct.clip_gradient(1.0, 2.0, 1.0)
        with pytest.raises(ValueError, match="norm must be positive"):
            ct.clip_gradient(1.0, norm=0.0)
        with pytest.raises(ValueError, match="norm must be positive"):
            ct.clip_gradient(1.0, norm=np.nan)
        with pytest.raises(TypeError, match="not both"):
            ct.clip_gradient(1.0, 1.0, norm=1.0)
