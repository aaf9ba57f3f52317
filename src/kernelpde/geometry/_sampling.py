"""Samples of regions, and point sets in the unit cube."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from kernelpde.checking import check_name
from kernelpde.errors import InputError

METHODS = ("uniform", "sobol", "halton", "poisson", "grid")
"""Sampling methods of regions."""


Points = Float[np.ndarray, "n d"]
"""One point, normal or gradient per row."""


_FIRST_RADIUS = 0.85
"""First radius of Poisson disks, in units of the mean spacing: the algorithm of Bridson reaches 0.7
of the densest packing, so that this radius is too large."""

_RADIUS_RATIO = 0.95
"""Ratio of the radii of consecutive attempts. A smaller one leaves out more points at random."""


class RegionSample(NamedTuple):
    """Points of a region, with outward unit normals of boundaries and weights of averages."""

    points: Points
    normals: Points | None = None
    weights: Float[np.ndarray, "_ _"] | None = None

    def select(self, rows: Int[np.ndarray, " k"] | Bool[np.ndarray, " n"]) -> "RegionSample":
        """Return a subset of the points."""
        normals = None if self.normals is None else self.normals[rows]
        return RegionSample(self.points[rows], normals)

    @staticmethod
    def concatenate(samples: Sequence["RegionSample"]) -> "RegionSample":
        """Concatenate samples; without normals if any of them has none."""
        points = np.concatenate([sample.points for sample in samples])
        normals = [sample.normals for sample in samples if sample.normals is not None]
        has_normals = len(normals) == len(samples)
        return RegionSample(points, np.concatenate(normals) if has_normals else None)


Chart = Callable[[np.ndarray], RegionSample]
"""A map from the unit cube to points and normals. It must be picklable, unlike local functions."""

Mask = Callable[[np.ndarray], np.ndarray]
"""A predicate of points; it must be picklable as well."""


def unit_points(count: int, dimension: int, method: str, rng: np.random.Generator) -> Points:
    """Draw points in the open unit cube.

    The methods are uniform random, scrambled Sobol, scrambled Halton, Poisson disk, and a grid of
    cell centers, which requires a whole number of points per axis.
    """
    check_name("sample", "method", method, METHODS)
    if dimension == 0:
        return np.zeros((count, 0))
    if method == "uniform":
        return rng.random((count, dimension))
    if method == "grid":
        return _grid(count, dimension)
    if method == "halton":
        return _halton(count, dimension, rng)
    # A lazy import, because scipy.stats takes as long to import as JAX.
    from scipy.stats import qmc

    if method == "sobol":
        exponent = max(count - 1, 1).bit_length()
        return qmc.Sobol(dimension, rng=rng).random_base2(exponent)[:count]
    return _poisson(qmc.PoissonDisk, count, dimension, rng)


def _halton(count: int, dimension: int, rng: np.random.Generator) -> np.ndarray:
    """Draw scrambled Halton points (Owen, arXiv:1706.02808), bit-identical to `scipy.stats.qmc`.

    This is the default method, so that most runs avoid the slow import of `scipy.stats`.
    """
    (generator,) = rng.spawn(1)
    points = np.zeros((count, dimension))
    for axis, base in enumerate(_primes(dimension)):
        num_digits = math.ceil(54 / math.log2(base)) - 1  # the precision of a double
        index, scale = np.arange(count), 1.0
        for permutation in np.tile(np.arange(base), (num_digits, 1)):
            generator.shuffle(permutation)
            index, digit = np.divmod(index, base)
            scale /= base
            points[:, axis] += permutation[digit] * scale
    return points


def _primes(count: int) -> list[int]:
    """Return the first prime numbers."""
    candidates = itertools.count(2)
    primes: list[int] = []
    while len(primes) < count:
        primes.append(next(n for n in candidates if all(n % prime for prime in primes)))
    return primes


def _poisson(disk, count: int, dimension: int, rng: np.random.Generator) -> np.ndarray:
    radius = _FIRST_RADIUS * count ** (-1 / dimension)
    for _ in range(60):
        points = disk(dimension, radius=radius, rng=rng).fill_space()
        if len(points) >= count:
            return points[rng.permutation(len(points))[:count]]
        radius *= _RADIUS_RATIO
    raise InputError(f"Poisson disk sampling could not place {count} points.")


def _grid(count: int, dimension: int) -> np.ndarray:
    per_axis = round(count ** (1 / dimension))
    if per_axis**dimension != count:
        lower = math.floor(count ** (1 / dimension))
        raise InputError(
            f"A grid in {dimension} dimensions has n^{dimension} points; got {count}. "
            f"Use {lower**dimension} or {(lower + 1) ** dimension}."
        )
    return tensor_grid([(np.arange(per_axis) + 0.5) / per_axis] * dimension)


def tensor_grid(axes: Sequence[np.ndarray]) -> Shaped[np.ndarray, "n d"]:
    """Return all combinations of coordinates, one per row; the last coordinate varies fastest."""
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
