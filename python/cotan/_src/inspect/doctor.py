"""Finds out whether cotan works in this environment, and what in it is known to cause trouble.

Each check looks at one thing and says what it found. An *error* is something that does not work; a
*warning* works, slower or less predictably than it should. Behind `python -m cotan doctor`.
"""

import importlib
import importlib.metadata
import json
import math
import os
import platform
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from cotan import _core
from cotan._src.inspect import installation
from cotan._src.inspect.report_facts import size_text, time_text
from cotan._src.interpose import install
from cotan._src.interpose.process_state import verify_process

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Status = Literal["ok", "warning", "error"]
_ORDER: tuple[Status, ...] = ("ok", "warning", "error")
#: The newest versions that the tests have met, up to the second number.
NEWEST_NUMPY = (2, 5)
NEWEST_SCIPY = (1, 17)
#: Less memory than this leaves little room beside NumPy and its threads.
_LITTLE_MEMORY = 1 << 30
#: Allocators that are often loaded before all else; memory of theirs is as good as any.
_ALLOCATORS = ("jemalloc", "tcmalloc", "mimalloc", "hugetlbfs", "snmalloc")
_SECONDS = 60


@dataclass(frozen=True)
class Check:
    """What one check found. `remedy` is empty where nothing is to be done."""

    name: str
    status: Status
    text: str
    remedy: str = ""


@dataclass(frozen=True)
class Diagnosis:
    """Facts of the installation, and what the checks found."""

    facts: dict[str, str]
    checks: tuple[Check, ...]

    @property
    def status(self) -> Status:
        """The worst of what was found."""
        return max((check.status for check in self.checks), key=_ORDER.index, default="ok")

    def text(self) -> str:
        """Give the facts and the checks as lines."""
        wide = max(map(len, self.facts))
        lines = [f"{name + ':':{wide + 2}}{value}" for name, value in self.facts.items()]
        lines.append("")
        wide = max(len(check.name) for check in self.checks)
        for check in self.checks:
            lines.append(f"{check.status:8} {check.name:{wide}}  {check.text}")
            if check.remedy:
                lines.append(f"{'':8} {'':{wide}}  → {check.remedy}")
        counts = Counter(check.status for check in self.checks)
        parts = [_plural(counts[status], status) for status in ("error", "warning")]
        lines += ["", f"{_plural(len(self.checks), 'check')}: {', '.join(parts)}"]
        return "\n".join(lines)

    def json(self) -> str:
        """Give the same as JSON, with the keys status, facts and checks."""
        found = {"status": self.status, "facts": self.facts, "checks": [*map(asdict, self.checks)]}
        return json.dumps(found, indent=2)


def diagnose() -> Diagnosis:
    """Run all checks.

    A check that raises is an error with its message; the others are run all the same.
    """
    found: list[Check] = []
    for name, check in CHECKS.items():
        try:
            found += [Check(name, *result) for result in check()]
        except Exception as error:  # noqa: BLE001 - what is broken is what is looked for
            found.append(Check(name, "error", f"{type(error).__name__}: {error}"))
    return Diagnosis(installation.facts(), tuple(found))


Result = tuple[Status, str] | tuple[Status, str, str]


def _plural(count: int, word: str) -> str:
    return f"{count or 'no'} {word}{'' if count == 1 else 's'}"


# --------------------------------------------------------------------------------------------------
# Versions


def _python() -> Iterator[Result]:
    text = f"{platform.python_version()} in {sys.prefix}"
    if sys.version_info.releaselevel != "final":
        yield "warning", f"{text}, a pre-release", "use a released version of Python"
    elif "free-threading" in sys.version:
        # Since Python 3.13.
        if getattr(sys, "_is_gil_enabled", bool)():
            yield (
                "warning",
                f"{text}, free-threaded; cotan has switched the interpreter lock on",
                "use the usual build of Python; threads do not run side by side here, either",
            )
        else:
            yield (
                "warning",
                f"{text}, free-threaded, without the interpreter lock, which cotan needs",
                "unset PYTHON_GIL, and do not start Python with -X gil=0",
            )
    else:
        yield "ok", text


def _cotan() -> Iterator[Result]:
    here = Path(__file__).parents[2]
    text = f"{_core.__version__} in {here}"
    found = list(importlib.metadata.distributions(name="cotan"))
    versions = {item.version for item in found}
    if len(found) > 1 and len(versions) > 1:
        yield (
            "error",
            f"{text}, but versions {', '.join(sorted(versions))} are installed on the same path",
            "pip uninstall cotan until none is left, then install it once",
        )
    elif versions and _core.__version__ not in versions:
        yield (
            "warning",
            f"{text}, but the installed package is version {versions.pop()}",
            "another copy stands before the installed package: see PYTHONPATH, or install again",
        )
    else:
        yield "ok", text if found else f"{text}, used from its sources"


def _numpy() -> Iterator[Result]:
    version = np.__version__
    text = f"{version} in {Path(np.__file__).parent}"
    if installation.release(version)[:2] > NEWEST_NUMPY:
        newest = ".".join(map(str, NEWEST_NUMPY))
        yield "warning", f"{text}; tested up to {newest}", "look whether there is a newer cotan"
    elif not installation.release(version) or "dev" in version or "rc" in version:
        yield "warning", f"{text}, a pre-release", "use a released version of NumPy"
    else:
        yield "ok", text


def _scipy() -> Iterator[Result]:
    if installation.version_of("scipy") is None:
        yield "ok", "not installed; cotan does not need it"
        return
    try:
        scipy = importlib.import_module("scipy")
        linalg = importlib.import_module("scipy.linalg")
    except Exception as error:  # noqa: BLE001 - a build for another NumPy raises anything
        yield (
            "error",
            f"it cannot be imported: {type(error).__name__}: {error}",
            "pip install --upgrade --force-reinstall scipy",
        )
        return
    if _core.may_install():
        a = np.array([[3.0, 1.0], [1.0, 2.0]])
        (found,) = _core.gradient(lambda b: np.sum(linalg.solve(a, b)), np.array([1.0, 2.0]))
        if not np.allclose(found, np.linalg.solve(a.T, np.ones(2)), rtol=1e-12):
            yield "error", f"{scipy.__version__}: the gradient of scipy.linalg.solve is {found}"
            return
    if installation.release(scipy.__version__)[:2] > NEWEST_SCIPY:
        newest = ".".join(map(str, NEWEST_SCIPY))
        text = f"{scipy.__version__}; tested up to {newest}"
        yield "warning", text, "look whether there is a newer cotan"
    else:
        yield "ok", scipy.__version__


def _libraries() -> Iterator[Result]:
    tested = installation.oldest_tested()
    there = 0
    for name in installation.LIBRARIES:
        version = installation.version_of(name)
        oldest = tested.get(installation.normalized(name))
        if version is None:
            continue
        there += 1
        if oldest and installation.release(version) < installation.release(oldest):
            yield (
                "warning",
                f"{name} {version}; tested from {oldest} on",
                f'pip install "{name}>={oldest}"',
            )
    yield "ok", f"{_plural(there, 'known library').replace('librarys', 'libraries')} found"


# --------------------------------------------------------------------------------------------------
# Results


def _gradient() -> Iterator[Result]:
    """Compare gradients with formulas: fused, on several threads, products, second order."""
    x = np.linspace(-2.0, 2.0, 200_001)
    start = perf_counter()
    (found,) = _core.gradient(lambda x: np.sum(np.sin(x) * np.exp(-x)), x)
    took = perf_counter() - start
    exact = (np.cos(x) - np.sin(x)) * np.exp(-x)
    pairs: dict[str, tuple[ArrayLike, ArrayLike]] = {"elementwise": (found, exact)}
    a, b = np.arange(12.0).reshape(3, 4), np.arange(8.0).reshape(4, 2)
    (by_a,) = _core.gradient(lambda a: np.sum((a @ b) ** 2), a)
    pairs["products"] = by_a, 2 * (a @ b) @ b.T

    def slope(x: Any) -> Any:
        return _core.gradient(lambda y: y**3, x)[0]

    (second,) = _core.gradient(slope, 2.0)
    pairs["second order"] = second, 12.0
    wrong = [what for what, (got, want) in pairs.items() if not np.allclose(got, want, rtol=1e-12)]
    if wrong:
        remedy = "COTAN_SIMD=baseline tells whether it is the SIMD kernels; please report it"
        yield "error", f"gradients differ from their formulas: {', '.join(wrong)}", remedy
    else:
        text = "agree with their formulas: elementwise, products, second order"
        yield "ok", f"{text} (the first one took {time_text(took)})"


#: Code of a user: a buffer, a function outside NumPy's protocols, and a number.
_PLAIN = """
import math
import numpy as np

def plain(x):
    made = np.zeros(2)
    made[0] = math.sin(x)
    return float(np.sum(made))
"""


def _plain() -> Callable[[float], float]:
    # Code of this package counts as a library's, which gets ndarrays.
    names: dict[str, Callable[[float], float]] = {}
    exec(compile(_PLAIN, "<python -m cotan doctor>", "exec"), names)  # noqa: S102
    return names["plain"]


def _overrides() -> Iterator[Result]:
    """Record code that needs overrides, and look at what they leave behind."""
    plain = _plain()
    if not _core.may_install():
        try:
            _core.gradient(plain, 0.5)
        except _core.NotDifferentiableError:
            left = len(_core.entries())
            if left:
                yield "error", f"COTAN_LIFTING switches them off, but {left} are installed"
            else:
                yield "ok", "off: COTAN_LIFTING is set, and no function of a library is overridden"
        else:
            yield "error", "COTAN_LIFTING switches them off, but math.sin is differentiated"
        return
    (found,) = _core.gradient(plain, 0.5)
    if not math.isclose(found, math.cos(0.5), rel_tol=1e-12):
        yield "error", f"math.sin, written into np.zeros, has the gradient {found}"
        return
    libraries = ", ".join(install.installed_libraries())
    yield "ok", f"{len(_core.entries())} functions are overridden, of {libraries}"
    for line in verify_process():
        yield "error", line, "please report it"


_OTHER_WAY = f"""
import cotan
from cotan import _core
{_PLAIN}
try:
    cotan.gradient(plain, 0.5)
    on = True
except cotan.NotDifferentiableError:
    on = False
print(on, len(_core.entries()))
"""


def _switch() -> Iterator[Result]:
    """Start a process with the other setting of `COTAN_LIFTING`."""
    value = "0" if _core.may_install() else "1"
    command = f"COTAN_LIFTING={value}"
    environment = os.environ | {"COTAN_LIFTING": value}
    # It has to find this very package.
    top = str(Path(__file__).parents[3])
    environment["PYTHONPATH"] = os.pathsep.join(
        filter(None, (top, os.environ.get("PYTHONPATH", "")))
    )
    try:
        done = subprocess.run(  # noqa: S603 - our own text, and this interpreter
            [sys.executable, "-c", _OTHER_WAY],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        yield "warning", f"not tried, since no process could be started: {error}"
        return
    expected = "True" if value == "1" else "False 0"
    if done.returncode == 0 and done.stdout.startswith(expected):
        does = "overrides functions again" if value == "1" else "overrides no function"
        yield "ok", f"a process with {command} {does}"
    else:
        last = (done.stderr or done.stdout).strip().rpartition("\n")[2]
        yield "error", f"a process with {command} does not do what it should: {last}"


def _replaced() -> Iterator[Result]:
    """Name functions of NumPy and others that something else had replaced before."""
    names = install.replaced()
    if names:
        shown = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
        yield (
            "warning",
            f"{shown}: replaced by another package or by sitecustomize; these are not overridden",
            "look what is imported when Python starts: python -X importtime -c pass",
        )
    else:
        yield "ok", "no function of NumPy or SciPy has been replaced"


# --------------------------------------------------------------------------------------------------
# The machine and the settings


def _settings() -> Iterator[Result]:
    there = {name: value for name, value in os.environ.items() if name.startswith("COTAN_")}
    unknown = sorted(set(there) - set(installation.SETTINGS))
    for name in unknown:
        known = ", ".join(installation.SETTINGS)
        yield "warning", f"cotan does not read {name}", f"what it reads: {known}"
    for name, takes in installation.SETTINGS.items():
        value = there.get(name, "").strip().lower()
        if value and not _is_setting(name, value):
            yield "warning", f"{name}={there[name]} has no effect", f"{name} takes {takes}"
        elif value:
            yield "ok", f"{name}={there[name]}"
    if not there:
        yield "ok", "no variable COTAN_… is set"


def _is_setting(name: str, value: str) -> bool:
    if name == "COTAN_LIFTING":
        return value in {"0", "1", "true", "false", "yes", "no", "on", "off"}
    if name in {"COTAN_MACHINE_CODE", "COTAN_REPLAY"}:
        return value in {"0", "1", "always"}
    if name == "COTAN_SIMD":
        return value in {"baseline", "avx2"}
    return value.isdigit() and int(value) > 0


def _simd() -> Iterator[Result]:
    level, machine = _core.simd_level(), platform.machine().lower()
    limit = os.environ.get("COTAN_SIMD")
    if limit:
        yield "ok", f"{level}; COTAN_SIMD={limit} bounds it"
    elif level == "baseline" and machine in {"x86_64", "amd64"}:
        text = f"{level}: this processor, or what emulates it, has no AVX2 with FMA"
        yield "warning", text, "expect elementwise code to be a few times slower"
    else:
        yield "ok", f"{level} on {machine}"


def _threads() -> Iterator[Result]:
    threads, usable = _core.num_threads(), installation.processors()
    quota = installation.processor_quota()
    text = f"{_plural(threads, 'thread')}, {_plural(usable, 'processor')}"
    room = float(usable)
    if quota is not None and quota < usable:
        text += f", of which the control group lets {quota:.3g} be used"
        room = quota
    if threads > max(1, math.ceil(room)):
        fitting = max(1, int(room))
        yield "warning", text, f"set COTAN_NUM_THREADS={fitting}, or ct.set_num_threads({fitting})"
    else:
        yield "ok", text


_BLAS_THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")


def _blas() -> Iterator[Result]:
    usable = installation.processors()
    text = f"NumPy multiplies by {installation.blas()}"
    for name in _BLAS_THREADS:
        value = os.environ.get(name, "")
        if value.isdigit() and int(value) > usable:
            yield (
                "warning",
                f"{name}={value}, with {_plural(usable, 'processor')}",
                f"set {name}={usable}",
            )
        elif value:
            text += f", {name}={value}"
    kernel = os.environ.get("OPENBLAS_CORETYPE")
    if kernel:
        yield (
            "warning",
            f"OPENBLAS_CORETYPE={kernel}: OpenBLAS does not choose its kernels by this processor",
            "unset it where times of NumPy are compared; cotan's own products do not use OpenBLAS",
        )
    yield "ok", text


def _memory() -> Iterator[Result]:
    limits = installation.memory_limits()
    small = {name: size for name, size in limits.items() if size < _LITTLE_MEMORY}
    for name, size in small.items():
        yield (
            "warning",
            f"{size_text(size)} by the {name}",
            "more raises MemoryError, or the system ends the process; ct.checkpoint needs less",
        )
    rest = [
        f"{size_text(size)} by the {name}" for name, size in limits.items() if name not in small
    ]
    if not small:
        yield "ok", f"limited to {', '.join(rest)}" if rest else "no limit"


def _preload() -> Iterator[Result]:
    names = installation.preloaded()
    other = [name for name in names if not any(known in name for known in _ALLOCATORS)]
    if other:
        yield (
            "warning",
            f"loaded before all other libraries: {', '.join(other)}",
            "unset LD_PRELOAD if anything is strange: what it loads stands before the C library",
        )
    else:
        yield "ok", f"{', '.join(names)}" if names else "nothing is loaded before other libraries"


def _tracing() -> Iterator[Result]:
    tools = []
    if sys.gettrace() is not None:
        tools.append("sys.settrace (a debugger or coverage)")
    if sys.getprofile() is not None:
        tools.append("sys.setprofile (a profiler)")
    monitoring = getattr(sys, "monitoring", None)
    if monitoring is not None:
        tools += [name for name in map(monitoring.get_tool, range(6)) if name]
    if tools:
        yield "warning", f"{', '.join(tools)} is active", "recording is slower meanwhile"
    else:
        yield "ok", "no debugger or profiler is active"


CHECKS: dict[str, Callable[[], Iterator[Result]]] = {
    "python": _python,
    "cotan": _cotan,
    "numpy": _numpy,
    "scipy": _scipy,
    "libraries": _libraries,
    "gradients": _gradient,
    "overrides": _overrides,
    "switch": _switch,
    "replaced": _replaced,
    "settings": _settings,
    "simd": _simd,
    "threads": _threads,
    "blas": _blas,
    "memory": _memory,
    "preload": _preload,
    "tracing": _tracing,
}
