"""The names of `scipy.sparse.linalg`, which know our arrays without lifting."""

from cotan._lift import namespace

namespace(globals(), "scipy.sparse.linalg")
