"""How learning ended."""

import enum


class RESULTS(enum.Enum):
    """Result codes of `kernelpde.learn`, with their messages.

    **Example:**

    ```python
    >>> learned.result is kp.learning.RESULTS.converged
    True
    ```
    """

    converged = "The hyperparameters and the state have settled."
    scattered = (
        "The hyperparameters oscillate with the scatter of the validation points; their mean "
        "over the last steps is kept."
    )
    step_limit = "The largest number of Gauss-Newton steps was reached; the last kernels are kept."
    rank_limit = (
        "On the way to rougher kernels the low-rank solver came to its limit: its rank there is "
        "too large, or there are too few rows for it. The roughest kernels within it are kept. "
        "Take more points, a larger nugget, or Automatic()."
    )
    not_finite = (
        "The outer loss is not finite at the present hyperparameters, whatever the nugget. Check "
        "the kernel's start and the equation, or begin with another lengthscale."
    )
