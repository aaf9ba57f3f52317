"""Points and lengthscales that become finer towards where a solution varies on a small scale.

Around a corner that points into the domain solutions behave like r^(π/ω), with ω > π the angle, and
are in no space of a stationary kernel that can solve an equation of second order: its solutions
converge, to something else. With lengthscales and distances of points in proportion to r it is the
same problem at every scale, and they converge to the right one. So it is around small holes and
fillets, down to their radius.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from kernelpde.geometry import (
    AbstractRegion,
    Patch,
    Patches,
    Places,
    Sizes,
    bounding_box,
    fine_places,
)
from kernelpde.kernels import AbstractKernel, AbstractRadial, Gibbs, Sized
from kernelpde.problem import Condition, Problem

_SMALLEST = 0.1
"""The smallest size, of the accuracy. What is cut off of r^a at a size s is felt as s^(2a)
elsewhere, and a is at least one half."""

_ONE_UNIT = 30.0
"""Extents that differ by less have the same unit, such as meters; else each has its own."""


def places_of(problem: Problem) -> Places:
    """Around which solutions of a problem are likely to vary on a small scale."""
    exact = [c.region for c in problem.conditions if not c.noise_level.any()]
    return fine_places(exact)


def graded(problem: Problem, places: Places, accuracy: float) -> Problem:
    """The same problem with finer points and shorter lengthscales around some places.

    Residuals are multiplied by Hᵐ, with m the highest order of their derivatives, so that they are
    as large at every scale.
    """
    box = bounding_box([condition.region for condition in problem.conditions])
    extents = box[:, 1] - box[:, 0]
    if np.ptp(extents) < 0.01 * extents.max():
        lengths = extents[:1]
    elif extents.max() < _ONE_UNIT * extents.min():
        # Circles are round: sizes are the same in all directions.
        lengths = extents.min(keepdims=True)
        box = box[:, :1] + np.array([0.0, lengths[0]])
    else:
        lengths = extents
    smallest = np.maximum(_SMALLEST * accuracy, places.radii / lengths.min())
    sizes = Sizes.of(places.points, smallest, box)

    def local(kernel: AbstractKernel) -> AbstractKernel:
        return Gibbs(Sized(lengths, sizes)) if isinstance(kernel, AbstractRadial) else kernel

    conditions = [
        _graded_condition(problem, number, sizes) for number in range(len(problem.conditions))
    ]
    kernels = [local(field.kernel) for field in problem.fields]
    return problem.with_conditions(conditions).with_kernels(kernels)


def _graded_condition(problem: Problem, number: int, sizes: Sizes) -> Condition:
    condition = problem.conditions[number]
    terms = problem.residuals[number].terms
    order = max((term.order for term in terms), default=0)
    residual = _Local(condition.residual, sizes, order) if order else condition.residual
    return replace(condition, where=_finer(condition.region, sizes), residual=residual)


def _finer(region: AbstractRegion, sizes: Sizes) -> AbstractRegion:
    if isinstance(region, Patches):
        patches = tuple(replace(patch, sizes=sizes) for patch in region.patches)
        return replace(region, patches=patches)
    return replace(region, sizes=sizes) if isinstance(region, Patch) else region


@dataclass(frozen=True, eq=False)
class _Local:
    """A residual in units of the size at each place."""

    residual: Callable[..., Any]
    sizes: Sizes
    order: int

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        # What arguments it has, and where it was written.
        return self.residual

    def __call__(self, x: Array, *others: Any) -> Any:
        unit = self.sizes(x) ** self.order
        return jax.tree.map(lambda value: unit * value, self.residual(x, *others))
