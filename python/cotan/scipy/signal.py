"""The names of `scipy.signal`, which know our arrays without lifting."""

from cotan._src.interpose.install import namespace

namespace(globals(), "scipy.signal")
