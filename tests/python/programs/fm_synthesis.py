"""Audio: frequency modulation synthesis of a bell, compared with a target by its spectrogram."""

import numpy as np

RATE = 4000


def adsr(t, attack, decay, sustain, release, end):
    """An envelope of straight lines."""
    env = np.piecewise(
        t,
        [t < attack, (t >= attack) & (t < attack + decay), t >= attack + decay],
        [
            lambda t: t / attack,
            lambda t: 1 - (1 - sustain) * (t - attack) / decay,
            lambda t: sustain + 0 * t,
        ],
    )
    tail = np.interp(t, [end - release, end], [1.0, 0.0])
    return env * tail


class Operator:
    def __init__(self, ratio, level, envelope):
        self.ratio, self.level, self.envelope = ratio, level, envelope

    def render(self, t, pitch, modulation=0.0):
        phase = 2 * np.pi * self.ratio * pitch * t + modulation
        return self.level * self.envelope * np.sin(phase)


def spectrogram(signal, frame=64, hop=32):
    starts = range(0, len(signal) - frame + 1, hop)
    window = np.hanning(frame)
    return np.array([np.abs(np.fft.rfft(signal[s : s + frame] * window)) for s in starts])


def voice(ratio, index, decay, feedback=0.0):
    t = np.arange(512) / RATE
    modulator = Operator(ratio, index, np.exp(-t / decay))
    carrier = Operator(1.0, 0.8, adsr(t, 0.01, 0.03, 0.6, 0.04, t[-1]))
    m = modulator.render(t, 220.0)
    if feedback:
        m = modulator.render(t, 220.0, feedback * m)
    return carrier.render(t, 220.0, m)


def main(ratio, index, decay):
    target = spectrogram(voice(1.4, 2.0, 0.05))
    sound = spectrogram(voice(ratio, index, decay, feedback=0.3))
    floor = 1e-3
    distance = np.sqrt(np.mean((np.log(sound + floor) - np.log(target + floor)) ** 2))
    return distance + np.linalg.norm(sound - target) / np.linalg.norm(target)


ARGUMENTS = (1.5, 1.6, 0.07)


def check():
    t = np.arange(512) / RATE
    plain = Operator(1.0, 1.0, 1.0).render(t, 500.0)
    assert np.argmax(spectrogram(plain)[3]) == round(500.0 / RATE * 64)
    spread = [np.std(spectrogram(voice(1.4, i, 1.0)).mean(axis=0)) for i in (0.1, 3.0)]
    assert spread[1] < spread[0]
