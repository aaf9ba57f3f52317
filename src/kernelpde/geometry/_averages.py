"""Sets that a condition holds on in the mean: averages over regions, integrals along lines."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from kernelpde.arrays import Numbers
from kernelpde.checking import finite, instance, numbers, shown, whole_number
from kernelpde.errors import InputError
from kernelpde.geometry._region import AbstractRegion, Sample, Space


class Averages(AbstractRegion):
    """Weighted sums over points: one number per set of points.

    On it a condition means Σ_q w_nq F(x_nq) = 0 for each n. For data y that are averages of u, F is
    `u.value - y`, with weights that sum to 1.

    **Arguments:**

    - `points`: x_nq, of shape (n, q, d).
    - `weights`: w_nq, of shape (n, q).
    - `name`: what to call them in messages.

    **Example:**

    ```python
    >>> pairs = kp.Averages([[[0.2], [0.4]]], [[0.5, 0.5]])  # one mean of two values
    >>> mean = kp.Condition("mean", pairs, lambda x, u: u.value - 0.3)
    ```
    """

    def __init__(self, points: Numbers, weights: Numbers, name: str = "averages"):
        self.points = numbers(name, "points", points)
        self.weights = numbers(name, "weights", weights)
        self.name = name
        self.space: Space | None = None
        shape = self.points.shape
        if len(shape) != 3 or 0 in shape or self.weights.shape != shape[:2]:
            raise InputError(
                f"{name}: expected points of shape (n, q, d) and weights of shape (n, q), none of "
                f"them 0; got {shape} and {self.weights.shape}."
            )
        finite(name, "points", self.points)
        finite(name, "weights", self.weights)

    @property
    def has_normals(self):
        return False

    def sample(self, count, rng, method="uniform"):
        del rng, method
        if count not in (None, len(self.points)):
            raise InputError(
                f"{self.name}: there are {len(self.points)} of them; got a request for {count}. "
                "Leave the count out."
            )
        return Sample(self.points.reshape(-1, self.points.shape[2]), None, self.weights)


def line_integrals(begin: Numbers, end: Numbers, nodes: int = 16) -> Averages:
    """∫ F ds along straight lines, by Gauss-Legendre quadrature.

    The weights sum to the length of the line: in F, divide each datum by it.

    **Arguments:**

    - `begin`, `end`: of each line, of shape (n, d).
    - `nodes`: number of quadrature nodes.

    **Example:**

    ```python
    >>> rays = kp.line_integrals(begin=[[0.0, 0.0]], end=[[1.0, 1.0]])
    >>> tomography = kp.Condition("rays", rays, lambda x, u: u.value - 0.3)
    ```
    """
    first, last = (
        numbers("line_integrals", name, ends) for name, ends in (("begin", begin), ("end", end))
    )
    if first.ndim != 2 or first.shape != last.shape:
        raise InputError(
            f"line_integrals: expected two arrays of shape (n, d); got {first.shape} and "
            f"{last.shape}."
        )
    place, weight = gauss(nodes)
    points = first[:, None] + place[None, :, None] * (last - first)[:, None]
    lengths = np.linalg.norm(last - first, axis=1)
    if (lengths == 0).any():
        row = int(np.argmin(lengths))
        raise InputError(
            f"line_integrals: line {row} begins where it ends, at {first[row].tolist()}; its "
            "integral is 0 whatever the field. Leave it out."
        )
    return Averages(points, lengths[:, None] * weight, name="line integrals")


def box_averages(lower: Numbers, upper: Numbers, nodes: int = 6) -> Averages:
    """The mean of F over boxes, by a product of Gauss-Legendre quadratures.

    **Arguments:**

    - `lower`, `upper`: corners of each box, of shape (n, d).
    - `nodes`: of the quadrature, per coordinate.

    **Example:**

    ```python
    >>> cells = kp.box_averages(lower=[[0.0], [0.5]], upper=[[0.5], [1.0]])
    >>> mass = kp.Condition("mass", cells, lambda x, u: u.value - 0.4)
    ```
    """
    low, high = (
        numbers("box_averages", name, corner)
        for name, corner in (("lower", lower), ("upper", upper))
    )
    if low.ndim != 2 or low.shape != high.shape or not (low <= high).all():
        raise InputError(
            f"box_averages: expected lower and upper corners of shape (n, d); got {low.shape} and "
            f"{high.shape}, or some lower corner above its upper one."
        )
    place, weight = gauss(nodes)
    dimension = low.shape[1]
    unit = np.stack(np.meshgrid(*[place] * dimension, indexing="ij"), axis=-1)
    shares = np.prod(np.stack(np.meshgrid(*[weight] * dimension, indexing="ij"), axis=-1), axis=-1)
    points = low[:, None] + unit.reshape(1, -1, dimension) * (high - low)[:, None]
    return Averages(points, np.tile(shares.reshape(-1), (len(low), 1)), name="box averages")


def region_averages(regions: Sequence[AbstractRegion], nodes: int = 256, seed: int = 0) -> Averages:
    """The mean of F over regions of any shape, by Sobol points in each.

    **Arguments:**

    - `regions`: for example the interiors of some `Ball`s.
    - `nodes`: points in each.
    - `seed`: of the points.

    **Example:**

    ```python
    >>> halves = kp.region_averages([rod.interior], nodes=64)
    ```
    """
    if isinstance(regions, AbstractRegion) or not isinstance(regions, Sequence) or not regions:
        raise InputError(
            "region_averages: expected a list of regions, such as [ball.interior]; "
            f"got {shown(regions)}."
        )
    for region in regions:
        expected = "a region such as ball.interior"
        instance("region_averages", "every entry", region, AbstractRegion, expected)
    whole_number("region_averages", "nodes", nodes, at_least=1)
    whole_number("region_averages", "seed", seed, at_least=0)
    points = [r.sample(nodes, np.random.default_rng([seed, 3]), "sobol").points for r in regions]
    stacked = np.stack(points)
    return Averages(stacked, np.full(stacked.shape[:2], 1.0 / nodes), name="region averages")


def gauss(nodes: int) -> tuple[Float[np.ndarray, " q"], Float[np.ndarray, " q"]]:
    """Gauss-Legendre nodes and weights on (0, 1)."""
    count = whole_number("quadrature", "nodes", nodes, at_least=1)
    place, weight = np.polynomial.legendre.leggauss(count)
    return 0.5 * (place + 1.0), 0.5 * weight
