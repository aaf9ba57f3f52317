"""Learning kernels: bilevel optimisation with a linearised inner problem."""

from kernelpde.bilevel._evaluation import Loss as Loss
from kernelpde.bilevel._evaluation import Parameters as Parameters
from kernelpde.bilevel._evaluation import outer_roots as outer_roots
from kernelpde.bilevel._exact import Objective as Objective
from kernelpde.bilevel._inner import View as View
from kernelpde.bilevel._inner import inner_map as inner_map
from kernelpde.bilevel._learn import Learned as Learned
from kernelpde.bilevel._learn import learn as learn
from kernelpde.bilevel._optimizers import LBFGS as LBFGS
from kernelpde.bilevel._optimizers import Optax as Optax
from kernelpde.bilevel._optimizers import OuterGaussNewtonCG as OuterGaussNewtonCG
from kernelpde.bilevel._optimizers import OuterLevenbergMarquardt as OuterLevenbergMarquardt
from kernelpde.bilevel._optimizers import paper_adam as paper_adam
from kernelpde.bilevel._outer import L1 as L1
from kernelpde.bilevel._outer import L2 as L2
from kernelpde.bilevel._outer import LogNormal as LogNormal
from kernelpde.bilevel._outer import fold_residual as fold_residual
from kernelpde.bilevel._outer import leave_one_out_residual as leave_one_out_residual
from kernelpde.bilevel._record import LearningRecord as LearningRecord
from kernelpde.bilevel._result import LEARNING as LEARNING
from kernelpde.bilevel._validation import Folds as Folds
from kernelpde.bilevel._validation import Fresh as Fresh
from kernelpde.bilevel._validation import HeldOut as HeldOut
from kernelpde.bilevel._validation import Predictive as Predictive
from kernelpde.bilevel._validation import data_conditions as data_conditions
