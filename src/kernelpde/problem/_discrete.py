"""Discrete problems: what remains of a problem at its collocation points.

They contain arrays and traced residuals, without the names of fields and conditions, so that
problems with the same arrays share compiled programs.
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from kernelpde.arrays import to_array
from kernelpde.compiling import padded_size, pointwise
from kernelpde.functionals import Prior, StackedFunctionals, Term
from kernelpde.problem._linear_system import LinearSystem
from kernelpde.problem._point_set import PointSet
from kernelpde.problem._residual import Residual

JetValues = tuple[Float[Array, "_ _"], ...]
"""For each condition, values of jet entries of the fields at its points."""


class DiscreteCondition(eqx.Module):
    """A condition at its points.

    **Attributes:**

    - `residual`: traced residual.
    - `point_set`: points with their normals, data and noise.
    """

    residual: Residual
    point_set: PointSet

    @property
    def num_equations(self) -> int:
        return len(self.residual.equation_terms)

    @property
    def num_rows(self) -> int:
        """Number of rows of the linear system, one per equation and point or average."""
        return self.num_equations * self.point_set.rows_per_equation

    @property
    def num_active_rows(self) -> int | Int[Array, ""]:
        """Number of rows without padding."""
        return self.num_equations * self.point_set.active_rows_per_equation

    @property
    def terms(self) -> tuple[Term, ...]:
        """Jet entries that the residual uses."""
        return self.residual.terms

    @property
    def nonlinear_terms(self) -> tuple[Term, ...]:
        """Jet entries in which the residual is nonlinear."""
        return self.residual.nonlinear_terms

    def zero_jets(self) -> Float[Array, "N K"]:
        """Return the nonlinear jet entries of u = 0."""
        return to_array(np.zeros((len(self.point_set.points), len(self.residual.nonlinear))))

    def evaluate(
        self, jets: Float[Array, "N K"]
    ) -> tuple[Float[Array, "N R"], Float[Array, "N R T"]]:
        """Evaluate F without its linear part, and ∂F/∂j; see `Residual.linearize`."""
        points = self.point_set
        return self.residual.linearize(points.points, points.normals, points.data, jets)

    def nonlinear_part(self, jets: Float[Array, "N K"]) -> Float[Array, " M"]:
        """Return the rows of F without its linear part."""
        return self.point_set.reduce_to_rows(self.evaluate(jets)[0])

    def padded(self) -> "DiscreteCondition":
        """Append padding rows up to a size that shares programs; see `PointSet.padded`."""
        size = padded_size(self.point_set.rows_per_equation)
        return DiscreteCondition(self.residual, self.point_set.padded(size))


Conditions = tuple[DiscreteCondition, ...]


class DiscreteProblem(eqx.Module):
    """Prior of the fields and the conditions at their points.

    **Attributes:**

    - `prior`: Gaussian-process prior of the fields.
    - `conditions`: conditions at their points.
    """

    prior: Prior
    conditions: Conditions

    @property
    def num_rows(self) -> int:
        return sum(condition.num_rows for condition in self.conditions)

    @property
    def point_sets(self) -> tuple[PointSet, ...]:
        return tuple(condition.point_set for condition in self.conditions)

    @property
    def terms(self) -> set[Term]:
        """Jet entries that the conditions use."""
        return {term for condition in self.conditions for term in condition.terms}

    @property
    def uses_laws(self) -> bool:
        """True if a condition contains a law, which couples all its points."""
        return any(term.node_index is not None for term in self.terms)

    @property
    def has_averages(self) -> bool:
        """True if some rows are averages over several points."""
        return any(point_set.num_nodes > 1 for point_set in self.point_sets)

    def linearize(self, jet_values: JetValues) -> LinearSystem:
        """Linearize the conditions at an iterate, given by its nonlinear jet values."""
        return linearize(self.conditions, jet_values)

    def residuals(
        self, jet_values: JetValues, linear_part: Float[Array, " M"]
    ) -> Float[Array, " M"]:
        """Return F(u), row by row; see `nonlinear_residual`."""
        return nonlinear_residual(self.conditions, jet_values, linear_part)


@pointwise
def linearize(conditions: Conditions, jet_values: JetValues) -> LinearSystem:
    """Linearize conditions at an iterate, given by its nonlinear jet values."""
    stacks, rhs, variances, nonlinear_coefficients = [], [], [], []
    for condition, jets in zip(conditions, jet_values, strict=True):
        residual, points = condition.residual, condition.point_set
        values, jacobian = condition.evaluate(jets)
        nonlinear = jacobian[:, :, list(residual.nonlinear)]
        rhs.append(points.reduce_to_rows(jnp.einsum("nrk,nk->nr", nonlinear, jets) - values))
        nonlinear_coefficients.append(points.weight_by_quadrature(nonlinear))
        coefficients = points.weight_by_quadrature(jacobian)
        stacks.append(
            StackedFunctionals(
                points.points,
                coefficients,
                residual.terms,
                residual.equation_terms,
                points.num_nodes,
            )
        )
        variances.append(jnp.tile(points.noise**2, condition.num_equations))
    return LinearSystem(
        tuple(stacks),
        jnp.concatenate(rhs),
        jnp.concatenate(variances),
        tuple(nonlinear_coefficients),
        tuple(condition.residual.nonlinear for condition in conditions),
    )


def nonlinear_residual(
    conditions: Conditions, jet_values: JetValues, linear_part: Float[Array, " M"]
) -> Float[Array, " M"]:
    """Return F(u), row by row, from the nonlinear jet values of u and the linear part of rows."""
    nonlinear_parts = map(DiscreteCondition.nonlinear_part, conditions, jet_values)
    return linear_part + jnp.concatenate([*nonlinear_parts])
