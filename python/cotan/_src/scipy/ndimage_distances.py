"""Distances from the background of an image, with respect to the spacing of its elements.

SciPy finds which element of the background is nearest. Which one that is is constant.
"""

import numpy as np

from cotan import _core
from cotan._src.numpy.reductions import safe_sqrt
from cotan._src.rebind.engine import locate
from cotan._src.rebind.numpy_substitutes import asarray
from cotan._src.runtime.registry import override
from cotan._src.runtime.values import contains_active, refuse, to_numpy
from cotan._src.typing import AnyArray, Args, ArrayLike, NDArray

_EDT, _BF = "scipy.ndimage.distance_transform_edt", "scipy.ndimage.distance_transform_bf"


def _distances(
    name: str,
    image: ArrayLike,
    metric: Args,
    sampling: ArrayLike | None,
    returned: tuple[bool, bool],
    memory: tuple[NDArray | None, NDArray | None],
) -> AnyArray | tuple[AnyArray, NDArray] | None:
    compute, values = locate(name), to_numpy(asarray(image))
    result: AnyArray | tuple[AnyArray, NDArray] | None
    if not contains_active(sampling) or not returned[0] or (metric and metric[0] != "euclidean"):
        known = None if sampling is None else to_numpy(asarray(sampling))
        result = compute(values, *metric, known, *returned, *memory)
        return result
    if any(x is not None for x in memory):
        raise refuse(f"{name} with distances= or indices=")
    spacing = asarray(sampling, np.float64)
    length, nearest = compute(values, *metric, to_numpy(spacing), True, True)
    if not np.all(values):
        steps = np.indices(values.shape) - nearest
        each = _core.broadcast_to(spacing, (values.ndim,)).reshape(-1, *(1,) * values.ndim)
        length = safe_sqrt(_core.sum(_core.square(steps * each), 0))
    return (length, nearest) if returned[1] else length


@override(_EDT)
def distance_transform_edt(
    input: ArrayLike, sampling: ArrayLike | None = None, return_distances: bool = True,
    return_indices: bool = False, distances: NDArray | None = None,
    indices: NDArray | None = None,
) -> AnyArray | tuple[AnyArray, NDArray] | None:  # fmt: skip
    returned = return_distances, return_indices
    return _distances(_EDT, input, (), sampling, returned, (distances, indices))


@override(_BF)
def distance_transform_bf(
    input: ArrayLike, metric: str = "euclidean", sampling: ArrayLike | None = None,
    return_distances: bool = True, return_indices: bool = False,
    distances: NDArray | None = None, indices: NDArray | None = None,
) -> AnyArray | tuple[AnyArray, NDArray] | None:  # fmt: skip
    returned = return_distances, return_indices
    return _distances(_BF, input, (metric,), sampling, returned, (distances, indices))
