"""Minima, roots and fits over structures, with SciPy's solvers and exact derivatives.

`scipy.optimize` moves vectors and wants derivatives; these functions take the models and the data
as they are, and `Derivatives` gives any other solver of SciPy the derivatives that it takes. They
are not the functions of `cotan.scipy.optimize`, which are SciPy's own with derivatives of what they
return.
"""

from cotan._src.optimize.derivatives import Derivatives
from cotan._src.optimize.equations import curve_fit, least_squares, root
from cotan._src.optimize.minimize import minimize
from cotan._src.optimize.progress import Progress

__all__ = ["Derivatives", "Progress", "curve_fit", "least_squares", "minimize", "root"]
