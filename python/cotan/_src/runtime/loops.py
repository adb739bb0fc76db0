"""Says how long a loop has to be for one equation of a program; shorter ones are written out."""

import sys
from contextvars import ContextVar

#: What the steps of shorter loops have in common is computed once where they are written out.
#: Exporters want small files.
fewest_steps: ContextVar[int] = ContextVar("fewest_steps", default=16)

#: No loop is so long: for what reads every equation, as patterns of sparse derivatives do.
ENDLESS = sys.maxsize
