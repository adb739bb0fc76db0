"""The names of `scipy.stats`, which know our arrays without lifting."""

from cotan._lift import namespace

namespace(globals(), "scipy.stats")
