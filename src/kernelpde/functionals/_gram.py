"""Gram blocks κ(Φ, Ψ)ᵢⱼ = Σ_f φᵢ ψⱼ κ_f: dense, in row tiles, and as products with vectors.

Everything here is made of one elementwise stage: derivatives of the kernel at pairs of points times
coefficients. It holds for any two batches, so that a whole matrix, a tile of rows and a small
gathered block under `vmap` are the same code.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.functionals._batch import Functionals, Stack, concatenate, expansion
from kernelpde.functionals._composed import Composed, split
from kernelpde.functionals._jet import Term
from kernelpde.functionals._prior import Kernels, Latent, Mixed
from kernelpde.kernels import OnNodes

DEFAULT_MEMORY = 2**23
"""Bytes that a tile of pairs takes, all its temporaries included: about what a cache holds.

Larger tiles are slower, since fresh memory costs more than arithmetic."""

_LIVE_ARRAYS = 6
"""How many arrays of a tile's size XLA keeps alive while it computes one; measured."""


def _half_applied(
    latents: Sequence[Latent],
    points: Float[Array, "M d"],
    terms: Sequence[Term],
    right: Functionals,
) -> list[Array | None]:
    """∂^γ ψⱼ κ at (xᵢ, yⱼ), summed over the γ of each left term: an (M, N) array, None if zero."""
    x = tuple(points[:, i, None] for i in range(points.shape[1]))
    y = tuple(right.points[None, :, i] for i in range(points.shape[1]))
    rows: list[Array | None] = [None] * len(terms)
    for kernel, shares in latents:
        if isinstance(kernel, OnNodes):
            continue
        pairs = [
            (s, t)
            for s, left_term in enumerate(terms)
            for t, right_term in enumerate(right.terms)
            if left_term.field in shares and right_term.field in shares
        ]
        if not pairs:
            continue
        orders = sorted(
            {(a, b) for s, t in pairs for a in terms[s].orders for b in right.terms[t].orders}
        )
        partials = dict(zip(orders, kernel.partials(x, y, orders), strict=True))
        for s, t in pairs:
            value = _sum(partials[a, b] for a in terms[s].orders for b in right.terms[t].orders)
            if value is not None:
                coefficient = right.coefficients[None, :, t]
                for share in (shares[terms[s].field], shares[right.terms[t].field]):
                    coefficient = coefficient if share is None else share * coefficient
                rows[s] = _sum([rows[s], coefficient * value])
    return rows


def _between_nodes(
    latents: Sequence[Latent], left: Sequence[Term], right: Sequence[Term]
) -> Iterator[tuple[list[int], list[int], Array]]:
    """For each law that both sides know of, the numbers of its terms and what is between them."""
    for kernel, shares in latents:
        if isinstance(kernel, OnNodes):
            ours, theirs = (
                [n for n, term in enumerate(terms) if term.field in shares]
                for terms in (left, right)
            )
            if ours and theirs:
                rows = np.array([left[n].node for n in ours])
                columns = np.array([right[n].node for n in theirs])
                yield ours, theirs, kernel.covariance[rows[:, None], columns]


def _sum(parts: Iterable[Array | None]) -> Array | None:
    """The sum of what is there; None if nothing is."""
    total = None
    for part in parts:
        if part is not None:
            total = part if total is None else total + part
    return total


def gram(kernels: Kernels, left: Functionals, right: Functionals) -> Float[Array, "M N"]:
    """κ(Φ, Ψ), the matrix of φᵢ ψⱼ κ, summed over fields.

    **Arguments:**

    - `kernels`: one kernel per field.
    - `left`, `right`: the functionals Φ and Ψ.
    """
    plain, composed = split(kernels, (*left.terms, *right.terms))
    return _gram(plain, composed, left, right)


def _gram(
    latents: Sequence[Latent], composed: Composed, left: Functionals, right: Functionals
) -> Float[Array, "M N"]:
    rows = _half_applied(latents, left.points, left.terms, right)
    products = (
        None if row is None else left.coefficients[:, s, None] * row for s, row in enumerate(rows)
    )
    laws = (
        left.coefficients[:, ours] @ between @ right.coefficients[:, theirs].T
        for ours, theirs, between in _between_nodes(latents, left.terms, right.terms)
    )
    total = _sum([*products, composed.gram(left, right), *laws])
    if total is None:
        return jnp.zeros((len(left), len(right)))
    if left.width == right.width == 1:
        return total
    return total.reshape(len(left), left.width, len(right), right.width).sum((1, 3))


def gram_of_blocks(kernels: Kernels, batches: Sequence[Functionals]) -> Float[Array, "M M"]:
    """κ(Φ, Φ) for functionals given in several batches, one below the other.

    Written block by block, or as one block over the union of terms: whichever has less to compute.
    A block's own pass over memory is worth about `_PASS` pairs of derivatives.
    """

    def pairs(left: Functionals, right: Functionals) -> int:
        matching = _matching(left.terms, right.terms, isinstance(kernels, Mixed))
        return len(left) * len(right) * matching

    if len({batch.width for batch in batches}) == 1:
        union = concatenate(batches)
        apart = sum(pairs(a, b) for a in batches for b in batches)
        if len(batches) == 1 or pairs(union, union) <= apart + _PASS * len(union) ** 2:
            return gram(kernels, union, union)
    rows = [
        jnp.concatenate([gram(kernels, left, right) for right in batches], axis=1)
        for left in batches
    ]
    return jnp.concatenate(rows, axis=0)


_PASS = 8
"""Pairs of derivatives that cost as much as one more pass over memory; blocks apart pay for it."""


def _matching(left: Sequence[Term], right: Sequence[Term], mixed: bool) -> int:
    """How many derivatives of kernels there are between terms."""
    apart = (s for s in left if s.node is None)
    pairs = sum(
        len(s.orders) * len(t.orders) for s in apart for t in right if s.field == t.field or mixed
    )
    laws = {t.field for t in right if t.node is not None}
    return pairs + sum(s.node is not None and s.field in laws for s in left)


def gram_in_tiles(
    kernels: Kernels, left: Functionals, right: Functionals, *, memory: int = DEFAULT_MEMORY
) -> Float[Array, "M N"]:
    """κ(Φ, Ψ) assembled some rows at a time.

    For kernels whose derivatives need many temporaries: beyond the matrix itself no more than
    `memory` bytes are in use.
    """
    return _in_row_tiles(lambda rows: gram(kernels, rows, right), left, len(right), memory)


def gram_diagonal(kernels: Kernels, batches: Sequence[Functionals]) -> Float[Array, " M"]:
    """φᵢ φᵢ κ for each functional of several batches."""
    if len({batch.width for batch in batches}) > 1:
        return jnp.concatenate([gram_diagonal(kernels, [batch]) for batch in batches])
    every = concatenate(batches)
    plain, composed = split(kernels, every.terms)
    apart = composed.diagonal(every) if composed and every.width == 1 else None

    def one(points: Float[Array, "W d"], coefficients: Float[Array, "W T"]) -> Float[Array, ""]:
        single = Functionals(points, coefficients, every.terms, every.width)
        return _gram(plain, composed if apart is None else Composed([]), single, single)[0, 0]

    def grouped(leaf: Array) -> Array:
        return leaf.reshape(len(every), every.width, leaf.shape[1])

    if apart is not None and not plain:
        return apart
    found = jax.vmap(one)(grouped(every.points), grouped(every.coefficients))
    return found if apart is None else found + apart


def jets(
    kernels: Kernels,
    points: Float[Array, "N d"],
    terms: Sequence[Term],
    expansion: Sequence[Functionals],
    *,
    memory: int = DEFAULT_MEMORY,
) -> Float[Array, "N T"]:
    """The jet entries at points of u = Σⱼ ψⱼ κ(·, y), an expansion in functionals.

    **Arguments:**

    - `kernels`: one kernel per field.
    - `points`: where.
    - `terms`: which entries, in this order.
    - `expansion`: the functionals ψⱼ with their weights multiplied in, in one or more batches.
    - `memory`: bytes that a tile of pairs may take.
    """
    terms = tuple(terms)
    if not terms:
        return jnp.zeros((points.shape[0], 0))
    plain, composed = split(kernels, _terms(terms, expansion))
    total = jnp.zeros((points.shape[0], len(terms)))
    if plain:
        mixed = isinstance(kernels, Mixed)
        expansion = _fewer_batches(terms, expansion, mixed)
        total = _plain_jets(plain, points, terms, expansion, memory)
    return total + composed.jets(points, terms, expansion) if composed else total


def _fewer_batches(
    terms: Sequence[Term], batches: Sequence[Functionals], mixed: bool
) -> Sequence[Functionals]:
    """All in one batch, over the union of their terms, if that has not much more to compute."""
    if len(batches) == 1 or len({batch.width for batch in batches}) > 1:
        return batches
    union = concatenate(batches)
    apart = sum(len(b) * _matching(terms, b.terms, mixed) for b in batches)
    whole = len(union) * _matching(terms, union.terms, mixed)
    return [union] if whole <= apart + _PASS * len(union) else batches


def _plain_jets(
    latents: Sequence[Latent],
    points: Float[Array, "N d"],
    terms: tuple[Term, ...],
    expansion: Sequence[Functionals],
    memory: int,
) -> Float[Array, "N T"]:
    def tile(rows: Float[Array, "n d"]) -> Float[Array, "n T"]:
        total = [jnp.zeros(rows.shape[0])] * len(terms)
        for batch in expansion:
            ones = jnp.ones(len(batch))
            for s, row in enumerate(_half_applied(latents, rows, terms, batch)):
                if row is not None:
                    total[s] = total[s] + row @ ones
            for ours, theirs, between in _between_nodes(latents, terms, batch.terms):
                values = between @ (batch.coefficients[:, theirs].T @ ones)
                for s, value in zip(ours, values, strict=True):
                    total[s] = total[s] + value
        return jnp.stack(total, axis=1)

    columns = sum(len(batch) for batch in expansion)
    return _in_row_tiles(tile, points, columns * len(terms), memory)


def _terms(terms: Sequence[Term], batches: Sequence[Functionals | Stack]) -> list[Term]:
    return [*terms, *(term for batch in batches for term in batch.terms)]


def matvec(
    kernels: Kernels,
    left: Functionals,
    right: Functionals,
    vector: Float[Array, " N"],
    *,
    memory: int = DEFAULT_MEMORY,
) -> Float[Array, " M"]:
    """κ(Φ, Ψ) v, tile by tile: the matrix is never whole.

    **Arguments:**

    - `kernels`: one kernel per field.
    - `left`, `right`: Φ and Ψ.
    - `vector`: v.
    - `memory`: bytes that a tile may take.
    """
    plain, composed = split(kernels, (*left.terms, *right.terms))
    total = jnp.zeros(len(left))
    if plain:
        total = _plain_matvec(plain, left, right, vector, memory)
    return total + composed.product([left], [right], vector) if composed else total


def _plain_matvec(
    latents: Sequence[Latent],
    left: Functionals,
    right: Functionals,
    vector: Float[Array, " N"],
    memory: int,
) -> Float[Array, " M"]:
    def tile(rows: Functionals) -> Float[Array, " n"]:
        return _gram(latents, Composed([]), rows, right) @ vector

    return _in_row_tiles(tile, left, len(right), memory)


def stacked_matvec(
    kernels: Kernels,
    left: Sequence[Stack],
    right: Sequence[Stack],
    vector: Float[Array, " N"],
    *,
    memory: int = DEFAULT_MEMORY,
    keep: bool = False,
) -> Float[Array, " M"]:
    """κ(Φ, Ψ) v for the rows of stacks: as `matvec`, once per pair of points.

    With `keep`, derivatives for composed kernels keep what they are made of: for those who take
    many of them.
    """
    plain, composed = split(kernels, _terms((), (*left, *right)))
    total = jnp.zeros(sum(len(stack) for stack in left))
    if plain:
        total = _plain_stacked(plain, left, expansion(right, vector), memory)
    if not composed:
        return total
    rows = [batch for stack in left for batch in stack.batches]
    columns = rows if right is left else [batch for stack in right for batch in stack.batches]
    return total + composed.product(rows, columns, vector, keep)


def _plain_stacked(
    latents: Sequence[Latent], left: Sequence[Stack], weighted: Sequence[Functionals], memory: int
) -> Float[Array, " M"]:
    if all(len(stack.used) == 1 and stack.width == 1 for stack in left):
        rows = concatenate([batch for stack in left for batch in stack.batches])
        columns = concatenate(weighted)
        return _plain_matvec(latents, rows, columns, jnp.ones(len(columns)), memory)
    parts = [
        stack.applied(_plain_jets(latents, stack.points, stack.terms, weighted, memory))
        for stack in left
    ]
    return jnp.concatenate(parts)


def _in_row_tiles(function: Callable, rows, columns: int, memory: int) -> Array:
    """`function(rows)`, computed for as many rows at a time as the memory allows."""
    count = jax.tree.leaves(rows)[0].shape[0]
    size = max(1, memory // (8 * _LIVE_ARRAYS * max(columns, 1)))
    if count <= size:
        return function(rows)
    tiles = -(-count // size)
    size = -(-count // tiles)

    def padded(leaf: Array) -> Array:
        # Repeating the last row keeps the padding inside the domain, where everything is finite.
        extra = jnp.broadcast_to(leaf[-1:], (tiles * size - count, *leaf.shape[1:]))
        return jnp.concatenate([leaf, extra]).reshape(tiles, size, *leaf.shape[1:])

    # Reverse-mode derivatives recompute a tile instead of keeping what it was made from.
    result = jax.lax.map(jax.checkpoint(function), jax.tree.map(padded, rows))
    return result.reshape(tiles * size, *result.shape[2:])[:count]
