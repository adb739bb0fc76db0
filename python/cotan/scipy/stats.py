"""The names of `scipy.stats`, which know our arrays without lifting."""

from cotan._src.interpose.install import namespace

namespace(globals(), "scipy.stats")
