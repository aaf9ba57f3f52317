"""The density of data."""

from collections.abc import Sequence

import numpy as np

from kernelpde.errors import InputError
from kernelpde.geometry import Averages, PointCloud
from kernelpde.learning.validation._plan import AbstractValidation
from kernelpde.problem import Problem


class LeaveOneOutPredictive(AbstractValidation):
    """The predictive density of data, each left out in turn: for inverse problems and regression.

    Equations are never left out; no validation points are needed. The noise, which may be learned
    as well, determines how closely data are fitted; amplitudes of the kernels matter and are
    learned with the lengthscales.

    **Arguments:**

    - `data`: the names of the conditions that are data; by default those on given points with
      noise.

    **Example:**

    ```python
    >>> judged = kp.learn(inverse, points, validation=kp.LeaveOneOutPredictive())
    ```
    """

    data: tuple[str, ...] | None = None

    def __check_init__(self):
        words = () if self.data is None else self.data
        listed = isinstance(words, Sequence) and not isinstance(words, str)
        if not listed or not all(isinstance(name, str) for name in words):
            raise InputError(
                "LeaveOneOutPredictive: data must be names of conditions, as in data=('sensors',); "
                f"got {self.data!r}."
            )

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"left out"})

    def data_of(self, problem: Problem) -> tuple[int, ...]:
        names = data_conditions(problem) if self.data is None else self.data
        chosen = [problem.condition_index(name) for name in names]
        if not chosen:
            raise InputError(
                "LeaveOneOutPredictive: the problem has no data. Expected a condition on points of "
                "its own with noise, or names of conditions as in "
                "LeaveOneOutPredictive(data=('sensors',))."
            )
        return tuple(sorted(chosen))


def data_conditions(problem: Problem) -> tuple[str, ...]:
    """Conditions on points of their own, with noise."""
    return tuple(
        c.name
        for c in problem.conditions
        if isinstance(c.region, PointCloud | Averages) and np.any(c.noise_level > 0)
    )
