"""Spectra by `matplotlib.mlab`: its Python code, rebound."""

from cotan._src.rebind.engine import REBOUND
from cotan._src.runtime.registry import named, override

# `angle_spectrum` and its like are the helper, with its first argument given.
_FUNCTIONS = """
    _single_spectrum_helper cohere csd detrend detrend_linear detrend_mean detrend_none psd
    specgram window_hanning window_none
"""

override(*named("matplotlib.mlab", _FUNCTIONS))(REBOUND)
