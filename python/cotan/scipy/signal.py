"""The names of `scipy.signal`, which know our arrays without lifting."""

from cotan._lift import namespace

namespace(globals(), "scipy.signal")
