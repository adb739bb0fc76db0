"""Code that keeps no columns (`python -X no_debug_ranges`): what it calls is found on the stack."""

import subprocess
import sys

from cotan._src.runtime import call_site

_CALLS = {"CALL", "CALL_KW", "CALL_FUNCTION_EX"}

PROGRAM = """
import cotan as ct, numpy as np
x = np.array([0.5, 1.0, 1.5])
def buffers(x):
    a, b = np.zeros(3), np.full(3, 1.0); a[0], b[1:] = x[0], x[1:]
    return np.sum(a * b)
for f in (
    buffers,
    lambda x: np.sum(np.fromiter((v * 2 for v in x), float)),
    lambda x: np.ma.masked_array(x, mask=[0, 1, 0]).sum() + np.ma.array(x, mask=x > 1).sum(),
    lambda x: sum(map(float, x)) * float(x[0]) + np.array([x[0], float(x[1])])[1],
):
    print(ct.gradient(f, x)[0].tolist())
"""


def test_programs_run_as_with_columns():
    plain, without = (
        subprocess.run(
            [sys.executable, *options, "-c", PROGRAM], capture_output=True, text=True, check=True
        ).stdout
        for options in ([], ["-X", "no_debug_ranges"])
    )
    assert without == plain


def calls(f, k, o, names):
    f(k)
    o.method(k, o.part.g(*names), key=k + 1)
    f(names.get(k, -k), **names)(k)
    o.part.method(key=f"{k}").method(f(k), k)


def test_the_stack_tells_what_is_called():
    steps = call_site.instructions(calls.__code__)
    found = [i for i, step in enumerate(steps) if step.opname in _CALLS]
    paths = [
        [s.argval for s in call_site._beneath_arguments(steps, i) if "LOAD" in s.opname]
        for i in found
    ]
    named = [["f"], ["o", "part", "g"], ["o", "method"], ["names", "get"], ["f"]]
    assert [path for path in paths if len(path) < 4] == [*named, ["o", "part", "method"], ["f"]]
    assert sorted(path[0] for path in paths if len(path) >= 4) == ["f", "o"]
