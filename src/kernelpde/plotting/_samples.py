"""Plots of posterior samples."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from kernelpde.plotting._style import COLORS, styled_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_samples(
    draws: Mapping[str, Float[np.ndarray, "chains draws"]],
    levels: Float[np.ndarray, " n"],
    quantiles: Mapping[str, Float[np.ndarray, " n"]],
) -> "Figure":
    """Plot, for each unknown, the histogram of its draws and the traces of the chains.

    **Arguments:**

    - `draws`: draws of each unknown.
    - `levels`, `quantiles`: probability levels and the quantiles of the Gaussian approximation of
      each unknown at these levels, from which its density is computed.
    """
    with styled_figure(len(draws), 2, stretch=2 / 3) as (figure, axes):
        for row, (name, chains) in enumerate(draws.items()):
            left, right = axes[2 * row : 2 * row + 2]
            left.hist(chains.reshape(-1), bins=40, density=True, color=COLORS[5], label="draws")
            values = quantiles[name]
            middles, density = (values[1:] + values[:-1]) / 2, np.diff(levels) / np.diff(values)
            left.plot(middles, density, color=COLORS[1], label="Gaussian approximation")
            left.set(xlabel=name, yticks=[])
            for index, chain in enumerate(chains):
                right.plot(chain, color=COLORS[index % len(COLORS)], linewidth=0.5)
            right.set(ylabel=name)
        axes[0].legend()
        axes[-1].set(xlabel="draw, by chain")
    return figure
