"""Bilevel optimization with a linearized inner problem, section 2 of the paper.

`minimize` learns hyperparameters θ of any inner problem that can be linearized into regularized
least squares. An inner problem subclasses `AbstractInnerProblem`, an outer criterion
`AbstractResidualCriterion` or `AbstractCriterion`. `problems` has two small inner problems.
`kernelpde.learning` has collocation, with `Run`, `Task` and `State` for sequences of optimizations.
"""

from kernelpde.bilevel._checkpoint import CheckpointStore as CheckpointStore
from kernelpde.bilevel._checkpoint import read_checkpoint_metadata as read_checkpoint_metadata
from kernelpde.bilevel._minimize import Learned as Learned
from kernelpde.bilevel._minimize import Run as Run
from kernelpde.bilevel._minimize import default_optimizer as default_optimizer
from kernelpde.bilevel._minimize import minimize as minimize
from kernelpde.bilevel._optimizers import LBFGS as LBFGS
from kernelpde.bilevel._optimizers import AbstractOptimizer as AbstractOptimizer
from kernelpde.bilevel._optimizers import Evaluation as Evaluation
from kernelpde.bilevel._optimizers import GaussNewtonCG as GaussNewtonCG
from kernelpde.bilevel._optimizers import LevenbergMarquardt as LevenbergMarquardt
from kernelpde.bilevel._optimizers import Optax as Optax
from kernelpde.bilevel._optimizers import paper_adam as paper_adam
from kernelpde.bilevel._protocol import AbstractCriterion as AbstractCriterion
from kernelpde.bilevel._protocol import AbstractInnerProblem as AbstractInnerProblem
from kernelpde.bilevel._protocol import AbstractLinearizedProblem as AbstractLinearizedProblem
from kernelpde.bilevel._protocol import AbstractResidualCriterion as AbstractResidualCriterion
from kernelpde.bilevel._protocol import Derivatives as Derivatives
from kernelpde.bilevel._protocol import InnerStep as InnerStep
from kernelpde.bilevel._protocol import Objective as Objective
from kernelpde.bilevel._protocol import damped_direction as damped_direction
from kernelpde.bilevel._protocol import loss_and_curvature as loss_and_curvature
from kernelpde.bilevel._protocol import loss_and_gradient as loss_and_gradient
from kernelpde.bilevel._protocol import loss_and_solution as loss_and_solution
from kernelpde.bilevel._protocol import outer_loss as outer_loss
from kernelpde.bilevel._protocol import outer_residual as outer_residual
from kernelpde.bilevel._regularizers import L1 as L1
from kernelpde.bilevel._regularizers import L2 as L2
from kernelpde.bilevel._regularizers import AbstractRegularizer as AbstractRegularizer
from kernelpde.bilevel._regularizers import GaussianPrior as GaussianPrior
from kernelpde.bilevel._regularizers import LogNormal as LogNormal
from kernelpde.bilevel._regularizers import RelativePrior as RelativePrior
from kernelpde.bilevel._state import Record as Record
from kernelpde.bilevel._state import Starts as Starts
from kernelpde.bilevel._state import State as State
from kernelpde.bilevel._state import Task as Task
from kernelpde.bilevel._state import init as init
from kernelpde.bilevel._step import EvaluationLog as EvaluationLog
from kernelpde.bilevel._step import linearize as linearize
from kernelpde.bilevel._step import make_evaluate as make_evaluate
from kernelpde.bilevel._step import step as step
