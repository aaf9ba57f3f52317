"""Pictures of functions on grids and of numbers over steps, with matplotlib.

Colors can be told apart with the common kinds of color blindness and in grey.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from kernelpde.errors import InputError
from kernelpde.geometry import Grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colorbar import Colorbar
    from matplotlib.figure import Figure

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's."""

MARKERS = "osD^vP*"

STYLE: Any = {
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.dpi": 110,
    "savefig.dpi": 150,
}

_CONSTANT = 1e-3
"""Values that differ by less than this part of their size are constant: enlarged they would show
nothing but errors."""

Kind = Literal["values", "sizes", "decades"]


@dataclass(frozen=True, eq=False)
class Panel:
    """A function to be drawn.

    **Attributes:**

    - `title`: above it.
    - `values`: at the points of the grid, NaN where there are none.
    - `kind`: "values" of either sign, "sizes" from zero up, or "decades" on a logarithmic scale.
    - `label`: of its colors.
    - `beside`: in one dimension, another function to be drawn dashed, with its name.
    - `band`: in one dimension, the half width of a band around it.
    - `points`: sets of points to be marked, by name, in the free coordinates.
    """

    title: str
    values: np.ndarray
    kind: Kind = "values"
    label: str = ""
    beside: tuple[str, np.ndarray] | None = None
    band: np.ndarray | None = None
    points: Mapping[str, np.ndarray] = field(default_factory=dict)


def pyplot():
    """matplotlib's, or advice."""
    try:
        from matplotlib import pyplot as plt
    except ImportError as error:  # pragma: no cover
        raise InputError(
            "Pictures need matplotlib: pip install 'kernelpde[plot]', or pip install matplotlib."
        ) from error
    return plt


def draw_panels(
    panels: Sequence[Panel], grid: Grid, units: Mapping[str, str] | None = None
) -> "Figure":
    """A figure with one panel for each function, on a line or in a plane."""
    if len(grid.axes) > 2:
        raise InputError(
            f"A picture has one or two free coordinates; got {', '.join(grid.axes)}. Hold some of "
            "them, as in at={'z': 0.5}."
        )
    plt = pyplot()
    columns = min(len(panels), 4) if len(panels) % 4 == 0 or len(panels) < 4 else 3
    rows = -(-len(panels) // columns)
    # A row is as high as its pictures, with titles and labels: a long channel would leave most of
    # it white. Names of points stand below, three in a line.
    marked = max(len(panel.points) for panel in panels) if len(grid.axes) == 2 else 0
    height = 1.0 + 2.0 * np.clip(height_ratio(grid) or 1.0, 0.4, 1.4) + 0.16 * -(-marked // 3)
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(
            rows,
            columns,
            figsize=(3.3 * columns + 0.4, height * rows + (0.2 if grid.held else 0.0)),
            squeeze=False,
            layout="constrained",
        )
        drawn = _draw_line if len(grid.axes) == 1 else _draw_plane
        if drawn is _draw_plane:
            # Room for the color bars, which the layout does not see.
            figure.set_layout_engine("constrained", wspace=0.16)
        for axis, panel in zip(axes.flat, panels, strict=False):
            drawn(axis, panel, grid, units or {})
        for axis in axes.flat[len(panels) :]:
            axis.set_axis_off()
        if grid.held:
            at = ", ".join(f"{name} = {value:g}" for name, value in grid.held.items())
            figure.suptitle(f"at {at}", fontsize=9)
    return figure


def labeled(name: str, units: Mapping[str, str]) -> str:
    """A name with its unit, if it has one."""
    return f"{name} [{units[name]}]" if name in units else name


def _draw_line(axis: "Axes", panel: Panel, grid: Grid, units: Mapping[str, str]) -> None:
    (name, numbers), *_ = grid.axes.items()
    if panel.kind == "decades":
        axis.set_yscale("log")
    if panel.band is not None:
        low, high = panel.values - panel.band, panel.values + panel.band
        axis.fill_between(numbers, low, high, color=COLORS[0], alpha=0.25, lw=0, label="95%")
    if panel.beside is not None:
        other, values = panel.beside
        axis.plot(numbers, values, "--", color="0.25", lw=1.2, label=other, zorder=3)
    axis.plot(numbers, panel.values, color=COLORS[0], lw=1.6, label=panel.label or None)
    for (mark, points), color in zip(panel.points.items(), COLORS[1:], strict=False):
        axis.plot(
            points[:, 0],
            np.zeros(len(points)),
            "|",
            ms=7,
            color=color,
            label=mark,
            transform=axis.get_xaxis_transform(),
            clip_on=False,
        )
    axis.grid(alpha=0.3)
    axis.set(title=panel.title, xlabel=labeled(name, units), ylabel=panel.label)
    if panel.beside is not None or panel.band is not None or panel.points:
        axis.legend(fontsize=8)


def _draw_plane(axis: "Axes", panel: Panel, grid: Grid, units: Mapping[str, str]) -> None:
    from matplotlib.colors import LogNorm
    from matplotlib.transforms import ScaledTranslation

    (first, across), (second, upwards) = grid.axes.items()
    values = np.ma.masked_invalid(panel.values.T)
    shown: dict[str, Any] = {"shading": "gouraud", "rasterized": True}
    if values.mask.any():
        shown["shading"] = "nearest"
    low, high = (0.0, 1.0) if values.count() == 0 else (float(values.min()), float(values.max()))
    if panel.kind == "decades":
        top = max(high, 1e-300)
        shown |= {"cmap": "magma", "norm": LogNorm(max(low, 1e-6 * top), top)}
        values = np.ma.maximum(values, max(low, 1e-6 * top))
    elif panel.kind == "sizes":
        shown |= {"cmap": "magma", "vmin": 0.0, "vmax": high}
    else:
        shown |= colors_between(low, high)
    mesh = axis.pcolormesh(across, upwards, values, **shown)
    # As high as the picture, whatever its shape.
    beside = axis.inset_axes((1.04, 0.0, 0.05, 1.0))
    bar = axis.figure.colorbar(mesh, cax=beside, label=panel.label)
    if panel.kind != "decades":
        _number(bar, low, high, panel.label)
    for (mark, points), color in zip(panel.points.items(), ("black", *COLORS[1:]), strict=False):
        size = float(np.clip(60 / np.sqrt(max(len(points), 1)), 1.0, 5.0))
        axis.plot(
            points[:, 0], points[:, 1], ".", ms=size, mew=0, color=color, label=mark, clip_on=False
        )
    axis.set(title=panel.title, xlabel=labeled(first, units), ylabel=labeled(second, units))
    if panel.points:
        # Below the label of the axis, which is as far from it in every picture.
        below = ScaledTranslation(0.0, -0.42, axis.figure.dpi_scale_trans)
        axis.legend(
            fontsize=7,
            loc="upper center",
            bbox_to_anchor=(0.5, 0.0),
            bbox_transform=axis.transAxes + below,
            ncols=3,
            markerscale=2,
            frameon=False,
            handletextpad=0.1,
            columnspacing=0.8,
        )
    axis.set_aspect("auto" if height_ratio(grid) is None else "equal")


def _number(bar: "Colorbar", low: float, high: float, label: str) -> None:
    """Ticks of few digits. A power of ten is part of the label: above, it would meet the title."""
    size = max(abs(low), abs(high))
    power = int(np.floor(np.log10(size))) if size > 0 else 0
    if -3 < power < 3:
        power = 0
    bar.ax.yaxis.set_major_formatter(lambda value, _: f"{value / 10.0**power:.6g}")
    if power:
        bar.set_label(rf"{label} ($\times 10^{{{power}}}$)".strip())


def colors_between(low: float, high: float) -> dict[str, Any]:
    """Colors for values of either sign, white at zero, or of one sign; constants look constant."""
    size = max(-low, high)
    if high - low < _CONSTANT * size:
        low, high = (low + high - _CONSTANT * size) / 2, (low + high + _CONSTANT * size) / 2
    if low < 0.0 < high and min(-low, high) > 0.05 * size:
        return {"cmap": "RdBu_r", "vmin": -size, "vmax": size}
    return {"cmap": "viridis", "vmin": low, "vmax": high}


def height_ratio(grid: Grid) -> float | None:
    """Height over width of a plane that is drawn as it is; `None` where units differ, or too far
    from a square."""
    if len(grid.axes) != 2 or "t" in grid.axes:
        return None
    across, upwards = (float(np.ptp(each)) for each in grid.axes.values())
    return upwards / across if across > 0 and 1 / 3 < upwards / across < 3 else None


@dataclass(frozen=True, eq=False)
class Curve:
    """Numbers over steps, to be drawn.

    **Attributes:**

    - `name`: in the legend.
    - `steps`, `values`: what to draw.
    - `faint`: whether they are in the background.
    """

    name: str
    steps: np.ndarray
    values: np.ndarray
    faint: bool = False


@dataclass(frozen=True, eq=False)
class Chart:
    """Curves in one picture.

    **Attributes:**

    - `title`, `xlabel`: above and below.
    - `curves`: what is in it.
    - `logarithmic`: whether numbers are shown by decades; only if all are positive.
    - `decades_across`: whether steps are.
    """

    title: str
    xlabel: str
    curves: Sequence[Curve]
    logarithmic: bool = True
    decades_across: bool = False


def draw_charts(charts: Sequence[Chart]) -> "Figure":
    """A figure with one chart beside the other."""
    plt = pyplot()
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(
            1, len(charts), figsize=(4.2 * len(charts), 3.2), squeeze=False, layout="constrained"
        )
        for axis, chart in zip(axes.flat, charts, strict=True):
            _draw_chart(axis, chart)
    return figure


def _draw_chart(axis: "Axes", chart: Chart) -> None:
    shown = [curve for curve in chart.curves if np.isfinite(curve.values).any()]
    positive = all(np.nanmin(curve.values) > 0 for curve in shown)
    if chart.decades_across:
        axis.set_xscale("log")
    if chart.logarithmic and positive:
        axis.set_yscale("log")
    strong = 0
    for curve in shown:
        if curve.faint:
            axis.plot(curve.steps, curve.values, ".", ms=3, color="0.65", label=curve.name)
            continue
        color, marker = COLORS[strong % len(COLORS)], MARKERS[strong % len(MARKERS)]
        axis.plot(
            curve.steps, curve.values, f"{marker}-", ms=3.5, lw=1.3, color=color, label=curve.name
        )
        strong += 1
    axis.grid(alpha=0.3)
    axis.set(title=chart.title, xlabel=chart.xlabel)
    if any(curve.name for curve in shown):
        axis.legend(fontsize=8)
