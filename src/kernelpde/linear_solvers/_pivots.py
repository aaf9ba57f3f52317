"""Functionals that stand for all others, by pivoted Cholesky on a sample."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.arrays import array
from kernelpde.compiling import compiled
from kernelpde.functionals import Functionals, Kernels, Term, gram, gram_diagonal
from kernelpde.problem import Collocation, Residual

_SAMPLES = (1024, 2048, 4096, 8192)
"""How many functionals are looked at, more if the rank turns out to be a large part of them."""

_PART = 4
"""Size of the sample that is enough to know the rank, as a multiple of the rank."""


@dataclass(frozen=True)
class Pivots:
    """Functionals Ψ, in the order in which they were chosen.

    **Attributes:**

    - `points`, `coefficients`, `terms`: what they are; each sees one entry of the jet, scaled to
      unit prior variance.
    - `complete`: whether all others are known from these up to the tolerance.
    - `sample`: how many functionals this was found out with.
    """

    points: Float[np.ndarray, "r d"]
    coefficients: Float[np.ndarray, "r T"]
    terms: tuple[Term, ...]
    complete: bool
    sample: int

    @property
    def rank(self) -> int:
        return len(self.points)


def pivots(
    kernels: Kernels,
    residuals: tuple[Residual, ...],
    blocks: tuple[Collocation, ...],
    tolerance: float,
    most: int,
) -> Pivots:
    """Choose from the jet entries that the residuals use at their points.

    In each step the one of which least is known, until of none more than `tolerance` of its prior
    variance is unknown. They do not depend on the state: what is chosen once serves all
    linearizations.

    **Arguments:**

    - `kernels`, `residuals`, `blocks`: the problem and its points.
    - `tolerance`: relative to the prior variance.
    - `most`: how many at most.
    """
    total = sum(len(b.points) * len(r.terms) for r, b in zip(residuals, blocks, strict=True))
    found = None
    for size in _SAMPLES:
        pool = _sample(residuals, blocks, size)
        found = _chosen(kernels, pool, tolerance, most)
        if found.rank * _PART <= size or size >= total or found.rank >= most:
            break
    assert found is not None
    return found


def _sample(
    residuals: tuple[Residual, ...], blocks: tuple[Collocation, ...], size: int
) -> Functionals:
    """Jet entries at some points of every condition."""
    terms = tuple(sorted({term for residual in residuals for term in residual.terms}))
    counts = np.array([len(block.points) for block in blocks])
    widths = np.array([len(residual.terms) for residual in residuals])
    shares = np.sqrt(counts) * np.sqrt(widths)
    shares = np.maximum(size * shares / shares.sum() / widths, 8)
    rng = np.random.default_rng(0)
    points, coefficients = [], []
    for residual, block, share in zip(residuals, blocks, shares, strict=True):
        count = len(block.points)
        chosen = rng.permutation(count)[: min(count, int(share))]
        for term in residual.terms:
            column = np.zeros((len(chosen), len(terms)))
            column[:, terms.index(term)] = 1.0
            points.append(np.asarray(block.points)[chosen])
            coefficients.append(column)
    return Functionals(array(np.concatenate(points)), array(np.concatenate(coefficients)), terms)


@compiled
def _scaled_gram(kernels: Kernels, pool: Functionals) -> tuple[Array, Array]:
    size = gram_diagonal(kernels, [pool])
    scale = jnp.where(size > 0, 1.0 / jnp.sqrt(jnp.where(size > 0, size, 1.0)), 0.0)
    unit = pool.scaled(scale)
    return gram(kernels, unit, unit), scale


def _chosen(kernels: Kernels, pool: Functionals, tolerance: float, most: int) -> Pivots:
    matrix, scale = map(np.asarray, _scaled_gram(kernels, pool))
    from scipy.linalg import get_lapack_funcs  # slow to import, and needed for many rows only

    (pivoted,) = get_lapack_funcs(("pstrf",), (matrix,))
    _, order, rank, _ = pivoted(np.array(matrix, order="F"), tol=tolerance, overwrite_a=1)
    chosen = (order - 1)[: min(rank, most)]
    coefficients = np.asarray(pool.coefficients) * scale[:, None]
    return Pivots(
        np.asarray(pool.points)[chosen],
        coefficients[chosen],
        pool.terms,
        bool(rank < min(most, len(matrix))),
        len(matrix),
    )
