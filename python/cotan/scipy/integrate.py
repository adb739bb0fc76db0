"""The names of `scipy.integrate`, which know our arrays without lifting."""

from cotan._lift import namespace

namespace(globals(), "scipy.integrate")
