"""Number of points per condition, for about equal density of points."""

import numpy as np

from kernelpde.compiling import padded_size
from kernelpde.geometry import Patch, as_patches, density_integral
from kernelpde.problem import Problem

_BOUNDARY_DENSITY = 1.4
"""Density of points on boundaries relative to the interior. Kernels are less accurate there, with
points on one side only."""


def points_per_condition(problem: Problem, points_per_axis: float) -> dict[str, int]:
    """Return the number of points to draw for each condition without user-supplied points.

    Numbers are rounded up to padded sizes, so that problems share programs.
    """
    counts, spacing = {}, _graded_spacing(problem, points_per_axis)
    for condition in problem.conditions:
        if problem.has_given_points(condition.name):
            continue
        patches = as_patches(condition.region)
        if patches and all(patch.parameter_dim == 0 for patch in patches):
            counts[condition.name] = len(patches)
        elif patches:
            total = sum(_count(patch, points_per_axis, spacing) for patch in patches)
            counts[condition.name] = padded_size(total)
        else:
            dimension = len(problem.space.coordinates)
            counts[condition.name] = padded_size(max(1, round(points_per_axis**dimension)))
    return counts


def _graded_spacing(problem: Problem, points_per_axis: float) -> float:
    """Return the spacing of graded points relative to the size field; zero without grading."""
    patches = as_patches(*[condition.region for condition in problem.conditions])
    integrals = [density_integral(p) for p in patches if p.is_interior and p.is_graded]
    dimension = len(problem.space.coordinates)
    return max(integrals, default=0.0) ** (1.0 / dimension) / points_per_axis


def _count(patch: Patch, points_per_axis: float, spacing: float) -> int:
    """Return the number of points of one patch."""
    dimension = patch.parameter_dim
    if patch.is_graded and not patch.is_interior:
        return max(2, round(_BOUNDARY_DENSITY * density_integral(patch) / spacing**dimension))
    density = float(np.clip(patch.fraction(), 0.05, 1.0))
    if patch.is_interior:
        return max(4, round(density * points_per_axis**dimension))
    density = _BOUNDARY_DENSITY * _equivalent_sides(patch) * density
    return max(2, round(density * points_per_axis**dimension))


def _equivalent_sides(patch: Patch) -> float:
    """Return the measure of a boundary patch in sides of its bounding box: π for a circle."""
    unit = np.random.default_rng(0).random((256, patch.parameter_dim))
    extents = np.ptp(patch.chart(unit).points, axis=0)
    # Coordinates of a straight side that are read from a file differ by rounding.
    free = extents[extents > 1e-6 * extents.max()]
    return float(patch.full_measure / np.exp(np.mean(np.log(free))) ** patch.parameter_dim)
