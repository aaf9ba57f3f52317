"""What learning has led to."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kernelpde.arrays import array
from kernelpde.deprecation import warn_moved
from kernelpde.functionals import Kernels
from kernelpde.gauss_newton import (
    Solution,
)
from kernelpde.learning._evaluation import Parameters
from kernelpde.learning._pictures import LearningHistory, plot_learning
from kernelpde.learning._record import LearningRecord
from kernelpde.learning._result import RESULTS
from kernelpde.linear_solvers import LinearSolver
from kernelpde.notebooks import RESOLUTION, as_html
from kernelpde.problem import Problem

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Learned:
    """The result of learning.

    **Attributes:**

    - `problem`: the problem with the learned kernels.
    - `solution`: of that problem at the final points.
    - `result`: why learning stopped.
    - `factorizations`: their number, without the final solve.
    - `history`: one record per Gauss-Newton step.
    - `evaluations`: one record per evaluation of the outer loss.
    - `linear_solver`: of the final solve.
    - `covariance`: with data, that of the hyperparameters (of their logarithms, as a vector): the
      inverse curvature of the outer loss. Otherwise `None`.

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

    @property
    def spread(self) -> np.ndarray | None:
        warn_moved("Learned.spread", "Learned.covariance")
        return self.covariance

    @property
    def factorisations(self) -> int:
        warn_moved("Learned.factorisations", "Learned.factorizations")
        return self.factorizations

    def shifted(self, by: np.ndarray) -> Problem:
        """The problem with hyperparameters other than those learned, moved by a vector."""
        parameters = Parameters.of(self.problem.kernels, self.problem.noises)
        theta = array(parameters.vector + by)
        found = self.problem.with_kernels(parameters.kernels(theta))
        return found.with_noises(parameters.noises(theta))

    def plot(self) -> "Figure":
        """Draw the outer loss, the residuals and the hyperparameters over the run."""
        return plot_learning(self.history, self.evaluations, self.problem.space.coordinates)

    @property
    def kernels(self) -> Kernels:
        return self.problem.kernels

    @property
    def converged(self) -> bool:
        """Whether both learning and the final solve have converged."""
        settled = self.result in (RESULTS.converged, RESULTS.scattered)
        return settled and bool(self.solution.converged)

    @property
    def reason(self) -> str:
        if self.solution.converged:
            return self.result.value
        return f"{self.result.value} The solution with what was learned: {self.solution.reason}"

    def __repr__(self) -> str:
        state = "converged" if self.converged else "NOT converged"
        return (
            f"Learned: {state} after {len(self.history)} Gauss-Newton steps and "
            f"{self.factorizations} factorizations. {self.reason}\n{self.solution!r}"
        )

    def _repr_html_(self) -> str:
        return as_html(repr(self), lambda: self.solution.plot(resolution=RESOLUTION))
