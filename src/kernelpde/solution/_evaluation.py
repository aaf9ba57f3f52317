"""Evaluation of a solution, and of the residuals of its conditions, at points."""

import jax
import numpy as np
from jaxtyping import Array, Float

from kernelpde.arrays import to_array
from kernelpde.compiling import MAX_PADDED_ROWS, compiled, is_traced, padded_size, pointwise
from kernelpde.functionals import Functionals, Prior, Term, evaluate_jets
from kernelpde.problem import PointSet, Residual

_evaluate = compiled(evaluate_jets)


def evaluate_expansion(
    prior: Prior,
    points: Float[Array, "N d"],
    terms: tuple[Term, ...],
    expansion: tuple[Functionals, ...],
    memory: int,
) -> Float[Array, "N T"]:
    """Evaluate jet entries of an expansion, with padded shapes that share compiled programs."""
    count = len(points)
    if is_traced(prior, points, expansion) or max(count, *map(len, expansion)) > MAX_PADDED_ROWS:
        return _evaluate(prior, points, terms, expansion, memory=memory)
    repeated = to_array(np.resize(np.asarray(points), (padded_size(count), points.shape[1])))
    padded = tuple(batch.pad(padded_size(len(batch))) for batch in expansion)
    return to_array(np.asarray(_evaluate(prior, repeated, terms, padded, memory=memory))[:count])


@pointwise
def evaluate_residual(
    residual: Residual, point_set: PointSet, jet_values: Float[Array, "P T"]
) -> Float[Array, "P R"]:
    """Evaluate the residual of a condition from its jet values, one column per equation.

    Rows with an integral or an average have several points, which the caller adds up.
    """

    def at_point(point, normal, datum, values):
        return residual(point, normal, datum, tuple(values))

    axes = (0, None if point_set.normals is None else 0, 0, 0)
    evaluate = jax.vmap(at_point, in_axes=axes)
    return evaluate(point_set.points, point_set.normals, point_set.data, jet_values)
