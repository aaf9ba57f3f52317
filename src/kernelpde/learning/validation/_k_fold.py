"""Folds of the training points as the outer loss."""

from collections.abc import Mapping

import numpy as np

from kernelpde.checking import check_bool, check_integer
from kernelpde.errors import InputError
from kernelpde.learning.validation._validation import AbstractValidation, check_validation


class KFold(AbstractValidation):
    """K-fold cross-validation on the training points, from one factorization.

    **Arguments:**

    - `num_folds`: K; `None` for leave-one-out.
    - `weights`: weights of the conditions in the loss.
    - `standardized`: divide each residual by its standard deviation given the other rows. The
      loss is then the predictive density of the omitted rows, otherwise a sum of squares.

    **Example:**

    ```python
    >>> kp.learn(problem, {"equation": 40, "ends": 2}, validation=kp.KFold(5)).converged
    True
    ```
    """

    num_folds: int | None = None
    weights: Mapping[str, float] | None = None  # pyright: ignore[reportIncompatibleMethodOverride]
    standardized: bool = True  # pyright: ignore[reportIncompatibleMethodOverride]

    def __check_init__(self):
        if self.num_folds is not None and check_integer("KFold", "num_folds", self.num_folds) < 2:
            raise InputError(f"KFold: expected at least 2 folds; got {self.num_folds}.")
        check_validation("KFold", None, self.weights)
        check_bool("KFold", "standardized", self.standardized)

    @property
    def required_capabilities(self) -> frozenset[str]:
        return frozenset({"folds"})

    def folds(self, rows: int, seed: int, step: int) -> tuple[np.ndarray, ...]:
        """Return random folds, the same in all steps."""
        del step
        if self.num_folds is None:
            return ()
        if self.num_folds > rows:
            raise InputError(
                f"KFold: num_folds={self.num_folds} exceeds the number of rows, {rows}. Use fewer "
                "folds or more points."
            )
        order = np.random.default_rng([seed, 7]).permutation(rows)
        return tuple(np.sort(fold) for fold in np.array_split(order, self.num_folds))
