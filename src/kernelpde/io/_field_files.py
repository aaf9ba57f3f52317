"""Files of field values on grids: NetCDF, CSV, NPZ and VTU."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from kernelpde.errors import InputError
from kernelpde.io._archive import atomic_write

if TYPE_CHECKING:
    from pyvista import UnstructuredGrid
    from xarray import Dataset

FORMATS = (".nc", ".csv", ".npz", ".vtu")
"""Suffixes of files that `write_fields` and `kernelpde export` write."""


@runtime_checkable
class Tabulated(Protocol):
    """Fields that can be evaluated on a grid, as a dataset or as a mesh."""

    def to_xarray(self, *, resolution: int | None, at: Mapping[str, float] | None) -> "Dataset": ...
    def to_pyvista(
        self, *, resolution: int | None, at: Mapping[str, float] | None
    ) -> "UnstructuredGrid": ...


def write_fields(
    fields: Tabulated, target: Path, at: Mapping[str, float], resolution: int | None
) -> Path:
    """Write fields on a grid, in the format of the file's suffix."""
    if target.suffix not in FORMATS:
        raise InputError(f"export: the name must end in {', '.join(FORMATS)}; got {target.name!r}.")
    fixed = dict(at) or None
    with atomic_write(target) as path:
        if target.suffix == ".vtu":
            fields.to_pyvista(resolution=resolution, at=fixed).save(path)
            return target
        dataset = fields.to_xarray(resolution=resolution, at=fixed)
        if target.suffix == ".nc":
            dataset.to_netcdf(path, engine="scipy")
        elif target.suffix == ".npz":
            arrays = {str(name): v.values for name, v in dataset.variables.items()}
            np.savez(path, allow_pickle=False, **arrays)
        else:
            frame = dataset.to_dataframe().dropna().reset_index()
            frame[[*dataset.coords, *dataset]].to_csv(path, index=False)
    return target
