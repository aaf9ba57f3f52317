"""Pictures of draws."""

from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import norm

from kernelpde.arrays import array
from kernelpde.drawing import COLORS, STYLE, pyplot

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from kernelpde.inference._samples import Samples


def plot_samples(samples: "Samples") -> "Figure":
    """For each number a histogram of its draws with the Gaussian approximation, and the chains."""
    plt, names, density = pyplot(), samples.density.names, samples.density
    stds = np.sqrt(np.diag(np.asarray(density.covariance)))
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(
            len(names), 2, figsize=(8, 1.9 * len(names)), squeeze=False, layout="constrained"
        )
        for k, name in enumerate(names):
            left, right = axes[k]
            left.hist(samples[name], bins=40, density=True, color=COLORS[5], label="draws")
            # The approximation is Gaussian in positions: its density here is by quantiles.
            levels = np.linspace(1e-3, 1 - 1e-3, 400)
            places = np.tile(np.asarray(density.mode), (len(levels), 1))
            places[:, k] += stds[k] * norm.ppf(levels)
            values = np.asarray(density.values(array(places))[name])
            left.plot(
                0.5 * (values[1:] + values[:-1]),
                np.diff(levels) / np.diff(values),
                color=COLORS[1],
                label="Gaussian approximation",
            )
            left.set(xlabel=name, yticks=[])
            for chain, color in zip(samples.draws[name], COLORS * 9, strict=False):
                right.plot(chain, color=color, linewidth=0.5)
            right.set(ylabel=name)
        axes[0, 0].legend(frameon=False, fontsize=8)
        axes[-1, 1].set(xlabel="draw, by chain")
    return figure
