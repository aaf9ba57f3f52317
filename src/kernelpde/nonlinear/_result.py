"""Result codes of a solve."""

import enum
from typing import Any


class RESULTS(enum.Enum):
    """Result codes of `kernelpde.solve`, with their messages.

    **Example:**

    ```python
    >>> solution.result is kp.RESULTS.converged
    True
    ```
    """

    converged = "The last full step changed the solution by less than the tolerance."
    rounding_limited = (
        "Converged up to rounding errors: the decrease of the objective that the last full step "
        "predicted is below its rounding error."
    )
    residual_too_large = (
        "The iteration converged, but the residual at the collocation points is too large: the "
        "kernel cannot represent the solution at this nugget. Use a rougher kernel, a shorter "
        "lengthscale or a smaller nugget."
    )
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
    stalled = (
        "The objective has not decreased in twelve steps. The best iterate is returned. Use a "
        "rougher kernel or a better initial guess (start=...)."
    )
    max_steps_reached = "The maximum number of steps was reached before convergence."
    not_positive_definite = (
        "The Gram matrix is not positive definite, even with the largest permitted nugget."
    )
    linear_solver_failed = (
        "Conjugate gradients of the sparse solver did not converge: the kernel is too smooth, or "
        "the radius of the preconditioner too small. Use LowRank(), Dense(), a Matern kernel, a "
        "shorter lengthscale, or Sparse with a larger preconditioner_radius."
    )
    not_finite = "NaN or infinite values appeared. The last finite iterate is returned."
    not_resolved = (
        "Kinks or layers are not resolved: in some boxes the residual at test points is too large, "
        "so that the error may be as large as the field. Allow more rows or time."
    )
    stopped = "The callback stopped the iteration. The best iterate is returned."


RUNNING = -1
"""Code of an iteration that has not ended."""


def code_from_result(result: RESULTS) -> int:
    """Return the integer that represents a result in compiled programs."""
    return list(RESULTS).index(result)


def is_converged(code: Any) -> Any:
    """Return whether a code, or each code of an array, belongs to a converged iteration."""
    return (code == code_from_result(RESULTS.converged)) | (
        code == code_from_result(RESULTS.rounding_limited)
    )


def result_from_code(code: int) -> RESULTS:
    """Return the result that an integer represents."""
    return list(RESULTS)[code]
