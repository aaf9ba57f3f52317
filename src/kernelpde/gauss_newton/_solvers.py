"""How far Gauss-Newton steps go: undamped, or by Levenberg and Marquardt."""

from typing import Any, ClassVar, TypeAlias

import equinox as eqx


class GaussNewton(eqx.Module):
    """Full steps, always taken, as published.

    **Arguments:**

    - `tolerance`: on the relative change of the solution in a step.

    **Example:**

    ```python
    >>> kp.solve(problem, points, solver=kp.GaussNewton()).converged
    True
    ```
    """

    tolerance: float = 1e-7

    trust: ClassVar[int] = 0

    @property
    def lengths(self) -> tuple[float, ...]:
        """Fractions of a step to choose from."""
        return (1.0,)

    def accepts(self, last: Any) -> Any:
        """Whether a step is kept: always, if its numbers are finite."""
        return last.finite

    def damping_after(self, damping: Any, length: Any, accepted: Any, np_: Any) -> tuple[Any, Any]:
        """The damping of the next step, and whether to go on; `np_` is numpy, or that of JAX."""
        del length, np_
        return damping, accepted


class LevenbergMarquardt(eqx.Module):
    """Full steps first; if they do not converge, a line search, and then damping.

    Full steps may pass through worse iterates on the way to a solution, where an iteration that
    lowers the merit at every step would be slow. So full steps are accepted at first. If they do
    not converge, the iteration returns to the best iterate, and from there each step takes the
    fraction that lowers the merit most. If that is less than a quarter, the next step is damped
    more; after a full step, less.

    **Arguments:**

    - `trust`: number of full steps to take first; steps that contract do not count,
      and a growing misfit ends them.
    - `first`: the smallest nonzero damping, relative to the diagonal.
    - `factor`: by which the damping is raised and lowered.
    - `last`: the largest damping; beyond it the iteration stops.
    - `tolerance`: on the relative change of the solution in a full step.

    **Example:**

    ```python
    >>> kp.solve(problem, points, solver=kp.LevenbergMarquardt(tolerance=1e-10)).converged
    True
    ```
    """

    trust: int = 20
    first: float = 1e-8
    factor: float = 10.0
    last: float = 1e8
    tolerance: float = 1e-7

    @property
    def lengths(self) -> tuple[float, ...]:
        """Fractions of a step to choose from."""
        return tuple(0.5**k for k in range(12))

    def accepts(self, last: Any) -> Any:
        """Whether a step is kept: if it lowers the merit."""
        return last.finite & last.descends

    def damping_after(self, damping: Any, length: Any, accepted: Any, np_: Any) -> tuple[Any, Any]:
        """The damping of the next step, and whether to go on; `np_` is numpy, or that of JAX."""
        lowered = damping / self.factor
        lowered = np_.where(lowered >= self.first, lowered, 0.0)
        growth = np_.where(accepted, self.factor, self.factor**2)
        raised = np_.maximum(self.first, damping * growth)
        far = accepted & (length >= 0.25)
        new = np_.where(accepted & (length == 1.0), lowered, np_.where(far, damping, raised))
        return new, far | (raised <= self.last)


Solver: TypeAlias = GaussNewton | LevenbergMarquardt
"""Ways to take steps."""


def default_solver(solver: Solver | None) -> Solver:
    """What was asked for, or the default."""
    return LevenbergMarquardt() if solver is None else solver
