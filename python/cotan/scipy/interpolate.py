"""The names of `scipy.interpolate`, which know our arrays without lifting."""

from cotan._lift import namespace

namespace(globals(), "scipy.interpolate")
