"""Corners that point into a domain, where solutions are singular whatever the data."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from kernelpde.geometry._facets import Facets
from kernelpde.geometry._grid import bounding_box
from kernelpde.geometry._region import AbstractRegion, Patch, patches_of

_ANGLE = 190.0
"""Degrees of the domain around a point of its boundary from which on it is such a corner."""

_STEPS = 2048
"""Along each piece of the boundary, to find where it ends."""

_NEAR = 1e-6
"""How far around a point the domain is looked at, relative to its extent."""


def reentrant_corners(regions: Sequence[AbstractRegion]) -> Float[np.ndarray, "k 2"]:
    """Where pieces of the boundary of a domain in the plane meet at more than a straight angle.

    **Arguments:**

    - `regions`: of the conditions of a problem: the domain itself and its boundary.
    """
    patches = [patch for region in regions for patch in patches_of(region)]
    solid = [patch for patch in patches if patch.solid and patch.keeps is not None]
    edges = [patch for patch in patches if patch.parameters == 1 and not patch.solid]
    none = np.zeros((0, 2))
    if not solid or not edges or len(solid[0].space.coordinates) != 2:
        return none
    box = bounding_box(regions)
    extent = box[:, 1] - box[:, 0]
    turn = np.linspace(0, 2 * np.pi, 720, endpoint=False)
    around = _NEAR * extent.min() * np.stack([np.cos(turn), np.sin(turn)], axis=1)
    found: list[np.ndarray] = []
    # What is inside is told by flat sides of a mesh, which turn where its boundary does not.
    flat = max((p.chart.turn for p in edges if isinstance(p.chart, Facets)), default=0.0)
    least = max(_ANGLE, 185.0 + flat)
    for end in np.concatenate([none, *(_ends(patch) for patch in edges)]):
        inside = np.any([patch.keeps(end + around) for patch in solid if patch.keeps], axis=0)
        known = any(np.all(np.abs(end - other) < 2 * _NEAR * extent) for other in found)
        if least < 360 * inside.mean() < 359 and not known:
            found.append(end)
    return np.stack(found) if found else none


def _ends(patch: Patch) -> Float[np.ndarray, "k 2"]:
    """Where a curve begins and ends, and where it leaves what is kept of it."""
    steps = np.linspace(0, 1, _STEPS + 1)[:, None]
    ends = [steps[:1], steps[-1:]]
    if isinstance(patch.chart, Facets):
        ends.append(patch.chart.breaks)
    if patch.keeps is not None:
        kept = patch.keeps(patch.chart(steps).points)
        change = np.flatnonzero(kept[1:] != kept[:-1])
        low, high = steps[change], steps[change + 1]
        for _ in range(40):
            middle = (low + high) / 2
            same = patch.keeps(patch.chart(middle).points) == kept[change]
            low, high = np.where(same[:, None], middle, low), np.where(same[:, None], high, middle)
        ends.append(low)
    return patch.chart(np.concatenate(ends)).points
