"""Fields that move: one picture for each of many times."""

import base64
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelpde.archive import replacing
from kernelpde.checking import function as a_function
from kernelpde.checking import instance, named, whole_number
from kernelpde.drawing import COLORS, STYLE, colors_between, height_ratio, labeled, pyplot
from kernelpde.errors import InputError
from kernelpde.gauss_newton._pictures import Drawable, field_names, grid_of
from kernelpde.geometry import Grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FORMATS = (".gif", ".mp4")


@dataclass(frozen=True, eq=False)
class Animation:
    """Fields at successive times; notebooks display it as an animation.

    **Attributes:**

    - `times`: of the frames.
    - `time`: the name of the time coordinate.
    - `grids`: one for each time, since a domain may move.
    - `fields`: by name, the values on the grid at each time, NaN outside the domain.
    - `references`: the same for the known solutions, drawn dashed.
    - `units`: for the labels.
    """

    times: np.ndarray
    time: str
    grids: tuple[Grid, ...]
    fields: dict[str, list[np.ndarray]]
    references: dict[str, list[np.ndarray]]
    units: Mapping[str, str]

    def save(self, path: str | Path, fps: int = 12) -> Path:
        """Write a GIF, or an MP4 if `ffmpeg` is installed.

        **Arguments:**

        - `path`: ends in .gif or .mp4; replaced if it exists.
        - `fps`: pictures in a second.
        """
        instance("animate", "path", path, (str, Path), "the name of a file, such as 'u.gif'")
        whole_number("animate", "fps", fps)
        target = Path(path)
        if target.suffix not in _FORMATS:
            raise InputError(
                f"animate: the name must end in {' or '.join(_FORMATS)}; got {target.name!r}."
            )
        plt = pyplot()
        from matplotlib.animation import FFMpegWriter, FuncAnimation, PillowWriter

        if target.suffix == ".mp4" and not FFMpegWriter.isAvailable():
            raise InputError("animate: an MP4 needs ffmpeg, which is not installed; write a .gif.")
        with plt.rc_context(STYLE):
            count = len(self.fields)
            figure, axes = plt.subplots(
                1, count, figsize=(4.2 * count, 3.2), squeeze=False, layout="constrained"
            )
            draws = [
                self._panel(axis, name) for axis, name in zip(axes.flat, self.fields, strict=True)
            ]
            title = figure.suptitle("", fontsize=10)

            def show(number: int) -> list[Any]:
                title.set_text(f"{self.time} = {self.times[number]:.3g}")
                return [title, *(draw(number) for draw in draws)]

            moving = FuncAnimation(figure, show, frames=len(self.times), blit=False)
            writer = (PillowWriter if target.suffix == ".gif" else FFMpegWriter)(fps=fps)
            with replacing(target) as beside, tempfile.TemporaryDirectory() as place:
                # The name says what is written, and the file beside has another one.
                drawn = Path(place) / target.name
                moving.save(drawn, writer=writer, dpi=90)
                beside.write_bytes(drawn.read_bytes())
            plt.close(figure)
        return target

    def _panel(self, axis: "Axes", name: str) -> Callable[[int], Any]:
        values, truths = self.fields[name], self.references.get(name)
        sizes = np.concatenate([v.reshape(-1) for v in (*values, *(truths or ()))])
        low, high = float(np.nanmin(sizes)), float(np.nanmax(sizes))
        coordinates = list(self.grids[0].axes.items())
        axis.set_xlabel(labeled(coordinates[0][0], self.units))
        if len(coordinates) == 1:
            margin = 0.05 * (high - low or 1.0)
            (line,) = axis.plot([], [], color=COLORS[0], lw=1.6, label=name)
            (dashed,) = axis.plot([], [], "--", color="0.25", lw=1.2, label="reference")
            axis.set(
                xlim=(coordinates[0][1][0], coordinates[0][1][-1]),
                ylim=(low - margin, high + margin),
                ylabel=labeled(name, self.units),
            )
            axis.grid(alpha=0.3)
            if truths is not None:
                axis.legend(fontsize=8, loc="upper right")

            def draw(number: int) -> Any:
                (across,) = self.grids[number].axes.values()
                line.set_data(across, values[number])
                if truths is not None:
                    dashed.set_data(across, truths[number])
                return line

            return draw
        colors = colors_between(low, high)
        (_, across), (second, upwards) = coordinates
        mesh = axis.pcolormesh(
            across, upwards, np.ma.masked_invalid(values[0].T), shading="nearest", **colors
        )
        axis.figure.colorbar(mesh, ax=axis, shrink=0.9, label=labeled(name, self.units))
        axis.set_ylabel(labeled(second, self.units))
        axis.set_aspect("auto" if height_ratio(self.grids[0]) is None else "equal")

        def paint(number: int) -> Any:
            mesh.set_array(np.ma.masked_invalid(values[number].T))
            return mesh

        return paint

    def _repr_html_(self) -> str:
        with tempfile.TemporaryDirectory() as place:
            content = self.save(Path(place) / "animation.gif").read_bytes()
        coded = base64.b64encode(content).decode()
        return f'<img alt="{", ".join(self.fields)}" src="data:image/gif;base64,{coded}">'


def animation(
    solution: Drawable,
    fields: Sequence[str],
    references: Mapping[str, Callable] | None,
    frames: int,
    at: Mapping[str, float] | None,
    resolution: int | None,
    units: Mapping[str, str] | None,
) -> Animation:
    """See `Solution.animate`."""
    problem, space = solution.problem, solution.problem.space
    whole_number("animate", "frames", frames, at_least=2)
    if space.time is None or space.duration is None:
        raise InputError(
            "animate: the domain has no time coordinate; name it: Box(t=(0, 1), ..., time='t')."
        )
    if at is not None and space.time in at:
        raise InputError(f"animate: {space.time!r} is what moves; hold other coordinates.")
    known = field_names(problem)
    names = list(fields) or known
    unknown = [name for name in names if name not in known]
    if unknown:
        raise InputError(f"animate: no field {unknown[0]!r}; there are {', '.join(known)}.")
    truths = {} if references is None else references
    named("animate", "references", truths, known, partial(a_function, expected="of points"))
    times = np.linspace(*space.duration, frames)
    grids = tuple(
        grid_of(problem, resolution, {**(at or {}), space.time: float(t)}, free=2) for t in times
    )

    def shown(view: Callable, grid: Grid) -> np.ndarray:
        values = np.asarray(view(grid.points))
        return grid.masked(np.abs(values) if np.iscomplexobj(values) else values)

    line = len(grids[0].axes) == 1
    return Animation(
        times,
        space.time,
        grids,
        {name: [shown(solution[name], grid) for grid in grids] for name in names},
        {n: [shown(f, grid) for grid in grids] for n, f in truths.items() if n in names and line},
        units or {},
    )
