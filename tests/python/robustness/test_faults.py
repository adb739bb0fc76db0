"""What goes wrong around a gradient: forks, threads, signals, what there is at import."""

import contextvars
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import cotan as ct

POSIX = pytest.mark.skipif(os.name != "posix", reason="fork, signals and limits are POSIX")

# A free-threaded Python says that it switches its lock on. In other words than in conftest.py:
# Python drops the second one of two options that are the same, and the first comes before `error`.
OF_THE_LOCK = ("-W", "ignore:The global interpreter:RuntimeWarning")

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
        [sys.executable, *options, *OF_THE_LOCK, "-c", first + script(body)],
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

        # In a context of its own: a free-threaded Python would start it in a copy of this one.
        thread = threading.Thread(target=contextvars.Context().run, args=(other,))
        thread.start()
        thread.join()
        return x * x

    assert ct.gradient(f, 2.0) == (4.0,)
    assert seen == {"deriving": False, "gradient": (6.0,)}


@pytest.mark.alone
def test_python_runs_while_rust_computes():
    body = """
    def chain(x):
        for _ in range(2000):
            x = np.sin(x)
        return np.sum(x)

    ct.set_num_threads(2)  # so that it takes some time on machines with many cores
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
    # Each takes some seconds on two threads, the fastest too: none can end by itself within the
    # bound.
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
@pytest.mark.alone
@pytest.mark.parametrize("setup", LONG_RUNS.values(), ids=LONG_RUNS.keys())
def test_an_interrupt_arrives_during_a_long_run(setup):
    """The aim is 100 ms; the bound is one second, so that a busy machine does not fail."""
    body = (
        "ct.set_num_threads(2)"
        + textwrap.dedent(setup)
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
@pytest.mark.parametrize("start", ["200.0", "np.full(3, 200.0)"])
@pytest.mark.parametrize("made", ["ct.trace(f, X)", "ct.prepare(f, X, transform='value')"])
def test_an_interrupt_of_a_loop_without_end(start, made):
    body = f"""
    def f(x):
        return ct.while_loop(lambda v: np.sum(v) < 100, lambda v: v * 0.5, x, rolled=True)

    X = {start}
    g = {made}
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        g(X * 0.1)
    except KeyboardInterrupt:
        assert np.all(g(X) == X)
    else:
        sys.exit("it ended")
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
        [sys.executable, "-X", "dev", "-W", "error", *OF_THE_LOCK, "-c", "import cotan"],
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
