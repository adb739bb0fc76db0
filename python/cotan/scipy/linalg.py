"""`scipy.linalg` with functions that accept `Array`s even where lifting is off."""

from cotan._src.interpose.install import namespace

namespace(globals(), "scipy.linalg")
