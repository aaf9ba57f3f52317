"""A problem at u = 0: what is expected there, and whether an iteration can begin."""

import numpy as np

from kernelpde.arrays import array
from kernelpde.errors import InputError
from kernelpde.functionals import gram_diagonal
from kernelpde.problem._balance import at_zero
from kernelpde.problem._collocation import Collocation
from kernelpde.problem._linearized import linearize
from kernelpde.problem._problem import Problem


def refuse_at_zero(problem: Problem, blocks: tuple[Collocation, ...]) -> None:
    """Refuse a problem that an iteration from u = 0 can do nothing with, and say why."""
    advice = "Begin elsewhere, for example start={'u': lambda x: 1.0}."
    for condition, (values, slopes) in zip(
        problem.conditions, at_zero(problem.residuals, blocks), strict=True
    ):
        if not (np.isfinite(values).all() and np.isfinite(slopes).all()):
            what = (
                "its residual" if not np.isfinite(values).all() else "a derivative of its residual"
            )
            raise InputError(
                f"Condition {condition.name!r}: {what} is NaN or infinite at u = 0, where the "
                f"iteration begins. {advice}"
            )
        flat = ~np.asarray(slopes).any(axis=2)
        if flat.any():
            raise InputError(
                f"Condition {condition.name!r}: at u = 0, where the iteration begins, the "
                "derivatives of its residual in all fields are zero at some points, so that no "
                f"step can lower it there. {advice} Signs, steps and rounding have no derivative."
            )


def mean_squares(problem: Problem, number: int, block: Collocation) -> tuple[float, float]:
    """Of a condition linearized at u = 0: what kernels expect of its rows, and what they are."""
    residual = problem.residuals[number]
    zero = array(np.zeros((len(block.points), len(residual.nonlinear))))
    rows = linearize((residual,), (block,), (zero,))
    expected = float(np.mean(np.asarray(gram_diagonal(problem.kernels, rows.batches))))
    return max(expected, 1e-300), float(np.mean(np.asarray(rows.rhs) ** 2))
