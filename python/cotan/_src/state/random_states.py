"""Reads the states of random number generators, to tell whether a recording has drawn from one."""

import contextlib
import pickle
import random
from collections.abc import Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from cotan import _core

if TYPE_CHECKING:
    from types import ModuleType

# One of these, or a module with functions that draw.
Generator: TypeAlias = "ModuleType | np.random.Generator | np.random.RandomState | random.Random"
#: The states of generators, by identity.
GlobalStates: TypeAlias = dict[int, bytes]


def random_numbers_error(name: str) -> TypeError:
    """Make the error for a function that draws from a generator of this name."""
    return TypeError(
        f"prepare: the function draws random numbers ({name}), which a replay would "
        "repeat; draw them outside and pass them as an argument"
    )


def global_random_states() -> GlobalStates:
    """Give the states of the generators that modules share, by their identity."""
    return {id(generator): random_state(generator) for generator in (np.random, random)}


def random_state(generator: Generator) -> bytes:
    """Give the state of a generator, or of the one that a module shares, to compare with others."""
    if generator is random or isinstance(generator, random.Random):
        return pickle.dumps(generator.getstate())
    if isinstance(generator, np.random.Generator):
        return pickle.dumps(generator.bit_generator.state)
    return pickle.dumps(generator.get_state())


_IS_REPEATED = ContextVar("cotan.call_is_repeated", default=False)
_IS_KEPT = ContextVar("cotan.random_state_is_kept", default=False)


@contextlib.contextmanager
def repeated_call() -> Iterator[None]:
    """Run a call that replays repeat."""
    before = _IS_REPEATED.set(True)
    try:
        yield
    finally:
        _IS_REPEATED.reset(before)


@contextlib.contextmanager
def kept_random_state() -> Iterator[None]:
    """Let a library draw numbers that its result does not depend on, but for rounding.

    In a prepared function they are put back: it draws none that a replay would repeat.
    """
    if not (_core.is_preparing() or _IS_REPEATED.get()):
        yield
        return
    before = _IS_KEPT.set(True)
    state = np.random.get_state()  # noqa: NPY002 - it is the one that libraries share
    try:
        yield
    finally:
        np.random.set_state(state)  # noqa: NPY002
        _IS_KEPT.reset(before)


def is_kept() -> bool:
    """Say whether a result does not depend on numbers that are drawn now."""
    return _IS_KEPT.get()
