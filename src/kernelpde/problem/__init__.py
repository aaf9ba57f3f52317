"""Problems: unknowns, conditions, traced residuals, point sets and linearized systems.

A condition is a residual at collocation points. Linearized at an iterate it gives functionals Φ of
the fields, the linear systems of section 2 of the paper. Users import these names from `kernelpde`.
Other packages may import all names below.
"""

from kernelpde.problem._condition import Condition as Condition
from kernelpde.problem._corners import add_corner_functions as add_corner_functions
from kernelpde.problem._corners import singular_corners as singular_corners
from kernelpde.problem._discrete import Conditions as Conditions
from kernelpde.problem._discrete import DiscreteCondition as DiscreteCondition
from kernelpde.problem._discrete import DiscreteProblem as DiscreteProblem
from kernelpde.problem._discrete import JetValues as JetValues
from kernelpde.problem._discrete import linearize as linearize
from kernelpde.problem._discrete import nonlinear_residual as nonlinear_residual
from kernelpde.problem._equation import ResidualTracer as ResidualTracer
from kernelpde.problem._field_scales import coordinate_extents as coordinate_extents
from kernelpde.problem._fields import ComplexField as ComplexField
from kernelpde.problem._fields import Field as Field
from kernelpde.problem._fields import Law as Law
from kernelpde.problem._fields import Parameter as Parameter
from kernelpde.problem._fields import Unknowns as Unknowns
from kernelpde.problem._fields import original_kernel as original_kernel
from kernelpde.problem._grid import field_names as field_names
from kernelpde.problem._grid import problem_grid as problem_grid
from kernelpde.problem._initial_check import check_at_zero as check_at_zero
from kernelpde.problem._initial_check import (
    prior_and_data_mean_square as prior_and_data_mean_square,
)
from kernelpde.problem._integral import integral as integral
from kernelpde.problem._linear_system import LinearSystem as LinearSystem
from kernelpde.problem._noise import LearnedNoise as LearnedNoise
from kernelpde.problem._noise import StudentT as StudentT
from kernelpde.problem._parameters_as_inputs import declared_unknowns as declared_unknowns
from kernelpde.problem._parameters_as_inputs import parameters_as_inputs as parameters_as_inputs
from kernelpde.problem._persistence import check_structure as check_structure
from kernelpde.problem._persistence import kernel_arrays as kernel_arrays
from kernelpde.problem._persistence import kernel_fingerprint as kernel_fingerprint
from kernelpde.problem._persistence import load_kernels as load_kernels
from kernelpde.problem._persistence import residual_fingerprint as residual_fingerprint
from kernelpde.problem._persistence import save_kernels as save_kernels
from kernelpde.problem._persistence import unscaled_prior as unscaled_prior
from kernelpde.problem._persistence import with_kernel_arrays as with_kernel_arrays
from kernelpde.problem._persistence import with_stored_corners as with_stored_corners
from kernelpde.problem._point_set import PointSet as PointSet
from kernelpde.problem._problem import Problem as Problem
from kernelpde.problem._residual import Residual as Residual
from kernelpde.problem._residual import trace_residual as trace_residual
