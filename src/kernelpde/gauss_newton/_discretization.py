"""A problem at points: everything that a solve needs, as one tree of arrays."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import equinox as eqx
import numpy as np
from jaxtyping import Array

from kernelpde.arrays import Numbers, array
from kernelpde.compiling import SMALL, rung, traced
from kernelpde.errors import InputError
from kernelpde.functionals import Kernels
from kernelpde.linear_solvers import (
    AbstractLinearSolverState,
    Automatic,
    LinearSolver,
    chosen,
    needs_numbers,
)
from kernelpde.precision import require_float64
from kernelpde.problem import Collocation, Problem, Residual, mean_squares

Points: TypeAlias = Mapping[str, int | Numbers] | tuple[Collocation, ...]
"""For each condition how many points to draw, or the points; or all of them, drawn."""


class Parts(NamedTuple):
    """Residuals, kernels, points and plan: all that an iteration is about."""

    residuals: tuple[Residual, ...]
    kernels: Kernels
    blocks: tuple[Collocation, ...]
    plan: AbstractLinearSolverState

    def padded(self) -> "Parts":
        """With as many points as some program may have been compiled for, if there are few."""
        sizes = zip(self.blocks, self.residuals, strict=True)
        small = sum(b.count * len(r.components) for b, r in sizes) <= SMALL
        if not (small and self.plan.forms_matrix):
            return self
        return self._replace(blocks=tuple(b.padded(rung(b.count)) for b in self.blocks))


class Discretization(eqx.Module):
    """A problem with its points and a solver for its linear systems.

    A JAX pytree: points, normals, data, noise, inputs, the numbers in residuals and the
    hyperparameters of kernels. It can be an argument of transformed functions.

    **Attributes:**

    - `problem`: fields with their kernels, residuals, inputs.
    - `blocks`: the points of each condition, with their normals, data and noise.
    - `plan`: what the linear solver determines before compilation.
    - `reason`: which linear solver was chosen, and why.
    - `seed`: of the points.

    **Example:**

    ```python
    >>> fixed = kp.discretize(problem, points)
    >>> kp.solve(fixed).converged
    True
    ```
    """

    problem: Problem
    blocks: tuple[Collocation, ...]
    plan: AbstractLinearSolverState
    reason: str = eqx.field(static=True, default="")
    seed: int = eqx.field(static=True, default=0)

    @property
    def parts(self) -> Parts:
        """What compiled functions see of it: nothing that depends on names."""
        return Parts(self.problem.residuals, self.problem.kernels, self.blocks, self.plan)

    def ready(self) -> Parts:
        """The parts outside of transformations: all prepared, and filled up with points."""
        plan = self.plan.prepared(self.problem.kernels)
        return self.parts._replace(plan=plan).padded()

    def trimmed(self, weights: tuple[Array, ...]) -> tuple[Array, ...]:
        """Weights without those of points that were filled up."""
        if not self.plan.forms_matrix:
            return weights
        pairs = zip(weights, self.blocks, strict=True)
        return tuple(array(np.asarray(each)[: len(block.points)]) for each, block in pairs)

    def current(self) -> "Discretization":
        """The same with its residuals as they are now; see `Problem.current`."""
        return replace(self, problem=self.problem.current())

    def with_inputs(self, inputs: Mapping[str, Any]) -> "Discretization":
        """The same with other values for some inputs."""
        return replace(self, problem=self.problem.with_inputs(inputs))

    def __repr__(self) -> str:
        rows = self.problem.row_count(self.blocks)
        names = (condition.name for condition in self.problem.conditions)
        counts = ", ".join(
            f"{name} {block.count}" for name, block in zip(names, self.blocks, strict=True)
        )
        return f"Discretization: {rows} rows ({counts}). {self.reason}"


def discretize(
    problem: Problem,
    points: Points | None = None,
    *,
    seed: int = 0,
    sampling: str = "halton",
    linear_solver: LinearSolver | None = None,
) -> Discretization:
    """Draw the points of a problem and plan its linear systems, for one or for many solves.

    **Arguments:**

    - `problem`: fields with their kernels, and conditions.
    - `points`: for each condition how many points to draw, or the points themselves; or what
      `problem.collocate` has drawn.
    - `seed`, `sampling`: of the random points, as for `solve`.
    - `linear_solver`: of the linear systems; `Automatic()` by default.

    **Returns:**

    A `Discretization`, which `solve` takes in place of a problem.

    **Example:**

    ```python
    >>> fixed = kp.discretize(problem, points, seed=1)
    >>> kp.solve(fixed).converged
    True
    ```
    """
    require_float64()
    problem = problem.current()
    if not isinstance(points, tuple):
        points = problem.collocate(points, seed=seed, sampling=sampling)
    blocks = problem.with_present_noise(points)
    return planned(problem.balanced(blocks), blocks, linear_solver, seed)


_LARGEST, _PART = 1e-10, 0.01
"""The nugget for problems with noisy data, unless it were more than this part of the noise."""


def _suited(problem: Problem, blocks: tuple[Collocation, ...]) -> LinearSolver:
    """The default; where data have noise with a nugget as large as they allow.

    In an inverse problem the iteration oscillates by as much as rounding moves what the data
    leave open, which a nugget of 1e-12 leaves too much of.
    """
    if traced(problem, blocks):
        return Automatic()
    nuggets = [
        _PART * float(np.min(block.noise)) ** 2 / mean_squares(problem, number, block)[0]
        for number, block in enumerate(blocks)
        if np.all(np.asarray(block.noise) > 0)
    ]
    least = Automatic().nugget
    return Automatic(nugget=max(least, min([_LARGEST, *nuggets]))) if nuggets else Automatic()


def planned(
    problem: Problem,
    blocks: tuple[Collocation, ...],
    linear_solver: LinearSolver | None = None,
    seed: int = 0,
) -> Discretization:
    """A problem with its points, and a linear solver that suits them."""
    linear_solver = _suited(problem, blocks) if linear_solver is None else linear_solver
    rows = problem.row_count(blocks)
    if needs_numbers(linear_solver, rows) and traced(problem, blocks):
        raise InputError(
            f"solve: {type(linear_solver).__name__} with {rows} rows has to see the kernels before "
            "anything is compiled, and inside of a transformation they are not known. Make "
            "discretization = kernelpde.discretize(problem, points, linear_solver=...) outside of "
            "it, and inside solve(discretization, inputs=...)."
        )
    choice = chosen(linear_solver, problem.kernels, problem.residuals, blocks)
    choice.announce()
    return Discretization(problem, blocks, choice.plan, choice.reason, seed)
