"""What a solve did, step by step."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernelpde.gauss_newton._pictures import plot_records

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Record:
    """One step of the iteration.

    **Attributes:**

    - `step`: its number, from 1.
    - `damping`: μ; 0 is a full Gauss-Newton step.
    - `length`: the fraction of the step that was taken.
    - `accepted`: whether it was kept.
    - `residuals`: root mean square residual per condition where the step leads.
    - `merit`: what the iteration lowers.
    - `change`: relative change of the solution.
    - `nugget`: used by the linear solve.
    - `seconds`: time taken, compilation included.
    """

    step: int
    damping: float
    length: float
    accepted: bool
    residuals: dict[str, float]
    merit: float
    change: float
    nugget: float
    seconds: float


class History(tuple[Record, ...]):
    """The records of a solve, in order."""

    def plot(self) -> "Figure":
        """Residuals per condition and changes over the steps."""
        return plot_records(self)
