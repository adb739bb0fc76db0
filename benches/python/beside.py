"""What a recording costs other threads, and a process that has imported many modules.

    python benches/python/beside.py [--markdown FILE]

*Threads*: one thread is inside of a recording, and this one runs code of other libraries. The time
is compared with the same code beside a thread that waits in a plain function: rounds alternate, and
the least time of either counts. Then both threads run at once: one records in a loop, or spins in
a loop of Python, and the processor time that the other one needs is compared. Results are
compared with those of a process in which nothing was recorded.

*Calls*: a call of NumPy's or Python's in a process without cotan, in one that has recorded, and
inside of a recording, and a gradient of a small function.

*Modules*: the first gradient of a process that has imported 4,000 modules, less that of a process
with NumPy alone, and the next one after one more import.

Libraries that are not installed are left out.
"""

import argparse
import contextlib
import importlib
import json
import math
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from _harness import machine, table, write_section

Work = Callable[[], object]
ROUNDS = 30
LOOP_ROUNDS = 9
MODULES = 4_000
# Of single numbers: a call takes some tens of nanoseconds.
NUMBERS = ("math.sin", "float")


# --------------------------------------------------------------------------------------------------
# What other threads do


def _numbers(function: Callable[[float], float]) -> Work:
    values = [0.1 * k for k in range(2_000)]
    return lambda: [function(x) for x in values][-1]


def numpy_creators() -> Work:
    return lambda: [(np.zeros(3), np.ones(3), np.full(3, 2.0), np.arange(3.0)) for _ in range(200)][
        -1
    ]


def numpy_ones() -> Work:
    return lambda: [np.ones(3) for _ in range(500)][-1]


def numpy_full() -> Work:
    return lambda: [np.full(3, 2.0) for _ in range(500)][-1]


def numpy_arithmetic() -> Work:
    x, y = np.linspace(0.0, 1.0, 50), np.linspace(1.0, 2.0, 50)
    return lambda: [np.sum(np.sin(x) * y + np.exp(x - y)) for _ in range(200)][-1]


def numpy_functions() -> Work:
    x, a = np.linspace(0.0, 1.0, 20), np.eye(4) + 0.1

    def run() -> object:
        for _ in range(50):
            out = np.concatenate([x, x[::-1]]), np.linalg.solve(a, x[:4]), np.where(x > 0.5, x, 0)
            out = *out, np.mean(x), np.array([1.0, 2.0, 3.0]), np.einsum("i,i", x, x)
        return out

    return run


def scipy_linalg() -> Work:
    linalg = importlib.import_module("scipy.linalg")
    a = np.eye(6) + 0.1
    return lambda: [linalg.solve(a, a[0]), linalg.cholesky(a), linalg.expm(a)]


def scipy_optimize() -> Work:
    optimize = importlib.import_module("scipy.optimize")
    return lambda: optimize.minimize(optimize.rosen, [1.2, 0.8], method="BFGS").x


def scipy_stats() -> Work:
    stats = importlib.import_module("scipy.stats")
    x = np.linspace(-1.0, 1.0, 100)
    return lambda: [stats.norm.cdf(x), stats.gamma.pdf(x + 2.0, 2.0), stats.pearsonr(x, x**3)[0]]


def scipy_signal() -> Work:
    signal, fft = (importlib.import_module(f"scipy.{name}") for name in ("signal", "fft"))
    b, a = signal.butter(3, 0.2)
    x = np.sin(np.linspace(0.0, 20.0, 400))
    return lambda: [signal.filtfilt(b, a, x), signal.welch(x)[1], fft.rfft(x)]


def pandas_frames() -> Work:
    pd = importlib.import_module("pandas")
    frame = pd.DataFrame({"k": list("abc") * 40, "v": np.arange(120.0), "w": np.arange(120)})

    def run() -> object:
        grouped = frame.groupby("k").agg({"v": "mean", "w": "sum"})
        joined = frame.merge(grouped, left_on="k", right_index=True)
        return joined.sort_values("v_x").rolling(3, on="w_x")["v_x"].mean().to_numpy()

    return run


def sklearn_models() -> Work:
    linear = importlib.import_module("sklearn.linear_model")
    cluster = importlib.import_module("sklearn.cluster")
    x = np.random.default_rng(0).normal(size=(60, 4))
    y = x @ np.arange(4.0) > 0

    def run() -> object:
        model = linear.LogisticRegression().fit(x, y)
        return model.coef_, cluster.KMeans(2, n_init=1, random_state=0).fit(x).inertia_

    return run


def numba_calls() -> Work:
    numba = importlib.import_module("numba")

    @numba.njit
    def total(x):
        s = 0.0
        for k in range(x.size):
            s += math.sin(x[k])
        return s

    x = np.linspace(0.0, 1.0, 50)
    return lambda: [total(x) for _ in range(500)][-1]


def sympy_algebra() -> Work:
    sympy = importlib.import_module("sympy")
    cache = importlib.import_module("sympy.core.cache")
    x, y = sympy.symbols("x y")

    def run() -> object:
        cache.clear_cache()
        return str(sympy.expand((x + y + 1) ** 5)), str(sympy.diff(sympy.sin(x * y) ** 2, x))

    return run


def werkzeug_requests() -> Work:
    routing = importlib.import_module("werkzeug.routing")
    test = importlib.import_module("werkzeug.test")
    wrappers = importlib.import_module("werkzeug.wrappers")
    urls = routing.Map([routing.Rule(f"/{k}/<int:n>", endpoint=str(k)) for k in range(20)])

    @wrappers.Request.application
    def app(request):
        endpoint, values = urls.bind_to_environ(request.environ).match()
        return wrappers.Response(f"{endpoint} {values['n']} {float(request.args['x'])}")

    client = test.Client(app)
    return lambda: [client.get("/7/12?x=1.5").text for _ in range(5)][-1]


def pydantic_models() -> Work:
    pydantic = importlib.import_module("pydantic")
    model = pydantic.create_model("Point", x=(float, ...), y=(list[float], ...), name=(str, "a"))
    given = {"x": "1.5", "y": [1, 2.5, "3"]}
    return lambda: [model.model_validate(given).model_dump_json() for _ in range(200)][-1]


def torch_training() -> Work:
    torch = importlib.import_module("torch")
    torch.set_num_threads(1)
    x = torch.linspace(0.0, 1.0, 64).reshape(16, 4)

    def run() -> object:
        w = torch.ones(4, 3, requires_grad=True)
        for _ in range(10):
            torch.tanh(x @ w).sum().backward()
        return w.grad.numpy()

    return run


def jax_gradients() -> Work:
    jax = importlib.import_module("jax")
    jnp = importlib.import_module("jax.numpy")
    compiled = jax.jit(jax.grad(lambda w: jnp.sum(jnp.tanh(w) ** 2)))
    w = np.linspace(0.0, 1.0, 16)

    def run() -> object:
        traced = jax.grad(lambda w: jnp.sum(jnp.sin(w) * w))(w)
        return np.asarray(traced), np.asarray([compiled(w) for _ in range(20)][-1])

    return run


WORK: dict[str, Callable[[], Work]] = {
    "math.sin": lambda: _numbers(math.sin),
    "float": lambda: _numbers(float),
    "np.zeros, np.ones, np.full, np.arange": numpy_creators,
    "np.ones": numpy_ones,
    "np.full": numpy_full,
    "NumPy arithmetic": numpy_arithmetic,
    "NumPy functions": numpy_functions,
    "scipy.linalg": scipy_linalg,
    "scipy.optimize": scipy_optimize,
    "scipy.stats": scipy_stats,
    "scipy.signal, scipy.fft": scipy_signal,
    "pandas": pandas_frames,
    "scikit-learn": sklearn_models,
    "numba": numba_calls,
    "SymPy": sympy_algebra,
    "werkzeug": werkzeug_requests,
    "pydantic": pydantic_models,
    "PyTorch": torch_training,
    "JAX": jax_gradients,
}


def available() -> dict[str, Work]:
    found = {}
    for name, make in WORK.items():
        try:
            found[name] = make()
        except ImportError:
            print(f"{name}: not installed", file=sys.stderr)
    return found


def is_same(one: object, other: object) -> bool:
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(is_same, one, other))  # type: ignore[arg-type]
    if isinstance(one, str) or type(one) is not type(other):
        return type(one) is type(other) and one == other
    return bool(np.array_equal(one, other, equal_nan=True))  # type: ignore[arg-type]


# --------------------------------------------------------------------------------------------------
# Beside a thread that records


@contextlib.contextmanager
def thread(call: Callable[[Callable[[], None]], object]) -> Iterator[None]:
    """Let another thread make a call, which gets a function that waits for the end of the block."""
    inside, over = threading.Event(), threading.Event()

    def pause() -> None:
        inside.set()
        over.wait()

    other = threading.Thread(target=call, args=(pause,))
    other.start()
    inside.wait()
    try:
        yield
    finally:
        over.set()
        other.join()


def record(pause: Callable[[], None]) -> None:
    import cotan as ct

    ct.gradient(lambda x: (pause(), x * x)[1], 1.0)


def wait(pause: Callable[[], None]) -> None:
    pause()


def paused(work: Work, expected: object) -> float:
    """Give the least time beside a recording over that beside a thread that waits."""
    least = {record: math.inf, wait: math.inf}
    for _ in range(ROUNDS):
        for state, best in least.items():
            with thread(state):
                start = time.perf_counter()
                result = work()
                least[state] = min(best, time.perf_counter() - start)
            assert is_same(result, expected)
    return least[record] / least[wait]


@contextlib.contextmanager
def looping(body: Callable[[], object]) -> Iterator[None]:
    """Let another thread go on with something."""
    over = threading.Event()

    def run() -> None:
        while not over.is_set():
            body()

    other = threading.Thread(target=run)
    other.start()
    try:
        yield
    finally:
        over.set()
        other.join()


def spin() -> None:
    s = 0
    for k in range(300):
        s += k


def gradients() -> None:
    import cotan as ct

    def f(x):
        s = np.zeros(4)
        for k in range(4):
            s[k] = math.sin(x * k)
        return np.sum(s)

    ct.gradient(f, 1.0)


def at_once(work: Work, expected: object) -> float:
    """Give the least processor time beside a loop of gradients over that beside plain Python."""
    least = {gradients: math.inf, spin: math.inf}
    for _ in range(LOOP_ROUNDS):
        for body, best in least.items():
            with looping(body):
                start = time.thread_time()
                results = [work() for _ in range(3)]
                least[body] = min(best, time.thread_time() - start)
            assert all(is_same(result, expected) for result in results)
    return least[gradients] / least[spin]


def threads() -> list[list[str]]:
    works = available()
    for work in works.values():
        work()  # what it imports and compiles
    results = {name: work() for name, work in works.items()}
    import cotan as ct

    ct.gradient(lambda x: x * x, 1.0)
    rows = []
    for name, work in works.items():
        limit = 1.6 if name in NUMBERS else 1.1
        beside, loop = paused(work, results[name]), at_once(work, results[name])
        rows.append([name, f"{beside:.2f}", f"{loop:.2f}", f"{limit:g}"])
        print(" ".join(rows[-1]), file=sys.stderr)
    return rows


# --------------------------------------------------------------------------------------------------
# Calls

THREE = np.ones(3)
CALLS: dict[str, Callable[[], object]] = {
    "`math.sin(1.0)`": lambda: math.sin(1.0),
    "`float(1)`": lambda: float(1),
    "`np.zeros(2)`": lambda: np.zeros(2),
    "`np.ones(2)`": lambda: np.ones(2),
    "`np.add(1.0, 2.0)`": lambda: np.add(1.0, 2.0),
    "`np.sum(ndarray)`": lambda: np.sum(THREE),
}


def per_call(call: Callable[[], object], count: int = 2_000, rounds: int = 15) -> float:
    least = math.inf
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(count):
            call()
        least = min(least, time.perf_counter() - start)
    return least / count


def calls() -> dict[str, dict[str, float]]:
    """Time calls before and after the first recording, and inside of one, less an empty call."""
    empty = per_call(lambda: None)
    found = {"without": {name: per_call(call) - empty for name, call in CALLS.items()}}
    import cotan as ct

    ct.gradient(lambda x: x * x, 1.0)
    found["after"] = {name: per_call(call) - empty for name, call in CALLS.items()}

    def inside(x):
        found["inside"] = {name: per_call(call, 500) - empty for name, call in CALLS.items()}
        return x

    ct.gradient(inside, 1.0)
    found["gradient"] = {"x * x": per_call(lambda: ct.gradient(lambda x: x * x, 3.0), 500)}
    return found


def call_rows(pythons: list[str]) -> tuple[list[str], list[list[str]]]:
    """Give a row for each call: the median of several processes of each interpreter."""
    head, columns = ["call"], []
    for python in pythons:
        command = [python, __file__, "--calls"]
        runs = [
            subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(5)
        ]
        versions, found = zip(*(json.loads(run.stdout) for run in runs), strict=True)
        head.append(versions[0])
        columns.append(
            {
                state: {n: statistics.median(one[state][n] for one in found) for n in times}
                for state, times in found[0].items()
            }
        )
    rows = []
    for name in CALLS:
        cells = [[f[s][name] * 1e9 for s in ("without", "after", "inside")] for f in columns]
        rows.append([name, *(" / ".join(f"{ns:.0f}" for ns in cell) for cell in cells)])
    gradient = [f"{found['gradient']['x * x'] * 1e9:.0f}" for found in columns]
    return head, [*rows, ["gradient of `x * x`", *gradient]]


# --------------------------------------------------------------------------------------------------
# Modules

FIRST = """
import sys, time, importlib
import numpy as np
sys.path.insert(0, sys.argv[1])
for k in range(int(sys.argv[2])):
    importlib.import_module(f"small_{k}")
import cotan as ct
start = time.perf_counter()
ct.gradient(lambda x: x * x, 1.0)
first = time.perf_counter() - start
importlib.import_module("one_more")
start = time.perf_counter()
ct.gradient(lambda x: x * x, 1.0)
print(first, time.perf_counter() - start)
"""
SMALL = """
import math
from numpy import zeros, sin
SCALE = {k}.0
def f(x, table={{"zeros": zeros}}):
    return sin(x) * SCALE + math.pi
class Model:
    make = zeros
    def g(self, x):
        return f(x)
"""


def modules() -> list[list[str]]:
    """Time the first gradient, and the one after another import, with and without many modules."""
    with tempfile.TemporaryDirectory() as folder:
        for k in range(MODULES):
            Path(folder, f"small_{k}.py").write_text(SMALL.format(k=k))
        Path(folder, "one_more.py").write_text(SMALL.format(k=0))
        least = {count: [math.inf, math.inf] for count in (0, MODULES)}
        for _ in range(5):
            for count, best in least.items():
                command = [sys.executable, "-c", FIRST, folder, str(count)]
                answer = subprocess.run(command, capture_output=True, text=True, check=True)
                least[count] = [
                    min(a, float(b)) for a, b in zip(best, answer.stdout.split(), strict=True)
                ]
    return [
        [f"{count:,} modules", *(f"{1e3 * seconds:.2f} ms" for seconds in times)]
        for count, times in least.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables there too")
    parser.add_argument("--calls", action="store_true", help="time calls in this interpreter alone")
    parser.add_argument("--python", action="append", default=[], help="another interpreter")
    options = parser.parse_args()
    if options.calls:
        print(json.dumps((f"Python {sys.version.split()[0]}", calls())))
        return
    heads = ["code", "waiting", "in a loop", "limit"]
    parts = [
        f"""### Beside a recording

`benches/python/beside.py`; {machine()}. Time of other code beside a thread that records, as a
multiple of its time beside one that does not: while that thread waits inside of the recording, and
processor time while both run.""",
        table(heads, threads()),
        """Nanoseconds of a call: before the first recording of the process, after it, and inside of
one.""",
        table(*call_rows([sys.executable, *options.python])),
        "The first gradient of a process, and the one after another import:",
        table(["imported before", "first", "after an import"], modules()),
    ]
    text = "\n\n".join(parts)
    print(text)
    if options.markdown:
        write_section(options.markdown, "beside", text)


if __name__ == "__main__":
    main()
