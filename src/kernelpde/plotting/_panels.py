"""Figures of panels (functions on a line or in a plane) and of charts (values over steps)."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from kernelpde.arrays import TINY
from kernelpde.errors import InputError
from kernelpde.geometry import Grid
from kernelpde.plotting._style import (
    COLORS,
    MARKERS,
    aspect_ratio,
    color_limits,
    label_with_unit,
    styled_figure,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colorbar import Colorbar
    from matplotlib.figure import Figure

Kind = Literal["values", "magnitude", "log"]

_LOG_RANGE = 1e-6
"""Range of a logarithmic color scale, relative to the largest value. Smaller values are rounding
errors or zeros. Half and double change the scale by a twentieth."""


@dataclass(frozen=True, eq=False)
class Panel:
    """One function on a grid.

    **Attributes:**

    - `title`: title above the axes.
    - `values`: values at the points of the grid, NaN outside the domain.
    - `kind`: `"values"` of either sign, `"magnitude"` from zero up, or `"log"` for a logarithmic
      scale.
    - `label`: label of the color bar, or of the vertical axis in one dimension.
    - `overlay`: in one dimension, the name and the values of a second function, plotted dashed.
    - `band`: in one dimension, the half width of a band around the values.
    - `points`: sets of points to mark, by name, in the free coordinates.
    """

    title: str
    values: np.ndarray
    kind: Kind = "values"
    label: str = ""
    overlay: tuple[str, np.ndarray] | None = None
    band: np.ndarray | None = None
    points: Mapping[str, np.ndarray] = field(default_factory=dict)


def draw_panels(
    panels: Sequence[Panel], grid: Grid, units: Mapping[str, str] | None = None
) -> "Figure":
    """Draw one panel per function, all on the same grid."""
    if len(grid.axes) > 2:
        raise InputError(
            f"A plot requires one or two free coordinates; got {', '.join(grid.axes)}. Fix the "
            "others, for example at={'z': 0.5}."
        )
    columns = min(len(panels), 4) if len(panels) % 4 == 0 or len(panels) < 4 else 3
    rows = -(-len(panels) // columns)
    # The row height follows the aspect ratio, otherwise a long channel leaves most of it white.
    stretch = (1 + 2 * (aspect_ratio(grid) or 1)) / 3
    with styled_figure(rows, columns, stretch) as (figure, axes):
        draw = _draw_line if len(grid.axes) == 1 else _draw_plane
        for index, panel in enumerate(panels):
            draw(axes[index], panel, grid, units or {})
        for axis in axes[len(panels) :]:
            axis.set_axis_off()
        if grid.fixed:
            at = ", ".join(f"{name} = {value:g}" for name, value in grid.fixed.items())
            figure.suptitle(f"at {at}")
    return figure


def _draw_line(axis: "Axes", panel: Panel, grid: Grid, units: Mapping[str, str]) -> None:
    ((name, abscissa),) = grid.axes.items()
    if panel.kind == "log":
        axis.set_yscale("log")
    if panel.band is not None:
        low, high = panel.values - panel.band, panel.values + panel.band
        axis.fill_between(abscissa, low, high, color=COLORS[0], alpha=0.25, lw=0, label="95%")
    if panel.overlay is not None:
        label, values = panel.overlay
        axis.plot(abscissa, values, "--", color="0.25", label=label, zorder=3)
    axis.plot(abscissa, panel.values, color=COLORS[0], label=panel.label or None)
    on_axis = {"transform": axis.get_xaxis_transform(), "clip_on": False}
    for index, (label, points) in enumerate(panel.points.items(), start=1):
        x, color = points[:, 0], COLORS[index % len(COLORS)]
        axis.plot(x, np.zeros(len(x)), "|", ms=7, color=color, label=label, **on_axis)
    axis.grid()
    axis.set(title=panel.title, xlabel=label_with_unit(name, units), ylabel=panel.label)
    if panel.overlay is not None or panel.band is not None or panel.points:
        axis.legend()


def _draw_plane(axis: "Axes", panel: Panel, grid: Grid, units: Mapping[str, str]) -> None:
    from matplotlib.colors import LogNorm

    (x_name, x_values), (y_name, y_values) = grid.axes.items()
    values = np.ma.masked_invalid(panel.values.T)
    shading = "nearest" if values.mask.any() else "gouraud"
    options: dict[str, Any] = {"shading": shading, "rasterized": True}
    low, high = (0.0, 1.0) if values.count() == 0 else (float(values.min()), float(values.max()))
    if panel.kind == "log":
        top = max(high, TINY)
        bottom = max(low, _LOG_RANGE * top)
        options |= {"cmap": "magma", "norm": LogNorm(bottom, top)}
        values = np.ma.maximum(values, bottom)
    elif panel.kind == "magnitude":
        options |= {"cmap": "magma", "vmin": 0.0, "vmax": high}
    else:
        options |= color_limits(low, high)
    mesh = axis.pcolormesh(x_values, y_values, values, **options)
    bar = axis.figure.colorbar(mesh, ax=axis, label=panel.label)
    if panel.kind != "log":
        _format_ticks(bar, low, high, panel.label)
    for index, (label, points) in enumerate(panel.points.items()):
        size = np.clip(60 / np.sqrt(max(len(points), 1)), 1, 5)
        style = {"ms": size, "mew": 0, "color": ("black", *COLORS[1:])[index % len(COLORS)]}
        axis.plot(*points.T, ".", label=label, clip_on=False, **style)
    x_label, y_label = label_with_unit(x_name, units), label_with_unit(y_name, units)
    axis.set(title=panel.title, xlabel=x_label, ylabel=y_label)
    if panel.points:
        position = {"loc": "outside lower left", "frameon": False}
        axis.figure.legend(ncols=len(panel.points), markerscale=2, **position)
    axis.set_aspect("auto" if aspect_ratio(grid) is None else "equal")


def _format_ticks(bar: "Colorbar", low: float, high: float, label: str) -> None:
    """Show few digits, and put a power of ten into the label: above, it would hit the title."""
    size = max(abs(low), abs(high))
    power = int(np.floor(np.log10(size))) if size > 0 else 0
    if -3 < power < 3:
        power = 0
    bar.ax.yaxis.set_major_formatter(lambda value, _: f"{value / 10.0**power:.6g}")
    if power:
        bar.set_label(rf"{label} ($\times 10^{{{power}}}$)".strip())


@dataclass(frozen=True, eq=False)
class Curve:
    """Values over steps.

    **Attributes:**

    - `name`: name in the legend.
    - `steps`, `values`: coordinates of the points.
    - `secondary`: whether the curve is plotted as grey dots in the background.
    """

    name: str
    steps: np.ndarray
    values: np.ndarray
    secondary: bool = False


@dataclass(frozen=True, eq=False)
class Chart:
    """Curves in common axes.

    **Attributes:**

    - `title`, `xlabel`: title and label of the horizontal axis.
    - `curves`: the curves, of which those without finite values are left out.
    - `log_y`: whether the vertical axis is logarithmic, provided all values are positive.
    - `log_x`: whether the horizontal axis is logarithmic.
    """

    title: str
    xlabel: str
    curves: Sequence[Curve]
    log_y: bool = True
    log_x: bool = False


def draw_charts(charts: Sequence[Chart]) -> "Figure":
    """Draw charts side by side."""
    with styled_figure(1, len(charts)) as (figure, axes):
        for index, chart in enumerate(charts):
            _draw_chart(axes[index], chart)
    return figure


def _draw_chart(axis: "Axes", chart: Chart) -> None:
    curves = [curve for curve in chart.curves if np.isfinite(curve.values).any()]
    positive = all(np.nanmin(curve.values) > 0 for curve in curves)
    if chart.log_x:
        axis.set_xscale("log")
    if chart.log_y and positive:
        axis.set_yscale("log")
    styles = itertools.cycle(range(len(COLORS)))
    # Secondary curves are drawn first, so that they are in the background.
    for curve in sorted(curves, key=lambda curve: not curve.secondary):
        style: dict[str, Any] = {"marker": ".", "ls": "", "color": "0.65"}
        if not curve.secondary:
            index = next(styles)
            style = {"marker": MARKERS[index], "color": COLORS[index]}
        axis.plot(curve.steps, curve.values, label=curve.name, **style)
    axis.grid()
    axis.set(title=chart.title, xlabel=chart.xlabel)
    if any(curve.name for curve in curves):
        axis.legend()
