"""The names of `scipy.ndimage`, which know our arrays without lifting."""

from cotan._lift import namespace

namespace(globals(), "scipy.ndimage")
