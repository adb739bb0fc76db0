"""Writing C, compiling it without a warning, and comparing it with cotan itself."""

import ctypes
import itertools
import re
import shutil
import subprocess

import numpy as np
import pytest

import cotan as ct
from cotan import _core

COMPILER = shutil.which("cc")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler here")

_NUMBERS = itertools.count()

RTOL = {"float64": 1e-12, "float32": 2e-5}


class Compiled:
    """A function of a file of C: called with ndarrays, it gives a list of ndarrays."""

    def __init__(self, path, name="f", flags=("-std=c99",)):
        self.text = path.read_text()
        # A library that is loaded must not be overwritten.
        library = path.with_name(f"{path.stem}{next(_NUMBERS)}.so")
        flags = ["-O2", "-Wall", "-Werror", *flags, "-shared", "-fPIC"]
        done = subprocess.run(
            [COMPILER, *flags, str(path), "-o", str(library), "-lm"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr + self.text
        self._function = getattr(ctypes.CDLL(str(library)), name)
        pattern = r"^     (in |out)  (\w+).*: (\w+) \[(.*)\]$"
        self.variables = [
            (kind.strip(), name, dtype, tuple(int(n) for n in shape.split(", ") if n))
            for kind, name, dtype, shape in re.findall(pattern, self.text, re.MULTILINE)
        ]
        sizes = re.findall(
            r"^    (.*) \w\[(\d+)\];$", self.text.partition("_work;")[0], re.MULTILINE
        )
        widths = {"double": 8, "int64_t": 8, "float": 4, "int32_t": 4, "unsigned char": 1}
        self.work_bytes = sum(widths[kind] * int(n) for kind, n in sizes)

    def __call__(self, *args):
        inputs = [v for v in self.variables if v[0] == "in"]
        given = [
            np.ascontiguousarray(a, dtype).reshape(shape)
            for a, (_, _, dtype, shape) in zip(args, inputs, strict=True)
        ]
        results = [np.full(v[3], 77, v[2]) for v in self.variables if v[0] == "out"]
        # Nothing beyond the workspace is written.
        work = np.full(self.work_bytes + 24, 0xA5, np.uint8)
        self._function(*(ctypes.c_void_p(a.ctypes.data) for a in (*given, *results, work)))
        assert np.all(work[-16:] == 0xA5)
        return results


def same(got, wanted, rtol, atol=0.0, what=""):
    wanted = np.asarray(_core.value(wanted))
    assert got.shape == wanted.shape, what
    assert got.dtype == wanted.dtype, what
    if wanted.dtype.kind == "f":
        np.testing.assert_allclose(
            got, wanted, rtol=rtol, atol=atol, equal_nan=True, err_msg=str(what)
        )
    else:
        np.testing.assert_array_equal(got, wanted, err_msg=str(what))


def applied(name, params):
    """A function that is one primitive."""

    def f(*args):
        return _core.apply(name, *args, **params)

    return f


def check_all(tmp_path, calls, rtol=1e-12, atol=0.0):
    """Do the same for many functions in one file: (what it is, function, arguments) of each."""

    def together(*args):
        results, start = [], 0
        for _, f, own in calls:
            results.append(f(*args[start : start + len(own)]))
            start += len(own)
        return results

    args = [x for _, _, own in calls for x in own]
    ct.to_c(together, *args, path=tmp_path / "all.c")
    got = Compiled(tmp_path / "all.c")(*args)
    with np.errstate(all="ignore"):
        wanted = together(*(ct.asarray(a) for a in args))
    for (what, _, _), mine, theirs in zip(calls, got, wanted, strict=True):
        same(mine, theirs, rtol, atol, what)


def check(tmp_path, f, *args, rtol=1e-12, atol=0.0):
    """Write, compile, run and compare with the function itself."""
    path = tmp_path / "f.c"
    ct.to_c(f, *args, path=path)
    compiled = Compiled(path)
    with np.errstate(all="ignore"):
        wanted = f(*(ct.asarray(a) for a in args))
    wanted = wanted if isinstance(wanted, (tuple, list)) else [wanted]
    for mine, theirs in zip(compiled(*args), wanted, strict=True):
        same(mine, theirs, rtol, atol)
    return compiled
