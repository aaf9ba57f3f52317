"""Reasons for the end of a branch."""

import enum


class RESULTS(enum.Enum):
    """Reasons for the end of a branch, with their messages.

    **Example:**

    ```python
    >>> branch.result is kp.branches.RESULTS.end_reached
    True
    ```
    """

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
