"""Points and lengthscales that become finer towards places where a solution is singular.

Around a corner that points into the domain solutions behave like r^(π/ω), with ω > π the angle, and
are in no space of a stationary kernel that can solve an equation of second order: its solutions
converge, to something else. With lengthscales and distances of points in proportion to r it is the
same problem at every scale, and they converge to the right one.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float

from kernelpde.geometry import (
    AbstractRegion,
    Patch,
    Patches,
    Sizes,
    bounding_box,
    reentrant_corners,
)
from kernelpde.kernels import AbstractKernel, AbstractRadial, Gibbs, Sized
from kernelpde.problem import Condition, Problem

_SMALLEST = 0.1
"""The smallest size, of the accuracy. What is cut off of r^a at a size s is felt as s^(2a)
elsewhere, and a is at least one half."""


def singular_places(problem: Problem) -> Float[np.ndarray, "k d"]:
    """Where solutions of a problem are likely to be singular."""
    return reentrant_corners([condition.region for condition in problem.conditions])


def graded(problem: Problem, places: Float[np.ndarray, "k d"], accuracy: float) -> Problem:
    """The same problem with finer points and shorter lengthscales around some places.

    Residuals are multiplied by Hᵐ, with m the highest order of their derivatives, so that they are
    as large at every scale.
    """
    box = bounding_box([condition.region for condition in problem.conditions])
    smallest = np.full(len(places), _SMALLEST * accuracy)
    sizes = Sizes.of(places, smallest, box)
    extents = box[:, 1] - box[:, 0]
    alike = np.ptp(extents) < 0.01 * extents.max()
    lengths = extents[:1] if alike else extents

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
