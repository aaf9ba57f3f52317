"""A number with its uncertainty."""

from dataclasses import dataclass

import numpy as np

from kernelpde.arrays import array
from kernelpde.checking import real_number
from kernelpde.errors import InputError
from kernelpde.inference._mixed import mixed_quantile, pooled
from kernelpde.problem import Parameter


@dataclass(frozen=True)
class Estimate:
    """An unknown number: what the data say of it.

    **Attributes:**

    - `parameter`: what it is.
    - `offsets`, `spreads`, `weights`: means and standard deviations of its offset from what was
      expected, of its logarithm if it is positive, by each member of a posterior.

    **Example:**

    ```python
    >>> load = kp.posterior(found).parameters["load"]
    >>> low, high = load.interval()
    >>> low < 1.5 < high
    True
    ```
    """

    parameter: Parameter
    offsets: tuple[float, ...]
    spreads: tuple[float, ...]
    weights: tuple[float, ...] = (1.0,)

    @property
    def offset(self) -> float:
        return float(self._pooled[0])

    @property
    def spread(self) -> float:
        return float(self._pooled[1])

    @property
    def _pooled(self) -> tuple[np.ndarray, np.ndarray]:
        return pooled(*self._members)

    @property
    def _members(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return np.asarray(self.offsets), np.asarray(self.spreads), np.asarray(self.weights)

    @property
    def mean(self) -> float:
        """Where the posterior has its center."""
        return float(self.parameter.value(array(self.offset)))

    @property
    def deviation(self) -> float:
        """Its standard deviation, to first order for a positive parameter."""
        return self.spread * (self.mean if self.parameter.positive else 1.0)

    @property
    def contraction(self) -> float:
        """The part of the prior variance that data have removed: near 0 where they say nothing of
        the number, near 1 where they determine it."""
        return float(np.clip(1.0 - (self.spread / self.parameter.deviation) ** 2, 0.0, 1.0))

    def quantile(self, level: float) -> float:
        """What the number is below with a given probability."""
        at = mixed_quantile(*self._members, level)
        return float(self.parameter.value(array(at)))

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """The central credible interval of a given probability."""
        low, high = tails(level)
        return self.quantile(low), self.quantile(high)

    def __repr__(self) -> str:
        low, high = self.interval()
        return f"{self.mean:.5g} ± {self.deviation:.2g} (95%: {low:.5g} to {high:.5g})"


def tails(level: float) -> tuple[float, float]:
    """The probabilities below the ends of a central interval of a given probability."""
    if not 0 < real_number("posterior", "level", level) < 1:
        raise InputError(f"Expected a probability between 0 and 1; got {level}.")
    return 0.5 * (1.0 - level), 0.5 * (1.0 + level)
