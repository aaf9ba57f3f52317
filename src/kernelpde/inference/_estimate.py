"""A number with its uncertainty."""

from dataclasses import dataclass

import numpy as np

from kernelpde.arrays import array
from kernelpde.checking import real_number
from kernelpde.deprecation import earlier_names
from kernelpde.errors import InputError
from kernelpde.inference._mixed import mixed_quantile, pooled
from kernelpde.problem import Parameter


@earlier_names(deviation="std", spread="offset_std", spreads="offset_stds")
@dataclass(frozen=True)
class Estimate:
    """The posterior of an unknown parameter.

    **Attributes:**

    - `parameter`: with its prior.
    - `offsets`, `offset_stds`, `weights`: mean and standard deviation of its offset from the prior
      mean, in logarithms if it is positive, and weight, for each member of the posterior.

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
    offset_stds: tuple[float, ...]
    weights: tuple[float, ...] = (1.0,)

    @property
    def offset(self) -> float:
        return float(self._pooled[0])

    @property
    def offset_std(self) -> float:
        return float(self._pooled[1])

    @property
    def _pooled(self) -> tuple[np.ndarray, np.ndarray]:
        return pooled(*self._members)

    @property
    def _members(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return np.asarray(self.offsets), np.asarray(self.offset_stds), np.asarray(self.weights)

    @property
    def mean(self) -> float:
        """Posterior mean; for a positive parameter the exponential of the mean logarithm."""
        return float(self.parameter.value(array(self.offset)))

    @property
    def std(self) -> float:
        """Its standard deviation, to first order for a positive parameter."""
        return self.offset_std * (self.mean if self.parameter.positive else 1.0)

    @property
    def contraction(self) -> float:
        """The part of the prior variance that data have removed: near 0 where they say nothing of
        the number, near 1 where they determine it."""
        return float(np.clip(1.0 - (self.offset_std / self.parameter.std) ** 2, 0.0, 1.0))

    def quantile(self, level: float) -> float:
        """The quantile of the parameter at a given probability."""
        at = mixed_quantile(*self._members, level)
        return float(self.parameter.value(array(at)))

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """The central credible interval of a given probability."""
        low, high = tails(level)
        return self.quantile(low), self.quantile(high)

    def __repr__(self) -> str:
        low, high = self.interval()
        return f"{self.mean:.5g} ± {self.std:.2g} (95%: {low:.5g} to {high:.5g})"


def tails(level: float) -> tuple[float, float]:
    """The probabilities below the ends of a central interval of a given probability."""
    if not 0 < real_number("posterior", "level", level) < 1:
        raise InputError(f"Expected a probability between 0 and 1; got {level}.")
    return 0.5 * (1.0 - level), 0.5 * (1.0 + level)
