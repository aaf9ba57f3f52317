"""Base class of solutions: tables, grids and animations of fields."""

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelpde.arrays import Numbers
from kernelpde.checking import check_callable, check_mapping, check_points, to_float_array
from kernelpde.errors import InputError
from kernelpde.io import FieldTable
from kernelpde.plotting import Animation, NotebookDisplay, animate_fields
from kernelpde.problem import Problem, field_names, problem_grid

if TYPE_CHECKING:
    from pyvista import UnstructuredGrid
    from xarray import Dataset


class Exportable(NotebookDisplay, abc.ABC):
    """Fields of a problem that can be tabulated and animated."""

    problem: Problem

    @abc.abstractmethod
    def __getitem__(self, field: str, /) -> Callable: ...

    @abc.abstractmethod
    def residual(self, condition: str, points: Numbers) -> Any: ...

    def to_xarray(
        self,
        *,
        points: Numbers | None = None,
        resolution: int | Sequence[int] | None = None,
        at: Mapping[str, float] | None = None,
        extra: Mapping[str, Callable] | None = None,
    ) -> "Dataset":
        """Return the fields on a grid, or at given points, with NaN outside the domain.

        **Arguments:**

        - `points`: `(n, d)`; a grid over the domain by default.
        - `resolution`: number of points along each coordinate of the grid, one number or one for
          each.
        - `at`: coordinates to fix, for a slice.
        - `extra`: further functions of points by name, for example
          `{"std": posterior["u"].std}`.

        **Example:**

        ```python
        >>> dataset = solution.to_xarray(resolution=11)
        >>> frame = dataset.to_dataframe().dropna().reset_index()
        ```
        """
        return _tabulate("to_xarray", self, points, resolution, at, extra).to_xarray()

    def to_pyvista(
        self,
        *,
        points: Numbers | None = None,
        resolution: int | Sequence[int] | None = None,
        at: Mapping[str, float] | None = None,
        extra: Mapping[str, Callable] | None = None,
    ) -> "UnstructuredGrid":
        """Return the fields on a grid, or at given points; arguments as for `to_xarray`.

        A grid consists of the cells with all corners in the domain.
        """
        return _tabulate("to_pyvista", self, points, resolution, at, extra).to_pyvista()

    def animate(
        self,
        *fields: str,
        references: Mapping[str, Callable] | None = None,
        frames: int = 40,
        at: Mapping[str, float] | None = None,
        resolution: int | None = None,
        units: Mapping[str, str] | None = None,
    ) -> Animation:
        """Animate the fields over time: `solution.animate().save("u.gif")`.

        **Arguments:**

        - `*fields`: names of fields to show; all by default.
        - `references`: for each field with a known solution a function of points, plotted dashed
          if space has one coordinate.
        - `frames`: number of frames.
        - `at`: coordinates to fix; spatial ones beyond two are fixed in the middle of the domain.
        - `resolution`: number of points along each coordinate.
        - `units`: units of fields and coordinates, for the labels.
        """
        return animate_fields(
            self, fields, references or {}, frames, at or {}, resolution, units or {}
        )


def _tabulate(
    caller: str,
    solution: Exportable,
    points: Numbers | None,
    resolution: int | Sequence[int] | None,
    at: Mapping[str, float] | None,
    extra: Mapping[str, Callable] | None,
) -> FieldTable:
    """Evaluate all fields of a solution; arguments as for `to_xarray`."""
    coordinates = tuple(solution.problem.space.coordinates)
    if points is None:
        grid = problem_grid(solution.problem, resolution, at)
        rows, inside = grid.points, grid.inside.reshape(-1)
        axes, fixed = dict(grid.axes), dict(grid.fixed)
    elif resolution is None and at is None:
        rows, axes, fixed = check_points(caller, points, len(coordinates)), None, {}
        inside = np.ones(len(rows), dtype=bool)
    else:
        raise InputError(
            f"{caller}: expected points, or resolution and at for a grid; got both. Remove one of "
            "them."
        )
    columns: dict[str, np.ndarray] = {}
    for name in field_names(solution.problem):
        values = np.asarray(solution[name](rows))
        if np.iscomplexobj(values):
            columns |= {f"{name}_real": np.real(values), f"{name}_imag": np.imag(values)}
        else:
            columns[name] = values
    extra = {} if extra is None else extra
    check_mapping(caller, "extra", extra, None)
    for name, function in extra.items():
        label = f"extra[{name!r}]"
        check_callable(caller, label, function, "a function of points (n, d)")
        columns[name] = to_float_array(caller, label, function(rows))
        if columns[name].shape != (len(rows),):
            raise InputError(
                f"{caller}: {label} must return one number for each of {len(rows)} points; got "
                f"shape {columns[name].shape}."
            )
    columns = {name: np.where(inside, values, np.nan) for name, values in columns.items()}
    return FieldTable(coordinates, rows, inside, columns, axes, fixed)
