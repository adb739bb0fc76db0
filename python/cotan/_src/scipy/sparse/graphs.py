"""Functions of `scipy.sparse.csgraph`: compiled code, for graphs that are constant."""

from typing import Any

from cotan._core import NotDifferentiableError
from cotan._src.rebind.engine import call_original
from cotan._src.runtime.registry import ALWAYS, Rule, RuleMaker, Way, named, override
from cotan._src.runtime.values import contains_active
from cotan._src.scipy.sparse.products import has_active_entries, settled

_HERE = "scipy.sparse.csgraph"


def _constant(x: Any) -> Any:
    return settled(x) if hasattr(x, "tocsr") else x


def _on_constants(target: str) -> Rule:
    def compute(*args: Any, **kwargs: Any) -> Any:
        given = (*args, *kwargs.values())
        graphs = [x for x in given if hasattr(x, "tocsr")]
        if contains_active(given) or any(map(has_active_entries, map(_constant, graphs))):
            raise NotDifferentiableError(
                f"{target} has no derivative rule in cotan: find paths and trees of the values "
                "(ct.dropgrad), and sum the lengths of their edges, as w[i, j]"
            )
        kwargs = {name: _constant(x) for name, x in kwargs.items()}
        return call_original(target, tuple(map(_constant, args)), kwargs)

    return compute


override(
    *named(
        _HERE,
        """
        bellman_ford breadth_first_order breadth_first_tree connected_components
        csgraph_from_dense csgraph_masked_from_dense csgraph_to_dense csgraph_to_masked
        depth_first_order depth_first_tree dijkstra
        floyd_warshall johnson maximum_bipartite_matching maximum_flow
        min_weight_full_bipartite_matching minimum_spanning_tree reverse_cuthill_mckee shortest_path
        structural_rank yen
    """,
    ),
    when=ALWAYS,
)(RuleMaker(_on_constants, Way.REFUSED))
