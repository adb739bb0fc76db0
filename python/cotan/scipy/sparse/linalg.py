"""The names of `scipy.sparse.linalg`, which know our arrays without lifting."""

from cotan._src.interpose.install import namespace

namespace(globals(), "scipy.sparse.linalg")
