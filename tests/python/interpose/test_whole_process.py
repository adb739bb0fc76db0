"""What a recording meets in a process: reloads, forks, many modules, an empty file system."""

import importlib
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import cotan as ct


def run(code):
    """Run a program in a process of its own; give what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.split()


def differences(before):
    """List what is not as it was, the state of the tools that run tests left out."""
    tools = ("hypothesis", "pytest", "_pytest", "pluggy")
    return [line for line in ct.debug.verify_process(before) if not line.startswith(tools)]


def test_a_module_that_is_reloaded_inside(tmp_path, monkeypatch):
    text = "from numpy import zeros\nGRID = zeros({})\ndef f(x):\n    return x * GRID.size\n"
    path = tmp_path / "reloaded_module.py"
    path.write_text(text.format(2))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    module = importlib.import_module("reloaded_module")
    ct.gradient(lambda x: np.sum(np.zeros(2) + x), 1.0)
    before = ct.debug.process_state()

    def loss(x):
        first = module.f(x)
        path.write_text(text.format(3))
        importlib.invalidate_caches()
        importlib.reload(module)
        return first + module.f(x)

    try:
        assert ct.gradient(loss, 1.0) == (5.0,)
        assert type(module.GRID) is np.ndarray and module.zeros is np.zeros
        others = [line for line in differences(before) if not line.startswith("reloaded_module.")]
        assert others == []
    finally:
        del sys.modules["reloaded_module"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_inside_of_a_recording():
    ct.gradient(lambda x: np.sum(np.zeros(2) + x), 1.0)
    before = ct.debug.process_state()
    codes = []

    def loss(x):
        child = os.fork()
        if child == 0:
            good = differences(before) == [] and ct.gradient(lambda y: y**3, 2.0) == (12.0,)
            os._exit(0 if good else 1)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        return x * x

    assert ct.gradient(loss, 3.0) == (6.0,)
    assert codes == [0]
    assert differences(before) == []


MODULES = """
import sys, time, types
import numpy as np
import cotan as ct

class Lazy(types.ModuleType):
    touched = []

    def __getattribute__(self, name):
        if name not in ("__spec__", "__name__"):  # the interpreter's own imports ask for these
            Lazy.touched.append(name)
        raise RuntimeError("not configured")

for i in range(COUNT):
    sys.modules[f"service_{i}"] = Lazy(f"service_{i}")
begin = time.process_time()
ct.gradient(lambda x: np.sum(np.sin(np.zeros(2) + x)), 1.0)
print(time.process_time() - begin, len(Lazy.touched))
"""


@pytest.mark.alone
def test_thousands_of_modules_cost_the_first_gradient_nothing():
    def first(count):
        seconds, touched = run(MODULES.replace("COUNT", str(count)))
        assert touched == "0"
        return float(seconds)

    # Seconds of the processor, the best of some processes: other programs count little.
    pairs = [(first(0), first(4000)) for _ in range(2)]
    alone, among = (min(column) for column in zip(*pairs, strict=True))
    assert among - alone < 0.03


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="chroot is for the administrator alone"
)
def test_after_chroot_nothing_is_looked_for(tmp_path):
    code = f"""
        import os, math
        import numpy as np, scipy.integrate, scipy.linalg, scipy.optimize
        import cotan as ct

        ct.warm_up()
        os.chroot({str(tmp_path)!r})
        os.chdir("/")
        os.setgid(65534)
        os.setuid(65534)

        def loss(x):
            made = np.zeros(2)
            made[0] = math.sin(x[0])
            area = scipy.integrate.quad(lambda t: t * x[1], 0.0, 1.0)[0]
            return np.sum(made * scipy.linalg.solve(np.eye(2) * x[1], np.ones(2))) + area

        print(*ct.gradient(loss, np.array([0.0, 2.0]))[0].tolist())
        prepared = ct.prepare(loss, np.array([0.0, 2.0]))
        print(*prepared(np.array([0.0, 2.0]))[0].tolist())
        print(*ct.hessian(lambda x: np.sum(x**3), np.array([1.0, 2.0])).ravel().tolist())
        try:
            ct.gradient(lambda x: memoryview(x), np.ones(2))
        except TypeError as error:
            print(type(error).__name__)
    """
    assert run(code) == [*("0.5", "0.5") * 2, "6.0", "0.0", "0.0", "12.0", "NotDifferentiableError"]
