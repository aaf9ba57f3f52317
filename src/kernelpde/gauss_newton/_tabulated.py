"""Fields on a grid or at points, as other libraries have them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float, Int

from kernelpde import checking
from kernelpde.archive import versions
from kernelpde.arrays import Numbers
from kernelpde.errors import InputError
from kernelpde.gauss_newton._pictures import Drawable, field_names, grid_of
from kernelpde.geometry import Grid

if TYPE_CHECKING:
    from pyvista import UnstructuredGrid
    from xarray import Dataset

_LINE, _QUAD, _HEXAHEDRON, _VERTEX = 3, 9, 12, 1
"""Cell types of VTK."""


@dataclass(frozen=True, eq=False)
class Tabulated:
    """Values of fields at points.

    **Attributes:**

    - `coordinates`: their names.
    - `points`: where.
    - `inside`: which of the points are in the domain; at others all values are NaN.
    - `columns`: values by name; of complex fields real and imaginary parts.
    - `grid`: that the points are of, if they are.
    """

    coordinates: tuple[str, ...]
    points: Float[np.ndarray, "n d"]
    inside: Bool[np.ndarray, " n"]
    columns: dict[str, np.ndarray]
    grid: Grid | None

    def to_xarray(self) -> "Dataset":
        """With named dimensions on a grid, else with the dimension "point"."""
        try:
            import xarray
        except ImportError as error:  # pragma: no cover
            raise InputError("This needs xarray: pip install 'kernelpde[export]'.") from error
        if self.grid is None:
            places = {name: ("point", self.points[:, i]) for i, name in enumerate(self.coordinates)}
            data = {name: ("point", values) for name, values in self.columns.items()}
        else:
            axes, shape = tuple(self.grid.axes), self.grid.shape
            places = dict(self.grid.axes) | dict(self.grid.held)
            data = {name: (axes, values.reshape(shape)) for name, values in self.columns.items()}
        about = {"source": f"kernelpde {versions()['kernelpde']}"}
        return xarray.Dataset(data, coords=places, attrs=about)

    def to_pyvista(self) -> "UnstructuredGrid":
        """Cells of the grid with all their corners in the domain, or single points."""
        try:
            import pyvista
        except ImportError as error:  # pragma: no cover
            raise InputError("This needs PyVista: pip install 'kernelpde[pyvista]'.") from error
        places, cells, kind, columns = self.vtk()
        corners = np.column_stack([np.full(len(cells), cells.shape[1]), cells])
        found = pyvista.UnstructuredGrid(
            corners.reshape(-1), np.full(len(cells), kind, dtype=np.uint8), places
        )
        for name, values in columns.items():
            found.point_data[name] = values
        return found

    def vtk(
        self,
    ) -> tuple[Float[np.ndarray, "m 3"], Int[np.ndarray, "c k"], int, dict[str, np.ndarray]]:
        """Points, corners of cells, their VTK type, and values at the points that are kept."""
        dimension = self.points.shape[1]
        if dimension > 3:
            raise InputError(
                f"VTK has three coordinates; got {dimension}. Hold some of them, as in "
                "at={'t': 0.5}, or take xarray or .nc."
            )
        kept = np.ones(len(self.points), dtype=bool)
        if self.grid is None:
            cells, kind = np.arange(len(self.points))[:, None], _VERTEX
        else:
            cells, kind = _cells(self.grid)
            cells = cells[self.inside[cells].all(1)]
            kept = np.zeros(len(self.points), dtype=bool)
            kept[cells] = True
        numbers = np.cumsum(kept) - 1
        places = np.zeros((int(kept.sum()), 3))
        places[:, :dimension] = self.points[kept]
        return places, numbers[cells], kind, {k: v[kept] for k, v in self.columns.items()}


def tabulated(
    owner: str,
    solution: Drawable,
    points: Numbers | None = None,
    resolution: int | Sequence[int] | None = None,
    at: Mapping[str, float] | None = None,
    extra: Mapping[str, Callable[[np.ndarray], Any]] | None = None,
) -> Tabulated:
    """All fields of a solution; arguments as those of `export`, `owner` for messages."""
    coordinates = tuple(solution.problem.space.coordinates)
    if points is None:
        grid = grid_of(solution.problem, resolution, at)
        where, inside = grid.points, grid.inside.reshape(-1)
    else:
        if resolution is not None or at is not None:
            raise InputError(f"{owner}: give points, or a resolution and held coordinates.")
        grid, where = None, checking.points(owner, points, len(coordinates))
        inside = np.ones(len(where), dtype=bool)
    columns: dict[str, np.ndarray] = {}
    for name in field_names(solution.problem):
        values = np.asarray(solution[name](where))
        if np.iscomplexobj(values):
            columns |= {f"{name}_real": np.real(values), f"{name}_imag": np.imag(values)}
        else:
            columns[name] = values
    extra = {} if extra is None else extra
    checking.named(owner, "extra", extra, extra if isinstance(extra, Mapping) else ())
    for name, function in extra.items():
        checking.function(owner, f"extra[{name!r}]", function, "a function of points (n, d)")
        columns[name] = checking.numbers(owner, f"extra[{name!r}]", function(where))
        if columns[name].shape != (len(where),):
            raise InputError(
                f"{owner}: extra[{name!r}] must return one number for each of {len(where)} points; "
                f"got shape {columns[name].shape}."
            )
    columns = {name: np.where(inside, values, np.nan) for name, values in columns.items()}
    return Tabulated(coordinates, where, inside, columns, grid)


def _cells(grid: Grid) -> tuple[np.ndarray, int]:
    """Corner numbers of each cell of a grid, in the order of VTK."""
    corners = np.arange(grid.inside.size).reshape(grid.shape)
    if len(grid.shape) == 1:
        return np.stack([corners[:-1], corners[1:]], axis=-1), _LINE
    square = [(0, 0), (1, 0), (1, 1), (0, 1)]
    if len(grid.shape) == 2:
        around, kind = square, _QUAD
    else:
        around, kind = [(*s, z) for z in (0, 1) for s in square], _HEXAHEDRON
    sizes = [n - 1 for n in grid.shape]
    found = [
        corners[tuple(slice(o, o + n) for o, n in zip(offset, sizes, strict=True))].reshape(-1)
        for offset in around
    ]
    return np.stack(found, axis=1), kind
