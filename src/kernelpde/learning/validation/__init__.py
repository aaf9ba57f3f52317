"""Outer losses of learning: held-out points, folds, predictive density of data, evidence.

`HeldOut`, `Resampled`, `KFold`, `LeaveOneOutPredictive`, `Evidence` and `KernelFlow` are public.
`learning` also uses `AbstractValidation`, `LearningPoints`, `HeldOutRows`, `data_conditions` and
`default_validation`.
"""

from kernelpde.kernels import find_gibbs
from kernelpde.learning.validation._evidence import Evidence as Evidence
from kernelpde.learning.validation._evidence import KernelFlow as KernelFlow
from kernelpde.learning.validation._held_out import HeldOut as HeldOut
from kernelpde.learning.validation._held_out import Resampled as Resampled
from kernelpde.learning.validation._held_out import can_hold_out_points
from kernelpde.learning.validation._k_fold import KFold as KFold
from kernelpde.learning.validation._predictive import (
    LeaveOneOutPredictive as LeaveOneOutPredictive,
)
from kernelpde.learning.validation._predictive import data_conditions as data_conditions
from kernelpde.learning.validation._validation import AbstractValidation as AbstractValidation
from kernelpde.learning.validation._validation import HeldOutRows as HeldOutRows
from kernelpde.learning.validation._validation import LearningPoints as LearningPoints
from kernelpde.linear_solvers import LinearSolver
from kernelpde.problem import PointSet, Problem


def default_validation(
    problem: Problem, point_sets: tuple[PointSet, ...], solver: LinearSolver
) -> AbstractValidation:
    """Return the density of noisy data, else held-out points, else folds of the training points.

    Held-out residuals are standardized if the matrix is certain to be formed and lengthscales do
    not vary over the domain. For the eikonal equation with varying lengthscales the error was
    7.1e-3 with standardization and 2.2e-3 without (medians of five seeds). A possible cause, not
    investigated, is that short lengthscales reduce the weight of large residuals.
    """
    if data_conditions(problem):
        return LeaveOneOutPredictive()
    if not can_hold_out_points(problem, point_sets):
        return KFold()
    num_rows = problem.at_points(point_sets).num_rows
    forms_matrix = not solver.needs_concrete_kernels(num_rows)
    return HeldOut(standardized=forms_matrix and not find_gibbs(problem.prior))
