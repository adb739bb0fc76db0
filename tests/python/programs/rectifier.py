"""Circuits: a rectifier with a smoothing filter; every time step solves for the diode by Newton."""

from math import exp, log, pi, sin

THERMAL_VOLTAGE = 0.02585


class Diode:
    def __init__(self, saturation, emission=1.8):
        self.saturation = saturation
        self.nvt = emission * THERMAL_VOLTAGE
        self.critical = self.nvt * log(self.nvt / (saturation * 2**0.5))

    def limit(self, v, old):
        """The step of SPICE, which keeps the exponential in its bounds."""
        if v > self.critical and abs(v - old) > 2 * self.nvt:
            if old > 0:
                arg = 1 + (v - old) / self.nvt
                return old + self.nvt * log(arg) if arg > 0 else self.critical
            return self.nvt * log(v / self.nvt)
        return v

    def linearize(self, v):
        e = exp(v / self.nvt)
        g = self.saturation * e / self.nvt + 1e-12
        return self.saturation * (e - 1), g


def simulate(diode, series, inductance, capacitance, load, amplitude, periods=2, steps=60):
    """Backward Euler: source, resistor, diode, then an inductor into a loaded capacitor."""
    dt = 1 / 50 / steps
    current, output, vd = 0.0, 0.0, 0.0
    for n in range(1, periods * steps + 1):
        source = amplitude * sin(2 * pi * n / steps)
        impedance = series + inductance / dt + 1 / (capacitance / dt + 1 / load)
        known = (
            source
            + inductance / dt * current
            - capacitance / dt * output / (capacitance / dt + 1 / load)
        )
        for _ in range(100):
            i, g = diode.linearize(vd)
            residual = vd + impedance * i - known
            new = diode.limit(vd - residual / (1 + impedance * g), vd)
            change, vd = new - vd, new
            if abs(change) < 1e-12:
                break
        current = (known - vd) / impedance
        output = (capacitance / dt * output + current) / (capacitance / dt + 1 / load)
        yield source, vd, current, output


def main(saturation, series, inductance, capacitance, load):
    diode = Diode(saturation * 1e-9)
    voltages, losses = [], 0.0
    for _, vd, current, output in simulate(diode, series, inductance, capacitance, load, 9.0):
        voltages.append(output)
        losses += (vd + series * current) * current
    last = voltages[60:]
    ripple = max(last) - min(last)
    return (sum(last) / len(last) - 6.0) ** 2 + ripple**2 + 0.01 * losses


ARGUMENTS = (2.5, 1.5, 0.01, 1e-3, 80.0)


def check():
    diode = Diode(2.5e-9)
    states = list(simulate(diode, 1.5, 0.01, 1e-3, 80.0, 9.0, periods=4))
    assert min(current for _, _, current, _ in states) > -1e-6  # a diode blocks
    assert max(output for *_, output in states) < 9.5
    for _, vd, current, _ in states[::17]:
        assert abs(diode.linearize(vd)[0] - current) < 1e-6
