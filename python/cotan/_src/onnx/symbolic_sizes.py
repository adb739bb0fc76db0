"""Finds how the shapes of an exported program depend on axes whose size is left open.

A program is recorded with fixed shapes. For one whose sizes are open the function is recorded
several times, at different sizes; what differs between the programs follows from the sizes, and
`fit` finds out how: lengths are polynomials (or their quotients, rounded down), factors are powers.
A formula has to hold for every recording; there are more recordings than it has coefficients. What
does not fit is refused.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, product
from typing import Any, TypeAlias

import numpy as np

from cotan._src.typing import NDArray

Symbols = dict[str, tuple[int, ...]]
# A polynomial (for each product of symbols its coefficient), what it is divided by (downwards),
# what this is multiplied by, and what is added.
Polynomial = tuple[dict[tuple[str, ...], int], int, int, int]
# A power: factor, then (symbol, what is added to it, exponent) for each.
Power = tuple[float, tuple[tuple[str, int, float], ...]]


class MisfitError(ValueError):
    """Recordings at different sizes do not belong together."""


class Size:
    """A length that differs between recordings: its values in each of them."""

    __slots__ = ("values",)

    def __init__(self, values: tuple[int, ...]) -> None:
        self.values = values

    def _with(self, other: "Length", operation: Callable[[int, int], int]) -> "Length":
        theirs = other.values if isinstance(other, Size) else (other,) * len(self.values)
        return size(operation(a, b) for a, b in zip(self.values, theirs, strict=True))

    def __add__(self, other: "Length") -> "Length":
        return self._with(other, lambda a, b: a + b)

    __radd__ = __add__

    def __sub__(self, other: "Length") -> "Length":
        return self._with(other, lambda a, b: a - b)

    def __rsub__(self, other: "Length") -> "Length":
        return self._with(other, lambda a, b: b - a)

    def __mul__(self, other: "Length") -> "Length":
        return self._with(other, lambda a, b: a * b)

    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Size) and self.values == other.values

    def __hash__(self) -> int:
        return hash(self.values)

    def __repr__(self) -> str:
        return f"<{', '.join(map(str, self.values))}>"


class Factor:
    """A number that differs between recordings: its values in each of them."""

    __slots__ = ("values",)

    def __init__(self, values: tuple[float, ...]) -> None:
        self.values = values

    def __repr__(self) -> str:
        return f"<{', '.join(map(str, self.values))}>"


#: A length along an axis: a number, or what differs between recordings.
Length: TypeAlias = int | Size


def size(values: Iterable[int]) -> Length:
    """Give an int, or what differs between recordings."""
    values = tuple(values)
    return values[0] if len(set(values)) == 1 else Size(values)


def merge(parts: Sequence[Any], where: str) -> Any:
    """Make one of what the recordings have in a place: the same, or what differs between them."""
    first = parts[0]
    if any(type(p) is not type(first) for p in parts):
        raise MisfitError(where)
    if isinstance(first, dict):
        if any(p.keys() != first.keys() for p in parts):
            raise MisfitError(where)
        return {key: merge([p[key] for p in parts], where) for key in first}
    if isinstance(first, (list, tuple)):
        if any(len(p) != len(first) for p in parts):
            raise MisfitError(where)
        return [merge(entries, where) for entries in zip(*parts, strict=True)]
    if isinstance(first, float):
        same = all(p == first or (p != p and first != first) for p in parts)
        return first if same else Factor(tuple(parts))
    if isinstance(first, int) and not isinstance(first, bool):
        return size(parts)
    if any(p != first for p in parts):
        raise MisfitError(where)
    return first


def choose(symbols: Sequence[str], avoid: set[int]) -> Symbols:
    """Choose sizes to record at, never one of `avoid`: those are sizes that stay.

    They are consecutive for one symbol, so that all remainders occur, and scattered for several.
    """
    count = len(_basis(symbols)) + 3
    free: list[int] = []
    candidate = 5
    while len(free) < count * len(symbols):
        if candidate not in avoid:
            free.append(candidate)
        candidate += 1
    if len(symbols) == 1:
        return {symbols[0]: tuple(free)}
    rng = np.random.default_rng(len(symbols))
    order = rng.permutation(len(free))
    return {
        name: tuple(free[k] for k in order[i * count : (i + 1) * count])
        for i, name in enumerate(symbols)
    }


def _basis(symbols: Sequence[str]) -> list[tuple[str, ...]]:
    """Products of up to two symbols."""
    return [p for n in range(3) for p in combinations_with_replacement(symbols, n)]


def _at(term: tuple[str, ...], symbols: Symbols, j: int) -> int:
    out = 1
    for name in term:
        out *= symbols[name][j]
    return out


def fit_length(values: tuple[int, ...], symbols: Symbols) -> Polynomial:
    """Find the formula of a length; `MisfitError` when there is none."""
    for name, known in symbols.items():
        if known == values:
            return {(name,): 1}, 1, 1, 0
    found = _polynomial(values, symbols) or _quotient(values, symbols) or _monomial(values, symbols)
    if found is None:
        raise MisfitError(f"lengths {values}")
    return found


def _polynomial(values: tuple[int, ...], symbols: Symbols) -> Polynomial | None:
    """Solve for the coefficients exactly, and try them on the recordings that are left."""
    basis = _basis(list(symbols))
    count = len(values)
    rows = [[Fraction(_at(t, symbols, j)) for t in basis] for j in range(count)]
    for row, value in zip(rows, values, strict=True):
        row.append(Fraction(value))
    solved = 0
    for column in range(len(basis)):
        pivot = next((r for r in range(solved, count) if rows[r][column] != 0), None)
        if pivot is None:
            return None
        rows[solved], rows[pivot] = rows[pivot], rows[solved]
        scale = rows[solved][column]
        rows[solved] = [v / scale for v in rows[solved]]
        for r in range(count):
            if r != solved and rows[r][column] != 0:
                factor = rows[r][column]
                rows[r] = [a - factor * b for a, b in zip(rows[r], rows[solved], strict=True)]
        solved += 1
    if any(row[-1] != 0 for row in rows[solved:]):
        return None
    coefficients = [rows[i][-1] for i in range(solved)]
    divisor = int(np.lcm.reduce([c.denominator for c in coefficients]))
    terms = {t: int(c * divisor) for t, c in zip(basis, coefficients, strict=True) if c != 0}
    return terms, divisor, 1, 0


def _quotient(values: tuple[int, ...], symbols: Symbols) -> Polynomial | None:
    """Try `(a * n + b) // d * factor + offset`."""
    wanted = np.asarray(values)
    for name, known in symbols.items():
        n = np.asarray(known)
        for d, a in product(range(2, 9), range(1, 5)):
            for b in range(d):
                q = (a * n + b) // d
                change = q[-1] - q[0]
                if change == 0:
                    continue
                factor = int((wanted[-1] - wanted[0]) // change)
                offset = int(wanted[0] - q[0] * factor)
                if factor != 0 and np.array_equal(q * factor + offset, wanted):
                    return {(): b, (name,): a}, d, factor, offset
    return None


def _monomial(values: tuple[int, ...], symbols: Symbols) -> Polynomial | None:
    """Try a multiple of a product of all symbols."""
    for exponents in product(range(3), repeat=len(symbols)):
        pairs = zip(symbols, exponents, strict=True)
        term = tuple(name for name, k in pairs for _ in range(k))
        parts = [divmod(v, _at(term, symbols, j)) for j, v in enumerate(values)]
        if len({q for q, _ in parts}) == 1 and not any(r for _, r in parts):
            return {term: parts[0][0]}, 1, 1, 0
    return None


def fit_factor(values: tuple[float, ...], symbols: Symbols, eps: float) -> Power:
    """Find the formula of a number: a multiple of powers; `MisfitError` when there is none."""
    wanted = np.asarray(values)
    for power in _powers(list(symbols)):
        rest = wanted / evaluate_power((1.0, power), symbols)
        middle = float(np.median(rest))
        if np.all(np.abs(rest - middle) <= 4 * eps * abs(middle)):
            nearest = round(middle)
            whole = nearest != 0 and abs(middle / nearest - 1) <= 4 * eps
            return (float(nearest) if whole else middle), power
    raise MisfitError(f"numbers {values}")


def _powers(symbols: Sequence[str]) -> Iterator[tuple[tuple[str, int, float], ...]]:
    exponents = (-1.0, 1.0, -0.5, 0.5, -2.0, 2.0)
    for name, shift, k in product(symbols, (0, -1, 1, -2, 2), exponents):
        yield ((name, shift, k),)
    for n in range(2, len(symbols) + 1):
        for k in exponents:
            for names in combinations_with_replacement(symbols, n):
                if len(set(names)) == n:
                    yield tuple((name, 0, k) for name in names)


def evaluate_power(power: Power, symbols: Symbols) -> NDArray | float:
    """Give the values of a power at each recording."""
    factor, parts = power
    out: NDArray | float = factor
    for name, shift, k in parts:
        out = out * (np.asarray(symbols[name], float) + shift) ** k
    return out
