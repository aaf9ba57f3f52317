"""How a solve ended."""

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
    rounding_level = (
        "Converged as far as rounding allows: further steps no longer lower the residual."
    )
    unresolved = (
        "The iteration settled, but the conditions are not met at their own points: the kernel "
        "cannot represent the solution at this nugget. Try a rougher kernel, a smaller lengthscale "
        "or a smaller nugget."
    )
    not_met_between = (
        "The conditions are met at their points, but not between them: the points are too few, or "
        "the lengthscale does not suit the solution."
    )
    outside_of_law = (
        "A law is asked for beyond the range that was given for its argument, where it is a "
        "straight line. Give a wider range."
    )
    accuracy_limit = (
        "The accuracy asked for was not reached: more points take too long or do not help. The "
        "estimated error says how far it is."
    )
    stalled = (
        "No step lowers the residual, however strongly damped. The kernel may be far too smooth "
        "for the solution, or the problem may need a better start."
    )
    step_limit = "The largest number of steps was reached before the iteration settled."
    not_positive_definite = (
        "The Gram matrix is not positive definite even with the largest nugget allowed."
    )
    linear_solve = (
        "Conjugate gradients of the sparse solver did not reach their tolerance: the kernel is too "
        "smooth for it, or its radius too small. Try LowRank(), Dense(), a Matern kernel, a "
        "shorter lengthscale, or Sparse with a larger preconditioner_radius."
    )
    not_finite = "NaN or infinite numbers appeared; the last finite iterate is kept."


GOING_ON = -1
"""Stands for a result where there is none yet."""


def code_of(result: RESULTS) -> int:
    """The number that stands for a result inside of compiled programs."""
    return list(RESULTS).index(result)


def settled(code: Any) -> Any:
    """Whether a number, or each of many, stands for a result with a solution."""
    return (code == code_of(RESULTS.converged)) | (code == code_of(RESULTS.rounding_level))


def result_of(code: int) -> RESULTS:
    """The result that a number stands for."""
    return list(RESULTS)[code]
