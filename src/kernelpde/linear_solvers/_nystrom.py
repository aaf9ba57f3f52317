"""Nyström factors K_ΦΨ R⁻¹ of rows Φ and inducing functionals Ψ."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial, reduce
from typing import TypeAlias, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Float, PyTree

from kernelpde.arrays import FLOAT_BYTES
from kernelpde.functionals import (
    Functionals,
    Prior,
    gram,
    map_rows,
    num_groups,
    pad_rows,
    sum_groups,
)
from kernelpde.linear_solvers._dense_factor import DenseFactor
from kernelpde.memory import CACHE_BYTES

_Sum = TypeVar("_Sum", bound=PyTree)

_Chunks: TypeAlias = tuple[Functionals, tuple[Float[Array, "_ _ _"], ...]]


class LowRankFactors(eqx.Module):
    """Factors of a low-rank solve.

    **Attributes:**

    - `inducing_factor`: factor R of K_ΨΨ = RᵀR.
    - `core_factor`: Cholesky factor of H = I + Fᵀ T⁻¹ F.
    - `coefficients`: a = H⁻¹ Fᵀ T⁻¹ b.
    """

    inducing_factor: DenseFactor
    core_factor: Float[Array, "r r"]
    coefficients: Float[Array, " r"]


class NystromFactor(eqx.Module):
    """Nyström factor F = K_ΦΨ R⁻¹, formed in chunks of rows when it is needed.

    Its columns are the values of orthonormal functions, so products with F lose no digits. The
    weights w of the same function are large numbers that cancel.

    **Attributes:**

    - `prior`, `batches`, `inducing`: κ, Φ and Ψ.
    - `inducing_factor`: factor R of K_ΨΨ = RᵀR.
    - `mesh`: devices that share the rows.
    - `directions`: tangents of the inexact arrays in the kernels, stacked on a leading axis, if
      E = ∂K_ΦΨ R⁻¹ is needed.
    """

    prior: Prior
    batches: tuple[Functionals, ...]
    inducing: Functionals
    inducing_factor: DenseFactor
    mesh: Mesh | None = eqx.field(static=True)
    directions: PyTree | None = None

    def tangent(self, direction: PyTree, rows: Functionals) -> Float[Array, "r n"]:
        """Return Eᵀ = R⁻ᵀ ∂κ(Ψ, rows) for a direction."""
        arrays, static = eqx.partition(self.prior, eqx.is_inexact_array)

        def matrix(arrays: PyTree) -> Float[Array, "r n"]:
            return gram(eqx.combine(arrays, static), self.inducing, rows)

        return self.inducing_factor.solve_transposed(jax.jvp(matrix, (arrays,), (direction,))[1])

    def whitened_tangents(self) -> Float[Array, "p r r"]:
        """Return D = R⁻ᵀ ∂K_ΨΨ R⁻¹ for each direction."""

        def whiten(direction: PyTree) -> Float[Array, "r r"]:
            return self.inducing_factor.solve_transposed(self.tangent(direction, self.inducing).T)

        return jax.lax.map(whiten, self.directions)

    def normal_equations(
        self, shift: Float[Array, " M"], rhs: Float[Array, " M"]
    ) -> tuple[Float[Array, "r r"], Float[Array, " r"]]:
        """Return I + Fᵀ T⁻¹ F and Fᵀ T⁻¹ b, with `shift` the diagonal of T."""

        def products(chunk: NystromChunk, row_arrays):
            weights, targets = row_arrays
            scaled = chunk.features * weights
            return scaled @ chunk.features.T, scaled @ targets

        core, projected = self.sum_rows(products, (1.0 / shift, rhs))
        return jnp.eye(len(self.inducing)) + core, projected

    def transposed_times(self, vector: Float[Array, " M"]) -> Float[Array, " r"]:
        """Return Fᵀ v."""
        return self.sum_rows(lambda chunk, row_arrays: chunk.features @ row_arrays[0], (vector,))

    def times(self, vector: Float[Array, " r"]) -> Float[Array, " M"]:
        """Return F a."""
        (product,) = self.map_rows(lambda chunk, _, a: (a @ chunk.features,), (), vector)
        return product

    def map_rows(
        self,
        function: Callable[..., tuple[Float[Array, " n"], ...]],
        row_arrays: tuple[Float[Array, " M"], ...],
        *operands: PyTree,
    ) -> tuple[Float[Array, " M"], ...]:
        """Return `function(chunk, row_arrays, *operands)` for chunks of rows, concatenated."""
        shared = replace(self, batches=())
        outputs = []
        for batch, chunks in self._chunks(row_arrays):

            def map_chunks(chunks, shared, operands):
                return jax.lax.map(
                    lambda chunk: function(shared._form(chunk[0]), chunk[1], *operands), chunks
                )

            flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), chunks)
            values = map_rows(map_chunks, flat, shared, operands, mesh=self.mesh)
            outputs.append(tuple(leaf.reshape(-1)[: len(batch)] for leaf in values))
        return jax.tree.map(lambda *chunks: jnp.concatenate(chunks), *outputs)

    def sum_rows(
        self,
        function: Callable[..., _Sum],
        row_arrays: tuple[Float[Array, " M"], ...],
        *operands: PyTree,
    ) -> _Sum:
        """Return the sum of `function(chunk, row_arrays, *operands)` over chunks of rows.

        The function must return zero for rows that are zero.
        """
        shared = replace(self, batches=())
        sums = []
        for _, chunks in self._chunks(row_arrays):

            def sum_chunks(chunks, shared, operands):
                @eqx.filter_checkpoint
                def evaluate(rows, arrays):
                    return function(shared._form(rows), arrays, *operands)

                def add(partial_sum, chunk):
                    return jax.tree.map(jnp.add, partial_sum, evaluate(*chunk)), None

                first = jax.tree.map(lambda leaf: leaf[0], chunks)
                remaining = jax.tree.map(lambda leaf: leaf[1:], chunks)
                return jax.lax.scan(add, evaluate(*first), remaining)[0]

            sums.append(sum_groups(sum_chunks, chunks, shared, operands, mesh=self.mesh))
        return reduce(partial(jax.tree.map, jnp.add), sums)

    def _form(self, rows: Functionals) -> "NystromChunk":
        # Quadrature nodes are on a separate axis of the chunk.
        rows = jax.tree.map(lambda leaf: leaf.reshape(-1, leaf.shape[-1]), rows)
        features = self.inducing_factor.solve_transposed(gram(self.prior, self.inducing, rows))
        return NystromChunk(features, self, rows)

    def _chunks(
        self, row_arrays: tuple[Float[Array, " M"], ...]
    ) -> Iterator[tuple[Functionals, _Chunks]]:
        """Yield each batch with its rows and their arrays in chunks."""
        start = 0
        for batch in self.batches:
            stop = start + len(batch)
            yield batch, self._split(batch, tuple(array[start:stop] for array in row_arrays))
            start = stop

    def _split(self, batch: Functionals, row_arrays: tuple[Float[Array, " n"], ...]) -> _Chunks:
        """Split rows and their arrays into groups of chunks of equal size, padded with zeros."""
        count, groups = len(batch), num_groups(self.mesh)
        max_rows = max(1, min(count, 4 * CACHE_BYTES // (FLOAT_BYTES * len(self.inducing))))
        num_chunks = -(-count // max_rows)
        num_chunks += -num_chunks % groups
        size = -(-count // num_chunks)

        def group(leaf: Array) -> Array:
            return leaf.reshape(groups, -1, size, *leaf.shape[1:])

        local = jax.tree.map(lambda leaf: leaf.reshape(count, batch.num_nodes, -1), batch)
        zeros = jnp.zeros(num_chunks * size - count)
        padded = tuple(jnp.concatenate([array, zeros]) for array in row_arrays)
        return jax.tree.map(group, (pad_rows(local, num_chunks * size), padded))


class NystromChunk(eqx.Module):
    """Nyström factor of a chunk of rows.

    **Attributes:**

    - `features`: Fᵀ.
    - `factor`: kernels, inducing functionals and directions.
    - `rows`: rows of the chunk.
    """

    features: Float[Array, "r n"]
    factor: NystromFactor
    rows: Functionals

    def tangent(self, direction: PyTree) -> Float[Array, "r n"]:
        """Return Eᵀ for a direction."""
        return self.factor.tangent(direction, self.rows)
