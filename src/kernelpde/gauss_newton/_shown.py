"""What every solution can be turned into."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from kernelpde.arrays import Numbers
from kernelpde.gauss_newton._animation import Animation, animation
from kernelpde.gauss_newton._pictures import Drawable
from kernelpde.gauss_newton._tabulated import tabulated
from kernelpde.notebooks import InNotebooks

if TYPE_CHECKING:
    from pyvista import UnstructuredGrid
    from xarray import Dataset


class Shown(InNotebooks):
    """Tables, grids and moving pictures of fields."""

    def to_xarray(
        self,
        *,
        points: Numbers | None = None,
        resolution: int | Sequence[int] | None = None,
        at: Mapping[str, float] | None = None,
        extra: Mapping[str, Callable[[Any], Any]] | None = None,
    ) -> "Dataset":
        """The fields on a grid, or at points, as xarray has them; arguments as of `export`."""
        found = tabulated("to_xarray", cast("Drawable", self), points, resolution, at, extra)
        return found.to_xarray()

    def to_pyvista(
        self,
        *,
        points: Numbers | None = None,
        resolution: int | Sequence[int] | None = None,
        at: Mapping[str, float] | None = None,
        extra: Mapping[str, Callable[[Any], Any]] | None = None,
    ) -> "UnstructuredGrid":
        """The fields on a grid, or at points, for PyVista; arguments as of `export`."""
        found = tabulated("to_pyvista", cast("Drawable", self), points, resolution, at, extra)
        return found.to_pyvista()

    def animate(
        self,
        *fields: str,
        references: Mapping[str, Callable] | None = None,
        frames: int = 40,
        at: Mapping[str, float] | None = None,
        resolution: int | None = None,
        units: Mapping[str, str] | None = None,
    ) -> Animation:
        """An animation of the fields over time: `solution.animate().save("u.gif")`.

        **Arguments:**

        - `*fields`: names of fields to show; all by default.
        - `references`: for each field with a known solution a function of points, drawn dashed
          if space has one coordinate.
        - `frames`: number of frames.
        - `at`: coordinates to fix; spatial ones beyond two are fixed in the middle of the domain.
        - `resolution`: number of points along each coordinate.
        - `units`: of fields and coordinates, for the labels.
        """
        return animation(cast("Drawable", self), fields, references, frames, at, resolution, units)
