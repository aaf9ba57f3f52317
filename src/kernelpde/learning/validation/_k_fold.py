"""Folds of the training points."""

from collections.abc import Mapping

import numpy as np

from kernelpde.checking import truth, whole_number
from kernelpde.errors import InputError
from kernelpde.learning.validation._plan import AbstractValidation, check_plan


class KFold(AbstractValidation):
    """K-fold cross-validation on the training points, from one factorization.

    **Arguments:**

    - `count`: K; `None` leaves out one row at a time.
    - `weights`: of each condition in the loss.
    - `standardized`: divide what each row misses by its standard deviation given the others, which
      makes the loss the predictive density of the rows left out; otherwise it is a sum of squares.

    **Example:**

    ```python
    >>> kp.learn(problem, {"equation": 40, "ends": 2}, validation=kp.KFold(5)).converged
    True
    ```
    """

    count: int | None = None
    weights: Mapping[str, float] | None = None  # pyright: ignore[reportIncompatibleMethodOverride]
    standardized: bool = True  # pyright: ignore[reportIncompatibleMethodOverride]

    def __check_init__(self):
        if self.count is not None and whole_number("KFold", "count", self.count) < 2:
            raise InputError(f"KFold: expected at least 2 folds; got {self.count}.")
        check_plan("KFold", None, self.weights)
        truth("KFold", "standardized", self.standardized)

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"folds"})

    def folds(self, rows: int, seed: int, step: int) -> tuple[np.ndarray, ...]:
        """Drawn at random, the same for all steps."""
        del step
        if self.count is None:
            return ()
        if self.count > rows:
            raise InputError(f"KFold: {self.count} folds of {rows} rows.")
        order = np.random.default_rng([seed, 7]).permutation(rows)
        return tuple(np.sort(part) for part in np.array_split(order, self.count))
