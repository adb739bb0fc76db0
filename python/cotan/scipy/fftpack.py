"""The names of `scipy.fftpack`, which know our arrays without lifting."""

from cotan._lift import namespace

namespace(globals(), "scipy.fftpack")
