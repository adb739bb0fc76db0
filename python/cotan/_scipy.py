"""Functions of SciPy on `Array`s: all entries, by importing the files that have them."""

from . import _scipy_integrate as _integrate  # noqa: F401
from . import _scipy_ndimage as _ndimage  # noqa: F401
from . import _scipy_ode as _ode  # noqa: F401
from . import _scipy_signal as _signal  # noqa: F401
