"""Shapes where a function is negative."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations, product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.checking import shown
from kernelpde.errors import InputError
from kernelpde.geometry._box import Box
from kernelpde.geometry._domain import AbstractDomain
from kernelpde.geometry._facets import Facets, normals_of
from kernelpde.geometry._region import Patch, Sample
from kernelpde.precision import require_float64

_RESOLUTION = {2: 256, 3: 64}
"""Cells along each coordinate of the grid on which the surface is found first."""

_ITERATIONS = 20
"""Newton's, from there to the surface itself."""

_ON = 1e-10
"""How near they must come, relative to the domain; mostly it is 1e-16."""

_STEP = 6e-6
"""Of central differences, relative to the domain, for functions that JAX cannot differentiate."""


class Implicit(AbstractDomain):
    """Where a function is negative: `Implicit(lambda x, y: x**2 + 4 * y**2 - 1, x=(-2, 2),
    y=(-1, 1))`.

    The function takes arrays of coordinates, is smooth near its zeros and written with
    `jax.numpy`, `numpy` or arithmetic alone. With time among the coordinates the shape moves.

    The surface where it vanishes is the boundary piece `"surface"`; where the shape reaches the
    ends of an interval, sides as those of a `Box` belong to the boundary too.

    **Arguments:**

    - `function`: negative inside.
    - `time`: the name of the coordinate that is time, if one is. Normals then point along the
      others, and the shapes at its ends are `initial` and `final`.
    - `resolution`: cells along each coordinate of a grid on which the surface is found first; of
      details finer than a cell nothing is known.
    - `**intervals`: lower and upper end of each coordinate, of a box that holds the shape.

    **Example:**

    ```python
    >>> ellipse = kp.Implicit(lambda x, y: x**2 + 4 * y**2 - 1, x=(-2, 2), y=(-1, 1))
    >>> round(ellipse.volume, 3)
    1.571
    ```
    """

    fills_its_bounds = False

    def __init__(
        self,
        function: Callable[..., Any],
        time: str | None = None,
        resolution: int | None = None,
        **intervals: tuple[float, float],
    ):
        if not callable(function):
            raise InputError(
                f"Implicit: expected a function of the coordinates; got {shown(function)}."
            )
        self._box = Box(time=time, periodic=(), **intervals)
        dimension = len(intervals)
        if dimension not in _RESOLUTION:
            raise InputError(
                f"Implicit: expected two or three coordinates, time among them; got {dimension}."
            )
        self.space = self._box.space
        self._function = function
        self._resolution = resolution or _RESOLUTION[dimension]

    def __repr__(self) -> str:
        return f"Implicit({getattr(self._function, '__name__', 'f')}, {repr(self._box)[4:]}"

    @property
    def bounds(self):
        return self._box.bounds

    def values(self, points: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """The function at some points."""
        return self._evaluated(points)[0]

    def gradients(self, points: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """Its derivatives in all coordinates."""
        return self._both(points)[1]

    def _both(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values and derivatives, these by differences where JAX cannot take them."""
        values, slopes = self._evaluated(points)
        if slopes is not None:
            return values, slopes
        extent = np.ptp(self.bounds, axis=1)
        return values, np.stack(
            [
                (self.values(points + step) - self.values(points - step)) / (2 * step.sum())
                for step in _STEP * np.diag(extent)
            ],
            axis=1,
        )

    def _evaluated(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Values, and derivatives where JAX can take them."""
        require_float64()
        # As many points as some power of two, so that few programs are compiled.
        padded = np.resize(
            points, (max(1024, 1 << (len(points) - 1).bit_length()), points.shape[1])
        )
        try:
            found = self._program(*padded.T)
            values, slopes = (np.atleast_1d(np.array(each))[: len(points)] for each in found)
        except (jax.errors.JAXTypeError, jax.errors.TracerArrayConversionError, TypeError):
            values, slopes = np.asarray(self._function(*points.T), dtype=float), None
        if values.shape != (len(points),):
            raise InputError(
                f"Implicit: the function must return one number for each of {len(points)} points, "
                f"given as {points.shape[1]} arrays; got shape {values.shape}."
            )
        if not np.isfinite(values).all():
            raise InputError(
                "Implicit: the function must be finite in its box; it is not at "
                f"{points[int(np.argmin(np.isfinite(values)))].tolist()}."
            )
        return values, slopes

    @cached_property
    def _program(self) -> Callable[..., tuple[Array, Array]]:
        def both(*columns: Array) -> tuple[Array, Array]:
            def function(*x: Array) -> Array:
                return jnp.asarray(self._function(*x), dtype=float)

            pushed = [
                jax.jvp(
                    function,
                    columns,
                    tuple(jnp.full_like(c, i == k) for k, c in enumerate(columns)),
                )
                for i in range(len(columns))
            ]
            return pushed[0][0], jnp.stack([slope for _, slope in pushed], axis=-1)

        return jax.jit(both)

    def signed_distance(self, points):
        values, slopes = self._both(points)
        distance = values / np.maximum(np.linalg.norm(slopes, axis=1), 1e-300)
        return np.maximum(distance, self._box.signed_distance(points))

    def contains(self, points):
        return (self.values(points) < 0) & self._box.contains(points)

    def projected(self, points: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """Points near the surface moved onto it, by Newton's iteration along the gradient."""
        extent, step = np.ptp(self.bounds, axis=1), points
        for _ in range(_ITERATIONS):
            values, slopes = self._both(points)
            slopes = slopes * extent
            square = np.maximum(np.sum(slopes**2, axis=1), 1e-300)
            step = (values / square)[:, None] * slopes * extent
            points = points - step
            if np.abs(step / extent).max(initial=0.0) < 1e-15:
                return points
        off = np.abs(step / extent).max(axis=1)
        if off.max() > _ON:
            raise InputError(
                f"Implicit: near {points[int(np.argmax(off))].tolist()} no place was found where "
                "the function vanishes. It must be smooth near its zeros, with a gradient that is "
                "not 0 there."
            )
        return points

    @cached_property
    def _surface(self) -> Facets:
        """Facets with corners on the surface."""
        corners = _marched(self.values, self.bounds, self._resolution)
        if not len(corners):
            raise InputError(
                f"Implicit: the function has one sign on all of a grid of {self._resolution} cells "
                "along each coordinate. Check its sign and the intervals, or refine the resolution."
            )
        flat = self.projected(corners.reshape(-1, corners.shape[2])).reshape(corners.shape)
        facets = Facets(flat, np.zeros_like(flat[:, 0]))
        facets = facets.only(facets.measures > 1e-12 * facets.measures.max()).ordered()
        normals = normals_of(facets.corners)
        inwards = np.sum(normals * self.gradients(facets.corners.mean(axis=1)), axis=1) < 0
        return Facets(facets.corners, np.where(inwards[:, None], -normals, normals))

    @property
    def volume(self):
        return self._surface.enclosed if len(self.pieces) == 1 else super().volume

    @property
    def pieces(self):
        facets = self._surface
        dimension = facets.corners.shape[2]
        curve = _Projected(self, facets)
        sides = {
            name: part
            for name, side in self._box.pieces.items()
            if (part := side.restricted(self._negative)).fraction() > 0
        }
        area, lasts = float(facets.measures.sum()), self.space.time is not None
        cut = self._during if lasts else None
        surface = Patch(
            "surface", self.space, dimension - 1, curve, area, self._within, cut=cut, smooth=False
        )
        return {"surface": surface} | sides

    def _negative(self, points: np.ndarray) -> np.ndarray:
        return self.values(points) < 0

    def _within(self, points: np.ndarray) -> np.ndarray:
        return self._box.signed_distance(points) < 0

    def _during(self, begin: float, end: float) -> Patch:
        """The surface in a window of time."""
        ends = dict(zip(self.space.coordinates, self.bounds.tolist(), strict=True))
        assert self.space.time is not None
        ends[self.space.time] = [begin, end]
        intervals = {name: (low, high) for name, (low, high) in ends.items()}
        part = Implicit(self._function, self.space.time, self._resolution, **intervals)
        return part.pieces["surface"]

    @property
    def initial(self) -> Patch:
        """The shape when time begins."""
        return self._box.initial.restricted(self._negative)

    @property
    def final(self) -> Patch:
        """The shape when time ends."""
        return self._box.final.restricted(self._negative)


@dataclass(frozen=True, eq=False)
class _Projected:
    """The unit cube onto facets, and from there onto the surface."""

    shape: Implicit
    facets: Facets

    def __call__(self, unit: np.ndarray) -> Sample:
        points = self.shape.projected(self.facets(unit).points)
        normals = self.shape.gradients(points)
        space = self.shape.space
        if space.time is not None:
            normals[:, space.coordinates.index(space.time)] = 0.0
        lengths = np.linalg.norm(normals, axis=1, keepdims=True)
        return Sample(points, normals / np.maximum(lengths, 1e-300))


def _marched(
    function: Callable[[np.ndarray], np.ndarray], bounds: Float[np.ndarray, "d 2"], cells: int
) -> Float[np.ndarray, "m d d"]:
    """Where a function vanishes, as it would if it were linear in each simplex of a grid.

    Each cube is divided along its diagonal into d! simplices (Kuhn's); one whose corners have both
    signs is cut in a segment, a triangle, or a quadrangle, which is two triangles.
    """
    dimension = len(bounds)
    axes = [np.linspace(low, high, cells + 1) for low, high in bounds]
    nodes = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    values = function(nodes.reshape(-1, dimension)).reshape(nodes.shape[:-1])
    positive = values >= 0
    found: list[np.ndarray] = []
    base = np.stack(np.meshgrid(*[np.arange(cells)] * dimension, indexing="ij"), axis=-1)
    base = base.reshape(-1, dimension)
    for order in permutations(range(dimension)):
        steps = np.cumsum([np.zeros(dimension, int), *np.eye(dimension, dtype=int)[list(order)]], 0)
        index = base[:, None] + steps  # (cubes, d + 1, d)
        sign = positive[tuple(np.moveaxis(index, -1, 0))]
        mixed = np.flatnonzero(sign.any(axis=1) & ~sign.all(axis=1))
        index, sign = index[mixed], sign[mixed]
        for pattern, cuts in _CUTS[dimension].items():
            rows = np.flatnonzero((sign == np.array(pattern)).all(axis=1))
            at = np.moveaxis(index[rows], -1, 0)
            place, value = nodes[tuple(at)], values[tuple(at)]
            for cut in cuts:
                corners = []
                for a, b in cut:
                    share = value[:, a] / (value[:, a] - value[:, b])
                    corners.append(place[:, a] + share[:, None] * (place[:, b] - place[:, a]))
                found.append(np.stack(corners, axis=1))
    return np.concatenate(found) if found else np.zeros((0, dimension, dimension))


def _cuts(dimension: int) -> dict[tuple[bool, ...], list[list[tuple[int, int]]]]:
    """For each pattern of signs of a simplex the facets that cut it, as edges."""
    found = {}
    for pattern in product((False, True), repeat=dimension + 1):
        up = [i for i, sign in enumerate(pattern) if sign]
        down = [i for i, sign in enumerate(pattern) if not sign]
        few, many = sorted([up, down], key=len)
        if len(few) == 1:
            found[pattern] = [[(few[0], other) for other in many]]
        elif len(few) == 2:
            (a, b), (c, d) = few, many
            found[pattern] = [[(a, c), (a, d), (b, d)], [(a, c), (b, d), (b, c)]]
    return found


_CUTS = {2: _cuts(2), 3: _cuts(3)}
