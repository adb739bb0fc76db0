"""Audio: a plucked string by Karplus and Strong, with a fractional delay, fitted to its decay."""

from collections import deque

import numpy as np


def pluck(length, position, seed=1):
    noise = np.random.default_rng(seed).uniform(-1, 1, length)
    comb = int(position * length)
    return noise - np.roll(noise, comb)


def string(burst, samples, damping, brightness, fraction):
    """One sample after another; the delay line is a deque, as in most textbooks."""
    line = deque(burst, maxlen=len(burst))
    last = 0.0
    previous_in = previous_out = 0.0
    c = (1 - fraction) / (1 + fraction)  # all-pass for the fractional part of the delay
    out = []
    for _ in range(samples):
        x = line.popleft()
        filtered = damping * ((1 - brightness) * x + brightness * last)
        last = x
        y = c * filtered + previous_in - c * previous_out
        previous_in, previous_out = filtered, y
        line.append(y)
        out.append(x)
    return np.array(out)


def envelope(sound, frame):
    frames = sound[: len(sound) // frame * frame].reshape(-1, frame)
    return np.sqrt(np.mean(frames**2, axis=1))


def main(damping, brightness, fraction):
    burst = pluck(23, 0.3)
    sound = string(burst, 320, damping, brightness, fraction)
    level = envelope(sound, 40)
    times = np.arange(len(level))
    target = level[0] * np.exp(-0.25 * times)
    return np.sum((level - target) ** 2) + 0.1 * abs(sound[-1])


ARGUMENTS = (0.985, 0.4, 0.35)


def check():
    sound = string(pluck(23, 0.3), 2300, 0.995, 0.5, 0.5)
    spectrum = np.abs(np.fft.rfft(sound[300:] * np.hanning(2000)))
    peak = np.argmax(spectrum[60:110]) + 60
    assert abs(peak - 2000 / 24.0) < 3  # 23 samples, half a sample of each filter
    level = envelope(sound, 230)
    assert np.all(np.diff(level) < 0)
