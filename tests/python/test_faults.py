"""What goes wrong around a gradient: forks, threads, signals, no memory, exceptions, size."""

import contextlib
import gc
import math
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import traceback
import weakref

import numpy as np
import pytest

import cotan as ct

POSIX = pytest.mark.skipif(os.name != "posix", reason="fork, signals and limits are POSIX")
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/statm")

# What every script below starts with: a gradient that is large enough for the thread pool.
PRELUDE = """
import os, signal, sys, threading, time
import numpy as np
import numpy.testing  # otherwise a thread may be importing it when another one forks
import cotan as ct

# Whoever starts the tests in the background makes its children ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)

N = 1_000_000
X = np.linspace(0.0, 1.0, N)

def f(x):
    return np.sum(np.sin(x) * x)

def slope(x):
    return np.cos(x) * x + np.sin(x)

def check(n=N):
    x = X[:n]
    (g,) = ct.gradient(f, x)
    np.testing.assert_allclose(g, slope(x), rtol=1e-12)

"""


def script(body):
    return PRELUDE + textwrap.dedent(body)


def run(body, *options, timeout=60, first="", **kwargs):
    """Run a script in a fresh interpreter; a hang is a failure."""
    done = subprocess.run(
        [sys.executable, *options, "-c", first + script(body)],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        **kwargs,
    )
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}{done.stderr}"
    return done


# --------------------------------------------------------------------------------------------------
# Processes


FORK = """
def child_computes():
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            check()
            check(10)
            assert ct.grad(ct.grad(lambda x: x**3))(2.0) == 12.0
            status = 0
        finally:
            os._exit(status)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            assert status == 0, status
            return
        time.sleep(0.01)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    sys.exit("the child hangs")

"""


@POSIX
def test_a_gradient_in_a_child_after_fork():
    run(FORK + "check()\nchild_computes()\ncheck()\nchild_computes()\n")


@POSIX
def test_fork_while_another_thread_computes():
    body = """
    stop = threading.Event()

    def work():
        while not stop.is_set():
            check()

    thread = threading.Thread(target=work)
    thread.start()
    time.sleep(0.2)
    for _ in range(5):
        child_computes()
    stop.set()
    thread.join()
    """
    run(FORK + textwrap.dedent(body))


@POSIX
def test_what_others_do_before_a_fork_may_take_its_time():
    """They give the interpreter to a thread that computes, which must not find anything locked."""
    first = "import os, time\nos.register_at_fork(before=lambda: time.sleep(0.1))\n"
    body = """
    stop = threading.Event()

    def work():
        while not stop.is_set():
            check(100_000)

    thread = threading.Thread(target=work)
    thread.start()
    for _ in range(3):
        child_computes()
    stop.set()
    thread.join()
    """
    run(FORK + textwrap.dedent(body), first=first)


@POSIX
def test_fork_inside_a_recording():
    body = """
    def g(x):
        y = np.sin(x)
        child_computes()
        return np.sum(y * x)

    (d,) = ct.gradient(g, X)
    np.testing.assert_allclose(d, slope(X), rtol=1e-12)
    """
    run(FORK + textwrap.dedent(body))


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_process_pool(method, tmp_path):
    import multiprocessing

    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system has no {method}")
    body = """
    def task(k):
        n = 200_000 + k
        (g,) = ct.gradient(f, X[:n])
        return float(np.max(np.abs(g - slope(X[:n]))))

    if __name__ == "__main__":
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor

        check()
        context = multiprocessing.get_context(sys.argv[1])
        with ProcessPoolExecutor(2, mp_context=context) as pool:
            assert max(pool.map(task, range(8), timeout=60)) < 1e-12
        check()
    """
    path = tmp_path / "pool.py"
    path.write_text(script(body))
    done = subprocess.run(
        [sys.executable, path, method], capture_output=True, text=True, timeout=90, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


# --------------------------------------------------------------------------------------------------
# Threads


def test_eight_threads_with_nested_gradients():
    start = threading.Barrier(8)
    failures = []

    def work(k):
        try:
            x = np.linspace(0.1, 1.0, 5 + 100 * k)
            big = np.linspace(0.0, 1.0, 150_000)
            start.wait(30)
            for turn in range(20):
                w = 1.0 + k + turn

                def f(x, w=w):
                    return np.sum(np.sin(w * x))

                (g,) = ct.gradient(f, x)
                np.testing.assert_allclose(g, w * np.cos(w * x), rtol=1e-12, atol=1e-13)
                (h,) = ct.gradient(lambda x, f=f: np.sum(ct.gradient(f, x)[0]), x)
                np.testing.assert_allclose(
                    h, -w * w * np.sin(w * x), rtol=1e-12, atol=1e-12 * w * w
                )
                # x * d/dy (x + y): perturbations must not be confused, between threads neither
                assert ct.grad(lambda x: x * ct.grad(lambda y: x + y)(1.0))(1.0) == 1.0
                if turn % 5 == k % 5:
                    (g,) = ct.gradient(f, big)
                    np.testing.assert_allclose(g, w * np.cos(w * big), rtol=1e-12, atol=1e-13 * w)
            assert not ct.isderiving()
        except BaseException as error:  # noqa: BLE001 - handed to the main thread
            failures.append(error)
            start.abort()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
        assert not thread.is_alive()
    if failures:
        raise failures[0]


def test_threads_share_one_pullback():
    x = np.linspace(0.0, 1.0, 50_000)
    _, back = ct.pullback(lambda x: np.sin(x) * x, x)
    results = [None] * 8
    start = threading.Barrier(8)

    def work(k):
        start.wait(30)
        (dx,) = back(np.full(x.shape, k + 1.0))
        results[k] = np.asarray(dx)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for k, result in enumerate(results):
        np.testing.assert_allclose(result, (k + 1) * (np.cos(x) * x + np.sin(x)), rtol=1e-12)


def test_threads_force_one_thunk():
    x = np.linspace(0.0, 1.0, 200_000)
    _, back = ct.pullback(lambda x: np.sum(np.exp(x)), x)
    (dx,) = back(1.0)
    results = [None] * 8
    start = threading.Barrier(8)

    def work(k):
        start.wait(30)
        results[k] = np.asarray(dx)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for result in results:
        np.testing.assert_allclose(result, np.exp(x), rtol=1e-14)


def test_a_recording_belongs_to_its_thread():
    seen = {}

    def f(x):
        def other():
            seen["deriving"] = ct.isderiving()
            seen["gradient"] = ct.gradient(lambda y: y * y, 3.0)

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        return x * x

    assert ct.gradient(f, 2.0) == (4.0,)
    assert seen == {"deriving": False, "gradient": (6.0,)}


def test_python_runs_while_rust_computes():
    body = """
    def chain(x):
        for _ in range(1000):
            x = np.sin(x)
        return np.sum(x)

    program = ct.trace(chain, X)
    program(X)
    span = []

    def work():
        start = time.monotonic()
        program(X)
        span.append(time.monotonic() - start)

    thread = threading.Thread(target=work)
    thread.start()
    last, gap = time.monotonic(), 0.0
    while thread.is_alive():
        now = time.monotonic()
        gap = max(gap, now - last)
        last = now
    assert gap < 0.5 * span[0] + 0.05, (gap, span)
    assert span[0] > 0.15, f"too short to tell: {span}"
    """
    run(body)


@POSIX
@pytest.mark.parametrize(
    "loop",
    ["check()", "program(X)", "a @ a", "ct.grad(ct.grad(lambda x: x**3))(2.0)"],
    ids=["gradient", "program", "matmul", "nested"],
)
def test_exit_while_a_daemon_thread_computes(loop):
    body = f"""
    program = ct.trace(lambda x: np.sum(np.sin(np.sin(np.sin(x)))), X)
    a = ct.array(np.ones((1500, 1500)))
    running = threading.Event()

    def work():
        while True:
            np.asarray({loop})
            running.set()

    threading.Thread(target=work, daemon=True).start()
    assert running.wait(30)
    time.sleep(0.05)
    """
    done = run(body, "-X", "faulthandler")
    assert done.stdout + done.stderr == ""


# --------------------------------------------------------------------------------------------------
# Signals


LONG_RUNS = {
    # Each takes ten seconds or more: none can end by itself within the bound.
    "fused": """
    def chain(n):
        def g(x):
            for _ in range(n):
                x = np.sin(x)
            return np.sum(x)
        return ct.trace(g, X)

    probe = chain(200)
    probe(X)
    start = time.perf_counter()
    probe(X)
    program = chain(min(200_000, max(1000, int(20 * 200 / (time.perf_counter() - start)))))
    long_run = lambda: program(X)
    """,
    "matmul": """
    a = ct.array(np.ones((9000, 9000)))
    long_run = lambda: (a @ a).force()
    """,
}


@POSIX
@pytest.mark.parametrize("setup", LONG_RUNS.values(), ids=LONG_RUNS.keys())
def test_an_interrupt_arrives_during_a_long_run(setup):
    """The aim is 100 ms; the bound is one second, so that a busy machine does not fail."""
    body = (
        textwrap.dedent(setup)
        + """
check()
print("running", flush=True)
try:
    long_run()
except KeyboardInterrupt:
    print(time.monotonic(), flush=True)
else:
    sys.exit("the run ended, or the interrupt was swallowed")
assert not ct.isderiving()
check()
print("right again", flush=True)
"""
    )
    child = subprocess.Popen(
        [sys.executable, "-c", PRELUDE + body],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout.readline() == "running\n", child.stderr.read()
        time.sleep(0.3)
        sent = time.monotonic()
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)
    finally:
        child.kill()
        child.communicate()
    assert child.returncode == 0, err
    arrived, closing = out.splitlines()
    assert closing == "right again"
    assert float(arrived) - sent < 1.0


@POSIX
def test_an_interrupt_while_recording():
    body = """
    import signal

    def g(x):
        y = x
        for k in range(1000):
            y = np.sin(y)
            if k == 500:
                signal.raise_signal(signal.SIGINT)
        return np.sum(y)

    try:
        ct.gradient(g, X[:100])
    except KeyboardInterrupt:
        pass
    else:
        sys.exit("swallowed")
    assert not ct.isderiving()
    check()
    """
    run(body)


@POSIX
def test_what_a_signal_handler_raises_arrives():
    body = """
    import signal

    class Alarm(Exception):
        pass

    def handler(number, frame):
        raise Alarm

    signal.signal(signal.SIGALRM, handler)
    program = ct.trace(lambda x: np.sum(np.sin(np.sin(x))), X)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    deadline = time.monotonic() + 20
    try:
        while time.monotonic() < deadline:
            program(X)
    except Alarm:
        pass
    else:
        sys.exit("the handler never ran")
    check()
    """
    run(body)


# --------------------------------------------------------------------------------------------------
# Memory


@LINUX
@pytest.mark.parametrize(
    "expression",
    [
        "ct.pullback(lambda x: np.sin(x[:, None]) * x[None, :], X[:60_000])",
        "ct.pullback(lambda x: x[:, None] @ x[None, :], X[:60_000])",
        "ct.pullback(lambda x: np.cumsum(x[:, None] + x[None, :], axis=0), X[:60_000])",
        "np.asarray(ct.sin(ct.array(np.ones((60_000, 1)))) * ct.array(np.ones(60_000)))",
        "ct.gradient(lambda x: np.sum(np.sin(x[:, None] @ x[None, :])), X[:60_000])",
    ],
    ids=["fused", "matmul", "cumsum", "array", "gradient"],
)
def test_no_memory_is_a_memory_error(expression):
    """Each needs 28.8 GB where one is left."""
    body = f"""
    import resource

    check()
    with open("/proc/self/statm") as file:
        size = int(file.read().split()[0]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (size + 2**30, hard))
    for _ in range(3):
        try:
            {expression}
        except MemoryError:
            pass
        else:
            sys.exit("28.8 GB were found")
        assert not ct.isderiving()
        check(10)
        check()
    """
    run(body)


@LINUX
@pytest.mark.parametrize(
    ("expression", "megabytes"),
    [("pickle.dumps(back, 4)", 40), ("pickle.dumps(x, 4)", 40), ("np.argsort(x).tolist()", 120)],
    ids=["pullback", "array", "sort"],
)
def test_no_memory_for_what_is_needed_besides(expression, megabytes):
    """Of 80 MB each: a copy for the pickle, what is sorted."""
    body = f"""
    import pickle
    import resource

    check()
    x = ct.array(np.linspace(0, 1, 10_000_000))
    x.force()
    y, back = ct.pullback(np.sin, x)
    back(y)[0].force()
    np.sort(x[:1_000_000]).force()
    with open("/proc/self/statm") as file:
        size = int(file.read().split()[0]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (size + ({megabytes} << 20), hard))
    for _ in range(3):
        try:
            {expression}
        except MemoryError:
            pass
        else:
            sys.exit("there was memory")
        check(10)
    """
    run(body)


@LINUX
def test_new_shapes_keep_the_memory_flat():
    """20,000 shapes, no two alike: the caches of plans are bounded."""
    body = """
    import gc, resource

    def resident():
        gc.collect()
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize()

    def call(k):
        x = X[: (k // 100 + 1) * (k % 100 + 1)].reshape(k // 100 + 1, k % 100 + 1)
        ct.gradient(lambda x: np.sum(np.sin(x) * np.exp(x)), x)

    for k in range(5_000):
        call(k)
    before = resident()
    for k in range(5_000, 20_000):
        call(k)
    grown = resident() - before
    assert grown < 32 * 2**20, f"{grown / 2**20:.1f} MiB more"
    """
    run(body, timeout=100)


@LINUX
def test_the_same_call_keeps_the_memory_flat():
    body = """
    import gc, resource

    def resident():
        gc.collect()
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize()

    def failing(x):
        y = np.sin(x) * 2.0
        raise ValueError

    def call():
        check(10_000)
        y, back = ct.pullback(f, X[:10_000])
        back(1.0)  # never read
        try:
            ct.gradient(failing, X[:10_000])
        except ValueError:
            pass

    for _ in range(200):
        call()
    before = resident()
    for _ in range(2_000):
        call()
    grown = resident() - before
    assert grown < 16 * 2**20, f"{grown / 2**20:.1f} MiB more"  # kept, they would be 480
    """
    run(body)


def test_what_f_closes_over_is_let_go():
    class Held(np.ndarray):
        pass

    def call():
        held = np.ones(1000).view(Held)
        ct.gradient(lambda x: np.sum(x * np.asarray(held)), np.ones(1000))
        return weakref.ref(held)

    watch = call()
    gc.collect()
    assert watch() is None


# --------------------------------------------------------------------------------------------------
# Exceptions


class Own(BaseException):
    """Not even an Exception."""


def raises(error):
    def f(x):
        np.sin(x)
        raise error  # the user's line

    return f


@pytest.mark.parametrize(
    "kind", [ValueError, KeyError, Own, SystemExit, KeyboardInterrupt, StopIteration, MemoryError]
)
@pytest.mark.parametrize(
    "call",
    [
        lambda f: ct.gradient(f, 1.0),
        lambda f: ct.value_and_gradient(f, np.ones(3)),
        lambda f: ct.pullback(f, np.ones(3)),
        lambda f: ct.grad(f)(1.0),
        lambda f: ct.value_and_grad(f)(1.0),
        lambda f: ct.trace(f, np.ones(3)),
        lambda f: ct.gradient(lambda x: ct.gradient(f, x)[0] * x, 1.0),
    ],
    ids=["gradient", "value_and_gradient", "pullback", "grad", "value_and_grad", "trace", "nested"],
)
def test_an_exception_in_f_arrives_as_it_is(call, kind):
    error = kind("mine")
    with pytest.raises(kind) as caught:
        call(raises(error))
    assert caught.value is error
    assert caught.value.__cause__ is None
    assert "raise error  # the user's line" in traceback.format_tb(caught.tb)[-1]
    assert ct.isderiving() is False
    assert ct.gradient(lambda x: x * x, 3.0) == (6.0,)


def test_an_inner_exception_that_is_handled_leaves_the_outer_recording():
    def f(x):
        y = np.sin(x)
        with contextlib.suppress(ValueError):
            ct.gradient(raises(ValueError("inner")), x)
        assert ct.isderiving()
        return y * x

    assert ct.gradient(f, 0.5) == (pytest.approx(0.5 * math.cos(0.5) + math.sin(0.5), rel=1e-15),)


def test_an_error_of_an_operation_points_at_the_users_line():
    def f(x):
        y = x * 2.0
        z = y + np.ones(4)  # does not fit
        return np.sum(z)

    with pytest.raises(ValueError, match=r"\(3,\).*\(4,\)") as caught:
        ct.gradient(f, np.ones(3))
    lines = "".join(traceback.format_tb(caught.tb))
    assert "# does not fit" in lines
    assert ct.isderiving() is False


def test_an_exception_keeps_no_memory():
    watches = []

    class Big(np.ndarray):
        pass

    plain = np.ones(1000)

    def f(x):
        big = plain.view(Big)
        watches.append(weakref.ref(big))
        y = x * np.asarray(big)
        raise ValueError(y.shape)

    for _ in range(5):
        with pytest.raises(ValueError, match="1000"):
            ct.gradient(f, np.ones(1000))
    gc.collect()
    assert [watch() for watch in watches] == [None] * 5


def test_a_failed_pullback_can_be_asked_again():
    _, back = ct.pullback(np.sin, np.zeros(3))
    with pytest.raises(ValueError, match=r"\(4,\)"):
        np.asarray(back(np.ones(4))[0])
    np.testing.assert_array_equal(np.asarray(back(np.ones(3))[0]), np.ones(3))


def test_endless_recursion_in_f_is_a_recursion_error():
    def f(x):
        return f(np.sin(x))

    with pytest.raises(RecursionError):
        ct.gradient(f, 1.0)
    assert ct.isderiving() is False
    assert ct.gradient(lambda x: x * x, 3.0) == (6.0,)


def test_at_the_end_of_the_stack_there_is_a_value_or_a_recursion_error():
    run("""
    def h(x):
        table = np.outer(x, x).reshape(-1) + np.quantile(x, 0.3)
        return np.sum(np.linalg.solve(np.eye(3) + table.reshape(3, 3), np.array([x[0], 1.0, 2.0])))

    found = set()

    def down():
        try:
            found.add(tuple(ct.gradient(h, np.arange(1.0, 4.0))[0]))
        except RecursionError:
            pass
        down()

    for limit in range(200, 250, 7):
        sys.setrecursionlimit(limit)
        try:
            down()
        except RecursionError:
            pass
        sys.setrecursionlimit(1000)
    assert found == {tuple(ct.gradient(h, np.arange(1.0, 4.0))[0])}, found
    check()
    """)


def test_generators_that_record_may_be_dropped_half_way():
    def values(x):
        while True:
            x = x * 2.0
            yield x

    def f(x):
        source = values(x)
        return next(source) + next(source)

    assert ct.gradient(f, 1.0) == (6.0,)


def test_a_traced_array_that_escapes_is_still_its_value():
    escaped = []

    def f(x):
        escaped.append(np.sin(x))
        return np.sum(x)

    x = np.ones(3)
    ct.gradient(f, x)
    assert ct.isderiving() is False
    np.testing.assert_allclose(np.asarray(ct.dropgrad(escaped[0])), np.sin(x), rtol=1e-15)


# --------------------------------------------------------------------------------------------------
# Size


@pytest.mark.parametrize("n", [200_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_long_chains(n):
    def f(x):
        for _ in range(n):
            x = x * 1.000001
        return x

    value, (gradient,) = ct.value_and_gradient(f, 2.0)
    assert value == pytest.approx(2 * math.exp(n * math.log(1.000001)), rel=1e-9)
    assert gradient == pytest.approx(value / 2, rel=1e-9)


def test_long_chains_in_a_thread_with_a_small_stack():
    result = []

    def work():
        def f(x):
            for _ in range(200_000):
                x = x + np.sin(x) * 1e-6
            return np.sum(x)

        result.append(ct.gradient(f, np.ones(2)))

    old = threading.stack_size(512 * 1024)
    try:
        thread = threading.Thread(target=work)
        thread.start()
    finally:
        threading.stack_size(old)
    thread.join(100)
    assert not thread.is_alive()
    x, slope = 1.0, 1.0
    for _ in range(200_000):
        x, slope = x + math.sin(x) * 1e-6, slope * (1.0 + math.cos(x) * 1e-6)
    np.testing.assert_allclose(result[0][0], [slope, slope], rtol=1e-9)


def test_a_long_chain_is_dropped_unread():
    def f(x):
        for _ in range(200_000):
            x = np.sin(x)
        return x

    _, back = ct.pullback(f, np.ones(3))
    thunks = back(np.ones(3))
    del back, thunks
    gc.collect()
    assert ct.gradient(lambda x: x * x, 3.0) == (6.0,)


@pytest.mark.parametrize("n", [100_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_one_value_used_many_times(n):
    def f(x):
        y = x * 1.0
        total = 0.0
        for _ in range(n):
            total = total + y
        return total

    assert ct.gradient(f, 2.0) == (float(n),)


def test_many_leaves():
    n = 100_000

    def f(xs):
        total = 0.0
        for k, x in enumerate(xs):
            total = total + (k + 1) * x
        return total

    (gradient,) = ct.gradient(f, [1.0] * n)
    assert gradient == [float(k + 1) for k in range(n)]


def test_many_arguments_and_array_leaves():
    n = 5_000
    arrays = [np.full(3, float(k)) for k in range(n)]

    def f(*xs):
        total = 0.0
        for x in xs:
            total = total + np.sum(x * x)
        return total

    for k, gradient in enumerate(ct.gradient(f, *arrays)):
        np.testing.assert_array_equal(gradient, np.full(3, 2.0 * k))


@pytest.mark.parametrize(
    ("f", "x", "expected"),
    [
        (np.sin, 0.5, math.sin(0.5)),
        (lambda x: x**13, 1.5, math.factorial(13) * 1.5),
        (lambda x: np.exp(2 * x), 0.25, 4096 * math.exp(0.5)),
    ],
    ids=["sin", "power", "exp"],
)
def test_twelve_nested_gradients(f, x, expected):
    for _ in range(12):
        f = ct.grad(f)
    assert f(x) == pytest.approx(expected, rel=1e-12)
    assert ct.isderiving() is False


def test_deep_structures():
    tree = 2.0
    for _ in range(200):
        tree = [tree]

    def leaf(tree):
        while not isinstance(tree, float):
            tree = tree[0]
        return tree

    (gradient,) = ct.gradient(lambda tree: leaf(tree) ** 2, tree)
    for _ in range(200):
        (gradient,) = gradient
    assert gradient == 4.0


# --------------------------------------------------------------------------------------------------
# Import


@pytest.mark.parametrize(
    "home", [None, os.devnull, "/nonexistent/home"], ids=["unset", "file", "missing"]
)
def test_import_without_a_home(home, tmp_path):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("HOME", "XDG_", "USERPROFILE"))}
    env["TMPDIR"] = str(tmp_path / "missing")
    if home is not None:
        env["HOME"] = home
    done = run("check(10)", "-B", env=env, cwd=tmp_path)
    assert done.stdout + done.stderr == ""
    assert list(tmp_path.iterdir()) == []


def test_import_is_quiet():
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", "import cotan"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_gradient_is_quiet_in_development_mode():
    done = run(
        "check()\ncheck(10)\nassert ct.grad(np.sin)(0.0) == 1.0\n", "-X", "dev", "-W", "error"
    )
    assert done.stdout + done.stderr == ""


def test_no_floating_point_warnings():
    with np.errstate(all="raise"):
        (gradient,) = ct.gradient(lambda x: np.sum(np.log(x) / x), np.array([0.0, 1.0]))
    assert not np.isfinite(gradient[0])
    assert gradient[1] == 1.0
