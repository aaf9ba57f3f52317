"""Where the outer loss is measured: points of its own, folds of the training points, or data."""

from kernelpde.kernels import gibbs_in
from kernelpde.learning.validation._evidence import Evidence as Evidence
from kernelpde.learning.validation._evidence import KernelFlow as KernelFlow
from kernelpde.learning.validation._held_out import HeldOut as HeldOut
from kernelpde.learning.validation._held_out import Resampled as Resampled
from kernelpde.learning.validation._held_out import can_hold_out as can_hold_out
from kernelpde.learning.validation._k_fold import KFold as KFold
from kernelpde.learning.validation._plan import AbstractValidation as AbstractValidation
from kernelpde.learning.validation._plan import Left as Left
from kernelpde.learning.validation._plan import Points as Points
from kernelpde.learning.validation._predictive import (
    LeaveOneOutPredictive as LeaveOneOutPredictive,
)
from kernelpde.learning.validation._predictive import data_conditions as data_conditions
from kernelpde.linear_solvers import LinearSolver, needs_numbers
from kernelpde.problem import Collocation, Problem


def default_validation(
    problem: Problem, blocks: tuple[Collocation, ...], solver: LinearSolver
) -> AbstractValidation:
    """The density of noisy data; without any, points held out; where there are none, folds.

    Residuals at points held out are standardized where the matrix is sure to be formed, unless
    lengthscales vary from place to place: with it the error of the eikonal equation was 7.1e-3,
    without 2.2e-3 (medians of five seeds). Presumably lengthscales become short where residuals are
    large, for these to count less; that was not looked at.
    """
    if data_conditions(problem):
        return LeaveOneOutPredictive()
    if not can_hold_out(problem, blocks):
        return KFold()
    formed = not needs_numbers(solver, problem.row_count(blocks))
    return HeldOut(standardized=formed and not gibbs_in(problem.kernels))
