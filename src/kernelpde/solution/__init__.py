"""`solve` at given points, and the `Solution` that it returns.

Evaluation of fields, test residuals, the error estimate, and the files of a solution. `solve`
drives the iteration of `kernelpde.nonlinear` (section 2.1 of the paper). `kernelpde.adaptive`
refines to a target accuracy. Solutions plot by `kernelpde.plotting` and export by `kernelpde.io`.
"""

from kernelpde.solution._arguments import check_common as check_common
from kernelpde.solution._arguments import check_linear_solver as check_linear_solver
from kernelpde.solution._arguments import check_point_sets as check_point_sets
from kernelpde.solution._arguments import check_problem as check_problem
from kernelpde.solution._arguments import check_solution as check_solution
from kernelpde.solution._arguments import check_solver as check_solver
from kernelpde.solution._corner_terms import CornerTerm as CornerTerm
from kernelpde.solution._error import AbstractErrorEstimate as AbstractErrorEstimate
from kernelpde.solution._error import ErrorEstimate as ErrorEstimate
from kernelpde.solution._error import FieldError as FieldError
from kernelpde.solution._error import Perturbation as Perturbation
from kernelpde.solution._error import estimate_error as estimate_error
from kernelpde.solution._error import evaluation_points as evaluation_points
from kernelpde.solution._error import solve_linearized as solve_linearized
from kernelpde.solution._evaluation import evaluate_residual as evaluate_residual
from kernelpde.solution._exportable import Exportable as Exportable
from kernelpde.solution._history import SolveHistory as SolveHistory
from kernelpde.solution._history import SolveRecord as SolveRecord
from kernelpde.solution._misfit import nugget_misfit as nugget_misfit
from kernelpde.solution._misfit import squared_norm as squared_norm
from kernelpde.solution._persistence import load_solution as load_solution
from kernelpde.solution._persistence import save_solution as save_solution
from kernelpde.solution._persistence import solution_notes as solution_notes
from kernelpde.solution._solution import Solution as Solution
from kernelpde.solution._solve import solve as solve
from kernelpde.solution._start import Start as Start
from kernelpde.solution._start import initial_jets as initial_jets
from kernelpde.solution._test_residuals import midpoints as midpoints
from kernelpde.solution._views import FieldSource as FieldSource
from kernelpde.solution._views import FieldView as FieldView
from kernelpde.solution._views import LawView as LawView
