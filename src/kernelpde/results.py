"""Result codes of all computations."""

import enum

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from kernelpde.arrays import on_host

Code = Int[Array, "*_"] | int
"""Integer that represents a result in compiled programs, or an array of them."""


class RESULTS(enum.Enum):
    """Result codes of all computations, with their messages and advice.

    **Example:**

    ```python
    >>> solution.result is kp.RESULTS.converged
    True
    ```
    """

    # Iterations of every kind
    running = "The iteration has not ended."
    converged = "The last full step changed the result by less than the tolerance."
    max_steps_reached = "The maximum number of steps was reached before convergence."
    stopped = "The callback stopped the computation. The result so far is returned."

    # Nonlinear iteration
    rounding_limited = (
        "Converged up to rounding errors: the decrease of the objective that the last full step "
        "predicted is below its rounding error."
    )
    residual_too_large = (
        "The iteration converged, but the residual at the collocation points is too large: the "
        "kernel cannot represent the solution at this nugget. Use a rougher kernel, a shorter "
        "lengthscale or a smaller nugget."
    )
    stalled = (
        "The objective has not decreased in twelve steps. The best iterate is returned. Use a "
        "rougher kernel or a better initial guess (start=...)."
    )
    not_finite = "NaN or infinite values appeared. The last finite iterate is returned."

    # Linear solvers
    successful = "The matrix was factored with the requested nugget."
    nugget_raised = (
        "The matrix was not positive definite with the requested nugget. A larger one was used."
    )
    not_positive_definite = (
        "The Gram matrix is not positive definite, even with the largest nugget allowed. Usual "
        "causes are nearly coincident points, a lengthscale far larger than the domain, or a "
        "kernel that is not smooth enough for the equation."
    )
    linear_solver_failed = (
        "Conjugate gradients of the sparse solver did not converge: the kernel is too smooth, or "
        "the radius of the preconditioner too small. Use LowRank(), Dense(), a Matern kernel, a "
        "shorter lengthscale, or Sparse with a larger preconditioner_radius."
    )

    # Checks of solutions
    test_residual_too_large = (
        "The residual is small at the collocation points, but too large at test points. Use more "
        "points, or learn the lengthscale."
    )
    law_out_of_range = (
        "A law is evaluated outside the range of its argument, where it is a straight line. "
        "Specify a wider range."
    )
    accuracy_not_reached = (
        "The target accuracy was not reached: further refinement exceeds a limit or does not "
        "reduce the estimated error."
    )

    not_resolved = (
        "Kinks or layers are not resolved: in some boxes the residual at test points is too large, "
        "so that the error may be as large as the field. Allow more rows or time."
    )

    # Bilevel optimization
    fluctuating = (
        "The hyperparameters fluctuate with the validation points. Their mean over the last steps "
        "is returned."
    )
    max_factorizations_reached = (
        "Learning reached the maximum number of factorizations. The last hyperparameters are "
        "returned."
    )
    max_rank_reached = (
        "Learning reached the maximum rank of the low-rank solver. The last feasible "
        "hyperparameters are returned. Add points, or use a larger nugget or Automatic()."
    )
    loss_not_finite = (
        "The outer loss is not finite at the current hyperparameters for any permitted nugget. "
        "Check the equation and the initial kernel, or start with another lengthscale."
    )

    # Branches of solutions
    end_reached = "The last solution is at the end of the path."
    start_reached = "The branch turned back and left the path at its start."
    max_solutions_reached = (
        "The maximum number of solutions was computed. If the branch is not finished, raise "
        "max_solutions."
    )
    step_too_small = (
        "No step of the branch was accepted, even after it was halved repeatedly. Use more points, "
        "another kernel or a shorter path."
    )

    @property
    def code(self) -> int:
        """Integer that represents the result in compiled programs."""
        return list(RESULTS).index(self)

    @staticmethod
    def from_code(code: int) -> "RESULTS":
        """Return the result that an integer represents."""
        return list(RESULTS)[code]


def select_result(code: Code, *cases: tuple[Bool[Array, ""], RESULTS]) -> Int[Array, ""]:
    """Return the code of the last case that holds, or `code`."""
    for condition, result in cases:
        code = jnp.where(condition, result.code, code)
    return jnp.asarray(code)


def is_any(code: Code, *results: RESULTS) -> Bool[Array, "*_"]:
    """Return whether a code, or each code of an array, belongs to one of several results."""
    codes = [result.code for result in results]
    return on_host(lambda code: sum(code == value for value in codes) > 0, code)


def is_converged(code: Code) -> Bool[Array, "*_"]:
    """Return whether a code, or each code of an array, belongs to a converged iteration."""
    return is_any(code, RESULTS.converged, RESULTS.rounding_limited)
