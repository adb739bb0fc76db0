"""Every function of NumPy that takes `Array`s has a case in one of the modules with cases."""

import test_numpy_fourier
import test_numpy_math
import test_numpy_reductions
import test_numpy_shapes

from cotan._src.runtime.registry import FUNCTIONS
from cotan._src.runtime.values import in_numpy, name_of

CASES = {
    **test_numpy_reductions.CASES,
    **test_numpy_shapes.CASES,
    **test_numpy_math.CASES,
    **test_numpy_fourier.CASES,
}


# What writes files takes no recorded arrays: `test_numpy_files.py`.
FILES = ("save", "savetxt", "savez", "savez_compressed")


def test_every_function_has_a_case():
    tested = {id(in_numpy(name)) for name in (*CASES, *FILES)}
    missing = sorted({name_of(f) for f in FUNCTIONS if id(f) not in tested})
    assert not missing
