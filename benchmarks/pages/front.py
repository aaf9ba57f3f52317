"""Draw the figure of the README: a plate heated by an unknown source.

python -m benchmarks front

Runs `examples/thermometers.py` and draws its readings, the posterior of the source and the
posterior of the temperature, with the truth of the source beside it.
"""

import os
import runpy
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.patches import Circle

from benchmarks._report import DOCS, parser

TARGET = DOCS / "figures" / "what-heats-the-plate.png"
EXAMPLE = DOCS.parent / "examples" / "thermometers.py"
SIZE = 45


def main(arguments: list[str]) -> None:
    parser(__doc__).parse_args(arguments)
    mpl.use("Agg")
    os.chdir(EXAMPLE.parent)
    draw(runpy.run_path(str(EXAMPLE)))


def draw(example: dict[str, Any]) -> None:
    """Draw the four panels from the variables of the example."""
    posterior, places, values = example["posterior"], example["sensors"], example["values"]
    axis = np.linspace(-1.0, 1.0, SIZE)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    inside = np.linalg.norm(grid - np.array([0.2, 0.1]), axis=1) > 0.4

    def on_grid(function: Any) -> np.ndarray:
        image = np.full(len(grid), np.nan)
        image[inside] = np.asarray(function(grid[inside]))
        return image.reshape(SIZE, SIZE)

    source, temperature = posterior["q"], posterior["T"]
    mean = on_grid(source.mean)
    figure, axes = plt.subplots(1, 4, figsize=(12, 3.2), layout="constrained", dpi=110)
    readings = axes[0].scatter(*places.T, c=values, s=14, cmap="inferno", edgecolors="0.4", lw=0.3)
    figure.colorbar(readings, ax=axes[0], shrink=0.8)
    panels = (
        ("source, true peak (+)", mean, "viridis"),
        ("source, std", on_grid(source.std), "magma"),
        ("temperature, std", on_grid(temperature.std), "magma"),
    )
    for panel, (title, image, colors) in zip(axes[1:], panels, strict=True):
        drawn = panel.imshow(image, origin="lower", extent=(-1, 1, -1, 1), cmap=colors)
        figure.colorbar(drawn, ax=panel, shrink=0.8)
        panel.set_title(title, fontsize=9)
    axes[1].plot(-0.4, 0.45, "w+", markersize=10, markeredgewidth=2)
    axes[0].set_title("150 readings", fontsize=9)
    for panel in axes:
        panel.add_patch(Circle((0.2, 0.1), 0.4, facecolor="none", edgecolor="0.3"))
        panel.set(xlim=(-1, 1), ylim=(-1, 1), aspect="equal", xticks=[-1, 0, 1], yticks=[-1, 0, 1])
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(TARGET)
    print(TARGET.relative_to(DOCS.parent))
