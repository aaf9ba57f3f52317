"""K_ΦΨ R⁻¹ for many rows Φ and a few functionals Ψ that stand for them."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Float

from kernelpde.functionals import (
    Functionals,
    Kernels,
    gram,
    group_count,
    groups_summed,
    padded,
    rows_shared,
)
from kernelpde.linear_solvers._dense_factor import DenseFactor

_CHUNK = 2**25
"""Bytes of K_ΦΨ that are formed at a time."""


class Features(eqx.Module):
    """F = K_ΦΨ R⁻¹, formed some rows at a time whenever it is needed.

    Values of orthonormal functions: what is computed with them is as accurate as they are few,
    while the weights w of the same function are large numbers that cancel.

    **Attributes:**

    - `kernels`, `batches`, `few`: κ, Φ and Ψ.
    - `root`: K_ΨΨ = RᵀR.
    - `mesh`: the devices that share the rows.
    - `directions`: tangents of the inexact arrays in the kernels, several on a leading axis, if
      E = ∂K_ΦΨ R⁻¹ is needed too.
    """

    kernels: Kernels
    batches: tuple[Functionals, ...]
    few: Functionals
    root: DenseFactor
    mesh: Mesh | None = eqx.field(static=True)
    directions: Any = None

    def of(self, batches: tuple[Functionals, ...]) -> "Features":
        """The same for other rows."""
        return Features(self.kernels, batches, self.few, self.root, self.mesh, self.directions)

    def along(self, directions: Any) -> "Features":
        """The same with E in some directions."""
        return Features(self.kernels, self.batches, self.few, self.root, self.mesh, directions)

    def square_slopes(self) -> Float[Array, "p r r"]:
        """D = R⁻ᵀ ∂K_ΨΨ R⁻¹ in each direction."""

        def one(direction: Any) -> Float[Array, "r r"]:
            square = _slope(self.kernels, direction, self.few, self.few)
            return self.root.solve_half(self.root.solve_half(square).T)

        return jax.lax.map(one, self.directions)

    def normal_equations(
        self, added: Float[Array, " M"], rhs: Float[Array, " M"]
    ) -> tuple[Float[Array, "r r"], Float[Array, " r"]]:
        """I + Fᵀ T⁻¹ F and Fᵀ T⁻¹ b."""

        def one(features: Float[Array, "r n"], numbers):
            weights, target = numbers
            scaled = features * weights
            return scaled @ features.T, scaled @ target

        middle, first = self.summed(one, (1.0 / added, rhs))
        return jnp.eye(len(self.few)) + middle, first

    def transposed(self, vector: Float[Array, " M"]) -> Float[Array, " r"]:
        """Fᵀ v."""
        return self.summed(lambda features, numbers: features @ numbers[0], (vector,))

    def times(self, vector: Float[Array, " r"]) -> Float[Array, " M"]:
        """F a."""
        (found,) = self.by_row(lambda features, _, a: (a @ features,), (), vector)
        return found

    def by_row(
        self,
        function: Callable[..., tuple[Float[Array, " n"], ...]],
        numbers: tuple[Float[Array, " M"], ...],
        *whole: Any,
    ) -> tuple[Float[Array, " M"], ...]:
        """`function(features, numbers, *whole)`, which gives numbers for each of some rows.

        Features are Fᵀ; with directions `Parts`.
        """
        found, start = [], 0
        for batch in self.batches:

            def mapped(pieces, whole, *shared):
                return jax.lax.map(
                    lambda piece: function(_formed(piece[0], *shared), piece[1], *whole), pieces
                )

            chunks = self._chunks(batch, numbers, start)
            chunks = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), chunks)
            values = rows_shared(mapped, chunks, whole, *self._shared, mesh=self.mesh)
            found.append([leaf.reshape(-1)[: len(batch)] for leaf in values])
            start += len(batch)
        return tuple(map(jnp.concatenate, zip(*found, strict=True)))

    def summed(
        self, function: Callable[..., Any], numbers: tuple[Float[Array, " M"], ...], *whole: Any
    ) -> Any:
        """The sum of `function(features, numbers, *whole)`; it must give nothing for zeros."""
        total: Any = None
        start = 0
        for batch in self.batches:

            def summed(pieces, whole, *shared):
                @eqx.filter_checkpoint
                def one(chunk, piece):
                    return function(_formed(chunk, *shared), piece, *whole)

                first, rest = (
                    jax.tree.map(lambda leaf: leaf[0], pieces),
                    jax.tree.map(lambda leaf: leaf[1:], pieces),
                )

                def more(sums, piece):
                    return jax.tree.map(jnp.add, sums, one(*piece)), None

                return jax.lax.scan(more, one(*first), rest)[0]

            pieces = self._chunks(batch, numbers, start)
            found = groups_summed(summed, pieces, whole, *self._shared, mesh=self.mesh)
            total = found if total is None else jax.tree.map(jnp.add, total, found)
            start += len(batch)
        return total

    @property
    def _shared(self) -> tuple[Any, ...]:
        return self.kernels, self.directions, self.few, self.root

    def _chunks(
        self, batch: Functionals, numbers: tuple[Float[Array, " M"], ...], start: int
    ) -> tuple[Functionals, tuple[Float[Array, "_ _ _"], ...]]:
        """Rows and numbers that belong to them, in groups of parts of equal size, filled with 0."""
        count, groups = len(batch), group_count(self.mesh)
        parts = -(-count // max(1, min(count, _CHUNK // (8 * len(self.few)))))
        parts += -parts % groups
        size = -(-count // parts)

        def grouped(leaf: Array) -> Array:
            return leaf.reshape(groups, -1, size, *leaf.shape[1:])

        local = jax.tree.map(lambda leaf: leaf.reshape(count, batch.width, -1), batch)
        zeros = jnp.zeros(parts * size - count)
        filled = tuple(jnp.concatenate([n[start : start + count], zeros]) for n in numbers)
        return jax.tree.map(grouped, (padded(local, parts * size), filled))


class Parts(eqx.Module):
    """F for some rows, and E in any direction.

    **Attributes:**

    - `features`: Fᵀ.
    - `directions`: on a leading axis.
    """

    features: Float[Array, "r n"]
    directions: Any
    kernels: Kernels
    few: Functionals
    root: DenseFactor
    rows: Functionals

    def slope(self, direction: Any) -> Float[Array, "r n"]:
        """Eᵀ in one of the directions."""
        return self.root.solve_half(_slope(self.kernels, direction, self.few, self.rows))


def _formed(
    chunk: Functionals, kernels: Kernels, directions: Any, few: Functionals, root: DenseFactor
) -> Float[Array, "r n"] | Parts:
    # Points were grouped by the width of their functionals.
    rows = jax.tree.map(lambda leaf: leaf.reshape(-1, leaf.shape[-1]), chunk)
    features = root.solve_half(gram(kernels, few, rows))
    if directions is None:
        return features
    return Parts(features, directions, kernels, few, root, rows)


def _slope(
    kernels: Kernels, direction: Any, left: Functionals, right: Functionals
) -> Float[Array, "m n"]:
    """∂κ(left, right) in a direction."""
    arrays, rest = eqx.partition(kernels, eqx.is_inexact_array)

    def matrix(some: Any) -> Float[Array, "m n"]:
        return gram(eqx.combine(some, rest), left, right)

    return jax.jvp(matrix, (arrays,), (direction,))[1]
