"""Networks: two hidden layers, the last of them alone, and convolutions."""

import itertools

from rows._row import Arrays, from_workload, rng
from workloads import WORKLOADS

BY_NAME = {w.name: w for w in WORKLOADS}


def small_mlp() -> Arrays:
    draw, layers = rng(), (5, 4, 4, 3)
    arrays = [draw.normal(size=(6, layers[0])).astype("float32"), draw.integers(0, 3, 6)]
    for rows, columns in itertools.pairwise(layers):
        arrays += [draw.normal(size=s).astype("float32") for s in ((rows, columns), (columns,))]
    return tuple(arrays)


def small_conv() -> Arrays:
    draw = rng()
    shapes = ((2, 3, 3, 3), (2,), (4, 2, 3, 3), (4,), (4 * 2 * 2, 3), (3,))
    images, labels = draw.normal(size=(2, 3, 8, 8)).astype("float32"), draw.integers(0, 3, 2)
    return images, labels, *(draw.normal(size=s).astype("float32") for s in shapes)


ROWS = [
    from_workload(BY_NAME["mlp"], tiny=small_mlp),
    from_workload(BY_NAME["mlp-last"], tiny=small_mlp),
    from_workload(BY_NAME["conv"], tiny=small_conv),
]
