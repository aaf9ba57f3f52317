"""How many points each condition gets, so that all are about equally dense."""

import numpy as np

from kernelpde.compiling import rung
from kernelpde.geometry import Patch, load_of, patches_of
from kernelpde.problem import Problem

_BOUNDARY = 1.4
"""How much denser points are on boundaries: kernels know less there, from one side only."""


def counts(problem: Problem, along: float) -> dict[str, int]:
    """For each condition without points of its own how many to draw.

    **Arguments:**

    - `along`: points along each coordinate.
    """
    found, spacing = {}, _spacing(problem, along)
    for condition in problem.conditions:
        region = condition.region
        if problem.has_own_points(condition.name):
            continue
        patches = patches_of(region)
        if patches and all(patch.parameters == 0 for patch in patches):
            found[condition.name] = len(patches)
            continue
        whole = max(1, round(along ** len(problem.space.coordinates)))
        each = [_count(patch, along, spacing) for patch in patches]
        total = sum(each) if patches else whole
        # Round numbers: problems of other shapes then need no other programs.
        found[condition.name] = rung(total)
    return found


def _spacing(problem: Problem, along: float) -> float:
    """How far apart points are where they are finer in some places, compared to the size there."""
    patches = [p for c in problem.conditions for p in patches_of(c.region)]
    loads = [load_of(p) for p in patches if p.solid and p.sizes is not None]
    dimension = len(problem.space.coordinates)
    return max(loads, default=0.0) ** (1.0 / dimension) / along


def _count(patch: Patch, along: float, spacing: float) -> int:
    """Points of one piece of a region."""
    if patch.sizes is not None and patch.parameters > 0 and not patch.solid:
        return max(2, round(_BOUNDARY * load_of(patch) / spacing**patch.parameters))
    share = float(np.clip(patch.fraction(), 0.05, 1.0))
    if patch.solid:
        return max(4, round(share * along**patch.parameters))
    return max(2, round(_BOUNDARY * _sides(patch) * share * along**patch.parameters))


def _sides(patch: Patch) -> float:
    """How many sides of a box a piece of boundary is worth, by its measure: a circle is π."""
    unit = np.random.default_rng(0).random((256, patch.parameters))
    extents = np.ptp(patch.chart(unit).points, axis=0)
    # The coordinates of a straight side of a mesh are those of a file, rounded.
    free = extents[extents > 1e-6 * extents.max()]
    return float(patch.measure / np.exp(np.mean(np.log(free))) ** patch.parameters)
