"""Says whether loops are written out step by step, for what reads every equation of a program."""

from contextvars import ContextVar

#: Exporters and patterns of sparse derivatives have no use for a loop as one equation.
writes_out_loops: ContextVar[bool] = ContextVar("writes_out_loops", default=False)
