"""Predictive density of data as the outer loss."""

from collections.abc import Sequence

import numpy as np

from kernelpde.errors import InputError
from kernelpde.geometry import Averages, PointCloud
from kernelpde.learning.validation._validation import AbstractValidation
from kernelpde.problem import Problem


class LeaveOneOutPredictive(AbstractValidation):
    """The leave-one-out predictive density of data, for inverse problems and regression.

    Equations are not left out, and no validation points are needed. The noise determines how
    closely data are fitted and may be learned too. Amplitudes of the kernels affect the loss and
    are learned with the lengthscales.

    **Arguments:**

    - `data`: names of the conditions that are data; by default those with noise at user-supplied
      points.

    **Example:**

    ```python
    >>> result = kp.learn(inverse, points, validation=kp.LeaveOneOutPredictive())
    ```
    """

    data: tuple[str, ...] | None = None

    def __check_init__(self):
        names = () if self.data is None else self.data
        is_sequence = isinstance(names, Sequence) and not isinstance(names, str)
        if not is_sequence or not all(isinstance(name, str) for name in names):
            raise InputError(
                "LeaveOneOutPredictive: data must be names of conditions, as in data=('sensors',); "
                f"got {self.data!r}."
            )

    @property
    def required_capabilities(self) -> frozenset[str]:
        return frozenset({"left out"})

    def data_condition_indices(self, problem: Problem) -> tuple[int, ...]:
        indices = data_condition_indices(problem, self.data)
        if not indices:
            raise InputError(
                "LeaveOneOutPredictive: the problem has no data. Expected a condition with noise "
                "at user-supplied points, or names of conditions as in "
                "LeaveOneOutPredictive(data=('sensors',))."
            )
        return indices


def data_condition_indices(problem: Problem, names: Sequence[str] | None = None) -> tuple[int, ...]:
    """Return the sorted indices of the named conditions, by default of `data_conditions`."""
    names = data_conditions(problem) if names is None else names
    return tuple(sorted(problem.condition_index(name) for name in names))


def data_conditions(problem: Problem) -> tuple[str, ...]:
    """Return the names of the conditions with noise at user-supplied points."""
    return tuple(
        c.name
        for c in problem.conditions
        if isinstance(c.region, PointCloud | Averages) and np.any(c.noise_std > 0)
    )
