"""Averages over regions and integrals along lines, on which conditions hold in the mean."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from kernelpde.arrays import Numbers
from kernelpde.checking import check_finite, check_integer, require, to_float_array
from kernelpde.errors import InputError
from kernelpde.geometry._cloud import FiniteRegion
from kernelpde.geometry._region import AbstractRegion, check_regions
from kernelpde.geometry._sampling import RegionSample, tensor_grid


class Averages(FiniteRegion):
    """Weighted sums over sets of points, one equation per set.

    A condition on averages means Σ_q w_nq F(x_nq) = 0 for each n. For data y that are averages of
    u, F is `u.value - y`, with weights that sum to 1.

    **Arguments:**

    - `points`: x_nq, of shape (n, q, d).
    - `weights`: w_nq, of shape (n, q).
    - `name`: name in messages.

    **Example:**

    ```python
    >>> pairs = kp.Averages([[[0.2], [0.4]]], [[0.5, 0.5]])  # one mean of two values
    >>> mean = kp.Condition("mean", pairs, lambda x, u: u.value - 0.3)
    ```
    """

    def __init__(self, points: Numbers, weights: Numbers, name: str = "averages"):
        self.points = to_float_array(name, "points", points)
        self.weights = to_float_array(name, "weights", weights)
        self.name = name
        self.space = None
        shape = self.points.shape
        is_valid = len(shape) == 3 and 0 not in shape and self.weights.shape == shape[:2]
        expected = "of shapes (n, q, d) and (n, q), and not empty"
        require(is_valid, name, "points and weights", expected, (shape, self.weights.shape))
        check_finite(name, "points", self.points)
        check_finite(name, "weights", self.weights)

    @property
    def has_normals(self):
        return False

    @property
    def all_points(self):
        return RegionSample(self.points.reshape(-1, self.points.shape[2]), None, self.weights)

    def select(self, rows):
        return Averages(self.points[rows], self.weights[rows], self.name)


def line_integrals(start: Numbers, end: Numbers, nodes: int = 16) -> Averages:
    """Build integrals ∫ F ds along straight lines, by Gauss-Legendre quadrature.

    The weights sum to the length of the line: in F, divide each datum by it.

    **Arguments:**

    - `start`, `end`: end points of the lines, of shape (n, d).
    - `nodes`: number of quadrature nodes.

    **Example:**

    ```python
    >>> rays = kp.line_integrals(start=[[0.0, 0.0]], end=[[1.0, 1.0]])
    >>> tomography = kp.Condition("rays", rays, lambda x, u: u.value - 0.3)
    ```
    """
    first = to_float_array("line_integrals", "start", start)
    last = to_float_array("line_integrals", "end", end)
    is_valid, shapes = first.ndim == 2 and first.shape == last.shape, (first.shape, last.shape)
    require(is_valid, "line_integrals", "start and end", "two arrays of shape (n, d)", shapes)
    position, weight = gauss_legendre(nodes)
    points = first[:, None] + position[None, :, None] * (last - first)[:, None]
    lengths = np.linalg.norm(last - first, axis=1)
    if (lengths == 0).any():
        row = int(np.argmin(lengths))
        raise InputError(
            f"line_integrals: line {row} has length 0, at {first[row].tolist()}. Leave it out."
        )
    return Averages(points, lengths[:, None] * weight, name="line integrals")


def box_averages(lower: Numbers, upper: Numbers, nodes: int = 6) -> Averages:
    """Build averages of F over boxes, by tensor-product Gauss-Legendre quadrature.

    **Arguments:**

    - `lower`, `upper`: corners of the boxes, of shape (n, d).
    - `nodes`: number of quadrature nodes per coordinate.

    **Example:**

    ```python
    >>> cells = kp.box_averages(lower=[[0.0], [0.5]], upper=[[0.5], [1.0]])
    >>> mass = kp.Condition("mass", cells, lambda x, u: u.value - 0.4)
    ```
    """
    low = to_float_array("box_averages", "lower", lower)
    high = to_float_array("box_averages", "upper", upper)
    is_valid = low.ndim == 2 and low.shape == high.shape and (low <= high).all()
    expected, shapes = "two arrays of shape (n, d) with lower <= upper", (low.shape, high.shape)
    require(bool(is_valid), "box_averages", "lower and upper", expected, shapes)
    position, weight = gauss_legendre(nodes)
    unit = tensor_grid([position] * low.shape[1])
    weights = tensor_grid([weight] * low.shape[1]).prod(axis=1)
    points = low[:, None] + unit * (high - low)[:, None]
    return Averages(points, np.tile(weights, (len(low), 1)), name="box averages")


def region_averages(regions: Sequence[AbstractRegion], nodes: int = 256, seed: int = 0) -> Averages:
    """Build averages of F over regions of any shape, by Sobol points.

    **Arguments:**

    - `regions`: for example the interiors of several `Ball`s.
    - `nodes`: number of points per region.
    - `seed`: random seed of the points.

    **Example:**

    ```python
    >>> halves = kp.region_averages([rod.interior], nodes=64)
    ```
    """
    check_regions("region_averages", regions, AbstractRegion, "ball.interior")
    check_integer("region_averages", "nodes", nodes, at_least=1)
    check_integer("region_averages", "seed", seed, at_least=0)
    points = np.stack(
        [r.sample(nodes, np.random.default_rng([seed, 3]), "sobol").points for r in regions]
    )
    return Averages(points, np.full(points.shape[:2], 1.0 / nodes), name="region averages")


def gauss_legendre(nodes: int) -> tuple[Float[np.ndarray, " q"], Float[np.ndarray, " q"]]:
    """Return the nodes and weights of Gauss-Legendre quadrature on (0, 1)."""
    count = check_integer("quadrature", "nodes", nodes, at_least=1)
    position, weight = np.polynomial.legendre.leggauss(count)
    return 0.5 * (position + 1.0), 0.5 * weight
