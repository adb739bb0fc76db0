"""Acoustics: a room's impulse response by image sources, its decay, and a band's absorption."""

import itertools
import math

import numpy as np

SPEED = 343.0
RATE = 2000


def images(source, room, order):
    for n in itertools.product(range(-order, order + 1), repeat=3):
        if sum(map(abs, n)) > order:
            continue
        position = np.array(
            [(k * L + s) if k % 2 == 0 else (k * L + L - s) for k, s, L in zip(n, source, room)]
        )
        # how often it was reflected at each of the six walls
        hits = [
            (abs(k) // 2 + (k % 2 if k < 0 else 0), abs(k) // 2 + (k % 2 if k > 0 else 0))
            for k in n
        ]
        yield position, hits


def impulse_response(source, receiver, room, absorption, order=3, length=200):
    h = np.zeros(length)
    reflection = np.sqrt(1 - absorption).reshape(3, 2)
    for position, hits in images(source, room, order):
        distance = np.linalg.norm(position - receiver)
        delay = distance / SPEED * RATE
        gain = 1 / (4 * math.pi * distance)
        for axis, (low, high) in enumerate(hits):
            gain = gain * reflection[axis, 0] ** low * reflection[axis, 1] ** high
        # a windowed sinc for the fraction of a sample
        first = int(delay) - 3
        if first < 0 or first + 8 > length:
            continue
        n = np.arange(first, first + 8)
        x = n - delay
        h[first : first + 8] += gain * np.sinc(x) * (0.5 + 0.5 * np.cos(np.pi * x / 4.5))
    return h


def schroeder(h):
    energy = np.cumsum(h[::-1] ** 2)[::-1]
    return 10 * np.log10(energy[energy > 0] / energy[0])


def clarity(h, milliseconds=15):
    split = int(np.argmax(np.abs(h) > 0.1 * np.abs(h).max())) + milliseconds * RATE // 1000
    return 10 * np.log10(np.sum(h[:split] ** 2) / np.sum(h[split:] ** 2))


def sabine(room, absorption):
    lx, ly, lz = room
    areas = np.array([ly * lz] * 2 + [lx * lz] * 2 + [lx * ly] * 2)
    return 0.161 * lx * ly * lz / np.sum(areas * absorption)


def main(source, receiver, room, absorption):
    h = impulse_response(source, receiver, room, absorption)
    decay = schroeder(h)
    slope = np.polyfit(np.arange(10, 60), decay[10:60], 1)[0]
    return (clarity(h) - 12.0) ** 2 + (slope + 0.2) ** 2 + (sabine(room, absorption) - 0.4) ** 2


ARGUMENTS = (
    np.array([1.1, 2.3, 1.4]),
    np.array([3.7, 1.2, 1.6]),
    np.array([5.2, 4.1, 2.9]),
    np.array([0.2, 0.3, 0.25, 0.4, 0.5, 0.35]),
)


def check():
    source, receiver, room, _ = ARGUMENTS
    h = impulse_response(source, receiver, room, np.ones(6), order=1)
    direct = np.linalg.norm(source - receiver)
    assert abs(np.argmax(h) - direct / SPEED * RATE) < 1
    assert abs(h.sum() - 1 / (4 * math.pi * direct)) < 0.03 * h.sum()
    assert len(list(images(source, room, 1))) == 7
    assert np.all(np.diff(schroeder(impulse_response(*ARGUMENTS))[:150]) <= 0)
