"""What is told of a learning run while it goes on."""

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class LearningRecord:
    """One evaluation of the outer loss, or one step of learning.

    **Attributes:**

    - `step`: the Gauss-Newton step, from 1; 0 while starts are compared.
    - `factorizations`: made so far.
    - `loss`: the outer loss.
    - `theta`: the hyperparameters as a vector, logarithms of positive ones.
    - `hyperparameters`: by field and name.
    - `constant`: whether lengthscales that may vary are still held constant.
    - `residuals`: at the end of a step the root mean square residual of each condition, at
      validation points where there are any; empty within a step.
    - `length`: the fraction of the inner step that was taken; `None` within a step.
    - `change`: relative change of the state; `None` within a step.
    - `nugget`: used by the linear solve.
    - `seconds`: since learning began.

    **Example:**

    ```python
    >>> last = learned.history[-1]
    >>> last.loss < learned.history[0].loss or len(learned.history) == 1
    True
    ```
    """

    step: int
    factorizations: int
    loss: float
    theta: np.ndarray
    hyperparameters: dict[str, dict[str, Any]]
    constant: bool
    residuals: dict[str, float]
    length: float | None
    change: float | None
    nugget: float
    seconds: float
