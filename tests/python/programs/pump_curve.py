"""Hydraulics: the duty point of a pump in a pipe; numbers are turned into floats on the way in."""

import math


class Pipe:
    def __init__(self, length, diameter, roughness):
        self.length = float(length)
        self.diameter = float(diameter)
        self.roughness = float(roughness)

    def friction(self, reynolds):
        """Swamee and Jain's formula."""
        relative = self.roughness / self.diameter
        return 0.25 / math.log10(relative / 3.7 + 5.74 / reynolds**0.9) ** 2

    def head(self, flow):
        speed = flow / (math.pi * self.diameter**2 / 4)
        reynolds = speed * self.diameter / 1e-6
        return self.friction(reynolds) * self.length / self.diameter * speed**2 / (2 * 9.81)


def duty_point(pipe, shut_off, slope, lift):
    flow = 0.01
    for _ in range(50):
        available = shut_off - slope * flow**2
        needed = lift + pipe.head(flow)
        h = 1e-7
        derivative = -2 * slope * flow - (pipe.head(flow + h) - pipe.head(flow - h)) / (2 * h)
        change = (available - needed) / derivative
        flow -= change
        if abs(change) < 1e-13:
            break
    return flow


def main(length, diameter, roughness, shut_off):
    pipe = Pipe(length, diameter, roughness)
    flow = duty_point(pipe, shut_off, 9000.0, 12.0)
    power = 9810 * flow * (12.0 + pipe.head(flow)) / 0.7
    return power / 1e3 + (flow - 0.03) ** 2 * 1e4


ARGUMENTS = (420.0, 0.15, 4.5e-5, 32.0)


def check():
    pipe = Pipe(420.0, 0.15, 4.5e-5)
    flow = duty_point(pipe, 32.0, 9000.0, 12.0)
    assert abs(32.0 - 9000.0 * flow**2 - 12.0 - pipe.head(flow)) < 1e-9
