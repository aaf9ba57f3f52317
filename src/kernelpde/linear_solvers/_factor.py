"""Sparse triangular factors of inverse Gram matrices (KL-minimization).

Among all U with a given sparsity pattern, upper triangular in the order of elimination, the one for
which N(0, (U Uᵀ)⁻¹) is closest to N(0, K) in the Kullback-Leibler divergence has the columns

    U_{s,j} = K_ss⁻¹ e_j / √(e_jᵀ K_ss⁻¹ e_j),

with s the rows that column j is coupled to (Schäfer, Katzfuss and Owhadi 2021). With K_ss = L Lᵀ in
the order of elimination these are columns of L⁻ᵀ. One small Cholesky factor yields all columns of a
supernode.
"""

from collections.abc import Callable
from functools import partial
from math import prod

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float, Int, PyTree

from kernelpde.functionals import Functionals, Prior, gram, map_rows
from kernelpde.linear_solvers._supernodes import Pattern, Supernodes


class SupernodeFactors(eqx.Module):
    """Blocks of U for the supernodes of one padded size.

    **Attributes:**

    - `off_diagonal`: blocks U_{r,c} with r the rows and c the columns of a supernode.
    - `diagonal`: blocks U_cc.
    - `inverse`: blocks U_cc⁻ᵀ.
    """

    off_diagonal: Float[Array, "... r c"]
    diagonal: Float[Array, "... c c"]
    inverse: Float[Array, "... c c"]


class Factor(eqx.Module):
    """Sparse triangular factor U with K⁻¹ ≈ U Uᵀ.

    Devices share the computation of the factor, and each device stores all of it. A triangular
    solve is a sequence of hundreds of small steps, and communication in each would dominate them.

    **Attributes:**

    - `pattern`: sparsity pattern.
    - `supernode_factors`: blocks of U for each batch of the pattern.
    """

    pattern: Pattern
    supernode_factors: tuple[SupernodeFactors, ...]

    @property
    def succeeded(self) -> Bool[Array, ""]:
        """True if all small factorizations succeeded."""
        return jnp.stack(
            [jnp.isfinite(factors.diagonal).all() for factors in self.supernode_factors]
        ).all()

    def precision_times(self, vector: Float[Array, " N1"]) -> Float[Array, " N1"]:
        """Return U Uᵀ x ≈ K⁻¹ x."""
        total = jnp.zeros(self.pattern.padding_index + 1)
        for batch, factors in zip(self.pattern.batches, self.supernode_factors, strict=True):
            # Uᵀ x for the columns of each supernode.
            local = jnp.einsum("nbrc,nbr->nbc", factors.off_diagonal, vector[batch.rows])
            local = local + jnp.einsum("nbdc,nbd->nbc", factors.diagonal, vector[batch.columns])
            row_values = jnp.einsum("nbrc,nbc->nbr", factors.off_diagonal, local)
            column_values = jnp.einsum("nbdc,nbc->nbd", factors.diagonal, local)
            total = total.at[batch.rows].add(row_values).at[batch.columns].add(column_values)
        return total.at[-1].set(0.0)

    def covariance_times(self, vector: Float[Array, " N1"]) -> Float[Array, " N1"]:
        """Return (U Uᵀ)⁻¹ x ≈ K x by two triangular solves."""
        return jax.lax.custom_linear_solve(
            self.precision_times,
            vector,
            lambda _, x: self._solve_transposed(self._solve(x)),
            symmetric=True,
        )

    def _solve(self, vector: Float[Array, " N1"]) -> Float[Array, " N1"]:
        """Return U⁻¹ x, from the last column to the first."""
        num_columns = max(prod(batch.columns.shape[1:]) for batch in self.pattern.batches)
        num_rows = max(prod(batch.rows.shape[1:]) for batch in self.pattern.batches)

        def compute(batch: Supernodes, factors: SupernodeFactors, state):
            residual, _ = state
            local = jnp.einsum("bdc,bd->bc", factors.inverse, residual[batch.columns])
            row_values = jnp.einsum("brc,bc->br", factors.off_diagonal, local)
            return (
                self._pad_update(batch.columns, local, num_columns),
                self._pad_update(batch.rows, row_values, num_rows),
            )

        def update(state, changes):
            residual, solution = state
            (columns, local), (rows, row_values) = changes
            return residual.at[rows].add(-row_values), solution.at[columns].set(local)

        start = (vector, jnp.zeros_like(vector))
        return self._eliminate(compute, update, start, reverse=True)[1].at[-1].set(0.0)

    def _solve_transposed(self, vector: Float[Array, " N1"]) -> Float[Array, " N1"]:
        """Return U⁻ᵀ x, from the first column to the last."""
        num_columns = max(prod(batch.columns.shape[1:]) for batch in self.pattern.batches)

        def compute(batch: Supernodes, factors: SupernodeFactors, solution):
            previous = jnp.einsum("brc,br->bc", factors.off_diagonal, solution[batch.rows])
            residual = vector[batch.columns] - previous
            local = jnp.einsum("bdc,bc->bd", factors.inverse, residual)
            return self._pad_update(batch.columns, local, num_columns)

        def update(solution, changes):
            columns, local = changes
            return solution.at[columns].set(local).at[-1].set(0.0)

        return self._eliminate(compute, update, jnp.zeros_like(vector), reverse=False)

    def _pad_update(
        self, indices: Int[Array, "b n"], values: Float[Array, "b n"], size: int
    ) -> tuple[Int[Array, " s"], Float[Array, " s"]]:
        """Pad an update to a size that all steps share."""
        extra = size - indices.size
        return (
            jnp.pad(indices.reshape(-1), (0, extra), constant_values=self.pattern.padding_index),
            jnp.pad(values.reshape(-1), (0, extra)),
        )

    def _eliminate(self, compute, update, state, reverse: bool):
        """Scan over the elimination steps.

        `compute` returns the changes of a step, and `update` applies them outside of the branches,
        since the results of a branch are copied and must be small.
        """

        def branch(kind: int, position, state):
            arrays = (self.pattern.batches[kind], self.supernode_factors[kind])
            return compute(*jax.tree.map(lambda leaf: leaf[position], arrays), state)

        branches = [partial(branch, kind) for kind in range(len(self.supernode_factors))]

        def step(state, kind_and_position):
            kind, position = kind_and_position
            return update(state, jax.lax.switch(kind, branches, position, state)), None

        steps = (self.pattern.batch_kind, self.pattern.position)
        return jax.lax.scan(step, state, steps, reverse=reverse)[0]


def map_groups(
    function: Callable[..., PyTree],
    indices: tuple[Int[Array, "*n _"], ...],
    *operands: PyTree,
    mesh: Mesh | None,
) -> PyTree:
    """Return `function(group, *operands)` for each group of indices, distributed over devices.

    Groups are processed sequentially. On the CPU, batched calls of LAPACK share threads with other
    operations, and two simultaneous calls can deadlock.
    """

    def map_shard(groups: tuple[Int[Array, "m _"], ...], *operands: PyTree) -> PyTree:
        return jax.lax.map(lambda group: function(group, *operands), groups)

    shape = indices[0].shape[:-1]
    flat = tuple(array.reshape(-1, array.shape[-1]) for array in indices)
    outputs = map_rows(map_shard, flat, *operands, mesh=mesh)
    return jax.tree.map(lambda leaf: leaf.reshape(*shape, *leaf.shape[1:]), outputs)


def small_gram(
    prior: Prior,
    functionals: Functionals,
    indices: Int[Array, " r"],
    jitter: float,
    shift: Float[Array, " N1"] | None = None,
) -> Float[Array, "r r"]:
    """Return the Gram matrix of selected functionals, with ones for padding."""
    selected = functionals[indices]
    matrix = gram(prior, selected, selected)
    diagonal = (1.0 + jitter) * jnp.diagonal(matrix)
    if shift is not None:
        diagonal = diagonal + shift[indices]
    diagonal = jnp.where(indices == len(functionals) - 1, 1.0, diagonal)
    return jnp.where(jnp.eye(len(indices), dtype=bool), diagonal[:, None], matrix)


def small_factor(matrix: Float[Array, "r r"]) -> Float[Array, "r r"]:
    """Return the lower Cholesky factor, without its derivative."""
    return jax.lax.linalg.cholesky(jax.lax.stop_gradient(matrix), symmetrize_input=False)


def small_solve(
    matrix: Float[Array, "r r"], lower: Float[Array, "r r"], rhs: Float[Array, " r"]
) -> Float[Array, " r"]:
    """Return K⁻¹ b from L, with the derivative -K⁻¹ ∂K K⁻¹ b + K⁻¹ ∂b."""

    def inverse(vector: Float[Array, " r"]) -> Float[Array, " r"]:
        solve = partial(jax.lax.linalg.triangular_solve, lower, left_side=True, lower=True)
        return solve(solve(vector[:, None]), transpose_a=True)[:, 0]

    solution = jax.lax.stop_gradient(inverse(rhs))
    return solution + inverse(rhs - matrix @ solution)


def _supernode_blocks(
    indices: tuple[Int[Array, " r"], Int[Array, " c"]],
    prior: Prior,
    functionals: Functionals,
    shift: Float[Array, " N1"],
    jitter: float,
) -> SupernodeFactors:
    """Compute the blocks of U for a supernode."""
    rows, columns = indices
    members = jnp.concatenate([rows, columns])
    lower = small_factor(small_gram(prior, functionals, members, jitter, shift))
    unit = jnp.eye(len(members))[:, len(rows) :]
    inverse = jax.lax.linalg.triangular_solve(
        lower, unit, left_side=True, lower=True, transpose_a=True
    )
    mask = jnp.where(columns == len(functionals) - 1, 0.0, 1.0)
    last = lower[len(rows) :, len(rows) :]
    return SupernodeFactors(inverse[: len(rows)] * mask, inverse[len(rows) :] * mask, last * mask)


def factorize_sparse(
    prior: Prior,
    functionals: Functionals,
    shift: Float[Array, " N1"],
    jitter: float,
    pattern: Pattern,
) -> Factor:
    """Compute U for κ(Φ, Φ) + T.

    **Arguments:**

    - `prior`: prior of the fields.
    - `functionals`: functionals Φ, followed by a zero functional.
    - `shift`: diagonal of T.
    - `jitter`: relative increase of the diagonal of small Gram matrices.
    - `pattern`: sparsity pattern of U.
    """
    compute = partial(_supernode_blocks, jitter=jitter)
    operands = (prior, functionals, shift)
    factors = [
        map_groups(compute, (batch.rows, batch.columns), *operands, mesh=pattern.mesh)
        for batch in pattern.batches
    ]
    return Factor(pattern, tuple(factors))


def precision_times(
    prior: Prior,
    functionals: Functionals,
    jitter: float,
    pattern: Pattern,
    vector: Float[Array, " N1"],
) -> Float[Array, " N1"]:
    """Return U Uᵀ x as a differentiable function of the kernels, without storing U.

    The columns of a supernode contribute K_ss⁻¹ x_s - K_rr⁻¹ x_r, with s its rows and columns and r
    its rows. No derivative of a factor is needed.
    """
    total = jnp.zeros(pattern.padding_index + 1)

    @eqx.filter_checkpoint
    def contribution(indices: tuple[Int[Array, " r"], Int[Array, " c"]], prior, functionals, x):
        rows, columns = indices
        members, num_rows = jnp.concatenate([rows, columns]), len(rows)
        matrix = small_gram(prior, functionals, members, jitter)
        lower = small_factor(matrix)
        solution = small_solve(matrix, lower, x[members])
        row_solution = small_solve(
            matrix[:num_rows, :num_rows], lower[:num_rows, :num_rows], x[rows]
        )
        return solution[:num_rows] - row_solution, solution[num_rows:]

    for batch in pattern.batches:
        indices = (batch.rows, batch.columns)
        row_values, column_values = map_groups(
            contribution, indices, prior, functionals, vector, mesh=pattern.mesh
        )
        total = total.at[batch.rows].add(row_values).at[batch.columns].add(column_values)
    return total.at[-1].set(0.0)
