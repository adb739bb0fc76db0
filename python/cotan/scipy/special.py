"""The names of `scipy.special`, which know our arrays without lifting."""

from cotan._src.interpose.install import namespace

namespace(globals(), "scipy.special")
