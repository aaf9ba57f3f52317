"""Nonlinear solvers: full Gauss-Newton steps, and Levenberg-Marquardt damping."""

import abc
from types import ModuleType
from typing import Any, TypeAlias

import equinox as eqx

from kernelpde.checking import check_integer, check_real

Scalar: TypeAlias = Any
"""A scalar of NumPy in the Python loop, and of JAX in `lax.while_loop`."""


class AbstractNonlinearSolver(eqx.Module):
    """Step lengths, acceptance and damping of a Gauss-Newton iteration.

    **Attributes:**

    - `tolerance`: tolerance of the relative change of the solution in a step.
    - `num_full_steps`: number of full steps accepted without testing the merit.
    """

    tolerance: eqx.AbstractVar[float]
    num_full_steps: eqx.AbstractVar[int]

    def __check_init__(self):
        caller = type(self).__name__
        check_real(caller, "tolerance", self.tolerance, at_least=0, at_most=1)
        check_integer(caller, "num_full_steps", self.num_full_steps, at_least=0)

    @property
    @abc.abstractmethod
    def step_lengths(self) -> tuple[float, ...]:
        """Trial fractions of a step, longest first."""

    @abc.abstractmethod
    def accept(self, finite: Scalar, merit_decreased: Scalar) -> Scalar:
        """Return whether a step is accepted, given whether its values are finite and whether it
        decreased the merit."""

    @abc.abstractmethod
    def next_damping(
        self, damping: Scalar, length: Scalar, accepted: Scalar, np_: ModuleType
    ) -> tuple[Scalar, Scalar]:
        """Return the damping of the next step, and whether to continue.

        `np_` is `numpy` or `jax.numpy`.
        """


class GaussNewton(AbstractNonlinearSolver):
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
    num_full_steps: int = eqx.field(default=0, init=False, static=True, repr=False)

    @property
    def step_lengths(self) -> tuple[float, ...]:
        return (1.0,)

    def accept(self, finite: Scalar, merit_decreased: Scalar) -> Scalar:
        del merit_decreased
        return finite

    def next_damping(
        self, damping: Scalar, length: Scalar, accepted: Scalar, np_: ModuleType
    ) -> tuple[Scalar, Scalar]:
        del length, np_
        return damping, accepted


class LevenbergMarquardt(AbstractNonlinearSolver):
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

    def __check_init__(self):
        caller = type(self).__name__
        check_real(caller, "initial_damping", self.initial_damping, greater_than=0)
        check_real(caller, "damping_factor", self.damping_factor, greater_than=1)
        check_real(caller, "max_damping", self.max_damping, at_least=self.initial_damping)

    @property
    def step_lengths(self) -> tuple[float, ...]:
        return tuple(0.5**k for k in range(12))

    def accept(self, finite: Scalar, merit_decreased: Scalar) -> Scalar:
        return finite & merit_decreased

    def next_damping(
        self, damping: Scalar, length: Scalar, accepted: Scalar, np_: ModuleType
    ) -> tuple[Scalar, Scalar]:
        lowered = damping / self.damping_factor
        lowered = np_.where(lowered >= self.initial_damping, lowered, 0.0)
        growth = np_.where(accepted, self.damping_factor, self.damping_factor**2)
        raised = np_.maximum(self.initial_damping, damping * growth)
        long_step = accepted & (length >= 0.25)
        new = np_.where(accepted & (length == 1.0), lowered, np_.where(long_step, damping, raised))
        return new, long_step | (raised <= self.max_damping)


def default_solver(solver: AbstractNonlinearSolver | None) -> AbstractNonlinearSolver:
    """Return the given solver, or the default one."""
    return LevenbergMarquardt() if solver is None else solver
