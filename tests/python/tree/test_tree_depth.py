"""Long walks over structures, and maps over their leaves."""

import signal
import time
import traceback
from dataclasses import dataclass

import numpy as np
import pytest

import cotan as ct
from cotan import _core

MANY = 200_000


class Last:
    """Comes at the end of a structure; taking it apart runs Python code, which hears signals."""

    def __init__(self):
        self.x = 1.0


def last(value):
    return (value.x,), None


ct.register(Last, last, lambda _, children: children[0])


class Heard(Exception):
    pass


@pytest.mark.alone  # Timers and signals are those of the whole process.
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers that send signals")
@pytest.mark.parametrize(
    "walk",
    [
        lambda parts: ct.gradient(lambda t: t[0]["w"] * 1.0, [*parts, Last()]),
        lambda parts: _core.structure([*parts, Last()]),
    ],
    ids=["gradient", "structure"],
)
def test_signals_are_heard_while_a_structure_is_taken_apart(walk):
    def handler(signum, frame):
        raise Heard

    parts = [{"w": 1.0, "b": {"n": 2}} for _ in range(MANY)]
    old = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.005)
        with pytest.raises(Heard) as caught:
            # The signal may still come when the walk is over.
            time.sleep(30) if walk(parts) else None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    frames = [f.name for f in traceback.extract_tb(caught.value.__traceback__)]
    assert "last" not in frames


# --------------------------------------------------------------------------------------------------
# One walker for all


@dataclass
class Pair:
    left: object
    right: object


def test_nograd_reaches_into_objects():
    frozen = ct.nograd(lambda x: Pair(x * x, [2 * x, "text", 3]))

    def f(x):
        pair = frozen(x)
        return x * pair.left + pair.right[0] + pair.right[2]

    assert ct.gradient(f, 3.0) == (9.0,)
    plain = Pair(1.0, "text")
    assert ct.nograd(lambda: plain)() is plain
    cyclic = [1.0]
    cyclic.append(cyclic)
    found = ct.gradient(lambda x: x * ct.nograd(lambda y: [y, cyclic])(x)[0], 3.0)
    assert found == (3.0,)


def test_tangents_of_any_structure_are_scaled():
    inner = ct.Tangent(Pair, {"left": np.ones(2), "right": {"k": (1.0, None)}})
    tangent = ct.Tangent(Pair, {"left": inner, "right": [2.0, None]})
    half = tangent / 2
    assert half.left.left.tolist() == [0.5, 0.5]
    assert half.left.right == {"k": (0.5, None)}
    assert half.right == [1.0, None]
    assert (-tangent).right == [-2.0, None]
