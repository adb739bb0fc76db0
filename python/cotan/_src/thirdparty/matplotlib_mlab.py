"""Spectra by `matplotlib.mlab`: its Python code, rebound."""

from cotan._src.rebind.engine import REBOUND
from cotan._src.runtime.registry import named, override

_FUNCTIONS = """
    angle_spectrum cohere complex_spectrum csd detrend detrend_linear detrend_mean
    detrend_none magnitude_spectrum phase_spectrum psd specgram window_hanning window_none
"""

override(*named("matplotlib.mlab", _FUNCTIONS))(REBOUND)
