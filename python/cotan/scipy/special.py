"""The names of `scipy.special`, which know our arrays without lifting."""

from cotan._lift import namespace

namespace(globals(), "scipy.special")
