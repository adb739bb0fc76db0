"""The interpreter ends while daemon threads compute, in Python code that a gradient calls too."""

import subprocess
import sys
import textwrap

import pytest

PRELUDE = """
import atexit, sys, threading, time

# Registered before cotan is imported, so that it runs after cotan's own.
waits = []
atexit.register(lambda: [wait() for wait in waits])

import numpy as np
import cotan as ct

X = np.ones(50_000)

@ct.adjoint(opaque=True)
def opaque(x):
    return np.sin(x), lambda c: c * 2

def filled(x):
    out = np.zeros(20)
    for i in range(20):
        out[i] = x[i] * x[i]
    return np.sum(out)

prepared = ct.prepare(lambda x: np.sum(np.sin(x) * x))

jobs = {
    "opaque": lambda: ct.gradient(lambda x: np.sum(opaque(x)), X),
    "hook": lambda: ct.gradient(lambda x: np.sum(ct.hook(lambda c: np.sin(c) + c, x)), X),
    "large": lambda: ct.gradient(lambda x: np.sum(np.sin(x)), X),
    "small": lambda: ct.gradient(lambda x: np.sum(np.sin(x)), X[:3]),
    "filled": lambda: ct.gradient(filled, X),
    "plain code": lambda: ct.gradient(lambda x: np.sum(np.sin(X)) * x, 1.0),
    "prepared": lambda: prepared(X),
    "values": lambda: np.asarray(np.sin(ct.array(X)) * 2.0),
    "checkpoint": lambda: ct.gradient(lambda x: np.sum(ct.checkpoint(np.sin)(x)), X),
}

def forever(job):
    while True:
        job()

"""


def run(body, *args):
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(body), *args],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.parametrize(
    "job",
    [
        "opaque", "hook", "large", "small", "filled", "plain code", "prepared", "values",
        "checkpoint",
    ],
)  # fmt: skip
@pytest.mark.parametrize("attempt", range(2))
def test_daemon_threads_compute_to_the_end(job, attempt):
    body = """
    for _ in range(4):
        threading.Thread(target=forever, args=(jobs[sys.argv[1]],), daemon=True).start()
    time.sleep(0.2)
    """
    run(body, job)


@pytest.mark.parametrize("wait", [0.003, 0.006, 0.01])
@pytest.mark.parametrize("job", ["prepared", "small"])
def test_threads_that_have_just_begun_are_waited_for(job, wait):
    body = """
    for _ in range(4):
        threading.Thread(target=forever, args=(jobs[sys.argv[1]],), daemon=True).start()
    time.sleep(float(sys.argv[2]))
    """
    run(body, job, str(wait))


@pytest.mark.parametrize("attempt", range(3))
def test_a_loop_of_the_user_inside_a_gradient_is_stopped(attempt):
    body = """
    started = threading.Event()

    def slow(x):
        started.set()
        for _ in range(10**9):
            pass
        return x * x

    for _ in range(2):
        threading.Thread(target=lambda: ct.gradient(slow, 1.0), daemon=True).start()
    started.wait()
    """
    run(body)


def test_the_thread_that_ends_the_interpreter_computes_as_ever():
    body = """
    threading.Thread(target=forever, args=(jobs["large"],), daemon=True).start()
    waits.append(lambda: print(ct.gradient(lambda x: np.sum(opaque(x)), X[:2])[0]))
    """
    assert run(body).split() == ["[2.", "2.]"]


def test_a_thread_that_somebody_waits_for_goes_on():
    body = """
    stop = threading.Event()

    def work():
        while not stop.is_set():
            jobs["opaque"]()
        print("done")

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    time.sleep(0.1)
    waits.append(stop.set)
    waits.append(thread.join)
    """
    assert run(body) == "done\n"


def test_a_second_interpreter_that_has_imported_cotan_may_end_last():
    interpreters = pytest.importorskip("_xxsubinterpreters")
    assert interpreters
    body = """
    import warnings
    import _xxsubinterpreters as interpreters

    code = "import sys, warnings; warnings.simplefilter('ignore')\\nsys.path[:] = %r\\nimport cotan"
    second = interpreters.create()
    try:
        interpreters.run_string(second, code % sys.path)
    except interpreters.RunFailedError:
        pass  # Where NumPy refuses, nothing is there to end.
    print(ct.gradient(lambda x: x * x, 3.0)[0])
    """
    assert run(body) == "6.0\n"
