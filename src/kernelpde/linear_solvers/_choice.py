"""Which solver a problem gets, and why."""

import logging
from dataclasses import dataclass, replace
from typing import ClassVar, TypeAlias

import equinox as eqx
from jax.sharding import Mesh

from kernelpde.checking import whole_number
from kernelpde.errors import InputError, RankError
from kernelpde.functionals import Kernels, one_axis
from kernelpde.linear_solvers._cost import in_words, operations_per_second
from kernelpde.linear_solvers._dense import DenseState
from kernelpde.linear_solvers._dense_factor import Dense, check_nuggets
from kernelpde.linear_solvers._low_rank import LowRank, LowRankState
from kernelpde.linear_solvers._pivots import Pivots
from kernelpde.linear_solvers._sparse import Sparse
from kernelpde.linear_solvers._system import AbstractLinearSolverState
from kernelpde.memory import LEARN, SOLVE, fits, require_bytes, require_memory
from kernelpde.problem import Collocation, Residual

_SMALL = 6000
"""Number of rows up to which nothing is measured: a dense factor takes seconds."""

_LARGE = 12_000
"""Number of rows up to which a dense factor takes at most a minute."""

_RATIO = 10
"""With fewer rows per inducing functional the derivative of the low-rank solution is rounding."""


_LEARNING = 2.5
"""What derivatives in the kernels take in addition."""


class Automatic(eqx.Module):
    """The dense solver for small systems, otherwise the one that suits the kernel.

    Up to 6000 rows `Dense`. Beyond that the rank of the Gram matrix at the nugget is computed: if
    it is small, `LowRank`; if not, and a dense factorization would take long, `Sparse`.

    **Arguments:** as for `Dense`, and

    - `mesh`: devices that share the work of a large system, from
      `jax.make_mesh((8,), ("rows",))`. Every process calls with the same arguments.

    **Example:**

    ```python
    >>> kp.solve(problem, points, linear_solver=kp.Automatic(nugget=1e-10)).linear_solver
    'Dense solver: 32 rows.'
    ```
    """

    capabilities: ClassVar[frozenset[str]] = frozenset({"folds", "left out", "covariance"})

    nugget: float = 1e-12
    largest_nugget: float = 1e-6
    refinement: int = eqx.field(static=True, default=2)
    mesh: Mesh | None = eqx.field(static=True, default=None, repr=False, converter=one_axis)

    def __check_init__(self):
        check_nuggets("Automatic", self.nugget, self.largest_nugget)
        whole_number("Automatic", "refinement", self.refinement, at_least=0)


LinearSolver: TypeAlias = Automatic | Dense | LowRank | Sparse
"""Ways to solve linear systems."""


@dataclass(frozen=True)
class Choice:
    """A solver that was chosen.

    **Attributes:**

    - `plan`: what it has settled for the problem.
    - `reason`: which one it is and why, in words.
    - `seconds`: about how long a step takes, if there are many rows.
    """

    plan: AbstractLinearSolverState
    reason: str
    seconds: float | None = None

    def announce(self) -> None:
        """Tell Python's `logging` before long work begins."""
        if self.seconds is not None:
            logging.getLogger("kernelpde.linear_solvers").info(self.reason)


def automatic_for(rows: int) -> str:
    """What `Automatic` does with that number of rows, in words."""
    if rows <= _SMALL:
        return "dense"
    beyond = "sparse if it is not" if rows > _LARGE else "dense if it is not"
    rank = min(rows // _RATIO, LowRank().max_rank)
    return (
        f"low rank if the rank of the Gram matrix at the nugget is at most {rank} "
        f"(memory {8e-9 * 12 * rank**2:.2g} GB), {beyond}"
    )


def needs_numbers(solver: LinearSolver, rows: int) -> bool:
    """Whether a solver makes its plan by looking at kernels and points."""
    return isinstance(solver, LowRank | Sparse) or (isinstance(solver, Automatic) and rows > _SMALL)


def chosen(
    solver: LinearSolver,
    kernels: Kernels,
    residuals: tuple[Residual, ...],
    blocks: tuple[Collocation, ...],
    *,
    learning: bool = False,
    needs: frozenset[str] = frozenset(),
) -> Choice:
    """Choose, or plan what was chosen; what cannot fit or cannot work is refused.

    **Arguments:**

    - `solver`: what was asked for.
    - `kernels`, `residuals`, `blocks`: the problem and its points.
    - `learning`: whether derivatives in the kernels are needed.
    - `needs`: capabilities without which a solver does not help.
    """
    rows = sum(b.count * len(r.components) for b, r in zip(blocks, residuals, strict=True))
    choice = _choice(solver, kernels, residuals, blocks, rows, learning, needs)
    if rows <= _SMALL:
        return choice
    devices = 1 if solver.mesh is None or choice.plan.forms_matrix else solver.mesh.size
    operations = (_LEARNING if learning else 1.0) * choice.plan.operations(rows) / devices
    seconds = operations / operations_per_second()
    reason = f"{choice.reason} A step takes some {in_words(seconds)}."
    return replace(choice, reason=reason, seconds=seconds)


def _choice(
    solver: LinearSolver,
    kernels: Kernels,
    residuals: tuple[Residual, ...],
    blocks: tuple[Collocation, ...],
    rows: int,
    learning: bool,
    needs: frozenset[str],
) -> Choice:
    if not needs <= solver.capabilities:
        raise InputError(
            f"{type(solver).__name__}: this solver has no inverse. Folds need Dense(); the density "
            "of data and standard deviations need Dense() or LowRank(); HeldOut() and Resampled() "
            "points go with every solver."
        )
    if isinstance(solver, LowRank):
        return _low_rank(solver, solver.pivots(kernels, residuals, blocks), rows, learning)
    laws = any(term.node is not None for residual in residuals for term in residual.terms)
    if isinstance(solver, Sparse):
        if laws:
            raise InputError(
                "Sparse: every row with a law knows of every other, so that nothing is sparse. Use "
                "Dense() or LowRank()."
            )
        return _sparse(solver, kernels, residuals, blocks, rows, "asked for")
    if isinstance(solver, Dense) or rows <= _SMALL or not needs <= LowRank.capabilities:
        return _dense(solver, rows, learning, "asked for" if isinstance(solver, Dense) else "")
    few = LowRank(solver.nugget, solver.largest_nugget, mesh=solver.mesh)
    found = few.pivots(kernels, residuals, blocks)
    if found.complete and rows >= _RATIO * found.rank:
        return _low_rank(few, found, rows, learning)
    why = f"rank {_rank(found)} of {rows} at nugget {float(solver.nugget):.0e}"
    local = needs <= Sparse.capabilities and all(block.width == 1 for block in blocks)
    if rows > _LARGE and not found.complete and local and not laws:
        sparse = Sparse(solver.nugget, solver.largest_nugget, mesh=solver.mesh)
        return _sparse(sparse, kernels, residuals, blocks, rows, why)
    return _dense(solver, rows, learning, why)


def _dense(solver: Automatic | Dense, rows: int, learning: bool, why: str) -> Choice:
    matrices = LEARN if learning else SOLVE
    if not fits(rows, matrices) and why.startswith("rank"):
        raise RankError(
            f"No solver suits {rows} rows with this kernel: a dense matrix does not fit, and the "
            f"rank at nugget {float(solver.nugget):.0e} is too large for LowRank ({why}). Take "
            "fewer points, a smoother kernel or a longer lengthscale, or a larger nugget."
        )
    require_memory("learn" if learning else "solve", rows, matrices)
    if isinstance(solver, Automatic):
        solver = Dense(solver.nugget, solver.largest_nugget, solver.refinement)
    return Choice(DenseState(solver), f"Dense solver: {rows} rows" + (f", {why}." if why else "."))


def _sparse(
    solver: Sparse,
    kernels: Kernels,
    residuals: tuple[Residual, ...],
    blocks: tuple[Collocation, ...],
    rows: int,
    why: str,
) -> Choice:
    plan = solver.planned(kernels, residuals, blocks)
    require_bytes(
        f"Sparse: {rows} rows with radius {solver.radius}",
        plan.bytes,
        "Take fewer points or a smaller radius.",
    )
    return Choice(
        plan,
        f"Sparse solver: {rows} rows, {why}; radius {solver.radius:g}, factors of "
        f"{plan.bytes / 1e9:.2g} GB.",
    )


def _low_rank(solver: LowRank, found: Pivots, rows: int, learning: bool) -> Choice:
    if not found.complete:
        raise RankError(
            f"LowRank: {found.rank} functionals do not determine the others up to the nugget "
            f"{float(solver.nugget):.0e}. The kernel is not smooth enough or its lengthscale too "
            "short: use Dense(), a larger nugget, or a larger max_rank."
        )
    if learning and rows < _RATIO * found.rank:
        raise RankError(
            f"LowRank: {rows} rows for a rank of {found.rank}. Derivatives in the kernel need at "
            f"least {_RATIO} rows per inducing functional: use Dense(), or {_RATIO * found.rank} "
            "rows."
        )
    return Choice(
        LowRankState.of(solver, found),
        f"Low-rank solver: {rows} rows, rank {found.rank} at nugget {float(solver.nugget):.0e}.",
    )


def _rank(found: Pivots) -> str:
    return str(found.rank) if found.complete else f"over {found.rank}"
