"""Kernel learning: bilevel optimization with a linearized inner problem, section 2 of the paper.

`learn` and its settings, results, optimizers and regularizers are public. Other packages also use
`ThetaMap`, `data_conditions` and `shorten_until_resolved`. The inner problem `Collocation`, the
criteria and the phases are exported for tests and benchmarks. `validation` contains the outer
losses.
"""

from kernelpde.bilevel import L1 as L1
from kernelpde.bilevel import L2 as L2
from kernelpde.bilevel import LBFGS as LBFGS
from kernelpde.bilevel import GaussNewtonCG as GaussNewtonCG
from kernelpde.bilevel import LevenbergMarquardt as LevenbergMarquardt
from kernelpde.bilevel import LogNormal as LogNormal
from kernelpde.bilevel import Optax as Optax
from kernelpde.bilevel import paper_adam as paper_adam
from kernelpde.learning._collocation import Collocation as Collocation
from kernelpde.learning._collocation import split_points as split_points
from kernelpde.learning._finishing import shorten_until_resolved as shorten_until_resolved
from kernelpde.learning._inner_step import LinearizationPoint as LinearizationPoint
from kernelpde.learning._learn import learn as learn
from kernelpde.learning._learned import LearningResult as LearningResult
from kernelpde.learning._linearized import LinearizedCollocation as LinearizedCollocation
from kernelpde.learning._linearized import prediction_std as prediction_std
from kernelpde.learning._linearized import solve_inner as solve_inner
from kernelpde.learning._method import Bilevel as Bilevel
from kernelpde.learning._method import CheckpointFile as CheckpointFile
from kernelpde.learning._method import FinalSolve as FinalSolve
from kernelpde.learning._outer import CollocationResidual as CollocationResidual
from kernelpde.learning._outer import fold_residual as fold_residual
from kernelpde.learning._outer import kernel_flow as kernel_flow
from kernelpde.learning._outer import leave_one_out_residual as leave_one_out_residual
from kernelpde.learning._outer import marginal_likelihood as marginal_likelihood
from kernelpde.learning._outer import predictive_density as predictive_density
from kernelpde.learning._outer import squared_error as squared_error
from kernelpde.learning._phases import Phase as Phase
from kernelpde.learning._phases import Setup as Setup
from kernelpde.learning._phases import build_collocation as build_collocation
from kernelpde.learning._phases import build_task as build_task
from kernelpde.learning._phases import final_solve as final_solve
from kernelpde.learning._phases import with_state_priors as with_state_priors
from kernelpde.learning._predictive import DataDensity as DataDensity
from kernelpde.learning._predictive import sequential_predictor as sequential_predictor
from kernelpde.learning._record import LearningHistory as LearningHistory
from kernelpde.learning._record import LearningRecord as LearningRecord
from kernelpde.learning._starts import starts_at_zero as starts_at_zero
from kernelpde.learning._starts import subsample as subsample
from kernelpde.learning._starts import weak_prior as weak_prior
from kernelpde.learning._state_fields import prior_penalty as prior_penalty
from kernelpde.learning._state_fields import state_fields as state_fields
from kernelpde.learning._state_fields import with_large_state_variance as with_large_state_variance
from kernelpde.learning._stationary_start import stationary_prior as stationary_prior
from kernelpde.learning._stationary_start import (
    with_varying_lengthscales as with_varying_lengthscales,
)
from kernelpde.learning._theta_map import ThetaMap as ThetaMap
from kernelpde.learning.validation import Evidence as Evidence
from kernelpde.learning.validation import HeldOut as HeldOut
from kernelpde.learning.validation import KernelFlow as KernelFlow
from kernelpde.learning.validation import KFold as KFold
from kernelpde.learning.validation import LeaveOneOutPredictive as LeaveOneOutPredictive
from kernelpde.learning.validation import Resampled as Resampled
from kernelpde.learning.validation import data_conditions as data_conditions
from kernelpde.learning.validation import default_validation as default_validation
