"""Result of learning."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kernelpde.arrays import to_array
from kernelpde.kernels import AbstractKernel
from kernelpde.learning._record import LearningHistory, LearningRecord
from kernelpde.learning._theta_map import ThetaMap
from kernelpde.linear_solvers import LinearSolver
from kernelpde.plotting import figure_to_html, plot_learning_history
from kernelpde.problem import Problem
from kernelpde.results import RESULTS
from kernelpde.solution import Solution

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class LearningResult:
    """Learned problem with its solution and the history of learning.

    **Attributes:**

    - `problem`: problem with the learned kernels.
    - `solution`: solution of this problem at the final points.
    - `result`: result code of learning.
    - `factorizations`: number of factorizations, excluding the final solve.
    - `history`: one record per Gauss-Newton step.
    - `evaluations`: one record per evaluation of the outer loss.
    - `linear_solver`: linear solver of the final solve.
    - `covariance`: with data, covariance of θ (logarithms of positive hyperparameters), the inverse
      curvature of the outer loss; otherwise `None`.

    **Example:**

    ```python
    >>> learned.solution.converged, learned.factorizations > 0
    (True, True)
    ```
    """

    problem: Problem
    solution: Solution
    result: RESULTS
    factorizations: int
    history: LearningHistory
    evaluations: tuple[LearningRecord, ...]
    linear_solver: LinearSolver
    covariance: np.ndarray | None

    def problem_at_offset(self, offset: np.ndarray) -> Problem:
        """Return the problem with the learned θ shifted by a vector."""
        theta_map = ThetaMap.of(self.problem.prior, self.problem.noises)
        return theta_map.apply_to(self.problem, to_array(theta_map.vector + offset))

    def plot(self) -> "Figure":
        """Draw the outer loss, the residuals and the hyperparameters over the run."""
        return plot_learning_history(self.history, self.evaluations, self.problem.space.coordinates)

    @property
    def kernels(self) -> tuple[AbstractKernel, ...]:
        return self.problem.prior.kernels

    @property
    def converged(self) -> bool:
        """True if both learning and the final solve converged."""
        learning_converged = self.result in (RESULTS.converged, RESULTS.fluctuating)
        return learning_converged and bool(self.solution.converged)

    @property
    def message(self) -> str:
        if self.solution.converged:
            return self.result.value
        return f"{self.result.value} Final solve: {self.solution.message}"

    def __repr__(self) -> str:
        status = "converged" if self.converged else f"not converged ({self.result.name})"
        return (
            f"LearningResult: {status} after {len(self.history)} Gauss-Newton steps, "
            f"{self.factorizations} factorizations\n{self.message}\n{self.solution!r}"
        )

    def _repr_html_(self) -> str:
        return figure_to_html(repr(self), self.solution.plot)
