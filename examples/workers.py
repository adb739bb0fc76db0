"""Compute sensitivities of a simulation in parallel, by sending its pullback to other processes.

A metal bar is heated at one end, and sensors along it measure the temperature over time. The
simulation is plain NumPy and runs once. The sensitivity of one reading to the conductivity of every
piece of the bar is one application of the pullback, independent of the other readings. Each worker
gets the pullback, which needs neither the simulation nor this file, and applies it to its share:

    python examples/workers.py --workers 4

The sensitivities then locate a crack, which makes one piece of the bar a bad conductor, from the
readings.
"""

import argparse
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor

import numpy as np

import cotan as ct

PIECES = 32  # of the bar
SENSORS = np.arange(3, PIECES, 4)
STEPS = 240
READ_EVERY = 60
CRACK = 17
NOISE = 1e-3  # of a sensor, in degrees


def simulate(conductivity):
    """Give the readings, one row for each time, for the conductivities between neighbours."""
    bar = np.zeros(PIECES)
    readings = []
    for step in range(1, STEPS + 1):
        flow = conductivity * np.diff(bar)
        change = np.concatenate([flow, [0.0]]) - np.concatenate([[0.0], flow])
        bar = bar + 0.4 * change
        # One end is kept hot.
        bar[0] = 100.0
        if step % READ_EVERY == 0:
            readings.append(bar[SENSORS])
    return np.stack(readings)


# The state of a worker process.
given = {}


def start(back):
    """Initialise a worker with the pullback."""
    given["back"] = back


def sensitivity(cotangent):
    """Give the derivatives of one reading with respect to the conductivities."""
    (row,) = given["back"](cotangent)
    return np.asarray(row)


def jacobian(back, shape, workers, method):
    """Give the rows of all readings, computed by processes that are started by this method."""
    context = multiprocessing.get_context(method)
    cotangents = np.eye(np.prod(shape)).reshape(-1, *shape)
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=start, initargs=(back,))
    with pool:
        return np.stack(list(pool.map(sensitivity, cotangents, chunksize=4)))


def find_crack(rows, misfit):
    """Give the piece whose change explains a difference of readings best, alone."""
    along = rows.T @ misfit.ravel()
    explained = along**2 / np.sum(rows**2, axis=0)
    return int(np.argmax(explained))


def main():
    """Find the crack, and check the rows against differences."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--method", default="spawn", help="how processes start: spawn, fork, ...")
    options = parser.parse_args()

    sound = np.full(PIECES - 1, 0.8)
    readings, back = ct.pullback(simulate, sound)
    print(f"the pullback: {len(back.program.equations)} equations, keeps {back.nbytes} bytes")

    begin = time.perf_counter()
    rows = jacobian(back, readings.shape, options.workers, options.method)
    seconds = time.perf_counter() - begin
    print(f"{len(rows)} rows of sensitivities by {options.workers} processes in {seconds:.1f} s")

    cracked = sound.copy()
    cracked[CRACK] *= 0.7
    noise = NOISE * np.random.default_rng(0).standard_normal(readings.shape)
    found = find_crack(rows, simulate(cracked) + noise - readings)
    print(f"the crack is at piece {CRACK}, and was found at {found}")

    h = 1e-6
    for piece in (0, CRACK, PIECES - 2):
        step = h * np.eye(PIECES - 1)[piece]
        differences = (simulate(sound + step) - simulate(sound - step)).ravel() / (2 * h)
        np.testing.assert_allclose(rows[:, piece], differences, rtol=1e-5, atol=1e-4)
    np.testing.assert_array_equal(rows, jacobian_here(back, readings.shape))
    if found != CRACK:
        raise SystemExit("the crack was not found")


def jacobian_here(back, shape):
    """Give the same rows, computed by this process."""
    cotangents = np.eye(np.prod(shape)).reshape(-1, *shape)
    return np.stack([np.asarray(back(cotangent)[0]) for cotangent in cotangents])


if __name__ == "__main__":
    main()
