"""Products of the covariances of all rows and some functionals with vectors, in parts."""

import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Float

from kernelpde.functionals import (
    Functionals,
    Kernels,
    Stack,
    expansion,
    group_count,
    groups_summed,
    jets,
    padded,
    rows_shared,
)


def rows_times(
    kernels: Kernels,
    rows: tuple[Stack, ...],
    basis: tuple[Stack, ...],
    vector: Float[Array, " r"],
    mesh: Mesh | None,
) -> Float[Array, " M"]:
    """K_ΦΨ w."""
    weighted = expansion(basis, vector)
    parts = [
        stack.applied(
            rows_shared(
                lambda points, model, parts, terms=stack.terms: jets(model, points, terms, parts),
                stack.points,
                kernels,
                weighted,
                mesh=mesh,
            )
        )
        for stack in rows
    ]
    return jnp.concatenate(parts)


def times_rows(
    kernels: Kernels,
    basis: tuple[Stack, ...],
    rows: tuple[Stack, ...],
    vector: Float[Array, " M"],
    mesh: Mesh | None,
) -> Float[Array, " r"]:
    """K_ΨΦ v."""
    groups = group_count(mesh)

    def product(parts, model, psi):
        (stack,) = psi
        return stack.applied(jets(model, stack.points, stack.terms, parts))

    pieces = tuple(
        jax.tree.map(lambda leaf: leaf.reshape(groups, -1, *leaf.shape[1:]), _filled(part, groups))
        for part in expansion(rows, vector)
    )
    return groups_summed(product, pieces, kernels, basis, mesh=mesh)


def _filled(part: Functionals, multiple: int) -> Functionals:
    """Functionals that are zero added, until their number can be divided."""
    extra = -part.points.shape[0] % multiple
    longer = padded(part, multiple)
    zeros = jnp.concatenate([part.coefficients, jnp.zeros((extra, part.coefficients.shape[1]))])
    return Functionals(longer.points, zeros, part.terms)
