"""Products of the covariances between rows and inducing functionals with vectors, in chunks."""

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
    map_rows,
    num_groups,
    sum_groups,
)
from kernelpde.linear_solvers._padding import pad_functionals


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


def rows_times(
    prior: Prior,
    rows: tuple[StackedFunctionals, ...],
    inducing: tuple[StackedFunctionals, ...],
    vector: Float[Array, " r"],
    mesh: Mesh | None,
) -> Float[Array, " M"]:
    """Return K_ΦΨ w."""
    weighted = expand(inducing, vector)
    return jnp.concatenate(
        [
            stack.apply(sharded_jets(prior, stack.points, stack.terms, weighted, mesh))
            for stack in rows
        ]
    )


def times_rows(
    prior: Prior,
    inducing: tuple[StackedFunctionals, ...],
    rows: tuple[StackedFunctionals, ...],
    vector: Float[Array, " M"],
    mesh: Mesh | None,
) -> Float[Array, " r"]:
    """Return K_ΨΦ v."""
    num_chunks = num_groups(mesh)

    def product(batches, prior, inducing):
        (stack,) = inducing
        return stack.apply(evaluate_jets(prior, stack.points, stack.terms, batches))

    def split(batch: Functionals) -> Functionals:
        padded = pad_functionals(batch, -batch.points.shape[0] % num_chunks)
        return jax.tree.map(lambda leaf: leaf.reshape(num_chunks, -1, *leaf.shape[1:]), padded)

    chunks = tuple(map(split, expand(rows, vector)))
    return sum_groups(product, chunks, prior, inducing, mesh=mesh)
