"""Selection of a linear solver for a problem."""

import logging
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import equinox as eqx
from jax.sharding import Mesh

from kernelpde.checking import check_integer
from kernelpde.errors import InputError, RankError
from kernelpde.functionals import flatten_mesh
from kernelpde.linear_solvers._cost import (
    MAX_STORED_ROWS,
    dense_cost,
    format_duration,
    low_rank_cost,
)
from kernelpde.linear_solvers._dense import Dense, DenseState
from kernelpde.linear_solvers._low_rank import MIN_ROWS_PER_FUNCTIONAL, LowRank, LowRankState
from kernelpde.linear_solvers._nugget import DEFAULT_NUGGET, MAX_NUGGET
from kernelpde.linear_solvers._protocol import AbstractLinearSolver, AbstractLinearSolverState
from kernelpde.linear_solvers._sparse import Sparse
from kernelpde.problem import DiscreteProblem

MAX_DENSE_ROWS = 12_000
"""Number of rows up to which a dense factorization takes at most a minute."""


class Automatic(AbstractLinearSolver):
    """Dense solver for small systems, and otherwise a solver that matches the kernel.

    Up to `dense_rows` rows, `Dense` is used. Beyond that the rank of the Gram matrix at the nugget
    is computed. `LowRank` is used if the rank is small. Otherwise `Sparse` is used if there are
    more than `max_dense_rows` rows.

    **Arguments:** as for `Dense`, and

    - `dense_rows`: number of rows up to which the rank is not computed.
    - `max_dense_rows`: number of rows up to which the dense solver is preferred to the sparse one.
    - `mesh`: devices that share the work of a large system, from
      `jax.make_mesh((8,), ("rows",))`. Every process calls with the same arguments.

    **Example:**

    ```python
    >>> kp.solve(problem, points, linear_solver=kp.Automatic(nugget=1e-10)).linear_solver_message
    'Dense solver: 32 rows.'
    ```
    """

    capabilities: ClassVar[frozenset[str]] = frozenset({"folds", "left out", "covariance"})

    nugget: float = DEFAULT_NUGGET
    max_nugget: float = MAX_NUGGET
    refinement_sweeps: int = eqx.field(static=True, default=2)
    mesh: Mesh | None = eqx.field(static=True, default=None, repr=False, converter=flatten_mesh)
    dense_rows: int = eqx.field(static=True, default=MAX_STORED_ROWS, repr=False)
    max_dense_rows: int = eqx.field(static=True, default=MAX_DENSE_ROWS, repr=False)

    def __check_init__(self):
        for name in ("refinement_sweeps", "dense_rows", "max_dense_rows"):
            check_integer("Automatic", name, getattr(self, name), at_least=0)

    def init(self, problem: DiscreteProblem) -> AbstractLinearSolverState:
        return self.select(problem, learning=False, needs=frozenset())[0]

    def needs_concrete_kernels(self, num_rows: int) -> bool:
        return num_rows > self.dense_rows

    def select(
        self, problem: DiscreteProblem, *, learning: bool, needs: frozenset[str]
    ) -> tuple[AbstractLinearSolverState, str]:
        num_rows = problem.num_rows
        dense = DenseState(Dense(self.nugget, self.max_nugget, self.refinement_sweeps))
        if num_rows <= self.dense_rows or not needs <= LowRank.capabilities:
            return dense, ""
        low_rank = LowRank(self.nugget, self.max_nugget, mesh=self.mesh)
        inducing = low_rank.select_inducing(problem)
        if inducing.spans_all and num_rows >= MIN_ROWS_PER_FUNCTIONAL * inducing.rank:
            return LowRankState.from_inducing(low_rank, inducing), ""
        nugget = float(self.nugget)
        rank = f"rank {inducing.describe_rank()} of {num_rows} at nugget {nugget:.0e}"
        is_local = (
            needs <= Sparse.capabilities and not problem.has_averages and not problem.uses_laws
        )
        if num_rows > self.max_dense_rows and not inducing.spans_all and is_local:
            sparse = Sparse(self.nugget, self.max_nugget, mesh=self.mesh)
            return sparse.init(problem), rank
        if not dense_cost(num_rows, learning=learning).fits_in_memory:
            raise RankError(
                f"No solver is applicable to {num_rows} rows with this kernel: a dense matrix "
                f"exceeds the memory, and the rank is too large for LowRank ({rank}). Use fewer "
                "points, a smoother kernel, a longer lengthscale or a larger nugget."
            )
        return dense, rank


LinearSolver: TypeAlias = Automatic | Dense | LowRank | Sparse
"""Linear solvers that `solve` and `learn` accept."""


@dataclass(frozen=True)
class SolverChoice:
    """Selected solver.

    **Attributes:**

    - `solver_state`: state of the solver for the problem.
    - `message`: solver type and the reason of the selection.
    - `seconds`: estimated time of a step, `None` for few rows.
    """

    solver_state: AbstractLinearSolverState
    message: str
    seconds: float | None = None

    def log_message(self) -> None:
        """Log the message if the time of a step was estimated."""
        if self.seconds is not None:
            logging.getLogger("kernelpde.linear_solvers").info(self.message)


def describe_automatic(num_rows: int) -> str:
    """Describe the solvers that `Automatic` selects for a number of rows."""
    if num_rows <= MAX_STORED_ROWS:
        return "dense"
    fallback = "sparse" if num_rows > MAX_DENSE_ROWS else "dense"
    rank = min(num_rows // MIN_ROWS_PER_FUNCTIONAL, LowRank().max_rank)
    gigabytes = low_rank_cost(num_rows, rank).bytes / 1e9
    return (
        f"low rank if the rank of the Gram matrix at the nugget is at most {rank} "
        f"(memory {gigabytes:.2g} GB), {fallback} if it is not"
    )


def choose_solver(
    solver: LinearSolver,
    problem: DiscreteProblem,
    *,
    learning: bool = False,
    needs: frozenset[str] = frozenset(),
) -> SolverChoice:
    """Select a solver and initialize its state, or raise an error if it is not applicable.

    **Arguments:**

    - `solver`: requested solver.
    - `problem`: prior and conditions at their points.
    - `learning`: whether derivatives in the kernels are required.
    - `needs`: required capabilities.
    """
    if not needs <= solver.capabilities:
        raise InputError(
            f"{type(solver).__name__}: this solver has no inverse. Folds require Dense(). The "
            "density of data and standard deviations require Dense() or LowRank(). HeldOut() and "
            "Resampled() points work with every solver."
        )
    num_rows = problem.num_rows
    state, detail = solver.select(problem, learning=learning, needs=needs)
    state.check_size(num_rows, learning=learning)
    message = state.describe(num_rows) + (f", {detail}." if detail else ".")
    if num_rows <= MAX_STORED_ROWS:
        return SolverChoice(state, message)
    num_devices = 1 if solver.mesh is None or state.forms_matrix else solver.mesh.size
    seconds = state.cost(num_rows, learning=learning).seconds(num_devices, learning=learning)
    message = f"{message} Estimated time per step: {format_duration(seconds)}."
    return SolverChoice(state, message, seconds)
