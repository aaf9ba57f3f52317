"""What the sparse solver returns."""

import equinox as eqx
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Float, Int

from kernelpde.functionals import Functionals, Kernels, Stack, Term
from kernelpde.linear_solvers._local import Nearby, local_jets
from kernelpde.linear_solvers._result import RESULTS
from kernelpde.linear_solvers._system import (
    AbstractLinearSolution,
)
from kernelpde.problem import LinearizedProblem


class SparseSolution(AbstractLinearSolution):
    """u = κ(·, Φ) z.

    **Attributes:** as for `AbstractLinearSolution`, and

    - `values`: ψu.
    - `raw`: for each condition all its jet entries at its points.
    - `iterations`: of conjugate gradients.
    - `pool`, `jitter`: ψ, to see u elsewhere.
    """

    stacks: tuple[Stack, ...]
    weights: Float[Array, " M"]
    fitted: Float[Array, " M"]
    norm_squared: Float[Array, ""]
    diagonal: Float[Array, " M"]
    nugget: Float[Array, ""]
    result: RESULTS
    added: Float[Array, " M"]
    values: Float[Array, " N1"]
    raw: tuple[Float[Array, "_ _"], ...]
    iterations: Int[Array, ""]
    pool: Functionals
    jitter: float = eqx.field(static=True)
    mesh: Mesh | None = eqx.field(static=True)

    @property
    def devices(self) -> Mesh | None:
        return self.mesh

    @property
    def coefficients(self) -> tuple[Float[Array, "_ _"], ...]:
        return (self.values[:, None],)

    def jets(
        self,
        kernels: Kernels,
        points: Float[Array, "P d"],
        terms: tuple[Term, ...],
        near: Nearby | None,
    ) -> Float[Array, "P T"]:
        assert near is not None
        return local_jets(
            kernels, self.pool, self.values, self.jitter, points, near, terms, self.mesh
        )

    def predicted(
        self,
        kernels: Kernels,
        stacks: tuple[Stack, ...],
        near: tuple[Nearby | None, ...],
        keep: bool = False,
    ) -> Float[Array, " N"]:
        del keep
        return jnp.concatenate(
            [
                stack.applied(self.jets(kernels, stack.points, stack.terms, n))
                for stack, n in zip(stacks, near, strict=True)
            ]
        )

    def condition(self) -> Float[Array, ""]:
        # The smallest eigenvalue is at most what zᵀ (K + T) z / zᵀ z says, with unit diagonal.
        size = self.diagonal + self.added
        scaled = self.weights**2 * size
        return jnp.sum(scaled) / jnp.maximum(
            self.norm_squared + jnp.sum(self.weights**2 * self.added), 1e-300
        )

    def inner_product(
        self, applied: Float[Array, " M"], coefficients: tuple[Float[Array, "_ _"], ...]
    ) -> Float[Array, ""]:
        del coefficients
        return self.weights @ applied

    def entries(self, kernels: Kernels, rows: LinearizedProblem) -> tuple[Float[Array, "_ _"], ...]:
        del kernels
        return tuple(
            entries[:, list(numbers)]
            for numbers, entries in zip(rows.nonlinear, self.raw, strict=True)
        )
