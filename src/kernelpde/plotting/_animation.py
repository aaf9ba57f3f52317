"""Animations of fields over time."""

import base64
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kernelpde.checking import check_callable, check_instance, check_integer, check_mapping
from kernelpde.errors import InputError
from kernelpde.geometry import Grid
from kernelpde.io import atomic_write
from kernelpde.plotting._fields import Plottable, to_real
from kernelpde.plotting._style import (
    COLORS,
    aspect_ratio,
    color_limits,
    import_pyplot,
    label_with_unit,
    styled_figure,
)
from kernelpde.problem import field_names, problem_grid

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

    _FrameUpdate = Callable[[int], Artist]

_FORMATS = (".gif", ".mp4")


@dataclass(frozen=True, eq=False)
class Animation:
    """Fields at successive times, displayed by notebooks as an animation.

    **Attributes:**

    - `times`: time of each frame.
    - `time`: name of the time coordinate.
    - `grids`: grid of each frame, since a domain may move.
    - `fields`: by name, the values on the grid at each time, NaN outside the domain.
    - `references`: by name, the values of known solutions, plotted dashed.
    - `units`: units of fields and coordinates.
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

        - `path`: name of the file, ending in .gif or .mp4; replaced if it exists.
        - `fps`: frames per second.
        """
        check_instance("animate", "path", path, (str, Path), "the name of a file, such as 'u.gif'")
        check_integer("animate", "fps", fps)
        target = Path(path)
        if target.suffix not in _FORMATS:
            raise InputError(
                f"animate: the name must end in {' or '.join(_FORMATS)}; got {target.name!r}."
            )
        plt = import_pyplot()
        from matplotlib.animation import FFMpegWriter, FuncAnimation, PillowWriter

        if target.suffix == ".mp4" and not FFMpegWriter.isAvailable():
            raise InputError("animate: an MP4 needs ffmpeg, which is not installed; write a .gif.")
        count = len(self.fields)
        with styled_figure(1, count) as (figure, axes):
            updates = [self._draw_panel(axes[i], name) for i, name in enumerate(self.fields)]
            title = figure.suptitle(" ")

            def draw_frame(frame: int) -> "list[Artist]":
                title.set_text(f"{self.time} = {self.times[frame]:.3g}")
                return [title, *(update(frame) for update in updates)]

            frames = FuncAnimation(figure, draw_frame, frames=len(self.times), blit=False)
            writer = (PillowWriter if target.suffix == ".gif" else FFMpegWriter)(fps=fps)
            with atomic_write(target) as temporary, tempfile.TemporaryDirectory() as directory:
                # The writers choose the format by the file name, which the temporary file changes.
                movie = Path(directory) / target.name
                frames.save(movie, writer=writer, dpi=90)
                temporary.write_bytes(movie.read_bytes())
            plt.close(figure)
        return target

    def _draw_panel(self, axis: "Axes", name: str) -> "_FrameUpdate":
        """Prepare the axes of a field; return the function that draws a frame."""
        frames, references = self.fields[name], self.references.get(name, [])
        values = np.concatenate([frame.reshape(-1) for frame in (*frames, *references)])
        limits = float(np.nanmin(values)), float(np.nanmax(values))
        axis.set_xlabel(label_with_unit(next(iter(self.grids[0].axes)), self.units))
        draw = self._draw_line if len(self.grids[0].axes) == 1 else self._draw_plane
        return draw(axis, name, *limits)

    def _draw_line(self, axis: "Axes", name: str, low: float, high: float) -> "_FrameUpdate":
        frames, references = self.fields[name], self.references.get(name)
        (abscissa,) = self.grids[0].axes.values()
        (line,) = axis.plot([], [], color=COLORS[0], label=name)
        (dashed,) = axis.plot([], [], "--", color="0.25", label="reference")
        axis.update_datalim([(abscissa[0], low), (abscissa[-1], high)])
        axis.autoscale_view()
        axis.set_ylabel(label_with_unit(name, self.units))
        axis.grid()
        if references is not None:
            axis.legend(loc="upper right")

        def update(frame: int) -> "Artist":
            (abscissa,) = self.grids[frame].axes.values()
            line.set_data(abscissa, frames[frame])
            if references is not None:
                dashed.set_data(abscissa, references[frame])
            return line

        return update

    def _draw_plane(self, axis: "Axes", name: str, low: float, high: float) -> "_FrameUpdate":
        frames = [np.ma.masked_invalid(values.T) for values in self.fields[name]]
        (_, x_values), (y_name, y_values) = self.grids[0].axes.items()
        mesh = axis.pcolormesh(
            x_values, y_values, frames[0], shading="nearest", **color_limits(low, high)
        )
        axis.figure.colorbar(mesh, ax=axis, label=label_with_unit(name, self.units))
        axis.set_ylabel(label_with_unit(y_name, self.units))
        axis.set_aspect("auto" if aspect_ratio(self.grids[0]) is None else "equal")

        def update(frame: int) -> "Artist":
            mesh.set_array(frames[frame])
            return mesh

        return update

    def _repr_html_(self) -> str:
        with tempfile.TemporaryDirectory() as directory:
            content = self.save(Path(directory) / "animation.gif").read_bytes()
        data = base64.b64encode(content).decode()
        return f'<img alt="{", ".join(self.fields)}" src="data:image/gif;base64,{data}">'


def animate_fields(
    solution: Plottable,
    fields: Sequence[str],
    references: Mapping[str, Callable],
    frames: int,
    at: Mapping[str, float],
    resolution: int | None,
    units: Mapping[str, str],
) -> Animation:
    """Evaluate fields at successive times; arguments as for `Solution.animate`."""
    problem, space = solution.problem, solution.problem.space
    check_integer("animate", "frames", frames, at_least=2)
    if space.time is None or space.duration is None:
        raise InputError(
            "animate: the domain has no time coordinate; name it: Box(t=(0, 1), ..., time='t')."
        )
    if space.time in at:
        raise InputError(
            f"animate: {space.time!r} varies from frame to frame and cannot be fixed; fix other "
            "coordinates."
        )
    accepted = field_names(problem)
    names = list(fields) or accepted
    unknown = [name for name in names if name not in accepted]
    if unknown:
        raise InputError(f"animate: no field {unknown[0]!r}; there are {', '.join(accepted)}.")
    check = partial(check_callable, expected="a function of points")
    check_mapping("animate", "references", references, accepted, check)
    times = np.linspace(*space.duration, frames)
    grids = tuple(
        problem_grid(problem, resolution, {**at, space.time: float(t)}, free=2) for t in times
    )

    def evaluate(function: Callable) -> list[np.ndarray]:
        return [grid.to_grid(to_real(np.asarray(function(grid.points)))) for grid in grids]

    # References are visible only as dashed lines.
    visible = [name for name in names if name in references and len(grids[0].axes) == 1]
    return Animation(
        times,
        space.time,
        grids,
        {name: evaluate(solution[name]) for name in names},
        {name: evaluate(references[name]) for name in visible},
        units,
    )
