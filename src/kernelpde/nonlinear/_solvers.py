"""Nonlinear solvers: full Gauss-Newton steps, and Levenberg-Marquardt damping."""

from typing import Any, ClassVar, TypeAlias

import equinox as eqx


class GaussNewton(eqx.Module):
    """Full Gauss-Newton steps without damping, as in the paper.

    **Arguments:**

    - `tolerance`: tolerance of the relative change of the solution in a step.

    **Example:**

    ```python
    >>> kp.solve(problem, points, solver=kp.GaussNewton()).converged
    True
    ```
    """

    tolerance: float = 1e-7

    num_full_steps: ClassVar[int] = 0

    @property
    def step_lengths(self) -> tuple[float, ...]:
        """Trial fractions of a step."""
        return (1.0,)

    def accept(self, last_step: Any) -> Any:
        """Return whether a step is accepted: if all values are finite."""
        return last_step.finite

    def next_damping(self, damping: Any, length: Any, accepted: Any, np_: Any) -> tuple[Any, Any]:
        """Return the damping of the next step, and whether to continue.

        `np_` is `numpy` or `jax.numpy`.
        """
        del length, np_
        return damping, accepted


class LevenbergMarquardt(eqx.Module):
    """Full steps first; if they do not converge, a line search with damping.

    Full steps may pass through worse iterates on the way to a solution. A method that decreases the
    merit at every step would be slow on such problems, so full steps are accepted at first. If they
    do not converge, the iteration returns to the best iterate. From there each step uses the
    fraction with the smallest merit. If this is less than a quarter, the next step is damped more;
    after a full step, less.

    **Arguments:**

    - `num_full_steps`: number of full steps accepted without testing the merit. Contracting steps
      do not count; a growing misfit ends them.
    - `initial_damping`: smallest nonzero damping, relative to the diagonal.
    - `damping_factor`: factor by which the damping is raised and lowered.
    - `max_damping`: largest damping; beyond it the iteration stops.
    - `tolerance`: tolerance of the relative change of the solution in a full step.

    **Example:**

    ```python
    >>> kp.solve(problem, points, solver=kp.LevenbergMarquardt(tolerance=1e-10)).converged
    True
    ```
    """

    num_full_steps: int = 20
    initial_damping: float = 1e-8
    damping_factor: float = 10.0
    max_damping: float = 1e8
    tolerance: float = 1e-7

    @property
    def step_lengths(self) -> tuple[float, ...]:
        """Trial fractions of a step."""
        return tuple(0.5**k for k in range(12))

    def accept(self, last_step: Any) -> Any:
        """Return whether a step is accepted: if it decreases the merit."""
        return last_step.finite & last_step.merit_decreased

    def next_damping(self, damping: Any, length: Any, accepted: Any, np_: Any) -> tuple[Any, Any]:
        """Return the damping of the next step, and whether to continue.

        `np_` is `numpy` or `jax.numpy`.
        """
        lowered = damping / self.damping_factor
        lowered = np_.where(lowered >= self.initial_damping, lowered, 0.0)
        growth = np_.where(accepted, self.damping_factor, self.damping_factor**2)
        raised = np_.maximum(self.initial_damping, damping * growth)
        long_step = accepted & (length >= 0.25)
        new = np_.where(accepted & (length == 1.0), lowered, np_.where(long_step, damping, raised))
        return new, long_step | (raised <= self.max_damping)


NonlinearSolver: TypeAlias = GaussNewton | LevenbergMarquardt
"""Solvers of the nonlinear problem."""


def default_solver(solver: NonlinearSolver | None) -> NonlinearSolver:
    """Return the given solver, or the default one."""
    return LevenbergMarquardt() if solver is None else solver
