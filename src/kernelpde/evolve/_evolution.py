"""Solutions on successive time windows, combined into one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.arrays import Numbers
from kernelpde.checking import to_float_array
from kernelpde.errors import InputError
from kernelpde.evolve._error import perturbed_windows
from kernelpde.functionals import Term
from kernelpde.learning import LearningResult
from kernelpde.plotting import FieldOverlays, plot_fields
from kernelpde.problem import Problem, problem_grid
from kernelpde.results import RESULTS
from kernelpde.solution import (
    ErrorEstimate,
    Exportable,
    FieldSource,
    Perturbation,
    Solution,
    evaluation_points,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Evolution(FieldSource, Exportable):
    """Solutions on successive time windows, combined into one.

    **Attributes:**

    - `problem`: problem on the whole time interval, with the kernels that all windows share.
    - `times`: bounds of the windows, one more than there are windows.
    - `solutions`: one per window.
    - `learned`: result of learning in the first window; `None` if nothing was learned, or if the
      window was read from a file.
    - `seconds`: time spent on each window.
    - `limit`: reason for which a requested accuracy was not reached, or an empty string.

    `evolution["u"]` has the methods of a field of a solution, errors included.

    **Example:**

    ```python
    >>> evolution = kp.march(cooling, 2, {"equation": 60, "initial": 12})
    >>> evolution.times.tolist(), round(float(evolution["u"]([2.0, 0.5])), 3)
    ([0.0, 1.0, 2.0], 0.135)
    ```
    """

    problem: Problem
    times: Float[np.ndarray, " W"]
    solutions: tuple[Solution, ...]
    learned: LearningResult | None
    seconds: tuple[float, ...]
    limit: str = ""

    @property
    def result(self) -> RESULTS:
        """Result of the first window that has not converged, or of the whole evolution."""
        results = [solution.result for solution in self.solutions if not solution.converged]
        if not results and self.limit:
            return RESULTS.accuracy_not_reached
        return next(iter(results), RESULTS.converged)

    @property
    def result_code(self) -> int:
        return self.result.code

    @property
    def converged(self) -> bool:
        """True if all windows have converged, and a requested accuracy was reached."""
        return self.result is RESULTS.converged

    @property
    def message(self) -> str:
        """Explanation of the result, with advice."""
        if self.result is RESULTS.accuracy_not_reached:
            return f"{self.result.value} {self.limit}"
        failed = [n for n, solution in enumerate(self.solutions) if not solution.converged]
        if not failed:
            return "All time windows have converged."
        windows = ", ".join(str(n + 1) for n in failed)
        return f"Windows {windows} have not converged. {self.solutions[failed[0]].message}"

    @cached_property
    def error_estimate(self) -> ErrorEstimate["Evolution"]:
        """Estimated errors of the fields, for example `evolution.error_estimate["u"].rms`.

        They include errors of earlier windows, propagated to later ones. Computed by three linear
        solves per window on first access.
        """

        def perturb(perturbation: Perturbation) -> Evolution:
            windows = perturbed_windows(
                self.problem, self.solutions, self.times, perturbation, seed=0
            )
            return replace(self, solutions=windows)

        limitations = [] if all(s.converged for s in self.solutions) else [self.message]
        points = evaluation_points(self.problem, self.solutions[0].point_sets, seed=0)
        return ErrorEstimate.from_perturbations(self, self.problem, perturb, *points, limitations)

    def evaluate_jets(self, terms: tuple[Term, ...], points: Numbers) -> Array:
        """Evaluate jet entries at points, each in the window of its time."""
        views = [partial(solution.evaluate_jets, terms) for solution in self.solutions]
        return self._evaluate_by_window(views, points)

    def residual(self, condition: str, points: Numbers) -> Array:
        """Return the residual of a condition at points, one column per equation."""
        views = [partial(solution.residual, condition) for solution in self.solutions]
        return self._evaluate_by_window(views, points)

    def plot(
        self,
        *fields: str,
        references: Mapping[str, Callable] | None = None,
        residuals: Sequence[str] | None = None,
        at: Mapping[str, float] | None = None,
        resolution: int | None = None,
        units: Mapping[str, str] | None = None,
    ) -> "Figure":
        """Plot the fields over all windows; arguments as for `Solution.plot`."""
        grid = problem_grid(self.problem, resolution, at, free=2)
        overlays = FieldOverlays(references or {})
        return plot_fields(self, fields, grid, overlays, residuals, {}, units or {})

    def _evaluate_by_window(self, views: Sequence[Callable], points: Numbers) -> Array:
        array = to_float_array("Evolution", "points", points)
        space = self.problem.space
        assert space.time is not None
        if array.ndim < 1 or array.shape[-1] != len(space.coordinates):
            raise InputError(
                f"Expected points with {len(space.coordinates)} coordinates on the last axis; "
                f"got shape {array.shape}."
            )
        flat = array.reshape(-1, array.shape[-1])
        times = flat[:, space.coordinates.index(space.time)]
        windows = np.searchsorted(self.times[1:-1], times, side="right")
        # Windows are padded to the same number of points, so that they share one program.
        count = np.bincount(windows).max()
        order = np.argsort(windows, kind="stable")
        chunks = []
        for window in np.unique(windows):
            rows = np.flatnonzero(windows == window)
            chunks.append(np.asarray(views[window](flat[np.resize(rows, count)]))[: len(rows)])
        values = np.concatenate(chunks)[np.argsort(order)]
        return jnp.asarray(values.reshape((*array.shape[:-1], *values.shape[1:])))

    def __repr__(self) -> str:
        estimate = vars(self).get("error_estimate")
        verdict = "converged" if self.converged else f"NOT converged ({self.result.name})"
        error = (
            "error not estimated (evolution.error_estimate)"
            if estimate is None
            else f"estimated error {estimate.largest:.1e}"
        )
        first, last = self.times[0], self.times[-1]
        steps = sum(solution.num_steps for solution in self.solutions)
        lines = [f"Evolution: {verdict}, {error}"]
        lines += [] if self.converged else [f"  {self.message}"]
        lines += [
            f"  {len(self.solutions)} windows from {first:g} to {last:g}, {steps} steps, "
            f"{sum(self.seconds):.1f} s; by window: print(evolution.report())"
        ]
        return "\n".join(lines)

    def report(self) -> str:
        """Return the summary, with steps, times and residuals of each window."""
        lines = [repr(self)]
        for index, solution in enumerate(self.solutions):
            start, stop = self.times[index : index + 2]
            norms = ", ".join(f"{n} {s['rms']:.1e}" for n, s in solution.residuals.items())
            lines.append(
                f"  {start:g} to {stop:g}: {solution.num_steps} steps, "
                f"{self.seconds[index]:.1f} s, residuals {norms}"
            )
        return "\n".join(lines)
