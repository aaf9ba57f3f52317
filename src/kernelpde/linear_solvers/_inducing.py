"""Inducing functionals, selected by pivoted Cholesky factorization of a sample."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.arrays import to_array
from kernelpde.compiling import compiled
from kernelpde.functionals import Functionals, Prior, gram, gram_diagonal
from kernelpde.linear_solvers._cholesky import pivoted_cholesky
from kernelpde.problem import DiscreteProblem

_MIN_SAMPLE_SIZE = 1024
"""Number of functionals in the first sample, doubled up to eight times where the rank is a large
fraction of it. Half of it often costs a second sample, double the work of the first. Not measured.
"""

_MIN_SAMPLES_PER_RANK = 4
"""Ratio of sample size and rank from which the rank of the sample is accepted."""


@dataclass(frozen=True)
class InducingFunctionals:
    """Inducing functionals Ψ in pivot order.

    **Attributes:**

    - `functionals`: jet values at points, scaled to unit prior variance.
    - `spans_all`: whether they determine the sample up to the tolerance.
    """

    functionals: Functionals
    spans_all: bool

    @property
    def rank(self) -> int:
        """Number of inducing functionals."""
        return len(self.functionals)

    def describe_rank(self) -> str:
        """Format the rank, which is a lower bound if the functionals do not span the sample."""
        return str(self.rank) if self.spans_all else f"over {self.rank}"


def select_inducing(
    problem: DiscreteProblem, tolerance: float, max_rank: int
) -> InducingFunctionals:
    """Select inducing functionals by pivoted Cholesky on a sample of jet values.

    The candidates are the jet values that the residuals use at their points. They do not depend on
    the iterate, so one selection serves all linearizations.

    **Arguments:**

    - `problem`: prior and conditions at their points.
    - `tolerance`: largest conditional variance of a candidate, relative to its prior variance.
    - `max_rank`: maximum number of inducing functionals.
    """
    total = sum(len(c.point_set.points) * len(c.terms) for c in problem.conditions)
    inducing = None
    for size in (_MIN_SAMPLE_SIZE << doublings for doublings in range(4)):
        candidates = _sample(problem, size)
        inducing = _select_from(problem.prior, candidates, tolerance, max_rank)
        is_large_enough = inducing.rank * _MIN_SAMPLES_PER_RANK <= size or size >= total
        if is_large_enough or inducing.rank >= max_rank:
            break
    assert inducing is not None
    return inducing


def _sample(problem: DiscreteProblem, size: int) -> Functionals:
    """Return jet values at a subset of the points of every condition."""
    terms = tuple(sorted(problem.terms))
    counts = np.array([len(point_set.points) for point_set in problem.point_sets])
    widths = np.array([len(condition.terms) for condition in problem.conditions])
    shares = np.sqrt(counts) * np.sqrt(widths)
    shares = np.maximum(size * shares / shares.sum() / widths, 8)
    rng = np.random.default_rng(0)
    points, coefficients = [], []
    for n, condition in enumerate(problem.conditions):
        indices = rng.permutation(counts[n])[: min(counts[n], int(shares[n]))]
        for term in condition.terms:
            column = np.zeros((len(indices), len(terms)))
            column[:, terms.index(term)] = 1.0
            points.append(np.asarray(condition.point_set.points)[indices])
            coefficients.append(column)
    return Functionals(
        to_array(np.concatenate(points)), to_array(np.concatenate(coefficients)), terms
    )


@compiled
def _scaled_gram(prior: Prior, candidates: Functionals) -> tuple[Array, Array]:
    variance = gram_diagonal(prior, [candidates])
    scale = jnp.where(variance > 0, 1.0 / jnp.sqrt(jnp.where(variance > 0, variance, 1.0)), 0.0)
    scaled = candidates.scale(scale)
    return gram(prior, scaled, scaled), scale


def _select_from(
    prior: Prior, candidates: Functionals, tolerance: float, max_rank: int
) -> InducingFunctionals:
    matrix, scale = map(np.asarray, _scaled_gram(prior, candidates))
    order, rank = pivoted_cholesky(matrix, tolerance)
    pivots = order[: min(rank, max_rank)]
    coefficients: Float[np.ndarray, "N T"] = np.asarray(candidates.coefficients) * scale[:, None]
    inducing = Functionals(
        to_array(np.asarray(candidates.points)[pivots]),
        to_array(coefficients[pivots]),
        candidates.terms,
    )
    return InducingFunctionals(inducing, rank < min(max_rank, len(matrix)))
