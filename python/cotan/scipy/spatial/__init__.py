"""The names of `scipy.spatial`, which know our arrays without lifting."""

from cotan._lift import namespace

namespace(globals(), "scipy.spatial")
