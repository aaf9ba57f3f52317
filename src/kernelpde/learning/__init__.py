"""Kernel learning: bilevel optimization with a linearized inner problem, section 2 of the paper.

`learn` and its settings, results, optimizers and regularizers are public. Other packages also use
`ThetaMap`, `data_conditions`, `shorten_until_resolved` and `read_checkpoint_metadata`. The inner
and outer problems, the criteria and the steps of a run are exported for tests and benchmarks.
`validation` contains the outer losses.
"""

from kernelpde.learning._checkpoint import read_checkpoint_metadata as read_checkpoint_metadata
from kernelpde.learning._evaluation import Loss as Loss
from kernelpde.learning._evaluation import ThetaMap as ThetaMap
from kernelpde.learning._evaluation import batched_losses as batched_losses
from kernelpde.learning._evaluation import damped_direction as damped_direction
from kernelpde.learning._evaluation import density_and_curvature as density_and_curvature
from kernelpde.learning._evaluation import loss_and_curvature as loss_and_curvature
from kernelpde.learning._evaluation import loss_and_gradient as loss_and_gradient
from kernelpde.learning._evaluation import loss_and_state as loss_and_state
from kernelpde.learning._evaluation import outer_loss as outer_loss
from kernelpde.learning._evaluation import outer_residual as outer_residual
from kernelpde.learning._evaluation import prediction_std as prediction_std
from kernelpde.learning._finishing import shorten_until_resolved as shorten_until_resolved
from kernelpde.learning._inner import LinearizationPoint as LinearizationPoint
from kernelpde.learning._inner import solve_inner as solve_inner
from kernelpde.learning._learn import learn as learn
from kernelpde.learning._learned import LearningResult as LearningResult
from kernelpde.learning._method import Bilevel as Bilevel
from kernelpde.learning._method import CheckpointFile as CheckpointFile
from kernelpde.learning._method import FinalSolve as FinalSolve
from kernelpde.learning._optimizers import LBFGS as LBFGS
from kernelpde.learning._optimizers import Evaluation as Evaluation
from kernelpde.learning._optimizers import GaussNewtonCG as GaussNewtonCG
from kernelpde.learning._optimizers import LevenbergMarquardt as LevenbergMarquardt
from kernelpde.learning._optimizers import Optax as Optax
from kernelpde.learning._optimizers import paper_adam as paper_adam
from kernelpde.learning._outer import L1 as L1
from kernelpde.learning._outer import L2 as L2
from kernelpde.learning._outer import LogNormal as LogNormal
from kernelpde.learning._outer import fold_residual as fold_residual
from kernelpde.learning._outer import kernel_flow as kernel_flow
from kernelpde.learning._outer import leave_one_out_residual as leave_one_out_residual
from kernelpde.learning._outer import marginal_likelihood as marginal_likelihood
from kernelpde.learning._outer import predictive_density as predictive_density
from kernelpde.learning._outer import squared_error as squared_error
from kernelpde.learning._predictive import sequential_predictor as sequential_predictor
from kernelpde.learning._record import LearningHistory as LearningHistory
from kernelpde.learning._record import LearningRecord as LearningRecord
from kernelpde.learning._result import RESULTS as RESULTS
from kernelpde.learning._starting import compare_starts as compare_starts
from kernelpde.learning._starting import subsample as subsample
from kernelpde.learning._starts import weak_prior as weak_prior
from kernelpde.learning._state import init as init
from kernelpde.learning._state_fields import prior_penalty as prior_penalty
from kernelpde.learning._state_fields import state_fields as state_fields
from kernelpde.learning._state_fields import with_large_state_variance as with_large_state_variance
from kernelpde.learning._stationary_start import stationary_prior as stationary_prior
from kernelpde.learning._stationary_start import (
    with_varying_lengthscales as with_varying_lengthscales,
)
from kernelpde.learning._task import LearningOptions as LearningOptions
from kernelpde.learning._task import LearningTask as LearningTask
from kernelpde.learning.validation import Evidence as Evidence
from kernelpde.learning.validation import HeldOut as HeldOut
from kernelpde.learning.validation import KernelFlow as KernelFlow
from kernelpde.learning.validation import KFold as KFold
from kernelpde.learning.validation import LeaveOneOutPredictive as LeaveOneOutPredictive
from kernelpde.learning.validation import Resampled as Resampled
from kernelpde.learning.validation import data_conditions as data_conditions
from kernelpde.learning.validation import default_validation as default_validation
