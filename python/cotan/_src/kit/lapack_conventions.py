"""Makes decompositions agree with LAPACK where the definition leaves a choice: signs, orders.

Eigenvectors and singular vectors are determined up to sign (complex ones up to phase, those of
equal values up to a rotation), and the eigenvalues of a general matrix have no order. User code
sees what LAPACK chose, for instance in the projections of a principal component analysis. So the
overrides of NumPy's and SciPy's functions return the vectors and the order that the original
returns for the same values. These choices are constant, except for phases: LAPACK makes one
component of each complex vector real, and so do the overrides, which has a derivative.
"""

import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias, TypeVar

import numpy as np

from cotan import _core
from cotan._core import Array
from cotan._src.kit.decompositions import are_real, constant, real_part
from cotan._src.runtime.values import is_array, to_numpy
from cotan._src.state.guards import RECORDING_CHECKS
from cotan._src.typing import AnyArray, Args, Function, NDArray

_T = TypeVar("_T")
#: What a library makes of the values of a matrix.
_Original: TypeAlias = Callable[[NDArray], Any]

# Matrices with longer sides keep what cotan's decomposition chooses: to ask costs as much as that.
LARGEST = 256


def asked(original: Callable[[NDArray], _T], a: AnyArray) -> _T | None:
    """Give what the original makes of the values of an array; None where it is not asked."""
    if max(a.shape[-2:], default=0) > LARGEST or not a.size:
        return None
    if _core.is_preparing():
        _asked.while_preparing = True
        return None
    if _core.is_traced(a):
        return None
    try:
        values = to_numpy(constant(a))
    except (TypeError, ValueError):
        # There are no values where a rule is traced.
        return None
    found = original(values)
    if any(map(is_array, found if isinstance(found, tuple) else (found,))):
        return None
    turned = getattr(_asked, "turned", None)
    return found if turned is None else _otherwise(found, turned, values.ndim)


class _Asked(threading.local):
    """What is known, in this thread, of LAPACK's choices for a function."""

    while_preparing = False
    turned: int | None = None


_asked = _Asked()


def _otherwise(found: Any, turned: int, ndim: int) -> Any:
    """Choose in another way: other signs for every other vector, the opposite order of values.

    Complex vectors are turned by a quarter: a sign would be undone where the result is factored
    again.
    """
    parts = found if isinstance(found, tuple) else (found,)
    has_values = any(x.ndim < ndim for x in parts)
    result = []
    for i, x in enumerate(parts):
        if has_values:
            result.append(x[..., ::-1])
            continue
        # Of two matrices the second one has its vectors in rows.
        axis = -1 - i
        quarter = (1j, -1j)[i] if np.iscomplexobj(x) else -1.0
        signs = np.where(np.arange(x.shape[axis]) % 2 == turned, quarter, 1.0)
        result.append(x * (signs if axis == -1 else signs[:, None]))
    return tuple(result) if isinstance(found, tuple) else result[0]


def guard_no_discrete_choice(function: Function, args: Args) -> None:
    """Refuse to prepare a function whose result depends on choices of LAPACK's.

    A replay does not ask LAPACK. Where it was not asked while the function was recorded, the
    function is called with its choices, and with others.
    """
    was_asked, _asked.while_preparing = _asked.while_preparing, False
    if not was_asked:
        return
    results = []
    try:
        for turned in (None, 0, 1):
            _asked.turned = turned
            results.append(list(_leaves(_core.pullback(function, *args)[0])))
    finally:
        _asked.turned = None
    first, *others = results
    for other in others:
        pairs = zip(first, other, strict=True)
        if all(np.allclose(x, y, rtol=1e-6, atol=1e-9, equal_nan=True) for x, y in pairs):
            continue
        raise TypeError(
            "prepare: the result depends on the signs of eigenvectors or singular vectors, or on "
            "the order of eigenvalues, which LAPACK chooses for each matrix anew, and a replay "
            "does not call LAPACK; make the choice in the function, for instance v * "
            "np.sign(v[0]), or do not prepare it"
        )


RECORDING_CHECKS.append(guard_no_discrete_choice)


def _leaves(y: Any) -> Iterator[NDArray]:
    if isinstance(y, dict):
        y = list(y.values())
    if isinstance(y, (list, tuple)):
        for item in y:
            yield from _leaves(item)
    elif is_array(y) or isinstance(y, (np.ndarray, np.number, float, complex)):
        yield np.asarray(to_numpy(constant(y)))


def _phase(x: AnyArray) -> AnyArray:
    """Give complex numbers of size 1 in the direction of others, 1 for those that are zero."""
    size = _core.abs(x)
    tiny = _core.le(size, 1e-12)
    return _core.where(tiny, 1.0, x / _core.where(tiny, 1.0, size))


def _direction(x: NDArray) -> NDArray:
    """Give numbers of size 1 in the direction of others, 0 for 0: nothing overflows."""
    size = np.abs(x)
    return x / np.where(size > 0, size, 1)


def with_real_component(v: AnyArray, row: int) -> AnyArray:
    """Turn complex columns so that one component of each is real, as LAPACK does."""
    if v.dtype.kind != "c" or not v.size:
        return v
    return v * _phase(v[..., row, :])[..., None, :].conj()


def _turn(computed: NDArray, chosen: NDArray, alike: NDArray | None = None) -> NDArray:
    """Give the factors that turn the computed columns into the chosen ones.

    A number for each, or, where `alike` says which columns belong to equal values, a matrix.
    """
    inner = np.swapaxes(computed, -1, -2).conj() @ chosen
    along = np.diagonal(inner, axis1=-2, axis2=-1)
    size = np.abs(along)
    if alike is None or np.all(size > 1 - 1e-6):
        return np.where(size > 0.5, along / np.where(size > 0.5, size, 1), 1)
    turn = np.where(alike, inner, 0)
    # Where the vectors of equal values do not span the same, there is nothing to choose.
    bad = np.abs(np.linalg.norm(turn, axis=-2) - 1) >= 1e-6
    left = np.any(alike & bad[..., :, None], axis=-2)
    return np.where(left[..., None, :], np.eye(computed.shape[-1]), turn)


def _as_matrix(turn: NDArray, ndim: int) -> NDArray:
    return turn if turn.ndim == ndim else turn[..., None, :] * np.eye(turn.shape[-1])


def _turned(v: AnyArray, turn: NDArray) -> AnyArray:
    by = _core.asarray(turn.astype(v.dtype))
    return _core.matmul(v, by) if by.ndim == v.ndim else v * by[..., None, :]


def _alike(w: NDArray) -> NDArray:
    """Say which values, of some in order, are equal but for rounding, as a matrix."""
    scale = np.max(np.abs(w), axis=-1, initial=1e-300)[..., None]
    other = np.abs(np.diff(w, axis=-1, prepend=w[..., :1])) > 1e-7 * scale
    group = np.cumsum(other, axis=-1)
    alike: NDArray = group[..., :, None] == group[..., None, :]
    return alike


def eigenvectors(w: AnyArray, v: AnyArray, chosen: NDArray | None, row: int = 0) -> AnyArray:
    """Give eigenvectors of Hermitian matrices as they were chosen, all of length 1."""
    v = with_real_component(v, row)
    if chosen is None:
        return v
    turn = _turn(to_numpy(constant(v)), chosen, _alike(to_numpy(constant(w))))
    return _turned(v, turn)


def columns(v: AnyArray, chosen: NDArray) -> AnyArray:
    """Give columns, of any length, with the signs of those that were chosen."""
    computed = to_numpy(constant(v))
    along = np.sum(computed.conj() * chosen, axis=-2)
    size = np.abs(along)
    return _turned(v, np.where(size > 0, along / np.where(size > 0, size, 1), 1))


def singular_vectors(
    u: AnyArray, s: AnyArray, vh: AnyArray, chosen: tuple[NDArray, NDArray] | None
) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Give a decomposition into singular values with the vectors that were chosen.

    Square matrices of vectors have columns without a singular value, which are chosen apart.
    """
    k = s.shape[-1]
    if u.dtype.kind == "c" and k and u.size:
        wide = u.shape[-2] < vh.shape[-1]
        phase = _phase(u[..., 0, :k].conj() if wide else vh[..., :k, 0])
        u = _with_first(u, u[..., :k] * phase[..., None, :], -1)
        vh = _with_first(vh, vh[..., :k, :] * phase[..., None].conj(), -2)
    if chosen is None:
        return u, s, vh
    computed_u, computed_vh, values = (to_numpy(constant(x)) for x in (u, vh, s))
    zero = values <= 1e-12 * np.max(values, axis=-1, initial=0)[..., None]
    alike = _alike(values) & (zero[..., :, None] == zero[..., None, :])
    turn = other = _turn(computed_u[..., :k], chosen[0][..., :k], alike)
    left = _turned(u[..., :k], turn)
    if np.any(zero):
        # Values that vanish leave the vectors of both sides free; the others tie them together.
        rows = np.swapaxes(computed_vh[..., :k, :], -1, -2).conj()
        wanted = np.swapaxes(chosen[1][..., :k, :], -1, -2).conj()
        free = _turn(rows, wanted, alike)
        free, turn = (_as_matrix(x, computed_vh.ndim) for x in (free, turn))
        other = np.where(zero[..., None, :], free, turn)
    right = _adjoint(_turned(_adjoint(vh[..., :k, :]), other))
    return (
        _completed(u, left, computed_u, chosen[0], -1),
        s,
        _completed(vh, right, computed_vh, chosen[1], -2),
    )


def _adjoint(x: AnyArray) -> Array:
    x = _core.transpose(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))
    return x.conj() if x.dtype.kind == "c" else x


def _with_first(whole: AnyArray, first: AnyArray, axis: int) -> AnyArray:
    """Put other vectors in the place of the first ones."""
    k = first.shape[axis]
    if k == whole.shape[axis]:
        return first
    rest = whole[..., k:] if axis == -1 else whole[..., k:, :]
    return _core.concatenate([first, rest], axis)


def _completed(
    whole: AnyArray, first: AnyArray, computed: NDArray, chosen: NDArray, axis: int
) -> AnyArray:
    """Join the first vectors with the others, turned into those that were chosen."""
    k = first.shape[axis]
    if k == whole.shape[axis]:
        return first
    if axis == -2:
        computed, chosen = (np.swapaxes(x, -1, -2).conj() for x in (computed, chosen))
        return _adjoint(_completed(_adjoint(whole), _adjoint(first), computed, chosen, -1))
    computed, chosen = computed[..., k:], chosen[..., k:]
    alike = np.ones((computed.shape[-1],) * 2, bool)
    rest = _turned(whole[..., k:], _turn(computed, chosen, alike))
    return _core.concatenate([first, rest], -1)


def order(w: AnyArray, chosen: NDArray) -> NDArray | None:
    """Say which of our eigenvalues is each of those that were chosen; None for the same order."""
    computed = to_numpy(constant(w))
    scale = np.max(np.abs(computed), axis=-1, initial=1e-300)[..., None]
    if np.all(np.abs(computed - chosen) <= 1e-9 * scale):
        return None
    gaps = np.abs(computed[..., None, :] - chosen[..., :, None])
    result = np.zeros(computed.shape, np.int64)
    for index in np.ndindex(*computed.shape[:-1]):
        free = gaps[index].copy()
        for i in np.argsort(free.min(1)):
            result[(*index, i)] = j = np.argmin(free[i])
            free[:, j] = np.inf
    return result


def reordered(x: AnyArray, by: NDArray | None, axis: int = -1) -> AnyArray:
    """Put values, or columns of vectors, into an order."""
    if by is None:
        return x
    if axis == -2:
        by = np.broadcast_to(by[..., None, :], x.shape)
        axis = -1
    return np.take_along_axis(x, by, axis)


def qr(a: AnyArray, q: AnyArray, r: AnyArray, original: _Original) -> tuple[AnyArray, AnyArray]:
    """Give the factors with the phases of those that the original gives."""
    if a.dtype.kind != "c":
        return q, r  # the same rule is used for real ones
    chosen = asked(original, a)
    if chosen is None:
        return q, r
    k = min(a.shape[-2:])
    pair = to_numpy(constant(r)), chosen[1]
    computed, wanted = (np.diagonal(x, axis1=-2, axis2=-1) for x in pair)
    turn = np.conj(_direction(computed[..., :k])) * _direction(wanted[..., :k])
    turn = np.where(turn == 0, 1, turn).astype(r.dtype)
    left = _completed(
        q, q[..., :k] * turn.conj()[..., None, :], to_numpy(constant(q)), chosen[0], -1
    )
    return left, _with_first(r, r[..., :k, :] * turn[..., None], -2)


def _always_complex(library: _Original) -> list[bool]:
    """Say of what a library gives for real matrices whether it is complex whatever its value.

    That differs between libraries, and between their versions.
    """
    found = library(np.eye(1))
    return [x.dtype.kind == "c" for x in (found if isinstance(found, tuple) else (found,))]


def eigvals(
    a: AnyArray, w: AnyArray, original: _Original, library: _Original | None = None
) -> AnyArray:
    """Give eigenvalues in the order in which the original gives them, and real if those are."""
    chosen = asked(original, a)
    if chosen is None:
        is_real = a.dtype.kind != "c" and not _always_complex(library or original)[0]
        is_real = is_real and are_real(w)
    else:
        is_real = chosen.dtype.kind != "c"
        w = reordered(w, order(w, chosen))
    return real_part(w, w) if is_real else w


def eig(
    a: AnyArray,
    w: AnyArray,
    v: AnyArray,
    original: _Original,
    library: _Original | None = None,
) -> tuple[AnyArray, AnyArray]:
    """Give eigenvalues and vectors as the original orders and turns them, and real if those are."""
    chosen = asked(original, a)
    if chosen is None:
        if a.dtype.kind == "c":
            return w, v
        values, vectors = _always_complex(library or original)
        if (values and vectors) or not are_real(w):
            return w, v
        return w if values else real_part(w, w), v if vectors else real_part(v, w)
    by = order(w, chosen[0])
    w, v = reordered(w, by), reordered(v, by, -2)
    v = v if chosen[1].dtype.kind == "c" else v.real
    return w if chosen[0].dtype.kind == "c" else w.real, columns(v, chosen[1])


def left_vectors(v: AnyArray, original: _Original, a: AnyArray) -> AnyArray:
    """Turn left eigenvectors as LAPACK does: the largest component of each is real."""
    largest = np.argmax(_core.abs(constant(v)), -2)[..., None, :]
    v = v * _phase(np.take_along_axis(v, largest, -2)).conj()
    chosen = asked(original, a)
    return v if chosen is None else columns(v, chosen)
