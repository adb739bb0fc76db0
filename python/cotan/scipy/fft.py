"""The names of `scipy.fft`, which know our arrays without lifting."""

from cotan._lift import namespace

namespace(globals(), "scipy.fft")
