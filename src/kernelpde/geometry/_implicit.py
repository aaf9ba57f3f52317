"""Domains defined by the sign of a function."""

from collections.abc import Callable
from functools import cached_property, partial
from itertools import permutations, product

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.arrays import TINY
from kernelpde.checking import check_callable, require
from kernelpde.errors import InputError
from kernelpde.geometry._box import Box
from kernelpde.geometry._domain import AbstractDomain, central_differences
from kernelpde.geometry._facets import Facets, facet_normals
from kernelpde.geometry._region import Patch
from kernelpde.geometry._sampling import Points, RegionSample, tensor_grid
from kernelpde.geometry._tolerances import ROUNDING_TOLERANCE
from kernelpde.precision import require_float64

_RESOLUTION = 256
"""Default number of grid cells per coordinate of a plane, and four times the one in space, so that
both grids have a similar cost. A shape with details below a cell loses them."""

_MAX_NEWTON_STEPS = 20
"""Maximum number of Newton steps from the grid's surface to the exact one."""


class Implicit(AbstractDomain):
    """The set where a function is negative: `Implicit(lambda x, y: x**2 + 4 * y**2 - 1, x=(-2, 2),
    y=(-1, 1))`.

    The function takes arrays of coordinates, is smooth near its zeros and written with
    `jax.numpy`, `numpy` or arithmetic alone. With time among the coordinates the shape moves.

    The surface where it vanishes is the boundary piece `"surface"`. Where the shape reaches an end
    of an interval, that side, named as in `Box`, is a boundary piece too.

    **Arguments:**

    - `function`: negative inside.
    - `time`: name of the time coordinate, if there is one. Normals then point along the other
      coordinates, and the shapes at the ends of time are `initial` and `final`.
    - `resolution`: number of cells per coordinate of the grid that locates the surface. Details
      smaller than a cell are not resolved.
    - `**intervals`: lower and upper end of each coordinate, of a box that contains the shape.

    **Example:**

    ```python
    >>> ellipse = kp.Implicit(lambda x, y: x**2 + 4 * y**2 - 1, x=(-2, 2), y=(-1, 1))
    >>> round(ellipse.volume, 3)
    1.571
    ```
    """

    is_box = False

    def __init__(
        self,
        function: Callable,
        time: str | None = None,
        resolution: int | None = None,
        **intervals: tuple[float, float],
    ):
        check_callable("Implicit", "function", function, "a function of the coordinates")
        self._box = Box(time=time, periodic=(), **intervals)
        expected = "of two or three coordinates, including time"
        require(len(intervals) in (2, 3), "Implicit", "intervals", expected, intervals)
        self.space = self._box.space
        self._function = function
        self._resolution = resolution or (_RESOLUTION if len(intervals) == 2 else _RESOLUTION // 4)

    def __repr__(self) -> str:
        return f"Implicit({getattr(self._function, '__name__', 'f')}, {repr(self._box)[4:]}"

    @property
    def bounds(self):
        return self._box.bounds

    def _values(self, points: np.ndarray) -> np.ndarray:
        return self._evaluate(points)[0]

    def _values_and_gradients(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return values and gradients, by central differences if JAX cannot differentiate."""
        values, gradients = self._evaluate(points)
        if gradients is None:
            step = self.tolerances.difference_step
            gradients = central_differences(self._values, points, step)
        return values, gradients

    def _evaluate(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Return values, and gradients if JAX can differentiate the function."""
        require_float64()
        count, dimension = points.shape
        # Padding to a power of two limits the number of compiled programs.
        padded = np.resize(points, (max(1024, 1 << (count - 1).bit_length()), dimension))
        try:
            outputs = map(np.atleast_1d, self._program(padded))
            values, gradients = (np.array(output)[:count] for output in outputs)
        except (jax.errors.JAXTypeError, jax.errors.TracerArrayConversionError, TypeError):
            values, gradients = np.asarray(self._function(*points.T), dtype=float), None
        expected = f"of shape ({count},), one number per point"
        require(values.shape == (count,), "Implicit", "function values", expected, values.shape)
        if not np.isfinite(values).all():
            raise InputError(
                "Implicit: the function must be finite in its box; it is not at "
                f"{points[int(np.argmin(np.isfinite(values)))].tolist()}."
            )
        return values, gradients

    @cached_property
    def _program(self) -> Callable[[np.ndarray], tuple[Array, Array]]:
        def function(points: Array) -> Array:
            return jnp.asarray(self._function(*points.T), dtype=float)

        def values_and_gradients(points: Array) -> tuple[Array, Array]:
            def differentiate(axis: Array) -> tuple[Array, Array]:
                return jax.jvp(function, (points,), (jnp.broadcast_to(axis, points.shape),))

            return jax.vmap(differentiate, out_axes=(None, -1))(jnp.eye(points.shape[1]))

        return jax.jit(values_and_gradients)

    def signed_distance(self, points):
        values, gradients = self._values_and_gradients(points)
        distance = values / np.maximum(np.linalg.norm(gradients, axis=1), TINY)
        return np.maximum(distance, self._box.signed_distance(points))

    def contains(self, points):
        return self._is_negative(points) & self._box.contains(points)

    def _is_negative(self, points: np.ndarray) -> np.ndarray:
        return self._values(points) < 0

    def project(self, points: Points) -> Points:
        """Move points near the surface onto it, by Newton's method along the gradient."""
        extent, step, tolerances = np.ptp(self.bounds, axis=1), points, self.tolerances
        for _ in range(_MAX_NEWTON_STEPS):
            values, gradients = self._values_and_gradients(points)
            gradients = gradients * extent
            square = np.maximum(np.sum(gradients**2, axis=1), TINY)
            step = (values / square)[:, None] * gradients * extent
            points = points - step
            if (np.abs(step) < tolerances.newton_step).all():
                return points
        failed = (np.abs(step) > tolerances.on_surface).any(axis=1)
        if failed.any():
            raise InputError(
                "Implicit: Newton's method found no zero of the function near "
                f"{points[int(np.argmax(failed))].tolist()}. The function must be smooth near its "
                "zeros, with a nonzero gradient."
            )
        return points

    @cached_property
    def _surface(self) -> Facets:
        """Flat facets with corners on the surface."""
        simplices = _marching_simplices(self._values, self.bounds, self._resolution)
        if not len(simplices):
            raise InputError(
                f"Implicit: the function has one sign on all of a grid of {self._resolution} cells "
                "per coordinate. Check its sign and the intervals, or increase the resolution."
            )
        corners = self.project(simplices.reshape(-1, simplices.shape[2])).reshape(simplices.shape)
        facets = Facets(corners, np.zeros_like(corners[:, 0]))
        is_proper = facets.measures > ROUNDING_TOLERANCE * facets.measures.max()
        corners = facets.select(is_proper).sorted_by_curve().corners
        normals = facet_normals(corners)
        _, gradients = self._values_and_gradients(corners.mean(axis=1))
        is_inward = np.sum(normals * gradients, axis=1) < 0
        return Facets(corners, np.where(is_inward[:, None], -normals, normals))

    @property
    def volume(self):
        return self._surface.enclosed_measure if len(self.boundary_patches) == 1 else super().volume

    @property
    def boundary_patches(self):
        surface = Patch(
            "surface",
            self.space,
            len(self.bounds) - 1,
            partial(_map_to_surface, self, self._surface),
            float(self._surface.measures.sum()),
            self._box.contains,
            time_slice=None if self.space.time is None else self._restrict_time,
            smooth=False,
        )
        sides = {
            name: side.restrict(self._is_negative)
            for name, side in self._box.boundary_patches.items()
        }
        return {"surface": surface} | {n: side for n, side in sides.items() if side.fraction() > 0}

    def _restrict_time(self, start: float, end: float) -> Patch:
        """Return the surface in a time window."""
        intervals = self.intervals | {str(self.space.time): (start, end)}
        window = Implicit(self._function, self.space.time, self._resolution, **intervals)
        return window.boundary_patches["surface"]

    def _time_side(self, end):
        if self.space.time is None:
            return super()._time_side(end)
        return self._box._time_side(end).restrict(self._is_negative)


def _map_to_surface(shape: Implicit, facets: Facets, unit: np.ndarray) -> RegionSample:
    """Map the unit cube to flat facets, and from there to the surface."""
    points = shape.project(facets(unit).points)
    _, normals = shape._values_and_gradients(points)
    space = shape.space
    if space.time is not None:
        normals[:, space.coordinates.index(space.time)] = 0.0
    lengths = np.linalg.norm(normals, axis=1, keepdims=True)
    return RegionSample(points, normals / np.maximum(lengths, TINY))


def _marching_simplices(
    function: Callable[[np.ndarray], np.ndarray], bounds: Float[np.ndarray, "d 2"], cells: int
) -> Float[np.ndarray, "m d d"]:
    """Return the zero set of the piecewise linear interpolant of a function on a grid.

    Kuhn's triangulation divides each cube along its diagonal into d! simplices. A simplex whose
    corners have both signs is cut in a segment, a triangle, or a quadrangle of two triangles.
    """
    dimension = len(bounds)
    nodes = tensor_grid([np.linspace(low, high, cells + 1) for low, high in bounds])
    values = function(nodes).reshape((cells + 1,) * dimension)
    nodes = nodes.reshape(*values.shape, dimension)
    is_positive = values >= 0
    facets = [np.zeros((0, dimension, dimension))]
    cubes = tensor_grid([np.arange(cells)] * dimension)
    for order in permutations(range(dimension)):
        steps = np.cumsum([np.zeros(dimension, int), *np.eye(dimension, dtype=int)[list(order)]], 0)
        index = cubes[:, None] + steps  # (cubes, d + 1, d)
        signs = is_positive[tuple(np.moveaxis(index, -1, 0))]
        is_cut = signs.any(axis=1) & ~signs.all(axis=1)
        index, signs = index[is_cut], signs[is_cut]
        for pattern, cuts in _simplex_cases(dimension).items():
            matching = tuple(np.moveaxis(index[(signs == np.array(pattern)).all(axis=1)], -1, 0))
            p, f = nodes[matching], values[matching]
            for cut in cuts:
                a, b = np.transpose(cut)
                t = f[:, a] / (f[:, a] - f[:, b])
                facets.append(p[:, a] + t[..., None] * (p[:, b] - p[:, a]))
    return np.concatenate(facets)


def _simplex_cases(dimension: int) -> dict[tuple[bool, ...], list[list[tuple[int, int]]]]:
    """Return, for each sign pattern of a simplex, the cutting facets as lists of edges."""
    cases = {}
    for pattern in product((False, True), repeat=dimension + 1):
        negative, positive = (np.flatnonzero(np.equal(pattern, sign)).tolist() for sign in (0, 1))
        minority, majority = sorted([positive, negative], key=len)
        if len(minority) == 1:
            cases[pattern] = [[(minority[0], i) for i in majority]]
        elif len(minority) == 2:
            (a, b), (c, d) = minority, majority
            cases[pattern] = [[(a, c), (a, d), (b, d)], [(a, c), (b, d), (b, c)]]
    return cases
