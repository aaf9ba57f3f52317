"""Posterior draws of parameters with convergence diagnostics."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Array, Float

from kernelpde.arrays import to_array
from kernelpde.checking import did_you_mean, format_names
from kernelpde.errors import InputError
from kernelpde.inference._density import LogDensity
from kernelpde.inference._estimate import interval_levels
from kernelpde.plotting import plot_samples

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MAX_R_HAT, _MIN_ESS_PER_CHAIN = 1.01, 100
"""Limits of R-hat and of the effective sample size per chain for converged chains, from Vehtari,
Gelman, Simpson, Carpenter and Bürkner (2021)."""

_MAX_DISCREPANCY = 0.25
"""Largest difference of quantiles without a warning, in standard deviations."""


@dataclass(frozen=True, eq=False)
class Samples:
    """Posterior draws of parameters and hyperparameters.

    **Attributes:**

    - `draws`: draws by name, one row per chain. Parameters are in their units, hyperparameters are
      logarithms.
    - `positions`: draws as vectors, see `LogDensity`.
    - `density`: sampled log density.
    - `divergences`: number of divergent trajectories; should be 0.
    - `evaluations`: number of gradient evaluations.
    """

    draws: dict[str, Float[np.ndarray, "chains draws"]]
    positions: Float[Array, "chains draws p"]
    density: LogDensity
    divergences: int
    evaluations: int

    def __getitem__(self, name: str) -> Float[np.ndarray, " n"]:
        """Return the draws of all chains."""
        if name not in self.draws:
            raise InputError(
                f"Samples: unknown name {name!r}; expected one of {format_names(self.draws)}."
                f"{did_you_mean(name, list(self.draws))}"
            )
        return self.draws[name].reshape(-1)

    @cached_property
    def r_hat(self) -> dict[str, float]:
        """Rank-normalized split R-hat by name: near 1 if the chains have mixed."""
        from blackjax.diagnostics import rhat

        return {name: float(rhat(draws)) for name, draws in self.draws.items()}

    @cached_property
    def effective_sample_size(self) -> dict[str, float]:
        """Smaller one of bulk and tail effective sample size, by name."""
        from blackjax.diagnostics import ess_bulk, ess_tail

        return {
            name: min(float(ess_bulk(draws)), float(ess_tail(draws)))
            for name, draws in self.draws.items()
        }

    def quantile(self, name: str, level: float) -> float:
        """Return a quantile of a parameter."""
        return float(np.quantile(self[name], level))

    def interval(self, name: str, level: float = 0.95) -> tuple[float, float]:
        """Return the central credible interval with the given probability."""
        low, high = interval_levels(level)
        return self.quantile(name, low), self.quantile(name, high)

    @cached_property
    def laplace_discrepancy(self) -> dict[str, float]:
        """Largest difference of quantiles between draws and Gaussian approximation, by name.

        In standard deviations of the approximation, over ten levels from 5% to 95%.
        """
        x = np.asarray(self.positions).reshape(-1, len(self.density.names))
        scores = (x - np.asarray(self.density.mode)) / np.sqrt(np.diag(self.density.covariance))
        from scipy.special import ndtri

        levels = _levels(10)
        differences = np.quantile(scores, levels, axis=0) - ndtri(levels)[:, None]
        return dict(zip(self.density.names, np.abs(differences).max(0).tolist(), strict=True))

    @property
    def converged(self) -> bool:
        """True if the chains agree, are long enough, and have no divergences."""
        return not self._convergence_warnings()

    @property
    def warnings(self) -> str:
        """Reasons to distrust the draws or the Gaussian approximation; empty if there are none."""
        messages = self._convergence_warnings()
        discrepancies = ", ".join(
            f"{name} {value:.2g}"
            for name, value in self.laplace_discrepancy.items()
            if value > _MAX_DISCREPANCY
        )
        if discrepancies:
            messages.append(
                "Not Gaussian: quantiles of draws and of posterior(...) differ by more than "
                f"{_MAX_DISCREPANCY} standard deviations: {discrepancies}. Use the draws."
            )
        return " ".join(messages)

    def _convergence_warnings(self) -> list[str]:
        messages = []
        min_ess = _MIN_ESS_PER_CHAIN * len(self.positions)
        worst = max(self.r_hat, key=self.r_hat.__getitem__)
        if not self.r_hat[worst] <= _MAX_R_HAT:
            messages.append(
                f"Chains do not agree: R-hat of {worst} is {self.r_hat[worst]:.3f}, expected at "
                f"most {_MAX_R_HAT}. Increase draws."
            )
        fewest = min(self.effective_sample_size, key=self.effective_sample_size.__getitem__)
        if not self.effective_sample_size[fewest] >= min_ess:
            messages.append(
                f"The effective sample size of {fewest} is "
                f"{self.effective_sample_size[fewest]:.0f}, expected at least {min_ess}. Increase "
                "draws."
            )
        if self.divergences:
            messages.append(
                f"{self.divergences} trajectories diverged: the density changes too fast there, or "
                "the solve does not converge."
            )
        return messages

    def plot(self) -> "Figure":
        """Plot histograms with the Gaussian approximation, and the traces of the chains."""
        density, levels = self.density, _levels(400)
        stds = np.sqrt(np.diag(np.asarray(density.covariance)))
        quantiles = {}
        from scipy.special import ndtri

        for index, name in enumerate(density.names):
            # The approximation is Gaussian in the coordinates of the density, whose components
            # depend monotonically on the unknowns: quantiles transform, densities do not.
            positions = np.tile(np.asarray(density.mode), (len(levels), 1))
            positions[:, index] += stds[index] * ndtri(levels)
            quantiles[name] = np.asarray(density.values(to_array(positions))[name])
        return plot_samples({name: self.draws[name] for name in density.names}, levels, quantiles)

    def __repr__(self) -> str:
        chains, count = np.shape(self.positions)[:2]
        width = max(map(len, self.draws))
        lines = [
            f"Samples: {chains} chains of {count} draws, {self.divergences} divergences",
            f"  {'':{width}}  {'mean':>10} {'std':>10} {'2.5%':>10} {'97.5%':>10} "
            f"{'R-hat':>6} {'effective':>9}",
        ]
        for name in self.draws:
            draws = self[name]
            low, high = self.interval(name)
            ess = math.floor(self.effective_sample_size[name])
            lines.append(
                f"  {name:{width}}  {np.mean(draws):10.4g} {np.std(draws):10.2g} {low:10.4g} "
                f"{high:10.4g} {self.r_hat[name]:6.3f} {ess:9d}"
            )
        return "\n".join([*lines, self.warnings] if self.warnings else lines)


def _levels(count: int) -> Float[np.ndarray, " n"]:
    """Return evenly spaced probability levels."""
    return (np.arange(count) + 0.5) / count
