"""Solutions for other programs: npz, CSV, NetCDF, VTU."""

import base64
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import quoteattr

import numpy as np

from kernelpde import checking
from kernelpde.archive import replacing, versions
from kernelpde.arrays import Numbers
from kernelpde.errors import InputError
from kernelpde.gauss_newton import Solution, check_solution, field_names, grid_of
from kernelpde.geometry import Grid

FORMATS = (".npz", ".csv", ".nc", ".vtu")


def export(
    solution: Solution,
    path: str | Path,
    *,
    points: Numbers | None = None,
    resolution: int | Sequence[int] | None = None,
    at: Mapping[str, float] | None = None,
    extra: Mapping[str, Callable[[np.ndarray], np.ndarray]] | None = None,
) -> Path:
    """Write the fields of a solution on a grid, or at points of your own.

    The ending of the name says how: `.npz` for numpy; `.csv` for anything, one row per point;
    `.nc` for NetCDF with named dimensions, as xarray reads it; `.vtu` for ParaView, quadrilaterals
    or hexahedra on a grid and single points otherwise.

    **Arguments:**

    - `solution`: what to write.
    - `path`: where; replaced if it exists.
    - `points`: `(n, d)`; a grid over the domain if left out, points outside the domain NaN or left
      out.
    - `resolution`: points along each coordinate of the grid, one number or one for each.
    - `at`: coordinates to hold, for a slice.
    - `extra`: further functions of points by name, for example
      `{"deviation": posterior["u"].deviation}`.
    """
    check_solution("export", solution)
    checking.instance("export", "path", path, (str, Path), "the name of a file, such as 'u.csv'")
    target = Path(path)
    if target.suffix not in FORMATS:
        raise InputError(f"export: the name must end in {', '.join(FORMATS)}; got {target.name!r}.")
    coordinates = solution.problem.space.coordinates
    if points is None:
        grid = grid_of(solution.problem, resolution, at)
        where, inside = grid.points, grid.inside.reshape(-1)
    else:
        if resolution is not None or at is not None:
            raise InputError("export: give points, or a resolution and held coordinates.")
        grid, where = None, checking.points("export", points, len(coordinates))
        inside = np.ones(len(where), dtype=bool)
    columns: dict[str, np.ndarray] = {}
    for name in field_names(solution.problem):
        values = np.asarray(solution[name](where))
        if np.iscomplexobj(values):
            columns |= {f"{name}_real": np.real(values), f"{name}_imag": np.imag(values)}
        else:
            columns[name] = values
    extra = {} if extra is None else extra
    checking.named("export", "extra", extra, extra if isinstance(extra, Mapping) else ())
    for name, function in extra.items():
        checking.function("export", f"extra[{name!r}]", function, "a function of points (n, d)")
        columns[name] = checking.numbers("export", f"extra[{name!r}]", function(where))
        if columns[name].shape != (len(where),):
            raise InputError(
                f"export: extra[{name!r}] must return one number for each of {len(where)} points; "
                f"got shape {columns[name].shape}."
            )
    columns = {name: np.where(inside, values, np.nan) for name, values in columns.items()}
    with replacing(target) as beside:
        if target.suffix == ".npz":
            _write_npz(beside, coordinates, where, columns, grid)
        elif target.suffix == ".csv":
            table = np.column_stack([where, *columns.values()])[inside]
            header = ",".join([*coordinates, *columns])
            np.savetxt(beside, table, fmt="%.17g", delimiter=",", header=header, comments="")
        elif target.suffix == ".nc":
            _write_netcdf(beside, coordinates, where, columns, grid)
        else:
            _write_vtu(beside, where, columns, grid)
    return target


def _write_npz(path, coordinates, where, columns, grid: Grid | None) -> None:
    if grid is None:
        arrays = {name: where[:, i] for i, name in enumerate(coordinates)} | columns
    else:
        held = {name: np.asarray(value) for name, value in grid.held.items()}
        shaped = {name: values.reshape(grid.shape) for name, values in columns.items()}
        arrays = grid.axes | held | shaped
    np.savez(path, allow_pickle=False, **arrays)


def _write_netcdf(path, coordinates, where, columns, grid: Grid | None) -> None:
    try:
        import xarray
    except ImportError as error:  # pragma: no cover
        raise InputError("NetCDF needs xarray: pip install 'kernelpde[export]'.") from error
    if grid is None:
        places = {name: ("point", where[:, i]) for i, name in enumerate(coordinates)}
        data = {name: ("point", values) for name, values in columns.items()}
    else:
        places = dict(grid.axes) | dict(grid.held)
        data = {
            name: (tuple(grid.axes), values.reshape(grid.shape)) for name, values in columns.items()
        }
    about = {"source": f"kernelpde {versions()['kernelpde']}"}
    xarray.Dataset(data, coords=places, attrs=about).to_netcdf(path, engine="scipy")


_LINE, _QUAD, _HEXAHEDRON, _VERTEX = 3, 9, 12, 1
"""Cell types of VTK."""


def _write_vtu(path: Path, where: np.ndarray, columns, grid: Grid | None) -> None:
    """An unstructured grid: cells with all their corners inside, or single points."""
    dimension = where.shape[1]
    if dimension > 3:
        raise InputError(
            f"export: VTU has three coordinates; got {dimension}. Hold some, or write .nc."
        )
    if grid is None:
        cells, kind = np.arange(len(where))[:, None], _VERTEX
        kept = np.ones(len(where), dtype=bool)
    else:
        cells, kind = _cells(grid)
        cells = cells[grid.inside.reshape(-1)[cells].all(1)]
        kept = np.zeros(len(where), dtype=bool)
        kept[cells] = True
    numbers = np.cumsum(kept) - 1
    places = np.zeros((int(kept.sum()), 3))
    places[:, :dimension] = where[kept]
    cells = numbers[cells]
    parts = [
        "<Points>",
        _data("Points", places),
        "</Points><Cells>",
        _data("connectivity", cells.reshape(-1).astype(np.int64)),
        _data("offsets", cells.shape[1] * np.arange(1, len(cells) + 1, dtype=np.int64)),
        _data("types", np.full(len(cells), kind, dtype=np.uint8)),
        "</Cells><PointData>",
        *(_data(name, values[kept]) for name, values in columns.items()),
        "</PointData>",
    ]
    path.write_text(
        '<?xml version="1.0"?>\n<VTKFile type="UnstructuredGrid" version="1.0" '
        'byte_order="LittleEndian" header_type="UInt64">\n<UnstructuredGrid>'
        f'<Piece NumberOfPoints="{len(places)}" NumberOfCells="{len(cells)}">\n'
        + "\n".join(parts)
        + "\n</Piece></UnstructuredGrid></VTKFile>\n"
    )


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


_VTK_TYPES = {"float64": "Float64", "int64": "Int64", "uint8": "UInt8"}


def _data(name: str, values: np.ndarray) -> str:
    content = np.ascontiguousarray(values).astype(values.dtype.newbyteorder("<")).tobytes()
    text = base64.b64encode(np.uint64(len(content)).tobytes() + content).decode()
    width = f'NumberOfComponents="{values.shape[1]}" ' if values.ndim > 1 else ""
    return (
        f'<DataArray type="{_VTK_TYPES[values.dtype.name]}" Name={quoteattr(name)} '
        f'{width}format="binary">{text}</DataArray>'
    )
