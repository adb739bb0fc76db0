"""Reads the states of random number generators, to tell whether a recording has drawn from one."""

import pickle
import random
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

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
