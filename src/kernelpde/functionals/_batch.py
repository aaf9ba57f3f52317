"""Batches of linear functionals."""

from collections.abc import Sequence
from itertools import pairwise

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.arrays import on_host, to_array
from kernelpde.compiling import MAX_PADDED_ROWS
from kernelpde.errors import InputError
from kernelpde.functionals._jet import Term


class Functionals(eqx.Module):
    """M linear functionals φᵢ(u) = Σₜ cᵢₜ Σ_{γ ∈ Γₜ} ∂^γ u_{fₜ}(xᵢ), each local at one point.

    If `num_nodes` is W > 1, W consecutive local functionals are summed: an average or an integral
    by quadrature, with the weights included in the coefficients.

    The arrays share one leading axis and can be sliced, gathered, padded, mapped over and sharded.
    The terms are static and the same for all functionals.

    **Attributes:**

    - `points`: xᵢ.
    - `coefficients`: cᵢₜ, one column per term.
    - `terms`: (fₜ, Γₜ).
    - `num_nodes`: W.
    """

    points: Float[Array, "L d"]
    coefficients: Float[Array, "L T"]
    terms: tuple[Term, ...] = eqx.field(static=True)
    num_nodes: int = eqx.field(static=True, default=1)

    def __len__(self) -> int:
        return self.points.shape[0] // self.num_nodes

    def __getitem__(self, index) -> "Functionals":
        if self.num_nodes > 1:
            raise InputError("Functionals that are sums over several points cannot be sliced.")
        return Functionals(self.points[index], self.coefficients[index], self.terms)

    def __iter__(self):
        raise TypeError("Functionals are one batch; expected a sequence of batches.")

    def pad(self, count: int) -> "Functionals":
        """Append zero functionals, at points of this batch, up to `count`."""
        points = np.resize(np.asarray(self.points), (count, self.points.shape[1]))
        coefficients = np.zeros((count, len(self.terms)))
        coefficients[: len(self.points)] = self.coefficients
        return Functionals(to_array(points), to_array(coefficients), self.terms)

    def scale(self, factors: Float[Array, " M"]) -> "Functionals":
        """Multiply each functional by a number."""
        local = jnp.repeat(factors, self.num_nodes)
        return Functionals(
            self.points, local[:, None] * self.coefficients, self.terms, self.num_nodes
        )

    def with_terms(self, terms: Sequence[Term]) -> "Functionals":
        """Return these functionals over a larger list of terms, with zero coefficients."""
        missing = set(self.terms) - set(terms)
        if missing:
            raise InputError(f"with_terms: terms must include {missing}.")
        columns = [
            self.coefficients[:, self.terms.index(term)]
            if term in self.terms
            else jnp.zeros(self.points.shape[0])
            for term in terms
        ]
        return Functionals(self.points, jnp.stack(columns, axis=1), tuple(terms), self.num_nodes)


def point_functionals(points: Float[Array, "M d"], term: Term) -> Functionals:
    """Return the functionals that evaluate one term of the jet at each point."""
    return Functionals(points, jnp.ones((points.shape[0], 1)), (term,))


def concatenate(batches: Sequence[Functionals]) -> Functionals:
    """Concatenate batches over the union of their terms."""
    if len(batches) == 1:
        return batches[0]
    terms = tuple(sorted({term for batch in batches for term in batch.terms}))
    node_counts = {batch.num_nodes for batch in batches}
    if len(node_counts) > 1:
        raise InputError(f"concatenate: num_nodes must be equal; got {sorted(node_counts)}.")
    extended = [batch.with_terms(terms) for batch in batches]
    return Functionals(
        jnp.concatenate([batch.points for batch in extended]),
        jnp.concatenate([batch.coefficients for batch in extended]),
        terms,
        node_counts.pop(),
    )


def merge_small(batches: Sequence[Functionals]) -> Sequence[Functionals]:
    """Concatenate batches of few functionals, for which compilation costs more than arithmetic."""
    is_small = sum(map(len, batches)) <= MAX_PADDED_ROWS
    if is_small and len({batch.num_nodes for batch in batches}) == 1:
        return [concatenate(batches)]
    return batches


class StackedFunctionals(eqx.Module):
    """Several functionals at each of N points, one per equation: φ_{rn}(u) = Σₜ c_{nrt} j_t(xₙ).

    Rows are ordered by equation. The common points are stored once. Products with vectors evaluate
    the kernel once per pair of points and not once per pair of rows. If `num_nodes` is W > 1,
    functionals are summed over groups of W consecutive points.

    **Attributes:**

    - `points`: xₙ.
    - `coefficients`: c_{nrt}.
    - `terms`: jet terms j_t.
    - `active_terms`: indices of the terms in each equation.
    - `num_nodes`: W.
    """

    points: Float[Array, "N d"]
    coefficients: Float[Array, "N R T"]
    terms: tuple[Term, ...] = eqx.field(static=True)
    active_terms: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    num_nodes: int = eqx.field(static=True, default=1)

    def __len__(self) -> int:
        return self.points.shape[0] // self.num_nodes * len(self.active_terms)

    @property
    def batches(self) -> tuple[Functionals, ...]:
        """One batch per equation, with its active terms."""
        return tuple(
            Functionals(
                self.points,
                on_host(lambda c, r=r, active=list(indices): c[:, r, active], self.coefficients),
                tuple(self.terms[t] for t in indices),
                self.num_nodes,
            )
            for r, indices in enumerate(self.active_terms)
        )

    def weighted_sum(self, weights: Float[Array, " RN"]) -> Functionals:
        """Return Σᵣ w_{rn} φ_{rn}, one functional per point."""
        by_equation = weights.reshape(len(self.active_terms), -1)
        local = jnp.repeat(by_equation, self.num_nodes, axis=1)
        return Functionals(
            self.points, jnp.einsum("rn,nrt->nt", local, self.coefficients), self.terms
        )

    def apply(self, jet_values: Float[Array, "N T"]) -> Float[Array, " RN"]:
        """Return φ_{rn} of a function with the given jet values."""
        return self.reduce_quadrature(jnp.einsum("nrt,nt->rn", self.coefficients, jet_values))

    def reduce_quadrature(self, local: Float[Array, "R N"]) -> Float[Array, " RN"]:
        """Sum values per equation and point over nodes, in the order of the rows."""
        return local.reshape(-1, self.num_nodes).sum(1) if self.num_nodes > 1 else local.reshape(-1)


def expand(
    stacks: Sequence[StackedFunctionals], weights: Float[Array, " M"]
) -> tuple[Functionals, ...]:
    """Return Σᵢ wᵢ φᵢ over the rows of all stacks, as one functional per point."""
    bounds = np.cumsum([0, *(len(stack) for stack in stacks)])
    return tuple(
        stack.weighted_sum(weights[a:b])
        for stack, (a, b) in zip(stacks, pairwise(bounds), strict=True)
    )
