"""Operations research: a hospital as an open network of queues, and a closed one by mean values."""

import math

import numpy as np


def erlang_b(servers, load):
    """The recursion of Erlang's loss formula."""
    b = 1.0
    for k in range(1, servers + 1):
        b = load * b / (k + load * b)
    return b


def erlang_c(servers, load):
    if load >= servers:
        raise ValueError("the queue grows without end")
    b = erlang_b(servers, load)
    return servers * b / (servers - load * (1 - b))


def waiting_time(rate, service_time, servers, cv2=1.0):
    """M/G/c in the approximation of Allen and Cunneen."""
    load = rate * service_time
    return erlang_c(servers, load) * service_time / (servers - load) * (1 + cv2) / 2


class Network:
    def __init__(self, arrivals, routing, service_times, servers):
        self.arrivals, self.routing = arrivals, routing
        self.service_times, self.servers = service_times, servers

    def traffic(self):
        return np.linalg.solve(np.eye(len(self.arrivals)) - self.routing.T, self.arrivals)

    def stations(self):
        for rate, time, c in zip(self.traffic(), self.service_times, self.servers):
            yield rate, time + waiting_time(rate, time, c)

    def patients(self):
        return sum(rate * time for rate, time in self.stations())

    def response_time(self):
        return self.patients() / self.arrivals.sum()


def mean_value_analysis(demands, customers, think=0.0):
    """Queue lengths and throughput of a closed network of single servers."""
    queue = np.zeros(len(demands))
    for n in range(1, customers + 1):
        times = demands * (1 + queue)
        throughput = n / (think + times.sum())
        queue = throughput * times
    return queue, throughput


def state_probabilities(servers, load, capacity):
    """M/M/c/K."""
    p = np.array(
        [
            load**n / math.factorial(n)
            if n <= servers
            else load**n / (math.factorial(servers) * servers ** (n - servers))
            for n in range(capacity + 1)
        ]
    )
    return p / p.sum()


SERVERS = [3, 2, 4]


def main(arrivals, probabilities, service_times):
    routing = np.zeros((3, 3))
    routing[0, 1:] = probabilities[:2]
    routing[1, 2] = probabilities[2]
    network = Network(arrivals, routing, service_times, SERVERS)
    queue, throughput = mean_value_analysis(service_times, 8, think=2.0)
    p = state_probabilities(2, arrivals[0] * service_times[1], 6)
    return network.response_time() + queue.max() - throughput + 10 * p[-1]


ARGUMENTS = (np.array([1.8, 0.3, 0.4]), np.array([0.4, 0.3, 0.5]), np.array([1.1, 0.9, 1.2]))


def check():
    assert abs(waiting_time(0.8, 1.0, 1) - 0.8 / 0.2) < 1e-12  # M/M/1
    load = 2.3
    direct = load**4 / 24 / sum(load**k / math.factorial(k) for k in range(5))
    assert abs(erlang_b(4, load) - direct) < 1e-14
    assert abs(state_probabilities(4, load, 4)[-1] - direct) < 1e-14
    queue, throughput = mean_value_analysis(np.array([0.5, 0.2]), 30)
    assert abs(throughput - 2.0) < 1e-6
    assert abs(queue.sum() - 30) < 1e-9
