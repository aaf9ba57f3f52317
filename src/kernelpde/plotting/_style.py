"""Colors, labels and proportions that all plots share.

The colors remain distinguishable in grey and with the common kinds of color blindness.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelpde.checking import requires_extra
from kernelpde.geometry import Grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""The palette of Okabe and Ito."""

MARKERS = "osD^vP*"

_STYLE: Any = {
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": "medium",
    "figure.constrained_layout.h_pad": 0.07,
    "figure.dpi": 110,
    "figure.figsize": (3.7, 3.2),
    "figure.titlesize": "medium",
    "grid.alpha": 0.3,
    "legend.fontsize": "small",
    "lines.markersize": 3,
    "savefig.dpi": 150,
}
"""Style sheet of all plots. The size of a figure is the size of a panel."""

BAND_WIDTH = 1.96
"""Half width of a band that contains 95% of a Gaussian variable, in standard deviations."""

_CONSTANT = 1e-3
"""Relative variation below which values are plotted as constant: a finer color scale would show
only errors."""

_MIN_SIDE = 0.05
"""Fraction of the largest magnitude that values of both signs exceed. Smaller values of one sign
are errors of a field of the other sign, for which colors about zero waste half of the scale."""


def import_pyplot():
    """Import `matplotlib.pyplot`; raise `InputError` if matplotlib is not installed."""
    with requires_extra("A plot", "plot"):
        from matplotlib import pyplot as plt
    return plt


@contextmanager
def styled_figure(
    rows: int, columns: int, stretch: float = 1.0
) -> "Iterator[tuple[Figure, list[Axes]]]":
    """Make a figure of panels of a common size, whose height is multiplied by `stretch`."""
    plt = import_pyplot()
    with plt.rc_context(_STYLE):
        width, height = plt.rcParams["figure.figsize"]
        size = (columns * width, rows * stretch * height)
        # Panels that are drawn to scale do not fill their part of a figure; this layout closes up.
        figure, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="compressed")
        yield figure, list(axes.flat)


def label_with_unit(name: str, units: Mapping[str, str]) -> str:
    """Return a name with its unit in brackets, or the name if it has no unit."""
    return f"{name} [{units[name]}]" if name in units else name


def color_limits(low: float, high: float) -> dict[str, Any]:
    """Return a color map with its limits: diverging about zero for values of both signs."""
    size = max(-low, high)
    if high - low < _CONSTANT * size:
        low, high = (low + high - _CONSTANT * size) / 2, (low + high + _CONSTANT * size) / 2
    if low < 0.0 < high and min(-low, high) > _MIN_SIDE * size:
        return {"cmap": "RdBu_r", "vmin": -size, "vmax": size}
    return {"cmap": "viridis", "vmin": low, "vmax": high}


def aspect_ratio(grid: Grid) -> float | None:
    """Return height over width of a plane that is plotted to scale.

    `None` if the axes have different units, or if the plane is too far from a square.
    """
    if len(grid.axes) != 2 or "t" in grid.axes:
        return None
    width, height = (float(np.ptp(values)) for values in grid.axes.values())
    return height / width if width > 0 and 1 / 3 < height / width < 3 else None
