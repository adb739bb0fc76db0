"""Where memory ends or stays flat, and programs that are long, wide or deep."""

import gc
import math
import sys
import textwrap
import threading
import weakref

import numpy as np
import pytest
from test_faults import run

import cotan as ct

STATM = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/statm")


def can_limit_addresses():
    if sys.platform != "linux":
        return False
    import resource

    return resource.getrlimit(resource.RLIMIT_AS)[1] == resource.RLIM_INFINITY


NO_RESERVE = pytest.mark.skipif(
    "free-threading" in sys.version, reason="this Python takes memory for its objects ahead"
)
ADDRESS_LIMITS = pytest.mark.skipif(
    not can_limit_addresses(), reason="sets RLIMIT_AS; needs Linux, and no limit set from outside"
)

# What scripts that limit the address space start with.
LIMITS = """
import contextlib, gc, resource

MiB = 2**20

def mapped(column=0):
    with open("/proc/self/statm") as file:
        return int(file.read().split()[column]) * resource.getpagesize()

def resident():
    gc.collect()
    return mapped(1)

@contextlib.contextmanager
def left(size):
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (mapped() + int(size), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
"""


def run_limited(body, **options):
    return run(LIMITS + textwrap.dedent(body), **options)


# Two matrices, their product, and the same in a thread.
PRODUCT = """
A = np.cos(np.arange(10_000.0)).reshape(100, 100)

def product():
    try:
        return np.asarray(ct.array(A) @ ct.array(A))
    except MemoryError:
        return None
"""


@pytest.fixture(scope="session")
def packing():
    """Give what the first product of a thread takes, by the processor's caches: it is measured."""
    body = """
    def work():
        np.asarray(ct.array(A) + ct.array(A))  # whatever else a thread takes at its beginning
        before = mapped()
        product()
        print(mapped() - before)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    """
    return int(run_limited(PRODUCT + textwrap.dedent(body)).stdout)


@ADDRESS_LIMITS
@pytest.mark.parametrize(
    "expression",
    [
        "ct.pullback(lambda x: np.sin(x[:, None]) * x[None, :], X[:60_000])",
        "ct.pullback(lambda x: x[:, None] @ x[None, :], X[:60_000])",
        "ct.pullback(lambda x: np.cumsum(x[:, None] + x[None, :], axis=0), X[:60_000])",
        "np.asarray(ct.sin(ct.array(np.ones((60_000, 1)))) * ct.array(np.ones(60_000)))",
        "ct.gradient(lambda x: np.sum(np.sin(x[:, None] @ x[None, :])), X[:60_000])",
        "ct.gradient(lambda x: np.sum(np.broadcast_to(x[0], (10**7, 10**7)) * x[0]), X[:1])",
        "float(np.max(np.broadcast_to(ct.array(X[:2]), (10**14, 2))))",
        "int(np.argmax(np.broadcast_to(ct.array(X[:2]), (10**14, 2))))",
    ],
    ids=["fused", "matmul", "cumsum", "array", "gradient", "parts", "max", "argmax"],
)
def test_no_memory_is_a_memory_error(expression):
    """Each needs 28.8 GB or more where one is left: for a result, or for those of its parts."""
    body = f"""
    check()
    with left(1024 * MiB):
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
    run_limited(body)


@ADDRESS_LIMITS
@pytest.mark.parametrize(
    ("expression", "megabytes"),
    [
        pytest.param("pickle.dumps(back, 4)", 40, marks=NO_RESERVE),
        pytest.param("pickle.dumps(x, 4)", 40, marks=NO_RESERVE),
        ("np.argsort(x).tolist()", 120),
        ("x[places]", 40),
        ("x[places]", 120),
        ("x[chosen]", 40),
        ("x[chosen]", 120),
    ],
)
def test_no_memory_for_what_is_needed_besides(expression, megabytes):
    """Of 80 MB each: a copy for the pickle, what is sorted, positions."""
    body = f"""
    import pickle

    check()
    x = ct.array(np.linspace(0, 1, 10_000_000))
    x.force()
    y, back = ct.pullback(np.sin, x)
    back(y)[0].force()
    np.sort(x[:1_000_000]).force()
    places, chosen = np.arange(10_000_000), np.ones(10_000_000, bool)
    with left({megabytes} * MiB):
        for _ in range(3):
            try:
                {expression}
            except MemoryError:
                pass
            else:
                sys.exit("there was memory")
            check(10)
    """
    run_limited(body)


@ADDRESS_LIMITS
def test_no_memory_for_an_endless_recording():
    body = """
    def endless(x):
        while True:
            x = np.sin(x) * 1.0001 + 0.1

    check(10)
    with left(100 * MiB):
        for _ in range(3):
            try:
                ct.gradient(endless, X[:10])
            except MemoryError:
                assert not ct.isderiving()
            check(10)
    """
    run_limited(body)


@ADDRESS_LIMITS
@pytest.mark.parametrize("megabytes", [20, 60, 100, 150, 200, 250, 300])
def test_no_memory_for_what_follows_from_a_long_recording(megabytes):
    """Closing, differentiating, planning: either it is enough, or it is a MemoryError."""
    body = f"""
    import math

    def long(x):
        parts = []
        for k in range(100_000):
            parts.append(math.sin(x[k % 10]) * x[0])
        return np.sum(np.array(parts) ** 2)

    check(10)
    found = None
    with left({megabytes} * MiB):
        try:
            found, = ct.gradient(long, X[1:11])
        except MemoryError:
            assert not ct.isderiving()
        check(10)
    right, = ct.gradient(long, X[1:11])
    assert found is None or np.array_equal(found, right)
    """
    run_limited(body)


@ADDRESS_LIMITS
def test_no_memory_to_pack_operands(packing):
    body = f"""
    ct.set_num_threads(1)
    check()
    with left({packing // 2}):
        found = product()
    # The allocator may have kept blocks of up to 32 MiB.
    assert found is None or {packing} < 34 * MiB, "there was memory"
    np.testing.assert_allclose(product(), A @ A)
    check(10)
    """
    run_limited(PRODUCT + textwrap.dedent(body))


@ADDRESS_LIMITS
def test_no_more_is_asked_for_than_packing_takes(packing):
    body = f"""
    ct.set_num_threads(1)
    check()
    with left({packing} + 2 * MiB):
        found = product()
    np.testing.assert_allclose(found, A @ A)
    """
    run_limited(PRODUCT + textwrap.dedent(body))


@ADDRESS_LIMITS
@pytest.mark.parametrize("times", [0.5, 1.5, 2.5, 4.5, 40])
@pytest.mark.parametrize("expression", ["np.linalg.eigh(x)[0]", "np.linalg.cholesky(x)", "x @ x"])
def test_memory_for_some_threads_to_pack_operands(expression, times, packing):
    """Of three threads that ask at the same time: either it is there, or it is a MemoryError."""
    body = f"""
    ct.set_num_threads(3)
    given = np.random.default_rng(0).normal(size=(400, 400))
    given = given @ given.T
    x = ct.array(given)
    x.force()
    expected = np.asarray({expression.replace("x", "given")})
    found = None
    with left({int(times * packing)}):
        try:
            found = ({expression}).force()
        except MemoryError:
            pass
    again = np.asarray({expression})
    for value in (found, again):
        if value is not None:
            np.testing.assert_allclose(np.asarray(value), expected, rtol=1e-7, atol=1e-7)
    """
    run_limited(body)


@ADDRESS_LIMITS
@NO_RESERVE
def test_what_the_reserve_has_paid_for_fails_nothing_later():
    """The text takes more than is left, and nothing that can fail comes after that."""
    body = """
    functions = np.random.default_rng(0).choice([np.sin, np.cos], 100_000)  # no loop

    def long(x):
        for f in functions:
            x = f(x) * x
        return x

    program = ct.trace(long, X[:10])
    x = ct.array(X[:10])
    filled = []
    with left(4 * MiB):
        try:
            while True:
                filled.append(bytes(30_000))
        except MemoryError:
            del filled[-50:]
        assert len(str(program)) > 4 * MiB
    np.testing.assert_array_equal(x + x, 2 * X[:10])
    """
    run_limited(body)


@STATM
def test_new_shapes_keep_the_memory_flat():
    """20,000 shapes, no two alike: the caches of plans are bounded."""
    body = """
    def call(k):
        x = X[: (k // 100 + 1) * (k % 100 + 1)].reshape(k // 100 + 1, k % 100 + 1)
        ct.gradient(lambda x: np.sum(np.sin(x) * np.exp(x)), x)

    for k in range(5_000):
        call(k)
    before = resident()
    for k in range(5_000, 20_000):
        call(k)
    grown = resident() - before
    assert grown < 32 * MiB, f"{grown / MiB:.1f} MiB more"
    """
    run_limited(body, timeout=100)


@STATM
def test_the_same_call_keeps_the_memory_flat():
    body = """
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
    assert grown < 16 * MiB, f"{grown / MiB:.1f} MiB more"  # kept, they would be 480
    """
    run_limited(body)


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


def test_many_leaves_of_a_pullback():
    """Cotangents hold what they come from in common. Each for itself, it would be 230 GB."""
    n = 100_000
    _, back = ct.pullback(lambda xs: sum(x * x for x in xs), [float(k) for k in range(n)])
    (gradient,) = back(1.0)
    assert float(gradient[-1]) == 2.0 * (n - 1)
    assert float(gradient[1]) == 2.0
    assert [float(g) for g in gradient[2:5]] == [4.0, 6.0, 8.0]


def test_many_leaves_one_after_the_other():
    n = 30_000
    arrays = [np.array([float(k)]) for k in range(n)]
    (gradient,) = ct.gradient(lambda xs: np.sum(np.concatenate(xs) ** 2), arrays)
    np.testing.assert_array_equal(np.concatenate(gradient), 2.0 * np.arange(n))


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
