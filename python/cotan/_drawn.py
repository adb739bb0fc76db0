"""Values that matplotlib draws: nothing is computed from them, so that no gradient is dropped."""

import sys
from typing import Any

from cotan._frames import leaves, package_of

# What matplotlib computes numbers by that it gives back.
_COUNTING = frozenset(
    {
        *("acorr", "angle_spectrum", "boxplot", "boxplot_stats", "cohere", "csd", "ecdf", "hexbin"),
        *("hist", "hist2d", "magnitude_spectrum", "phase_spectrum", "psd", "specgram", "xcorr"),
    }
)


def is_drawing() -> bool:
    """Say whether a value is read to be drawn: that is looking at it, as printing is.

    Raises `TypeError` where it is read for numbers that the caller gets, and does not leave alone.
    """
    frame: Any = sys._getframe(1)
    drawn = False
    counts = None
    while frame is not None:
        package = package_of(frame)
        if package in {"matplotlib", "mpl_toolkits"}:
            if frame.f_code.co_name in _COUNTING:
                counts = frame.f_code.co_name
            drawn = True
        elif drawn or package not in {"cotan", "numpy"}:
            break
        frame = frame.f_back
    if counts is not None and not (frame is not None and leaves(frame)):
        raise TypeError(
            f"matplotlib's {counts} gives numbers that it computes of what a gradient "
            f"follows, which would drop the gradient; draw ct.dropgrad(x), or "
            "compute the numbers with NumPy (np.histogram, np.fft) and draw those"
        )
    return drawn
