"""Products of the covariances between rows and inducing functionals with vectors, in chunks."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Float

from kernelpde.functionals import (
    Functionals,
    Prior,
    StackedFunctionals,
    Term,
    evaluate_jets,
    expand,
    gram_diagonal,
    map_rows,
    num_groups,
    sum_groups,
)
from kernelpde.linear_solvers._zero_rows import pad_functionals
from kernelpde.problem import LinearSystem


def diagonal_and_shift(
    prior: Prior, system: LinearSystem, nugget: float | Float[Array, ""]
) -> tuple[Float[Array, " M"], Float[Array, " M"]]:
    """Return the diagonal of K, and T = Σ + ηD with D the row scale of the system."""
    diagonal = gram_diagonal(prior, system.batches)
    row_scale = diagonal + system.variance if system.row_scale is None else system.row_scale
    return diagonal, system.variance + nugget * row_scale


def sharded_jets(
    prior: Prior,
    points: Float[Array, "N d"],
    terms: tuple[Term, ...],
    batches: tuple[Functionals, ...],
    mesh: Mesh | None,
) -> Float[Array, "N T"]:
    """Evaluate jet values of an expansion, with the points distributed over devices."""

    def evaluate(points, prior, batches):
        return evaluate_jets(prior, points, terms, batches)

    return map_rows(evaluate, points, prior, batches, mesh=mesh)


class CrossCovariance(eqx.Module):
    """Matrix K_ΦΨ of rows Φ and inducing functionals Ψ, which is not formed.

    **Attributes:**

    - `prior`, `rows`, `inducing`: κ, Φ and Ψ.
    - `mesh`: devices that share the rows.
    """

    prior: Prior
    rows: tuple[StackedFunctionals, ...]
    inducing: StackedFunctionals
    mesh: Mesh | None = eqx.field(static=True)

    def times(self, vector: Float[Array, " r"]) -> Float[Array, " M"]:
        """Return K_ΦΨ w."""
        weighted = expand((self.inducing,), vector)
        return jnp.concatenate(
            [
                stack.apply(
                    sharded_jets(self.prior, stack.points, stack.terms, weighted, self.mesh)
                )
                for stack in self.rows
            ]
        )

    def transposed_times(self, vector: Float[Array, " M"]) -> Float[Array, " r"]:
        """Return K_ΨΦ v."""
        num_chunks = num_groups(self.mesh)

        def product(batches, prior, inducing):
            return inducing.apply(evaluate_jets(prior, inducing.points, inducing.terms, batches))

        def split(batch: Functionals) -> Functionals:
            padded = pad_functionals(batch, -batch.points.shape[0] % num_chunks)
            return jax.tree.map(lambda leaf: leaf.reshape(num_chunks, -1, *leaf.shape[1:]), padded)

        chunks = tuple(map(split, expand(self.rows, vector)))
        return sum_groups(product, chunks, self.prior, self.inducing, mesh=self.mesh)
