"""Gram matrices κ(Φ, Ψ)ᵢⱼ = Σ_f φᵢ ψⱼ κ_f, and their products with vectors.

All functions share one elementwise stage: derivatives of the kernel at pairs of points times
coefficients. It accepts any two batches: all rows, a tile of rows, or a small batch under `vmap`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from operator import add

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.arrays import FLOAT_BYTES
from kernelpde.compiling import MAX_PADDED_ROWS
from kernelpde.functionals._batch import Functionals, StackedFunctionals, concatenate, expand
from kernelpde.functionals._jet import Term
from kernelpde.functionals._nonstationary import NonstationaryPrior, split_prior
from kernelpde.functionals._prior import Latent, MixingWeights, Prior
from kernelpde.kernels import (
    Coordinates,
    NodalKernel,
    OrderPair,
    add_optional,
    map_tiles,
    num_rows,
    sum_optional,
)
from kernelpde.memory import CACHE_BYTES, LIVE_ARRAYS

_DERIVATIVES_PER_PASS = 8
"""Number of pairs of derivatives that cost as much as one more pass over memory.

Separate blocks require one pass each."""


def _apply_right(
    latents: Sequence[Latent],
    x: Coordinates,
    y: Coordinates,
    terms: Sequence[Term],
    right: Functionals,
) -> list[Array | None]:
    """Return ∂^γ ψⱼ κ(x, ·), summed over the γ of each left term; `None` if zero.

    The coordinates y of ψ have the index j on their last axis.
    """
    values: list[Array | None] = [None] * len(terms)
    for kernel, weights in latents:
        if isinstance(kernel, NodalKernel):
            continue
        counts = _count_by_order(kernel.is_stationary, weights, terms, right.terms)
        if not counts:
            continue
        coefficients = right.coefficients
        if any(weight is not None for weight in weights.values()):
            factors = (weights.get(term.field) for term in right.terms)
            coefficients *= jnp.stack([jnp.asarray(1.0 if f is None else f) for f in factors])
        # A matrix product for these sums costs twice the time of a learning step: it is not fused.
        columns = [coefficients[None, :, t] for t in range(len(right.terms))]
        partials = kernel.partials_by_order(x, y, sorted({order for _, order in counts}))
        products: list[list[Array]] = [[] for _ in terms]
        for (s, order), count in counts.items():
            partial = partials[order]
            if partial is not None:
                nonzero = np.flatnonzero(count)
                row = sum_optional(
                    columns[t] if count[t] == 1.0 else count[t] * columns[t] for t in nonzero
                )
                if row is not None:
                    products[s].append(row * partial)
        for s, summands in enumerate(products):
            weight = weights.get(terms[s].field)
            total = sum_optional(summands)
            if total is not None:
                values[s] = add_optional(values[s], total if weight is None else weight * total)
    return values


def _count_by_order(
    is_stationary: bool, weights: MixingWeights, left: Sequence[Term], right: Sequence[Term]
) -> dict[tuple[int, OrderPair], Float[np.ndarray, " T"]]:
    """Return by left term and derivative of κ how often each right term contains it.

    Derivatives of a stationary kernel in x and y are those in x up to the sign. The derivatives
    between a few terms then have few different orders.
    """
    counts: dict[tuple[int, OrderPair], Float[np.ndarray, " T"]] = {}
    for (s, left_term), (t, right_term) in product(enumerate(left), enumerate(right)):
        if left_term.field in weights and right_term.field in weights:
            for alpha, beta in product(left_term.orders, right_term.orders):
                order, sign = (alpha, beta), 1.0
                if is_stationary:
                    order = (tuple(map(add, alpha, beta)), (0,) * len(beta))
                    sign = -1.0 if sum(beta) % 2 else 1.0
                counts.setdefault((s, order), np.zeros(len(right)))[t] += sign
    return counts


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


def _coordinates(points: Float[Array, "M d"], axis: int) -> Coordinates:
    """Return one array per coordinate, with a new axis for the points of the other side."""
    return tuple(jnp.expand_dims(points[:, i], axis) for i in range(points.shape[1]))


def gram(prior: Prior, left: Functionals, right: Functionals) -> Float[Array, "M N"]:
    """Return κ(Φ, Ψ), the matrix of φᵢ ψⱼ κ summed over fields.

    **Arguments:**

    - `kernels`: one kernel per field.
    - `left`, `right`: functionals Φ and Ψ.
    """
    stationary, nonstationary = split_prior(prior, (*left.terms, *right.terms))

    def tile(rows: Functionals) -> Float[Array, "m N"]:
        return _gram(stationary, nonstationary, rows, right)

    if nonstationary or left.num_nodes > 1:
        return tile(left)
    # Reverse mode stores an array of the size of a tile for each derivative of the kernel.
    return _map_tiles(tile, left, len(right), CACHE_BYTES)


def _gram(
    latents: Sequence[Latent],
    nonstationary: NonstationaryPrior,
    left: Functionals,
    right: Functionals,
) -> Float[Array, "M N"]:
    x, y = _coordinates(left.points, 1), _coordinates(right.points, 0)
    values = _apply_right(latents, x, y, left.terms, right)
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

    It is computed as one block over the union of terms, or block by block if that is cheaper.
    """
    if len({batch.num_nodes for batch in batches}) == 1:
        union = concatenate(batches)
        is_mixed = prior.mixing is not None
        separate_cost = sum(_cost(a, b, is_mixed) for a in batches for b in batches)
        if _should_merge(union, separate_cost, _cost(union, union, is_mixed), len(union)):
            return gram(prior, union, union)
    lower = [[gram(prior, left, right) for right in batches[:i]] for i, left in enumerate(batches)]
    diagonal = [gram(prior, batch, batch) for batch in batches]
    return jnp.block(
        [
            [*row, diagonal[i], *(lower[j][i].T for j in range(i + 1, len(batches)))]
            for i, row in enumerate(lower)
        ]
    )


def _cost(left: Functionals, right: Functionals, is_mixed: bool) -> int:
    return len(left) * len(right) * _count_derivatives(left.terms, right.terms, is_mixed)


def _should_merge(union: Functionals, separate_cost: int, union_cost: int, num_points: int) -> bool:
    """Return whether one block for all batches is cheaper than a block for each.

    Compilation, whose cost grows with the number of blocks, dominates for few rows.
    """
    pass_cost = _DERIVATIVES_PER_PASS * len(union) * num_points
    return len(union) <= MAX_PADDED_ROWS or union_cost <= separate_cost + pass_cost


def _count_derivatives(left: Sequence[Term], right: Sequence[Term], is_mixed: bool) -> int:
    """Return the number of derivatives of kernels between terms, for each left term."""

    def count(s: Term) -> int:
        fitting = [t for t in right if s.field == t.field or is_mixed]
        if s.node_index is not None:
            return any(t.node_index is not None for t in fitting)
        return len({tuple(map(add, a, b)) for t in fitting for a in s.orders for b in t.orders})

    return sum(map(count, left))


def gram_diagonal(prior: Prior, batches: Sequence[Functionals]) -> Float[Array, " M"]:
    """Return φᵢ φᵢ κ for the functionals of several batches."""
    if len({batch.num_nodes for batch in batches}) > 1:
        return jnp.concatenate([gram_diagonal(prior, [batch]) for batch in batches])
    union = concatenate(batches)
    stationary, nonstationary = split_prior(prior, union.terms)
    if union.num_nodes == 1:
        summands = [
            *(_latent_diagonal(latent, union) for latent in stationary),
            nonstationary.diagonal(union),
        ]
        total = sum_optional(summands)
        return jnp.zeros(len(union)) if total is None else total

    def single_gram(
        points: Float[Array, "W d"], coefficients: Float[Array, "W T"]
    ) -> Float[Array, ""]:
        single = Functionals(points, coefficients, union.terms, union.num_nodes)
        return _gram(stationary, nonstationary, single, single)[0, 0]

    def group(leaf: Array) -> Array:
        return leaf.reshape(len(union), union.num_nodes, leaf.shape[1])

    return jax.vmap(single_gram)(group(union.points), group(union.coefficients))


def _latent_diagonal(latent: Latent, batch: Functionals) -> Float[Array, " M"] | None:
    """Return φᵢ φᵢ κ for functionals at one point each, `None` if zero."""
    # The derivatives of a stationary kernel at x = y are the same at all points.
    points = batch.points[:1] if latent[0].is_stationary else batch.points
    x = _coordinates(points, 0)
    values = _apply_right([latent], x, x, batch.terms, batch)
    products = (
        None if value is None else batch.coefficients[:, s] * value[0]
        for s, value in enumerate(values)
    )
    laws = (
        jnp.sum(batch.coefficients[:, rows] @ covariance * batch.coefficients[:, columns], axis=1)
        for rows, columns, covariance in _nodal_gram([latent], batch.terms, batch.terms)
    )
    return sum_optional([*products, *laws])


def evaluate_jets(
    prior: Prior,
    points: Float[Array, "N d"],
    terms: Sequence[Term],
    expansion: Sequence[Functionals],
    *,
    memory: int = CACHE_BYTES,
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
    if len({batch.num_nodes for batch in batches}) > 1:
        return batches
    union = concatenate(batches)
    separate_cost = sum(len(b) * _count_derivatives(terms, b.terms, is_mixed) for b in batches)
    union_cost = len(union) * _count_derivatives(terms, union.terms, is_mixed)
    return [union] if _should_merge(union, separate_cost, union_cost, 1) else batches


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
            x, y = _coordinates(rows, 1), _coordinates(batch.points, 0)
            for s, value in enumerate(_apply_right(latents, x, y, terms, batch)):
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
    memory: int = CACHE_BYTES,
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
    # One pass over rows has the derivatives of κ once, one over points and terms costs less time.
    is_shared = any(len(stack.active_terms) > 1 for stack in left)
    is_large = sum(len(stack) for stack in left) > MAX_PADDED_ROWS
    if any(stack.num_nodes > 1 for stack in left) or (is_shared and is_large):
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
    tile_size = max(1, memory // (FLOAT_BYTES * LIVE_ARRAYS * max(num_columns, 1)))
    if count <= tile_size:
        return function(rows)
    return map_tiles(function, rows, -(-count // tile_size))
