"""Solving problems with given kernels."""

from kernelpde.solve._arguments import check_common as check_common
from kernelpde.solve._arguments import check_method as check_method
from kernelpde.solve._arguments import check_problem as check_problem
from kernelpde.solve._arguments import check_solution as check_solution
from kernelpde.solve._arguments import check_solver as check_solver
from kernelpde.solve._persistence import load_solution as load_solution
from kernelpde.solve._persistence import save_solution as save_solution
from kernelpde.solve._persistence import solution_notes as solution_notes
from kernelpde.solve._pictures import field_names as field_names
from kernelpde.solve._pictures import grid_of as grid_of
from kernelpde.solve._result import RESULT as RESULT
from kernelpde.solve._solution import FieldView as FieldView
from kernelpde.solve._solution import History as History
from kernelpde.solve._solution import Record as Record
from kernelpde.solve._solution import Solution as Solution
from kernelpde.solve._solve import GaussNewton as GaussNewton
from kernelpde.solve._solve import LevenbergMarquardt as LevenbergMarquardt
from kernelpde.solve._solve import cycles as cycles
from kernelpde.solve._solve import solve as solve
from kernelpde.solve._step import Outcome as Outcome
from kernelpde.solve._step import State as State
from kernelpde.solve._step import take_step as take_step
from kernelpde.solve._step import true_residual as true_residual
from kernelpde.solve._step import zero_state as zero_state
