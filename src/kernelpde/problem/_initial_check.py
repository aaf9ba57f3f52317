"""Linearization at u = 0: checks before the first iteration, and the scales of rows."""

import numpy as np

from kernelpde.arrays import TINY
from kernelpde.errors import InputError
from kernelpde.functionals import gram_diagonal
from kernelpde.problem._discrete import DiscreteCondition, DiscreteProblem
from kernelpde.problem._field_scales import linearize_at_zero
from kernelpde.problem._point_set import PointSet
from kernelpde.problem._problem import Problem


def check_at_zero(problem: Problem, point_sets: tuple[PointSet, ...]) -> None:
    """Check that an iteration can start from u = 0: residuals are finite and have derivatives."""
    advice = "Choose another initial guess, for example start={'u': lambda x: 1.0}."
    linearizations = linearize_at_zero(problem.at_points(point_sets).conditions)
    for name, (values, jacobian) in problem.by_condition(linearizations).items():
        caller = f"Condition {name!r}"
        for label, array in (("its residual", values), ("a derivative of its residual", jacobian)):
            if not np.isfinite(array).all():
                raise InputError(
                    f"{caller}: {label} is NaN or infinite at u = 0, the initial guess. {advice}"
                )
        if not np.asarray(jacobian).any(axis=2).all():
            raise InputError(
                f"{caller}: at u = 0, the initial guess, the derivatives of its residual in all "
                "fields are zero at some points, so that no step reduces it. Signs, step functions "
                f"and rounding have no derivative. {advice}"
            )


def prior_and_data_mean_square(
    problem: Problem, condition: int, point_set: PointSet
) -> tuple[float, float]:
    """Return the mean prior variance and mean square of the rows of a condition at u = 0."""
    discrete = DiscreteCondition(problem.residuals[condition], point_set)
    system = DiscreteProblem(problem.prior, (discrete,)).linearize((discrete.zero_jets(),))
    prior_variance = float(np.mean(np.asarray(gram_diagonal(problem.prior, system.batches))))
    return max(prior_variance, TINY), float(np.mean(np.asarray(system.rhs) ** 2))
