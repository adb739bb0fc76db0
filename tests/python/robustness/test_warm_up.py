"""After `ct.warm_up()` nothing is imported: programs that call `chroot` find no files any more."""

import subprocess
import sys

SCRIPT = """
import builtins, sys
import numpy as np, scipy.linalg, math
import cotan as ct

ct.warm_up()
before = set(sys.modules)
sys.path[:] = []
sys.meta_path[:] = []

def loss(x):
    out = np.zeros(2)
    out[0] = math.sin(x[0])
    return np.sum(out * scipy.linalg.solve(np.eye(2) * x[1], np.ones(2)))

print(ct.gradient(loss, np.array([0.0, 2.0]))[0].tolist())
try:
    ct.gradient(lambda x: memoryview(x), np.ones(2))
except TypeError as error:
    print(type(error).__name__)
print(sorted(name for name in set(sys.modules) - before if name.startswith("cotan")))
"""


def test_nothing_is_imported_afterwards():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == ["[0.5, 0.0]", "NotDifferentiableError", "[]"], done.stderr
