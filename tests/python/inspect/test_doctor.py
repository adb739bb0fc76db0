"""`python -m cotan doctor` names what does not work, and what disturbs, in this environment."""

import glob
import importlib.metadata
import json
import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from cotan import _core
from cotan.__main__ import main
from cotan._src.inspect import doctor, installation


def run(*arguments, before=None, **environment):
    return subprocess.run(
        [sys.executable, "-m", "cotan", "doctor", *arguments],
        check=False,
        capture_output=True,
        text=True,
        env=os.environ | environment,
        preexec_fn=before,
    )


def of(name):
    """Give what one check finds in this process."""
    return [doctor.Check(name, *result) for result in doctor.CHECKS[name]()]


def the(name):
    (check,) = of(name)
    return check


def test_a_sound_installation(capsys):
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    for name in doctor.CHECKS:
        assert f" {name} " in out
    assert "numpy:        " + np.__version__ in out
    assert "no errors" in out.splitlines()[-1]


def test_json(capsys):
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["status"] in {"ok", "warning"}
    assert found["facts"]["cotan"] == _core.__version__
    assert {check["name"] for check in found["checks"]} == set(doctor.CHECKS)
    assert all(set(c) == {"name", "status", "text", "remedy"} for c in found["checks"])


def test_an_error_is_the_exit_status(monkeypatch, capsys):
    def broken():
        raise OSError("no such luck")

    monkeypatch.setitem(doctor.CHECKS, "memory", broken)
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "error    memory" in out
    assert "OSError: no such luck" in out
    assert "1 error" in out.splitlines()[-1]
    assert main(["doctor", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["status"] == "error"


def test_a_warning_is_none(monkeypatch):
    monkeypatch.setattr(doctor, "CHECKS", {"all": lambda: iter([("warning", "slow", "wait")])})
    found = doctor.diagnose()
    assert found.status == "warning"
    assert "→ wait" in found.text()
    assert main(["doctor"]) == 0


def test_wrong_gradients_are_found(monkeypatch):
    true = _core.gradient

    def wrong(f, *arguments):
        return tuple(g + 1e-6 for g in true(f, *arguments))

    core = SimpleNamespace(gradient=wrong)
    monkeypatch.setattr(doctor, "_core", core)
    check = the("gradients")
    assert check.status == "error"
    assert "elementwise, products, second order" in check.text


@pytest.mark.parametrize("setting", ["0", "1"])
def test_overrides_are_on_or_off_as_is_said(setting):
    done = run("--json", COTAN_LIFTING=setting)
    assert done.returncode == 0, done.stdout + done.stderr
    checks = {c["name"]: c for c in json.loads(done.stdout)["checks"]}
    off = "no function of a library is overridden" in checks["overrides"]["text"]
    assert off is (setting == "0")
    assert f"COTAN_LIFTING={1 - int(setting)}" in checks["switch"]["text"]
    assert checks["switch"]["status"] == "ok"


def test_a_switch_that_does_not_work_is_an_error(monkeypatch):
    monkeypatch.setattr(doctor, "_OTHER_WAY", "print(True, 400)")
    assert the("switch").status == "error"
    monkeypatch.setattr(doctor, "_OTHER_WAY", "raise ValueError('odd')")
    assert "ValueError: odd" in the("switch").text


def test_no_process_can_be_started(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    assert the("switch").status == "warning"


def test_variables_that_nothing_reads(monkeypatch):
    monkeypatch.setenv("COTAN_THREADS", "4")
    monkeypatch.setenv("COTAN_SIMD", "sse")
    monkeypatch.setenv("COTAN_NUM_THREADS", "2")
    found = {c.text: c.status for c in of("settings")}
    assert found["cotan does not read COTAN_THREADS"] == "warning"
    assert found["COTAN_SIMD=sse has no effect"] == "warning"
    assert found["COTAN_NUM_THREADS=2"] == "ok"


def test_every_setting_that_the_sources_read_is_known():
    """The names after `env::var(` in Rust and `environ` in Python."""
    top = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(__file__))))
    sources = [*glob.glob(f"{top}/rust/**/*.rs", recursive=True), f"{top}/python/cotan/__init__.py"]
    if len(sources) < 2:
        pytest.skip("there are no sources beside the tests")
    read = set()
    for path in sources:
        with open(path, encoding="utf-8") as file:
            for line in file:
                if "env::var(" in line or "environ.get(" in line:
                    read |= {word for word in line.split('"') if word.startswith("COTAN_")}
    assert read == set(installation.SETTINGS)


def test_more_threads_than_processors(monkeypatch):
    monkeypatch.setattr(installation, "processors", lambda: 4)
    monkeypatch.setattr(installation, "processor_quota", lambda: None)
    monkeypatch.setattr(doctor, "_core", SimpleNamespace(num_threads=lambda: 4))
    assert the("threads").status == "ok"
    monkeypatch.setattr(installation, "processor_quota", lambda: 1.5)
    check = the("threads")
    assert check.status == "warning"
    assert "4 threads, 4 processors, of which the control group lets 1.5 be used" in check.text
    assert "COTAN_NUM_THREADS=1" in check.remedy


@pytest.mark.parametrize(
    ("has_lock", "text", "remedy"),
    [(True, "has switched the interpreter lock on", "usual build"), (False, "needs", "PYTHON_GIL")],
)
def test_a_free_threaded_python(monkeypatch, has_lock, text, remedy):
    monkeypatch.setattr(doctor.platform, "python_version", lambda: "3.14.5")
    monkeypatch.setattr(sys, "version", f"3.14.5 free-threading build ({sys.version})")
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: has_lock, raising=False)
    (found,) = doctor.CHECKS["python"]()
    assert found[0] == "warning"
    assert text in found[1] and remedy in found[2]


def test_quota_and_memory_of_a_control_group(monkeypatch, tmp_path):
    inner = tmp_path / "box" / "inner"
    inner.mkdir(parents=True)
    monkeypatch.setattr(installation, "_CGROUP", tmp_path)
    monkeypatch.setattr(installation, "_control_group", lambda: iter([inner, inner.parent]))
    assert installation.processor_quota() is None
    (inner / "cpu.max").write_text("max 100000\n")
    (inner.parent / "cpu.max").write_text("150000 100000\n")
    (inner / "memory.max").write_text("max\n")
    (inner.parent / "memory.max").write_text("536870912\n")
    assert installation.processor_quota() == 1.5
    assert installation.memory_limits()["control group"] == 1 << 29
    (warning,) = of("memory")
    assert warning.status == "warning"
    assert "537 MB by the control group" in warning.text or "512 MiB" in warning.text


@pytest.mark.skipif(sys.platform != "linux", reason="ulimit -v is in force on Linux")
def test_a_limit_of_memory():
    import resource

    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))

    done = run("--json", before=limit, OPENBLAS_NUM_THREADS="1")
    checks = {c["name"]: c for c in json.loads(done.stdout)["checks"]}
    assert "ulimit -v" in checks["memory"]["text"]
    assert checks["memory"]["status"] == "ok"


@pytest.mark.skipif(sys.platform != "linux", reason="LD_PRELOAD is Linux's")
def test_a_library_that_is_loaded_first(monkeypatch):
    math = next(iter(glob.glob("/lib/*/libm.so.6") + glob.glob("/lib64/libm.so.6")), None)
    if math is None:
        pytest.skip("there is no libm.so.6")
    done = run("--json", LD_PRELOAD=math)
    assert done.returncode == 0
    checks = {c["name"]: c for c in json.loads(done.stdout)["checks"]}
    assert checks["preload"]["status"] == "warning"
    assert math in checks["preload"]["text"]
    monkeypatch.setenv("LD_PRELOAD", "/usr/lib/libjemalloc.so.2")
    assert the("preload").status == "ok"


def test_more_threads_of_blas_than_processors(monkeypatch):
    for name in doctor._BLAS_THREADS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)
    assert the("blas").status == "ok"
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", str(installation.processors() + 1))
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    assert [c.status for c in of("blas")] == ["warning", "warning", "ok"]


def test_versions_that_are_too_old_or_too_new(monkeypatch):
    monkeypatch.setattr(installation, "oldest_tested", lambda: {"ml-dtypes": "99.1"})
    pytest.importorskip("ml_dtypes")
    old = of("libraries")[0]
    assert old.status == "warning"
    assert old.remedy == 'pip install "ml_dtypes>=99.1"'
    monkeypatch.setattr(doctor, "NEWEST_NUMPY", (1, 0))
    assert "tested up to 1.0" in the("numpy").text


def test_the_oldest_versions_are_those_of_the_extras(monkeypatch):
    lines = ["numpy>=2.1", 'scipy>=1.17; extra == "test"', 'scipy>=1.16; extra == "examples"']
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: lines)
    assert installation.oldest_tested() == {"numpy": "2.1", "scipy": "1.16"}


def test_two_installations(monkeypatch):
    two = [SimpleNamespace(version="0.0.9"), SimpleNamespace(version=_core.__version__)]
    monkeypatch.setattr(importlib.metadata, "distributions", lambda name: two)
    assert the("cotan").status == "error"
    monkeypatch.setattr(importlib.metadata, "distributions", lambda name: two[:1])
    assert the("cotan").status == "warning"
    monkeypatch.setattr(importlib.metadata, "distributions", lambda name: [])
    assert "from its sources" in the("cotan").text


def test_functions_that_were_replaced_before(tmp_path):
    """A package that wraps functions of NumPy when Python starts, as some tracers do."""
    code = "import numpy\ntrue = numpy.cumsum\ndef cumsum(*a, **k):\n    return true(*a, **k)\n"
    (tmp_path / "wrapping.py").write_text(f"{code}numpy.cumsum = cumsum\n")
    text = "import wrapping, runpy; runpy.run_module('cotan', run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.argv[1:] = ['doctor']; {text}"],
        check=False,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])},
    )
    assert "numpy.cumsum: replaced by another package" in done.stdout, done.stdout + done.stderr


def test_a_debugger_is_named():
    old = sys.gettrace()
    sys.settrace(lambda *_: None)
    try:
        check = of("tracing")[0]
    finally:
        sys.settrace(old)
    assert check.status == "warning"
    assert "sys.settrace" in check.text


def test_a_scipy_that_cannot_be_imported(monkeypatch):
    pytest.importorskip("scipy")

    def refuse(name):
        raise ImportError("numpy.core.multiarray failed to import")

    monkeypatch.setattr(doctor.importlib, "import_module", refuse)
    check = the("scipy")
    assert check.status == "error"
    assert "multiarray failed" in check.text
