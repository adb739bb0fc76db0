"""Learning rates that change from step to step: functions of the number of steps so far.

The number may be an integer or an integer array, also one that is recorded. Names and arguments are
those of optax.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

#: From the number of steps before this one to a number.
Schedule: TypeAlias = Callable[[Any], Any]


def constant_schedule(value: float) -> Schedule:
    """Give one value at every step.

    >>> import cotan as ct
    >>> ct.optim.constant_schedule(0.1)(1000)
    0.1
    """
    return lambda _: value


def linear_schedule(
    init_value: float, end_value: float, transition_steps: int, transition_begin: int = 0
) -> Schedule:
    """Go from one value to another in a straight line, and stay there.

    It begins after `transition_begin` steps.

    >>> import cotan as ct
    >>> float(ct.optim.linear_schedule(1.0, 0.0, 10)(5))
    0.5
    """
    _expect_positive("linear_schedule", transition_steps=transition_steps)

    def value(count: Any) -> Any:
        part = np.clip((count - transition_begin) / transition_steps, 0.0, 1.0)
        return init_value + (end_value - init_value) * part

    return value


def cosine_decay_schedule(
    init_value: float, decay_steps: int, alpha: float = 0.0, exponent: float = 1.0
) -> Schedule:
    """Fall along half a cosine to `alpha * init_value`.

    The value is `init_value * ((1 - alpha) * (0.5 * (1 + cos(pi * t))) ** exponent + alpha)` with
    `t = min(count / decay_steps, 1)`: I. Loshchilov and F. Hutter, "SGDR: Stochastic Gradient
    Descent with Warm Restarts", 2017, without the restarts.

    >>> import cotan as ct
    >>> schedule = ct.optim.cosine_decay_schedule(1.0, 100)
    >>> [round(float(schedule(count)), 3) for count in (0, 50, 100, 200)]
    [1.0, 0.5, 0.0, 0.0]
    """
    _expect_positive("cosine_decay_schedule", decay_steps=decay_steps)

    def value(count: Any) -> Any:
        part = np.clip(count / decay_steps, 0.0, 1.0)
        fallen = (0.5 * (1.0 + np.cos(np.pi * part))) ** exponent
        return init_value * ((1.0 - alpha) * fallen + alpha)

    return value


def exponential_decay(
    init_value: float,
    transition_steps: int,
    decay_rate: float,
    transition_begin: int = 0,
    staircase: bool = False,
    end_value: float | None = None,
) -> Schedule:
    """Multiply with `decay_rate` in every `transition_steps` steps.

    With `staircase` the value falls at once after every so many steps, as in PyTorch's `StepLR`;
    otherwise a little in each. `end_value` is a limit that it does not pass.

    >>> import cotan as ct
    >>> schedule = ct.optim.exponential_decay(1.0, 10, 0.5, staircase=True)
    >>> [float(schedule(count)) for count in (0, 9, 10, 20)]
    [1.0, 1.0, 0.5, 0.25]
    """
    _expect_positive("exponential_decay", transition_steps=transition_steps, decay_rate=decay_rate)

    def value(count: Any) -> Any:
        part = np.maximum((count - transition_begin) / transition_steps, 0.0)
        found = init_value * decay_rate ** (np.floor(part) if staircase else part)
        if end_value is None:
            return found
        return np.maximum(found, end_value) if decay_rate < 1 else np.minimum(found, end_value)

    return value


def piecewise_constant_schedule(
    init_value: float, boundaries_and_scales: Mapping[int, float]
) -> Schedule:
    """Multiply with a factor from certain numbers of steps on.

    >>> import cotan as ct
    >>> schedule = ct.optim.piecewise_constant_schedule(1.0, {100: 0.1, 200: 0.5})
    >>> [round(float(schedule(count)), 3) for count in (0, 99, 100, 200)]
    [1.0, 1.0, 0.1, 0.05]
    """

    def value(count: Any) -> Any:
        found: Any = init_value
        for boundary, scale in boundaries_and_scales.items():
            found = found * np.where(count >= boundary, scale, 1.0)
        return found

    return value


def join_schedules(schedules: Sequence[Schedule], boundaries: Sequence[int]) -> Schedule:
    """Follow one schedule after the other; each counts from the boundary where it begins.

    Raises `ValueError` unless there is one boundary less than there are schedules.

    >>> import cotan as ct
    >>> up = ct.optim.linear_schedule(0.0, 1.0, 10)
    >>> schedule = ct.optim.join_schedules([up, ct.optim.constant_schedule(0.5)], [10])
    >>> [float(schedule(count)) for count in (0, 5, 10)]
    [0.0, 0.5, 0.5]
    """
    if len(boundaries) != len(schedules) - 1:
        raise ValueError(
            f"join_schedules: {len(schedules)} schedules have {len(schedules) - 1} boundaries "
            f"between them, not {len(boundaries)}"
        )

    def value(count: Any) -> Any:
        found = schedules[0](count)
        for boundary, schedule in zip(boundaries, schedules[1:], strict=True):
            found = np.where(count < boundary, found, schedule(count - boundary))
        return found

    return value


def warmup_cosine_decay_schedule(
    init_value: float,
    peak_value: float,
    warmup_steps: int,
    decay_steps: int,
    end_value: float = 0.0,
) -> Schedule:
    """Rise in a straight line for `warmup_steps` steps, then fall along a cosine.

    `decay_steps` counts both parts.

    >>> import cotan as ct
    >>> schedule = ct.optim.warmup_cosine_decay_schedule(0.0, 1.0, 10, 110)
    >>> [round(float(schedule(count)), 3) for count in (0, 5, 10, 60, 110)]
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    _expect_positive(
        "warmup_cosine_decay_schedule",
        warmup_steps=warmup_steps,
        peak_value=peak_value,
        decay_steps_after_the_warmup=decay_steps - warmup_steps,
    )
    up = linear_schedule(init_value, peak_value, warmup_steps)
    down = cosine_decay_schedule(peak_value, decay_steps - warmup_steps, end_value / peak_value)
    return join_schedules([up, down], [warmup_steps])


def _expect_positive(schedule: str, **numbers: float) -> None:
    for name, number in numbers.items():
        if not number > 0:
            raise ValueError(f"{schedule}: {name} must be positive, not {number}")
