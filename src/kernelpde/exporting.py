"""Solutions for other programs: npz, CSV, NetCDF, VTU."""

import base64
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import quoteattr

import numpy as np

from kernelpde import checking
from kernelpde.archive import replacing
from kernelpde.arrays import Numbers
from kernelpde.errors import InputError
from kernelpde.gauss_newton import Drawable, Tabulated, check_solution, tabulated

FORMATS = (".npz", ".csv", ".nc", ".vtu")


def export(
    solution: Drawable,
    path: str | Path,
    *,
    points: Numbers | None = None,
    resolution: int | Sequence[int] | None = None,
    at: Mapping[str, float] | None = None,
    extra: Mapping[str, Callable[[np.ndarray], np.ndarray]] | None = None,
) -> Path:
    """Write the fields of a solution on a grid, or at given points.

    The file extension sets the format: `.npz` for numpy; `.csv` for anything, one row per point;
    `.nc` for NetCDF with named dimensions, as xarray reads it; `.vtu` for ParaView, quadrilaterals
    or hexahedra on a grid and single points otherwise.

    **Arguments:**

    - `solution`: what to write: a `Solution`, or an `Evolution`.
    - `path`: where; replaced if it exists.
    - `points`: `(n, d)`; a grid over the domain if left out, points outside the domain NaN or left
      out.
    - `resolution`: points along each coordinate of the grid, one number or one for each.
    - `at`: coordinates to hold, for a slice.
    - `extra`: further functions of points by name, for example
      `{"std": posterior["u"].std}`.

    **Example:**

    ```python
    >>> kp.export(solution, "u.csv", resolution=11).name
    'u.csv'
    ```
    """
    if not isinstance(solution, Drawable):
        check_solution("export", solution)
    checking.instance("export", "path", path, (str, Path), "the name of a file, such as 'u.csv'")
    target = Path(path)
    if target.suffix not in FORMATS:
        raise InputError(f"export: the name must end in {', '.join(FORMATS)}; got {target.name!r}.")
    found = tabulated("export", solution, points, resolution, at, extra)
    with replacing(target) as beside:
        if target.suffix == ".npz":
            _write_npz(beside, found)
        elif target.suffix == ".csv":
            table = np.column_stack([found.points, *found.columns.values()])[found.inside]
            header = ",".join([*found.coordinates, *found.columns])
            np.savetxt(beside, table, fmt="%.17g", delimiter=",", header=header, comments="")
        elif target.suffix == ".nc":
            found.to_xarray().to_netcdf(beside, engine="scipy")
        else:
            _write_vtu(beside, found)
    return target


def _write_npz(path: Path, found: Tabulated) -> None:
    grid = found.grid
    if grid is None:
        arrays = {name: found.points[:, i] for i, name in enumerate(found.coordinates)}
        arrays |= found.columns
    else:
        held = {name: np.asarray(value) for name, value in grid.held.items()}
        shaped = {name: values.reshape(grid.shape) for name, values in found.columns.items()}
        arrays = grid.axes | held | shaped
    np.savez(path, allow_pickle=False, **arrays)


def _write_vtu(path: Path, found: Tabulated) -> None:
    """An unstructured grid: cells with all their corners inside, or single points."""
    places, cells, kind, columns = found.vtk()
    parts = [
        "<Points>",
        _data("Points", places),
        "</Points><Cells>",
        _data("connectivity", cells.reshape(-1).astype(np.int64)),
        _data("offsets", cells.shape[1] * np.arange(1, len(cells) + 1, dtype=np.int64)),
        _data("types", np.full(len(cells), kind, dtype=np.uint8)),
        "</Cells><PointData>",
        *(_data(name, values) for name, values in columns.items()),
        "</PointData>",
    ]
    path.write_text(
        '<?xml version="1.0"?>\n<VTKFile type="UnstructuredGrid" version="1.0" '
        'byte_order="LittleEndian" header_type="UInt64">\n<UnstructuredGrid>'
        f'<Piece NumberOfPoints="{len(places)}" NumberOfCells="{len(cells)}">\n'
        + "\n".join(parts)
        + "\n</Piece></UnstructuredGrid></VTKFile>\n"
    )


_VTK_TYPES = {"float64": "Float64", "int64": "Int64", "uint8": "UInt8"}


def _data(name: str, values: np.ndarray) -> str:
    content = np.ascontiguousarray(values).astype(values.dtype.newbyteorder("<")).tobytes()
    text = base64.b64encode(np.uint64(len(content)).tobytes() + content).decode()
    width = f'NumberOfComponents="{values.shape[1]}" ' if values.ndim > 1 else ""
    return (
        f'<DataArray type="{_VTK_TYPES[values.dtype.name]}" Name={quoteattr(name)} '
        f'{width}format="binary">{text}</DataArray>'
    )
