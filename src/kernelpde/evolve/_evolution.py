"""Solutions on successive windows of time, seen as one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.arrays import Numbers
from kernelpde.checking import numbers
from kernelpde.errors import InputError
from kernelpde.gauss_newton import Shown, Solution, plot_solution
from kernelpde.learning import Learned
from kernelpde.problem import Problem

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Evolution(Shown):
    """Solutions on successive time windows, combined into one.

    **Attributes:**

    - `problem`: on the whole time interval, with the kernels that all windows share.
    - `times`: ends of the windows, one more than there are windows.
    - `solutions`: one per window.
    - `learned`: the result of learning in the first window; `None` if nothing was learned, or if
      the window was read from a file.
    - `seconds`: time taken by each window.

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
    learned: Learned | None
    seconds: tuple[float, ...]

    @property
    def converged(self) -> bool:
        return all(solution.converged for solution in self.solutions)

    def __getitem__(self, field: str) -> Callable[[Numbers], Array]:
        """A field as a function of points, each looked up in the window of its time."""
        views: list[Callable] = [solution[field] for solution in self.solutions]
        return lambda points: self._evaluated(views, points)

    def d(self, field: str, *coordinates: int | str) -> Callable[[Numbers], Array]:
        """A partial derivative of a field as a function of points."""
        views = [solution[field].d(*coordinates) for solution in self.solutions]
        return lambda points: self._evaluated(views, points)

    def residual(self, condition: str, points: Numbers) -> Array:
        """The residual of a condition at points, one column per equation."""
        views = [partial(solution.residual, condition) for solution in self.solutions]
        return self._evaluated(views, points)

    def plot(
        self,
        *fields: str,
        references: Mapping[str, Callable] | None = None,
        residuals: Sequence[str] | None = None,
        at: Mapping[str, float] | None = None,
        resolution: int | None = None,
        units: Mapping[str, str] | None = None,
    ) -> "Figure":
        """Draw the fields over all windows; arguments as those of `Solution.plot`."""
        return plot_solution(
            self,
            fields or None,
            references or {},
            {},
            residuals,
            False,
            at,
            resolution,
            units or {},
        )

    def _evaluated(self, views: list[Callable], points: Numbers) -> Array:
        where = numbers("Evolution", "points", points)
        space = self.problem.space
        assert space.time is not None
        if where.ndim < 1 or where.shape[-1] != len(space.coordinates):
            raise InputError(
                f"Expected points with {len(space.coordinates)} coordinates on the last axis; "
                f"got shape {where.shape}."
            )
        flat = where.reshape(-1, where.shape[-1])
        inside = np.searchsorted(
            self.times[1:-1], flat[:, space.coordinates.index(space.time)], side="right"
        )
        most = max(int(np.max(np.bincount(inside, minlength=len(views)))), 1)
        values: np.ndarray | None = None
        for number, view in enumerate(views):
            rows = np.flatnonzero(inside == number)
            if len(rows):
                # All windows get as many points as the fullest one, so that one program serves all.
                padded = flat[np.resize(rows, most)]
                found = np.asarray(view(padded))[: len(rows)]
                if values is None:
                    values = np.zeros((len(flat), *found.shape[1:]), dtype=found.dtype)
                values[rows] = found
        assert values is not None
        return jnp.asarray(values.reshape((*where.shape[:-1], *values.shape[1:])))

    def __repr__(self) -> str:
        state = "converged" if self.converged else "NOT converged"
        lines = [f"Evolution: {len(self.solutions)} windows, {state}."]
        for begin, end, solution, spent in zip(
            self.times[:-1], self.times[1:], self.solutions, self.seconds, strict=True
        ):
            sizes = ", ".join(f"{n} {s['rms']:.1e}" for n, s in solution.residuals.items())
            lines.append(
                f"  {begin:g} to {end:g}: {solution.steps} steps, {spent:.1f} s, residuals {sizes}"
            )
        return "\n".join(lines)
