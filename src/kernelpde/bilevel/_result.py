"""Result codes of bilevel optimization."""

import enum


class RESULTS(enum.Enum):
    """Result codes of `kernelpde.learn` and `bilevel.minimize`, with their messages.

    **Example:**

    ```python
    >>> learned.result is kp.learning.RESULTS.converged
    True
    ```
    """

    converged = "The hyperparameters and the state converged."
    fluctuating = (
        "The hyperparameters fluctuate with the validation points. Their mean over the last steps "
        "is returned."
    )
    max_steps_reached = (
        "Learning reached the maximum number of Gauss-Newton steps. The last hyperparameters are "
        "returned."
    )
    max_factorizations_reached = (
        "Learning reached the maximum number of factorizations. The last hyperparameters are "
        "returned."
    )
    stopped = "The callback stopped learning. The last hyperparameters are returned."
    max_rank_reached = (
        "Learning reached the maximum rank of the low-rank solver. The last feasible "
        "hyperparameters are returned. Add points, or use a larger nugget or Automatic()."
    )
    not_finite = (
        "The outer loss is not finite at the current hyperparameters for any permitted nugget. "
        "Check the equation and the initial kernel, or start with another lengthscale."
    )
