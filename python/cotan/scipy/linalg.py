"""The names of `scipy.linalg`, which know our arrays without lifting."""

from cotan._src.interpose.install import namespace

namespace(globals(), "scipy.linalg")
