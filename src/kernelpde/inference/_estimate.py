"""Posterior of an unknown parameter."""

from dataclasses import dataclass

import numpy as np

from kernelpde.arrays import to_array
from kernelpde.checking import check_real
from kernelpde.errors import InputError
from kernelpde.inference._mixture import mixture_moments, mixture_quantile
from kernelpde.problem import Parameter


@dataclass(frozen=True)
class ParameterEstimate:
    """Posterior of an unknown parameter.

    **Attributes:**

    - `parameter`: parameter with its prior.
    - `offsets`, `offset_stds`: mean and standard deviation of the offset from the prior mean, one
      per component of the posterior. Offsets of positive parameters are logarithms.
    - `weights`: weights of the components.

    **Example:**

    ```python
    >>> load = kp.posterior(inverse_result).parameters["load"]
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
    def _components(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return np.asarray(self.offsets), np.asarray(self.offset_stds), np.asarray(self.weights)

    @property
    def offset(self) -> float:
        """Posterior mean of the offset from the prior mean."""
        return float(mixture_moments(*self._components)[0])

    @property
    def offset_std(self) -> float:
        """Posterior standard deviation of the offset."""
        return float(mixture_moments(*self._components)[1])

    @property
    def mean(self) -> float:
        """Posterior mean; for a positive parameter the exponential of the mean logarithm."""
        return float(self.parameter.value(to_array(self.offset)))

    @property
    def std(self) -> float:
        """Posterior standard deviation, to first order for a positive parameter."""
        return self.offset_std * (self.mean if self.parameter.positive else 1.0)

    @property
    def contraction(self) -> float:
        """Fraction of the prior variance that the data remove: near 0 if they are uninformative,
        near 1 if they determine the parameter."""
        return float(np.clip(1.0 - (self.offset_std / self.parameter.std) ** 2, 0.0, 1.0))

    def quantile(self, level: float) -> float:
        """Return the quantile of the parameter for a probability."""
        offset = mixture_quantile(*self._components, level)
        return float(self.parameter.value(to_array(offset)))

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return the central credible interval with the given probability."""
        low, high = interval_levels(level)
        return self.quantile(low), self.quantile(high)

    def __repr__(self) -> str:
        low, high = self.interval()
        return f"{self.mean:.5g} ± {self.std:.2g} (95%: {low:.5g} to {high:.5g})"


def interval_levels(level: float) -> tuple[float, float]:
    """Return the quantile levels that bound a central interval with the given probability."""
    if not 0 < check_real("posterior", "level", level) < 1:
        raise InputError(f"Expected a probability between 0 and 1; got {level}.")
    return 0.5 * (1.0 - level), 0.5 * (1.0 + level)
