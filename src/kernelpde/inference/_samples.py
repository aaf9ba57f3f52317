"""Draws with what is to be said of them."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Array, Float

from kernelpde.checking import did_you_mean, listed
from kernelpde.errors import InputError
from kernelpde.inference._density import LogDensity
from kernelpde.inference._estimate import tails

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MIXED, _ENOUGH = 1.01, 100
"""R-hat above the first, or fewer effective draws per chain than the second, is doubted: the limits
of Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021)."""

_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)

_FAR = 0.25
"""Quantiles further apart than this many standard deviations do not agree."""


@dataclass(frozen=True, eq=False)
class Samples:
    """Draws of unknown numbers.

    **Attributes:**

    - `draws`: by name, one row per chain; numbers in their own units, hyperparameters as
      logarithms.
    - `positions`: the same as vectors, see `LogDensity`.
    - `density`: what they are drawn from.
    - `divergences`: number of divergent trajectories; should be 0.
    - `evaluations`: number of gradient evaluations.
    """

    draws: dict[str, Float[np.ndarray, "chains draws"]]
    positions: Float[Array, "chains draws p"]
    density: LogDensity
    divergences: int
    evaluations: int

    def __getitem__(self, name: str) -> Float[np.ndarray, " n"]:
        """All draws of a number."""
        if name not in self.draws:
            raise InputError(
                f"Samples: unknown number {name!r}; there are {listed(self.draws)}."
                f"{did_you_mean(name, list(self.draws))}"
            )
        return self.draws[name].reshape(-1)

    @cached_property
    def r_hat(self) -> dict[str, float]:
        """Rank-normalized split R-hat: near 1 if the chains have mixed."""
        from blackjax.diagnostics import rhat

        return {name: float(rhat(each)) for name, each in self.draws.items()}

    @cached_property
    def effective(self) -> dict[str, float]:
        """Effective sample size, the smaller of those of bulk and tails."""
        from blackjax.diagnostics import ess_bulk, ess_tail

        return {
            name: min(float(ess_bulk(each)), float(ess_tail(each)))
            for name, each in self.draws.items()
        }

    def quantile(self, name: str, level: float) -> float:
        """What a number is below with a given probability."""
        return float(np.quantile(self[name], level))

    def interval(self, name: str, level: float = 0.95) -> tuple[float, float]:
        """The central credible interval of a given probability."""
        low, high = tails(level)
        return self.quantile(name, low), self.quantile(name, high)

    @cached_property
    def from_laplace(self) -> dict[str, float]:
        """By name how far quantiles are from those of the Gaussian approximation, in its standard
        deviations; the largest of five, from 5% to 95%."""
        from scipy.stats import norm

        x = np.asarray(self.positions).reshape(-1, len(self.density.names))
        scores = (x - np.asarray(self.density.mode)) / np.sqrt(np.diag(self.density.covariance))
        found = np.quantile(scores, _QUANTILES, axis=0) - norm.ppf(_QUANTILES)[:, None]
        return dict(zip(self.density.names, np.abs(found).max(0).tolist(), strict=True))

    @property
    def converged(self) -> bool:
        """Whether the chains agree, are long enough, and have no divergences."""
        chains = len(self.positions)
        return (
            self.divergences == 0
            and max(self.r_hat.values()) <= _MIXED
            and min(self.effective.values()) >= _ENOUGH * chains
        )

    @property
    def doubts(self) -> str:
        """Reasons to doubt the draws or the Gaussian approximation; empty if there are none."""
        found = []
        chains = len(self.positions)
        worst = max(self.r_hat, key=self.r_hat.__getitem__)
        if not self.r_hat[worst] <= _MIXED:
            found.append(
                f"Chains do not agree: R-hat of {worst} is {self.r_hat[worst]:.3f}, expected at "
                f"most {_MIXED}. Draw more."
            )
        fewest = min(self.effective, key=self.effective.__getitem__)
        if not self.effective[fewest] >= _ENOUGH * chains:
            found.append(
                f"There are {self.effective[fewest]:.0f} effective draws of {fewest}, expected at "
                f"least {_ENOUGH * chains}. Draw more."
            )
        if self.divergences:
            found.append(
                f"{self.divergences} paths were broken off: the density changes too fast there, or "
                "there is no solution."
            )
        far = {name: size for name, size in self.from_laplace.items() if size > _FAR}
        if far:
            shown = ", ".join(f"{name} {size:.2g}" for name, size in far.items())
            found.append(
                "Not Gaussian: quantiles are further from those of posterior(...) than "
                f"{_FAR} standard deviations: {shown}. Trust the draws."
            )
        return " ".join(found)

    def plot(self) -> "Figure":
        """Histograms with the Gaussian approximation, and the chains."""
        from kernelpde.inference._sample_pictures import plot_samples

        return plot_samples(self)

    def __repr__(self) -> str:
        chains, count = np.shape(self.positions)[:2]
        r_hat, effective = self.r_hat, self.effective
        width = max(map(len, self.draws))
        lines = [
            f"Samples: {chains} chains of {count} draws, {self.divergences} divergences",
            f"  {'':{width}}  {'mean':>10} {'std':>10} {'2.5%':>10} {'97.5%':>10} "
            f"{'R-hat':>6} {'effective':>9}",
        ]
        for name in self.draws:
            each = self[name]
            low, high = self.interval(name)
            lines.append(
                f"  {name:{width}}  {np.mean(each):10.4g} {np.std(each):10.2g} {low:10.4g} "
                f"{high:10.4g} {r_hat[name]:6.3f} {math.floor(effective[name]):9d}"
            )
        return "\n".join([*lines, self.doubts] if self.doubts else lines)
