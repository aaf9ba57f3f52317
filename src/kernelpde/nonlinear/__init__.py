"""Nonlinear iteration on a discretized problem.

Discretization of a problem, one Gauss-Newton step (section 2.1 of the paper), its damping, the
stopping rule, and the implicit derivative of the converged iterate. `kernelpde.solution` drives the
iteration and packs its result. Imports nothing above `kernelpde.linear_solvers`.
"""

from kernelpde.nonlinear._discretization import Discretization as Discretization
from kernelpde.nonlinear._discretization import Points as Points
from kernelpde.nonlinear._discretization import SolveInputs as SolveInputs
from kernelpde.nonlinear._discretization import discretize as discretize
from kernelpde.nonlinear._discretization import discretize_at as discretize_at
from kernelpde.nonlinear._solvers import MAX_STEPS as MAX_STEPS
from kernelpde.nonlinear._solvers import AbstractNonlinearSolver as AbstractNonlinearSolver
from kernelpde.nonlinear._solvers import GaussNewton as GaussNewton
from kernelpde.nonlinear._solvers import LevenbergMarquardt as LevenbergMarquardt
from kernelpde.nonlinear._solvers import default_solver as default_solver
from kernelpde.nonlinear._state import IterationState as IterationState
from kernelpde.nonlinear._step import linearized_weights as linearized_weights
from kernelpde.nonlinear._step import max_relative_change as max_relative_change
from kernelpde.nonlinear._step import take_step as take_step
from kernelpde.nonlinear._step import zero_iterate as zero_iterate
from kernelpde.nonlinear._transformed import solve_implicitly as solve_implicitly
