"""What cotan runs on: versions, processors, memory and settings. No library is imported for it."""

import importlib.metadata
import os
import platform
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from cotan import _core

#: Packages that users have beside cotan; the tests meet most of them.
LIBRARIES = (
    "scipy",
    "scikit-learn",
    "matplotlib",
    "pandas",
    "xarray",
    "statsmodels",
    "numba",
    "ml_dtypes",
    "onnx",
    "onnxruntime",
    "optree",
    "jax",
    "torch",
    "autograd",
)
#: The environment variables that cotan reads, with what they take.
SETTINGS = {
    "COTAN_LIFTING": "0 or 1",
    "COTAN_MACHINE_CODE": "0, 1 or always",
    "COTAN_MATRIX_UNITS": "0, 1 or always",
    "COTAN_NUM_THREADS": "a number",
    "COTAN_REPLAY": "0, 1 or always",
    "COTAN_SIMD": "baseline or avx2",
}
_CGROUP = Path("/sys/fs/cgroup")


def version_of(package: str) -> str | None:
    """Give the version of an installed package, None where there is none."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def release(version: str) -> tuple[int, ...]:
    """Give the leading numbers of a version.

    >>> release("1.17.0rc1"), release("2.4+local")
    ((1, 17, 0), (2, 4))
    """
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, found.group().split("."))) if found else ()


def oldest_tested() -> dict[str, str]:
    """Give the lowest version of each library that cotan's metadata names.

    These are the requirements and those of the extras; where two extras differ, the lower one
    counts.
    """
    try:
        lines = importlib.metadata.requires("cotan") or []
    except importlib.metadata.PackageNotFoundError:
        lines = []
    found: dict[str, str] = {}
    for line in lines:
        part = re.match(r"([\w.-]+)\s*>=\s*([\w.]+)", line)
        if part:
            name, version = normalized(part[1]), part[2]
            known = found.get(name)
            if known is None or release(version) < release(known):
                found[name] = version
    return found


def normalized(name: str) -> str:
    """Write the name of a package as `pip` compares it.

    >>> normalized("ml_dtypes")
    'ml-dtypes'
    """
    return re.sub(r"[-_.]+", "-", name).lower()


def processors() -> int:
    """Count the processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _control_group() -> Iterator[Path]:
    """Give the folders of the control group of this process, from the innermost (version 2)."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        if line.startswith("0::"):
            here = _CGROUP / line[3:].lstrip("/")
            while here != _CGROUP.parent and _CGROUP in (here, *here.parents):
                yield here
                here = here.parent


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def processor_quota() -> float | None:
    """Give how many processors' worth of time a container may use; None where nothing says."""
    found = []
    for folder in _control_group():
        parts = _read(folder / "cpu.max").split()
        if len(parts) == 2 and parts[0].isdigit() and parts[1].isdigit():
            found.append(int(parts[0]) / int(parts[1]))
    if not found:
        # Version 1 of control groups.
        quota = _read(_CGROUP / "cpu" / "cpu.cfs_quota_us")
        period = _read(_CGROUP / "cpu" / "cpu.cfs_period_us")
        if quota.isdigit() and period.isdigit() and int(period):
            found.append(int(quota) / int(period))
    return min(found, default=None)


def memory_limits() -> dict[str, int]:
    """Give the bounds on the memory of this process that are in force, in bytes, by their names."""
    found = {}
    groups = [_read(folder / "memory.max") for folder in _control_group()]
    groups.append(_read(_CGROUP / "memory" / "memory.limit_in_bytes"))
    # Version 1 says "none" by the largest number of pages.
    sizes = [int(text) for text in groups if text.isdigit() and int(text) < 1 << 60]
    if sizes:
        found["control group"] = min(sizes)
    try:
        import resource  # noqa: PLC0415
    except ImportError:  # Windows
        return found
    for name, kind in (("ulimit -v", resource.RLIMIT_AS), ("ulimit -d", resource.RLIMIT_DATA)):
        soft, _ = resource.getrlimit(kind)
        if soft != resource.RLIM_INFINITY:
            found[name] = soft
    return found


def preloaded() -> list[str]:
    """Name the libraries that the dynamic linker was told to load before all others."""
    names = "DYLD_INSERT_LIBRARIES" if sys.platform == "darwin" else "LD_PRELOAD"
    separator = ":" if sys.platform == "darwin" else r"[:\s]+"
    return [name for name in re.split(separator, os.environ.get(names, "")) if name]


def blas() -> str:
    """Name the library by which NumPy multiplies matrices."""
    try:
        config = np.show_config(mode="dicts")
    except (AttributeError, TypeError, KeyError):  # a NumPy that was built in another way
        return "unknown"
    found = config.get("Build Dependencies", {}).get("blas", {})
    name, version = found.get("name", "unknown"), found.get("version", "")
    return f"{name} {version}".strip()


def facts() -> dict[str, str]:
    """Give what a bug report needs, by name."""
    usable = processors()
    found = {
        "cotan": _core.__version__,
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "numpy": np.__version__,
        "system": platform.platform(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {usable} usable",
        "simd": _core.simd_level(),
        "threads": str(_core.num_threads()),
        "devices": ", ".join(map(str, _core.devices())),
        "features": ", ".join(_core.__features__),
    }
    found.update((name, version_of(name) or "not installed") for name in LIBRARIES)
    return found
