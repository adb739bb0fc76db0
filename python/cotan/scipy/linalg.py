"""The names of `scipy.linalg`, which know our arrays without lifting."""

from cotan._lift import namespace

namespace(globals(), "scipy.linalg")
