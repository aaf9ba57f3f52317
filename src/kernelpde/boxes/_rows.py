"""Rows of the conditions of a problem on boxes: points, weights and linearization."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import jax
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from kernelpde.arrays import TINY, to_array
from kernelpde.boxes._basis import LocalBasis, value_term
from kernelpde.boxes._boxes import Boxes
from kernelpde.compiling import pointwise
from kernelpde.geometry import Patch, as_patches, bounding_box
from kernelpde.problem import Problem, Residual

ROW_OFFSETS = {1: ((0.3,), (0.8,)), 2: ((0.25, 0.35), (0.75, 0.65))}
"""Points of the interior rows in each box, relative to its size. Two generic points per box. At
equal rows one point is up to twice as accurate at three times the cost and fails on Burgers. Three
or four points, or middles and corners, are 2 to 18 times less accurate."""

OTHER_OFFSETS = {1: ((0.7,), (0.2,)), 2: ((0.75, 0.35), (0.25, 0.65))}
"""Points of the rows of the error estimate, the mirror images of the points of the fit."""

TEST_OFFSETS = {
    1: ((0.06,), (0.42,), (0.58,), (0.94,)),
    2: ((0.27, 0.77), (0.77, 0.73), (0.23, 0.23), (0.73, 0.27)),
}
"""Held-out points of each box for the refinement and the average of errors; not tuned."""

_BOUNDARY_WEIGHT = 3.0
"""Weight of a boundary row relative to the length of its edge. It trades boundary against interior
residuals. Between 1 and 10 errors of kinks and layers change by at most a factor of two."""

_POINTS_PER_EDGE = 2
"""Boundary rows per box side, for an equal density of rows along the boundary and inside."""

_DISPLACEMENT = 0.2
"""Largest random displacement of points and centers in box sizes, for other point sets of the same
quality: errors of kinks change by 20 %."""

_CHUNK = 512
"""Points of a call of the compiled residual: all calls share a program."""

_CUT_CANDIDATES = 6
"""Points along each coordinate of a box that the boundary cuts, from which its rows are chosen. It
bounds the smallest part of a box that is detected; not tuned."""

_BOUNDARY_SAMPLES = 4096
"""Points at which a boundary piece is compared with the boxes: the ratio of the domain to the
smallest box, so that every box along a side has a point. It grows with that ratio."""


PointValues = Callable[[Float[np.ndarray, "n d"]], Float[np.ndarray, " n"]]
"""Values of a field at points."""


@dataclass(frozen=True, eq=False)
class Frame:
    """The bounding box of the domain, which is mapped to the unit cube.

    **Attributes:**

    - `lower`, `extents`: lower corner and lengths of the sides.
    """

    lower: Float[np.ndarray, " d"]
    extents: Float[np.ndarray, " d"]

    @staticmethod
    def from_problem(problem: Problem) -> "Frame":
        """Return the bounding box of all conditions."""
        bounds = bounding_box([condition.region for condition in problem.conditions])
        return Frame(bounds[:, 0], bounds[:, 1] - bounds[:, 0])

    def to_physical(self, points: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """Map points of the unit cube to the domain."""
        return self.lower + self.extents * points

    def to_unit(self, points: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """Map points of the domain to the unit cube."""
        return (points - self.lower) / self.extents

    def contains(self, patch: Patch, points: Float[np.ndarray, "n d"]) -> Bool[np.ndarray, " n"]:
        """Return whether points of the unit cube lie in an interior patch."""
        physical = self.to_physical(points)
        if patch.mask is not None:
            return patch.mask(physical)
        corners = patch.corners()
        return ((corners.min(0) <= physical) & (physical <= corners.max(0))).all(axis=1)


@dataclass(frozen=True, eq=False)
class RowPoints:
    """Points of the rows of a condition.

    **Attributes:**

    - `points`, `normals`: in the coordinates of the problem; no normals in the interior.
    - `sizes`: sides of the box of each point.
    - `measures`: square root of the area of each row, or the weighted length of its edge.
    - `box_indices`: index of the box of each point.
    - `is_interior`: whether the condition is an equation inside the domain.
    """

    points: Float[np.ndarray, "n d"]
    normals: Float[np.ndarray, "n d"] | None
    sizes: Float[np.ndarray, "n d"]
    measures: Float[np.ndarray, " n"]
    box_indices: Int[np.ndarray, " n"]
    is_interior: bool


def displaced(
    points: Float[np.ndarray, "n d"],
    sizes: Float[np.ndarray, "n d"],
    rng: np.random.Generator | None,
) -> Float[np.ndarray, "n d"]:
    """Return points displaced at random within a fraction of their boxes."""
    if rng is None:
        return points
    return points + _DISPLACEMENT * sizes * rng.uniform(-1.0, 1.0, points.shape)


def interior_points(
    frame: Frame,
    boxes: Boxes,
    patch: Patch,
    offsets: tuple[tuple[float, ...], ...],
    rng: np.random.Generator | None = None,
) -> tuple[Float[np.ndarray, "n d"], Int[np.ndarray, " n"]]:
    """Return points at offsets of the boxes, and the indices of their boxes.

    A point outside the domain is replaced by the nearest candidate of its box inside.
    """
    points = np.concatenate([boxes.points(offset) for offset in offsets])
    indices = np.tile(np.arange(len(boxes)), len(offsets))
    points = np.clip(displaced(points, boxes.sizes[indices], rng), 1e-9, 1.0 - 1e-9)
    inside = frame.contains(patch, points)
    outside_rows = np.flatnonzero(~inside)
    if len(outside_rows):
        cut = np.unique(indices[outside_rows])
        candidates = _candidates(boxes.select(cut))
        is_inside = frame.contains(patch, candidates.reshape(-1, candidates.shape[2]))
        is_inside = is_inside.reshape(candidates.shape[:2])
        position = np.searchsorted(cut, indices[outside_rows])
        steps = (candidates[position] - points[outside_rows, None]) / boxes.sizes[
            indices[outside_rows], None
        ]
        distances = np.where(is_inside[position], (steps**2).sum(2), np.inf)
        nearest = distances.argmin(axis=1)
        points[outside_rows] = candidates[position, nearest]
        inside[outside_rows] = is_inside[position, nearest]
    return points[inside], indices[inside]


def _candidates(boxes: Boxes) -> Float[np.ndarray, "n c d"]:
    """Return a regular grid of points in each box."""
    dimension = boxes.lower.shape[1]
    ticks = (np.arange(_CUT_CANDIDATES) + 0.5) / _CUT_CANDIDATES
    grids = np.meshgrid(*[ticks] * dimension, indexing="ij")
    offsets = np.stack([grid.ravel() for grid in grids], axis=1)
    return boxes.lower[:, None] + boxes.sizes[:, None] * offsets


def restrict_to_domain(frame: Frame, boxes: Boxes, patches: list[Patch]) -> Boxes:
    """Drop the boxes without a point of the domain."""
    if all(patch.mask is None for patch in patches):
        return boxes
    candidates = _candidates(boxes)
    flat = candidates.reshape(-1, candidates.shape[2])
    inside = np.any([frame.contains(patch, flat) for patch in patches], axis=0)
    return boxes.select(np.flatnonzero(inside.reshape(candidates.shape[:2]).any(axis=1)))


def place_interior_rows(
    frame: Frame,
    boxes: Boxes,
    patch: Patch,
    offsets: tuple[tuple[float, ...], ...],
    rng: np.random.Generator | None = None,
) -> RowPoints:
    """Return the rows of an equation on an interior patch."""
    points, indices = interior_points(frame, boxes, patch, offsets, rng)
    areas = boxes.volumes[indices] / len(offsets)
    sizes = boxes.sizes[indices] * frame.extents
    physical = frame.to_physical(points)
    return RowPoints(physical, None, sizes, np.sqrt(areas), indices, True)


def place_boundary_rows(frame: Frame, boxes: Boxes, patch: Patch) -> RowPoints:
    """Return the rows of a condition on a boundary piece, evenly spaced in its boxes."""
    if patch.parameter_dim == 0:
        sample, lengths = patch.chart(np.zeros((1, 0))), np.ones(1)
    else:
        parameters, lengths = _edge_parameters(frame, boxes, patch)
        sample = patch.chart(parameters[:, None])
    indices = boxes.locate(frame.to_unit(sample.points))
    sizes = boxes.sizes[indices] * frame.extents
    measures = _BOUNDARY_WEIGHT * lengths
    return RowPoints(sample.points, sample.normals, sizes, measures, indices, False)


def _edge_parameters(
    frame: Frame, boxes: Boxes, patch: Patch
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Return curve parameters of the rows on a boundary piece, and the lengths of their edges."""
    ends = np.linspace(0.0, 1.0, _BOUNDARY_SAMPLES + 1)
    middles = (ends[1:] + ends[:-1]) / 2
    points = patch.chart(middles[:, None]).points
    steps = np.diff(frame.to_unit(patch.chart(ends[:, None]).points), axis=0)
    sizes = boxes.sizes[boxes.locate(frame.to_unit(points))]
    density = np.linalg.norm(steps / sizes, axis=1)
    if patch.mask is not None:
        density = np.where(patch.mask(points), density, 0.0)
    cumulative = np.concatenate([[0.0], np.cumsum(density)])
    count = max(1, round(_POINTS_PER_EDGE * cumulative[-1]))
    positions = np.linspace(0.0, cumulative[-1], count + 1)
    parameters = np.interp(positions, cumulative, ends)
    cells = np.minimum((parameters * _BOUNDARY_SAMPLES).astype(int), _BOUNDARY_SAMPLES - 1)
    lengths = np.linalg.norm(steps[cells], axis=1) / np.maximum(density[cells], TINY)
    is_valid = density[cells] > 0
    return parameters[is_valid], lengths[is_valid]


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a condition in a local basis.

    **Attributes:**

    - `residual`: traced residual.
    - `placed`: points of the rows.
    - `values`: values of the basis at the points.
    - `matrices`: jet values of the basis, one matrix per term of the residual.
    - `unit_scales`: size of each term on a function that varies by one over the box of the row.
    - `damping_terms`: signs of the terms that fix the direction of pseudo-time; see `_direction`.
    """

    residual: Residual
    placed: RowPoints
    values: Float[np.ndarray, "m n"]
    matrices: list[Float[np.ndarray, "m n"]]
    unit_scales: Float[np.ndarray, "m T"]
    damping_terms: Float[np.ndarray, " T"]

    def linearize(
        self, jet_values: Float[np.ndarray, "m T"]
    ) -> tuple[Float[np.ndarray, "m R"], Float[np.ndarray, "m R T"]]:
        """Evaluate the residual and its derivatives at jet values."""
        return linearize_residual(self.residual, self.placed, jet_values)

    def jets(self, coefficients: Float[np.ndarray, " n"]) -> Float[np.ndarray, "m T"]:
        """Return the jet values of a weighted sum of the basis."""
        return np.stack([matrix @ coefficients for matrix in self.matrices], axis=1)


def make_rows(residual: Residual, placed: RowPoints, basis: LocalBasis, time: int | None) -> Rows:
    """Evaluate a basis at the points of a condition."""
    value = value_term(placed.points.shape[1])
    values, *matrices = basis.matrices(placed.points, [value, *residual.terms])
    scales = unit_scales(residual, placed.sizes)
    return Rows(residual, placed, values, matrices, scales, _direction(residual, time))


def unit_scales(residual: Residual, sizes: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "m T"]:
    """Return the size of each term on a function that varies by one over a box."""
    columns = [
        sum(np.prod((2.0 / sizes) ** np.array(order), axis=1) for order in term.orders)
        for term in residual.terms
    ]
    return np.stack(columns, axis=1)


def _direction(residual: Residual, time: int | None) -> Float[np.ndarray, " T"]:
    """Return signs with which coefficients of terms add up to the sign of pseudo-time.

    -Δu, Δ²u and ∂u/∂t have the same sign as u. The terms of the highest even order in space
    determine it, or else the derivative in time.
    """
    dimension = len(residual.terms[0].orders[0])
    signs = {}
    for index, term in enumerate(residual.terms):
        axes = {axis for order in term.orders for axis in range(dimension) if order[axis]}
        is_pure = all(np.count_nonzero(order) == 1 for order in term.orders)
        if is_pure and time not in axes and term.order % 2 == 0:
            signs.setdefault(term.order, {})[index] = (-1.0) ** (term.order // 2)
        elif is_pure and axes == {time} and term.order == 1:
            signs.setdefault(1, {})[index] = 1.0
    result = np.zeros(len(residual.terms))
    for index, sign in signs.get(max(signs, default=0), {}).items():
        result[index] = sign
    return result


def linearize_residual(
    residual: Residual, placed: RowPoints, jet_values: Float[np.ndarray, "m T"]
) -> tuple[Float[np.ndarray, "m R"], Float[np.ndarray, "m R T"]]:
    """Evaluate a residual and its derivatives at points, in chunks that share a program."""
    count = len(placed.points)
    num_chunks = -(-count // _CHUNK)
    rows = np.resize(np.arange(count), num_chunks * _CHUNK)
    results = []
    for chunk in rows.reshape(num_chunks, _CHUNK):
        normals = None if placed.normals is None else to_array(placed.normals[chunk])
        arguments = to_array(placed.points[chunk]), normals, to_array(jet_values[chunk])
        results.append(jax.device_get(_linearize(residual, *arguments)))
    values, derivatives = zip(*results, strict=True)
    return np.concatenate(values)[:count], np.concatenate(derivatives)[:count]


@pointwise
def _linearize(
    residual: Residual,
    points: Float[Array, "m d"],
    normals: Float[Array, "m d"] | None,
    jet_values: Float[Array, "m T"],
) -> tuple[Float[Array, "m R"], Float[Array, "m R T"]]:
    def linearize_at(point, normal, values):
        return residual.value_and_jacobian(point, normal, {}, tuple(values))

    axes = (0, None if normals is None else 0, 0)
    return jax.vmap(linearize_at, in_axes=axes)(points, normals, jet_values)


def interior_rows(
    problem: Problem,
    frame: Frame,
    boxes: Boxes,
    offsets: tuple[tuple[float, ...], ...],
    rng: np.random.Generator | None = None,
) -> list[tuple[Residual, RowPoints]]:
    """Return the rows of all equations inside the domain, with their residuals."""
    rows = [
        (residual, place_interior_rows(frame, boxes, patch, offsets, rng))
        for residual, patch in _pieces(problem)
        if patch.is_interior
    ]
    return [(residual, placed) for residual, placed in rows if len(placed.points)]


def boundary_rows(problem: Problem, frame: Frame, boxes: Boxes) -> list[tuple[Residual, RowPoints]]:
    """Return the rows of all conditions on the boundary, with their residuals."""
    rows = [
        (residual, place_boundary_rows(frame, boxes, patch))
        for residual, patch in _pieces(problem)
        if not patch.is_interior
    ]
    return [(residual, placed) for residual, placed in rows if len(placed.points)]


def _pieces(problem: Problem) -> Iterator[tuple[Residual, Patch]]:
    """Yield the patches of all conditions with their residuals."""
    for condition, residual in zip(problem.conditions, problem.residuals, strict=True):
        for patch in as_patches(condition.region):
            yield residual, patch


def count_rows(rows: Iterable[tuple[Residual, RowPoints]]) -> int:
    """Return the number of rows of all conditions, one per equation and point."""
    return sum(len(placed.points) * len(residual.equation_terms) for residual, placed in rows)


def interior_patches(problem: Problem) -> list[Patch]:
    """Return the patches of all conditions inside the domain."""
    return [patch for _, patch in _pieces(problem) if patch.is_interior]
