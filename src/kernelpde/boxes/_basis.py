"""A sum of local kernels: one Matérn-7/2 function per box, with lengthscales of its box."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from jaxtyping import Float

from kernelpde.functionals import Term
from kernelpde.kernels import MultiIndex

MAX_ORDER = 4
"""Maximum order of derivatives, for which the profile has a closed form."""

_CHUNK = 2000
"""Number of points that are evaluated together, which bounds the memory."""


@dataclass(frozen=True, eq=False)
class LocalBasis:
    """Functions k((x - cⱼ) / lⱼ) with centers cⱼ and lengthscales lⱼ along each coordinate."""

    centers: Float[np.ndarray, "n d"]
    lengthscales: Float[np.ndarray, "n d"]

    def __len__(self) -> int:
        return len(self.centers)

    def matrices(
        self, points: Float[np.ndarray, "m d"], terms: Iterable[Term]
    ) -> list[Float[np.ndarray, "m n"]]:
        """Return the jet values of all functions at points, one matrix per term."""
        pairs = _Pairs(self, points)
        return [
            sum((pairs.derivative(order) for order in term.orders[1:]), pairs.derivative(first))
            for term in terms
            for first in term.orders[:1]
        ]


@dataclass(frozen=True, eq=False)
class LocalField:
    """A weighted sum of the functions of a local basis."""

    basis: LocalBasis
    coefficients: Float[np.ndarray, " n"]

    def evaluate(
        self, points: Float[np.ndarray, "m d"], terms: tuple[Term, ...]
    ) -> Float[np.ndarray, "m T"]:
        """Return jet values at points."""
        values = np.empty((len(points), len(terms)))
        for start in range(0, len(points), _CHUNK):
            rows = slice(start, start + _CHUNK)
            for column, matrix in enumerate(self.basis.matrices(points[rows], terms)):
                values[rows, column] = matrix @ self.coefficients
        return values

    def __call__(self, points: Float[np.ndarray, "m d"]) -> Float[np.ndarray, " m"]:
        """Return values at points."""
        value = Term(0, ((0,) * points.shape[1],))
        return self.evaluate(points, (value,))[:, 0]


class _Pairs:
    """Distances of points and centers, and derivatives of the kernel of all pairs."""

    def __init__(self, basis: LocalBasis, points: Float[np.ndarray, "m d"]):
        self._inverse = 1.0 / basis.lengthscales.T**2
        self._steps = [
            inverse * (x[:, None] - center)
            for x, center, inverse in zip(points.T, basis.centers.T, self._inverse, strict=True)
        ]
        squares = sum(step**2 / i for step, i in zip(self._steps, self._inverse, strict=True))
        self._distance = np.sqrt(7.0 * np.asarray(squares))
        self._profiles: dict[int, np.ndarray] = {}

    @cached_property
    def _decay(self) -> np.ndarray:
        return np.exp(-self._distance)

    def _profile(self, order: int) -> np.ndarray:
        """Return 2ᵏ times the kth derivative of the kernel in the squared scaled distance."""
        if order not in self._profiles:
            self._profiles[order] = _POLYNOMIALS[order](self._distance) * self._decay
        return self._profiles[order]

    def derivative(self, orders: MultiIndex) -> np.ndarray:
        """Return a partial derivative of all functions at all points."""
        total = np.zeros(())
        for pairings in product(*(range(order // 2 + 1) for order in orders)):
            factor = np.ones(())
            for axis, (order, count) in enumerate(zip(orders, pairings, strict=True)):
                factor = factor * (_hermite(order, count) * self._inverse[axis] ** count)
                if order > 2 * count:
                    factor = factor * self._steps[axis] ** (order - 2 * count)
            total = total + factor * self._profile(sum(orders) - sum(pairings))
        return total


def _hermite(order: int, pairings: int) -> float:
    """Return n! / (2ʲ j! (n - 2j)!), the number of ways to choose j pairs among n."""
    remaining = order - 2 * pairings
    return (
        math.factorial(order) / (2**pairings * math.factorial(pairings)) / math.factorial(remaining)
    )


_POLYNOMIALS = (
    lambda r: 1.0 + r * (1.0 + r * (0.4 + r / 15.0)),
    lambda r: -7.0 / 15.0 * (3.0 + r * (3.0 + r)),
    lambda r: 49.0 / 15.0 * (1.0 + r),
    lambda r: -343.0 / 15.0,
    lambda r: 2401.0 / 15.0 / np.maximum(r, 1e-150),
)
"""Profile of the kernel at distance r / √7 and its successive derivatives, without exp(-r)."""
