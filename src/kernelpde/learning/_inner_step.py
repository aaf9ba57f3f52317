"""Step of the inner iteration: to Π_k(θ), or a fraction of the way."""

import equinox as eqx
import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.compiling import compiled, pointwise
from kernelpde.functionals import Prior, replicate
from kernelpde.learning._linearized import CollocationSolution
from kernelpde.linear_solvers import NeighborGroups
from kernelpde.nonlinear import max_relative_change
from kernelpde.problem import Conditions, LinearSystem, linearize, nonlinear_residual

_NEGLIGIBLE_CHANGE = 1e-4
"""Relative change below which a full step is accepted without comparing residuals."""


class LinearizationPoint(eqx.Module):
    """Values of an iterate that the residuals at given points depend on; linear in the iterate.

    **Attributes:**

    - `jets`: per condition, the jet values in which its residual is nonlinear.
    - `linear`: per row, the part of the residual that is linear in u.
    """

    jets: tuple[Float[Array, "_ _"], ...]
    linear: Float[Array, " M"]


class IterateStep(eqx.Module):
    """Iterate after a Gauss-Newton step of the inner problem.

    **Attributes:**

    - `train`, `validation`: linearization points at the training and validation points.
    - `length`: fraction of the step.
    - `change`: relative change of the jet values.
    - `residuals`: rms residual of each condition, at validation points if there are any.
    """

    train: LinearizationPoint
    validation: LinearizationPoint | None
    length: Float[Array, ""]
    change: Float[Array, ""]
    residuals: Float[Array, " C"]


@compiled
def full_inner_step(
    systems: tuple[LinearSystem, LinearSystem | None],
    prior: Prior,
    inner_solution: CollocationSolution,
    neighbor_groups: tuple[NeighborGroups | None, ...],
) -> tuple[LinearizationPoint, LinearizationPoint | None]:
    """Return the linearization points of Π_k(θ) for training and validation.

    The program does not depend on the equation.
    """
    linear_solution, (train, validation) = inner_solution.linear_solution, systems

    def linearization_point(
        jets: tuple[Array, ...], linearized: LinearSystem, row_values: Float[Array, " _"]
    ) -> LinearizationPoint:
        return LinearizationPoint(jets, row_values - linearized.apply_to_jets(jets))

    train_point = linearization_point(
        linear_solution.jet_values(prior, train), train, linear_solution.row_values
    )
    if validation is None:
        return replicate((train_point, None), linear_solution.device_mesh)
    jets = tuple(
        linear_solution.jets(prior, stack.points, terms, groups)
        for stack, terms, groups in zip(
            validation.stacks, validation.nonlinear_terms, neighbor_groups, strict=True
        )
    )
    validation_point = linearization_point(jets, validation, inner_solution.validation_values)
    return replicate((train_point, validation_point), linear_solution.device_mesh)


@pointwise
def line_search(
    conditions: tuple[Conditions, Conditions | None],
    start: tuple[LinearizationPoint, LinearizationPoint | None],
    full: tuple[LinearizationPoint, LinearizationPoint | None],
    row_weights: tuple[Float[Array, " M"], Float[Array, " N"] | None],
    lengths: Float[Array, " L"],
) -> IterateStep:
    """Choose the fraction of the step to Π_k(θ) with the smallest nonlinear residual.

    **Arguments:** the pairs are for training and for validation points.

    - `start`: linearization points at uᵏ.
    - `full`: linearization points at Π_k(θ).
    - `lengths`: fractions to choose from.
    """

    def interpolate(length):
        return jax.tree.map(lambda old, new: (1.0 - length) * old + length * new, start, full)

    def misfit(iterate) -> Float[Array, ""]:
        total = jnp.zeros(())
        for at_points, view, weights in zip(conditions, iterate, row_weights, strict=True):
            if at_points is not None and weights is not None:
                rows = nonlinear_residual(at_points, view.jets, view.linear)
                total += jnp.sum((weights * rows) ** 2)
        return total

    merits = jax.vmap(lambda length: misfit(interpolate(length)))(lengths)
    merits = jnp.where(jnp.isfinite(merits), merits, jnp.inf)
    # Near convergence differences of the misfit are rounding errors, so the full step is accepted.
    converged = max_relative_change(start[0].jets, full[0].jets) <= _NEGLIGIBLE_CHANGE
    length = lengths[jnp.where(converged, 0, jnp.argmin(merits))]
    train, validation = interpolate(length)
    train_conditions, validation_conditions = conditions
    rms = (
        _residual_rms(train_conditions, train)
        if validation_conditions is None or validation is None
        else _residual_rms(validation_conditions, validation)
    )
    change = max_relative_change(start[0].jets, train.jets)
    return IterateStep(train, validation, length, change, rms)


def _residual_rms(conditions: Conditions, view: LinearizationPoint) -> Float[Array, " C"]:
    """Return the rms residual of each condition."""
    rows = nonlinear_residual(conditions, view.jets, view.linear)
    stops = np.cumsum([condition.num_rows for condition in conditions])
    chunks = jnp.split(rows, stops[:-1])
    return jnp.stack([jnp.sqrt(jnp.mean(chunk**2)) for chunk in chunks])


@compiled
def linearization_point_at(
    prior: Prior,
    inner_solution: CollocationSolution,
    conditions: Conditions,
    neighbor_groups: tuple[NeighborGroups | None, ...],
) -> LinearizationPoint:
    """Return the linearization point of Π_k(θ) at other points."""
    linear_solution = inner_solution.linear_solution
    jets = tuple(
        linear_solution.jets(prior, c.point_set.points, c.nonlinear_terms, groups)
        for c, groups in zip(conditions, neighbor_groups, strict=True)
    )
    system = linearize(conditions, jets)
    row_values = linear_solution.predict(prior, system.stacks, neighbor_groups)
    return replicate(
        LinearizationPoint(jets, row_values - system.apply_to_jets(jets)),
        linear_solution.device_mesh,
    )
