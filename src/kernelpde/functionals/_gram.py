"""Gram matrices κ(Φ, Ψ)ᵢⱼ = Σ_f φᵢ ψⱼ κ_f, and their products with vectors.

All functions share one elementwise stage: derivatives of the kernel at pairs of points times
coefficients. It accepts any two batches: all rows, a tile of rows, or a small batch under `vmap`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.functionals._batch import Functionals, StackedFunctionals, concatenate, expand
from kernelpde.functionals._jet import Term
from kernelpde.functionals._nonstationary import NonstationaryPrior, split_prior
from kernelpde.functionals._prior import Latent, Prior
from kernelpde.kernels import NodalKernel, add_optional, map_tiles, num_rows, sum_optional

DEFAULT_MEMORY = 2**23
"""Bytes for a tile of pairs with all its temporaries, about the size of a cache.

Larger tiles are slower, because allocating memory costs more than the arithmetic."""

_LIVE_ARRAYS = 6
"""Number of arrays of a tile's size that XLA allocates at the same time; measured."""

_DERIVATIVES_PER_PASS = 8
"""Number of pairs of derivatives that cost as much as one more pass over memory.

Separate blocks require one pass each."""


def _apply_right(
    latents: Sequence[Latent],
    points: Float[Array, "M d"],
    terms: Sequence[Term],
    right: Functionals,
) -> list[Array | None]:
    """Return ∂^γ ψⱼ κ(xᵢ, ·), summed over the γ of each left term; `None` if zero."""
    x = tuple(points[:, i, None] for i in range(points.shape[1]))
    y = tuple(right.points[None, :, i] for i in range(points.shape[1]))
    values: list[Array | None] = [None] * len(terms)
    for kernel, weights in latents:
        if isinstance(kernel, NodalKernel):
            continue
        pairs = [
            (s, t)
            for s, left_term in enumerate(terms)
            for t, right_term in enumerate(right.terms)
            if left_term.field in weights and right_term.field in weights
        ]
        if not pairs:
            continue
        orders = sorted(
            {(a, b) for s, t in pairs for a in terms[s].orders for b in right.terms[t].orders}
        )
        partials = dict(zip(orders, kernel.partials(x, y, orders), strict=True))
        for s, t in pairs:
            left_term, right_term = terms[s], right.terms[t]
            value = sum_optional(
                partials[a, b] for a in left_term.orders for b in right_term.orders
            )
            if value is not None:
                coefficient = right.coefficients[None, :, t]
                for weight in (weights[left_term.field], weights[right_term.field]):
                    coefficient = coefficient if weight is None else weight * coefficient
                values[s] = add_optional(values[s], coefficient * value)
    return values


def _nodal_gram(
    latents: Sequence[Latent], left: Sequence[Term], right: Sequence[Term]
) -> Iterator[tuple[list[int], list[int], Array]]:
    """Iterate over laws on both sides: the indices of their terms, and their covariances."""
    for kernel, weights in latents:
        if isinstance(kernel, NodalKernel):
            left_indices, right_indices = (
                [t for t, term in enumerate(terms) if term.field in weights]
                for terms in (left, right)
            )
            if left_indices and right_indices:
                rows = np.array([left[t].node_index for t in left_indices])
                columns = np.array([right[t].node_index for t in right_indices])
                yield left_indices, right_indices, kernel.covariance[rows[:, None], columns]


def gram(prior: Prior, left: Functionals, right: Functionals) -> Float[Array, "M N"]:
    """Return κ(Φ, Ψ), the matrix of φᵢ ψⱼ κ summed over fields.

    **Arguments:**

    - `kernels`: one kernel per field.
    - `left`, `right`: functionals Φ and Ψ.
    """
    stationary, nonstationary = split_prior(prior, (*left.terms, *right.terms))
    return _gram(stationary, nonstationary, left, right)


def _gram(
    latents: Sequence[Latent],
    nonstationary: NonstationaryPrior,
    left: Functionals,
    right: Functionals,
) -> Float[Array, "M N"]:
    values = _apply_right(latents, left.points, left.terms, right)
    products = (
        None if value is None else left.coefficients[:, s, None] * value
        for s, value in enumerate(values)
    )
    laws = (
        left.coefficients[:, left_indices] @ covariance @ right.coefficients[:, right_indices].T
        for left_indices, right_indices, covariance in _nodal_gram(latents, left.terms, right.terms)
    )
    total = sum_optional([*products, nonstationary.gram(left, right), *laws])
    if total is None:
        return jnp.zeros((len(left), len(right)))
    if left.num_nodes == right.num_nodes == 1:
        return total
    return total.reshape(len(left), left.num_nodes, len(right), right.num_nodes).sum((1, 3))


def block_gram(prior: Prior, batches: Sequence[Functionals]) -> Float[Array, "M M"]:
    """Return κ(Φ, Φ) for functionals in several batches.

    It is computed block by block, or as one block over the union of terms if that is cheaper.
    """
    is_mixed = prior.mixing is not None

    def cost(left: Functionals, right: Functionals) -> int:
        return len(left) * len(right) * _count_derivatives(left.terms, right.terms, is_mixed)

    if len({batch.num_nodes for batch in batches}) == 1:
        union = concatenate(batches)
        separate_cost = sum(cost(a, b) for a in batches for b in batches)
        pass_cost = _DERIVATIVES_PER_PASS * len(union) ** 2
        if len(batches) == 1 or cost(union, union) <= separate_cost + pass_cost:
            return gram(prior, union, union)
    return jnp.block([[gram(prior, left, right) for right in batches] for left in batches])


def _count_derivatives(left: Sequence[Term], right: Sequence[Term], is_mixed: bool) -> int:
    """Return the number of derivatives of kernels between terms."""
    differentiated = (s for s in left if s.node_index is None)
    pairs = sum(
        len(s.orders) * len(t.orders)
        for s in differentiated
        for t in right
        if s.field == t.field or is_mixed
    )
    laws = {t.field for t in right if t.node_index is not None}
    return pairs + sum(s.node_index is not None and s.field in laws for s in left)


def gram_diagonal(prior: Prior, batches: Sequence[Functionals]) -> Float[Array, " M"]:
    """Return φᵢ φᵢ κ for the functionals of several batches."""
    if len({batch.num_nodes for batch in batches}) > 1:
        return jnp.concatenate([gram_diagonal(prior, [batch]) for batch in batches])
    union = concatenate(batches)
    stationary, nonstationary = split_prior(prior, union.terms)
    diagonal = None
    if nonstationary and union.num_nodes == 1:
        diagonal = nonstationary.diagonal(union)
        if diagonal is not None:
            nonstationary = NonstationaryPrior()
            if not stationary:
                return diagonal

    def single_gram(
        points: Float[Array, "W d"], coefficients: Float[Array, "W T"]
    ) -> Float[Array, ""]:
        single = Functionals(points, coefficients, union.terms, union.num_nodes)
        return _gram(stationary, nonstationary, single, single)[0, 0]

    def group(leaf: Array) -> Array:
        return leaf.reshape(len(union), union.num_nodes, leaf.shape[1])

    values = jax.vmap(single_gram)(group(union.points), group(union.coefficients))
    return values if diagonal is None else values + diagonal


def evaluate_jets(
    prior: Prior,
    points: Float[Array, "N d"],
    terms: Sequence[Term],
    expansion: Sequence[Functionals],
    *,
    memory: int = DEFAULT_MEMORY,
) -> Float[Array, "N T"]:
    """Evaluate jet terms of u = Σⱼ ψⱼ κ(·, y), an expansion in functionals.

    **Arguments:**

    - `kernels`: one kernel per field.
    - `points`: evaluation points.
    - `terms`: terms of the jet, one per column of the result.
    - `expansion`: batches of functionals ψⱼ that include their weights.
    - `memory`: bytes for a tile of pairs.
    """
    terms = tuple(terms)
    if not terms:
        return jnp.zeros((points.shape[0], 0))
    stationary, nonstationary = split_prior(prior, [*terms, *_terms(expansion)])
    total = jnp.zeros((points.shape[0], len(terms)))
    if stationary:
        expansion = _merge_batches(terms, expansion, prior.mixing is not None)
        total = _stationary_jets(stationary, points, terms, expansion, memory)
    return total + nonstationary.jets(points, terms, expansion) if nonstationary else total


def _merge_batches(
    terms: Sequence[Term], batches: Sequence[Functionals], is_mixed: bool
) -> Sequence[Functionals]:
    """Concatenate batches over the union of their terms, if that costs little more."""
    if len(batches) == 1 or len({batch.num_nodes for batch in batches}) > 1:
        return batches
    union = concatenate(batches)
    separate_cost = sum(len(b) * _count_derivatives(terms, b.terms, is_mixed) for b in batches)
    union_cost = len(union) * _count_derivatives(terms, union.terms, is_mixed)
    pass_cost = _DERIVATIVES_PER_PASS * len(union)
    return [union] if union_cost <= separate_cost + pass_cost else batches


def _stationary_jets(
    latents: Sequence[Latent],
    points: Float[Array, "N d"],
    terms: tuple[Term, ...],
    expansion: Sequence[Functionals],
    memory: int,
) -> Float[Array, "N T"]:
    def tile(rows: Float[Array, "n d"]) -> Float[Array, "n T"]:
        totals = [jnp.zeros(rows.shape[0])] * len(terms)
        for batch in expansion:
            ones = jnp.ones(len(batch))
            for s, value in enumerate(_apply_right(latents, rows, terms, batch)):
                if value is not None:
                    totals[s] = totals[s] + value @ ones
            for indices, columns, covariance in _nodal_gram(latents, terms, batch.terms):
                values = covariance @ (batch.coefficients[:, columns].T @ ones)
                for s, value in zip(indices, values, strict=True):
                    totals[s] = totals[s] + value
        return jnp.stack(totals, axis=1)

    num_columns = sum(len(batch) for batch in expansion)
    return _map_tiles(tile, points, num_columns * len(terms), memory)


def _terms(batches: Iterable[Functionals | StackedFunctionals]) -> list[Term]:
    return [term for batch in batches for term in batch.terms]


def _batches(stacks: Iterable[StackedFunctionals]) -> list[Functionals]:
    return [batch for stack in stacks for batch in stack.batches]


def stacked_matvec(
    prior: Prior,
    left: Sequence[StackedFunctionals],
    right: Sequence[StackedFunctionals],
    vector: Float[Array, " N"],
    *,
    memory: int = DEFAULT_MEMORY,
    cache_intermediates: bool = False,
) -> Float[Array, " M"]:
    """Return κ(Φ, Ψ) v for the rows of stacks, without assembling the matrix.

    **Arguments:**

    - `kernels`: one kernel per field.
    - `left`, `right`: functionals Φ and Ψ.
    - `vector`: v.
    - `memory`: bytes for a tile of pairs.
    - `cache_intermediates`: whether derivatives for nonstationary kernels store intermediate arrays
      instead of recomputing them. Faster if many directions are differentiated.
    """
    stationary, nonstationary = split_prior(prior, _terms((*left, *right)))
    total = jnp.zeros(sum(len(stack) for stack in left))
    if stationary:
        total = _stationary_matvec(stationary, left, expand(right, vector), memory)
    if not nonstationary:
        return total
    rows = _batches(left)
    columns = rows if right is left else _batches(right)
    return total + nonstationary.matvec(rows, columns, vector, cache_intermediates)


def _stationary_matvec(
    latents: Sequence[Latent],
    left: Sequence[StackedFunctionals],
    expansion: Sequence[Functionals],
    memory: int,
) -> Float[Array, " M"]:
    if any(len(stack.active_terms) > 1 or stack.num_nodes > 1 for stack in left):
        products = [
            stack.apply(_stationary_jets(latents, stack.points, stack.terms, expansion, memory))
            for stack in left
        ]
        return jnp.concatenate(products)
    columns = concatenate(expansion)
    ones = jnp.ones(len(columns))

    def tile(rows: Functionals) -> Float[Array, " n"]:
        return _gram(latents, NonstationaryPrior(), rows, columns) @ ones

    return _map_tiles(tile, concatenate(_batches(left)), len(columns), memory)


def _map_tiles(function: Callable, rows, num_columns: int, memory: int) -> Array:
    """Return `function(rows)`, computed in tiles that use at most `memory` bytes."""
    count = num_rows(rows)
    tile_size = max(1, memory // (8 * _LIVE_ARRAYS * max(num_columns, 1)))
    if count <= tile_size:
        return function(rows)
    return map_tiles(function, rows, -(-count // tile_size))
