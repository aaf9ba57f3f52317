"""Sums of local kernels: one Matérn-7/2 function per box, with lengthscales of its box."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from jaxtyping import Float

from kernelpde.functionals import Term
from kernelpde.kernels import MultiIndex

MAX_ORDER = 4
"""Maximum order of derivatives, for which the profile has a closed form."""

_CHUNK_SIZE = 2**15
"""Number of pairs of points and kernels that are evaluated together, so that they stay in the cache
of a processor core. Chunks that exceed it take twice as long."""


@dataclass(frozen=True, eq=False)
class LocalBasis:
    """Functions k((x - cⱼ) / lⱼ) with centers cⱼ and lengthscales lⱼ along each coordinate."""

    centers: Float[np.ndarray, "n d"]
    lengthscales: Float[np.ndarray, "n d"]

    def __len__(self) -> int:
        return len(self.centers)

    @property
    def chunk(self) -> int:
        """Number of points that are evaluated together."""
        return max(1, _CHUNK_SIZE // len(self))

    def matrices(
        self, points: Float[np.ndarray, "m d"], terms: Sequence[Term]
    ) -> Float[np.ndarray, "T m n"]:
        """Return the jet values of all functions at points, one matrix per term."""
        values = np.empty((len(terms), len(points), len(self)))
        for start in range(0, len(points), self.chunk):
            rows = slice(start, start + self.chunk)
            pairs = _Pairs(self, points[rows])
            for index, term in enumerate(terms):
                values[index, rows] = pairs.jet_values(term)
        return values


@dataclass(frozen=True, eq=False)
class LocalField:
    """A weighted sum of the functions of a local basis."""

    basis: LocalBasis
    coefficients: Float[np.ndarray, " n"]

    def evaluate(
        self, points: Float[np.ndarray, "m d"], terms: Sequence[Term]
    ) -> Float[np.ndarray, "m T"]:
        """Return jet values at points."""
        values = np.empty((len(points), len(terms)))
        for start in range(0, len(points), self.basis.chunk):
            rows = slice(start, start + self.basis.chunk)
            pairs = _Pairs(self.basis, points[rows])
            for index, term in enumerate(terms):
                values[rows, index] = pairs.jet_values(term) @ self.coefficients
        return values

    def __call__(self, points: Float[np.ndarray, "m d"]) -> Float[np.ndarray, " m"]:
        """Return values at points."""
        return self.evaluate(points, (value_term(points.shape[1]),))[:, 0]


def value_term(dimension: int) -> Term:
    """Return the term of the value of the field."""
    return Term(0, ((0,) * dimension,))


class _Pairs:
    """Scaled distances of points and centers, and derivatives of the kernel of all pairs."""

    def __init__(self, basis: LocalBasis, points: Float[np.ndarray, "m d"]):
        self._scales = basis.lengthscales
        columns = zip(points.T, basis.centers.T, basis.lengthscales.T, strict=True)
        self._steps = [(x[:, None] - center) / length for x, center, length in columns]
        self._squares = [step * step for step in self._steps]
        self._distance = np.sqrt(7.0 * sum(self._squares[1:], self._squares[0]))
        self._decay = np.exp(-self._distance)
        self._profiles: dict[int, np.ndarray] = {}

    def jet_values(self, term: Term) -> Float[np.ndarray, "m n"]:
        """Return a sum of derivatives of all functions at all points."""
        first, *further = map(self._derivative, term.orders)
        return sum(further, first)

    def _profile(self, order: int) -> np.ndarray:
        """Return 2ᵏ times the kth derivative of the kernel in the squared scaled distance."""
        if order not in self._profiles:
            self._profiles[order] = _POLYNOMIALS[order](self._distance) * self._decay
        return self._profiles[order]

    def _derivative(self, orders: MultiIndex) -> np.ndarray:
        """Return a partial derivative, by the chain rule for a function of the squared distance."""
        if not any(orders):
            return self._profile(0)
        total = None
        for pairings in product(*(range(order // 2 + 1) for order in orders)):
            value = self._profile(sum(orders) - sum(pairings))
            for axis, (order, count) in enumerate(zip(orders, pairings, strict=True)):
                coefficient = _hermite(order, count)
                value = value if coefficient == 1.0 else coefficient * value
                odd, half = order % 2, order // 2 - count
                value = value * self._steps[axis] if odd else value
                for _ in range(half):
                    value = value * self._squares[axis]
            total = value if total is None else total + value
        return total * np.prod(self._scales ** -np.array(orders, dtype=float), axis=1)


def _hermite(order: int, pairings: int) -> float:
    """Return n! / (2ʲ j! (n - 2j)!), the number of ways to choose j pairs among n."""
    remaining = math.factorial(order - 2 * pairings)
    return math.factorial(order) / (2**pairings * math.factorial(pairings) * remaining)


_POLYNOMIALS = (
    lambda r: 1.0 + r * (1.0 + r * (0.4 + r / 15.0)),
    lambda r: -7.0 / 15.0 * (3.0 + r * (3.0 + r)),
    lambda r: 49.0 / 15.0 * (1.0 + r),
    lambda r: -343.0 / 15.0,
    lambda r: 2401.0 / 15.0 / np.maximum(r, 1e-150),
)
"""Profile of the kernel at distance r / √7 and its successive derivatives, without exp(-r)."""
