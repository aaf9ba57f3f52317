"""Progress records of learning."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from kernelpde.plotting import plot_learning_history

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class LearningRecord:
    """Record of one evaluation of the outer loss, or of one learning step.

    **Attributes:**

    - `step`: index of the Gauss-Newton step, from 1; 0 during the comparison of starts.
    - `factorizations`: number of factorizations so far.
    - `loss`: outer loss.
    - `theta`: vector of hyperparameters, with logarithms of positive ones.
    - `hyperparameters`: hyperparameters by field and name.
    - `stationary`: whether varying lengthscales are still constant.
    - `residuals`: rms residual of each condition after a step, at validation points where there
      are any; empty for an evaluation.
    - `step_length`: fraction of the inner step; `None` for an evaluation.
    - `change`: relative change of the iterate; `None` for an evaluation.
    - `nugget`: nugget of the linear solve.
    - `seconds`: seconds since the start of learning.

    **Example:**

    ```python
    >>> last = learned.history[-1]
    >>> last.loss < learned.history[0].loss or len(learned.history) == 1
    True
    ```
    """

    kind: ClassVar[str] = "learn"

    step: int
    factorizations: int
    loss: float
    theta: np.ndarray
    hyperparameters: dict[str, dict[str, Any]]
    stationary: bool
    residuals: dict[str, float]
    step_length: float | None
    change: float | None
    nugget: float
    seconds: float

    @property
    def is_step(self) -> bool:
        """True for a completed step, false for a single evaluation of the loss."""
        return self.step_length is not None


class LearningHistory(tuple[LearningRecord, ...]):
    """Records of the steps of a learning run, in order."""

    def plot(self) -> "Figure":
        """Plot the outer loss, the residuals and the hyperparameters over the steps."""
        return plot_learning_history(self)
