"""The names of `scipy.optimize`, which know our arrays without lifting."""

from cotan._lift import namespace

namespace(globals(), "scipy.optimize")
