"""The seed function, and 20 operations in a line, on large arrays."""

from cotan._src.bench.workloads import chain_line, chain_line_by_hand, seed_data, uniform
from rows._row import Row, from_workload
from workloads import WORKLOADS

BY_NAME = {w.name: w for w in WORKLOADS}
ROWS = [
    from_workload(BY_NAME["seed 1,000,000 float32"], tiny=seed_data(7, "float32"), torch_func=True),
    Row(
        "chain-line 1,000,000",
        uniform(1_000_000),
        chain_line,
        chain_line_by_hand,
        tiny=uniform(7),
        nbytes=8 * 1_000_000,
        loose=16,
        dtype="float32",
    ),
    from_workload(BY_NAME["chain-line 10,000,000"], tiny=uniform(7)),
]
