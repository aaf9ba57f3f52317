"""Solution of the sparse solver."""

import equinox as eqx
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Float, Int

from kernelpde.functionals import Functionals, Prior, StackedFunctionals, Term
from kernelpde.linear_solvers._local import NeighborGroups, local_jets
from kernelpde.linear_solvers._protocol import AbstractLinearSolution
from kernelpde.linear_solvers._result import RESULTS
from kernelpde.problem import LinearSystem


class SparseSolution(AbstractLinearSolution):
    """Solution u = κ(·, Φ) z.

    **Attributes:** as for `AbstractLinearSolution`, and

    - `values`: ψu.
    - `all_jet_values`: all jet values of each condition at its points.
    - `iterations`: number of conjugate gradient iterations.
    - `functionals`, `jitter`: ψ and the jitter, for the evaluation at other points.
    - `mesh`: devices that share the evaluation.
    """

    stacks: tuple[StackedFunctionals, ...]
    weights: Float[Array, " M"]
    row_values: Float[Array, " M"]
    norm_squared: Float[Array, ""]
    diagonal: Float[Array, " M"]
    nugget: Float[Array, ""]
    result: RESULTS
    diagonal_shift: Float[Array, " M"]
    values: Float[Array, " N1"]
    all_jet_values: tuple[Float[Array, "_ _"], ...]
    iterations: Int[Array, ""]
    functionals: Functionals
    jitter: float = eqx.field(static=True)
    mesh: Mesh | None = eqx.field(static=True)

    @property
    def device_mesh(self) -> Mesh | None:
        return self.mesh

    @property
    def coefficients(self) -> tuple[Float[Array, "_ _"], ...]:
        return (self.values[:, None],)

    def jets(
        self,
        prior: Prior,
        points: Float[Array, "P d"],
        terms: tuple[Term, ...],
        neighbors: NeighborGroups | None,
    ) -> Float[Array, "P T"]:
        assert neighbors is not None
        return local_jets(
            prior, self.functionals, self.values, self.jitter, points, neighbors, terms, self.mesh
        )

    def predict(
        self,
        prior: Prior,
        stacks: tuple[StackedFunctionals, ...],
        neighbors: tuple[NeighborGroups | None, ...],
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
            self.norm_squared + jnp.sum(self.weights**2 * self.diagonal_shift), 1e-300
        )

    def inner_product(
        self, applied: Float[Array, " M"], coefficients: tuple[Float[Array, "_ _"], ...]
    ) -> Float[Array, ""]:
        del coefficients
        return self.weights @ applied

    def jet_values(self, prior: Prior, system: LinearSystem) -> tuple[Float[Array, "_ _"], ...]:
        del prior
        return tuple(
            jet_values[:, list(indices)]
            for indices, jet_values in zip(
                system.nonlinear_indices, self.all_jet_values, strict=True
            )
        )
