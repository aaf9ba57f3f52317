"""Linear solvers for linearized systems: dense, low-rank and sparse.

A solver (`Dense`, `LowRank`, `Sparse`, or `Automatic`, which selects one of them) initializes a
state, and the state computes solutions; see `AbstractLinearSolver`. They solve the minimum-norm
problem of each Gauss-Newton step of the paper. Import the names below, never from submodules.
"""

from kernelpde.linear_solvers._choice import MAX_DENSE_ROWS as MAX_DENSE_ROWS
from kernelpde.linear_solvers._choice import Automatic as Automatic
from kernelpde.linear_solvers._choice import LinearSolver as LinearSolver
from kernelpde.linear_solvers._choice import SolverChoice as SolverChoice
from kernelpde.linear_solvers._choice import choose_solver as choose_solver
from kernelpde.linear_solvers._choice import describe_automatic as describe_automatic
from kernelpde.linear_solvers._cholesky import cholesky as cholesky
from kernelpde.linear_solvers._cholesky import cholesky_solve as cholesky_solve
from kernelpde.linear_solvers._cholesky import generic_cholesky as generic_cholesky
from kernelpde.linear_solvers._cholesky import lapack_cholesky as lapack_cholesky
from kernelpde.linear_solvers._cholesky import pivoted_cholesky as pivoted_cholesky
from kernelpde.linear_solvers._cholesky import restore_matrix as restore_matrix
from kernelpde.linear_solvers._cost import dense_cost as dense_cost
from kernelpde.linear_solvers._cost import flops_per_second as flops_per_second
from kernelpde.linear_solvers._cost import format_duration as format_duration
from kernelpde.linear_solvers._dense import Dense as Dense
from kernelpde.linear_solvers._dense import DenseSolution as DenseSolution
from kernelpde.linear_solvers._dense import DenseState as DenseState
from kernelpde.linear_solvers._dense_factor import DenseFactor as DenseFactor
from kernelpde.linear_solvers._dense_factor import factorize as factorize
from kernelpde.linear_solvers._factor import factorize_sparse as factorize_sparse
from kernelpde.linear_solvers._factor import precision_times as precision_times
from kernelpde.linear_solvers._leave_one_out import AbstractLeaveOneOut as AbstractLeaveOneOut
from kernelpde.linear_solvers._leave_one_out import KernelsAndRows as KernelsAndRows
from kernelpde.linear_solvers._local import LocalExpansion as LocalExpansion
from kernelpde.linear_solvers._local import NeighborGroups as NeighborGroups
from kernelpde.linear_solvers._low_rank import LowRank as LowRank
from kernelpde.linear_solvers._low_rank import LowRankState as LowRankState
from kernelpde.linear_solvers._metric import ScaledCoordinates as ScaledCoordinates
from kernelpde.linear_solvers._nugget import DEFAULT_NUGGET as DEFAULT_NUGGET
from kernelpde.linear_solvers._nugget import LEARNING_NUGGET as LEARNING_NUGGET
from kernelpde.linear_solvers._nugget import MAX_NUGGET as MAX_NUGGET
from kernelpde.linear_solvers._nugget import MIN_NUGGET as MIN_NUGGET
from kernelpde.linear_solvers._ordering import Level as Level
from kernelpde.linear_solvers._ordering import levels as levels
from kernelpde.linear_solvers._protocol import AbstractLinearSolution as AbstractLinearSolution
from kernelpde.linear_solvers._protocol import AbstractLinearSolver as AbstractLinearSolver
from kernelpde.linear_solvers._protocol import (
    AbstractLinearSolverState as AbstractLinearSolverState,
)
from kernelpde.linear_solvers._protocol import split_tangents as split_tangents
from kernelpde.linear_solvers._sparse import Sparse as Sparse
from kernelpde.linear_solvers._sparse import SparseState as SparseState
from kernelpde.linear_solvers._supernodes import make_pattern as make_pattern
