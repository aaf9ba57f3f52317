"""Branches of solutions along a path of inputs."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Float

from kernelpde.branches._bordered import bordered_position
from kernelpde.branches._path import Path
from kernelpde.checking import check_callable, check_real
from kernelpde.nonlinear import Discretization
from kernelpde.plotting import Chart, Curve, draw_charts
from kernelpde.results import RESULTS
from kernelpde.solution import Solution, initial_jets, solve

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Fold:
    """A point at which a branch turns back.

    **Attributes:**

    - `value`: value of the input, accurate to second order in the position of the point.
    - `solution`: solution at the fold. It is singular there: error estimates of its fields are
      large.
    - `path`, `bordered`: path, and solution of the problem with the unknown position.
    """

    value: float
    solution: Solution
    path: Path
    bordered: Solution

    @cached_property
    def error(self) -> float:
        """Estimated error of `value` due to the points and the kernel, by three linear solves."""
        estimate = self.bordered.error_estimate
        return float(estimate.of_quantity(lambda s: self.path.value(bordered_position(s))))


@dataclass(frozen=True, eq=False)
class Branch(Sequence):
    """Solutions along a path of inputs, in their order on the branch.

    **Attributes:**

    - `name`: name of the input on the path, or `"position"` if the path has several numbers.
    - `values`: value of the input of each solution, or its position from 0 to 1.
    - `solutions`: solutions of the problem, each with the inputs of its point.
    - `folds`: points at which the branch turns back. Their solutions are in `solutions` as well.
    - `result`: reason of the end; `message` explains it.
    - `discretization`: problem at its points.
    - `path`: path of the inputs.

    **Example:**

    ```python
    >>> branch = kp.continuation(bratu, {"lam": (0.0, 2.0)}, points)
    >>> branch.reached_end, len(branch.folds)
    (True, 0)
    ```
    """

    name: str
    values: Float[np.ndarray, " n"]
    solutions: tuple[Solution, ...]
    folds: tuple[Fold, ...]
    result: RESULTS
    message: str
    discretization: Discretization
    path: Path

    @property
    def reached_end(self) -> bool:
        """True if the last solution is at the end of the path."""
        return self.result is RESULTS.end_reached

    def __len__(self) -> int:
        return len(self.solutions)

    def __getitem__(self, index: Any) -> Any:
        return self.solutions[index]

    def __iter__(self) -> Iterator[Solution]:
        return iter(self.solutions)

    def at(self, value: float) -> tuple[Solution, ...]:
        """Solve at one value of the input, once for each crossing of the branch.

        Each solve starts between the two neighboring solutions of the branch.

        **Arguments:**

        - `value`: value of the input, or the position if the path has several numbers.
        """
        value = check_real("Branch.at", "value", value)
        inputs = self.path.inputs(self.path.position(value))
        discretization = self.discretization.with_inputs(inputs)
        crossings = []
        for index, (left, right) in enumerate(pairwise(self.values)):
            is_last = index == len(self.values) - 2
            fraction = (value - left) / (right - left) if right != left else 0.0
            if 0.0 <= fraction < 1.0 or (is_last and fraction == 1.0):
                jets = [
                    initial_jets(discretization.problem, solution, discretization.point_sets)
                    for solution in self.solutions[index : index + 2]
                ]
                start = jax.tree.map(lambda a, b, t=fraction: a + t * (b - a), *jets)
                crossings.append(solve(discretization, start=start))
        return tuple(crossings)

    def measure(self, function: Callable[[Solution], Any] | None = None) -> np.ndarray:
        """Return a number of each solution, by default the root mean square of its fields.

        **Arguments:**

        - `function`: function of a solution, for example
          `lambda solution: solution["u"]([[0.5, 0.5]])[0]`.
        """
        function = _rms if function is None else function
        check_callable("Branch", "the measure", function, "a function of a solution")
        return np.array([float(np.asarray(function(solution))) for solution in self.solutions])

    def plot(
        self, measure: Callable[[Solution], Any] | None = None, *, label: str = ""
    ) -> "Figure":
        """Plot the bifurcation diagram: a measure of each solution over the input.

        **Arguments:**

        - `measure`: function of a solution; the root mean square of its fields by default.
        - `label`: name of the measure.
        """
        values = self.measure(measure)
        is_fold = np.isin(self.values, [fold.value for fold in self.folds])
        curves = [Curve("solutions", self.values, values)]
        if is_fold.any():
            # NaN interrupts the line from fold to fold.
            curves.append(Curve("folds", self.values, np.where(is_fold, values, np.nan)))
        title = label or ("measure" if measure else "root mean square of the fields")
        return draw_charts([Chart(title, self.name, curves, log_y=False)])

    def __repr__(self) -> str:
        end = "reached the end of the path" if self.reached_end else "did NOT reach the end"
        lines = [f"Branch: {end} ({self.result.name}), {len(self)} solutions"]
        lines.append(f"  {self.name} from {self.values[0]:.4g} to {self.values[-1]:.4g}")
        for fold in self.folds[:3]:
            lines.append(f"  fold at {self.name} = {fold.value:.7g}")
        if len(self.folds) > 3:
            lines.append(f"  and {len(self.folds) - 3} more folds")
        return "\n".join([*lines, f"  {self.message}"])


def _rms(solution: Solution) -> float:
    """Return the root mean square of all fields over the collocation points."""
    points = np.concatenate([np.asarray(p.points) for p in solution.point_sets])
    parameters = solution.parameters
    fields = [f.name for f in solution.problem.fields if f.name not in parameters]
    values = [np.asarray(solution[name](points)) for name in fields]
    return float(np.sqrt(np.mean(np.square(values))))
