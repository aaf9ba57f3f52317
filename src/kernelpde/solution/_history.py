"""Records of a solve, one per step."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from kernelpde.plotting import plot_solve_history

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class SolveRecord:
    """One step of the iteration.

    **Attributes:**

    - `step`: index of the step, from 1.
    - `damping`: damping μ; 0 is a full Gauss-Newton step.
    - `accepted`: whether the new iterate was kept.
    - `residuals`: root mean square residual of each condition at the new iterate.
    - `objective`: objective at the new iterate.
    - `objective_index`: number of the objective, from 1. A change of the row weights or of the
      nugget makes a new one, and values of different objectives are not comparable.
    - `previous_objective`: value of the same objective before the step.
    - `predicted_decrease`: predicted decrease of the objective.
    - `change`: relative change of the solution.
    - `nugget`: nugget of the linear solve.
    - `seconds`: duration of the step, including compilation.
    """

    kind: ClassVar[str] = "solve"
    is_step: ClassVar[bool] = True

    step: int
    damping: float
    accepted: bool
    residuals: dict[str, float]
    objective: float
    objective_index: int
    previous_objective: float
    predicted_decrease: float
    change: float
    nugget: float
    seconds: float


class SolveHistory(tuple[SolveRecord, ...]):
    """Records of the steps of a solve, in order."""

    def plot(self) -> "Figure":
        """Plot the residual of each condition and the relative change over the steps."""
        return plot_solve_history(self)
