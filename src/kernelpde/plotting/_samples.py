"""Plots of posterior samples."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from kernelpde.plotting._style import COLORS, STYLE, import_pyplot

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
    plt = import_pyplot()
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(
            len(draws), 2, figsize=(8, 1.9 * len(draws)), squeeze=False, layout="constrained"
        )
        for (left, right), (name, chains) in zip(axes, draws.items(), strict=True):
            left.hist(chains.reshape(-1), bins=40, density=True, color=COLORS[5], label="draws")
            values = quantiles[name]
            left.plot(
                0.5 * (values[1:] + values[:-1]),
                np.diff(levels) / np.diff(values),
                color=COLORS[1],
                label="Gaussian approximation",
            )
            left.set(xlabel=name, yticks=[])
            for chain, color in zip(chains, COLORS * 9, strict=False):
                right.plot(chain, color=color, linewidth=0.5)
            right.set(ylabel=name)
        axes[0, 0].legend(frameon=False, fontsize=8)
        axes[-1, 1].set(xlabel="draw, by chain")
    return figure
