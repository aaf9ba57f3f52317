"""Result codes of linear solves."""

import equinox as eqx
import jax
from jaxtyping import Array, Bool

from kernelpde.arrays import on_host


class RESULTS(eqx.Enumeration):
    """Result codes of a symmetric positive definite solve, with their messages."""

    successful = "The matrix was factored with the requested nugget."
    nugget_raised = (
        "The matrix was not positive definite with the requested nugget; a larger one was used."
    )
    not_positive_definite = (
        "The matrix is not positive definite even with the largest nugget allowed. Usual causes "
        "are nearly coincident points, a lengthscale far larger than the domain, or a kernel that "
        "is not smooth enough for the equation."
    )
    cg_not_converged = (
        "Conjugate gradients did not reach their tolerance. Use a larger preconditioner_radius, "
        "a larger nugget or a less smooth kernel."
    )
    not_finite = "The diagonal of the matrix is not positive and finite."


def has_solution(result: RESULTS) -> Bool[Array, ""]:
    """Return whether a solve with this result code has a solution."""
    codes = jax.tree.leaves((result, RESULTS.successful, RESULTS.nugget_raised))
    return on_host(lambda code, first, second: (code == first) | (code == second), *codes)
