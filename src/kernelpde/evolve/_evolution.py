"""Solutions on successive time windows, combined into one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.arrays import Numbers
from kernelpde.checking import to_float_array
from kernelpde.errors import InputError
from kernelpde.learning import LearningResult
from kernelpde.plotting import FieldOverlays, plot_fields
from kernelpde.problem import Problem, problem_grid
from kernelpde.solution import Exportable, Solution

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Evolution(Exportable):
    """Solutions on successive time windows, combined into one.

    **Attributes:**

    - `problem`: problem on the whole time interval, with the kernels that all windows share.
    - `times`: bounds of the windows, one more than there are windows.
    - `solutions`: one per window.
    - `learned`: result of learning in the first window; `None` if nothing was learned, or if the
      window was read from a file.
    - `seconds`: time spent on each window.

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

    @property
    def converged(self) -> bool:
        """True if the solutions of all windows have converged."""
        return all(solution.converged for solution in self.solutions)

    @property
    def message(self) -> str:
        """Result as text."""
        state = "All" if self.converged else "Some"
        return f"{state} time windows have {'' if self.converged else 'not '}converged."

    def __getitem__(self, field: str) -> Callable[[Numbers], Array]:
        """Return a field as a function of points, evaluated in the window of their time."""
        return partial(self._evaluate_by_window, [solution[field] for solution in self.solutions])

    def d(self, field: str, *coordinates: int | str) -> Callable[[Numbers], Array]:
        """Return a partial derivative of a field as a function of points."""
        views = [solution[field].d(*coordinates) for solution in self.solutions]
        return partial(self._evaluate_by_window, views)

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
        verdict = "converged" if self.converged else "NOT converged"
        lines = [f"Evolution: {len(self.solutions)} windows, {verdict}"]
        for index, solution in enumerate(self.solutions):
            start, stop = self.times[index : index + 2]
            norms = ", ".join(f"{n} {s['rms']:.1e}" for n, s in solution.residuals.items())
            lines.append(
                f"  {start:g} to {stop:g}: {solution.num_steps} steps, "
                f"{self.seconds[index]:.1f} s, residuals {norms}"
            )
        return "\n".join(lines)
