"""The method `solve` of SciPy's compiled factors, which are made outside of a recording, too."""

from typing import Any

from cotan import _core
from cotan._src.rebind.engine import locate
from cotan._src.runtime.values import is_array
from cotan._src.scipy.sparse.traced import solved
from cotan._src.typing import ArrayLike


def _solve(self: Any, rhs: ArrayLike, trans: str = "N") -> Any:
    return solved("SuperLU.solve", self, rhs, trans) if is_array(rhs) else NotImplemented


_core.add_rule(
    vars(locate("scipy.sparse.linalg._dsolve._superlu.SuperLU"))["solve"], _solve, "arrays"
)
