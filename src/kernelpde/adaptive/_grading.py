"""Grading of points and lengthscales towards small-scale features of a solution.

At a reentrant corner with interior angle ω > π a solution behaves like r^(π/ω). It is not in the
RKHS of a stationary kernel that can solve a second-order equation: with uniformly refined points
the solution converges to a wrong limit. With lengthscales and spacings in proportion to r the
problem is the same at every scale, and the solution converges to the correct limit. The same holds
near small holes and fillets, down to their radius.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from kernelpde.geometry import GradingCenters, SizeField, bounding_box, find_grading_centers
from kernelpde.kernels import AbstractRadial, Gibbs, SizeFieldLengthscale
from kernelpde.problem import Condition, Problem, singular_corners

_MIN_SIZE_FACTOR = 0.1
"""Smallest size relative to the accuracy. Cutting off r^a at a size s changes the solution
elsewhere by about s^(2a), and a is at least one half."""

_SAME_UNIT_RATIO = 30.0
"""Ratio of extents up to which coordinates are assumed to have the same unit. Size fields are
isotropic in such coordinates, and scaled by coordinate otherwise."""


def grading_centers(problem: Problem) -> GradingCenters:
    """Return the points near which solutions are likely to vary on a small scale.

    Corners with singular functions are not among them.
    """
    exact = [c.region for c in problem.conditions if not c.noise_std.any()]
    return find_grading_centers(exact).without(singular_corners(problem))


def grade_problem(problem: Problem, centers: GradingCenters, accuracy: float) -> Problem:
    """Grade the points and lengthscales of a problem towards grading centers.

    Residuals are multiplied by Hᵐ, with the size field H and the highest order m of their
    derivatives, so that they have the same magnitude at every scale.
    """
    box = bounding_box([condition.region for condition in problem.conditions])
    extents = np.ptp(box, axis=1)
    if np.ptp(extents) < 0.01 * extents.max():
        lengths = extents[:1]
    elif extents.max() < _SAME_UNIT_RATIO * extents.min():
        # In coordinates of the same unit size fields are isotropic.
        lengths = extents.min(keepdims=True)
        box = box[:, :1] + np.array([0.0, lengths[0]])
    else:
        lengths = extents
    radii = np.maximum(_MIN_SIZE_FACTOR * accuracy, centers.radii / lengths.min())
    size_field = SizeField.from_centers(centers.points, radii, box)

    graded_kernel = Gibbs(SizeFieldLengthscale(lengths, size_field))
    conditions = [
        _grade_condition(
            condition, max((term.order for term in residual.terms), default=0), size_field
        )
        for condition, residual in zip(problem.conditions, problem.residuals, strict=True)
    ]
    kernels = [
        graded_kernel if isinstance(field.kernel, AbstractRadial) else field.kernel
        for field in problem.fields
    ]
    return problem.with_conditions(conditions).with_kernels(kernels)


def _grade_condition(condition: Condition, order: int, size_field: SizeField) -> Condition:
    residual = condition.residual
    if order:
        residual = _ScaledResidual(residual, size_field, order)
    region = condition.region.with_size_field(size_field)
    return replace(condition, region=region, residual=residual)


@dataclass(frozen=True, eq=False)
class _ScaledResidual:
    """A residual multiplied by a power of the size field."""

    residual: Callable[..., Any]
    size_field: SizeField
    order: int

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        """The user's function, whose arguments and source location apply."""
        return self.residual

    def __call__(self, x: Array, *arguments: Any) -> Any:
        scale = self.size_field(x) ** self.order
        return jax.tree.map(lambda value: scale * value, self.residual(x, *arguments))
