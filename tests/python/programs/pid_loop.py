"""Control: a PID controller with anti-windup heats a tank with dead time."""

from collections import deque


class PID:
    def __init__(self, kp, ki, kd, dt, limits=(0.0, 100.0), derivative_filter=0.2):
        self.kp, self.ki, self.kd, self.dt = kp, ki, kd, dt
        self.low, self.high = limits
        self.filter = derivative_filter
        self.integral = 0.0
        self.last = None
        self.derivative = 0.0

    def __call__(self, setpoint, measured):
        error = setpoint - measured
        if self.last is not None:
            raw = -(measured - self.last) / self.dt
            self.derivative += self.filter * (raw - self.derivative)
        self.last = measured
        output = self.kp * error + self.ki * self.integral + self.kd * self.derivative
        if output > self.high:
            saturated = self.high
        elif output < self.low:
            saturated = self.low
        else:
            saturated = output
        if saturated == output or (error > 0) != (output > saturated):
            self.integral += error * self.dt
        return saturated


class Tank:
    """First order with dead time, and heat losses to the room."""

    def __init__(self, gain, time_constant, delay, ambient=20.0):
        self.gain, self.time_constant, self.ambient = gain, time_constant, ambient
        self.pipe = deque([0.0] * delay)
        self.temperature = ambient

    def step(self, power, dt):
        self.pipe.append(power)
        arriving = self.pipe.popleft()
        drive = self.gain * arriving - (self.temperature - self.ambient)
        self.temperature += dt * drive / self.time_constant
        return self.temperature


def run(controller, tank, duration=240, profile=((0, 50.0), (120, 70.0), (200, 60.0))):
    schedule = dict(profile)
    setpoint = None
    log = []
    for k in range(duration):
        setpoint = schedule.get(k, setpoint)
        power = controller(setpoint, tank.temperature)
        log.append((setpoint, tank.step(power, controller.dt), power))
    return log


def main(kp, ki, kd, gain, time_constant):
    log = run(PID(kp, ki, kd, 1.0), Tank(gain, time_constant, delay=4))
    iae = sum(abs(setpoint - temperature) for setpoint, temperature, _ in log)
    overshoot = max(temperature - 50.0 for setpoint, temperature, _ in log if setpoint == 50.0)
    effort = sum((b - a) ** 2 for (*_, a), (*_, b) in zip(log, log[1:]))
    return iae / len(log) + max(overshoot, 0.0) + 1e-3 * effort


ARGUMENTS = (3.2, 0.11, 4.5, 0.9, 30.0)


def check():
    log = run(PID(3.2, 0.11, 4.5, 1.0), Tank(0.9, 30.0, 4), 600, ((0, 50.0),))
    assert abs(log[-1][1] - 50.0) < 0.05
    assert max(power for *_, power in log) <= 100.0
