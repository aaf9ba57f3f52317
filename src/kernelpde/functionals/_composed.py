"""The part of a prior whose kernels are made of fields evaluated once per point.

Functionals become second-order operators, one batch for each such kernel.
"""

from collections.abc import Iterable, Sequence

import jax.numpy as jnp
from jaxtyping import Array, Float

from kernelpde.functionals._batch import Functionals, concatenate
from kernelpde.functionals._jet import Term
from kernelpde.functionals._prior import Kernels, Latent, Shares, latents_of
from kernelpde.kernels import (
    AbstractComposed,
    Operators,
    composed_diagonal,
    composed_gram,
    composed_product,
    operators,
    seen,
    summands,
)

_HIGHEST = 2
"""The order of derivatives on one side up to which a functional is an operator."""


class Composed:
    """A sum of composed kernels in a prior.

    **Arguments:**

    - `parts`: for each its factor, itself, and the fields it is part of.
    """

    def __init__(self, parts: Sequence[tuple[Array | None, AbstractComposed, Shares]]):
        self.parts = tuple(parts)

    def __bool__(self) -> bool:
        return bool(self.parts)

    def gram(self, left: Functionals, right: Functionals) -> Float[Array, "L N"] | None:
        """φᵢ ψⱼ κ for local functionals, not added up over their width; `None` if zero."""
        total = None
        for factor, kernel, shares in self.parts:
            one = _operators(left, shares)
            two = one if right is left else _operators(right, shares)
            if one is not None and two is not None:
                rows = seen(kernel, one)
                columns = rows if right is left else seen(kernel, two)
                found = composed_gram(kernel.pairing, rows, columns)
                total = _plus(total, found if factor is None else factor * found)
        return total

    def diagonal(self, batch: Functionals) -> Float[Array, " M"] | None:
        """φᵢ φᵢ κ for functionals local at one point each; `None` if zero."""
        total = None
        for factor, kernel, shares in self.parts:
            one = _operators(batch, shares)
            if one is not None:
                found = composed_diagonal(kernel.pairing, seen(kernel, one))
                total = _plus(total, found if factor is None else factor * found)
        return total

    def product(
        self,
        left: Sequence[Functionals],
        right: Sequence[Functionals],
        vector: Float[Array, " N"],
        keep: bool = False,
    ) -> Float[Array, " M"]:
        """κ(Φ, Ψ) v for functionals in several batches, their widths added up."""
        rows, columns = _local(left), _local(right) if right is not left else None
        weights, start = [], 0
        for batch in right:
            weights.append(jnp.repeat(vector[start : start + len(batch)], batch.width))
            start += len(batch)
        total = self._local_product(rows, columns, jnp.concatenate(weights), keep)
        found, start = [], 0
        for batch in left:
            stop = start + batch.points.shape[0]
            found.append(total[start:stop].reshape(len(batch), batch.width).sum(1))
            start = stop
        return jnp.concatenate(found)

    def jets(
        self, points: Float[Array, "N d"], terms: Sequence[Term], expansion: Sequence[Functionals]
    ) -> Float[Array, "N T"]:
        """Jet entries of an expansion in functionals with their weights multiplied in."""
        columns = _local(expansion)
        ones = jnp.ones(columns.points.shape[0])
        entries = [
            self._local_product(
                Functionals(points, jnp.ones((points.shape[0], 1)), (term,)), columns, ones
            )
            for term in terms
        ]
        return jnp.stack(entries, axis=1)

    def _local_product(
        self,
        rows: Functionals,
        columns: Functionals | None,
        vector: Float[Array, " N"],
        keep: bool = False,
    ) -> Float[Array, " L"]:
        total = jnp.zeros(rows.points.shape[0])
        for factor, kernel, shares in self.parts:
            one = _operators(rows, shares)
            two = one if columns is None else _operators(columns, shares)
            if one is None or two is None:
                continue
            left = seen(kernel, one)
            right = left if columns is None else seen(kernel, two)
            found = composed_product(kernel.pairing, left, right, vector, keep)
            total = total + (found if factor is None else factor * found)
        return total


def split(kernels: Kernels, terms: Iterable[Term]) -> tuple[list[Latent], Composed]:
    """Latent kernels without their composed summands, and those, if the terms allow it.

    Functionals of higher order are no operators; then every kernel is a plain one.
    """
    if any(term.order > _HIGHEST for term in terms):
        return list(latents_of(kernels)), Composed([])
    plain: list[Latent] = []
    parts = []
    for kernel, shares in latents_of(kernels):
        rest, found = summands(kernel)
        if rest is not None:
            plain.append((rest, shares))
        parts += [(factor, one, shares) for factor, one in found]
    return plain, Composed(parts)


def _operators(batch: Functionals, shares: Shares) -> Operators | None:
    """The functionals as operators on one latent function; `None` if they do not see it."""
    chosen = [t for t, term in enumerate(batch.terms) if term.field in shares]
    if not chosen:
        return None
    columns = []
    for t in chosen:
        share = shares[batch.terms[t].field]
        column = batch.coefficients[:, t]
        columns.append(column if share is None else share * column)
    return operators(
        batch.points, jnp.stack(columns, axis=1), [batch.terms[t].orders for t in chosen]
    )


def _local(batches: Sequence[Functionals]) -> Functionals:
    """All local functionals of several batches as one, none added up."""
    return concatenate([Functionals(b.points, b.coefficients, b.terms) for b in batches])


def _plus(one: Array | None, two: Array) -> Array:
    return two if one is None else one + two
