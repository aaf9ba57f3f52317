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
from kernelpde.linalg import DenseFactor
from kernelpde.problem import Rows

_CHUNK = 2**25
"""Bytes of K_ΦΨ that are formed at a time."""


class Features(eqx.Module):
    """F = K_ΦΨ R⁻¹, formed some rows at a time whenever it is needed.

    Values of orthonormal functions: what is computed with them is as accurate as they are few,
    while the weights w of the same function are large numbers that cancel.

    **Attributes:**

    - `kernels`, `rows`, `few`: κ, Φ and Ψ.
    - `root`: K_ΨΨ = RᵀR.
    - `mesh`: the devices that share the rows.
    - `slope`: if given, a direction in which the kernels change; then E = ∂K_ΦΨ R⁻¹ comes with F.
    """

    kernels: Kernels
    rows: Rows
    few: Functionals
    root: DenseFactor
    mesh: Mesh | None = eqx.field(static=True)
    slope: Any = None

    def along(self, slope: Any) -> "Features":
        """With E, for tangents of the inexact arrays in the kernels; without, for `None`."""
        return Features(self.kernels, self.rows, self.few, self.root, self.mesh, slope)

    def square_slope(self) -> Float[Array, "r r"]:
        """D = R⁻ᵀ ∂K_ΨΨ R⁻¹."""
        arrays, rest = eqx.partition(self.kernels, eqx.is_inexact_array)
        square = jax.jvp(
            lambda some: gram(eqx.combine(some, rest), self.few, self.few),
            (arrays,),
            (self.slope,),
        )[1]
        return self.root.solve_half(self.root.solve_half(square).T)

    def normal_equations(
        self, added: Float[Array, "M"], rhs: Float[Array, "M"]
    ) -> tuple[Float[Array, "r r"], Float[Array, "r"]]:
        """I + Fᵀ T⁻¹ F and Fᵀ T⁻¹ b."""

        def one(features: Float[Array, "r n"], numbers):
            weights, target = numbers
            scaled = features * weights
            return scaled @ features.T, scaled @ target

        middle, first = self.summed(one, (1.0 / added, rhs))
        return jnp.eye(len(self.few)) + middle, first

    def transposed(self, vector: Float[Array, "M"]) -> Float[Array, "r"]:
        """Fᵀ v."""
        return self.summed(lambda features, numbers: features @ numbers[0], (vector,))

    def times(self, vector: Float[Array, "r"]) -> Float[Array, "M"]:
        """F a."""
        (found,) = self.by_row(lambda features, _, a: (a @ features,), (), vector)
        return found

    def by_row(
        self,
        function: Callable[..., tuple[Float[Array, "n"], ...]],
        numbers: tuple[Float[Array, "M"], ...],
        *whole: Any,
    ) -> tuple[Float[Array, "M"], ...]:
        """`function(features, numbers, *whole)`, which gives numbers for each of some rows."""
        found, start = [], 0
        for batch in self.rows.batches:

            def mapped(pieces, whole, model, slope, psi, half):
                return jax.lax.map(
                    lambda piece: function(
                        _formed(model, slope, psi, half, piece[0]), piece[1], *whole
                    ),
                    pieces,
                )

            chunks = self._chunks(batch, numbers, start)
            chunks = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), chunks)
            values = rows_shared(mapped, chunks, whole, *self._shared, mesh=self.mesh)
            found.append([leaf.reshape(-1)[: len(batch)] for leaf in values])
            start += len(batch)
        return tuple(map(jnp.concatenate, zip(*found, strict=True)))

    def summed(self, function: Callable[..., Any], numbers: tuple[Float[Array, "M"], ...]) -> Any:
        """The sum of `function(features, numbers)` over parts of the rows; nothing for zeros."""
        total: Any = None
        start = 0
        for batch in self.rows.batches:

            def summed(pieces, model, slope, psi, half):
                @jax.checkpoint
                def one(chunk, piece):
                    return function(_formed(model, slope, psi, half, chunk), piece)

                first, rest = (
                    jax.tree.map(lambda leaf: leaf[0], pieces),
                    jax.tree.map(lambda leaf: leaf[1:], pieces),
                )

                def more(sums, piece):
                    return jax.tree.map(jnp.add, sums, one(*piece)), None

                return jax.lax.scan(more, one(*first), rest)[0]

            pieces = self._chunks(batch, numbers, start)
            found = groups_summed(summed, pieces, *self._shared, mesh=self.mesh)
            total = found if total is None else jax.tree.map(jnp.add, total, found)
            start += len(batch)
        return total

    @property
    def _shared(self) -> tuple[Any, ...]:
        return self.kernels, self.slope, self.few, self.root

    def _chunks(
        self, batch: Functionals, numbers: tuple[Float[Array, "M"], ...], start: int
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


def _formed(kernels: Kernels, slope: Any, few: Functionals, root: DenseFactor, chunk: Functionals):
    """Fᵀ for some rows, or Fᵀ and Eᵀ."""
    # Points were grouped by the width of their functionals.
    rows = jax.tree.map(lambda leaf: leaf.reshape(-1, leaf.shape[-1]), chunk)
    if slope is None:
        return root.solve_half(gram(kernels, few, rows))
    arrays, rest = eqx.partition(kernels, eqx.is_inexact_array)
    both = jax.jvp(lambda some: gram(eqx.combine(some, rest), few, rows), (arrays,), (slope,))
    return tuple(map(root.solve_half, both))
