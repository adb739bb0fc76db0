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


def test_every_function_has_a_case():
    tested = {id(in_numpy(name)) for name in CASES}
    missing = sorted({name_of(f) for f in FUNCTIONS if id(f) not in tested})
    assert not missing
