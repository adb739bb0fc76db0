"""A twin for `scipy.spatial.transform.Rotation` of traced arguments, by quaternions.

SciPy's class is compiled for ndarrays. During a recording its constructors make a twin when an
`Array` is among the arguments; it has the methods that user code needs, with SciPy's conventions.
A rotation of constants stays SciPy's, and composes with twins.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn, Protocol

import numpy as np

from cotan import _core
from cotan._core import Array, NotDifferentiableError
from cotan._src.rebind.engine import locate
from cotan._src.rebind.numpy_substitutes import asarray
from cotan._src.runtime.by_example import expect_values
from cotan._src.runtime.originals import original_of
from cotan._src.runtime.registry import ALWAYS, METHOD, Way, override
from cotan._src.runtime.values import contains_active, to_numpy
from cotan._src.state.callback_probe import to_numpy_items
from cotan._src.typing import AnyArray, ArrayLike, Axis, Scalar, Shape

_NAME = "scipy.spatial.transform.Rotation"
_RIGID = "scipy.spatial.transform.RigidTransform"
_AXES = {"x": 0, "y": 1, "z": 2}
# Of Newton's method for a rotation next to a matrix, where nobody sees that it has converged.
_MOST_STEPS = 30


class _Quaternions(Protocol):
    """A rotation: a twin, or SciPy's."""

    def as_quat(self) -> AnyArray: ...


def _double(x: ArrayLike) -> Array:
    return _core.asarray(asarray(x), np.float64)


def _stack(items: Sequence[AnyArray]) -> AnyArray:
    return np.stack([_core.asarray(x) for x in np.broadcast_arrays(*items)], axis=-1)


def _scalar_product(a: AnyArray, b: AnyArray) -> AnyArray:
    product: AnyArray = np.sum(a * b, axis=-1, keepdims=True)
    return product


def _compose(p: AnyArray, q: AnyArray) -> AnyArray:
    """Multiply quaternions, the scalar last: first `q`, then `p`."""
    vector = p[..., 3:] * q[..., :3] + q[..., 3:] * p[..., :3] + np.cross(p[..., :3], q[..., :3])
    scalar = p[..., 3:] * q[..., 3:] - _scalar_product(p[..., :3], q[..., :3])
    return np.concatenate([vector, scalar], axis=-1)


def _half_sine(square: AnyArray, half: AnyArray) -> AnyArray:
    """Give sin(a / 2) / a for angles given by a² and a / 2; a series where they are small."""
    series = 0.5 - square / 48 + square * square / 3840
    return np.where(square < 1e-6, series, np.sin(half) / (2 * half))


def _occurs(condition: AnyArray) -> bool:
    """Say whether a condition holds somewhere, where that is known: an error is raised then."""
    return not _core.is_traced(condition) and bool(np.any(condition))


def _orthogonal(m: AnyArray) -> AnyArray:
    """Give the rotation next to a matrix, by Newton's method: all derivatives converge with it."""
    if _occurs(np.linalg.det(m) <= 0):
        raise ValueError("Non-positive determinant in rotation matrix")
    for _ in range(_MOST_STEPS):
        step = (np.swapaxes(np.linalg.inv(m), -1, -2) - m) / 2
        m = m + step
        if not _core.is_traced(m) and np.max(np.abs(step), initial=0.0) < 1e-9:
            # The last step was of no more than this, so the next one would be lost in rounding.
            break
    return m


def _highest(k: AnyArray) -> AnyArray:
    """Give the unit eigenvector of the highest eigenvalue of symmetric matrices.

    Its derivatives do not ask whether the other eigenvalues differ, as those of all eigenvectors
    do: they are those of Newton's method, which starts from the eigenvector and stays there. Each
    step doubles the order up to which they are exact.
    """
    expect_values(f"what has no derivative in {_NAME}", [k])
    values, vectors = np.linalg.eigh(_core.dropgrad(k))
    v, value = vectors[..., -1:], values[..., -1:, None]
    corner = np.zeros((*k.shape[:-2], 1, 1))
    for _ in range(2):
        shifted = k - value * np.eye(k.shape[-1])
        bordered = np.concatenate(
            [
                np.concatenate([shifted, -v], axis=-1),
                np.concatenate([np.swapaxes(v, -1, -2), corner], axis=-1),
            ],
            axis=-2,
        )
        norm = (np.sum(v * v, axis=-2, keepdims=True) - 1) / 2
        step = np.linalg.solve(bordered, -np.concatenate([shifted @ v, norm], axis=-2))
        v, value = v + step[..., :-1, :], value + step[..., -1:, :]
    return v[..., 0]


class Rotation:
    """A rotation, or several, kept as unit quaternions of shape (..., 4)."""

    def __init__(
        self, quat: ArrayLike, normalize: bool = True, copy: bool = True, *args: object
    ) -> None:
        del copy, args
        quat = _double(quat)
        if quat.shape[-1:] != (4,):
            raise ValueError(f"Expected `quat` to have shape (..., 4), got {quat.shape}.")
        length = np.sqrt(_scalar_product(quat, quat))
        if _occurs(length == 0):
            raise ValueError("Found zero norm quaternions in `quat`.")
        self._quat = quat / length if normalize else quat

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        original: type = locate(_NAME)
        return original

    def __getattr__(self, name: str) -> NoReturn:
        # Read only where nothing has that name.
        message = f"'Rotation' object has no attribute {name!r}"
        if hasattr(locate(_NAME), name):
            message = (
                f"{_NAME}.{name} has no derivative rule in cotan yet; compute with x.as_matrix() "
                "or x.as_quat(), or create the rotation from ct.dropgrad(x)"
            )
        raise AttributeError(message)

    @property
    def single(self) -> bool:
        return bool(self._quat.ndim == 1)

    @property
    def shape(self) -> Shape:
        return self._quat.shape[:-1]

    @classmethod
    def identity(cls, num: int | None = None) -> "Rotation":
        shape = (4,) if num is None else (num, 4)
        return cls(np.broadcast_to(np.array([0.0, 0, 0, 1]), shape))

    @classmethod
    def from_quat(cls, quat: ArrayLike, *, scalar_first: bool = False) -> "Rotation":
        quat = _double(quat)
        return cls(np.roll(quat, -1, axis=-1) if scalar_first else quat)

    @classmethod
    def from_rotvec(cls, rotvec: ArrayLike, degrees: bool = False) -> "Rotation":
        v = np.deg2rad(_double(rotvec)) if degrees else _double(rotvec)
        square = _scalar_product(v, v)
        small = square < 1e-6
        # The root of what is not small only, or its slope at 0 would be infinite.
        half = np.sqrt(np.where(small, 1.0, square)) / 2
        cosine = np.where(small, 1 - square / 8 + square * square / 384, np.cos(half))
        vector = v * _half_sine(square, half)
        return cls(np.concatenate([vector, cosine], axis=-1), normalize=False)

    @classmethod
    def from_mrp(cls, mrp: ArrayLike) -> "Rotation":
        p = _double(mrp)
        if p.shape[-1:] != (3,):
            raise ValueError(f"Expected `mrp` to have shape (..., 3), got {p.shape}.")
        square = _scalar_product(p, p)
        quat = np.concatenate([2 * p, 1 - square], axis=-1) / (1 + square)
        return cls(quat, normalize=False)

    @classmethod
    def from_euler(cls, seq: str, angles: ArrayLike, degrees: bool = False) -> "Rotation":
        angles = _double(angles)
        angles = np.deg2rad(angles) if degrees else angles
        if len(seq) == 1 and (angles.ndim == 0 or angles.shape[-1] != 1):
            angles = angles[..., None]
        if len(seq) != angles.shape[-1] or not set(seq.lower()) <= set(_AXES):
            raise ValueError(f"Expected angles of shape (..., {len(seq)}) for axes {seq!r}")
        total: Any = None
        for k, axis in enumerate(seq.lower()):
            half = angles[..., k] / 2
            parts = [0.0 * half] * 4
            parts[_AXES[axis]], parts[3] = np.sin(half), np.cos(half)
            turn = _stack(parts)
            if total is None:
                total = turn
            else:
                total = _compose(total, turn) if seq.isupper() else _compose(turn, total)
        return cls(total, normalize=False)

    @classmethod
    def from_matrix(cls, matrix: ArrayLike, *, assume_valid: bool = False) -> "Rotation":
        m: AnyArray = _double(matrix)
        if m.shape[-2:] != (3, 3):
            raise ValueError(f"Expected `matrix` to have shape (..., 3, 3), got {m.shape}")
        if not assume_valid:
            m = _orthogonal(m)
        trace = m[..., 0, 0] + m[..., 1, 1] + m[..., 2, 2]
        rows = []
        for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
            row: list[Any] = [0.0] * 4
            row[i] = 1 - trace + 2 * m[..., i, i]
            row[j] = m[..., j, i] + m[..., i, j]
            row[k] = m[..., k, i] + m[..., i, k]
            row[3] = m[..., k, j] - m[..., j, k]
            rows.append(_stack(row))
        skew = [
            m[..., 2, 1] - m[..., 1, 2],
            m[..., 0, 2] - m[..., 2, 0],
            m[..., 1, 0] - m[..., 0, 1],
        ]
        rows.append(_stack([*skew, 1 + trace]))
        # Each is right where its own component is not small; which one is read jumps nowhere.
        diagonal = [m[..., 0, 0], m[..., 1, 1], m[..., 2, 2], trace]
        choice = np.argmax(_stack(diagonal), axis=-1)[..., None]
        return cls(np.select([choice == n for n in range(4)], rows))

    def as_quat(self, canonical: bool = False, *, scalar_first: bool = False) -> AnyArray:
        q: AnyArray = self._quat
        if canonical:
            values = np.roll(q, 1, axis=-1)
            found_at = np.argmax(values != 0, axis=-1)[..., None]
            first = np.take_along_axis(values, found_at, axis=-1)
            q = np.where(first < 0, -q, q)
        return np.roll(q, 1, axis=-1) if scalar_first else q

    def as_matrix(self) -> AnyArray:
        x, y, z, w = (self._quat[..., k] for k in range(4))
        rows = [
            [x * x - y * y - z * z + w * w, 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), -x * x + y * y - z * z + w * w, 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), -x * x - y * y + z * z + w * w],
        ]
        return np.stack([_stack(row) for row in rows], axis=-2)

    def as_rotvec(self, degrees: bool = False) -> AnyArray:
        q = np.where(self._quat[..., 3:] < 0, -self._quat, self._quat)
        square = _scalar_product(q[..., :3], q[..., :3])
        small = square < 1e-8
        sine = np.sqrt(np.where(small, 1.0, square))
        scale = np.where(small, 2 + square / 3, 2 * np.arctan2(sine, q[..., 3:]) / sine)
        v: AnyArray = scale * q[..., :3]
        return np.rad2deg(v) if degrees else v

    def as_mrp(self) -> AnyArray:
        q = np.where(self._quat[..., 3:] < 0, -self._quat, self._quat)
        mrp: AnyArray = q[..., :3] / (1 + q[..., 3:])
        return mrp

    def as_euler(self, seq: str, degrees: bool = False, **options: object) -> AnyArray:
        del options
        lower = seq.lower()
        if len(seq) != 3 or lower[0] == lower[1] or lower[1] == lower[2]:
            raise ValueError(f"Expected consecutive axes to be different, got {seq}")
        intrinsic = seq.isupper()
        i, j, k = (_AXES[a] for a in (lower[::-1] if intrinsic else lower))
        symmetric = i == k
        k = 3 - i - j if symmetric else k
        sign = (i - j) * (j - k) * (k - i) // 2
        q = self._quat
        a, b, c, d = q[..., 3], q[..., i], q[..., j], q[..., k] * sign
        if not symmetric:
            a, b, c, d = a - c, b + d, c + a, d - b
        middle = 2 * np.arctan2(np.hypot(c, d), np.hypot(a, b))
        plus, minus = np.arctan2(b, a), np.arctan2(d, c)
        first, third = plus - minus, plus + minus
        if not symmetric:
            third, middle = sign * third, middle - np.pi / 2
        angles = [third, middle, first] if intrinsic else [first, middle, third]
        wrapped = [x - 2 * np.pi * np.round(x / (2 * np.pi)) for x in angles]
        return np.rad2deg(_stack(wrapped)) if degrees else _stack(wrapped)

    def apply(self, vectors: ArrayLike, inverse: bool = False) -> AnyArray:
        v, m = _double(vectors), self.as_matrix()
        m = np.swapaxes(m, -1, -2) if inverse else m
        return (m @ v[..., None])[..., 0]

    def inv(self) -> "Rotation":
        return Rotation(self._quat * np.array([-1.0, -1, -1, 1]), normalize=False)

    def magnitude(self) -> AnyArray:
        v = self._quat[..., :3]
        half: AnyArray = np.arctan2(np.sqrt(np.sum(v * v, axis=-1)), np.abs(self._quat[..., 3]))
        return 2 * half

    def approx_equal(
        self, other: _Quaternions, atol: float | None = None, degrees: bool = False
    ) -> Any:
        own, its = (locate(_NAME)(to_numpy(_core.dropgrad(x.as_quat()))) for x in (self, other))
        return own.approx_equal(its, atol, degrees)

    def mean(self, weights: ArrayLike | None = None, axis: Axis = None) -> "Rotation":
        q: AnyArray = self._quat
        shape = self.shape
        if weights is not None:
            factor = np.broadcast_to(asarray(weights), shape)
            if _occurs(factor < 0):
                raise ValueError("`weights` must be non-negative.")
            q = factor[..., None] * q
        axes = range(len(shape)) if axis is None else np.atleast_1d(np.asarray(axis)) % len(shape)
        products = q[..., :, None] * self._quat[..., None, :]
        return Rotation(_highest(np.sum(products, axis=tuple(map(int, axes)))), normalize=False)

    @classmethod
    def from_davenport(
        cls, axes: ArrayLike, order: str, angles: ArrayLike, degrees: bool = False
    ) -> "Rotation":
        axes = np.atleast_2d(_double(axes))
        turned: AnyArray = _double(angles)
        if order not in {"e", "extrinsic", "i", "intrinsic"}:
            raise ValueError(
                "order should be 'e'/'extrinsic' for extrinsic sequences or 'i'/'intrinsic' for "
                f"intrinsic sequences, got {order}"
            )
        turned = turned[..., None] if len(axes) == 1 and turned.shape[-1:] != (1,) else turned
        if len(axes) > 3 or turned.shape[-1:] != (len(axes),):
            raise ValueError(f"Expected angles of shape (..., {len(axes)}) for {len(axes)} axes")
        axes = axes / np.sqrt(_scalar_product(axes, axes))
        turns = [
            cls.from_rotvec(turned[..., k, None] * axes[k], degrees)._quat for k in range(len(axes))
        ]
        total: AnyArray = turns[0]
        for turn in turns[1:]:
            total = _compose(turn, total) if order[0] == "e" else _compose(total, turn)
        return cls(total, normalize=False)

    @classmethod
    def concatenate(cls, rotations: Any) -> "Rotation":
        if type(rotations) is Rotation:
            return rotations
        parts = [asarray(_quaternions(rotation)) for rotation in rotations]
        return cls(np.concatenate([q.reshape(-1, 4) for q in parts]), normalize=False)

    @classmethod
    def align_vectors(
        cls,
        a: ArrayLike,
        b: ArrayLike,
        weights: ArrayLike | None = None,
        return_sensitivity: bool = False,
    ) -> tuple["Rotation", AnyArray]:
        a, b = _double(a), _double(b)
        if a.ndim != 2 or a.shape != b.shape or a.shape[-1] != 3:
            raise ValueError(
                f"Expected inputs `a` and `b` to have same shapes (N, 3), got {a.shape} and "
                f"{b.shape}"
            )
        w: AnyArray = np.ones(len(a)) if weights is None else asarray(weights)
        if len(a) < 2 or return_sensitivity or _occurs(np.isinf(w)):
            raise NotDifferentiableError(
                f"{_NAME}.align_vectors has a derivative rule for two vectors or more, finite "
                "weights and without return_sensitivity; compute the rest from ct.dropgrad(x)"
            )
        m = np.swapaxes(w[:, None] * a, -1, -2) @ b
        q = _highest(_attitude_matrix(m))
        lost = np.sum(w * np.sum(a * a + b * b, axis=-1))
        lost = lost - 2 * np.sum(cls(q, normalize=False).as_matrix() * m)
        return cls(q, normalize=False), np.sqrt(np.maximum(lost, 0.0))

    def __mul__(self, other: "Rotation | _Quaternions") -> "Rotation":
        return Rotation(_compose(self._quat, asarray(_quaternions(other))))

    def __rmul__(self, other: "Rotation | _Quaternions") -> "Rotation":
        return Rotation(_compose(asarray(_quaternions(other)), self._quat))

    def __pow__(self, n: Scalar) -> "Rotation":
        if not isinstance(n, _core.Array) and n in (1, -1):
            return self if n == 1 else self.inv()
        return Rotation.from_rotvec(n * self.as_rotvec())

    def __len__(self) -> int:
        if self.single:
            raise TypeError("Single rotation has no len().")
        return len(self._quat)

    def __getitem__(self, key: Any) -> "Rotation":
        return Rotation(self._quat[key], normalize=False)

    def __iter__(self) -> Iterator["Rotation"]:
        return (self[i] for i in range(len(self)))


def _attitude_matrix(m: AnyArray) -> AnyArray:
    """Give the matrix K for which q·Kq is the sum of products of `m` and the rotation matrix of q.

    Source: Davenport's q-method, as in Markley and Crassidis, Fundamentals of Spacecraft Attitude
    Determination and Control (2014), section 5.3.
    """
    s, d = m + m.T, m.T - m
    trace = m[0, 0] + m[1, 1] + m[2, 2]
    rows = [
        [s[0, 0] - trace, s[0, 1], s[0, 2], d[1, 2]],
        [s[0, 1], s[1, 1] - trace, s[1, 2], d[2, 0]],
        [s[0, 2], s[1, 2], s[2, 2] - trace, d[0, 1]],
        [d[1, 2], d[2, 0], d[0, 1], trace],
    ]
    return np.stack([_stack(row) for row in rows])


def _quaternions(rotation: Rotation | _Quaternions) -> AnyArray:
    return rotation._quat if type(rotation) is Rotation else rotation.as_quat()


# --------------------------------------------------------------------------------------------------
# SciPy's class, while names are lifted


def _made_by(name: str) -> None:
    @override(f"{_NAME}.{name}", kind=METHOD)
    def make(*args: Any, **kwargs: Any) -> Any:
        return getattr(Rotation, name)(*args, **kwargs)


for _method in (
    *("from_quat", "from_rotvec", "from_mrp", "from_euler", "from_matrix", "from_davenport"),
    "align_vectors",
):
    _made_by(_method)


@override(f"{_NAME}.concatenate", kind=METHOD, when=ALWAYS)
def concatenate(rotations: Any) -> Any:
    rotations = rotations if isinstance(rotations, locate(_NAME)) else list(rotations)
    if type(rotations) is Rotation or any(type(rotation) is Rotation for rotation in rotations):
        return Rotation.concatenate(rotations)
    return original_of(locate(_NAME).concatenate)(rotations)


@override(f"{_NAME}.apply", kind=METHOD)
def apply(self: _Quaternions, vectors: ArrayLike, inverse: bool = False) -> AnyArray:
    return Rotation(self.as_quat()).apply(vectors, inverse)


@override(f"{_NAME}.__mul__", kind=METHOD, when=ALWAYS)
def multiply(self: _Quaternions, other: Rotation | _Quaternions) -> Any:
    if type(other) is Rotation:
        return other.__rmul__(self)
    return original_of(locate(_NAME).__mul__)(self, other)


@override(f"{_NAME}.approx_equal", kind=METHOD, when=ALWAYS)
def approx_equal(self: _Quaternions, other: _Quaternions, *args: Any, **options: Any) -> Any:
    if type(other) is Rotation:
        return Rotation(self.as_quat()).approx_equal(other, *args, **options)
    return original_of(locate(_NAME).approx_equal)(self, other, *args, **options)


# --------------------------------------------------------------------------------------------------
# A rotation with a translation


def _rigid(name: str) -> None:
    @override(f"{_RIGID}.{name}", kind=METHOD, when=ALWAYS, way=Way.REFUSED, versions="scipy>=1.16")
    def make(*args: Any, **kwargs: Any) -> Any:
        given = (*args, *kwargs.values())
        if contains_active(given) or any(type(x) is Rotation for x in given):
            raise NotDifferentiableError(
                f"{_RIGID}.{name} has no derivative rule in cotan; keep a Rotation and a vector "
                "(r.apply(x) + t), or hold its arguments constant with ct.dropgrad"
            )
        original = original_of(getattr(locate(_RIGID), name))
        return original(*to_numpy_items(args), **{n: to_numpy_items(x) for n, x in kwargs.items()})


for _method in ("from_components", "from_dual_quat", "from_exp_coords", "from_matrix",
                "from_rotation", "from_translation"):  # fmt: skip
    _rigid(_method)
