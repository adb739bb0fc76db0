"""Functions of `scipy.cluster`: who belongs to whom is constant, and their code is compiled."""

from cotan._src.rebind.engine import ON_VALUES, refused
from cotan._src.runtime.registry import named, override

_INSTEAD = "assign points by their values (ct.dropgrad), and compute the means of each group"

override(*named("scipy.cluster.vq", "kmeans kmeans2 vq"))(refused(_INSTEAD))
override(
    *named(
        "scipy.cluster.hierarchy", "average centroid complete linkage median single ward weighted"
    )
)(refused(_INSTEAD))
override("scipy.cluster.hierarchy.fcluster")(ON_VALUES)
