"""Grading centers: boundary points of planar domains near which solutions vary on a small scale.

These are reentrant corners, where solutions are singular for any data, and the centers of small
holes and fillets.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from kernelpde.geometry._facets import Facets
from kernelpde.geometry._grid import bounding_box
from kernelpde.geometry._region import AbstractRegion, Patch, as_patches
from kernelpde.geometry._vertices import find_vertices

_REENTRANT_ANGLE = 190.0
"""Minimum interior angle of a reentrant corner in degrees."""

_STEPS = 2048
"""Number of steps along the boundary in the search for arcs."""

_MIN_STEPS = 128
"""Minimum number of steps along each boundary piece in the search for arcs."""

_MAX_ARC_RADIUS = 0.25
"""Maximum radius of a small arc, relative to the smaller extent of the domain."""

_MIN_ARC_ANGLE = 0.5
"""Minimum total turn of an arc in radians; normals of meshes can have errors of this size."""

_CORNER_ANGLE = 0.5
"""Turn within one step, in radians, above which a curve has a corner instead of an arc."""


class GradingCenters(NamedTuple):
    """Points with the radii below which sizes do not decrease; 0 at singularities."""

    points: Float[np.ndarray, "k 2"]
    radii: Float[np.ndarray, " k"]

    @staticmethod
    def empty() -> "GradingCenters":
        return GradingCenters(np.zeros((0, 2)), np.zeros(0))

    def without(self, points: Float[np.ndarray, "m 2"]) -> "GradingCenters":
        """Return the centers that are none of these points."""
        is_other = np.ones(len(self.points), dtype=bool)
        for point in points:
            is_other &= np.any(self.points != point, axis=1)
        return GradingCenters(self.points[is_other], self.radii[is_other])

    def thin(self) -> "GradingCenters":
        """Select centers by increasing radius so that none lies within the radius of another."""
        selected: list[int] = []
        for i in np.argsort(self.radii, kind="stable").tolist():
            distances = np.linalg.norm(self.points[selected] - self.points[i], axis=1)
            if not np.any(distances <= self.radii[i]):
                selected.append(i)
        return GradingCenters(self.points[selected], self.radii[selected])


def find_grading_centers(regions: Sequence[AbstractRegion]) -> GradingCenters:
    """Return the reentrant corners and small arcs of a planar domain and its boundary."""
    corners, arcs = reentrant_corners(regions), small_arcs(regions)
    radii = np.concatenate([np.zeros(len(corners)), arcs.radii])
    return GradingCenters(np.concatenate([corners, arcs.points]), radii).thin()


def _boundary_curves(regions: Sequence[AbstractRegion]) -> list[Patch]:
    """Return the boundary curves among regions with two coordinates."""
    patches = as_patches(*regions)
    return [p for p in patches if p.parameter_dim == 1 and len(p.space.coordinates) == 2]


def small_arcs(regions: Sequence[AbstractRegion]) -> GradingCenters:
    """Return the centers and radii of small concave arcs of the boundary: holes and fillets."""
    curves = [curve for curve in _boundary_curves(regions) if curve.space.time is None]
    if not curves:
        return GradingCenters.empty()
    max_radius = _MAX_ARC_RADIUS * np.ptp(bounding_box(regions), axis=1).min()
    num_steps = max(_MIN_STEPS, _STEPS // len(curves))
    fits = np.concatenate([_fit_arcs(curve, num_steps, max_radius) for curve in curves])
    centers, radii, turns = fits[:, :2], fits[:, 2], fits[:, 3]
    if not len(fits):
        return GradingCenters.empty()
    from scipy.spatial import KDTree

    arcs = KDTree(centers).query_ball_point(centers, 0.5 * radii)
    total_turn = np.array([turns[arc].sum() for arc in arcs])
    medians, is_remaining = np.zeros((0, 4)), np.ones(len(fits), dtype=bool)
    # Decreasing order of the turn: radii of single steps can have large errors.
    for step in np.argsort(-total_turn, kind="stable"):
        if is_remaining[step] and total_turn[step] > _MIN_ARC_ANGLE:
            median = np.median(fits[arcs[step]], axis=0)
            medians = np.concatenate([medians, median[None]])
            is_remaining &= np.linalg.norm(centers - median[:2], axis=1) > median[2]
    return GradingCenters(medians[:, :2], medians[:, 2])


def _fit_arcs(curve: Patch, num_steps: int, max_radius: float) -> Float[np.ndarray, "k 4"]:
    """Return the centers, radii and turns of all steps along a curve whose radius is small."""
    steps = (np.arange(num_steps) + 0.5)[:, None] / num_steps
    points, normals, _ = curve.chart(steps)
    if normals is None:
        return np.zeros((0, 4))
    tangent, turn = np.diff(points, axis=0), np.diff(normals, axis=0)
    length = np.linalg.norm(tangent, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        curvature = -np.sum(turn * tangent, axis=1) / length**2
    curvature[(np.linalg.norm(turn, axis=1) > _CORNER_ANGLE) | ~np.isfinite(curvature)] = 0.0
    if curve.mask is not None:
        inside = curve.mask(points)
        curvature[~(inside[1:] & inside[:-1])] = 0.0
    # The median of three steps ignores vertices of polygons, which turn within one step.
    median = np.median([curvature[:-2], curvature[1:-1], curvature[2:]], axis=0)
    small = np.flatnonzero(median > 1 / max_radius)
    radius = 1 / median[small][:, None]
    small += 1
    return np.hstack(
        [points[small] + radius * normals[small], radius, length[small, None] / radius]
    )


def reentrant_corners(regions: Sequence[AbstractRegion]) -> Float[np.ndarray, "k 2"]:
    """Return the points of a planar boundary with an interior angle of more than 190 degrees."""
    # Angles between flat sides of curved facets are no corners.
    charts = [curve.chart for curve in _boundary_curves(regions)]
    facet_angles = [chart.max_normal_angle for chart in charts if isinstance(chart, Facets)]
    min_angle = np.deg2rad(max(_REENTRANT_ANGLE, 185.0 + max(facet_angles, default=0.0)))
    corners = [vertex.point for vertex in find_vertices(regions) if vertex.angle > min_angle]
    return np.stack(corners) if corners else np.zeros((0, 2))
