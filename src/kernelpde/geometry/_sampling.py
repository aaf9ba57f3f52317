"""Point sets in the unit cube."""

import math

import numpy as np
from jaxtyping import Float

from kernelpde.checking import did_you_mean
from kernelpde.errors import InputError

METHODS = ("uniform", "sobol", "halton", "poisson", "grid")


def unit_points(
    count: int, dimension: int, method: str, rng: np.random.Generator
) -> Float[np.ndarray, "n d"]:
    """`count` points in the open unit cube.

    **Arguments:**

    - `count`: how many.
    - `dimension`: of the cube; 0 gives empty rows.
    - `method`: `"uniform"` random, `"sobol"` or `"halton"` (both scrambled), `"poisson"` disk, or
      `"grid"` of cell centers, which needs a whole number of points per axis.
    - `rng`: the source of randomness.
    """
    if method not in METHODS:
        raise InputError(
            f"Unknown sampling method {method!r}; expected one of {METHODS}."
            f"{did_you_mean(method, METHODS)}"
        )
    if dimension == 0:
        return np.zeros((count, 0))
    if method == "uniform":
        return rng.random((count, dimension))
    if method == "grid":
        return _grid(count, dimension)
    if method == "halton":
        return _halton(count, dimension, rng)
    # Here and not above: importing scipy.stats takes as long as importing JAX.
    from scipy.stats import qmc

    if method == "sobol":
        exponent = max(count - 1, 1).bit_length()
        return qmc.Sobol(dimension, rng=rng).random_base2(exponent)[:count]
    return _poisson(qmc.PoissonDisk, count, dimension, rng)


def _halton(count: int, dimension: int, rng: np.random.Generator) -> np.ndarray:
    """Scrambled as in Owen, arXiv:1706.02808: the points of `scipy.stats.qmc.Halton`, to the bit.

    The default of every solve, and not worth the second that importing `scipy.stats` takes.
    """
    (own,) = rng.spawn(1)
    points = np.zeros((count, dimension))
    for axis, base in enumerate(_primes(dimension)):
        digits = math.ceil(54 / math.log2(base)) - 1  # of a double
        permutations = np.tile(np.arange(base), (digits, 1))
        index, scale = np.arange(count), 1.0
        for permutation in permutations:
            own.shuffle(permutation)
            index, digit = np.divmod(index, base)
            scale /= base
            points[:, axis] += permutation[digit] * scale
    return points


def _primes(count: int) -> list[int]:
    found: list[int] = []
    candidate = 2
    while len(found) < count:
        if all(candidate % prime for prime in found):
            found.append(candidate)
        candidate += 1
    return found


def _poisson(disk, count: int, dimension: int, rng: np.random.Generator) -> np.ndarray:
    # Bridson's algorithm fills to about 0.7 of the densest packing; start above and shrink.
    radius = 0.85 * count ** (-1 / dimension)
    for _ in range(60):
        filled = disk(dimension, radius=radius, rng=rng).fill_space()
        if len(filled) >= count:
            return filled[rng.permutation(len(filled))[:count]]
        radius *= 0.95
    raise InputError(f"Poisson disk sampling could not place {count} points.")


def _grid(count: int, dimension: int) -> np.ndarray:
    per_axis = round(count ** (1 / dimension))
    if per_axis**dimension != count:
        below = math.floor(count ** (1 / dimension))
        raise InputError(
            f"A grid in {dimension} dimensions has n^{dimension} points; got {count}. "
            f"Use {below**dimension} or {(below + 1) ** dimension}."
        )
    axis = (np.arange(per_axis) + 0.5) / per_axis
    return np.stack(np.meshgrid(*[axis] * dimension, indexing="ij"), axis=-1).reshape(-1, dimension)
