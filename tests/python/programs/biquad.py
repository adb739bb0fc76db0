"""Audio: an equalizer of cascaded biquads, run sample by sample, matched to a target response."""

import math

import numpy as np

SAMPLE_RATE = 8000.0


class Biquad:
    """The filters of the audio EQ cookbook, in transposed direct form II."""

    def __init__(self, kind, frequency, q=0.7071, gain_db=0.0):
        w = 2 * math.pi * frequency / SAMPLE_RATE
        alpha = math.sin(w) / (2 * q)
        c = math.cos(w)
        if kind == "lowpass":
            b = [(1 - c) / 2, 1 - c, (1 - c) / 2]
            a = [1 + alpha, -2 * c, 1 - alpha]
        elif kind == "highpass":
            b = [(1 + c) / 2, -(1 + c), (1 + c) / 2]
            a = [1 + alpha, -2 * c, 1 - alpha]
        elif kind == "peak":
            A = math.pow(10, gain_db / 40)
            b = [1 + alpha * A, -2 * c, 1 - alpha * A]
            a = [1 + alpha / A, -2 * c, 1 - alpha / A]
        else:
            raise ValueError(kind)
        self.b = np.array(b) / a[0]
        self.a = np.array(a) / a[0]
        self.reset()

    def reset(self):
        self.z1 = self.z2 = 0.0

    def process(self, x):
        b0, b1, b2 = self.b
        _, a1, a2 = self.a
        y = np.empty(len(x))
        for n, sample in enumerate(x):
            out = b0 * sample + self.z1
            self.z1 = b1 * sample - a1 * out + self.z2
            self.z2 = b2 * sample - a2 * out
            y[n] = out
        return y

    def response(self, frequencies):
        z = np.exp(-2j * np.pi * np.asarray(frequencies) / SAMPLE_RATE)
        return np.polyval(self.b[::-1], z) / np.polyval(self.a[::-1], z)


def chain(frequencies, q, gain):
    return [
        Biquad("highpass", frequencies[0]),
        Biquad("peak", frequencies[1], q, gain),
        Biquad("lowpass", frequencies[2]),
    ]


def main(frequencies, q, gain):
    n = np.arange(160)
    signal = np.sin(2 * np.pi * 300 * n / SAMPLE_RATE) + 0.5 * np.sign(np.sin(0.9 * n))
    response = 1.0
    for biquad in chain(frequencies, q, gain):
        signal = biquad.process(signal)
        response = response * biquad.response([150.0, 600.0, 1000.0, 2500.0])
    level = 20 * np.log10(np.abs(response))
    target = np.array([-3.0, 1.0, 4.0, -6.0])
    return np.sum((level - target) ** 2) + 10 * np.sqrt(np.mean(signal[40:] ** 2))


ARGUMENTS = (np.array([180.0, 1100.0, 2200.0]), 1.2, 5.0)


def check():
    lowpass = Biquad("lowpass", 1000.0)
    assert abs(20 * np.log10(abs(lowpass.response(1000.0))) + 3.01) < 0.01
    impulse = np.zeros(400)
    impulse[0] = 1.0
    h = lowpass.process(impulse)
    k = np.exp(-2j * np.pi * 700.0 / SAMPLE_RATE * np.arange(400))
    assert abs(h @ k - lowpass.response(700.0)) < 1e-9
