"""Solution of the sparse solver."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from kernelpde.arrays import TINY
from kernelpde.functionals import Prior, StackedFunctionals, Term
from kernelpde.linear_solvers._local import LocalExpansion, NeighborGroups
from kernelpde.linear_solvers._protocol import AbstractLinearSolution, Coefficients, Neighbors
from kernelpde.problem import LinearSystem


class SparseSolution(AbstractLinearSolution):
    """Solution u = κ(·, Φ) z.

    **Attributes:** as for `AbstractLinearSolution`, and

    - `local_expansion`: representation of u by ψu, for the evaluation at other points.
    - `all_jet_values`: all jet values of each condition at its points.
    """

    local_expansion: LocalExpansion
    all_jet_values: tuple[Float[Array, "_ _"], ...]

    @property
    def coefficients(self) -> Coefficients:
        return (self.local_expansion.values[:, None],)

    def jets(
        self,
        prior: Prior,
        points: Float[Array, "P d"],
        terms: tuple[Term, ...],
        neighbors: NeighborGroups | None,
    ) -> Float[Array, "P T"]:
        assert neighbors is not None
        return self.local_expansion.evaluate(prior, points, neighbors, terms, self.device_mesh)

    def predict(
        self,
        prior: Prior,
        stacks: tuple[StackedFunctionals, ...],
        neighbors: Neighbors,
        cache_intermediates: bool = False,
    ) -> Float[Array, " N"]:
        del cache_intermediates
        return jnp.concatenate(
            [
                stack.apply(self.jets(prior, stack.points, stack.terms, groups))
                for stack, groups in zip(stacks, neighbors, strict=True)
            ]
        )

    def condition_number(self) -> Float[Array, ""]:
        # The Rayleigh quotient zᵀ (K + T) z / zᵀ z with unit diagonal bounds the smallest
        # eigenvalue from above.
        scaled = self.weights**2 * (self.diagonal + self.diagonal_shift)
        return jnp.sum(scaled) / jnp.maximum(
            self.norm_squared + jnp.sum(self.weights**2 * self.diagonal_shift), TINY
        )

    def jet_values(self, prior: Prior, system: LinearSystem) -> tuple[Float[Array, "_ _"], ...]:
        del prior
        return tuple(
            self.all_jet_values[n][:, list(indices)]
            for n, indices in enumerate(system.nonlinear_indices)
        )
