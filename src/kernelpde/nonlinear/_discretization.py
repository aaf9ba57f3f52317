"""Discretized problems: points, linear solver and all arrays that a solve depends on."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, PyTree

from kernelpde.arrays import Numbers, to_array
from kernelpde.compiling import MAX_PADDED_ROWS, is_traced
from kernelpde.errors import InputError
from kernelpde.functionals import Functionals, Prior
from kernelpde.linear_solvers import (
    LEARNING_NUGGET,
    AbstractLinearSolverState,
    Automatic,
    LinearSolver,
    LocalExpansion,
    choose_solver,
)
from kernelpde.precision import require_float64
from kernelpde.problem import (
    Conditions,
    DiscreteProblem,
    PointSet,
    Problem,
    prior_and_data_mean_square,
)

Points: TypeAlias = Mapping[str, int | Numbers] | tuple[PointSet, ...]
"""For each condition the number of points to draw, or an array of points; or drawn point sets."""


class SolveInputs(eqx.Module):
    """All inputs of an iteration.

    **Attributes:**

    - `discrete`: prior and conditions at their points.
    - `solver_state`: state of the linear solver.
    """

    discrete: DiscreteProblem
    solver_state: AbstractLinearSolverState

    @property
    def prior(self) -> Prior:
        return self.discrete.prior

    @property
    def conditions(self) -> Conditions:
        return self.discrete.conditions

    def with_factor(self) -> "SolveInputs":
        """Compute the factorizations that depend on the prior only."""
        return replace(self, solver_state=self.solver_state.with_factor(self.prior))

    def padded(self) -> "SolveInputs":
        """Pad the points of small problems, so that problems of similar size share programs."""
        if self.discrete.num_rows > MAX_PADDED_ROWS or not self.solver_state.forms_matrix:
            return self
        padded = tuple(condition.padded() for condition in self.conditions)
        return replace(self, discrete=DiscreteProblem(self.prior, padded))


class Discretization(eqx.Module):
    """A problem with its points and a solver for its linear systems.

    A JAX pytree: points, normals, data, noise, inputs, the numbers in residuals and the
    hyperparameters of kernels. It can be an argument of transformed functions.

    **Attributes:**

    - `problem`: fields with their kernels, residuals, inputs.
    - `point_sets`: the points of each condition, with their normals, data and noise.
    - `solver_state`: precomputed state of the linear solver.
    - `message`: name of the linear solver, and the reason for its choice.
    - `seed`: seed of the points.

    **Example:**

    ```python
    >>> fixed = kp.discretize(problem, points)
    >>> kp.solve(fixed).converged
    True
    ```
    """

    problem: Problem
    point_sets: tuple[PointSet, ...]
    solver_state: AbstractLinearSolverState
    message: str = eqx.field(static=True, default="")
    seed: int = eqx.field(static=True, default=0)

    @property
    def solve_inputs(self) -> SolveInputs:
        """Inputs of the iteration."""
        return SolveInputs(self.problem.at_points(self.point_sets), self.solver_state)

    def prepared_inputs(self) -> SolveInputs:
        """Return padded inputs with precomputed factors, for use outside of transformations."""
        return self.solve_inputs.with_factor().padded()

    def without_padding(self, weights: tuple[Array, ...]) -> tuple[Array, ...]:
        """Remove the weights of padded points."""
        if not self.solver_state.forms_matrix:
            return weights
        pairs = zip(weights, self.point_sets, strict=True)
        return tuple(to_array(np.asarray(w)[: len(points.points)]) for w, points in pairs)

    def to_expansion(
        self, weights: tuple[Float[Array, "_ _"], ...]
    ) -> tuple[Functionals, ...] | LocalExpansion:
        """Return the expansion of a solution with these weights."""
        return self.solver_state.to_expansion(self.solve_inputs.conditions, weights)

    def current(self) -> "Discretization":
        """Return the discretization with retraced residuals; see `Problem.retraced`."""
        return replace(self, problem=self.problem.retraced())

    def with_inputs(self, inputs: Mapping[str, PyTree]) -> "Discretization":
        """Return the discretization with other values of some inputs."""
        return replace(self, problem=self.problem.with_inputs(inputs))

    def __repr__(self) -> str:
        row_counts = self.problem.row_counts(self.point_sets)
        counts = ", ".join(f"{name} {count}" for name, count in row_counts.items())
        rows = self.problem.at_points(self.point_sets).num_rows
        return f"Discretization: {rows} rows ({counts}). {self.message}"


def discretize(
    problem: Problem,
    points: Points | None = None,
    *,
    seed: int = 0,
    sampling: str = "halton",
    linear_solver: LinearSolver | None = None,
) -> Discretization:
    """Draw the points of a problem and choose its linear solver, for one or for many solves.

    **Arguments:**

    - `problem`: fields with their kernels, and conditions.
    - `points`: for each condition the number of points to draw, or an array of points; or the
      result of `problem.collocate`.
    - `seed`, `sampling`: seed and method of the random points, as for `solve`.
    - `linear_solver`: solver of the linear systems; `Automatic()` by default.

    **Returns:**

    A `Discretization`, which `solve` accepts in place of a problem.

    **Example:**

    ```python
    >>> fixed = kp.discretize(problem, points, seed=1)
    >>> kp.solve(fixed).converged
    True
    ```
    """
    require_float64()
    problem = problem.retraced()
    if not isinstance(points, tuple):
        points = problem.collocate(points, seed=seed, sampling=sampling)
    point_sets = problem.with_current_noise(points)
    problem = problem.with_field_scales(point_sets)
    return discretize_at(problem, point_sets, linear_solver, seed)


_NUGGET_FRACTION = 0.01
"""Maximum of the nugget of problems with noisy data, relative to the variance of the noise. A
larger nugget acts as additional noise; with a smaller one the iteration oscillates."""


def _default_linear_solver(problem: Problem, point_sets: tuple[PointSet, ...]) -> LinearSolver:
    """Return `Automatic()`, with noisy data with a larger nugget.

    In an inverse problem data leave some directions undetermined. With a nugget of 1e-12 rounding
    errors in these directions make the iteration oscillate.
    """
    if is_traced(problem, point_sets):
        return Automatic()
    nuggets = [
        _NUGGET_FRACTION
        * float(np.min(points.noise)) ** 2
        / prior_and_data_mean_square(problem, index, points)[0]
        for index, points in enumerate(point_sets)
        if np.all(np.asarray(points.noise) > 0)
    ]
    if not nuggets:
        return Automatic()
    return Automatic(nugget=max(Automatic().nugget, min([LEARNING_NUGGET, *nuggets])))


def discretize_at(
    problem: Problem,
    point_sets: tuple[PointSet, ...],
    linear_solver: LinearSolver | None = None,
    seed: int = 0,
) -> Discretization:
    """Combine a problem with drawn points and choose its linear solver."""
    if linear_solver is None:
        linear_solver = _default_linear_solver(problem, point_sets)
    discrete = problem.at_points(point_sets)
    rows = discrete.num_rows
    if linear_solver.needs_concrete_kernels(rows) and is_traced(problem, point_sets):
        raise InputError(
            f"solve: {type(linear_solver).__name__} with {rows} rows requires concrete kernels; "
            "inside a transformation they are traced. Outside of it call discretization = "
            "kernelpde.discretize(problem, points, linear_solver=...), and inside "
            "solve(discretization, inputs=...)."
        )
    choice = choose_solver(linear_solver, discrete)
    choice.log_message()
    return Discretization(problem, point_sets, choice.solver_state, choice.message, seed)
