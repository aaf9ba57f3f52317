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
    - `step_length`: accepted fraction of the step.
    - `accepted`: whether the new iterate was kept.
    - `residuals`: root mean square residual of each condition at the new iterate.
    - `merit`: merit function at the new iterate.
    - `change`: relative change of the solution.
    - `nugget`: nugget of the linear solve.
    - `seconds`: duration of the step, including compilation.
    """

    kind: ClassVar[str] = "solve"
    is_step: ClassVar[bool] = True

    step: int
    damping: float
    step_length: float
    accepted: bool
    residuals: dict[str, float]
    merit: float
    change: float
    nugget: float
    seconds: float


class SolveHistory(tuple[SolveRecord, ...]):
    """Records of the steps of a solve, in order."""

    def plot(self) -> "Figure":
        """Plot the residual of each condition and the relative change over the steps."""
        return plot_solve_history(self)
