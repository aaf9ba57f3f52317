"""Values of fields at points, as xarray datasets and PyVista grids."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float

from kernelpde.checking import requires_extra
from kernelpde.errors import InputError
from kernelpde.io._archive import versions

if TYPE_CHECKING:
    from pyvista import UnstructuredGrid
    from xarray import Dataset


@dataclass(frozen=True, eq=False)
class FieldTable:
    """Values of fields at points.

    **Attributes:**

    - `coordinates`: names of the coordinates.
    - `points`: one row per point.
    - `inside`: whether each point is in the domain. Outside, all values are NaN.
    - `columns`: values by name, with real and imaginary parts of complex fields.
    - `axes`: if the points form a grid, the values along each free coordinate, otherwise `None`.
      The last coordinate changes fastest.
    - `fixed`: values of the fixed coordinates of a grid.
    """

    coordinates: tuple[str, ...]
    points: Float[np.ndarray, "n d"]
    inside: Bool[np.ndarray, " n"]
    columns: dict[str, np.ndarray]
    axes: dict[str, np.ndarray] | None
    fixed: dict[str, float]

    def to_xarray(self) -> "Dataset":
        """Return a dataset with one dimension per free coordinate of a grid, else "point"."""
        with requires_extra("to_xarray", "export"):
            import xarray
        if self.axes is None:
            names = enumerate(self.coordinates)
            coords = {name: ("point", self.points[:, axis]) for axis, name in names}
            data = {name: ("point", values) for name, values in self.columns.items()}
        else:
            shape = tuple(map(len, self.axes.values()))
            coords = self.axes | self.fixed
            data = {name: (tuple(self.axes), v.reshape(shape)) for name, v in self.columns.items()}
        attributes = {"source": f"kernelpde {versions()['kernelpde']}"}
        return xarray.Dataset(data, coords=coords, attrs=attributes)

    def to_pyvista(self) -> "UnstructuredGrid":
        """Return the cells of a grid with all corners in the domain, or a cloud of points."""
        with requires_extra("to_pyvista", "pyvista"):
            import pyvista
        dimension = len(self.coordinates)
        if dimension > 3:
            raise InputError(
                f"to_pyvista: VTK has three coordinates; got {dimension}. Fix the others, for "
                "example at={'t': 0.5}, or use to_xarray."
            )
        if self.axes is None:
            points = np.zeros((len(self.points), 3))
            points[:, :dimension] = self.points
            cloud = pyvista.PolyData(points)
            cloud.point_data.update(self.columns)
            return cloud.cast_to_unstructured_grid()
        lines = [np.unique(self.points[:, i]) for i in range(dimension)]
        shape = [len(line) for line in lines]
        grid = pyvista.RectilinearGrid(*lines, *[np.zeros(1)] * (3 - dimension))
        for name, values in self.columns.items():
            # The first coordinate changes fastest in VTK.
            grid.point_data[name] = values.reshape(shape).reshape(-1, order="F")
        inside = self.inside.reshape(shape).reshape(-1, order="F")
        # extract_points of a rectilinear grid returns points in single precision.
        cells = grid.cast_to_unstructured_grid().extract_points(
            inside, adjacent_cells=False, pass_point_ids=False, pass_cell_ids=False
        )
        assert isinstance(cells, pyvista.UnstructuredGrid)
        return cells
