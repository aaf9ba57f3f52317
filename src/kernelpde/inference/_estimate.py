"""A number with its uncertainty."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jax.scipy.special import ndtri

from kernelpde.arrays import array
from kernelpde.checking import real_number
from kernelpde.errors import InputError
from kernelpde.problem import Parameter

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class Estimate:
    """An unknown number: what the data say of it.

    **Attributes:**

    - `mean`: where the posterior has its center.
    - `deviation`: its standard deviation, to first order for a positive parameter.
    """

    parameter: Parameter
    offset: float
    spread: float

    @property
    def mean(self) -> float:
        return float(self.parameter.value(array(self.offset)))

    @property
    def deviation(self) -> float:
        return self.spread * (self.mean if self.parameter.positive else 1.0)

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """The central credible interval of a given probability."""
        reach = quantile(level) * self.spread
        low, high = (self.parameter.value(array(self.offset + s * reach)) for s in (-1, 1))
        return float(low), float(high)

    def __repr__(self) -> str:
        low, high = self.interval()
        return f"{self.mean:.5g} ± {self.deviation:.2g} (95%: {low:.5g} to {high:.5g})"


def quantile(level: float) -> float:
    """How many standard deviations the central interval of a given probability reaches."""
    if not 0 < real_number("posterior", "level", level) < 1:
        raise InputError(f"Expected a probability between 0 and 1; got {level}.")
    return float(ndtri(0.5 * (1.0 + level)))
