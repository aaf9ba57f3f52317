"""Batches of linear functionals."""

from collections.abc import Sequence
from itertools import pairwise

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.arrays import array
from kernelpde.errors import InputError
from kernelpde.functionals._jet import Term


class Functionals(eqx.Module):
    """M linear functionals φᵢ(u) = Σₜ cᵢₜ Σ_{γ ∈ Γₜ} ∂^γ u_{fₜ}(xᵢ), each local at one point.

    With a `width` W > 1, W consecutive local functionals are added up to one: an average or an
    integral by quadrature, its weights multiplied into the coefficients.

    A pytree whose arrays share one leading axis: it can be sliced, gathered, padded, mapped over
    and sharded. Which derivatives of which field occur is static and the same for all.

    **Attributes:**

    - `points`: xᵢ.
    - `coefficients`: cᵢₜ, one column per term.
    - `terms`: (fₜ, Γₜ).
    - `width`: W.
    """

    points: Float[Array, "L d"]
    coefficients: Float[Array, "L T"]
    terms: tuple[Term, ...] = eqx.field(static=True)
    width: int = eqx.field(static=True, default=1)

    def __len__(self) -> int:
        return self.points.shape[0] // self.width

    def __getitem__(self, index) -> "Functionals":
        if self.width > 1:
            raise InputError("Functionals that are sums over several points cannot be sliced.")
        return Functionals(self.points[index], self.coefficients[index], self.terms)

    def __iter__(self):
        raise TypeError("Functionals are one batch; expected a sequence of batches.")

    def padded(self, count: int) -> "Functionals":
        """With functionals added that are zero, at points of the others."""
        places = np.resize(np.asarray(self.points), (count, self.points.shape[1]))
        coefficients = np.zeros((count, len(self.terms)))
        coefficients[: len(self.points)] = self.coefficients
        return Functionals(array(places), array(coefficients), self.terms)

    def scaled(self, factors: Float[Array, " M"]) -> "Functionals":
        """Each functional times a number."""
        local = jnp.repeat(factors, self.width)
        return Functionals(self.points, local[:, None] * self.coefficients, self.terms, self.width)

    def on_terms(self, terms: Sequence[Term]) -> "Functionals":
        """The same functionals over a larger list of terms, with zeros for the new ones."""
        columns = [
            self.coefficients[:, self.terms.index(term)]
            if term in self.terms
            else jnp.zeros(self.points.shape[0])
            for term in terms
        ]
        missing = set(self.terms) - set(terms)
        if missing:
            raise InputError(f"Functionals.on_terms: {missing} would be lost.")
        return Functionals(self.points, jnp.stack(columns, axis=1), tuple(terms), self.width)


def evaluation(points: Float[Array, "M d"], term: Term) -> Functionals:
    """The functionals that read one entry of the jet at each point."""
    return Functionals(points, jnp.ones((points.shape[0], 1)), (term,))


def concatenate(batches: Sequence[Functionals]) -> Functionals:
    """One batch with the rows of all, over the union of their terms."""
    terms = tuple(sorted({term for batch in batches for term in batch.terms}))
    if len(batches) == 1:
        return batches[0]
    widths = {batch.width for batch in batches}
    if len(widths) > 1:
        raise InputError(f"concatenate: batches have different widths, {sorted(widths)}.")
    widened = [batch.on_terms(terms) for batch in batches]
    return Functionals(
        jnp.concatenate([batch.points for batch in widened]),
        jnp.concatenate([batch.coefficients for batch in widened]),
        terms,
        widths.pop(),
    )


class Stack(eqx.Module):
    """Several functionals at each of N points, one per equation: φ_{rn}(u) = Σₜ c_{nrt} j_t(xₙ).

    Rows are ordered equation by equation. What the functionals have in common, their points, is
    kept once: products with vectors evaluate the kernel once per pair of points and not once per
    pair of rows. With a `width` W > 1 they are summed over groups of W consecutive points.

    **Attributes:**

    - `points`: xₙ.
    - `coefficients`: c_{nrt}.
    - `terms`: the jet entries j_t.
    - `used`: for each equation, the numbers of the entries in it.
    - `width`: W.
    """

    points: Float[Array, "N d"]
    coefficients: Float[Array, "N R T"]
    terms: tuple[Term, ...] = eqx.field(static=True)
    used: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    width: int = eqx.field(static=True, default=1)

    def __len__(self) -> int:
        return self.points.shape[0] // self.width * len(self.used)

    @property
    def batches(self) -> tuple[Functionals, ...]:
        """One batch per equation, without idle entries."""
        return tuple(
            Functionals(
                self.points,
                self.coefficients[:, r, list(used)],
                tuple(self.terms[t] for t in used),
                self.width,
            )
            for r, used in enumerate(self.used)
        )

    def weighted(self, weights: Float[Array, " RN"]) -> Functionals:
        """Σᵣ w_{rn} φ_{rn}, one functional per point."""
        by_equation = jnp.repeat(weights.reshape(len(self.used), -1), self.width, axis=1)
        return Functionals(
            self.points, jnp.einsum("rn,nrt->nt", by_equation, self.coefficients), self.terms
        )

    def applied(self, entries: Float[Array, "N T"]) -> Float[Array, " RN"]:
        """φ_{rn} of something with these jet entries."""
        return self.summed(jnp.einsum("nrt,nt->rn", self.coefficients, entries))

    def summed(self, local: Float[Array, "R N"]) -> Float[Array, " RN"]:
        """Values per equation and point, added up over the width, in the order of the rows."""
        return local.reshape(-1, self.width).sum(1) if self.width > 1 else local.reshape(-1)


def expansion(stacks: Sequence[Stack], weights: Float[Array, " M"]) -> tuple[Functionals, ...]:
    """Σᵢ wᵢ φᵢ over the rows of all stacks, as one functional per point."""
    ends = np.cumsum([0, *(len(stack) for stack in stacks)])
    return tuple(
        stack.weighted(weights[a:b]) for stack, (a, b) in zip(stacks, pairwise(ends), strict=True)
    )
