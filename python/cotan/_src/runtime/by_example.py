"""Tells `vmap` that values are asked for, of which there are none for all examples at once.

An opaque rule, and what a library computes in compiled code, need the numbers of one example.
`vmap` then calls the mapped function once for each.
"""

from collections.abc import Iterable

from cotan import _core

# Packages whose code hands values to compiled functions.
_CALLERS = ("cotan._src.scipy.", "cotan._src.kit.", "scipy.")


class ByExampleError(ValueError):
    """What a mapped function calls takes the values of one example."""


def expect_values(what: str, leaves: Iterable[object]) -> None:
    """Refuse arguments that differ between the examples of `vmap`."""
    if any(isinstance(leaf, _core.Array) and _core.is_mapped(leaf) for leaf in leaves):
        raise ByExampleError(f"vmap: {what} is called with the values of one example")


def needs_values(error: BaseException) -> bool:
    """Say whether an error of a mapped function means that it is to be called example by example.

    Code of the function that looks at a value itself is no reason: that it branches, say, is told.
    """
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, ByExampleError):
            return True
        if isinstance(found, _core.UnknownValueError):
            trace = found.__traceback__
            while trace is not None:
                if str(trace.tb_frame.f_globals.get("__name__")).startswith(_CALLERS):
                    return True
                trace = trace.tb_next
        found = found.__cause__
    return False


def refuses_mapping(error: BaseException) -> bool:
    """Say whether a function cannot be mapped, because it looks at values of single examples.

    Any other error of a mapped function is one of its own.
    """
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, (ByExampleError, _core.UnknownValueError)):
            return True
        # A primitive for which there is no rule.
        if isinstance(found, ValueError) and str(found).startswith("vmap: "):
            return True
        found = found.__cause__ or found.__context__
    return False
