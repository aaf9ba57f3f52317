"""Nonstationary summands of a prior, whose local parameters are evaluated once per point.

Functionals of order two at most act on them as operators, in one batch per kernel.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from kernelpde.functionals._batch import Functionals, concatenate, point_functionals
from kernelpde.functionals._jet import Term
from kernelpde.functionals._prior import Latent, MixingWeights, Prior
from kernelpde.kernels import (
    AbstractNonstationary,
    OperatorValues,
    add_optional,
    apply_operators,
    make_operators,
    nonstationary_diagonal,
    nonstationary_gram,
    nonstationary_matvec,
)

_MAX_ORDER = 2
"""Maximum order of derivatives in an operator."""


class _Summand(NamedTuple):
    """A nonstationary kernel with its variance (`None` for 1) and its weights in the fields."""

    variance: Array | None
    kernel: AbstractNonstationary
    weights: MixingWeights

    def apply(self, batch: Functionals) -> OperatorValues | None:
        """Apply local functionals to the local parameters. `None` if no field contains it."""
        indices = [t for t, term in enumerate(batch.terms) if term.field in self.weights]
        if not indices:
            return None
        columns = []
        for t in indices:
            weight, column = self.weights[batch.terms[t].field], batch.coefficients[:, t]
            columns.append(column if weight is None else weight * column)
        orders = [batch.terms[t].orders for t in indices]
        operators = make_operators(batch.points, jnp.stack(columns, axis=1), orders)
        return apply_operators(self.kernel, operators)

    def scale(self, values: Array) -> Array:
        return values if self.variance is None else self.variance * values


class NonstationaryPrior:
    """A sum of nonstationary kernels in a prior."""

    def __init__(self, summands: Sequence[_Summand] = ()):
        self.summands = tuple(summands)

    def __bool__(self) -> bool:
        return bool(self.summands)

    def gram(self, left: Functionals, right: Functionals) -> Float[Array, "L N"] | None:
        """Return φᵢ ψⱼ κ for local functionals, not summed over their nodes; `None` if zero."""
        total = None
        for summand in self.summands:
            rows = summand.apply(left)
            columns = rows if right is left else summand.apply(right)
            if rows is not None and columns is not None:
                values = nonstationary_gram(summand.kernel.pair_function, rows, columns)
                total = add_optional(total, summand.scale(values))
        return total

    def diagonal(self, batch: Functionals) -> Float[Array, " M"] | None:
        """Return φᵢ φᵢ κ for functionals with one node; `None` if zero."""
        total = None
        for summand in self.summands:
            rows = summand.apply(batch)
            if rows is not None:
                values = nonstationary_diagonal(summand.kernel.pair_function, rows)
                total = add_optional(total, summand.scale(values))
        return total

    def matvec(
        self,
        left: Sequence[Functionals],
        right: Sequence[Functionals],
        vector: Float[Array, " N"],
        cache_intermediates: bool = False,
    ) -> Float[Array, " M"]:
        """Return κ(Φ, Ψ) v for functionals in several batches."""
        rows, columns = _local(left), _local(right) if right is not left else None
        weights, start = [], 0
        for batch in right:
            weights.append(jnp.repeat(vector[start : start + len(batch)], batch.num_nodes))
            start += len(batch)
        total = self._local_matvec(rows, columns, jnp.concatenate(weights), cache_intermediates)
        sums, start = [], 0
        for batch in left:
            stop = start + batch.points.shape[0]
            sums.append(total[start:stop].reshape(len(batch), batch.num_nodes).sum(1))
            start = stop
        return jnp.concatenate(sums)

    def jets(
        self, points: Float[Array, "N d"], terms: Sequence[Term], expansion: Sequence[Functionals]
    ) -> Float[Array, "N T"]:
        """Return jet values of an expansion in functionals that include their weights."""
        columns = _local(expansion)
        ones = jnp.ones(columns.points.shape[0])
        values = [
            self._local_matvec(point_functionals(points, term), columns, ones) for term in terms
        ]
        return jnp.stack(values, axis=1)

    def _local_matvec(
        self,
        rows: Functionals,
        columns: Functionals | None,
        vector: Float[Array, " N"],
        cache_intermediates: bool = False,
    ) -> Float[Array, " L"]:
        total = jnp.zeros(rows.points.shape[0])
        for summand in self.summands:
            left = summand.apply(rows)
            right = left if columns is None else summand.apply(columns)
            if left is not None and right is not None:
                pair_function = summand.kernel.pair_function
                values = nonstationary_matvec(
                    pair_function, left, right, vector, cache_intermediates
                )
                total = total + summand.scale(values)
        return total


def split_prior(prior: Prior, terms: Iterable[Term]) -> tuple[list[Latent], NonstationaryPrior]:
    """Split latent kernels into stationary and nonstationary summands.

    Functionals with terms of higher order are no operators. All kernels then count as stationary.
    """
    if any(term.order > _MAX_ORDER for term in terms):
        summands = [(k, w) for kernel, w in prior.latents() for k in kernel.summands()]
        return summands, NonstationaryPrior()
    stationary: list[Latent] = []
    summands = []
    for kernel, weights in prior.latents():
        remainder, nonstationary = kernel.split_nonstationary()
        if remainder is not None:
            stationary += [(summand, weights) for summand in remainder.summands()]
        summands += [
            _Summand(variance, summand, weights)
            for variance, summand in nonstationary
            if isinstance(summand, AbstractNonstationary)
        ]
    return stationary, NonstationaryPrior(summands)


def is_nonstationary(prior: Prior, batches: Iterable[Functionals]) -> bool:
    """Return whether products with the Gram matrix have nonstationary summands."""
    return bool(split_prior(prior, [term for batch in batches for term in batch.terms])[1])


def _local(batches: Sequence[Functionals]) -> Functionals:
    """Concatenate the local functionals of several batches, without sums over nodes."""
    return concatenate([Functionals(b.points, b.coefficients, b.terms) for b in batches])
