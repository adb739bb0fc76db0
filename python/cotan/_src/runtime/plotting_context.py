"""Tells whether matplotlib reads a value only to draw it, which drops no gradient."""

import sys
from typing import TYPE_CHECKING

from cotan import _core
from cotan._core import NotDifferentiableError
from cotan._src.runtime.call_site import package_of, result_is_dropped
from cotan._src.runtime.libraries import Trait, libraries_with

if TYPE_CHECKING:
    from types import FrameType

# What matplotlib computes numbers by that it gives back.
_COUNTING = frozenset(
    {
        *("acorr", "boxplot", "boxplot_stats", "ecdf", "hexbin", "hist", "hist2d", "xcorr"),
    }
)
# What of it draws and gives back what functions of `matplotlib.mlab` compute, which are lifted.
_SPECTRA = frozenset(
    {
        *("angle_spectrum", "cohere", "csd", "magnitude_spectrum", "phase_spectrum", "psd"),
        "specgram",
    }
)
_COMPUTING = libraries_with(Trait.COMPUTES)
_DRAWING = libraries_with(Trait.DRAWS)
_IN_BETWEEN = libraries_with(Trait.READS_FOR_OTHERS)


def is_read_for_display() -> bool:
    """Say whether a value is read to be drawn: that is looking at it, as printing is.

    Raises `TypeError` where it is read for numbers that the caller gets, and does not leave alone.
    """
    frame: FrameType | None = sys._getframe(1)
    drawn = False
    counts: str | None = None
    called: FrameType | None = None
    while frame is not None:
        package = package_of(frame)
        if package in _DRAWING:
            # Rebound code draws nothing.
            if type(frame.f_globals) is dict:
                drawn, called = True, frame
                name = frame.f_code.co_name
                if name in _COUNTING or (name in _SPECTRA and not _core.is_lifting()):
                    counts = frame.f_code.co_name
        elif drawn or package not in _IN_BETWEEN:
            break
        frame = frame.f_back
    if called is not None and str(called.f_globals.get("__name__")) in _COMPUTING:
        counts = called.f_code.co_name
    if counts is not None and not (frame is not None and result_is_dropped(frame)):
        raise NotDifferentiableError(
            f"matplotlib's {counts} returns numbers computed from an active array, which would "
            "drop the gradient; draw ct.dropgrad(x), or compute the numbers with NumPy "
            "(np.histogram, np.fft) and draw those"
        )
    return drawn
