"""Random programs of statements that write in place, against NumPy and central differences.

A program is a list of numbers, from which each statement takes what it has to choose: arrays,
views, keys, values. It runs on ndarrays, and under `value_and_gradient` on arrays of ours. After
each statement every array is looked at (its value is noted, not read: laziness must not be seen),
and a statement that NumPy refuses has to be refused here too.
"""

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cotan as ct

INPUTS = (
    np.array([0.7, -1.3, 0.4, 2.1, -0.6]),
    np.array([[0.5, -1.2, 0.3, 2.0], [1.1, 0.7, -0.4, -1.6], [-2.3, 0.9, 1.4, 0.2]]),
    np.linspace(-1.7, 2.3, 12).reshape(2, 3, 2) ** 2 - 0.9,
    np.array([0.4 + 0.9j, -1.1 + 0.2j, 0.7 - 1.5j]),
    np.array(0.9),
)


class Program:
    """One run: what the numbers say, on arrays of one kind."""

    def __init__(self, numbers, inputs):
        self.numbers = iter(itertools.chain(numbers, itertools.repeat(0)))
        # Writable, and their own: a leaf of a gradient stays as it is.
        self.arrays = [x * 1.0 if np.ndim(x) else (x * 1.0)[...] for x in inputs]
        self.plain = [np.arange(6.0) / 5 - 0.3, np.array([[0.2], [1.5], [-0.8]])]
        self.scalars = [0.5]
        self.smooth = True
        self.log = []

    def pick(self, n):
        return next(self.numbers) % max(n, 1)

    def choose(self, items):
        return items[self.pick(len(items))]

    # -- What statements are made of

    def target(self):
        return self.choose(self.arrays)

    def slice(self, n):
        a, b = self.pick(n + 2), self.pick(n + 2)
        step = self.choose([1, 1, -1, 2, -2])
        low, high = min(a, b), max(a, b)
        if self.pick(3) == 0:
            return slice(None, None, step)
        return slice(low, high, step) if step > 0 else slice(high, low - n - 1, step)

    def basic(self, shape):
        key = []
        for n in shape:
            kind = self.pick(6)
            if kind == 0 and n:
                key.append(self.pick(2 * n) - n)
            elif kind == 1:
                key.append(Ellipsis)
                break
            elif kind == 2:
                key.append(None)
                key.append(slice(None))
            else:
                key.append(self.slice(n))
        return tuple(key)

    def index(self, n):
        """An index array for an axis, some of whose elements may be there twice."""
        count = self.pick(4)
        items = [self.pick(2 * n) - n for _ in range(count)] if n else []
        return self.choose([np.array(items, int), items, np.array([items, items[::-1]], int)])

    def key(self, shape):
        kind = self.pick(14)
        if kind < 4 or not shape:
            return (
                self.choose([..., (), True, (None, ...), False])
                if not shape
                else (self.basic(shape))
            )
        if kind == 4:
            return self.index(shape[0])
        if kind == 5:
            return self.mask(shape)
        if kind == 6:
            return self.mask(shape[:1])
        if kind == 7 and len(shape) > 1:
            return np.ix_(*([self.pick(n) for _ in range(2)] if n else [] for n in shape))
        if kind == 8 and len(shape) > 1:
            return (slice(None), self.index(shape[1]))
        if kind == 9:
            return (..., self.index(shape[-1]))
        if kind == 10 and len(shape) > 1 and all(shape):
            return tuple(np.array([self.pick(n) for _ in range(3)]) for n in shape)
        if kind == 11:
            return self.choose([..., True, np.array(0), slice(None), (None, ...), [0, 0], -1])
        if kind == 12 and len(shape) > 1 and all(shape):
            # Index arrays with something between them: their axes come first.
            ends = [np.array([self.pick(n) for _ in range(2)]) for n in (shape[0], shape[-1])]
            between = [self.choose([slice(None), slice(None, None, -1)]) for _ in shape[1:-1]]
            return (ends[0], *(between or [None]), ends[1])
        if kind == 13 and len(shape) > 1 and shape[1]:
            return (self.mask(shape[:1]), self.pick(shape[1]))
        return self.basic(shape)

    def mask(self, shape):
        bits = self.pick(1 << 12)
        size = int(np.prod(shape))
        return np.array([bits >> (i % 12) & 1 for i in range(size)], bool).reshape(shape)

    def value(self, shape, real):
        """Something that can be written where there is this shape, mostly."""
        kind = self.pick(8)
        if kind == 0:
            return self.choose([0.25, -1.5, 2])
        if kind == 1:
            return self.choose(self.scalars if not real else [0.5])
        if kind == 2:
            source = self.choose(self.plain)
        else:
            source = self.target()
            source = source.real if real and source.dtype.kind == "c" else source
        if kind == 3:
            source = source[::-1] if source.ndim else source
        if kind == 4:
            return np.sin(source) if source.shape == shape else np.sin(np.resize(source, shape))
        fits = np.shape(source) == shape or self.pick(6) == 0
        try:
            fits = fits or np.broadcast_shapes(np.shape(source), shape) == shape
        except ValueError:
            fits = False
        return source if fits else np.resize(source, shape)

    def value_at(self, x, key):
        shape = np.empty(x.shape)[key].shape
        value = self.value(shape, x.dtype.kind == "f")
        if not shape:
            # One element takes a sequence of one here, and in NumPy with some keys only.
            value = np.resize(value, ())
        # With masks NumPy writes while it reads.
        return value * 1.0 if isinstance(key, np.ndarray) and key.dtype.kind == "b" else value

    def apart(self, shape, real):
        """A value in memory of its own, for what writes while it reads in NumPy."""
        return self.value(shape, real) * 1.0

    # -- Statements

    def view(self):
        x = self.target()
        kind = self.pick(16)
        views = [
            lambda: x[self.basic(x.shape)],
            lambda: x.T,
            lambda: x.reshape(-1),
            lambda: x.ravel(),
            lambda: x.real,
            lambda: x.imag if x.dtype.kind == "c" else x,
            lambda: x.swapaxes(0, -1),
            lambda: np.expand_dims(x, 0).squeeze(),
            lambda: np.flip(x, 0),
            lambda: x.reshape(x.shape[::-1]),
            lambda: np.moveaxis(x, 0, -1),
            lambda: np.rot90(x),
            lambda: x[..., None, ::-1],
            lambda: np.array_split(x, 2)[1],
            lambda: list(x)[-1],
            lambda: x[::2][::-1].T[..., :1],
        ]
        self.keep(views[kind]())

    def keep(self, x):
        if np.ndim(x) > 3:
            return
        if is_scalar(x):
            self.scalars.append(x)
        else:
            self.arrays.append(x)

    def fresh(self):
        x, y = self.target(), self.target()
        made = self.choose([
            lambda: x.copy(),
            lambda: x * 0.5 + y,
            lambda: np.sin(x),
            lambda: x[self.key(x.shape)] * 1.0,
            lambda: np.take(x, [0, -1, 0]),
            lambda: x.sum(axis=0),
            lambda: x.flatten(),
            lambda: np.concatenate([x.ravel(), y.ravel()])[:8],
            lambda: np.zeros_like(x),
            lambda: np.zeros(x.shape),
            lambda: np.full((2, 3), self.scalars[0]),
            lambda: np.eye(3),
            lambda: np.array([y.sum(), 0.5]),
            lambda: np.diagonal(x).copy(),
            lambda: np.where(self.mask(y.shape), y, 0.5),
            lambda: x.flat[1:5],
            lambda: x.T.flat[::2],
        ])  # fmt: skip
        self.keep(made())

    def assign(self):
        x = self.target()
        key = self.key(x.shape)
        x[key] = self.value_at(x, key)

    def augment(self):
        x = self.target()
        key = self.key(x.shape)
        value = self.value_at(x, key)
        kind = self.pick(3)
        if kind == 0:
            x[key] += value
        elif kind == 1:
            x[key] -= value
        else:
            x[key] *= value

    def augment_all(self):
        x = self.target()
        value = self.value(x.shape, x.dtype.kind == "f")
        if self.pick(2):
            x += value
        else:
            x *= value

    def overlap(self):
        x = self.target()
        kind = self.pick(6)
        if kind == 0:
            x[1:] = x[:-1]
        elif kind == 1:
            x[:] = x[::-1]
        elif kind == 2:
            x[:-1] += x[1:]
        elif kind == 3:
            x[...] = x.T
        elif kind == 4:
            x += x.T
        else:
            x[::2], x[1::2] = x[1::2].copy()[: len(x[::2])], x[0]

    def at(self):
        x = self.target()
        key = self.key(x.shape)
        value = self.value_at(x, key)
        ufunc = self.choose([np.add, np.subtract, np.multiply])
        # Of values that broadcast NumPy 2.4 reads past the end of their memory.
        ufunc.at(x, key, np.resize(value, np.empty(x.shape)[key].shape))

    def functions(self):
        x = self.target()
        kind = self.pick(7)
        real = x.dtype.kind == "f"
        if kind == 0:
            where = [self.pick(2 * x.size) - x.size for _ in range(self.pick(4))] if x.size else []
            np.put(x, where, self.apart((len(where),), real), mode=self.choose(["raise", "wrap"]))
        elif kind == 1:
            np.place(x, self.mask(x.shape), np.ravel(self.apart((3,), real)))
        elif kind == 2:
            np.putmask(x, self.mask(x.shape), self.apart(x.shape, real))
        elif kind == 3:
            np.copyto(x, self.value(x.shape, real))
        elif kind == 4:
            np.copyto(x, self.value(x.shape, real), where=self.mask(x.shape))
        elif kind == 5:
            np.fill_diagonal(x, self.apart((2,), real), wrap=bool(self.pick(2)))
        else:
            order = np.argsort(np.arange(x.size).reshape(x.shape) % 3, axis=-1)
            np.put_along_axis(x, order, self.value(x.shape, real), -1)

    def out(self):
        x, y = self.target(), self.target()
        y = y.real if x.dtype.kind == "f" else y
        kind = self.pick(6)
        if kind == 0:
            np.sin(y, out=x)
        elif kind == 1:
            np.add(x, y, out=x)
        elif kind == 2:
            np.multiply(x, self.value(x.shape, x.dtype.kind == "f"), out=(x,))
        elif kind == 3:
            np.add(x, y, out=x, where=self.mask(x.shape))
        elif kind == 4 and x.shape == y.shape and x.ndim:
            # Of other shapes NumPy 2.4 reads past the end of its memory.
            np.cumsum(y, axis=0, out=x)
        else:
            np.sum(y, axis=0, out=x)

    def method(self):
        x = self.target()
        kind = self.pick(6)
        if kind == 0:
            x.fill(self.choose([0.5, -2.0, *self.scalars[:1]]))
        elif kind == 1:
            self.distinct(x)
            x.sort(axis=self.choose([-1, 0]))
        elif kind == 2:
            self.distinct(x)
            # What is on the two sides is in no order.
            x.sort()
            x.partition(min(1, x.shape[-1] - 1))
        elif kind == 3:
            x.shape = self.choose([(-1,), x.shape[::-1], (1, *x.shape)])
        elif kind == 4:
            x.put([0, -1], self.apart((2,), x.dtype.kind == "f"))
        else:
            x.real = self.value(x.shape, True)

    def distinct(self, x):
        """Sorting has kinks at ties."""
        values = np.asarray(ct.dropgrad(x) if isinstance(x, ct.Array) else x)
        values = np.sort(np.ravel(values.real))
        self.smooth &= not np.any(np.abs(np.diff(values)) < 1e-4)

    def through(self):
        x = self.target()
        kind = self.pick(6)
        real = x.dtype.kind == "f"
        if kind == 0:
            x.flat[self.slice(x.size)] = self.apart((2,), real)
        elif kind == 1:
            x.T.flat[[0, -1]] = self.apart((2,), real)
        elif kind == 2:
            x.T[...] = self.value(x.shape[::-1], real)
        elif kind == 3:
            x.real[...] = self.value(x.shape, True)
        elif kind == 4:
            x.T[self.key(x.shape[::-1])] *= 0.5
        else:
            x.flat = self.apart(x.shape, real)

    def rows(self):
        x = self.target()
        for row in x:
            row *= 0.5  # noqa: PLW2901 - rows of two axes are written in place, numbers are not
        first, *rest = x
        if rest and x.ndim > 1:
            first[...], rest[-1][...] = rest[-1] * 1.0, first

    def steps(self):
        """Loops over elements, as they are written everywhere."""
        x = self.target()
        n = x.shape[0]
        for i in range(1, n):
            x[i] = 0.5 * x[i - 1] + x[i]
        for i, j in itertools.islice(np.ndindex(x.shape[:2]), 4) if x.ndim > 1 else ():
            x[i, j] -= x[i, -1]

    def folds(self):
        x, y = self.target(), self.target()
        kind = self.pick(4)
        if kind == 0 and x.dtype == y.dtype and x.shape == y.shape:
            np.add.accumulate(y, out=x)
        elif kind == 1:
            np.add.reduce(y, axis=0, out=x[0])
        elif kind == 2:
            np.multiply.outer(y, [0.5, 1.0], out=np.zeros_like(y, shape=(*y.shape, 2)))
        elif x.ndim == y.ndim == 2:
            np.matmul(y[:2, :2], y[:2, :2], out=x[:2, :2])

    def scalar(self):
        x = self.target()
        s = x[tuple(self.pick(n) for n in x.shape)]
        t = s
        s += 1.0
        self.scalars += [s, t]

    def buffer(self):
        """A plain array counts with the value that it has when it is used."""
        b = self.choose(self.plain)
        b[...] = b[::-1] * 1.5 - 0.1

    STATEMENTS = (
        view, view, fresh, assign, assign, augment, augment_all, overlap, at, functions, out,
        method, through, scalar, buffer, rows, steps, folds,
    )  # fmt: skip

    def run(self, count, refused=None):
        """Run statements; where NumPy refused one it is expected that it is refused here."""
        for turn in range(count):
            statement = self.choose(self.STATEMENTS)
            start = list(itertools.islice(self.numbers, 24))
            rest = self.numbers
            self.numbers = iter(itertools.chain(start, itertools.repeat(0)))
            sizes = len(self.arrays), len(self.scalars)
            error = None
            try:
                statement(self)
            except (ValueError, TypeError, IndexError, AttributeError) as caught:
                error = caught
                del self.arrays[sizes[0] :], self.scalars[sizes[1] :]
            self.numbers = rest
            if refused is not None:
                told = f"{statement.__name__} in turn {turn}: {error!r}, NumPy: {refused[turn]!r}"
                assert (error is None) == (refused[turn] is None), told
            # The last ones are the ones that are written to most.
            del self.arrays[: max(0, len(self.arrays) - 9)]
            self.log.append((statement.__name__, error, [x * 1.0 for x in self.arrays]))
        return [entry[1] for entry in self.log]


def is_scalar(x):
    return x._rank != "array" if isinstance(x, ct.Array) else not isinstance(x, np.ndarray)


def weights(shape, seed):
    return np.cos(1.0 + seed + np.arange(int(np.prod(shape))).reshape(shape))


def loss(program):
    total = 0.0
    for seed, x in enumerate([*program.arrays, *program.scalars[1:]]):
        w = weights(np.shape(x), seed)
        total = total + np.sum(np.real(x) * w) + np.sum(np.imag(x) * w[::-1] if w.ndim else 0.5)
    return total


def quiet(function, *args):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return function(*args)


def moved(step):
    directions = [np.cos(np.arange(x.size) * 1.7 + 1).reshape(x.shape) for x in INPUTS]
    if step is None:
        return directions
    return [x + step * d for x, d in zip(INPUTS, directions, strict=True)]


def check(numbers, count):
    def plainly(step=0.0):
        program = Program(numbers, moved(step))
        errors = program.run(count)
        return program, errors, loss(program)

    expected, refused, value = quiet(plainly)
    seen = []

    def traced(*inputs):
        program = Program(numbers, inputs)
        seen.append(program)
        program.run(count, refused)
        return loss(program)

    ours, gradients = quiet(ct.value_and_gradient, traced, *INPUTS)
    for mine, numpys in zip(seen[0].log, expected.log, strict=True):
        assert len(mine[2]) == len(numpys[2])
        for at, (x, y) in enumerate(zip(mine[2], numpys[2], strict=True)):
            told = f"after {mine[0]}, array {at}"
            got = np.asarray(ct.dropgrad(x))
            assert got.shape == np.shape(y), told
            assert got.dtype == y.dtype, told
            np.testing.assert_allclose(got, y, rtol=1e-9, atol=1e-9, err_msg=told)
    size = max((np.abs(x).max(initial=0) for entry in expected.log for x in entry[2]), default=0)
    if not np.isfinite(size) or size > 1e3:
        return
    np.testing.assert_allclose(ours, value, rtol=1e-9, atol=1e-9)
    step = 1e-6
    ends = [quiet(plainly, s) for s in (step, -step)]
    if not (expected.smooth and all(end[0].smooth for end in ends)):
        return
    slope = (ends[0][2] - ends[1][2]) / (2 * step)
    along = sum(
        np.sum(np.real(np.asarray(g)) * d)
        for g, d in zip(gradients, moved(None), strict=True)
        if g is not None
    )
    np.testing.assert_allclose(along, slope, rtol=1e-6, atol=1e-6 * (1 + size**2))


@given(st.lists(st.integers(0, 4095), min_size=20, max_size=300), st.integers(1, 10))
def test_programs_of_writes(numbers, count):
    check(numbers, count)


@settings(max_examples=100)
@given(st.integers(0, 2**32 - 1))
def test_long_programs_of_writes(seed):
    check(np.random.default_rng(seed).integers(0, 4096, 1000).tolist(), 25)


@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_the_numbers_of_a_matrix_are_written():
    def f(x):
        made = np.zeros((3, 3))
        made[:, [0, 2]] = np.matrix([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
        made[:2, :2] += np.asarray(np.matrix(np.eye(2)))
        made[2] = np.matrix([7.0, 8.0, 9.0])
        made[1, 1] = x
        return np.sum(made @ np.array([x, 2.0, 3.0]))

    y, g = ct.value_and_grad(f)(0.5)
    np.testing.assert_allclose(y, f(0.5))
    np.testing.assert_allclose(g, (f(0.5 + 1e-6) - f(0.5 - 1e-6)) / 2e-6)
