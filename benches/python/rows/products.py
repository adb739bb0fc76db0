"""Products with vectors beside plain NumPy, and a product after a pause of the threads."""

import time
from collections.abc import Callable

import numpy as np

from rows._row import Arrays, Row, from_workload, rng
from workloads import WORKLOADS, matmul_data

# matvec: a matrix and a vector


def matvec(np, a, x):
    return np.sum((a @ x) ** 2)


def matvec_by_hand(a, x):
    y = a @ x
    return np.sum(y**2), (2 * (a.T @ y),)


def matvec_data(rows: int, columns: int) -> Callable[[], Arrays]:
    def data() -> Arrays:
        draw = rng()
        return draw.normal(size=(rows, columns)), draw.normal(size=columns)

    return data


def busy() -> None:
    """Work on one thread for a tenth of a second, while those of the pools fall asleep."""
    end = time.perf_counter() + 0.1
    while time.perf_counter() < end:
        sum(range(1_000))


ROWS = [
    *(
        Row(
            f"matvec {rows:,} × {columns}",
            matvec_data(rows, columns),
            matvec,
            matvec_by_hand,
            wrt=(1,),
            tiny=matvec_data(rows // 100, columns // 50),
            nbytes=8 * rows * columns,
            loose=64,
        )
        for rows, columns in ((10_000, 200), (300, 300))
    ),
    *(
        from_workload(w, name=f"{w.name} after a pause", tiny=matmul_data(8, w.dtype), before=busy)
        for w in WORKLOADS
        if w.name == "matmul-sq float32"
    ),
]
