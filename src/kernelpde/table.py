"""Measurements by the names of their columns, from a file or from memory."""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from kernelpde.checking import did_you_mean, instance, listed, shown
from kernelpde.errors import InputError

_MISSING = {"", "na", "n/a", "nan", "null", "none", "-"}
"""Cells that say that there is nothing, in small letters."""


class Table:
    """Columns of equal length by name: numbers, with NaN where a cell is empty, or words.

    **Arguments:**

    - `columns`: one-dimensional arrays by name.
    - `name`: what to call it in messages.

    **Example:**

    ```python
    >>> table = kp.Table({"x": [0.1, 0.5], "u": [0.2, float("nan")]})
    >>> table.complete("u").points("x")
    array([[0.1]])
    ```
    """

    def __init__(self, columns: Mapping[str, Any], name: str = "table"):
        instance("Table", "columns", columns, Mapping, 'a dictionary such as {"x": [0.1, 0.2]}')
        self.name = name
        self.columns = {str(n): _column(np.asarray(c)) for n, c in columns.items()}
        shapes = {n: c.shape for n, c in self.columns.items()}
        if not shapes or len(set(shapes.values())) > 1 or any(len(s) != 1 for s in shapes.values()):
            raise InputError(f"{name}: expected columns of equal length; got {shapes}.")

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, column: str) -> np.ndarray:
        """One column. Numbers must be complete, see `complete`."""
        found = self._found(column)
        if found.dtype.kind == "f" and not np.isfinite(found).all():
            rows = np.flatnonzero(~np.isfinite(found))
            if not np.isnan(found).any():
                raise InputError(f"{self.name}: {column!r} is infinite in row {rows[0] + 1}.")
            raise InputError(
                f"{self.name}: {len(rows)} of {len(self)} rows have no {column!r}, the first is "
                f"row {rows[0] + 1}. Leave them out: table.complete({column!r})."
            )
        return found

    def points(self, *coordinates: str) -> Float[np.ndarray, "n d"]:
        """Several columns side by side, as points: in the order of the domain's coordinates."""
        if not coordinates:
            raise InputError(f"{self.name}: expected names of columns; got none.")
        parts = [self[name] for name in coordinates]
        for name, part in zip(coordinates, parts, strict=True):
            if part.dtype.kind != "f":
                raise InputError(f"{self.name}: column {name!r} has words; expected numbers.")
        return np.stack(parts, axis=1)

    def complete(self, *columns: str) -> "Table":
        """The rows in which these columns have a value; all columns if none is named."""
        names = columns or tuple(self.columns)
        return self._rows(~np.any([_missing(self._found(n)) for n in names], axis=0))

    def only(self, **values: Any) -> "Table":
        """The rows in which columns have given values, as `only(instrument="A")`."""
        same = [self._found(name) == value for name, value in values.items()]
        return self._rows(np.all(same, axis=0))

    def _found(self, column: str) -> np.ndarray:
        if column not in self.columns:
            raise InputError(
                f"{self.name}: no column {column!r}; there are {listed(self.columns)}."
                f"{did_you_mean(column, list(self.columns))}"
            )
        return self.columns[column]

    def _rows(self, kept: np.ndarray) -> "Table":
        if not np.any(kept):
            raise InputError(f"{self.name}: no row is left of {len(self)}.")
        return Table({n: c[kept] for n, c in self.columns.items()}, self.name)

    def __repr__(self) -> str:
        parts = []
        for name, column in self.columns.items():
            gaps = int(np.sum(_missing(column)))
            if column.dtype.kind == "f" and gaps < len(column):
                about = f"{np.nanmin(column):.4g} to {np.nanmax(column):.4g}"
            else:
                about = f"{len(set(column.tolist()))} words" if gaps < len(column) else "empty"
            parts.append(f"  {name}: {about}" + (f", {gaps} missing" if gaps else ""))
        return "\n".join([f"{self.name}: {len(self)} rows", *parts])


def read_table(source: Any) -> Table:
    """Measurements from a CSV file, an `xarray.Dataset` or `DataArray`, or a `pandas.DataFrame`.

    A file needs a header line with the column names; empty cells, `NA` and the like are missing
    values. Each variable and coordinate of xarray becomes a column, one row per grid point.

    **Arguments:**

    - `source`: the name of the file, or the object in memory.

    **Example:**

    ```python
    >>> rows = [[0.1, 0.2], [0.5, 0.7]]
    >>> np.savetxt("readings.csv", rows, delimiter=",", header="x,u", comments="")
    >>> kp.read_table("readings.csv").points("x").shape
    (2, 1)
    ```
    """
    if isinstance(source, str | Path):
        return _from_file(Path(source))
    if hasattr(source, "to_dataframe"):
        named = source if hasattr(source, "data_vars") or source.name else source.rename("value")
        source = named.to_dataframe().reset_index()
    if hasattr(source, "columns") and hasattr(source, "to_numpy"):
        return Table({str(name): source[name].to_numpy() for name in source.columns})
    if isinstance(source, Mapping):
        return Table(source)
    raise InputError(
        "read_table: expected the name of a CSV file, or data of xarray or pandas; got "
        f"{shown(source)}."
    )


def _from_file(path: Path) -> Table:
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            start = file.read(4096)
            file.seek(0)
            rows = [row for row in csv.reader(file, delimiter=_delimiter(start)) if any(row)]
    except OSError as error:
        raise InputError(f"read_table: cannot read {path.name!r}: {error.strerror}.") from error
    if len(rows) < 2:
        raise InputError(f"read_table: {path.name!r} has no rows below its line of names.")
    names = [cell.strip() for cell in rows[0]]
    if len(set(names)) != len(names) or not all(names) or all(map(_is_number, names)):
        raise InputError(
            f"read_table: the first line of {path.name!r} must name its columns; got {names}."
        )
    for number, row in enumerate(rows[1:], 2):
        if len(row) != len(names):
            raise InputError(
                f"read_table: line {number} of {path.name!r} has {len(row)} cells; expected "
                f"{len(names)}."
            )
    cells = zip(*rows[1:], strict=True)
    return Table({n: np.array(c, object) for n, c in zip(names, cells, strict=True)}, path.name)


def _delimiter(text: str) -> str:
    """What occurs most in the line of names."""
    line = text.partition("\n")[0]
    return max(",;\t", key=line.count)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return cell.strip().lower() not in _MISSING


def _column(cells: np.ndarray) -> np.ndarray:
    """Numbers where all cells that are not empty are numbers; otherwise words."""
    if cells.dtype.kind in "fiub":
        return cells.astype(float)
    if cells.dtype.kind in "Mm":
        raise InputError(
            "Table: expected numbers or words; got dates. Subtract the first one and divide by a "
            "unit, such as (t - t[0]) / np.timedelta64(1, 's')."
        )
    words = ["" if cell is None else str(cell).strip() for cell in cells.tolist()]
    if all(_is_number(word) or word.lower() in _MISSING for word in words):
        return np.array([float(w) if _is_number(w) else np.nan for w in words])
    return np.array(words, object)


def _missing(column: np.ndarray) -> np.ndarray:
    if column.dtype.kind == "f":
        return np.isnan(column)
    return np.array([word.lower() in _MISSING for word in column])
